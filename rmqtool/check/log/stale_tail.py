"""Old records after the end of the log: what a truncation leaves on disk.

Recovery cuts a log by moving a position; the bytes after it stay until they are overwritten. New records
then end somewhere among the old ones, and old ones that begin there, or further on, are true in every field.
Two things give them away: they were all stored before the last record of the log, and either bytes that are
no record lie before them (the middle of an old record), or queue offsets come again.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from rmqtool.check.log.record_runs import RecordRun
from rmqtool.scan.gaps import Gap, Outcome

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rmqtool.check.log.segment_scan import SegmentScan


@dataclass(frozen=True, slots=True)
class StaleTail:
    """Old records after the log's end.

    Attributes:
        start: physical offset of the log's end.
        stop: physical offset after the last old record.
        records: old records.
        after_gap: whether bytes that are no record lie between the end and the first of them.
    """

    start: int
    stop: int
    records: int
    after_gap: bool


def stale_candidates(scan: SegmentScan) -> Iterator[StaleTail]:
    """Yield what could be a stale tail in the last file of the log, the longest first.

    Everything in one was stored before the record in front of it.
    """
    latest_after = _latest_after(scan)
    before: RecordRun | None = None
    gap: Gap | None = None
    for number, part in enumerate(scan.parts):
        if isinstance(part, Gap):
            gap = part
            continue
        if before is not None and latest_after[number] < before.last_ms:
            old = [one for one in scan.parts[number:] if isinstance(one, RecordRun)]
            start = part.start if gap is None else gap.start
            yield StaleTail(start, old[-1].stop, sum(one.records for one in old), gap is not None)
        before, gap = part, None


def without_tail(scan: SegmentScan, start: int) -> SegmentScan:
    """Return the parts of a file that lie before ``start``; its reports are left as they are."""
    parts = [replace(part, stop=min(part.stop, start)) for part in scan.parts if part.start < start]
    return replace(scan, parts=parts, end=Outcome.STOP, log_offset=start)


def _latest_after(scan: SegmentScan) -> list[int]:
    """Return for every part the latest store time in it and after it."""
    latest_ms = -(1 << 63)
    found = []
    for part in reversed(scan.parts):
        if isinstance(part, RecordRun):
            latest_ms = max(latest_ms, part.last_ms)
        found.append(latest_ms)
    return found[::-1]
