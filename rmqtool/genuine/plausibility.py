"""Choice of the intact records to recover, by fields that no checksum protects, heads, stale bytes.

A whole record can still have wrong fields. So the queue offsets of every queue must go up by one along the
log, but for holes that have room for the rest (``evidence``), and store times must not go back. One flipped
bit of QUEUEID makes a queue that never was, one of QUEUEOFFSET a jump: such a record is alone or in another's
place, while a queue misses just this one, right here. A present queue is trusted about the records that it
lists. A record is left out only if something contradicts it; a merely odd one is kept.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections import Counter, defaultdict
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from rmqtool.formats.message import SMALLEST_RECORD
from rmqtool.genuine.evidence import ChainedCopy, ChainGap, QueueEvidence, runs_of
from rmqtool.genuine.foreign import foreign_from
from rmqtool.genuine.records import DAMAGED_CAUSES, Cause, LogCopy, Mark, in_queue_order
from rmqtool.kernels.rows import frame_sizes, frame_starts, frame_stops

if TYPE_CHECKING:
    from rmqtool.arrays import Bools, Int64s


_STEP_MS = 1000  # a broker that was started again is later by more than that


class _StaleJudge:
    """Leaves out records whose store times go back, where something else says so, too."""

    def __init__(self, judged: ChainedCopy) -> None:
        self.judged = judged

    def judge(self) -> None:
        if not len(self.judged.cause):
            return
        times, marks = self.judged.times, self.judged.copy.records["marks"]
        failed = (
            marks & np.uint16(Mark.BODY_CRC | Mark.RECORD_CRC)
        ) != 0  # torn properties leave times whole
        latest = np.maximum.accumulate(np.where(failed, 0, times))
        back = np.concatenate([[False], times[1:] < latest[:-1]]) & ~self.judged.odd_times
        edges = np.flatnonzero(np.diff(np.concatenate([[0], back.view(np.int8), [0]])))
        for start, stop in edges.reshape(-1, 2):
            if self._is_stale(int(start), int(stop)):
                self.judged.cause[start:stop][self.judged.cause[start:stop] == Cause.NONE] = Cause.STALE

    def _is_stale(self, start: int, stop: int) -> bool:
        """Whether records whose times go back are old: a clock that was set back leaves no other trace."""
        records, units = self.judged.copy.records, self.judged.copy.units
        first, last = np.searchsorted(self.judged.record_of, [start, stop])
        if self.judged.confirmed[first:last].any():
            return False
        offsets, before = units["queue_offset"][first:last], self._offsets_before[first:last]
        outside = self._unit_before[first:last] < first
        torn = frame_starts(records[start]) != frame_stops(records[start - 1])
        step_ms = int(self.judged.times[start - 1] - self.judged.times[start])
        if torn and step_ms >= _STEP_MS and self._in_one_file(start, stop):
            return True
        return bool((outside & (before >= 0) & (offsets < before)).any())

    def _in_one_file(self, start: int, stop: int) -> bool:
        """Whether records lie in one file: a broker that cuts its log deletes the files after the cut."""
        ends = self.judged.copy.records["log_offset"][[start, stop - 1]]
        return self.judged.copy.log.segment_at(int(ends[0])) == self.judged.copy.log.segment_at(int(ends[1]))

    @cached_property
    def _unit_before(self) -> Int64s:
        """The unit before each in its queue, -1 for the first, ``(m,)``."""
        units = self.judged.copy.units
        queues, order = units["queue"], in_queue_order(units)
        before = np.full(len(queues), -1)
        same = queues[order[1:]] == queues[order[:-1]]
        before[order[1:][same]] = order[:-1][same]
        return before

    @cached_property
    def _offsets_before(self) -> Int64s:
        """The queue offset after the unit before, -1 for the first of a queue, ``(m,)``."""
        units, before = self.judged.copy.units, self._unit_before
        return np.where(before >= 0, (units["queue_offset"] + units["count"])[before], -1)


class _Stand(NamedTuple):
    """A record in its queue."""

    start: int  # physical offset
    stop: int
    first: int  # queue offset
    after: int


class _HeadJudge:
    """Decides which damaged records are where they say, by the chains of whole records."""

    def __init__(self, judged: ChainedCopy) -> None:
        self.judged = judged
        records = judged.copy.records
        self._starts, self._stops = frame_starts(records), frame_stops(records)
        sizes = self._stops - self._starts
        self._taken = np.concatenate([[0], np.cumsum(sizes)])
        self._damaged = np.concatenate([[0], np.cumsum(judged.copy.damaged)])
        self._stands: dict[int, list[_Stand]] = {}

    def borne_out(self, units: Int64s) -> Bools:
        """Return which units of damaged records, numbers in log order, something bears out, ``(k,)``."""
        listed = self.judged.listed_elsewhere
        claims = self._stands_of(units)
        shown = self.judged.confirmed[units].copy()
        of_queue: defaultdict[int, list[int]] = defaultdict(list)
        for number, queue in enumerate(self.judged.copy.units["queue"][units].tolist()):
            of_queue[queue].append(number)
        for queue, numbers in of_queue.items():
            for number in numbers:
                if shown[number]:
                    insort(self._of(queue), claims[number])
            for place, number in enumerate(numbers):
                if shown[number] or listed[self.judged.record_of[units[number]]]:
                    continue
                others = [claims[near] for near in numbers[max(place - 1, 0) : place + 2] if near != number]
                if self._fits(queue, claims[number], others):
                    shown[number] = True
                    insort(self._of(queue), claims[number])
        return shown

    def _fits(self, queue: int, claim: _Stand, others: list[_Stand]) -> bool:
        """Whether a queue misses a message where one claims to be, and nothing lists another there."""
        judged = self.judged
        listed = judged.evidence.at(judged.copy.queues[queue], np.array([claim.first]))
        stands = self._of(queue)
        if listed["size"][0] > 0 or (not stands and not judged.is_likely(queue)):
            return False
        place = bisect_left(stands, claim)
        before, after = stands[place - 1 : place] if place else [], stands[place : place + 1]
        if not before:
            start, due = judged.copy.log.start, 0 if judged.from_zero else claim.first
        else:
            start, due = before[0].stop, before[0].after
        if claim.first < due or not self._has_room(claim.first - due, start, claim.start):
            return False
        if after:
            missing = after[0].first - claim.after
            return missing >= 0 and self._has_room(missing, claim.stop, after[0].start)
        joined = any(other.after == claim.first or other.first == claim.after for other in others)
        return claim.first == due or joined  # a queue's last record alone proves no gap before it

    def _has_room(self, messages: int, start: int, stop: int) -> bool:
        """Whether so many messages fit between two places: in holes, or as damaged records."""
        low, high = np.searchsorted(self._starts, [start, stop])
        taken = int(self._taken[high] - self._taken[low]) + self.judged.blank_bytes(start, stop)
        damaged = int(self._damaged[high] - self._damaged[low])
        return messages <= max(stop - start - taken, 0) // SMALLEST_RECORD + damaged

    def _of(self, queue: int) -> list[_Stand]:
        """Return the records of a queue that are known to be in it, in log order."""
        if queue not in self._stands:
            chain = self.judged.chains.get(queue)
            self._stands[queue] = [] if chain is None else self._stands_of(chain.rows)
        return self._stands[queue]

    def _stands_of(self, rows: Int64s) -> list[_Stand]:
        units = self.judged.copy.units[rows]
        stops = self._stops[self.judged.record_of[rows]]
        after = units["queue_offset"] + units["count"]
        columns = (units["log_offset"], stops, units["queue_offset"], after)
        return [_Stand(*row) for row in zip(*(column.tolist() for column in columns), strict=True)]


_SHORT = 2  # records of a run that may be due to chance


class _FieldJudge:
    """Leaves out records whose queue fields are contradicted; the chains of the trusted ones are linked."""

    def __init__(self, judged: ChainedCopy) -> None:
        self.judged = judged
        self.copy, self.evidence, self.from_zero = judged.copy, judged.evidence, judged.from_zero
        self.cause, self.places = judged.cause, judged.places
        self.record_of, self.confirmed = judged.record_of, judged.confirmed

    def leave_out_doubles(self) -> bool:
        """Leave out, of records that claim one place of a queue, those that another queue misses right there.

        Returns:
            Whether there are any: then chains are others.
        """
        units = self.copy.units
        own = np.flatnonzero(~units["light"] & self.judged.kept[self.record_of])
        own = own[self.judged.broken[units["queue"][own]]]
        queues, offsets = units["queue"][own], units["queue_offset"][own]
        order = np.lexsort((offsets, queues))
        same = (np.diff(queues[order]) == 0) & (np.diff(offsets[order]) == 0)
        doubles = own[np.unique(np.concatenate([order[:-1][same], order[1:][same]]))]
        doubles = doubles[~self.confirmed[doubles] & ~self._alone_in_order(own, doubles)]
        places, offsets = units["log_offset"][doubles], units["queue_offset"][doubles]
        contradicted: set[int] = set()
        for gap in self.judged.gaps() if len(doubles) else ():
            fits = (gap.start <= places) & (places < gap.stop) & (gap.first <= offsets) & (offsets < gap.last)
            for unit in doubles[fits]:
                queue, record = int(units["queue"][unit]), int(self.record_of[unit])
                if queue != gap.queue and self._resembles(gap.queue, queue, record):
                    contradicted.add(record)
        self.cause[list(contradicted)] = Cause.FIELDS
        return bool(contradicted)

    def _alone_in_order(self, own: Int64s, doubles: Int64s) -> Bools:
        """Return which doubles alone lie between those of their queue that come before and after."""
        units = self.copy.units
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
        self._linked = np.zeros(len(self.copy.units), bool)
        for chain in self.judged.chains.values():
            self._linked[chain.rows] = True
        self._count_kept()
        gaps = list(self.judged.gaps())
        tight = [gap for gap in gaps if self._lacks_room(gap)]
        elsewhere = self.judged.listed_elsewhere
        for record in np.flatnonzero((self._suspects() | elsewhere) & self.judged.kept):
            unit = self._own_unit(int(record))
            refuted = elsewhere[record] and not self._is_in_sequence(unit)
            if elsewhere[record] and not refuted and not self._follows(unit):
                refuted = self.judged.is_listed_by_another(int(record))
            if unit is not None and self._is_alone(unit) and not self.confirmed[unit]:
                of_nobody = self._is_unheard_of(int(self.copy.units["queue"][unit]))
                refuted |= of_nobody and self.judged.lies_over_listed(int(record))
            if refuted or self._claimed(int(record), gaps if self._is_alone(unit) else tight):
                self.cause[record] = Cause.FIELDS
                self._count_kept()
            elif unit is not None and self._is_made_up(unit):
                self.cause[record], self.judged.unproven[unit] = Cause.FIELDS, True
                self._count_kept()
        self._leave_out_shifting()
        self._forget_left_out()

    def _leave_out_shifting(self) -> None:
        """Leave out records of no chain that a broker would put into their queue, and shift later ones.

        A unit after its queue's end is appended there, whatever its offset says; one before the end is
        skipped (``ConsumeQueue#putMessagePositionInfo``, 4.9.8, 5.3.3).
        """
        units = self.copy.units
        for number in np.flatnonzero(~self._linked & ~units["light"]):
            chain = self.judged.chains.get(int(units["queue"][number]))
            if chain is None or self.cause[self.record_of[number]] != Cause.NONE:
                continue
            place = int(np.searchsorted(chain.rows, number))
            before = chain.rows[place - 1] if place else None
            end = 0 if before is None else int(units["queue_offset"][before] + units["count"][before])
            if units["queue_offset"][number] >= end and place < len(chain.rows):
                self.cause[self.record_of[number]] = Cause.FIELDS

    def _count_kept(self) -> None:
        sizes = np.where(self.judged.kept, frame_sizes(self.copy.records), 0)
        self._kept_before = np.concatenate([[0], np.cumsum(sizes)])

    def _suspects(self) -> Bools:
        """Return records that are alone or in no chain, and plain ones in no queue at all, ``(n,)``."""
        records, units = self.copy.records, self.copy.units
        suspects: Bools = (records["marks"] & Mark.PLAIN) != 0
        suspects[self.record_of] = False
        suspects[self.record_of[~self._linked & ~self.confirmed]] = True
        for chain in self.judged.chains.values():
            cuts = runs_of(self.copy, chain.rows)
            short = np.flatnonzero(np.diff(cuts) <= _SHORT)
            for number in short:
                rows = chain.rows[cuts[number] : cuts[number + 1]]
                if not self.confirmed[rows].any() and not units["light"][rows].any():
                    suspects[self.record_of[rows]] = True
        return suspects

    def _claimed(self, record: int, tight: list[ChainGap]) -> bool:
        """Whether a queue misses just this record, right here, and has no other room for it."""
        row = self.copy.records[record]
        at, offset = int(row["log_offset"]), int(row["queue_offset"])
        unit = self._own_unit(record)
        own = None if unit is None else int(self.copy.units["queue"][unit])
        is_in_sequence = self._is_in_sequence(unit)
        for gap in tight:
            if not gap.start <= at < gap.stop or (is_in_sequence and not self._lacks_room(gap)):
                continue
            if is_in_sequence and not (self._is_alone(unit) and gap.last == gap.first + 1):
                continue
            if len(self.judged.chains[gap.queue].rows) == 1:  # no witness either
                continue
            if gap.queue == own:
                if unit is not None and not self._linked[unit] and self._lacks_room(gap):
                    return True
            elif gap.first <= offset < gap.last and self._resembles(gap.queue, own, record):
                return True
        return not is_in_sequence and self._claimed_by_an_end(record, offset, own)

    @cached_property
    def _most_records(self) -> int:
        """The number of records that the log can hold at most."""
        log = self.copy.log
        return sum(segment.size_bytes for segment in log) // SMALLEST_RECORD

    def _lacks_room(self, gap: ChainGap) -> bool:
        """Whether the holes of the log have no room for the messages that a gap misses."""
        ends = np.searchsorted(self.places, [gap.start, gap.stop])
        taken = int(self._kept_before[ends[1]] - self._kept_before[ends[0]])
        blanks = self.judged.blank_bytes(gap.start, gap.stop)
        return gap.stop - gap.start - taken - blanks < (gap.last - gap.first) * SMALLEST_RECORD

    def _claimed_by_an_end(self, record: int, offset: int, own: int | None) -> bool:
        """Whether it is the next record of a similar queue, which ends before it."""
        units = self.copy.units
        least = 0 if own is not None and self._is_unheard_of(own) else _SHORT
        for chain in self.judged.chains.values():
            rows = chain.rows[self.record_of[chain.rows] != record]
            if not len(rows) or self.record_of[rows[-1]] > record:
                continue
            end = int(units["queue_offset"][rows[-1]] + units["count"][rows[-1]])
            is_far = chain.queue == own and offset - end > self._most_records
            if len(rows) <= least and not is_far:
                continue
            if chain.queue == own:
                places = self.copy.units["log_offset"][rows[-1]], self.copy.records["log_offset"][record]
                gap = ChainGap(chain.queue, end, offset, int(places[0]), int(places[1]))
                if _one_byte_apart(end, offset) and (offset < end or self._lacks_room(gap)):
                    return True
            elif end == offset and self._resembles(chain.queue, own, record):
                return True
        return False

    def _is_in_sequence(self, unit: int | None) -> bool:
        """Whether a record follows the one before it in its own queue, but for gaps that have room."""
        if unit is None or self.confirmed[unit]:
            return unit is not None
        queue, offset = int(self.copy.units["queue"][unit]), int(self.copy.units["queue_offset"][unit])
        if not self._linked[unit]:
            return False
        rows = self.judged.chains[queue].rows
        place = int(np.searchsorted(rows, unit))
        at = int(self.copy.units["log_offset"][unit])
        if not place:
            if self._is_alone(unit) and not self.judged.is_likely(queue):
                return self.from_zero and not offset
            gap = ChainGap(queue, 0, offset, self.copy.log.start, at)
            return not self.from_zero or not offset or not self._lacks_room(gap)
        before = rows[place - 1]
        end = int(self.copy.units["queue_offset"][before] + self.copy.units["count"][before])
        gap = ChainGap(queue, end, offset, int(self.copy.units["log_offset"][before]), at)
        return place in self.judged.chains[queue].resets or offset == end or not self._lacks_room(gap)

    def _follows(self, unit: int | None) -> bool:
        """Whether a record is the next of its queue: no message is missing before it."""
        if unit is None or not self._linked[unit]:
            return False
        units, chain = self.copy.units, self.judged.chains[int(self.copy.units["queue"][unit])]
        place = int(np.searchsorted(chain.rows, unit))
        before = chain.rows[place - 1] if place else None
        due = 0 if before is None else units["queue_offset"][before] + units["count"][before]
        return place in chain.resets or bool(units["queue_offset"][unit] == due)

    def _is_alone(self, unit: int | None) -> bool:
        """Whether a record is the only trace of its queue."""
        return unit is None or len(self.judged.chains[int(self.copy.units["queue"][unit])].rows) == 1

    def _is_unheard_of(self, queue: int) -> bool:
        """Whether one record alone names a queue."""
        chain = self.judged.chains.get(queue)
        return (chain is None or len(chain.rows) <= 1) and not self.judged.is_likely(queue)

    def _is_made_up(self, unit: int) -> bool:
        """Whether one record alone names a queue that ``topics.json`` lacks, and messages before it."""
        number, offset = (int(self.copy.units[name][unit]) for name in ("queue", "queue_offset"))
        if not self.from_zero or not offset or not self._is_alone(unit) or not self._is_unheard_of(number):
            return False
        topic, known = self.copy.queues[number][0], self.evidence.declared
        return topic in known or any(one_letter_apart(topic, known_topic) for known_topic in known)

    def _own_unit(self, record: int) -> int | None:
        """Return the unit of a record in its own queue; None if it has none."""
        first, last = np.searchsorted(self.record_of, [record, record + 1])
        return int(first) if first < last else None

    def _resembles(self, queue: int, own: int | None, record: int) -> bool:
        """Whether a damaged byte, or an unknown number of them, makes a queue into the claimed one."""
        topic, queue_id = self.copy.queues[queue]
        if own is None:
            return int(self.copy.records["queue_id"][record]) == queue_id
        claimed_topic, claimed_id = self.copy.queues[own]
        if self._is_unheard_of(own):
            return claimed_topic == topic or claimed_id == queue_id
        if claimed_topic == topic:
            return _one_byte_apart(claimed_id, queue_id, 4)
        return claimed_id == queue_id and one_letter_apart(claimed_topic, topic)

    def _forget_left_out(self) -> None:
        """Take out of the chains what contradicts them; what is damaged still shows where it stood."""
        for chain in self.judged.chains.values():
            good = np.isin(self.cause[self.record_of[chain.rows]], (Cause.NONE, *DAMAGED_CAUSES))
            if not good.all():
                chain.resets = frozenset(int(good[:reset].sum()) for reset in chain.resets if good[reset])
                chain.rows = chain.rows[good]


def one_letter_apart(own: str, other: str) -> bool:
    """Whether two names differ in one letter, or in one byte; bytes that are not text count as one letter."""
    pairs = ((own, other), (own.encode(), other.encode()))
    return any(len(a) == len(b) and sum(x != y for x, y in zip(a, b, strict=True)) == 1 for a, b in pairs)


def _one_byte_apart(own: int, other: int, width: int = 8) -> bool:
    """Whether two integers of so many bytes differ in one of them."""
    differing = (own ^ other) & ((1 << 8 * width) - 1)
    return sum(1 for shift in range(0, 8 * width, 8) if differing >> shift & 0xFF) == 1


class JudgedRecords(ChainedCopy):
    """Records of a copy, each trusted, or left out for a cause.

    Args:
        copy: see ``ChainedCopy``, as the next two.
        evidence: likewise.
        from_zero: likewise.
        include_stale: trust records that look stale.
        keep_damaged: keep damaged records, too, unless their queue has no place for them.

    Attributes:
        foreign: from where on each file is that of another log, by physical offset; else ``ENDLESS``.
    """

    def __init__(
        self,
        copy: LogCopy,
        evidence: QueueEvidence,
        *,
        from_zero: bool,
        include_stale: bool = False,
        keep_damaged: bool = False,
    ) -> None:
        super().__init__(copy, evidence, from_zero=from_zero)
        self.foreign = foreign_from(copy, evidence, self.confirmed, from_zero=from_zero)
        if not include_stale:
            self.cause[self.is_foreign] = Cause.STALE
            _StaleJudge(self).judge()
        self.link()
        self._judge_heads(keep_damaged=keep_damaged)
        if _FieldJudge(self).leave_out_doubles():
            self.link()
        _FieldJudge(self).judge()

    @property
    def is_foreign(self) -> Bools:
        """Return which records lie in files of another log, ``(n,)``."""
        return np.asarray(self.places >= self.foreign[self.copy.file_numbers(self.places)])

    def _judge_heads(self, *, keep_damaged: bool) -> None:
        """Link the damaged records whose heads other evidence confirms; return them if wanted."""
        doubtful = np.flatnonzero(self.unproven)
        if len(doubtful):
            self.unproven[doubtful[_HeadJudge(self).borne_out(doubtful)]] = False
        if keep_damaged:
            stalls = (self.copy.records["marks"] & Mark.STALLS) != 0
            self.cause[np.isin(self.cause, DAMAGED_CAUSES) & ~stalls & ~self._out_of_place()] = Cause.NONE
            self.unproven &= ~self.kept[self.record_of]
        if len(doubtful):
            self.link()

    def _out_of_place(self) -> Bools:
        """Return which records would stand in another's place, or shift others, in a queue, ``(n,)``."""
        chained = np.array([queue in self.chains for queue in range(len(self.copy.queues))], bool)
        strays = self.unproven & chained[self.copy.units["queue"]]
        out = self.listed_elsewhere.copy()
        out[self.record_of[strays]] = True
        return out

    @property
    def open(self) -> Bools:
        """Return which records are left out, and nobody knows whose message they were, ``(n,)``."""
        open_records = np.zeros(len(self.cause), bool)
        own = self.unproven & ~self.copy.units["light"]
        open_records[self.record_of[own]] = True
        return open_records & ~self.listed_elsewhere & ~self.kept
