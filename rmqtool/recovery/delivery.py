"""Delivery after a start: by pulls from each queue, and by queries for keys.

A pull delivers the bytes to which a unit leads, whatever they are; one that leads to none is passed over
(``DefaultMessageStore#getMessage``, 4.9.8 to 5.5.1). A query finds the record of an item that its slot's
chain reaches (``IndexFile#selectPhyOffset``). Light queues are left out: their messages count in their own.
"""

from __future__ import annotations

from copy import copy
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from rmqtool.account.lost import ENDLESS
from rmqtool.account.records import Mark, read_record
from rmqtool.derived.index_files import IndexFile
from rmqtool.formats.message import (
    HEAD_SIZES,
    MAGIC_V1,
    PROPERTIES_LENGTH,
    TOPIC_LENGTHS,
    TRANSACTION_MASK,
    TRANSACTION_PREPARED,
    TRANSACTION_ROLLBACK,
    VARIANT_SHIFT,
    decode_head,
    host_variant,
)
from rmqtool.javacompat import decode_utf8, masked_crc32
from rmqtool.kernels.compare import reach_items
from rmqtool.kernels.rows import BORN_PORT_AT, STORE_PORT_AT
from rmqtool.kernels.units import first_bad_crc
from rmqtool.recovery.log_recovery import true_batches
from rmqtool.releases import NEWEST
from rmqtool.reput.dispatcher import Dispatcher
from rmqtool.store.twins import Shadowed, shadowed
from rmqtool.topics import LMQ_PREFIX

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Sequence

    from rmqtool.account.records import Survey
    from rmqtool.account.survey import SurveyedLog
    from rmqtool.arrays import Array, Bools, Int64s, Rows
    from rmqtool.dispatch.policy import DispatchPolicy
    from rmqtool.kernels.rows import MessageBatch
    from rmqtool.recovery.loaded import IndexState, LoadedStore, Queue
    from rmqtool.recovery.unit_queue import QueueKey
    from rmqtool.reput.dispatcher import Taken
    from rmqtool.scan.records import Record
    from rmqtool.store import Store
    from rmqtool.store.geometry import Geometry
    from rmqtool.store.segments import FileQueue, Segment


class Delivery(NamedTuple):
    """Counts of messages after a start.

    Attributes:
        served: queue offsets at which a pull delivers that queue's own whole message.
        wrong: queue offsets at which it delivers anything else.
        unserved: whole messages of the log that no offset of their queue delivers.
        unindexed: whole messages with keys that a query by none of them finds.
        cut: whole messages that the start cuts off.
        expired: of the wrong, those at units before the log's first byte, until the broker deletes them.
        read: of the served, those of bytes that are no intact record: a client reads its message from them.
    """

    served: int = 0
    wrong: int = 0
    unserved: int = 0
    unindexed: int = 0
    cut: int = 0
    expired: int = 0
    read: int = 0


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
_NO_RECORDS = QueueRecords(_NONE, _NONE, _NONE, _NONE, np.empty(0, np.bool_))
_NO_ENTRIES = np.empty(
    0, [("physical_offset", np.int64), ("key_hash", np.int32), ("of_tags", np.bool_), ("whole", np.bool_)]
)
_READ_ONE_BY_ONE = 10_000
"""Units of a queue that lead to no intact record and are read one by one; those after them are wrong."""
_PORT_BYTES = 4
_MIX = np.uint64(0x9E3779B97F4A7C15)


def _mixed(places: Int64s, hashes: Int64s) -> Int64s:
    """Return one number for place and key hash: two entries share one with a chance of 1 to 2**64."""
    mixed = places.astype(np.uint64) * _MIX + hashes.astype(np.uint64)
    return mixed.view(np.int64)


