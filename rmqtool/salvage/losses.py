"""Lost messages of a plan, and each queue's share of the new log and losses."""

from __future__ import annotations

import itertools
from collections import defaultdict
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from rmqtool.account.lost import NOTHING_KEPT, Absent, AbsentFinder, Kept, Pin
from rmqtool.formats.message import (
    SMALLEST_RECORD,
    TRANSACTION_MASK,
    TRANSACTION_PREPARED,
    TRANSACTION_ROLLBACK,
)
from rmqtool.genuine.beyond import able_to_prove, covered
from rmqtool.genuine.records import DAMAGED_CAUSES, Cause, by_queue
from rmqtool.kernels.rows import frame_sizes, frame_stops
from rmqtool.salvage import Lost, PartKind, SalvagedQueue
from rmqtool.scan.records import record_at
from rmqtool.topics import LMQ_PREFIX

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Mapping

    from rmqtool.arrays import Bools, Int64s, Rows
    from rmqtool.genuine.evidence import QueueChain, QueueEvidence
    from rmqtool.genuine.plausibility import JudgedRecords
    from rmqtool.salvage import Part


@dataclass
class LossFinder:
    """Finds the lost messages of every queue; ``judged`` are the records that are recovered.

    ``takes`` is whether the user wants a topic, ``horizon`` the physical offset up to which the log is
    wanted; ``consumed`` are lost messages that only consumers' offsets prove, by topic and queue id.
    """

    judged: JudgedRecords
    evidence: QueueEvidence
    takes: Callable[[str], bool]
    horizon: int
    consumed: Mapping[tuple[str, int], Absent] = field(default_factory=dict)

    def __post_init__(self) -> None:
        records = self.judged.copy.records[self.judged.kept]
        self._starts = np.ascontiguousarray(records["log_offset"])
        self._stops = frame_stops(records)
        self._taken = np.concatenate([[0], np.cumsum(frame_sizes(records))])
        every = self.judged.copy.records
        self._all_taken = np.concatenate([[0], np.cumsum(frame_sizes(every))])

    @property
    def _finder(self) -> AbsentFinder:
        """Return a new one: one that is kept refers back, and holds all arrays until a collection."""
        return AbsentFinder(self._log_start, self.judged.from_zero, self.horizon, self._room)

    def lost(self) -> Iterator[Lost]:
        """Yield lost messages by queue and queue offset; those of light queues are other queues', too."""
        copy = self.judged.copy
        numbers = {key: number for number, key in enumerate(copy.queues)}
        for key in sorted({*numbers, *self.evidence.units} - self._misread()):
            if self.takes(key[0]) and not key[0].startswith(LMQ_PREFIX):
                for absent in self._all_of_queue(key, self.judged.chains.get(numbers.get(key, -1))):
                    yield Lost(
                        *key, absent.queue_offset, absent.messages, absent.start, absent.stop, absent.cause,
                        absent.log_offset, absent.size, absent.tags_code, from_start=absent.from_start,
                        is_there=self._is_there(absent),
                    )  # fmt: skip

    def _all_of_queue(self, key: tuple[str, int], chain: QueueChain | None) -> Iterator[Absent]:
        """Yield the lost messages of a queue, those last that consumers have read, and nothing else names."""
        known, consumed = 0, self.consumed.get(key)
        for absent in self._of_queue(key, chain):
            known = max(known, absent.queue_offset + absent.messages)
            if absent.log_offset is None:
                yield from self._apart(absent, self._unread.get(key, {}))
            else:
                yield absent
        if consumed is not None and consumed.queue_offset >= known and consumed.stop <= self.horizon:
            yield consumed

    def _misread(self) -> set[tuple[str, int]]:
        """Return queues that a single record names beside its own, and that nothing lists: rotted names."""
        copy, units = self.judged.copy, self.judged.copy.units
        counts = np.bincount(units["queue"], minlength=len(copy.queues))
        alone = np.flatnonzero(counts == 1)
        names = np.intersect1d(alone, units["queue"][units["light"]])
        return {copy.queues[number] for number in names} - {*self.evidence.units}

    def _of_queue(self, key: tuple[str, int], chain: QueueChain | None) -> Iterator[Absent]:
        pins = self._listed(key, chain)
        if chain is None or not len(chain.rows):
            yield from self._finder.find(pins, NOTHING_KEPT)
            return
        judged = self.judged
        units, records = judged.copy.units, judged.copy.records
        cause = judged.cause[judged.record_of[chain.rows]]
        bounds = [0, *sorted(chain.resets), len(chain.rows)]
        for number, (begin, end) in enumerate(itertools.pairwise(bounds)):
            rows = chain.rows[begin:end]
            damaged = rows[np.isin(cause[begin:end], DAMAGED_CAUSES)]
            good = rows[cause[begin:end] == Cause.NONE]
            last = number == len(bounds) - 2
            known = {pin.queue_offset: pin for pin in pins} if last else {}
            known |= {pin.queue_offset: pin for pin in self._damaged(damaged)}
            ordered = [known[offset] for offset in sorted(known)]
            starts = units["queue_offset"][good]
            stops = starts + units["count"][good]
            places = units["log_offset"][good]
            ends = frame_stops(records[judged.record_of[good]])
            yield from self._finder.find(ordered, Kept(starts, stops, places, ends), goes_on=last, begun=True)

    @property
    def _log_start(self) -> int:
        return self.judged.copy.log.start

    def _listed(self, key: tuple[str, int], chain: QueueChain | None) -> list[Pin]:
        """Return the units of a queue that point to where no record is recovered, by queue offset."""
        rows = self.evidence.of(key)
        stops = rows["log_offset"] + rows["size"]
        free = self._are_free(rows["log_offset"], rows["size"])
        if not free.any():
            return []
        own = self.judged.copy.units[[] if chain is None else chain.rows]
        last = own[0 if chain is None else max(chain.resets, default=0) :]
        is_judged = covered(last["queue_offset"], last["queue_offset"] + last["count"], rows["queue_offset"])
        is_own = np.isin(rows["log_offset"], own["log_offset"])
        free &= able_to_prove(is_judged | ~free, lambda numbers: is_own[numbers])
        free &= (rows["log_offset"] >= self._log_start) & (stops <= self.horizon)
        return [
            Pin(
                int(row["queue_offset"]), int(row["count"]), int(row["log_offset"]), int(row["size"]),
                int(row["tags_code"]), "listed",
            )
            for row in rows[free]
        ]  # fmt: skip

    def _are_free(self, starts: Int64s, sizes: Int64s) -> Bools:
        """Return at which places no record is recovered."""
        after = np.searchsorted(self._stops, starts, "right")
        free, some = np.ones(len(starts), bool), after < len(self._starts)
        free[some] = self._starts[after[some]] >= (starts + sizes)[some]
        return free

    def _damaged(self, rows: Int64s) -> Iterator[Pin]:
        units, records = self.judged.copy.units, self.judged.copy.records
        for row in rows:
            number = self.judged.record_of[row]
            unit, record = units[row], records[number]
            yield Pin(
                int(unit["queue_offset"]), int(unit["count"]), int(unit["log_offset"]),
                int(record["total_size"]), None, Cause(self.judged.cause[number]).name.lower(),
            )  # fmt: skip

    def _apart(self, absent: Absent, unread: Mapping[int, Pin]) -> Iterator[Absent]:
        """Yield the messages in a hole whose records are there, each for itself, and the others."""
        first, end = absent.queue_offset, absent.queue_offset + absent.messages
        for offset, pin in sorted(unread.items()):
            is_within = absent.start <= pin.log_offset and pin.log_offset + pin.size <= absent.stop
            if first <= offset < end and is_within:
                if first < offset:
                    yield absent._replace(queue_offset=first, messages=offset - first)
                yield absent._replace(
                    queue_offset=offset,
                    messages=1,
                    log_offset=pin.log_offset,
                    size=pin.size,
                    cause=pin.cause,
                    from_start=False,
                )
                first = offset + 1
        if first < end:
            yield absent._replace(queue_offset=first, messages=end - first)

    @cached_property
    def _unread(self) -> dict[tuple[str, int], dict[int, Pin]]:
        """Return the records that no broker reads, for a number in their properties is none.

        By queue and queue offset; none that another copy of the log has.
        """
        log, pins = self.judged.copy.log, defaultdict[tuple[str, int], dict[int, Pin]](dict)
        for at, stop in self.judged.copy.between():
            start = at
            while start < stop and (record := record_at(log, start)) is not None:
                head, size = record.head, len(record.raw)
                if head.physical_offset != start or start + size > stop or start in self.judged.copy.false:
                    break
                kind = head.sys_flag & TRANSACTION_MASK
                is_free = bool(self._are_free(np.array([start]), np.array([size]))[0])
                if is_free and kind not in (TRANSACTION_PREPARED, TRANSACTION_ROLLBACK):
                    pin = Pin(head.queue_offset, 1, start, size, None, Cause.PROPERTIES.name.lower())
                    pins[record.topic, head.queue_id].setdefault(head.queue_offset, pin)
                start += size
        return pins

    def _is_there(self, absent: Absent) -> bool:
        """Return whether records that are not recovered, and no hole, begin where messages did."""
        places = self.judged.places
        if absent.log_offset is None or absent.size is None:
            first, last = np.searchsorted(places, [absent.start, absent.stop])
            taken = int(self._all_taken[last] - self._all_taken[first])
            taken += self.judged.blank_bytes(absent.start, absent.stop)
            return absent.stop - absent.start - taken < absent.messages * SMALLEST_RECORD
        number = int(np.searchsorted(places, absent.log_offset))
        if number < len(places) and int(places[number]) == absent.log_offset:
            return True
        copy = self.judged.copy
        if absent.log_offset in copy.false:
            return False
        record = record_at(copy.log, absent.log_offset)
        return record is not None and record.head.physical_offset == absent.log_offset

    def _room(self, start: int, stop: int) -> int:
        """Return the bytes between two places that no record that is recovered takes, and no end mark."""
        low, high = np.searchsorted(self._starts, [start, stop])
        taken = int(self._taken[high] - self._taken[low]) + self.judged.blank_bytes(start, stop)
        return stop - start - taken


