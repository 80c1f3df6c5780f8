"""Records of a log as a broker of a release dispatches them, gathered once for all that a run foresees."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from rmqtool.formats.message import (
    HEAD_SIZES,
    TRANSACTION_MASK,
    TRANSACTION_PREPARED,
    TRANSACTION_ROLLBACK,
    VARIANT_SHIFT,
)
from rmqtool.genuine.records import Mark, read_record
from rmqtool.kernels.compare import are_among
from rmqtool.kernels.rows import BORN_PORT_AT, STORE_PORT_AT
from rmqtool.kernels.units import first_bad_crc
from rmqtool.recovery.log_recovery import true_batches
from rmqtool.releases import NEWEST
from rmqtool.reput.dispatcher import Dispatcher
from rmqtool.store.segments import ENDLESS
from rmqtool.topics import LMQ_PREFIX

if TYPE_CHECKING:
    from collections.abc import Collection, Hashable, Iterable, Iterator, Mapping, Sequence

    from rmqtool.account.survey import SurveyedLog
    from rmqtool.arrays import Array, Bools, Int64s, Rows
    from rmqtool.dispatch.policy import DispatchPolicy
    from rmqtool.genuine.records import LogCopy
    from rmqtool.kernels.rows import MessageBatch
    from rmqtool.recovery.loaded import IndexState, Queue
    from rmqtool.recovery.log_recovery import RecoveryWalk
    from rmqtool.recovery.unit_queue import QueueKey
    from rmqtool.reput.dispatcher import Taken
    from rmqtool.scan.records import Record
    from rmqtool.store.segments import FileQueue, Segment


class QueueRecords(NamedTuple):
    """Records of one queue in log order, ``(n,)`` each."""

    queue_offsets: Int64s
    places: Int64s
    sizes: Int64s
    messages: Int64s
    whole: Bools

    def only(self, which: Bools) -> QueueRecords:
        """Return some of them."""
        offsets, places, sizes, messages, whole = self
        numbers = offsets[which], places[which], sizes[which], messages[which]
        return QueueRecords(*numbers, whole[which])


class LogChains:
    """Chains of records in a log; ``places`` and ``sizes`` are ``(n,)`` in log order."""

    def __init__(self, places: Int64s, sizes: Int64s) -> None:
        self._places, self._sizes, self._stops = places, sizes, places + sizes
        self._last: Int64s = np.flatnonzero(np.append(self._stops[:-1] != places[1:], [True]))

    def follow(self, start: int, stop: int, most: int) -> tuple[int, int]:
        """Return where the records end that follow each other from ``start`` on, before ``stop``.

        With it comes the largest size up to ``most``; without any record, ``start`` and 0 are returned.
        """
        first, after = np.searchsorted(self._places, [start, stop]).tolist()
        if first >= after or self._places[first] != start:
            return start, 0
        last = min(int(self._last[np.searchsorted(self._last, first)]), after - 1)
        sizes = self._sizes[first : last + 1]
        return int(self._stops[last]), int(sizes[sizes <= most].max(initial=0))


_NONE = np.empty(0, np.int64)
NO_RECORDS = QueueRecords(_NONE, _NONE, _NONE, _NONE, np.empty(0, np.bool_))
NO_ENTRIES = np.empty(
    0, [("physical_offset", np.int64), ("key_hash", np.int32), ("of_tags", np.bool_), ("whole", np.bool_)]
)


@dataclass(eq=False)
class LogRecords:
    """The intact records of a log, by queue, with their index entries; some 60 bytes of memory for each.

    A record is whole if its body matches BODYCRC, or BODYCRC is 0.

    Attributes:
        log: its files.
        policy: how they are dispatched.
        queues: the records of each queue, light ones left out.
        light: those of each light queue.
        places: physical offsets of all records, ``(n,)`` ascending.
        whole: which of them are whole.
        entries: ``(m,)``, index entries: ``physical_offset``, ``key_hash``, ``of_tags`` and ``whole``.
        undecoded: physical offsets of records that clients do not decode.
        homeless: those of whole messages that go into no queue: their topic's name is none of a directory.
        unknown_batch_topics: topics that prove to have batch queues though the policy does not say so.
        deleted: the records of queues whose topics were deleted: nobody misses them.
        chains: of its records, if a broker reads and dispatches each just so.
        rebuilt: queues and index that a rebuild makes of the log, once they were made.
        walks: of recovery, done so far for the end alone.
        foreign: labels of files that are those of another log, and from which physical offset on; none of
            their records from there on is here.
    """

    log: FileQueue
    policy: DispatchPolicy
    queues: dict[QueueKey, QueueRecords]
    light: dict[QueueKey, QueueRecords]
    places: Int64s
    whole: Bools
    entries: Rows
    undecoded: Int64s
    homeless: Int64s
    unknown_batch_topics: frozenset[str] = frozenset()
    deleted: dict[QueueKey, QueueRecords] = field(default_factory=dict)
    chains: LogChains | None = None
    rebuilt: tuple[dict[QueueKey, Queue], IndexState] | None = None
    walks: dict[Hashable, RecoveryWalk] = field(default_factory=dict)
    foreign: Mapping[str, int] = field(default_factory=dict)

    def walked(self, walk: RecoveryWalk) -> RecoveryWalk:
        """Return a walk of recovery that is over: the same one as before, if there was the same."""
        files = tuple((segment.label, segment.size_bytes) for segment in walk.segments)
        key = files, walk.rules.tobytes(), walk.switches, walk.start
        if key not in self.walks:
            walk.finish()
        return self.walks.setdefault(key, walk)

    @classmethod
    def read(cls, log: FileQueue, policy: DispatchPolicy, false: Int64s | None) -> LogRecords:
        """Read a log, without the frames at the physical offsets ``false``, which are none."""
        dispatcher = Dispatcher(policy, passes_stalls=True)
        places, whole, undecoded, homeless = [_NONE], [np.empty(0, np.bool_)], [_NONE], [_NONE]
        units: list[tuple[Array, ...]] = []
        entries = [NO_ENTRIES]
        for batch in _batches(log, false):
            is_whole = _whole(batch)
            places.append(batch.rows["log_offset"].copy())
            whole.append(is_whole)
            undecoded.append(places[-1][_is_undecoded(batch)])
            put = _dispatched(dispatcher, batch)
            is_put = are_among(places[-1], put.units["physical_offset"])
            homeless.append(places[-1][is_whole & ~is_put & _is_message(batch)])
            at = np.searchsorted(places[-1], put.units["physical_offset"])
            names = ("queue", "queue_offset", "physical_offset", "size", "batch_size")
            columns = (put.units[name].astype(np.int64) for name in names)
            units.append((*columns, is_whole[at]))
            at = np.searchsorted(places[-1], put.entries["physical_offset"])
            entries.append(_entries(put.entries, is_whole[at]))
        keys = [dispatcher.key(number) for number in range(len(dispatcher.queues))]
        queues, light = _by_queue(keys, units)
        return cls(
            log, policy, queues, light, np.concatenate(places), np.concatenate(whole),
            entries=np.concatenate(entries),
            undecoded=np.concatenate(undecoded),
            homeless=np.concatenate(homeless),
            unknown_batch_topics=dispatcher.unknown_batch_topics(),
        )  # fmt: skip

    @classmethod
    def of(cls, log: FileQueue, policy: DispatchPolicy, copy: LogCopy) -> LogRecords:
        """Return the same of records that were read before, with their index entries."""
        rows, places = copy.records, np.ascontiguousarray(copy.records["log_offset"])
        marks = rows["marks"]
        stalls = bool((marks & np.uint16(Mark.STALLS)).any())
        whole, undecoded = marks & np.uint16(Mark.BODY_CRC) == 0, []
        for number in np.flatnonzero(marks & np.uint16(Mark.BODY_CRC | Mark.TORN)).tolist():
            record = read_record(copy.log, rows[number])
            is_empty = record is not None and not record.body_length  # no broker checks that
            whole[number] |= is_empty
            undecoded += [number] if record is not None and _has_no_port(record) else []
        units, at = copy.units, np.searchsorted(places, copy.units["log_offset"])
        is_put = np.zeros(len(rows), np.bool_)
        is_put[at] = True
        names = ("queue", "queue_offset", "log_offset")
        columns = [*(units[name] for name in names), rows["total_size"][at], units["count"]]
        numbers = (column.astype(np.int64) for column in columns)
        queues, light = _by_queue(copy.queues, [(*numbers, whole[at])])
        at = np.searchsorted(places, copy.entries["physical_offset"])
        return cls(
            log, policy, queues, light, places, whole,
            entries=_entries(copy.entries, whole[at]),
            undecoded=places[undecoded],
            homeless=places[whole & ~is_put & (marks & np.uint16(Mark.PLAIN) != 0)],
            chains=None if stalls else LogChains(places, rows["total_size"].astype(np.int64)),
        )  # fmt: skip

    def without(self, deleted: Collection[str], stop: int | None) -> LogRecords:
        """Return the records but for those from physical offset ``stop`` on; topics were ``deleted``."""
        stop = ENDLESS if stop is None else stop
        is_left = self.places < stop
        queues = {key: records.only(records.places < stop) for key, records in self.queues.items()}
        return replace(
            self,
            whole=self.whole[is_left],
            places=self.places[is_left],
            entries=self.entries[self.entries["physical_offset"] < stop],
            homeless=self.homeless[self.homeless < stop],
            queues={key: records for key, records in queues.items() if key[0] not in deleted},
            deleted={key: records for key, records in queues.items() if key[0] in deleted},
        )


def _batches(log: Iterable[Segment], false: Int64s | None) -> Iterator[MessageBatch]:
    for segment in log:
        yield from true_batches(segment, segment.start, segment.stop, NEWEST.records, false)
        segment.close()


def _whole(batch: MessageBatch) -> Bools:
    """Return which records are whole; the body of one that is longer than a window is not read."""
    rows = batch.rows
    whole, first = np.ones(len(rows), np.bool_), 0
    while not batch.cut:
        first += int(first_bad_crc(batch.only(slice(first, None))))
        if first >= len(rows):
            break
        whole[first] = rows["body_crc"][first] == 0
        first += 1
    return whole


def _dispatched(dispatcher: Dispatcher, batch: MessageBatch) -> Taken:
    """Dispatch a batch, with the records that stall a broker."""
    dispatcher.clear()
    stalled = dispatcher.dispatch(batch)
    while stalled is not None:
        stalled = dispatcher.dispatch(batch, stalled + 1)
    return dispatcher.taken()


def _is_undecoded(batch: MessageBatch) -> Bools:
    """Return which records no client decodes: a port of theirs is none (``InetSocketAddress``)."""
    rows = batch.rows
    variants = (rows["sys_flag"] >> VARIANT_SHIFT) & 3
    starts = rows["body_start"] - np.array(HEAD_SIZES)[variants]
    ports = (starts + at[variants] for at in (BORN_PORT_AT, STORE_PORT_AT))
    high = [batch.buffer[at + byte] for at in ports for byte in (0, 1)]
    return np.asarray(np.bitwise_or.reduce(high) != 0)


def _has_no_port(record: Record) -> bool:
    variant = (record.head.sys_flag >> VARIANT_SHIFT) & 3
    return any(any(record.raw[at[variant] :][:2]) for at in (BORN_PORT_AT, STORE_PORT_AT))


def _is_message(batch: MessageBatch) -> Bools:
    """Return which records are of a type that is put into a queue."""
    kind = batch.rows["sys_flag"] & TRANSACTION_MASK
    return np.asarray((kind != TRANSACTION_PREPARED) & (kind != TRANSACTION_ROLLBACK))


class Hidden(NamedTuple):
    """Whole messages of a log that are dispatched by no walk of a broker, where they lie.

    Attributes:
        places: ``(n,)``, the physical offset of each.
        messages: ``(n,)``, how many it is.
        entries: as in `LogRecords`.
    """

    places: Int64s
    messages: Int64s
    entries: Rows

    @classmethod
    def of(cls, records: LogRecords, surveyed: SurveyedLog, odd: Int64s) -> Hidden:
        """Return those that a survey knows, and those at the places ``odd``, with text for a number."""
        wanted = np.concatenate((surveyed.unreached, odd))
        starts = {one.label: one.start for one in records.log}
        parts, entries = [np.empty((2, 0), np.int64)], [NO_ENTRIES]
        rules = NEWEST.records._replace(requires_numbers=False)
        dispatcher = Dispatcher(records.policy, passes_stalls=True)
        for segment in surveyed.log:
            if not ((wanted >= segment.start) & (wanted < segment.stop)).any():
                continue
            moved = starts.get(segment.label, segment.start) - segment.start
            for batch in true_batches(segment, segment.start, segment.stop, rules, surveyed.false):
                places = batch.rows["log_offset"]
                is_hidden = np.isin(places, wanted) & np.isin(places + moved, records.places, invert=True)
                put = _dispatched(dispatcher, batch.only(is_hidden & _is_message(batch)))
                at, first = np.unique(put.units["physical_offset"], return_index=True)
                parts.append(np.stack((at + moved, np.maximum(put.units["batch_size"][first], 1))))
                entries.append(_entries(put.entries, np.ones(len(put.entries), np.bool_), moved))
            segment.close()
        places, messages = np.concatenate(parts, axis=1)
        return cls(places, messages, np.concatenate(entries))


def _entries(put: Rows, whole: Bools, moved: int = 0) -> Rows:
    rows = np.empty(len(put), NO_ENTRIES.dtype)
    rows["physical_offset"] = put["physical_offset"] + moved
    rows["key_hash"], rows["of_tags"], rows["whole"] = put["key_hash"], put["of_tags"], whole
    return rows


def _by_queue(
    keys: Sequence[QueueKey], units: list[tuple[Array, ...]]
) -> tuple[dict[QueueKey, QueueRecords], dict[QueueKey, QueueRecords]]:
    """Return the records of ordinary queues, and of light ones, each in log order."""
    ordinary: dict[QueueKey, QueueRecords] = {}
    light: dict[QueueKey, QueueRecords] = {}
    if not units:
        return ordinary, light
    numbers, *columns = (np.concatenate(column) for column in zip(*units, strict=True))
    order = np.argsort(numbers, kind="stable")
    bounds = np.searchsorted(numbers[order], np.arange(len(keys) + 1))
    columns = [column[order] for column in columns]
    for number in np.flatnonzero(np.diff(bounds)).tolist():
        key, part = keys[number], slice(bounds[number], bounds[number + 1])
        offsets, places, sizes, messages, whole = (column[part] for column in columns)
        records = QueueRecords(offsets, places, sizes, messages, whole)
        (light if key[0].startswith(LMQ_PREFIX) else ordinary)[key] = records
    return ordinary, light