class LogRecords:
    """The intact records of a log, by queue, with their index entries; some 60 bytes of memory for each.

    A record is whole if its body matches BODYCRC, or BODYCRC is 0.

    Args:
        log: its files.
        policy: how they are dispatched.
        false: physical offsets of frames that are none.

    Attributes:
        log: its files.
        policy: how they are dispatched.
        queues: the records of each queue, light ones left out.
        light: those of each light queue.
        places: physical offsets of all records, ``(n,)`` ascending.
        whole: which of them are whole.
        rebuilt: queues and index that a rebuild makes of the log, once they were made.
        entries: ``(m,)``, index entries: ``physical_offset``, ``key_hash``, ``of_tags`` and ``whole``.
        undecoded: physical offsets of records that clients do not decode.
        homeless: those of whole messages that go into no queue: their topic's name is none of a directory.
        unknown_batch_topics: topics that prove to have batch queues though the policy does not say so.
        chains: of its records, if a broker reads and dispatches each just so.
    """

    def __init__(self, log: FileQueue, policy: DispatchPolicy, false: Int64s | None = None) -> None:
        self.log, self.policy = log, policy
        dispatcher = Dispatcher(policy, passes_stalls=True)
        places, whole, undecoded, homeless = [_NONE], [np.empty(0, np.bool_)], [_NONE], [_NONE]
        units: list[tuple[Array, ...]] = []
        entries = [_NO_ENTRIES]
        for batch in _batches(log, false):
            is_whole = _whole(batch)
            places.append(batch.rows["log_offset"].copy())
            whole.append(is_whole)
            undecoded.append(places[-1][_is_undecoded(batch)])
            put = _dispatched(dispatcher, batch)
            is_put = np.isin(places[-1], put.units["physical_offset"])
            homeless.append(places[-1][is_whole & ~is_put & _is_message(batch)])
            at = np.searchsorted(places[-1], put.units["physical_offset"])
            names = ("queue", "queue_offset", "physical_offset", "size", "batch_size")
            columns = (put.units[name].astype(np.int64) for name in names)
            units.append((*columns, is_whole[at]))
            at = np.searchsorted(places[-1], put.entries["physical_offset"])
            entries.append(_entries(put.entries, is_whole[at]))
        self.places, self.whole = np.concatenate(places), np.concatenate(whole)
        self.entries = np.concatenate(entries)
        self.undecoded, self.homeless = np.concatenate(undecoded), np.concatenate(homeless)
        self.unknown_batch_topics = dispatcher.unknown_batch_topics()
        keys = [dispatcher.key(number) for number in range(len(dispatcher.queues))]
        self.queues, self.light = _by_queue(keys, units)
        self.rebuilt: tuple[dict[QueueKey, Queue], IndexState] | None = None
        self.chains: LogChains | None = None

    @classmethod
    def of(cls, log: FileQueue, policy: DispatchPolicy, survey: Survey) -> LogRecords:
        """Return the same of records that were read before, with their index entries."""
        made, rows = cls.__new__(cls), survey.records
        made.log, made.policy, made.rebuilt = log, policy, None
        made.places, made.unknown_batch_topics = np.ascontiguousarray(rows["log_offset"]), frozenset()
        marks = rows["marks"]
        stalls = bool((marks & np.uint16(Mark.STALLS)).any())
        made.chains = None if stalls else LogChains(made.places, rows["total_size"].astype(np.int64))
        made.whole, undecoded = marks & np.uint16(Mark.BODY_CRC) == 0, []
        for number in np.flatnonzero(marks & np.uint16(Mark.BODY_CRC | Mark.TORN)).tolist():
            record = read_record(survey.log, rows[number])
            is_empty = record is not None and not record.body_length  # no broker checks that
            made.whole[number] |= is_empty
            undecoded += [number] if record is not None and _has_no_port(record) else []
        made.undecoded = made.places[undecoded]
        units, at = survey.units, np.searchsorted(made.places, survey.units["log_offset"])
        is_put = np.zeros(len(rows), np.bool_)
        is_put[at] = True
        made.homeless = made.places[made.whole & ~is_put & (marks & np.uint16(Mark.PLAIN) != 0)]
        names = ("queue", "queue_offset", "log_offset")
        columns = [*(units[name] for name in names), rows["total_size"][at], units["count"]]
        numbers = (column.astype(np.int64) for column in columns)
        made.queues, made.light = _by_queue(survey.queues, [(*numbers, made.whole[at])])
        at = np.searchsorted(made.places, survey.entries["physical_offset"])
        made.entries = _entries(survey.entries, made.whole[at])
        return made

    def put_into(self, loaded: LoadedStore, ranges: Sequence[tuple[int, int]]) -> None:
        """Dispatch the records in ranges of the log to a store that has none of them."""
        if not ranges:
            return
        starts, stops = np.array(ranges, np.int64).T

        def are_in(places: Int64s) -> Bools:
            number = np.searchsorted(starts, places, "right") - 1
            return np.asarray((number >= 0) & (places < stops[number]))

        for key, records in (self.queues | self.light).items():
            rows = records.only(are_in(records.places))
            if len(rows.places):
                queue = loaded.queue(key)
                queue.put(rows.queue_offsets, rows.places, rows.messages if queue.batch else rows.sizes)
        entries = self.entries[are_in(self.entries["physical_offset"])]
        places = self.places[are_in(self.places)]
        keyless = places[~np.isin(places, entries["physical_offset"])]
        before = np.unique(np.searchsorted(entries["physical_offset"], keyless))
        loaded.index.put(entries, before.astype([("entries_before", np.int64)]))

    def without(self, topics: Collection[str], stop: int | None) -> LogRecords:
        """Return the records but for those of some topics, and those from physical offset ``stop`` on."""
        stop = ENDLESS if stop is None else stop
        left = copy(self)
        left.whole, left.places = self.whole[self.places < stop], self.places[self.places < stop]
        left.entries = self.entries[self.entries["physical_offset"] < stop]
        left.homeless = self.homeless[self.homeless < stop]
        left.queues = {
            key: records.only(records.places < stop)
            for key, records in self.queues.items()
            if key[0] not in topics
        }
        return left


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
    def of(cls, records: LogRecords, looked: SurveyedLog, odd: Int64s) -> Hidden:
        """Return those that a survey knows, and those at the places ``odd``, with text for a number."""
        wanted = np.concatenate((looked.unreached, odd))
        starts = {one.label: one.start for one in records.log}
        parts, entries = [np.empty((2, 0), np.int64)], [_NO_ENTRIES]
        rules = replace(NEWEST.records, requires_numbers=False)
        dispatcher = Dispatcher(records.policy, passes_stalls=True)
        for segment in looked.log:
            if not ((wanted >= segment.start) & (wanted < segment.stop)).any():
                continue
            moved = starts.get(segment.label, segment.start) - segment.start
            for batch in true_batches(segment, segment.start, segment.stop, rules, looked.false):
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
    rows = np.empty(len(put), _NO_ENTRIES.dtype)
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