class _Delivered(NamedTuple):
    """Messages of a queue as a broker delivers them: see ``SalvagedQueue``."""

    served: int
    shifted: int
    unserved: int
    next_queue_offset: int


def _delivered(rows: Rows, placed: list[Part], *, is_batch: bool) -> _Delivered:
    """Place units, and those of tombstones, as a broker does (``ConsumeQueue#putMessagePositionInfo``).

    Units of batch queues have their queue offsets in them. Others are appended: the first at its queue
    offset, those at or above the end, and any at 0; the rest is left out.
    """
    if is_batch:
        ends = [(part.queue_offset or 0) + part.messages for part in placed]
        ends += (rows["queue_offset"] + rows["count"]).tolist()
        return _Delivered(int(rows["count"].sum()), 0, 0, max(ends, default=0))
    numbers = [np.arange(part.records) for part in placed]
    places = [
        part.start + part.length // part.records * number
        for part, number in zip(placed, numbers, strict=True)
    ]
    offsets = [(part.queue_offset or 0) + number for part, number in zip(placed, numbers, strict=True)]
    order = np.argsort(np.concatenate([rows["log_offset"], *places]), kind="stable")
    named, are_own = np.concatenate([rows["queue_offset"], *offsets])[order], order < len(rows)
    if not len(named):
        return _Delivered(0, 0, 0, 0)
    end = int(named[0])
    if (np.diff(named) == 1).all():
        return _Delivered(len(rows), 0, 0, end + len(named))
    served = shifted = unserved = 0
    for offset, is_own in zip(named.tolist(), are_own.tolist(), strict=True):
        if 0 < offset < end:
            unserved += is_own
            continue
        served, shifted = served + (is_own and offset == end), shifted + (is_own and offset != end)
        end += 1
    return _Delivered(served, shifted, unserved, end)


