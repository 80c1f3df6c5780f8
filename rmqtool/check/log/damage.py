"""What breaks the chain of records, as findings; and what is just the log's end."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from rmqtool.findings.commitlog import CL_TAIL_DIRTY
from rmqtool.findings.wording import counted
from rmqtool.scan.classify import Defect, classified, ghosts, missing_blank
from rmqtool.scan.gaps import Outcome

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from rmqtool.check.log.segment_scan import SegmentScan
    from rmqtool.check.log.stale_tail import StaleTail
    from rmqtool.findings import Finding


@dataclass(frozen=True, slots=True)
class LogEnd:
    """Where the log ends, and how sure that is: a ``LogEdge`` of a log that was read.

    Attributes:
        last: number of the last file with records; -1 if there is none.
        stale: old records after the end, which are in no scan; None if there are none.
        unclean: whether a torn record at the end is what the next start expects: ``abort`` is there.
        page_writer: see ``LogEdge``.
        stale_from: see ``LogEdge``.
    """

    last: int
    stale: StaleTail | None
    unclean: bool
    page_writer: str = ""
    stale_from: int | None = None


def damage_findings(scans: Sequence[SegmentScan], end: LogEnd) -> Iterator[Finding]:
    """Yield what is wrong with the framing of the log, in log order."""
    for number, scan in enumerate(scans):
        for defect in _defects(scan, number, end):
            yield defect.finding(scan.segment)
    if end.stale is not None:
        yield _stale(end.stale).finding(scans[end.last].segment)


def _defects(scan: SegmentScan, number: int, end: LogEnd) -> Iterator[Defect]:
    segment = scan.segment
    for gap in scan.gaps:
        yield from classified(gap, segment, number, end)
    if number > end.last:
        return
    if scan.ghosts:
        yield ghosts(segment, scan.log_offset)
    if scan.end is Outcome.STOP and scan.log_offset == segment.stop and scan.parts:
        yield missing_blank(segment)


def _stale(stale: StaleTail) -> Defect:
    message = (
        f"{counted(stale.records, 'record')} after the log's end, older than its last one: left by a"
        " truncation, and a start that reaches them accepts them again"
    )
    return Defect(CL_TAIL_DIRTY, stale.start, stale.stop - stale.start, message)
