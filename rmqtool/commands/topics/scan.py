"""The records of the log added up by queue: each split, the lines between records, and the splits of a file.

Like a dump, this takes records that a broker would refuse for a property that is not a number, and those that
claim another place; bodies are not looked at. Each split of a file must begin where the one before it ended.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from rmqtool.dispatch.totals import QueueTotals
from rmqtool.findings import Severity
from rmqtool.releases import LENIENT
from rmqtool.scan.classify import classified, classify, missing_blank, unreadable_part
from rmqtool.scan.gap_walk import GapWalk, SplitEnd, gap_of, joined_gaps
from rmqtool.scan.gaps import Gap, Outcome
from rmqtool.scan.page_tail import last_used_byte
from rmqtool.scan.splits import plan_splits, stitch

if TYPE_CHECKING:
    from collections.abc import Iterator

    import numpy as np
    import numpy.typing as npt

    from rmqtool.engine import Engine
    from rmqtool.io.reading import UnreadableRange
    from rmqtool.scan.classify import Defect
    from rmqtool.scan.log_edge import FoundEdge
    from rmqtool.scan.splits import Split


MAX_GAPS = 100
"""Gaps of one split that are told apart; the others are counted."""


@dataclass(frozen=True)
class TotalsTask:
    """A range of one segment.

    Attributes:
        split: what is read.
        first_log_offset: physical offset of the first record; None to search the first true one.
        stale_from: see ``GapWalk``.
    """

    split: Split
    first_log_offset: int | None = None
    stale_from: int | None = None


@dataclass
class SplitTotals(SplitEnd):
    """What was found in a split.

    Attributes:
        split: what was read.
        first_log_offset: physical offset of the first record; None if no record begins in the split.
        outcome: as `GapWalk` has it.
        log_offset: likewise.
        totals: records by queue.
        gaps: the first ones, at most ``MAX_GAPS``, and one that reaches the split's end.
        more_gaps: how many more there were.
        more_gap_bytes: their size.
        blank_bytes: a BLANK that ended the file, to its end.
        unreadable: ranges of the file that the disk did not deliver.
        has_strangers: whether records claim another place, which hide those that were there.
    """

    split: Split
    first_log_offset: int | None
    outcome: Outcome = Outcome.STOP
    log_offset: int = 0
    totals: QueueTotals = field(default_factory=QueueTotals)
    gaps: list[Gap] = field(default_factory=list)
    more_gaps: int = 0
    more_gap_bytes: int = 0
    blank_bytes: int = 0
    unreadable: list[UnreadableRange] = field(default_factory=list)
    has_strangers: bool = False


def add_up_split(task: TotalsTask) -> SplitTotals:
    """Add up a split.

    Raises:
        EnvironmentFailureError: the segment cannot be opened or read.
    """
    split, first = task.split, task.first_log_offset
    walk = GapWalk(split.segment, LENIENT, task.stale_from)
    found = SplitTotals(split, walk.guess(split.start, split.stop) if first is None else first)
    if found.first_log_offset is not None:
        for part in walk.parts(found.first_log_offset, split.stop):
            if isinstance(part, Gap):
                _add_gap(part, found)
            else:
                found.totals.add(part)
                rows = part.rows
                found.has_strangers |= bool((rows["log_offset"] != rows["physical_offset"]).any())
                _add_passed(part.gaps, found)
        found.outcome, found.log_offset = walk.outcome, walk.log_offset
        if walk.outcome is Outcome.BLANK:
            found.blank_bytes = split.segment.stop - walk.log_offset
    found.unreadable = walk.unreadable
    return found


def _add_passed(gaps: npt.NDArray[np.void], found: SplitTotals) -> None:
    room = max(MAX_GAPS - len(found.gaps), 0)
    found.gaps += [gap_of(row) for row in gaps[:room]]
    left = gaps[room:]
    found.more_gaps += len(left)
    found.more_gap_bytes += int((left["stop"] - left["start"]).sum())


def _add_gap(gap: Gap, found: SplitTotals) -> None:
    if len(found.gaps) < MAX_GAPS or gap.stop == found.split.stop:
        found.gaps.append(gap)
    else:
        found.more_gaps += 1
        found.more_gap_bytes += gap.length


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
