"""Evidence about places of records in queues: lists of present queues, and chains of a log's own records.

Each unit names place and size of a message. A queue is trusted if its list fits into the log; a wrong one
only costs a read. In every queue, the queue offsets of records go up by one along the log;
some may be left out where a hole of the log has room for their records.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from rmqtool.derived.queues import LiveUnits, queue_units
from rmqtool.dispatch.index_keys import of_other_keys
from rmqtool.formats.message import SMALLEST_RECORD
from rmqtool.genuine.beyond import UnitsBeyond
from rmqtool.genuine.records import DAMAGED_CAUSES, Cause, LogCopy, Mark, by_queue, read_record
from rmqtool.kernels.rows import frame_sizes, frame_starts, frame_stops
from rmqtool.scan.records import PropertyWitness
from rmqtool.store.broker_json import ConfigFileError, ConfigSource, queue_counts
from rmqtool.topics import LMQ_PREFIX, SCHEDULE_TOPIC

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rmqtool.arrays import Bools, Int64s, Rows
    from rmqtool.store import Store


LISTED_ROW = np.dtype(
    [
        ("queue_offset", np.int64),
        ("log_offset", np.int64),
        ("tags_code", np.int64),
        ("size", np.int32),
        ("count", np.int32),  # queue offsets that the unit takes
    ]
)
"""A unit of a queue that is there."""

_NOTHING = np.empty(0, LISTED_ROW)
_CODES = np.iinfo(np.int32)
"""Bounds of a unit's tags code; outside, it is the address of an extension."""
_MOST_COMPARED = 10_000
_LARGEST_BATCH = np.iinfo(np.int16).max


@dataclass
class QueueEvidence:
    """Contents of queues.

    Attributes:
        units: by topic and queue id, ``(n,)`` of ``LISTED_ROW`` by queue offset.
        unread: sentences about unreadable files.
        declared: by topic, how many queues ``topics.json`` gives it.
        stores: the ones that were read; their index files list places, too.
    """

    units: dict[tuple[str, int], Rows] = field(default_factory=dict)
    unread: list[str] = field(default_factory=list)
    declared: dict[str, int] = field(default_factory=dict)
    stores: list[Store] = field(default_factory=list)

    def of(self, key: tuple[str, int]) -> Rows:
        """Return the units of a queue; none of one that is not there."""
        return self.units.get(key, _NOTHING)

    def at(self, key: tuple[str, int], queue_offsets: Int64s) -> Rows:
        """Return a unit for each queue offset, zeros where the queue has none."""
        listed = self.of(key)
        if np.array_equal(listed["queue_offset"], queue_offsets):  # as it is where nothing is missing
            return listed
        rows = np.zeros(len(queue_offsets), LISTED_ROW)
        if len(listed):
            place = np.minimum(np.searchsorted(listed["queue_offset"], queue_offsets), len(listed) - 1)
            met = listed["queue_offset"][place] == queue_offsets
            rows[met] = listed[place[met]]
        return rows

    def add(self, other: QueueEvidence) -> None:
        """Take over what another copy's queues list, where these have no such queue or fewer units."""
        for key, rows in other.units.items():
            if len(rows) > len(self.of(key)):
                self.units[key] = rows
        self.unread += other.unread
        self.stores += other.stores
        for topic, queues in other.declared.items():
            self.declared[topic] = max(queues, self.declared.get(topic, 0))


def read_evidence(store: Store) -> QueueEvidence:
    """Read all queues of a store; unreadable data proves nothing."""
    evidence, beyond = QueueEvidence(declared=_declared(store), stores=[store]), UnitsBeyond(store)
    for queue, units in queue_units(store, evidence.unread):
        rows = _listed(units.sane)
        if queue.topic is not None and queue.queue_id is not None and len(rows):
            evidence.units[queue.topic, queue.queue_id] = rows
            beyond.add((queue.topic, queue.queue_id), units)
    for key, rows in evidence.units.items():
        evidence.units[key] = rows[beyond.proves(key, rows["log_offset"])]
    return evidence


def _declared(store: Store) -> dict[str, int]:
    if store.root is None:
        return {}
    counts: dict[str, int] = {}
    with suppress(ConfigFileError):  # repair reports it
        counts = queue_counts(ConfigSource(store.root).document("topics.json"))
    if counts:  # no broker lists the topic of delayed messages
        counts.setdefault(SCHEDULE_TOPIC, store.settings.delay_levels.max_level)
    return counts


