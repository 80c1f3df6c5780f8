"""Which true records are believed: fields that no checksum protects are held against their neighbours.

A record can be whole and yet tell a lie. So the queue offsets of every queue must go up by one along the log,
but for what holes have room for (``chains``); store times must not go back (``stale``); what another queue
misses right there is no stranger's (``claims``); and what a queue that is still there lists, is so. A record
is left out only if something speaks against it: what is merely odd is kept.
"""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from rmqtool.salvage.causes import DAMAGED_CAUSES, Cause
from rmqtool.salvage.chains import Linker, OffsetGap, runs_of
from rmqtool.salvage.claims import FieldJudge
from rmqtool.salvage.evidence import confirmed_units
from rmqtool.salvage.heads import HeadJudge
from rmqtool.salvage.rows import Mark, by_queue
from rmqtool.salvage.stale import StaleJudge, odd_times
from rmqtool.topics import LMQ_PREFIX

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rmqtool.arrays import Bools, Int64s
    from rmqtool.salvage.chains import QueueChain
    from rmqtool.salvage.evidence import QueueEvidence
    from rmqtool.salvage.survey import Survey


class Belief:
    """Judges the records of a survey.

    Args:
        survey: what was read, of all copies.
        evidence: what queues list.
        from_zero: whether the log begins at 0, so every queue begins at 0, too.
        include_stale: believe what looks stale.
        keep_damaged: give damaged records back, too, unless their queue has no place for them.

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
        """Return which records are believed and whole, ``(n,)``."""
        kept: Bools = self.cause == Cause.NONE
        return kept

    @cached_property
    def listed_elsewhere(self) -> Bools:
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
        """Tell which records would stand in another's place, or shift others, in a queue, ``(n,)``."""
        chained = np.array([queue in self.chains for queue in range(len(self.survey.queues))], bool)
        strays = self.unproven & chained[self.survey.units["queue"]]
        out = self.listed_elsewhere.copy()
        out[self.record_of[strays]] = True
        return out

    @property
    def open(self) -> Bools:
        """Tell of which records left out nobody knows whose message they were, ``(n,)``."""
        told = np.zeros(len(self.cause), bool)
        own = self.unproven & ~self.survey.units["light"]
        told[self.record_of[own]] = True
        return told & ~self.listed_elsewhere & ~self.kept

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
        """Tell after which records a hole begins: a time that is ahead there may be that of a new tail."""
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
