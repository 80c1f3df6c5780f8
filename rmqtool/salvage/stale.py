"""Old bytes: whole records that a broker had cut off, or that a pooled buffer had kept."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from rmqtool.salvage.causes import Cause
from rmqtool.salvage.rows import in_queue_order

if TYPE_CHECKING:
    from rmqtool.arrays import Bools, Int64s
    from rmqtool.salvage.belief import Belief


_STEP_MS = 1000  # a broker that was started again is later by more than that


@dataclass
class StaleJudge:
    """Leaves out records whose store times go back, where something else says so, too."""

    belief: Belief

    def judge(self) -> None:
        """Mark what is old."""
        if not len(self.belief.cause):
            return
        times = self.belief.times
        latest = np.maximum.accumulate(np.where(self.belief.survey.damaged, 0, times))
        back = np.concatenate([[False], times[1:] < latest[:-1]]) & ~self.belief.odd_times
        edges = np.flatnonzero(np.diff(np.concatenate([[0], back.view(np.int8), [0]])))
        for start, stop in edges.reshape(-1, 2):
            if self._is_stale(int(start), int(stop)):
                self.belief.cause[start:stop][self.belief.cause[start:stop] == Cause.NONE] = Cause.STALE

    def _is_stale(self, start: int, stop: int) -> bool:
        """Whether records whose times go back are old: a clock that was set back leaves no other trace."""
        records, units = self.belief.survey.records, self.belief.survey.units
        first, last = np.searchsorted(self.belief.record_of, [start, stop])
        if self.belief.confirmed[first:last].any():
            return False
        offsets, before = units["queue_offset"][first:last], self._offsets_before[first:last]
        outside = self._unit_before[first:last] < first
        before_it = records[start - 1]
        torn = records["log_offset"][start] != before_it["log_offset"] + before_it["total_size"]
        step_ms = int(self.belief.times[start - 1] - self.belief.times[start])
        if torn and step_ms >= _STEP_MS and self._in_one_file(start, stop):
            return True
        return bool((outside & (before >= 0) & (offsets < before)).any())

    def _in_one_file(self, start: int, stop: int) -> bool:
        """Whether records lie in one file: a broker that cuts its log deletes the files after the cut."""
        ends = self.belief.survey.records["log_offset"][[start, stop - 1]]
        return self.belief.survey.log.segment_at(int(ends[0])) == self.belief.survey.log.segment_at(
            int(ends[1])
        )

    @cached_property
    def _unit_before(self) -> Int64s:
        """The unit before each in its queue, -1 for the first, ``(m,)``."""
        units = self.belief.survey.units
        queues, order = units["queue"], in_queue_order(units)
        before = np.full(len(queues), -1)
        same = queues[order[1:]] == queues[order[:-1]]
        before[order[1:][same]] = order[:-1][same]
        return before

    @cached_property
    def _offsets_before(self) -> Int64s:
        """The queue offset after the unit before, -1 for the first of a queue, ``(m,)``."""
        units, before = self.belief.survey.units, self._unit_before
        return np.where(before >= 0, (units["queue_offset"] + units["count"])[before], -1)


def odd_times(times: Int64s) -> Bools:
    """Tell which store times stick out between two that are in order, ``(n,)``."""
    odd = np.zeros(len(times), bool)
    if len(times) > 2:
        one, here, two = times[:-2], times[1:-1], times[2:]
        odd[1:-1] = (one <= two) & ((here < one) | (here > two))
        odd[0] = times[0] > times[1] and times[1] <= times[2]
    return odd