def _listed(units: LiveUnits) -> Rows:
    rows = np.empty(len(units.keys), LISTED_ROW)
    columns = units.keys, units.physical_offsets, units.tags_codes, units.sizes, units.messages
    for name, column in zip(LISTED_ROW.names or (), columns, strict=True):
        rows[name] = column
    is_sorted = (units.keys[1:] >= units.keys[:-1]).all()
    return rows if is_sorted else np.sort(rows, order="queue_offset", kind="stable")


def confirmed_units(copy: LogCopy, evidence: QueueEvidence) -> Bools:
    """Return which units of a copy a queue lists right there, ``(m,)``."""
    units = copy.units
    confirmed = np.zeros(len(units), bool)
    if not evidence.units or not len(units):
        return confirmed
    starts = np.ascontiguousarray(copy.records["log_offset"])
    sizes = copy.records["total_size"][np.searchsorted(starts, units["log_offset"])]
    for key, rows in zip(copy.queues, by_queue(units, len(copy.queues)), strict=True):
        listed = evidence.at(key, units["queue_offset"][rows])
        here = (listed["size"] > 0) & (listed["log_offset"] == units["log_offset"][rows])
        confirmed[rows[here]] = listed["size"][here] == sizes[rows[here]]
    return confirmed


def mark_contradicted(copy: LogCopy, evidence: QueueEvidence, store: Store) -> None:
    """Mark records whose properties changed since a unit and the index took tags and keys from them."""
    units, marks, starts = copy.units, copy.records["marks"], copy.records["log_offset"]
    odd = [np.empty(0, np.int64)]
    for key, rows in zip(copy.queues, by_queue(units, len(copy.queues)), strict=True):
        if key[0] == SCHEDULE_TOPIC or not len(evidence.of(key)):
            continue
        listed = evidence.at(key, units["queue_offset"][rows])
        differs = np.flatnonzero(listed["tags_code"] != units["tags_code"][rows])
        if not len(differs):
            continue
        listed, place = listed[differs], units["log_offset"][rows[differs]]
        code, records = listed["tags_code"], copy.records[np.searchsorted(starts, place)]
        is_code = (code >= _CODES.min) & (code <= _CODES.max) & (listed["log_offset"] == place)
        odd.append(place[is_code & (records["total_size"] == listed["size"])])
    of_unit = set(np.concatenate(odd)[:_MOST_COMPARED].tolist())
    numbers = np.flatnonzero(marks & np.uint16(Mark.FORM | Mark.ZEROS))
    of_form = set(starts[numbers[:_MOST_COMPARED]].tolist())
    doubtful = of_unit | of_form
    of_item = of_other_keys(store, copy.log, doubtful) if doubtful else set()
    for place in doubtful:
        number = int(np.searchsorted(starts, place))
        record = read_record(copy.log, copy.records[number])
        against = {PropertyWitness.UNIT} if place in of_unit else set()
        against |= {PropertyWitness.ITEM} if place in of_item else set()
        against |= {PropertyWitness.FORM} if marks[number] & Mark.FORM else set()
        if record is not None and record.change(against):
            marks[number] |= np.uint16(Mark.TORN)
    _count_batches(copy, evidence)


def _count_batches(copy: LogCopy, evidence: QueueEvidence) -> None:
    """Count the messages of inner batches that lost their number: as their unit has them, or up to the next.

    A record that is none, and goes on in its queue with the next queue offset, stays as it is.
    """
    units, starts = copy.units, copy.records["log_offset"]
    record_of = np.searchsorted(starts, units["log_offset"])
    uncounted = (copy.records["marks"][record_of] & Mark.UNCOUNTED != 0) & ~units["light"]
    if not uncounted.any():
        return
    for key, rows in zip(copy.queues, by_queue(units, len(copy.queues)), strict=True):
        offsets = units["queue_offset"][rows]
        listed, after = evidence.at(key, offsets), np.append(offsets[1:], 0)
        is_listed = (listed["log_offset"] == units["log_offset"][rows]) & (listed["size"] > 0)
        counts = np.where(is_listed, listed["count"], after - offsets)
        more = uncounted[rows] & (counts > 1) & (counts <= _LARGEST_BATCH)
        units["count"][rows[more]] = counts[more]
        copy.records["marks"][record_of[rows[more]]] |= np.uint16(Mark.TORN)


