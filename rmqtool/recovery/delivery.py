"""Delivery after a start: by pulls from each queue, and by queries for keys.

A pull delivers the bytes to which a unit leads, whatever they are; one that leads to none is passed over
(``DefaultMessageStore#getMessage``, 4.9.8 to 5.5.1). A query finds the record of an item that its slot's
chain reaches (``IndexFile#selectPhyOffset``). Light queues are left out: their messages count in their own.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from rmqtool.derived.index_files import IndexFile
from rmqtool.formats.message import (
    HEAD_SIZES,
    MAGIC_V1,
    PROPERTIES_LENGTH,
    TOPIC_LENGTHS,
    decode_head,
    host_variant,
)
from rmqtool.javacompat import decode_utf8, masked_crc32
from rmqtool.kernels.compare import are_among, reach_items
from rmqtool.recovery.log_records import NO_ENTRIES, NO_RECORDS, Hidden, LogRecords, QueueRecords
from rmqtool.store.twins import Shadowed, shadowed
from rmqtool.topics import LMQ_PREFIX

if TYPE_CHECKING:
    from collections.abc import Container, Sequence

    from rmqtool.arrays import Bools, Int64s
    from rmqtool.recovery.loaded import LoadedStore, Queue
    from rmqtool.recovery.unit_queue import QueueKey
    from rmqtool.store import Store
    from rmqtool.store.geometry import Geometry
    from rmqtool.store.segments import Segment


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


_NONE = np.empty(0, np.int64)
_READ_ONE_BY_ONE = 10_000
"""Units of a queue that lead to no intact record and are read one by one; those after them are wrong."""
_PORT_BYTES = 4
_MIX = np.uint64(0x9E3779B97F4A7C15)


def _mixed(places: Int64s, hashes: Int64s) -> Int64s:
    """Return one number for place and key hash: two entries share one with a chance of 1 to 2**64."""
    mixed = places.astype(np.uint64) * _MIX + hashes.astype(np.uint64)
    return mixed.view(np.int64)


class _Log(NamedTuple):
    """The log after a start: files that it keeps, and its end."""

    segments: Sequence[Segment]
    starts: Int64s
    stops: Int64s
    end: int
    shadowed: Sequence[Shadowed]
    knows_v2: bool = True
    foreign: Container[str] = ()

    @classmethod
    def of(cls, segments: Sequence[Segment], end: int, records: LogRecords) -> _Log:
        served = {segment.start: segment for segment in reversed(segments) if segment.start < end}
        kept = sorted(served.values(), key=lambda segment: segment.start)
        starts = np.array([stretch.start for stretch in kept], np.int64)
        stops = np.minimum(np.array([stretch.stop for stretch in kept], np.int64), end)
        knows_v2 = records.policy.release.records.knows_v2
        return cls(kept, starts, stops, end, shadowed(records.log, segments), knows_v2, records.foreign)

    def reads_as(self, place: int, size: int, key: QueueKey, queue_offset: int) -> bool:
        """Whether a client reads a message of a queue offset from bytes that are no intact record.

        It checks neither the lengths of a record nor its PHYSICALOFFSET, one of 4.x not even its magic
        (``MessageDecoder#decode``).
        """
        own = (file for file in self.segments if file.label not in self.foreign)
        segment = next((file for file in own if file.start <= place < file.stop), None)
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
        own &= ~are_among(places, undecoded)
        # A reader goes by TOTALSIZE, if a unit leads to that many bytes; an appended batch unit does.
        own &= (sizes >= records.sizes[row]) | (sizes < 0)
        in_place = own & (records.queue_offsets[row] == keys)
    read = []
    for number in np.flatnonzero(live & ~own)[:_READ_ONE_BY_ONE].tolist():
        unit = int(places[number]), int(sizes[number])
        own[number] = in_place[number] = log.reads_as(*unit, key, int(keys[number]))
        read += [unit[0]] * bool(own[number])
    reached = are_among(records.places, places[live & own])
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
    """Return a number, ascending, of place and hash of each item that a query can find after a start.

    ``geometry`` is that of the broker's settings; ``reached`` keeps the items of files that were read.
    """
    kept = {outcome.file for outcome in loaded.index.outcomes}
    put = (NO_ENTRIES, *loaded.index.put_rows)
    keys = [_mixed(entries["physical_offset"], entries["key_hash"]) for entries in put]
    for file in store.index_files:
        if file.label not in kept:
            continue
        if file.label not in reached:
            reached[file.label] = _reached(IndexFile(file, geometry))
            file.close()
        keys.append(reached[file.label])
    return np.sort(np.concatenate(keys))


class KeyEntries:
    """Index entries that a log requires of whole messages with keys, without those of tags, and their places.

    They are in the order of the numbers by which `indexed` names them: many starts are judged by them.
    """

    def __init__(self, records: LogRecords, hidden: Hidden) -> None:
        entries = np.concatenate((records.entries[records.entries["whole"]], hidden.entries))
        entries = entries[~entries["of_tags"]]
        self._names = _mixed(entries["physical_offset"], entries["key_hash"])
        order = np.argsort(self._names)
        self._names = self._names[order]
        self._places, numbers = _numbered(entries["physical_offset"])
        self._numbers = numbers[order]

    def unindexed(self, end: int, indexed: Int64s) -> int:
        """Count the messages before ``end`` that a query by none of their keys finds."""
        is_indexed = np.zeros(len(self._places), np.bool_)
        if len(indexed):
            number = np.minimum(np.searchsorted(indexed, self._names), len(indexed) - 1)
            is_indexed[self._numbers[indexed[number] == self._names]] = True
        count = int(np.searchsorted(self._places, end))
        return count - int(np.count_nonzero(is_indexed[:count]))


def _numbered(places: Int64s) -> tuple[Int64s, Int64s]:
    """Return the different places, ascending, and for each of ``places`` which of these it is."""
    order = np.argsort(places, kind="stable")
    ascending = places[order]
    is_new = np.append([True], ascending[1:] != ascending[:-1])[: len(places)]
    numbers = np.empty(len(places), np.int64)
    numbers[order] = np.cumsum(is_new) - 1
    return ascending[is_new], numbers


def _reached(index: IndexFile) -> Int64s:
    items = list(index.item_columns())
    if not items:
        return _NONE
    hashes = np.concatenate([file_items.key_hashes for file_items in items])
    previous = np.concatenate([file_items.previous for file_items in items])
    places = np.concatenate([file_items.physical_offsets for file_items in items])
    slots = np.concatenate([slots for _, slots in index.slot_columns()])
    reached = np.zeros(len(hashes), np.bool_)
    reach_items(slots, hashes, previous, np.zeros(len(hashes), np.int32), reached)
    return _mixed(places[reached], hashes[reached].astype(np.int64))


def measure(records: LogRecords, loaded: LoadedStore, end: int, unindexed: int, hidden: Hidden) -> Delivery:
    """Return the counts of a store after its start.

    ``records`` are those of the log before it, ``loaded`` is the store in the broker's memory after it,
    ``end`` the physical offset at which it ends the log; ``unindexed`` is of `KeyEntries`, and ``hidden`` are
    messages that no walk reaches.
    """
    log = _Log.of(loaded.log, end, records)
    counts = [
        delivered(loaded, log, key, records.queues.get(key, NO_RECORDS), records.undecoded)
        for key in sorted({*records.queues, *loaded.queues})
        if not key[0].startswith(LMQ_PREFIX) and key not in records.deleted
    ]
    for key, of_deleted in records.deleted.items():
        served = delivered(loaded, log, key, of_deleted, records.undecoded)
        counts.append(served._replace(unserved=0))
    read = np.array([place for count in counts for place in count.read], np.int64)
    is_left = (hidden.places < end) & ~are_among(hidden.places, read)
    homeless = np.count_nonzero(records.homeless < end)
    return Delivery(
        served=sum(count.served for count in counts),
        wrong=sum(count.wrong for count in counts),
        unserved=sum(count.unserved for count in counts) + int(hidden.messages[is_left].sum() + homeless),
        unindexed=unindexed,
        cut=_messages_after(records, end) + int(hidden.messages[hidden.places >= end].sum()),
        expired=sum(count.expired for count in counts),
        read=int((~are_among(read, hidden.places)).sum()),
    )


def _messages_after(records: LogRecords, end: int) -> int:
    """Count the whole messages that lie at physical offset ``end`` or after it, each once."""
    later = [queue.only(queue.whole & (queue.places >= end)) for queue in records.queues.values()]
    places = np.concatenate([_NONE, *(one.places for one in later)])
    messages = np.concatenate([_NONE, *(one.messages for one in later)])
    first = np.unique(places, return_index=True)[1]
    return int(messages[first].sum() + np.count_nonzero(records.homeless >= end))
