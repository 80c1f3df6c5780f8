"""Units that point at no record of their queue: at one of another queue, or at none."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from rmqtool.check.queues.report import Detail, Problem, QueueReport
from rmqtool.findings.consumequeue import CQ_DANGLING, CQ_SUPERFLUOUS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rmqtool.arrays import Int64s
    from rmqtool.derived.queue_files import Units
    from rmqtool.reput.blocks import Block


_MOST_PENDING = 1 << 20
_CHUNK_ROWS = 1 << 19


class UnmatchedUnits:
    """Collects such units of many queues, and compares all of them with the log's records at once."""

    def __init__(self, blocks: Sequence[Block]) -> None:
        self._blocks = blocks
        self._pending: list[tuple[QueueReport, Units, Int64s]] = []
        self._count = 0

    def add(self, report: QueueReport, units: Units, rows: Int64s) -> None:
        """Add units of a chunk; their finding comes with `flush`, or sooner when many have gathered."""
        if not len(rows):
            return
        self._pending.append((report, units, rows))
        self._count += len(rows)
        if self._count > _MOST_PENDING:
            self.flush()

    def flush(self) -> None:
        """Report all units that were added."""
        if not self._pending:
            return
        offsets = [units.column("physicalOffset")[rows] for _, units, rows in self._pending]
        records = self._records_among(np.unique(np.concatenate(offsets)))
        for (report, units, rows), places in zip(self._pending, offsets, strict=True):
            is_record = np.isin(places, records)
            report.report(Problem(CQ_SUPERFLUOUS, units, rows[is_record], _tell_other_queue))
            report.report(Problem(CQ_DANGLING, units, rows[~is_record], _tell_no_record))
        self._pending, self._count = [], 0

    def _records_among(self, offsets: Int64s) -> Int64s:
        """Return those of some offsets, ascending, at which a record with units begins."""
        found = np.zeros(len(offsets), np.bool_)
        for block in self._blocks:
            for first in range(0, block.count("units"), _CHUNK_ROWS):
                count = min(_CHUNK_ROWS, block.count("units") - first)
                places = block.read("units", first, count)["physicalOffset"].astype(np.int64)
                found |= np.isin(offsets, places)
        return offsets[found]


def _tell_other_queue(_: int) -> Detail:
    return Detail("points at a record of another queue")


def _tell_no_record(_: int) -> Detail:
    return Detail("points at an offset where no record begins")