_LOOK_BACK = 64  # runs of a queue that a chain may leap over
_NO_ROOM = 2  # what a leap without room for the lost costs, in records: more than a lone record is worth
_CONFIRMED = 1 << 20  # what one confirmed record is worth: more than any number of others


class ChainGap(NamedTuple):
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


def runs_of(copy: LogCopy, rows: Int64s) -> Int64s:
    """Return where runs of consecutive queue offsets begin in the units of a queue, and their end."""
    offsets = copy.units["queue_offset"][rows]
    stops = offsets + copy.units["count"][rows]
    cuts = np.concatenate([[0], np.flatnonzero(offsets[1:] != stops[:-1]) + 1, [len(rows)]])
    return cuts if len(cuts) == 2 else np.unique(np.concatenate([cuts, _overlaps(offsets, stops, cuts)]))


def _overlaps(offsets: Int64s, stops: Int64s, cuts: Int64s) -> Int64s:
    """Return where runs are cut, so that of two that overlap either can give way with that alone."""
    cuts_inside: list[int] = []
    first, after = offsets[cuts[:-1]], stops[cuts[1:] - 1]
    for two in range(1, len(first)):
        for one in range(max(0, two - _LOOK_BACK), two):
            if first[one] < first[two] < after[one]:
                cuts_inside.append(_place(offsets, cuts, one, int(first[two])))
            if first[two] < after[one] < after[two]:
                cuts_inside.append(_place(offsets, cuts, two, int(after[one])))
    return np.array(cuts_inside, np.int64)


def _place(offsets: Int64s, cuts: Int64s, run: int, offset: int) -> int:
    start, stop = int(cuts[run]), int(cuts[run + 1])
    return start + int(np.searchsorted(offsets[start:stop], offset))


class _Linker:
    """Chooses, of the runs of one queue, those that can follow each other and hold most records."""

    def __init__(self, judged: ChainedCopy, queue: int, rows: Int64s, cuts: Int64s) -> None:
        self.judged, self.queue, self.rows, self.cuts = judged, queue, rows, cuts
        units, records = judged.copy.units, judged.copy.records
        heads, tails = rows[cuts[:-1]], rows[cuts[1:] - 1]
        self.first = units["queue_offset"][heads]
        self.after = units["queue_offset"][tails] + units["count"][tails]
        self.start = units["log_offset"][heads]
        self.stop = frame_stops(records[self.judged.record_of[tails]])
        confirmed = np.concatenate([[0], np.cumsum(self.judged.confirmed[rows])])
        self.worth = np.diff(cuts) + _CONFIRMED * (confirmed[cuts[1:]] - confirmed[cuts[:-1]])

    def chain(self) -> QueueChain:
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
        if not self.judged.from_zero or not self.first[run]:
            return 0
        return self._cost_of_room(int(self.first[run]), self.judged.copy.log.start, int(self.start[run]))

    def _cost(self, one: int, two: int) -> int | None:
        """Return what it costs to go on with another run; None where it cannot follow."""
        missing = int(self.first[two]) - int(self.after[one])
        if missing >= 0:
            return self._cost_of_room(missing, int(self.stop[one]), int(self.start[two]))
        return _NO_ROOM if self.first[two] == 0 and self.cuts[two + 1] - self.cuts[two] > 1 else None

    def _cost_of_room(self, missing: int, start: int, stop: int) -> int:
        return 0 if missing * SMALLEST_RECORD <= self.judged.room(start, stop) else _NO_ROOM


def odd_times(times: Int64s) -> Bools:
    """Return which store times stick out between two that are in order, ``(n,)``."""
    odd = np.zeros(len(times), bool)
    if len(times) > 2:
        before, here, after_it = times[:-2], times[1:-1], times[2:]
        odd[1:-1] = (before <= after_it) & ((here < before) | (here > after_it))
        odd[0] = times[0] > times[1] and times[1] <= times[2]
    return odd


