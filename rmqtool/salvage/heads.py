"""Heads of damaged records: no checksum bears them out, so they are evidence like any other.

What such a record says of its queue counts where the queue's unit names its place, or where the queue misses
just that message there: between the neighbours that are whole, in a queue that is known. What nothing bears
out stays open: the record is put aside, and neither its queue nor its offset tells of any other message.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections import defaultdict
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from rmqtool.formats.message import SMALLEST_RECORD

if TYPE_CHECKING:
    from rmqtool.arrays import Bools, Int64s
    from rmqtool.salvage.belief import Belief


class _Stand(NamedTuple):
    """A record in its queue."""

    start: int  # physical offset
    stop: int
    first: int  # queue offset
    after: int


class HeadJudge:
    """Tells which damaged records are where they say.

    Args:
        belief: its chains are those of whole records.
    """

    def __init__(self, belief: Belief) -> None:
        self.belief = belief
        records = belief.survey.records
        ends = records["log_offset"] + records["total_size"]
        self._starts, self._stops = belief.places, ends
        sizes = records["total_size"].astype(np.int64)
        self._taken = np.concatenate([[0], np.cumsum(sizes)])
        self._damaged = np.concatenate([[0], np.cumsum(belief.survey.damaged)])
        self._stands: dict[int, list[_Stand]] = {}

    def borne_out(self, units: Int64s) -> Bools:
        """Tell which units of damaged records something bears out, ``(k,)``.

        Args:
            units: numbers of units of damaged records, in log order.
        """
        listed = self.belief.listed_elsewhere
        claims = self._stands_of(units)
        told = self.belief.confirmed[units].copy()
        of_queue: defaultdict[int, list[int]] = defaultdict(list)
        for number, queue in enumerate(self.belief.survey.units["queue"][units].tolist()):
            of_queue[queue].append(number)
        for queue, numbers in of_queue.items():
            for number in numbers:
                if told[number]:
                    insort(self._of(queue), claims[number])
            for place, number in enumerate(numbers):
                if told[number] or listed[self.belief.record_of[units[number]]]:
                    continue
                others = [claims[one] for one in numbers[max(place - 1, 0) : place + 2] if one != number]
                if self._fits(queue, claims[number], others):
                    told[number] = True
                    insort(self._of(queue), claims[number])
        return told

    def _fits(self, queue: int, claim: _Stand, others: list[_Stand]) -> bool:
        """Whether a queue misses a message where one claims to be, and nothing lists another there.

        Args:
            queue: its number.
            claim: of the record.
            others: claims of the damaged records of that queue before and after it.
        """
        belief = self.belief
        listed = belief.evidence.at(belief.survey.queues[queue], np.array([claim.first]))
        stands = self._of(queue)
        if listed["size"][0] > 0 or (not stands and not belief.is_likely(queue)):
            return False
        place = bisect_left(stands, claim)
        before, after = stands[place - 1 : place] if place else [], stands[place : place + 1]
        if not before:
            start, due = belief.survey.log.start, 0 if belief.from_zero else claim.first
        else:
            start, due = before[0].stop, before[0].after
        if claim.first < due or not self._has_room(claim.first - due, start, claim.start):
            return False
        if after:
            missing = after[0].first - claim.after
            return missing >= 0 and self._has_room(missing, claim.stop, after[0].start)
        joined = any(one.after == claim.first or one.first == claim.after for one in others)
        return claim.first == due or joined  # a queue's last record alone proves no gap before it

    def _has_room(self, messages: int, start: int, stop: int) -> bool:
        """Whether so many messages can have been between two places: in holes, or as damaged records."""
        one, two = np.searchsorted(self._starts, [start, stop])
        taken = int(self._taken[two] - self._taken[one]) + self.belief.blank_bytes(start, stop)
        damaged = int(self._damaged[two] - self._damaged[one])
        return messages <= max(stop - start - taken, 0) // SMALLEST_RECORD + damaged

    def _of(self, queue: int) -> list[_Stand]:
        """Return the records of a queue that are known to be in it, in log order."""
        if queue not in self._stands:
            chain = self.belief.chains.get(queue)
            self._stands[queue] = [] if chain is None else self._stands_of(chain.rows)
        return self._stands[queue]

    def _stands_of(self, rows: Int64s) -> list[_Stand]:
        units = self.belief.survey.units[rows]
        stops = self._stops[self.belief.record_of[rows]]
        after = units["queue_offset"] + units["count"]
        columns = (units["log_offset"], stops, units["queue_offset"], after)
        return [_Stand(*row) for row in zip(*(column.tolist() for column in columns), strict=True)]
