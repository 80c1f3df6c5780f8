"""One look at a whole log: queue offsets that no record carries, and bytes that hold no true record."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from rmqtool.dispatch.offset_gaps import OffsetGaps, OffsetWalk
from rmqtool.releases import NEWEST
from rmqtool.scan.gap_walk import GapWalk
from rmqtool.scan.gaps import Gap, Outcome

if TYPE_CHECKING:
    import numpy.typing as npt

    from rmqtool.arrays import Int64s
    from rmqtool.scan.walk import MessageBatch
    from rmqtool.store.segments import FileQueue, Segment


_END = (1 << 63) - 1


class Survey(NamedTuple):
    """What is not in a log.

    Attributes:
        gaps: queue offsets between those of its true records.
        starts: ``(n,)`` ascending, physical offsets at which bytes without a true record begin; what lies
            between files and after the last is among them.
        stops: ``(n,)``, the greatest physical offset so far at which such bytes end.
    """

    gaps: OffsetGaps
    starts: Int64s
    stops: Int64s

    def without_record(self, physical_offsets: Int64s) -> npt.NDArray[np.bool_]:
        """Tell which places, ``(n,)``, lie in bytes without a true record."""
        number = np.searchsorted(self.starts, physical_offsets, "right") - 1
        return np.asarray((number >= 0) & (physical_offsets < self.stops[number]))


@dataclass
class _LogSurvey:
    """A survey in the making."""

    offsets: OffsetWalk
    ranges: list[Int64s] = field(default_factory=list)

    def take(self, segment: Segment) -> None:
        walk = GapWalk(segment, NEWEST.records)
        for part in walk.parts(segment.start, segment.stop):
            if isinstance(part, Gap):
                self.add(part.start, part.stop)
            else:
                self._take_batch(part)
        if walk.outcome is Outcome.BLANK:
            self.add(walk.log_offset, segment.stop)
        segment.close()

    def add(self, start: int, stop: int) -> None:
        if start < stop:
            self.ranges.append(np.array([[start, stop]], np.int64))

    def finish(self) -> Survey:
        ranges = np.concatenate(self.ranges)
        ranges = ranges[np.argsort(ranges[:, 0], kind="stable")]
        return Survey(self.offsets.finish(), ranges[:, 0], np.maximum.accumulate(ranges[:, 1]))

    def _take_batch(self, batch: MessageBatch) -> None:
        rows = batch.rows
        true = rows["log_offset"] == rows["physical_offset"]
        if not true.all():
            others = rows[~true]
            self.ranges.append(
                np.column_stack((others["log_offset"], others["log_offset"] + others["total_size"]))
            )
            batch = replace(batch, rows=rows[true], values=batch.values[true])
        if len(batch.gaps):
            self.ranges.append(np.column_stack((batch.gaps["start"], batch.gaps["stop"])))
        self.offsets.add(batch)


def survey(log: FileQueue) -> Survey:
    """Look at all of a log.

    Raises:
        EnvironmentFailureError: a file cannot be opened or read.
    """
    made = _LogSurvey(OffsetWalk(from_zero=log.start == 0))
    made.add(log.stop, _END)
    for one, two in pairwise(log.segments):
        made.add(one.stop, two.start)
    for segment in log:
        made.take(segment)
    return made.finish()
