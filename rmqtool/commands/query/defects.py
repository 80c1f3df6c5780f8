"""Damage of the log that a question met on its way: said, and counted for the exit status."""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING

from rmqtool.findings import Finding, FindingLog
from rmqtool.findings.commitlog import CL_GAP
from rmqtool.findings.wording import counted
from rmqtool.rows import Damage
from rmqtool.scan.classify import Defect
from rmqtool.scan.log_edge import FoundEdge
from rmqtool.scan.record_walk import record_defects, walk_log

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rmqtool.lookup.context import QueryContext
    from rmqtool.progress import Progress
    from rmqtool.rows.messages import MessageRows
    from rmqtool.scan.records import Record

_EXAMINED = 20
"""Places at which the log is looked at for its damage."""


class MetDefects:
    """Takes note of defects.

    Args:
        rows: Tells where they lie.
        progress: Told of each.

    Attributes:
        findings: What was met.
    """

    def __init__(self, rows: MessageRows, progress: Progress) -> None:
        self._rows = rows
        self._progress = progress
        self.findings = FindingLog()

    def note(self, defect: Defect) -> None:
        """Take note of one."""
        row = self._rows.row(defect)
        if isinstance(row, Damage):
            self.findings.add(row.finding())
        self._progress.warn(f"{defect.code.code}: {defect.message}")

    def of_record(self, record: Record) -> Iterator[Damage]:
        """Yield what is wrong with a record that is shown; its row says so, and nothing is told besides."""
        for defect in record_defects(record):
            row = self._rows.row(defect)
            if isinstance(row, Damage):
                self.findings.add(row.finding())
                yield row


def tell_absent(context: QueryContext, defects: MetDefects) -> None:
    """Name the damage of the log at places where index or queue promise a record.

    A wrong item or unit leads to a place where the log is sound: nothing is said of that here.
    """
    edge = FoundEdge.of(context.store)
    told: set[int] = set()
    for offset in sorted(set(context.left_out.absent))[:_EXAMINED]:
        for event in islice(walk_log(edge, offset, offset + 1), 1):
            if isinstance(event, Defect) and event.ends_chain and event.physical_offset not in told:
                told.add(event.physical_offset)
                defects.note(event)


def tell_lost(context: QueryContext, defects: MetDefects, progress: Progress) -> None:
    """Say how many hits lie where files of the log are missing, and count that as damage of the log."""
    lost = context.left_out.lost
    if not lost:
        return
    parts = {context.left_out.missing_part(offset): offset for offset in lost}
    for part, offset in parts.items():
        defects.findings.add(Finding(code=CL_GAP, physical_offset=offset, message=part or ""))
    hits = counted(len(lost), "hit lies", "hits lie")
    where = "; ".join(part for part in parts if part)
    progress.warn(f"{hits} where a file of the log is missing ({where}): the answer is incomplete")