class _Log(NamedTuple):
    """The log after a start: files that it keeps, and its end."""

    segments: Sequence[Segment]
    starts: Int64s
    stops: Int64s
    end: int
    shadowed: Sequence[Shadowed]
    knows_v2: bool = True

    @classmethod
    def of(cls, segments: Sequence[Segment], end: int, records: LogRecords) -> _Log:
        served = {segment.start: segment for segment in reversed(segments) if segment.start < end}
        kept = sorted(served.values(), key=lambda segment: segment.start)
        starts = np.array([one.start for one in kept], np.int64)
        stops = np.minimum(np.array([one.stop for one in kept], np.int64), end)
        knows_v2 = records.policy.release.records.knows_v2
        return cls(kept, starts, stops, end, shadowed(records.log, segments), knows_v2)

    def reads_as(self, place: int, size: int, key: QueueKey, queue_offset: int) -> bool:
        """Whether a client reads a message of a queue offset from bytes that are no intact record.

        It checks neither the lengths of a record nor its PHYSICALOFFSET, one of 4.x not even its magic
        (``MessageDecoder#decode``).
        """
        segment = next((one for one in self.segments if one.start <= place < one.stop), None)
        data = b"" if segment is None else segment.read_at(place - segment.start, size, [])
        head = decode_head(data) if len(data) == size else None
        width = TOPIC_LENGTHS.get(head.magic if self.knows_v2 else MAGIC_V1) if head is not None else None
        if head is None or width is None or head.body_length < 0:
            return False
        if any(any(host[-_PORT_BYTES:-2]) for host in (head.born_host, head.store_host)):
            return False
        body_start = HEAD_SIZES[host_variant(head.sys_flag)]
        body = data[body_start : body_start + head.body_length]
        rest = data[body_start + head.body_length :]
        if len(rest) < width.size or (head.body_crc and masked_crc32(body) != head.body_crc):
            return False
        (length,) = width.unpack_from(rest)
        topic, left = rest[width.size : width.size + length], rest[width.size + length :]
        if len(left) < PROPERTIES_LENGTH.size or PROPERTIES_LENGTH.unpack_from(left)[0] > len(left) - 2:
            return False
        return (decode_utf8(topic), head.queue_id, head.queue_offset) == (*key, queue_offset)

    def shows(self, places: Int64s) -> Bools:
        """Return which places lie in a file that is served itself, not another of its name."""
        shown = np.ones(len(places), np.bool_)
        for twin in self.shadowed:
            shown &= (places < twin.file.start) | (places >= twin.file.stop)
        return shown

    def holds(self, places: Int64s, sizes: Int64s) -> Bools:
        """Return which ranges lie in one file of the log."""
        if not len(self.starts):
            return np.zeros(len(places), np.bool_)
        number = np.searchsorted(self.starts, places, "right") - 1
        return np.asarray((number >= 0) & (places + sizes <= self.stops[number]))

    def led_to(self, places: Int64s) -> Int64s:
        """Return where units lead: 0 is the first file, whatever its name (``CommitLog#getMessage``)."""
        return np.where(places == 0, self.starts[0], places) if len(self.starts) else places


