"""One file of the log, its splits side by side; each must begin where the one before it ended."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rmqtool.commands.topics.scan import SplitTotals, TotalsTask, add_up_split
from rmqtool.findings import Severity
from rmqtool.scan.classify import classified, classify, missing_blank, unreadable_part
from rmqtool.scan.gap_walk import joined_gaps
from rmqtool.scan.page_tail import last_used_byte
from rmqtool.scan.splits import plan_splits, stitch

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rmqtool.engine import Engine
    from rmqtool.scan.classify import Defect
    from rmqtool.scan.gaps import Gap
    from rmqtool.scan.log_edge import FoundEdge


class SegmentTotals:
    """What lies in one file.

    Args:
        number: of the file in its log, from 0.
        edge: of that log.
        engine: reads the splits.
        split_bytes: what one task reads.

    Attributes:
        segment: the file.
        parts: its splits that count, in order.
        zero_bytes: zeros after the log's last record.
        stale_bytes: other bytes after it that are no damage.
        damaged_bytes: all other bytes in which no record can be followed.
        more_gaps: gaps that are only counted.

    Raises:
        EnvironmentFailureError: the file cannot be opened or read.
    """

    def __init__(self, number: int, edge: FoundEdge, engine: Engine, split_bytes: int) -> None:
        self._number = number
        self._edge = edge
        self.segment = segment = edge.segments[number]
        splits = plan_splits([segment], segment.stop, split_bytes)
        tasks = [TotalsTask(split, None, edge.stale_from) for split in splits]
        self.parts = list(stitch(engine.map(add_up_split, tasks), segment.start, self._again))
        self._gaps = list(joined_gaps(segment, self.parts))
        self.more_gaps = sum(part.more_gaps for part in self.parts)
        self.zero_bytes = self.stale_bytes = 0
        self.damaged_bytes = sum(part.more_gap_bytes for part in self.parts)
        for gap in self._gaps:
            self._count(gap)

    def defects(self) -> Iterator[Defect]:
        """Yield what is wrong, in the words of the plain walk."""
        for part in self.parts:
            for bad in part.unreadable:
                yield unreadable_part(self.segment, bad)
        for gap in self._gaps:
            yield from classified(gap, self.segment, self._number, self._edge)
        last = self.parts[-1] if self.parts else None
        if last is not None and last.next_log_offset == self.segment.stop:
            yield missing_blank(self.segment)

    def _again(self, part: SplitTotals, log_offset: int) -> SplitTotals:
        return add_up_split(TotalsTask(part.split, log_offset, self._edge.stale_from))

    def _count(self, gap: Gap) -> None:
        """Count the bytes of a gap by what they are; only zeros that no record follows are the log's end."""
        zeros = 0
        if gap.stop == self.segment.stop and self._number >= self._edge.last:
            zeros = gap.stop - max(gap.start, self.segment.start + last_used_byte(self.segment))
        self.zero_bytes += zeros
        severity = classify(gap, self.segment, self._number, self._edge).severity
        if severity is Severity.INFO:
            self.stale_bytes += gap.length - zeros
        else:
            self.damaged_bytes += gap.length - zeros
