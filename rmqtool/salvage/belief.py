"""Which true records are believed: fields that no checksum protects are held against their neighbours.

A record can be whole and yet tell a lie: one flipped bit of QUEUEID makes a queue that never was, one of
QUEUEOFFSET a jump; and bytes that a broker had cut off, or a pooled buffer had kept, are whole records, too.
So the queue offsets of every queue must go up by one along the log, but for what holes have room for; store
times must not go back; and what a queue that is still there lists, is so. A record is left out only if
something speaks against it: what is merely odd is kept.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from rmqtool.formats.message import SMALLEST_RECORD
from rmqtool.salvage.evidence import confirmed_units
from rmqtool.salvage.survey import Mark
from rmqtool.topics import LMQ_PREFIX

if TYPE_CHECKING:
    from collections.abc import Iterator

    import numpy.typing as npt

    from rmqtool.salvage.evidence import QueueEvidence
    from rmqtool.salvage.survey import Survey

    Bools = npt.NDArray[np.bool_]
    Int64s = npt.NDArray[np.int64]
    Rows = npt.NDArray[Any]

_LOOK_BACK = 64  # runs of a queue that a chain may leap over
_NO_ROOM = 2  # what a leap without room for the lost costs, in records: more than a lone record is worth
_CONFIRMED = 1 << 20  # what one confirmed record is worth: more than any number of others
_SHORT = 2  # records of a run that may be due to chance
_STEP_MS = 1000  # a broker that was started again is later by more than that


class Cause(IntEnum):
    """Why a true record is not given back."""

    NONE = 0
    BODY = 1  # its body is not what its checksum says
    STALE = 2  # older bytes behind a rewritten tail, or of another life of the file
    FIELDS = 3  # what it says of its queue is contradicted
    CHOICE = 4  # the user's choice: topic, time or offset
    ROOM = 5  # it leaves no room for what must stand beside it


class Gap(NamedTuple):
    """Queue offsets that no record has: ``first`` to before ``last``, between two places of the log."""

    queue: int
    first: int
    last: int
    start: int
    stop: int


@dataclass
class Chain:
    """The records of one queue that follow each other.

    Attributes:
        queue: its number.
        rows: numbers of its units, in order.
        resets: places in ``rows`` where its queue offsets begin again, as after the topic was deleted.
    """

    queue: int
    rows: Int64s
    resets: frozenset[int] = frozenset()


class Belief:
    """Judges the records of a survey.

    Args:
        survey: what was read, of all copies.
        evidence: what queues list.
        from_zero: whether the log begins at 0, so every queue begins at 0, too.
        include_stale: believe what looks stale.

    Attributes:
        places: physical offsets of the records, ``(n,)``.
        cause: why records are left out, ``(n,)`` of ``Cause``.
        chains: by queue number.
    """

    def __init__(
        self, survey: Survey, evidence: QueueEvidence, *, from_zero: bool, include_stale: bool = False
    ) -> None:
        self.survey = survey
        self.evidence = evidence
        self.from_zero = from_zero
        records, units = survey.records, survey.units
        self.cause = np.zeros(len(records), np.uint8)
        self.cause[survey.damaged] = Cause.BODY
        self.places = np.ascontiguousarray(records["log_offset"])  # else each search copies them
        self.record_of = np.searchsorted(self.places, units["log_offset"])
        self.confirmed = confirmed_units(survey, evidence)
        self.odd_times = odd_times(records["store_timestamp_ms"]) & ~self._torn_after
        self.chains: dict[int, Chain] = {}
        self._judge_stale(include_stale=include_stale)
        self._link()
        if self._leave_out_doubles():
            self._link()
        self._judge_fields()

    @property
    def kept(self) -> Bools:
        """Return which records are believed and whole, ``(n,)``."""
        kept: Bools = self.cause == Cause.NONE
        return kept

    @property
    def times(self) -> Int64s:
        """Return store times, odd ones replaced by that of the record before, ``(n,)``."""
        times: Int64s = self.survey.records["store_timestamp_ms"].copy()
        sound = np.where(self.odd_times, -1, np.arange(len(times)))
        last = np.maximum.accumulate(sound) if len(times) else sound
        return times[np.maximum(last, 0)]

    def leave_out(self, records: Bools, cause: Cause) -> None:
        """Leave records out that were kept so far."""
        self.cause[records & self.kept] = cause

    def room(self, start: int, stop: int) -> int:
        """Return the bytes between two places that no record without doubt takes."""
        ends = np.searchsorted(self.places, [start, stop])
        taken = self._taken_before[ends[1]] - self._taken_before[ends[0]]
        return int(stop - start - taken) - self._blank_bytes(start, stop)

    def gaps(self) -> Iterator[Gap]:
        """Yield the queue offsets that no record of a chain has, up to each queue's last record."""
        units, records = self.survey.units, self.survey.records
        for chain in self.chains.values():
            rows = chain.rows
            if not len(rows):
                continue
            offsets = units["queue_offset"][rows]
            stops = offsets + units["count"][rows]
            places = units["log_offset"][rows]
            ends = places + records["total_size"][self.record_of[rows]]
            if self.from_zero and offsets[0] > 0:
                yield Gap(chain.queue, 0, int(offsets[0]), self.survey.log.start, int(places[0]))
            for number in np.flatnonzero(offsets[1:] > stops[:-1]):
                if number + 1 not in chain.resets:
                    one, two = int(stops[number]), int(offsets[number + 1])
                    yield Gap(chain.queue, one, two, int(ends[number]), int(places[number + 1]))

    def _blank_bytes(self, start: int, stop: int) -> int:
        """Return the bytes of BLANKs that begin between two places."""
        first, last = np.searchsorted(self._blanks[:, 0], [start, stop])
        return int((self._blanks[first:last, 1] - self._blanks[first:last, 0]).sum())

    @cached_property
    def _blanks(self) -> Int64s:
        """Start and stop of each BLANK, ``(k, 2)``."""
        found = sorted(self.survey.blanks.values())
        segments = [self.survey.log.segment_at(at) for at in found]
        pairs = [(at, at if one is None else one.stop) for at, one in zip(found, segments, strict=True)]
        return np.array(pairs, np.int64).reshape(-1, 2)

    @cached_property
    def _torn_after(self) -> Bools:
        """Tell after which records a hole begins: a time that is ahead there may be that of a new tail."""
        records = self.survey.records
        stops = records["log_offset"] + records["total_size"]
        torn = np.zeros(len(records), bool)
        torn[:-1] = records["log_offset"][1:] != stops[:-1]
        ahead = np.zeros(len(records), bool)
        ahead[:-1] = records["store_timestamp_ms"][:-1] > records["store_timestamp_ms"][1:]
        return torn & ahead

    # -- old bytes

    def _judge_stale(self, *, include_stale: bool) -> None:
        if include_stale or not len(self.cause):
            return
        times = self.times
        latest = np.maximum.accumulate(np.where(self.survey.damaged, 0, times))
        back = np.concatenate([[False], times[1:] < latest[:-1]]) & ~self.odd_times
        edges = np.flatnonzero(np.diff(np.concatenate([[0], back.view(np.int8), [0]])))
        for start, stop in edges.reshape(-1, 2):
            if self._is_stale(int(start), int(stop)):
                self.cause[start:stop][self.cause[start:stop] == Cause.NONE] = Cause.STALE

    def _is_stale(self, start: int, stop: int) -> bool:
        """Whether records whose times go back are old: a clock that was set back leaves no other trace."""
        records, units = self.survey.records, self.survey.units
        first, last = np.searchsorted(self.record_of, [start, stop])
        if self.confirmed[first:last].any():
            return False
        offsets, before = units["queue_offset"][first:last], self._offsets_before[first:last]
        outside = self._unit_before[first:last] < first
        before_it = records[start - 1]
        torn = records["log_offset"][start] != before_it["log_offset"] + before_it["total_size"]
        step_ms = int(self.times[start - 1] - self.times[start])
        if torn and step_ms >= _STEP_MS and self._in_one_file(start, stop):
            return True
        return bool((outside & (before >= 0) & (offsets < before)).any())

    def _in_one_file(self, start: int, stop: int) -> bool:
        """Whether records lie in one file: a broker that cuts its log deletes the files after the cut."""
        ends = self.survey.records["log_offset"][[start, stop - 1]]
        return self.survey.log.segment_at(int(ends[0])) == self.survey.log.segment_at(int(ends[1]))

    @cached_property
    def _unit_before(self) -> Int64s:
        """The unit before each in its queue, -1 for the first, ``(m,)``."""
        queues = self.survey.units["queue"]
        order = np.argsort(queues, kind="stable")
        before = np.full(len(queues), -1)
        same = queues[order[1:]] == queues[order[:-1]]
        before[order[1:][same]] = order[:-1][same]
        return before

    @cached_property
    def _offsets_before(self) -> Int64s:
        """The queue offset after the unit before, -1 for the first of a queue, ``(m,)``."""
        units, before = self.survey.units, self._unit_before
        return np.where(before >= 0, (units["queue_offset"] + units["count"])[before], -1)

    # -- chains

    def _link(self) -> None:
        """Find in every queue the records that follow each other."""
        units = self.survey.units
        cause = self.cause[self.record_of]
        fresh = (cause != Cause.STALE) & (cause != Cause.FIELDS)
        order = np.argsort(units["queue"], kind="stable")
        order = order[fresh[order]]
        bounds = np.searchsorted(units["queue"][order], np.arange(len(self.survey.queues) + 1))
        runs = [
            self._runs(order[bounds[number] : bounds[number + 1]])
            for number in range(len(self.survey.queues))
        ]
        self._taken_before = self._without_doubt(order, bounds, runs)
        for number, cuts in enumerate(runs):
            rows = order[bounds[number] : bounds[number + 1]]
            if len(rows):
                self.chains[number] = self._chain(number, rows, cuts)

    def _runs(self, rows: Int64s) -> Int64s:
        """Return where runs of consecutive queue offsets begin in the units of a queue, and their end."""
        units = self.survey.units
        offsets = units["queue_offset"][rows]
        stops = offsets + units["count"][rows]
        cuts = np.concatenate([[0], np.flatnonzero(offsets[1:] != stops[:-1]) + 1, [len(rows)]])
        return cuts if len(cuts) == 2 else np.unique(np.concatenate([cuts, _overlaps(offsets, stops, cuts)]))

    def _without_doubt(self, order: Int64s, bounds: Int64s, runs: list[Int64s]) -> Int64s:
        """Return the bytes of records without doubt in front of each record, ``(n + 1,)``."""
        records = self.survey.records
        taken = np.where(self.kept, records["total_size"], 0).astype(np.int64)
        for number, cuts in enumerate(runs):
            lone = np.flatnonzero(np.diff(cuts) == 1)
            rows = order[bounds[number] : bounds[number + 1]][cuts[lone]] if len(cuts) > 1 else order[:0]
            begins = not self.from_zero or self.survey.units["queue_offset"][rows] == 0
            if len(cuts) == 2 and not self._is_likely(number):
                begins = np.zeros(len(rows), bool)
            lonely = rows[~(self.confirmed[rows] | ((lone == 0) & begins))] if len(rows) else rows
            taken[self.record_of[lonely]] = 0
        return np.concatenate([[0], np.cumsum(taken)])

    def _chain(self, queue: int, rows: Int64s, cuts: Int64s) -> Chain:
        if len(cuts) == 2:
            return Chain(queue, rows)
        return _Linker(self, queue, rows, cuts).chain()

    # -- fields

    def _leave_out_doubles(self) -> bool:
        """Leave out, of records that claim one place of a queue, those that another queue misses right there.

        Returns:
            Whether there are any: then chains are others.
        """
        units = self.survey.units
        own = np.flatnonzero(~units["light"] & self.kept[self.record_of])
        queues, offsets = units["queue"][own], units["queue_offset"][own]
        order = np.lexsort((offsets, queues))
        same = (np.diff(queues[order]) == 0) & (np.diff(offsets[order]) == 0)
        doubles = own[np.unique(np.concatenate([order[:-1][same], order[1:][same]]))]
        doubles = doubles[~self.confirmed[doubles]]
        places, offsets = units["log_offset"][doubles], units["queue_offset"][doubles]
        liars: set[int] = set()
        for gap in self.gaps() if len(doubles) else ():
            fits = (gap.start <= places) & (places < gap.stop) & (gap.first <= offsets) & (offsets < gap.last)
            for unit in doubles[fits]:
                queue, record = int(units["queue"][unit]), int(self.record_of[unit])
                if queue != gap.queue and self._resembles(gap.queue, queue, record):
                    liars.add(record)
        self.cause[list(liars)] = Cause.FIELDS
        return bool(liars)

    def _judge_fields(self) -> None:
        """Leave out whole records that are contradicted in what they say of their queue."""
        self._linked = np.zeros(len(self.survey.units), bool)
        for chain in self.chains.values():
            self._linked[chain.rows] = True
        self._count_kept()
        gaps = list(self.gaps())
        tight = [gap for gap in gaps if self._lacks_room(gap)]
        elsewhere = self._listed_elsewhere()
        for record in np.flatnonzero((self._suspects() | elsewhere) & self.kept):
            unit = self._own_unit(int(record))
            refuted = elsewhere[record] and not self._vouched(unit)
            if refuted or self._claimed(int(record), gaps if self._is_alone(unit) else tight):
                self.cause[record] = Cause.FIELDS
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
            chain = self.chains.get(int(units["queue"][number]))
            if chain is None or not self.kept[self.record_of[number]]:
                continue
            place = int(np.searchsorted(chain.rows, number))
            before = chain.rows[place - 1] if place else None
            end = 0 if before is None else int(units["queue_offset"][before] + units["count"][before])
            if units["queue_offset"][number] >= end and place < len(chain.rows):
                self.cause[self.record_of[number]] = Cause.FIELDS

    def _count_kept(self) -> None:
        sizes = np.where(self.kept, self.survey.records["total_size"], 0).astype(np.int64)
        self._kept_before = np.concatenate([[0], np.cumsum(sizes)])

    def _listed_elsewhere(self) -> Bools:
        """Tell which records an ordinary queue lists at another queue offset than they say, ``(n,)``."""
        records, units = self.survey.records, self.survey.units
        listed_there = np.zeros(len(records), bool)
        light = {self.survey.queues[number] for number in np.unique(units["queue"][units["light"]])}
        for key, listed in self.evidence.units.items():
            if key in light or key[0].startswith(LMQ_PREFIX) or not len(records):
                continue
            place = np.searchsorted(self.places, listed["log_offset"])
            place = np.minimum(place, len(records) - 1)
            met = (records["log_offset"][place] == listed["log_offset"]) & (
                records["total_size"][place] == listed["size"]
            )
            listed_there[place[met]] = True
        listed_there[self.record_of[self.confirmed]] = False
        return listed_there

    def _suspects(self) -> Bools:
        """Return records that stand alone or in no chain, and plain ones in no queue at all, ``(n,)``."""
        records, units = self.survey.records, self.survey.units
        suspects: Bools = (records["marks"] & Mark.PLAIN) != 0
        suspects[self.record_of] = False
        suspects[self.record_of[~self._linked & ~self.confirmed]] = True
        for chain in self.chains.values():
            cuts = self._runs(chain.rows)
            short = np.flatnonzero(np.diff(cuts) <= _SHORT)
            for number in short:
                rows = chain.rows[cuts[number] : cuts[number + 1]]
                if not self.confirmed[rows].any() and not units["light"][rows].any():
                    suspects[self.record_of[rows]] = True
        return suspects

    def _claimed(self, record: int, tight: list[Gap]) -> bool:
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
            if len(self.chains[gap.queue].rows) == 1:  # no witness either
                continue
            if gap.queue == own:
                if unit is not None and not self._linked[unit] and self._lacks_room(gap):
                    return True
            elif gap.first <= offset < gap.last and self._resembles(gap.queue, own, record):
                return True
        return not vouched and self._claimed_by_an_end(record, offset, own)

    def _lacks_room(self, gap: Gap) -> bool:
        """Whether the holes of the log have no room for what a gap misses."""
        ends = np.searchsorted(self.places, [gap.start, gap.stop])
        taken = int(self._kept_before[ends[1]] - self._kept_before[ends[0]])
        blanks = self._blank_bytes(gap.start, gap.stop)
        return gap.stop - gap.start - taken - blanks < (gap.last - gap.first) * SMALLEST_RECORD

    def _claimed_by_an_end(self, record: int, offset: int, own: int | None) -> bool:
        """Whether it is the record that would come next in a queue like its own, which ends before it."""
        units = self.survey.units
        for chain in self.chains.values():
            rows = chain.rows[self.record_of[chain.rows] != record]
            if len(rows) <= _SHORT or self.record_of[rows[-1]] > record:
                continue
            end = int(units["queue_offset"][rows[-1]] + units["count"][rows[-1]])
            if chain.queue == own:
                places = self.survey.units["log_offset"][rows[-1]], self.survey.records["log_offset"][record]
                gap = Gap(chain.queue, end, offset, int(places[0]), int(places[1]))
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
        rows = self.chains[queue].rows
        place = int(np.searchsorted(rows, unit))
        at = int(self.survey.units["log_offset"][unit])
        if not place:
            if self._is_alone(unit) and not self._is_likely(queue):
                return self.from_zero and not offset
            gap = Gap(queue, 0, offset, self.survey.log.start, at)
            return not self.from_zero or not offset or not self._lacks_room(gap)
        before = rows[place - 1]
        end = int(self.survey.units["queue_offset"][before] + self.survey.units["count"][before])
        gap = Gap(queue, end, offset, int(self.survey.units["log_offset"][before]), at)
        return place in self.chains[queue].resets or offset == end or not self._lacks_room(gap)

    def _is_alone(self, unit: int | None) -> bool:
        """Whether a record is all there is of its queue."""
        return unit is None or len(self.chains[int(self.survey.units["queue"][unit])].rows) == 1

    def _is_likely(self, queue: int) -> bool:
        """Whether a queue's number is that of one that is there, or below such a number of its topic."""
        topic, queue_id = self.survey.queues[queue]
        if (topic, queue_id) in self.evidence.units:
            return True
        return 0 <= queue_id <= self._largest_ids.get(topic, -1)

    @cached_property
    def _largest_ids(self) -> dict[str, int]:
        """Return the largest queue id of each topic that more than one record has."""
        found: dict[str, int] = {}
        counts = np.bincount(self.survey.units["queue"], minlength=len(self.survey.queues))
        for number in np.flatnonzero(counts > 1):
            topic, queue_id = self.survey.queues[number]
            found[topic] = max(found.get(topic, -1), queue_id)
        return found

    def _own_unit(self, record: int) -> int | None:
        """Return the unit of a record in its own queue; None if it has none."""
        first, last = np.searchsorted(self.record_of, [record, record + 1])
        return int(first) if first < last else None

    def _resembles(self, queue: int, own: int | None, record: int) -> bool:
        """Whether one damaged byte turns a queue into the one that a record claims."""
        topic, queue_id = self.survey.queues[queue]
        if own is None:
            return int(self.survey.records["queue_id"][record]) == queue_id
        claimed_topic, claimed_id = self.survey.queues[own]
        if claimed_topic == topic:
            return _one_byte_apart(claimed_id, queue_id, 4)
        return claimed_id == queue_id and _one_letter_apart(claimed_topic, topic)

    def _forget_left_out(self) -> None:
        """Take out of the chains what contradicts them; what is damaged still shows where it stood."""
        for chain in self.chains.values():
            good = (self.cause[self.record_of[chain.rows]] == Cause.NONE) | (
                self.cause[self.record_of[chain.rows]] == Cause.BODY
            )
            if not good.all():
                chain.resets = frozenset(int(good[:reset].sum()) for reset in chain.resets if good[reset])
                chain.rows = chain.rows[good]


@dataclass
class _Linker:
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

    def chain(self) -> Chain:
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
        return Chain(self.queue, np.concatenate(rows), resets)

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


def odd_times(times: Int64s) -> Bools:
    """Tell which store times stick out between two that are in order, ``(n,)``."""
    odd = np.zeros(len(times), bool)
    if len(times) > 2:
        one, here, two = times[:-2], times[1:-1], times[2:]
        odd[1:-1] = (one <= two) & ((here < one) | (here > two))
        odd[0] = times[0] > times[1] and times[1] <= times[2]
    return odd


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


def _one_letter_apart(one: str, other: str) -> bool:
    """Whether two names differ in one letter, or in one byte: what is no text is read as one letter."""
    pairs = ((one, other), (one.encode(), other.encode()))
    return any(len(a) == len(b) and sum(x != y for x, y in zip(a, b, strict=True)) == 1 for a, b in pairs)


def _one_byte_apart(one: int, other: int, width: int = 8) -> bool:
    """Whether two integers of so many bytes differ in one of them."""
    differing = (one ^ other) & ((1 << 8 * width) - 1)
    return sum(1 for shift in range(0, 8 * width, 8) if differing >> shift & 0xFF) == 1