class QueueDelivery(NamedTuple):
    """Delivery from one queue; ``read`` are places of bytes that clients read though they are no record."""

    served: int
    wrong: int
    unserved: int
    expired: int = 0
    read: tuple[int, ...] = ()


def delivered(
    loaded: LoadedStore, log: _Log, key: QueueKey, records: QueueRecords, undecoded: Int64s = _NONE
) -> QueueDelivery:
    """Return a queue's delivery by pulls, each from one of its offsets, after a start."""
    records = records.only(records.places < log.end)
    queue = loaded.queues.get(key)
    if queue is None:
        return QueueDelivery(0, 0, int(records.messages[records.whole].sum()))
    keys, named, sizes, messages = _units(queue)
    places = log.led_to(named)
    live = log.holds(places, np.maximum(sizes, 1)) & (sizes != 0)
    own, in_place = np.zeros((2, len(places)), np.bool_)
    if len(records.places):
        row = np.minimum(np.searchsorted(records.places, places), len(records.places) - 1)
        own = (records.places[row] == places) & records.whole[row] & log.shows(places)
        own &= np.isin(places, undecoded, invert=True)
        # A reader goes by TOTALSIZE, if a unit leads to that many bytes; an appended batch unit does.
        own &= (sizes >= records.sizes[row]) | (sizes < 0)
        in_place = own & (records.queue_offsets[row] == keys)
    read = []
    for number in np.flatnonzero(live & ~own)[:_READ_ONE_BY_ONE].tolist():
        unit = int(places[number]), int(sizes[number])
        own[number] = in_place[number] = log.reads_as(*unit, key, int(keys[number]))
        read += [unit[0]] * bool(own[number])
    reached = np.isin(records.places, places[live & own])
    gaps = np.maximum(np.diff(keys) - messages[:-1], 0) if queue.batch else np.zeros(1, np.int64)
    return QueueDelivery(
        served=int(messages[live & in_place].sum()),
        wrong=int(messages[live & ~in_place].sum()) + int(gaps[live[:-1]].sum() if queue.batch else 0),
        unserved=int(records.messages[records.whole & ~reached].sum()),
        expired=int(messages[live & ~in_place & (named < log.starts[0])].sum()) if len(log.starts) else 0,
        read=tuple(read),
    )


