"""The records of the log added up by queue: each split, the lines between records, and the files.

Like a dump, this takes records that a broker would refuse for a property that is not a number, and those that
claim another place; bodies are not looked at.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from rmqtool.dispatch.totals import QueueTotals
from rmqtool.findings import Severity
from rmqtool.scan.classify import classify
from rmqtool.scan.file_pass import FilePass, GapJob, GapSink
from rmqtool.scan.gaps import Gap, Outcome
from rmqtool.scan.page_tail import last_used_byte

if TYPE_CHECKING:
    from rmqtool.engine import Engine
    from rmqtool.scan.gap_walk import GapWalk
    from rmqtool.scan.log_edge import FoundEdge
    from rmqtool.scan.log_pass import Split
    from rmqtool.scan.walk import MessageBatch


@dataclass
class SplitTotals:
    """Records of a split by queue.

    Attributes:
        queues: the totals.
        has_strangers: whether records claim another place, which hide those that were there.
    """

    queues: QueueTotals = field(default_factory=QueueTotals)
    has_strangers: bool = False


class _TotalsSink(GapSink[SplitTotals]):
    def take(self, batch: MessageBatch, found: SplitTotals) -> None:
        """Add records up."""
        rows = batch.rows
        found.queues.add(batch)
        found.has_strangers |= bool((rows["log_offset"] != rows["physical_offset"]).any())


@dataclass(frozen=True, slots=True)
class TotalsJob(GapJob[SplitTotals]):
    """Totals of all splits; picklable."""

    def sink(self, split: Split, walk: GapWalk) -> _TotalsSink:
        """Return a new sink for a split."""
        del walk
        return _TotalsSink(split, SplitTotals())


class FileTotals(FilePass[SplitTotals]):
    """What lies in one file.

    Attributes:
        blank_bytes: a BLANK that ended the file, to its end.
        zero_bytes: zeros after the log's last record.
        stale_bytes: other bytes after it that are no damage.
        damaged_bytes: all other bytes in which no record can be followed.

    Raises:
        EnvironmentFailureError: the file cannot be opened or read.
    """

    def __init__(self, number: int, edge: FoundEdge, engine: Engine, split_bytes: int) -> None:
        super().__init__(number, edge, engine, TotalsJob(edge.stale_from), split_bytes)
        blanks = (part.log_offset for part in self.parts if part.outcome is Outcome.BLANK)
        self.blank_bytes = sum(self.segment.stop - log_offset for log_offset in blanks)
        self.zero_bytes = self.stale_bytes = 0
        self.damaged_bytes = sum(part.more_gap_bytes for part in self.parts)
        for gap in self.gaps:
            self._count(gap)

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