def salvaged_queues(
    judged: JudgedRecords, lost: tuple[Lost, ...], made: Iterable[Part], batch_topics: Collection[str]
) -> Iterator[SalvagedQueue]:
    """Yield each queue of which messages are kept or lost; ``made`` are the parts between records."""
    copy = judged.copy
    placed: defaultdict[tuple[str, int], list[Part]] = defaultdict(list)
    for part in made:
        if part.kind is PartKind.TOMBSTONES:
            placed[part.topic or "", part.queue_id or 0].append(part)
    lost_of: defaultdict[tuple[str, int], list[Lost]] = defaultdict(list)
    for loss in lost:
        lost_of[loss.topic, loss.queue_id].append(loss)
    units, records = copy.units, copy.records
    kept = judged.kept[judged.record_of]
    by_number = by_queue(units, len(copy.queues), kept)
    for number, (key, rows) in enumerate(zip(copy.queues, by_number, strict=True)):
        missing = lost_of.pop(key, [])
        if len(rows) or missing:
            times = records["store_timestamp_ms"][judged.record_of[rows]]
            orderly = _is_orderly(judged, number, len(rows), kept)
            offsets, counts = units["queue_offset"][rows], units["count"][rows]
            of_queue = _delivered(units[rows], placed[key], is_batch=key[0] in batch_topics)
            yield _queue(key, offsets, offsets + counts, times, missing, of_queue, orderly=orderly)
    for key, missing in sorted(lost_of.items()):
        nothing = units["log_offset"][:0]
        of_queue = _delivered(units[:0], placed[key], is_batch=key[0] in batch_topics)
        yield _queue(key, nothing, nothing, nothing, missing, of_queue, orderly=True)


