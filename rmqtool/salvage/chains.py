"""The records of one queue that follow each other: queue offsets go up by one along the log, but for holes.

Of the runs of a queue those are chosen that can follow each other and hold most records; a queue's units that
another one lists right there outweigh all others.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from rmqtool.formats.message import SMALLEST_RECORD

if TYPE_CHECKING:
    from rmqtool.arrays import Int64s
    from rmqtool.salvage.belief import Belief
    from rmqtool.salvage.survey import Survey


_LOOK_BACK = 64  # runs of a queue that a chain may leap over
_NO_ROOM = 2  # what a leap without room for the lost costs, in records: more than a lone record is worth
_CONFIRMED = 1 << 20  # what one confirmed record is worth: more than any number of others


class OffsetGap(NamedTuple):
    """Queue offsets that no record has: ``first`` to before ``last``, between two places of the log."""

    queue: int
    first: int
    last: int
    start: int
    stop: int


@dataclass
class QueueChain:
    """The records of one queue that follow each other.

    Attributes:
        queue: its number.
        rows: numbers of its units, in order.
        resets: places in ``rows`` where its queue offsets begin again, as after the topic was deleted.
    """

    queue: int
    rows: Int64s
    resets: frozenset[int] = frozenset()


def runs_of(survey: Survey, rows: Int64s) -> Int64s:
    """Return where runs of consecutive queue offsets begin in the units of a queue, and their end."""
    offsets = survey.units["queue_offset"][rows]
    stops = offsets + survey.units["count"][rows]
    cuts = np.concatenate([[0], np.flatnonzero(offsets[1:] != stops[:-1]) + 1, [len(rows)]])
    return cuts if len(cuts) == 2 else np.unique(np.concatenate([cuts, _overlaps(offsets, stops, cuts)]))


def _overlaps(offsets: Int64s, stops: Int64s, cuts: Int64s) -> Int64s:
    """Return where runs are cut, so that of two that overlap either can give way with that alone."""
    found: list[int] = []
    first, after = offsets[cuts[:-1]], stops[cuts[1:] - 1]
    for two in range(1, len(first)):
        for one in range(max(0, two - _LOOK_BACK), two):
            if first[one] < first[two] < after[one]:
                found.append(_place(offsets, cuts, one, int(first[two])))
            if first[two] < after[one] < after[two]:
                found.append(_place(offsets, cuts, two, int(after[one])))
    return np.array(found, np.int64)


def _place(offsets: Int64s, cuts: Int64s, run: int, offset: int) -> int:
    start, stop = int(cuts[run]), int(cuts[run + 1])
    return start + int(np.searchsorted(offsets[start:stop], offset))


@dataclass
class Linker:
    """Chooses, of the runs of one queue, those that can follow each other and hold most records."""

    belief: Belief
    queue: int
    rows: Int64s
    cuts: Int64s

    def __post_init__(self) -> None:
        units, records = self.belief.survey.units, self.belief.survey.records
        rows, cuts = self.rows, self.cuts
        heads, tails = rows[cuts[:-1]], rows[cuts[1:] - 1]
        self.first = units["queue_offset"][heads]
        self.after = units["queue_offset"][tails] + units["count"][tails]
        self.start = units["log_offset"][heads]
        self.stop = units["log_offset"][tails] + records["total_size"][self.belief.record_of[tails]]
        confirmed = np.concatenate([[0], np.cumsum(self.belief.confirmed[rows])])
        self.worth = np.diff(cuts) + _CONFIRMED * (confirmed[cuts[1:]] - confirmed[cuts[:-1]])

    def chain(self) -> QueueChain:
        """Return the chain."""
        if len(self.first) == 1:
            return QueueChain(self.queue, self.rows)
        count = len(self.first)
        score, came_from = np.zeros(count, np.int64), np.full(count, -1)
        for run in range(count):
            score[run] = self.worth[run] - self._cost_of_start(run)
            for other in range(max(0, run - _LOOK_BACK), run):
                cost = self._cost(other, run)
                if cost is not None and score[other] + self.worth[run] - cost > score[run]:
                    score[run], came_from[run] = score[other] + self.worth[run] - cost, other
        chosen = [int(np.argmax(score))]
        while (before := int(came_from[chosen[-1]])) >= 0:
            chosen.append(before)
        chosen.reverse()
        rows = [self.rows[self.cuts[run] : self.cuts[run + 1]] for run in chosen]
        ends = np.cumsum([len(part) for part in rows])
        resets = frozenset(
            int(end)
            for end, one, two in zip(ends, chosen[:-1], chosen[1:], strict=False)
            if self.first[two] < self.after[one]
        )
        return QueueChain(self.queue, np.concatenate(rows), resets)

    def _cost_of_start(self, run: int) -> int:
        if not self.belief.from_zero or not self.first[run]:
            return 0
        return self._cost_of_room(int(self.first[run]), self.belief.survey.log.start, int(self.start[run]))

    def _cost(self, one: int, two: int) -> int | None:
        """Return what it costs to go on with another run; None where it cannot follow."""
        missing = int(self.first[two]) - int(self.after[one])
        if missing >= 0:
            return self._cost_of_room(missing, int(self.stop[one]), int(self.start[two]))
        return _NO_ROOM if self.first[two] == 0 and self.cuts[two + 1] - self.cuts[two] > 1 else None

    def _cost_of_room(self, missing: int, start: int, stop: int) -> int:
        return 0 if missing * SMALLEST_RECORD <= self.belief.room(start, stop) else _NO_ROOM
