"""Fields that no checksum protects, compared with the neighbours of a record in queue and log.

One flipped bit of QUEUEID makes a queue that never was, one of QUEUEOFFSET a jump: such a record stands alone
or in another's way, while a queue misses just this one, right here.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from rmqtool.account.records import DAMAGED_CAUSES, Cause, Mark
from rmqtool.formats.message import SMALLEST_RECORD

if TYPE_CHECKING:
    from rmqtool.account.belief import Belief
    from rmqtool.account.records import Survey
    from rmqtool.arrays import Bools, Int64s


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


_SHORT = 2  # records of a run that may be due to chance


class FieldJudge:
    """Leaves out records that are contradicted in what they say of their queue.

    Args:
        belief: what is believed so far, its chains linked.
    """

    def __init__(self, belief: Belief) -> None:
        self.belief = belief
        self.survey, self.evidence, self.from_zero = belief.survey, belief.evidence, belief.from_zero
        self.cause, self.places = belief.cause, belief.places
        self.record_of, self.confirmed = belief.record_of, belief.confirmed

    def leave_out_doubles(self) -> bool:
        """Leave out, of records that claim one place of a queue, those that another queue misses right there.

        Returns:
            Whether there are any: then chains are others.
        """
        units = self.survey.units
        own = np.flatnonzero(~units["light"] & self.belief.kept[self.record_of])
        own = own[self.belief.broken[units["queue"][own]]]
        queues, offsets = units["queue"][own], units["queue_offset"][own]
        order = np.lexsort((offsets, queues))
        same = (np.diff(queues[order]) == 0) & (np.diff(offsets[order]) == 0)
        doubles = own[np.unique(np.concatenate([order[:-1][same], order[1:][same]]))]
        doubles = doubles[~self.confirmed[doubles] & ~self._alone_in_order(own, doubles)]
        places, offsets = units["log_offset"][doubles], units["queue_offset"][doubles]
        liars: set[int] = set()
        for gap in self.belief.gaps() if len(doubles) else ():
            fits = (gap.start <= places) & (places < gap.stop) & (gap.first <= offsets) & (offsets < gap.last)
            for unit in doubles[fits]:
                queue, record = int(units["queue"][unit]), int(self.record_of[unit])
                if queue != gap.queue and self._resembles(gap.queue, queue, record):
                    liars.add(record)
        self.cause[list(liars)] = Cause.FIELDS
        return bool(liars)

    def _alone_in_order(self, own: Int64s, doubles: Int64s) -> Bools:
        """Return which doubles alone lie between those of their queue that come before and after.

        Args:
            own: units, in log order.
            doubles: of them, those that claim a place which another one claims, too.
        """
        units = self.survey.units
        claims = [(int(units["queue"][unit]), int(units["queue_offset"][unit])) for unit in doubles]
        others = own[~np.isin(own, doubles)]
        in_order = np.zeros(len(doubles), bool)
        for number, (unit, (queue, offset)) in enumerate(zip(doubles, claims, strict=True)):
            rows = others[units["queue"][others] == queue]
            place = np.searchsorted(rows, unit)
            offsets = units["queue_offset"][rows]
            in_order[number] = (offsets[:place][-1:] < offset).all() and (offset < offsets[place:][:1]).all()
        fitting = Counter(claim for claim, fits in zip(claims, in_order, strict=True) if fits)
        alone: Bools = np.array([fitting[claim] == 1 for claim in claims], bool)
        return in_order & alone

    def judge(self) -> None:
        """Leave out whole records that are contradicted in what they say of their queue."""
        self._linked = np.zeros(len(self.survey.units), bool)
        for chain in self.belief.chains.values():
            self._linked[chain.rows] = True
        self._count_kept()
        gaps = list(self.belief.gaps())
        tight = [gap for gap in gaps if self._lacks_room(gap)]
        elsewhere = self.belief.listed_elsewhere
        for record in np.flatnonzero((self._suspects() | elsewhere) & self.belief.kept):
            unit = self._own_unit(int(record))
            refuted = elsewhere[record] and not self._vouched(unit)
            if refuted or self._claimed(int(record), gaps if self._is_alone(unit) else tight):
                self.cause[record] = Cause.FIELDS
                self._count_kept()
            elif unit is not None and self._is_made_up(unit):
                self.cause[record], self.belief.unproven[unit] = Cause.FIELDS, True
                self._count_kept()
        self._leave_out_intruders()
        self._forget_left_out()

    def _leave_out_intruders(self) -> None:
        """Leave out records of no chain that a broker would put into their queue, and shift what follows.

        A unit ahead of its queue's end is appended there, whatever its offset says; one behind it is skipped
        (``ConsumeQueue#putMessagePositionInfo``, 4.9.8, 5.3.3).
        """
        units = self.survey.units
        for number in np.flatnonzero(~self._linked & ~units["light"]):
            chain = self.belief.chains.get(int(units["queue"][number]))
            if chain is None or not self.belief.kept[self.record_of[number]]:
                continue
            place = int(np.searchsorted(chain.rows, number))
            before = chain.rows[place - 1] if place else None
            end = 0 if before is None else int(units["queue_offset"][before] + units["count"][before])
            if units["queue_offset"][number] >= end and place < len(chain.rows):
                self.cause[self.record_of[number]] = Cause.FIELDS

    def _count_kept(self) -> None:
        sizes = np.where(self.belief.kept, self.survey.records["total_size"], 0).astype(np.int64)
        self._kept_before = np.concatenate([[0], np.cumsum(sizes)])

    def _suspects(self) -> Bools:
        """Return records that stand alone or in no chain, and plain ones in no queue at all, ``(n,)``."""
        records, units = self.survey.records, self.survey.units
        suspects: Bools = (records["marks"] & Mark.PLAIN) != 0
        suspects[self.record_of] = False
        suspects[self.record_of[~self._linked & ~self.confirmed]] = True
        for chain in self.belief.chains.values():
            cuts = runs_of(self.survey, chain.rows)
            short = np.flatnonzero(np.diff(cuts) <= _SHORT)
            for number in short:
                rows = chain.rows[cuts[number] : cuts[number + 1]]
                if not self.confirmed[rows].any() and not units["light"][rows].any():
                    suspects[self.record_of[rows]] = True
        return suspects

    def _claimed(self, record: int, tight: list[OffsetGap]) -> bool:
        """Whether a queue misses just this record, right here, and has no other room for it."""
        row = self.survey.records[record]
        at, offset = int(row["log_offset"]), int(row["queue_offset"])
        unit = self._own_unit(record)
        own = None if unit is None else int(self.survey.units["queue"][unit])
        vouched = self._vouched(unit)
        for gap in tight:
            if not gap.start <= at < gap.stop or (vouched and not self._lacks_room(gap)):
                continue
            if vouched and not (self._is_alone(unit) and gap.last == gap.first + 1):
                continue
            if len(self.belief.chains[gap.queue].rows) == 1:  # no witness either
                continue
            if gap.queue == own:
                if unit is not None and not self._linked[unit] and self._lacks_room(gap):
                    return True
            elif gap.first <= offset < gap.last and self._resembles(gap.queue, own, record):
                return True
        return not vouched and self._claimed_by_an_end(record, offset, own)

    def _lacks_room(self, gap: OffsetGap) -> bool:
        """Whether the holes of the log have no room for what a gap misses."""
        ends = np.searchsorted(self.places, [gap.start, gap.stop])
        taken = int(self._kept_before[ends[1]] - self._kept_before[ends[0]])
        blanks = self.belief.blank_bytes(gap.start, gap.stop)
        return gap.stop - gap.start - taken - blanks < (gap.last - gap.first) * SMALLEST_RECORD

    def _claimed_by_an_end(self, record: int, offset: int, own: int | None) -> bool:
        """Whether it is the record that would come next in a queue like its own, which ends before it."""
        units = self.survey.units
        least = 0 if own is not None and self._is_unheard_of(own) else _SHORT
        for chain in self.belief.chains.values():
            rows = chain.rows[self.record_of[chain.rows] != record]
            if len(rows) <= least or self.record_of[rows[-1]] > record:
                continue
            end = int(units["queue_offset"][rows[-1]] + units["count"][rows[-1]])
            if chain.queue == own:
                places = self.survey.units["log_offset"][rows[-1]], self.survey.records["log_offset"][record]
                gap = OffsetGap(chain.queue, end, offset, int(places[0]), int(places[1]))
                if _one_byte_apart(end, offset) and (offset < end or self._lacks_room(gap)):
                    return True
            elif end == offset and self._resembles(chain.queue, own, record):
                return True
        return False

    def _vouched(self, unit: int | None) -> bool:
        """Whether its own queue vouches for a record: it follows the one before it, but for what has room."""
        if unit is None or self.confirmed[unit]:
            return unit is not None
        queue, offset = int(self.survey.units["queue"][unit]), int(self.survey.units["queue_offset"][unit])
        if not self._linked[unit]:
            return False
        rows = self.belief.chains[queue].rows
        place = int(np.searchsorted(rows, unit))
        at = int(self.survey.units["log_offset"][unit])
        if not place:
            if self._is_alone(unit) and not self.belief.is_likely(queue):
                return self.from_zero and not offset
            gap = OffsetGap(queue, 0, offset, self.survey.log.start, at)
            return not self.from_zero or not offset or not self._lacks_room(gap)
        before = rows[place - 1]
        end = int(self.survey.units["queue_offset"][before] + self.survey.units["count"][before])
        gap = OffsetGap(queue, end, offset, int(self.survey.units["log_offset"][before]), at)
        return place in self.belief.chains[queue].resets or offset == end or not self._lacks_room(gap)

    def _is_alone(self, unit: int | None) -> bool:
        """Whether a record is all there is of its queue."""
        return unit is None or len(self.belief.chains[int(self.survey.units["queue"][unit])].rows) == 1

    def _is_unheard_of(self, queue: int) -> bool:
        """Whether nothing but one record tells of a queue."""
        chain = self.belief.chains.get(queue)
        return (chain is None or len(chain.rows) <= 1) and not self.belief.is_likely(queue)

    def _is_made_up(self, unit: int) -> bool:
        """Whether one record alone tells of a queue that ``topics.json`` lacks, and of messages before it."""
        number, offset = (int(self.survey.units[name][unit]) for name in ("queue", "queue_offset"))
        if not self.from_zero or not offset or not self._is_alone(unit) or not self._is_unheard_of(number):
            return False
        topic, known = self.survey.queues[number][0], self.evidence.declared
        return topic in known or any(one_letter_apart(topic, one) for one in known)

    def _own_unit(self, record: int) -> int | None:
        """Return the unit of a record in its own queue; None if it has none."""
        first, last = np.searchsorted(self.record_of, [record, record + 1])
        return int(first) if first < last else None

    def _resembles(self, queue: int, own: int | None, record: int) -> bool:
        """Whether a damaged byte, or more where nobody knows that, makes a queue into the claimed one."""
        topic, queue_id = self.survey.queues[queue]
        if own is None:
            return int(self.survey.records["queue_id"][record]) == queue_id
        claimed_topic, claimed_id = self.survey.queues[own]
        if self._is_unheard_of(own):
            return claimed_topic == topic or claimed_id == queue_id
        if claimed_topic == topic:
            return _one_byte_apart(claimed_id, queue_id, 4)
        return claimed_id == queue_id and one_letter_apart(claimed_topic, topic)

    def _forget_left_out(self) -> None:
        """Take out of the chains what contradicts them; what is damaged still shows where it stood."""
        for chain in self.belief.chains.values():
            good = np.isin(self.cause[self.record_of[chain.rows]], (Cause.NONE, *DAMAGED_CAUSES))
            if not good.all():
                chain.resets = frozenset(int(good[:reset].sum()) for reset in chain.resets if good[reset])
                chain.rows = chain.rows[good]


def one_letter_apart(one: str, other: str) -> bool:
    """Whether two names differ in one letter, or in one byte: what is no text is read as one letter."""
    pairs = ((one, other), (one.encode(), other.encode()))
    return any(len(a) == len(b) and sum(x != y for x, y in zip(a, b, strict=True)) == 1 for a, b in pairs)


def _one_byte_apart(one: int, other: int, width: int = 8) -> bool:
    """Whether two integers of so many bytes differ in one of them."""
    differing = (one ^ other) & ((1 << 8 * width) - 1)
    return sum(1 for shift in range(0, 8 * width, 8) if differing >> shift & 0xFF) == 1