class ChainedCopy:
    """The records of a copy, those trusted so far, and the chains of these.

    Args:
        copy: the records read, of all copies.
        evidence: the lists of queues.
        from_zero: whether the log begins at 0, so every queue begins at 0, too.

    Attributes:
        places: physical offsets of the records, ``(n,)``.
        cause: why records are left out, ``(n,)`` of ``Cause``.
        chains: by queue number.
        broken: whether the queue offsets of a queue do more than go up by one, by queue number.
        unproven: units of damaged records that nothing bears out, ``(m,)``.
    """

    def __init__(self, copy: LogCopy, evidence: QueueEvidence, *, from_zero: bool) -> None:
        self.copy, self.evidence, self.from_zero = copy, evidence, from_zero
        records, units = copy.records, copy.units
        self.cause = np.zeros(len(records), np.uint8)
        self.cause[copy.damaged] = Cause.PROPERTIES
        self.cause[(records["marks"] & Mark.BODY_CRC) != 0] = Cause.BODY
        self.places = np.ascontiguousarray(records["log_offset"])  # else each search copies them
        self.record_of = np.searchsorted(self.places, units["log_offset"])
        self.confirmed = confirmed_units(copy, evidence)
        self.odd_times = odd_times(records["store_timestamp_ms"]) & ~self._torn_after
        self.unproven = np.isin(self.cause, DAMAGED_CAUSES)[self.record_of]
        self.chains: dict[int, QueueChain] = {}

    @property
    def kept(self) -> Bools:
        """Return which records are trusted, and whole or kept as wanted, ``(n,)``."""
        kept: Bools = self.cause == Cause.NONE
        return kept

    @cached_property
    def listed_elsewhere(self) -> Bools:
        """Return which records an ordinary queue lists at another queue offset than they say, ``(n,)``."""
        records, units = self.copy.records, self.copy.units
        listed_there, owned = np.zeros((2, len(records)), bool)
        owned[self.record_of[self.confirmed & ~units["light"]]] = True
        if owned.all():
            return listed_there
        light = {self.copy.queues[number] for number in np.unique(units["queue"][units["light"]])}
        for key, listed in self.evidence.units.items():
            if key in light or key[0].startswith(LMQ_PREFIX) or not len(records):
                continue
            place = np.searchsorted(self.places, listed["log_offset"])
            place = np.minimum(place, len(records) - 1)
            met = (records["log_offset"][place] == listed["log_offset"]) & (
                records["total_size"][place] == listed["size"]
            )
            listed_there[place[met]] = True
        return listed_there & ~owned

    def is_listed_by_another(self, record: int) -> bool:
        """Return whether an ordinary queue lists a record at its queue offset, beside records of its own."""
        row, units = self.copy.records[record], self.copy.units
        offset = int(row["queue_offset"])
        for number, key in enumerate(self.copy.queues):
            listed = self.evidence.at(key, np.array([offset]))[0]
            if key[0].startswith(LMQ_PREFIX) or listed["size"] != row["total_size"]:
                continue
            beside = (units["queue"] == number) & np.isin(units["queue_offset"], [offset - 1, offset + 1])
            if listed["log_offset"] == row["log_offset"] and self.confirmed[beside].any():
                return True
        return False

    def lies_over_listed(self, record: int) -> bool:
        """Return whether ordinary queues list two other records where one lies."""
        row, (places, sizes) = self.copy.records[record], self._listed
        low, high = np.searchsorted(places, [row["log_offset"], frame_stops(row)])
        return len(np.unique(places[low:high][sizes[low:high] != row["total_size"]])) > 1

    @cached_property
    def _listed(self) -> tuple[Int64s, Int64s]:
        """Return the physical offsets that ordinary queues list, in order, and the sizes."""
        ordinary = [rows for key, rows in self.evidence.units.items() if not key[0].startswith(LMQ_PREFIX)]
        nothing = np.empty(0, np.int64)
        places = np.concatenate([nothing, *(rows["log_offset"] for rows in ordinary)])
        sizes = np.concatenate([nothing, *(rows["size"] for rows in ordinary)])
        order = np.argsort(places, kind="stable")
        return places[order], sizes[order]

    @property
    def times(self) -> Int64s:
        """Return store times, odd ones replaced by that of the record before, ``(n,)``."""
        times: Int64s = self.copy.records["store_timestamp_ms"].copy()
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

    def gaps(self) -> Iterator[ChainGap]:
        """Yield the queue offsets that no record of a chain has, up to each queue's last record."""
        units, records = self.copy.units, self.copy.records
        for chain in self.chains.values():
            rows = chain.rows
            if not len(rows):
                continue
            offsets = units["queue_offset"][rows]
            stops = offsets + units["count"][rows]
            if self.from_zero and offsets[0] > 0:
                start, stop = self.copy.log.start, int(units["log_offset"][rows[0]])
                yield ChainGap(chain.queue, 0, int(offsets[0]), start, stop)
            for number in np.flatnonzero(offsets[1:] > stops[:-1]):
                if number + 1 not in chain.resets:
                    end, begin = int(stops[number]), int(offsets[number + 1])
                    before, after = records[self.record_of[rows[number]]], units[rows[number + 1]]
                    start = int(frame_stops(before))
                    yield ChainGap(chain.queue, end, begin, start, int(after["log_offset"]))

    def blank_bytes(self, start: int, stop: int) -> int:
        """Return the bytes of end marks that begin between two places."""
        first, last = np.searchsorted(self._blanks[:, 0], [start, stop])
        return int((self._blanks[first:last, 1] - self._blanks[first:last, 0]).sum())

    @cached_property
    def _blanks(self) -> Int64s:
        """Start and stop of each end mark, ``(k, 2)``."""
        marks = sorted(self.copy.blanks.values())
        segments = [self.copy.log.segment_at(at) for at in marks]
        pairs = [
            (at, at if segment is None else segment.stop) for at, segment in zip(marks, segments, strict=True)
        ]
        return np.array(pairs, np.int64).reshape(-1, 2)

    @cached_property
    def _torn_after(self) -> Bools:
        """Return after which records a hole begins: a time that is ahead there may be that of a new tail."""
        records = self.copy.records
        torn: Bools = np.zeros(len(records), bool)
        torn[:-1] = frame_starts(records)[1:] != frame_stops(records)[:-1]
        ahead: Bools = np.zeros(len(records), bool)
        ahead[:-1] = records["store_timestamp_ms"][:-1] > records["store_timestamp_ms"][1:]
        return torn & ahead

    def link(self) -> None:
        """Find in every queue the records that follow each other."""
        units = self.copy.units
        cause = self.cause[self.record_of]
        fresh = (cause != Cause.STALE) & (cause != Cause.FIELDS) & ~self.unproven
        queues = by_queue(units, len(self.copy.queues), fresh)
        runs = [runs_of(self.copy, rows) for rows in queues]
        self.broken = np.array([len(cuts) > 2 for cuts in runs], bool)
        self._taken_before = self._without_doubt(queues, runs)
        for number, (rows, cuts) in enumerate(zip(queues, runs, strict=True)):
            self.chains.pop(number, None)
            if len(rows):
                self.chains[number] = _Linker(self, number, rows, cuts).chain()

    def _without_doubt(self, queues: list[Int64s], runs: list[Int64s]) -> Int64s:
        """Return the bytes of records without doubt in front of each record, ``(n + 1,)``."""
        records = self.copy.records
        taken = np.where(self.kept, frame_sizes(records), 0)
        for number, (units, cuts) in enumerate(zip(queues, runs, strict=True)):
            lone = np.flatnonzero(np.diff(cuts) == 1)
            rows = units[cuts[lone]] if len(cuts) > 1 else units[:0]
            begins = not self.from_zero or self.copy.units["queue_offset"][rows] == 0
            if len(cuts) == 2 and not self.is_likely(number):
                begins = np.zeros(len(rows), bool)
            lonely = rows[~(self.confirmed[rows] | ((lone == 0) & begins))] if len(rows) else rows
            taken[self.record_of[lonely]] = 0
        return np.concatenate([[0], np.cumsum(taken)])

    def is_likely(self, queue: int) -> bool:
        """Whether a queue's number is that of a present queue, or below such a number of its topic."""
        topic, queue_id = self.copy.queues[queue]
        if (topic, queue_id) in self.evidence.units:
            return True
        if 0 <= queue_id < self.evidence.declared.get(topic, 0):
            return True
        return 0 <= queue_id <= self._largest_ids.get(topic, -1)

    @cached_property
    def _largest_ids(self) -> dict[str, int]:
        """Return the largest queue id of each topic that more than one record has."""
        largest: dict[str, int] = {}
        sound = ~self.copy.damaged[self.record_of]
        counts = np.bincount(self.copy.units["queue"][sound], minlength=len(self.copy.queues))
        for number in np.flatnonzero(counts > 1):
            topic, queue_id = self.copy.queues[number]
            largest[topic] = max(largest.get(topic, -1), queue_id)
        return largest