def _is_orderly(judged: JudgedRecords, queue: int, recovered: int, kept: Bools) -> bool:
    chain = judged.chains.get(queue)
    if chain is None:
        return recovered == 0
    return not chain.resets and int(kept[chain.rows].sum()) == recovered


def _queue(
    key: tuple[str, int],
    starts: Int64s,
    stops: Int64s,
    times: Int64s,
    lost: list[Lost],
    delivered: _Delivered,
    *,
    orderly: bool,
) -> SalvagedQueue:
    firsts = [int(starts.min())] if len(starts) else []
    lasts = [int(stops.max())] if len(starts) else []
    distinct = _distinct(starts, stops)
    return SalvagedQueue(
        *key,
        first_queue_offset=min(firsts + [loss.queue_offset for loss in lost]),
        end_queue_offset=max(lasts + [loss.queue_offset + loss.count for loss in lost]),
        found=distinct,
        lost=sum(loss.count for loss in lost if not loss.is_there),
        damaged=sum(loss.count for loss in lost if loss.is_there),
        placed=sum(loss.count for loss in lost if loss.placed),
        **delivered._asdict(),
        orderly=orderly,
        first_stored_ms=int(times[0]) if len(times) else None,
        last_stored_ms=int(times[-1]) if len(times) else None,
        not_recovered=tuple(itertools.islice(_runs(lost), _LISTED_RUNS)),
    )


_LISTED_RUNS = 20


def _runs(lost: list[Lost]) -> Iterator[tuple[int, int]]:
    """Yield first and last queue offset of messages that follow each other."""
    first = end = None
    for loss in sorted(lost, key=lambda one: one.queue_offset):
        if first is not None and end is not None and loss.queue_offset > end:
            yield first, end - 1
            first = None
        first = loss.queue_offset if first is None else first
        end = max(end or 0, loss.queue_offset + loss.count)
    if first is not None and end is not None:
        yield first, end - 1


def _distinct(starts: Int64s, stops: Int64s) -> int:
    """Return how many queue offsets units take, those of a queue that began again once."""
    if not len(starts):
        return 0
    if (starts[1:] >= stops[:-1]).all():
        return int((stops - starts).sum())
    order = np.argsort(starts, kind="stable")
    starts, reach = starts[order], np.maximum.accumulate(stops[order])
    covered = np.concatenate([[starts[0]], reach[:-1]])
    return int(np.maximum(reach - np.maximum(starts, covered), 0).sum())
