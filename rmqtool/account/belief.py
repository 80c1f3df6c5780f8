"""Choice of the intact records to recover, by fields that no checksum protects, heads, stale bytes.

A record can be whole and yet tell a lie. So the queue offsets of every queue must go up by one along the log,
but for what holes have room for (``chains``); store times must not go back (``stale``); what another queue
misses right there is no stranger's (``claims``); and what a queue that is still there lists, is so. A record
is left out only if something speaks against it: what is merely odd is kept.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections import defaultdict
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from rmqtool.account.claims import FieldJudge, Linker, OffsetGap, QueueChain, runs_of
from rmqtool.account.evidence import QueueEvidence, confirmed_units
from rmqtool.account.records import DAMAGED_CAUSES, Cause, Mark, by_queue, in_queue_order
from rmqtool.formats.message import SMALLEST_RECORD
from rmqtool.topics import LMQ_PREFIX

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rmqtool.account.records import Survey
    from rmqtool.arrays import Bools, Int64s


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
    """Return which store times stick out between two that are in order, ``(n,)``."""
    odd = np.zeros(len(times), bool)
    if len(times) > 2:
        one, here, two = times[:-2], times[1:-1], times[2:]
        odd[1:-1] = (one <= two) & ((here < one) | (here > two))
        odd[0] = times[0] > times[1] and times[1] <= times[2]
    return odd


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
        """Return which units of damaged records something bears out, ``(k,)``.

        Args:
            units: numbers of units of damaged records, in log order.
        """
        listed = self.belief.listed_elsewhere
        claims = self._stands_of(units)
        shown = self.belief.confirmed[units].copy()
        of_queue: defaultdict[int, list[int]] = defaultdict(list)
        for number, queue in enumerate(self.belief.survey.units["queue"][units].tolist()):
            of_queue[queue].append(number)
        for queue, numbers in of_queue.items():
            for number in numbers:
                if shown[number]:
                    insort(self._of(queue), claims[number])
            for place, number in enumerate(numbers):
                if shown[number] or listed[self.belief.record_of[units[number]]]:
                    continue
                others = [claims[one] for one in numbers[max(place - 1, 0) : place + 2] if one != number]
                if self._fits(queue, claims[number], others):
                    shown[number] = True
                    insort(self._of(queue), claims[number])
        return shown

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


class Belief:
    """Judges the records of a survey.

    Args:
        survey: what was read, of all copies.
        evidence: what queues list.
        from_zero: whether the log begins at 0, so every queue begins at 0, too.
        include_stale: believe what looks stale.
        keep_damaged: keep damaged records, too, unless their queue has no place for them.

    Attributes:
        places: physical offsets of the records, ``(n,)``.
        cause: why records are left out, ``(n,)`` of ``Cause``.
        chains: by queue number.
        broken: whether the queue offsets of a queue do more than go up by one, by queue number.
        unproven: units of damaged records that nothing bears out, ``(m,)``.
    """

    def __init__(
        self,
        survey: Survey,
        evidence: QueueEvidence,
        *,
        from_zero: bool,
        include_stale: bool = False,
        keep_damaged: bool = False,
    ) -> None:
        self.survey = survey
        self.evidence = evidence
        self.from_zero = from_zero
        records, units = survey.records, survey.units
        self.cause = np.zeros(len(records), np.uint8)
        self.cause[survey.damaged] = Cause.PROPERTIES
        self.cause[(records["marks"] & Mark.BODY_CRC) != 0] = Cause.BODY
        self.places = np.ascontiguousarray(records["log_offset"])  # else each search copies them
        self.record_of = np.searchsorted(self.places, units["log_offset"])
        self.confirmed = confirmed_units(survey, evidence)
        self.odd_times = odd_times(records["store_timestamp_ms"]) & ~self._torn_after
        self.chains: dict[int, QueueChain] = {}
        if not include_stale:
            StaleJudge(self).judge()
        self.unproven = np.isin(self.cause, DAMAGED_CAUSES)[self.record_of]
        self._link()
        self._judge_heads(keep_damaged=keep_damaged)
        if FieldJudge(self).leave_out_doubles():
            self._link()
        FieldJudge(self).judge()

    @property
    def kept(self) -> Bools:
        """Return which records are believed, and whole or kept as wanted, ``(n,)``."""
        kept: Bools = self.cause == Cause.NONE
        return kept

    @cached_property
    def listed_elsewhere(self) -> Bools:
        """Return which records an ordinary queue lists at another queue offset than they say, ``(n,)``."""
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

    def _judge_heads(self, *, keep_damaged: bool) -> None:
        """Link the damaged records whose heads something bears out; give them back if that is wanted."""
        doubtful = np.flatnonzero(self.unproven)
        if len(doubtful):
            self.unproven[doubtful[HeadJudge(self).borne_out(doubtful)]] = False
        if keep_damaged:
            stalls = (self.survey.records["marks"] & Mark.STALLS) != 0
            self.cause[np.isin(self.cause, DAMAGED_CAUSES) & ~stalls & ~self._out_of_place()] = Cause.NONE
            self.unproven &= ~self.kept[self.record_of]
        if len(doubtful):
            self._link()

    def _out_of_place(self) -> Bools:
        """Return which records would stand in another's place, or shift others, in a queue, ``(n,)``."""
        chained = np.array([queue in self.chains for queue in range(len(self.survey.queues))], bool)
        strays = self.unproven & chained[self.survey.units["queue"]]
        out = self.listed_elsewhere.copy()
        out[self.record_of[strays]] = True
        return out

    @property
    def open(self) -> Bools:
        """Return which records are left out, and nobody knows whose message they were, ``(n,)``."""
        found = np.zeros(len(self.cause), bool)
        own = self.unproven & ~self.survey.units["light"]
        found[self.record_of[own]] = True
        return found & ~self.listed_elsewhere & ~self.kept

    @property
    def times(self) -> Int64s:
        """Return store times, odd ones replaced by that of the record before, ``(n,)``."""
        times: Int64s = self.survey.records["store_timestamp_ms"].copy()
        sound = np.where(self.odd_times, -1, np.arange(len(times)))
        last = np.maximum.accumulate(sound) if len(times) else sound
        carried: Int64s = times[np.maximum(last, 0)]
        return carried

    def leave_out(self, records: Bools, cause: Cause) -> None:
        """Leave records out that were kept so far."""
        self.cause[records & self.kept] = cause

    def room(self, start: int, stop: int) -> int:
        """Return the bytes between two places that no record without doubt takes."""
        ends = np.searchsorted(self.places, [start, stop])
        taken = self._taken_before[ends[1]] - self._taken_before[ends[0]]
        return int(stop - start - taken) - self.blank_bytes(start, stop)

    def gaps(self) -> Iterator[OffsetGap]:
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
                yield OffsetGap(chain.queue, 0, int(offsets[0]), self.survey.log.start, int(places[0]))
            for number in np.flatnonzero(offsets[1:] > stops[:-1]):
                if number + 1 not in chain.resets:
                    one, two = int(stops[number]), int(offsets[number + 1])
                    yield OffsetGap(chain.queue, one, two, int(ends[number]), int(places[number + 1]))

    def blank_bytes(self, start: int, stop: int) -> int:
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
        """Return after which records a hole begins: a time that is ahead there may be that of a new tail."""
        records = self.survey.records
        stops = records["log_offset"] + records["total_size"]
        torn: Bools = np.zeros(len(records), bool)
        torn[:-1] = records["log_offset"][1:] != stops[:-1]
        ahead: Bools = np.zeros(len(records), bool)
        ahead[:-1] = records["store_timestamp_ms"][:-1] > records["store_timestamp_ms"][1:]
        return torn & ahead

    def _link(self) -> None:
        """Find in every queue the records that follow each other."""
        units = self.survey.units
        cause = self.cause[self.record_of]
        fresh = (cause != Cause.STALE) & (cause != Cause.FIELDS) & ~self.unproven
        queues = by_queue(units, len(self.survey.queues), fresh)
        runs = [runs_of(self.survey, rows) for rows in queues]
        self.broken = np.array([len(cuts) > 2 for cuts in runs], bool)
        self._taken_before = self._without_doubt(queues, runs)
        for number, (rows, cuts) in enumerate(zip(queues, runs, strict=True)):
            self.chains.pop(number, None)
            if len(rows):
                self.chains[number] = Linker(self, number, rows, cuts).chain()

    def _without_doubt(self, queues: list[Int64s], runs: list[Int64s]) -> Int64s:
        """Return the bytes of records without doubt in front of each record, ``(n + 1,)``."""
        records = self.survey.records
        taken = np.where(self.kept, records["total_size"], 0).astype(np.int64)
        for number, (units, cuts) in enumerate(zip(queues, runs, strict=True)):
            lone = np.flatnonzero(np.diff(cuts) == 1)
            rows = units[cuts[lone]] if len(cuts) > 1 else units[:0]
            begins = not self.from_zero or self.survey.units["queue_offset"][rows] == 0
            if len(cuts) == 2 and not self.is_likely(number):
                begins = np.zeros(len(rows), bool)
            lonely = rows[~(self.confirmed[rows] | ((lone == 0) & begins))] if len(rows) else rows
            taken[self.record_of[lonely]] = 0
        return np.concatenate([[0], np.cumsum(taken)])

    def is_likely(self, queue: int) -> bool:
        """Whether a queue's number is that of one that is there, or below such a number of its topic."""
        topic, queue_id = self.survey.queues[queue]
        if (topic, queue_id) in self.evidence.units:
            return True
        if 0 <= queue_id < self.evidence.declared.get(topic, 0):
            return True
        return 0 <= queue_id <= self._largest_ids.get(topic, -1)

    @cached_property
    def _largest_ids(self) -> dict[str, int]:
        """Return the largest queue id of each topic that more than one record has."""
        found: dict[str, int] = {}
        sound = ~self.survey.damaged[self.record_of]
        counts = np.bincount(self.survey.units["queue"][sound], minlength=len(self.survey.queues))
        for number in np.flatnonzero(counts > 1):
            topic, queue_id = self.survey.queues[number]
            found[topic] = max(found.get(topic, -1), queue_id)
        return found