def _units(queue: Queue) -> tuple[Int64s, Int64s, Int64s, Int64s]:
    """Return queue offset, place, size and messages of the units between a queue's bounds."""
    keys, places, sizes, messages = queue.units_after_start()
    if queue.batch and len(keys):
        # An offset belongs to the unit with the greatest base up to it: those of a gap deliver a batch again.
        order = np.argsort(keys, kind="stable")
        order = order[np.append(keys[order][1:] != keys[order][:-1], [True])]
        keys, places, sizes, messages = keys[order], places[order], sizes[order], messages[order]
    inside = (keys >= queue.minimum) & (keys < queue.maximum)
    return keys[inside], places[inside], sizes[inside], messages[inside]


def indexed(store: Store, loaded: LoadedStore, geometry: Geometry, reached: dict[str, Int64s]) -> Int64s:
    """Return place and hash of each item that a query can find after a start, as in `LogRecords.entries`.

    ``geometry`` is that of the broker's settings; ``reached`` keeps the items of files that were read.
    """
    kept = {outcome.file for outcome in loaded.index.outcomes}
    put = (_NO_ENTRIES, *loaded.index.put_rows)
    found = [_mixed(one["physical_offset"], one["key_hash"]) for one in put]
    for file in store.index_files:
        if file.label not in kept:
            continue
        if file.label not in reached:
            reached[file.label] = _reached(IndexFile(file, geometry))
            file.close()
        found.append(reached[file.label])
    return np.concatenate(found)


def _reached(index: IndexFile) -> Int64s:
    items = list(index.item_columns())
    if not items:
        return _NONE
    hashes = np.concatenate([one.key_hashes for one in items])
    previous = np.concatenate([one.previous for one in items])
    places = np.concatenate([one.physical_offsets for one in items])
    slots = np.concatenate([slots for _, slots in index.slot_columns()])
    reached = np.zeros(len(hashes), np.bool_)
    reach_items(slots, hashes, previous, np.zeros(len(hashes), np.int32), reached)
    return _mixed(places[reached], hashes[reached].astype(np.int64))


def measure(
    records: LogRecords, loaded: LoadedStore, end: int, found: Int64s | None, hidden: Hidden
) -> Delivery:
    """Return the counts of a store after its start.

    Args:
        records: of the log, before the start.
        loaded: the store in the broker's memory after it.
        end: physical offset at which it ends the log.
        found: items that a query can find, see `indexed`; None where there is to be no index.
        hidden: messages that no walk reaches.
    """
    log = _Log.of(loaded.log, end, records)
    counts = [
        delivered(loaded, log, key, records.queues.get(key, _NO_RECORDS), records.undecoded)
        for key in sorted({*records.queues, *loaded.queues})
        if not key[0].startswith(LMQ_PREFIX)
    ]
    read = np.array([place for count in counts for place in count.read], np.int64)
    is_left = (hidden.places < end) & np.isin(hidden.places, read, invert=True)
    homeless = np.count_nonzero(records.homeless < end)
    return Delivery(
        served=sum(count.served for count in counts),
        wrong=sum(count.wrong for count in counts),
        unserved=sum(count.unserved for count in counts) + int(hidden.messages[is_left].sum() + homeless),
        unindexed=0 if found is None else _unindexed(records, hidden, end, found),
        cut=_messages_after(records, end) + int(hidden.messages[hidden.places >= end].sum()),
        expired=sum(count.expired for count in counts),
        read=int(np.isin(read, hidden.places, invert=True).sum()),
    )


def _messages_after(records: LogRecords, end: int) -> int:
    """Count the whole messages that lie at physical offset ``end`` or after it, each once."""
    later = [queue.only(queue.whole & (queue.places >= end)) for queue in records.queues.values()]
    places = np.concatenate([_NONE, *(one.places for one in later)])
    messages = np.concatenate([_NONE, *(one.messages for one in later)])
    first = np.unique(places, return_index=True)[1]
    return int(messages[first].sum() + np.count_nonzero(records.homeless >= end))


def _unindexed(records: LogRecords, hidden: Hidden, end: int, found: Int64s) -> int:
    entries = np.concatenate((records.entries[records.entries["whole"]], hidden.entries))
    entries = entries[~entries["of_tags"] & (entries["physical_offset"] < end)]
    places = entries["physical_offset"]
    is_found = np.isin(_mixed(places, entries["key_hash"]), found)
    return len(np.setdiff1d(places, places[is_found]))
