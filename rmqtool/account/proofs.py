"""Proofs of lost messages beside units.

An index item leads to the place of a record, and names no queue: a place that neither a lost message's unit
nor a hole in a queue accounts for is that of one more lost message. A consumer offset beyond a queue's end
proves messages only if units or items, too, lead beyond the log's end: a topic that was deleted, or a client
that chose its offset, leaves the same.

The rest proves no message by itself. The checkpoint has times: they bear out that a log was longer
(``account.is_borne_out``). An op message names a queue offset of the half queue that lies between those of
other half messages, or its unit is there. Units of the timer's log lead to records of a topic that has a
consume queue.
"""

from __future__ import annotations

from heapq import heappop, heappush
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from rmqtool.account.lost import Absent
from rmqtool.derived.index_files import IndexFile, opened_index_files
from rmqtool.derived.positions import consumed_offsets
from rmqtool.errors import EnvironmentFailureError
from rmqtool.formats.message import SMALLEST_RECORD
from rmqtool.javacompat import item_hashes
from rmqtool.scan.records import record_at
from rmqtool.topics import LMQ_PREFIX

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from rmqtool.arrays import Bools, Int64s
    from rmqtool.store import Store
    from rmqtool.store.segments import FileQueue


_SAMPLED = 16
"""Items of a file that show whether it is of this log."""


class Hole(NamedTuple):
    """Lost messages whose places nothing names, between the physical offsets ``start`` and ``stop``."""

    start: int
    stop: int
    messages: int


def indexed_places(
    store: Store,
    holds_none: Callable[[Int64s, Int64s], Bools],
    room: Callable[[int, int], int],
    unread: list[str],
    log: FileQueue | None = None,
) -> Int64s:
    """Return where index items lead to and no record is, ``(n,)`` ascending.

    Args:
        store: whose index; only files that know of such places are read.
        holds_none: returns which ranges, by physical offsets and sizes, meet no record and no end mark.
        room: returns the bytes between two places that neither takes.
        unread: receives sentences about files that cannot be read, and so prove nothing.
        log: to whose records the items of a file must lead; None: those of any file prove messages.
    """
    files: list[_Listed] = []
    try:
        for index in opened_index_files(store):
            first, last = index.header.begin_phy_offset, index.header.end_phy_offset
            if index.has_items and 0 <= first <= last:
                found = list(_places(index, holds_none)) if room(first, last + 1) > 0 else []
                is_own = None if log is None else _is_own(index, holds_none, log)
                files.append(_Listed(first, last, is_own, found))
    except EnvironmentFailureError as failure:
        unread.append(str(failure))
    places = [
        each
        for number, file in enumerate(files)
        if log is None or _fits(files, number, log)
        for each in file.places
    ]
    return np.unique(np.concatenate([np.empty(0, np.int64), *places]))


class _Listed(NamedTuple):
    """An index file: bounds of its places, whether they are of this log, and those without a record."""

    first: int
    last: int
    is_own: bool | None
    places: list[Int64s]


def _is_own(index: IndexFile, holds_none: Callable[[Int64s, Int64s], Bools], log: FileQueue) -> bool | None:
    """Return whether most items of a file lead to records with their keys; None where none are.

    A file of another store's index leads into a log to where no such record begins.
    """
    numbers = range(1, index.last_item + 1, max(index.last_item // _SAMPLED, 1))
    items = [item for item in map(index.item, numbers) if item is not None]
    places = np.array([item.physical_offset for item in items], np.int64)
    is_free = holds_none(places, np.full(len(items), SMALLEST_RECORD))
    met = [item for item, free in zip(items, is_free.tolist(), strict=True) if not free]
    records = [(record_at(log, item.physical_offset), item.key_hash) for item in met]
    own = sum(
        record is not None and key_hash in item_hashes(record.topic, record.properties)
        for record, key_hash in records
    )
    return 2 * own >= len(met) if met else None


def _fits(files: list[_Listed], number: int, log: FileQueue) -> bool:
    """Return whether a file is of this log, or leads to no record, and is where it belongs among others.

    A broker fills one file after the other: the next begins with the first message that has keys after the
    last in the one before.
    """
    file = files[number]
    if file.is_own is not None:
        return file.is_own
    before = next((one for one in reversed(files[:number]) if one.is_own), None)
    after = next((one for one in files[number + 1 :] if one.is_own), None)
    if (before and file.first < before.last) or (after and after.first < file.last):
        return False
    return before is None or before is not files[number - 1] or not _has_keys(log, before.last, file.first)


def _has_keys(log: FileQueue, place: int, stop: int) -> bool:
    """Return whether a message with keys comes between that at a place and another; it reads a few."""
    for _ in range(_SAMPLED):
        if (record := record_at(log, place)) is None:
            return False
        place += len(record.raw)
        segment = log.segment_at(place)
        if segment is not None and (record := record_at(log, place)) is None:
            place = segment.stop
            record = record_at(log, place)
        if record is None or place >= stop:
            return False
        if record.properties.get("UNIQ_KEY") or record.properties.get("KEYS"):
            return True
    return False


def _places(index: IndexFile, holds_none: Callable[[Int64s, Int64s], Bools]) -> Iterator[Int64s]:
    """Yield the places of items in the order of the log, as items that have not rotted are."""
    first, last = index.header.begin_phy_offset, index.header.end_phy_offset
    for items in index.item_columns():
        places = items.physical_offsets
        before, after = np.concatenate([[first], places[:-1]]), np.concatenate([places[1:], [last]])
        sound = places[(before <= places) & (places <= after) & (items.key_hashes >= 0)]
        yield sound[holds_none(sound, np.full(len(sound), SMALLEST_RECORD))]


def unaccounted(places: Int64s, named: Iterable[int], holes: Iterable[Hole]) -> Int64s:
    """Return the places of messages, ascending, that neither a name nor a hole accounts for.

    ``named`` are places of lost messages that something else leads to. Each hole takes as many places as it
    has messages, that which ends first the first.
    """
    places = places[~np.isin(places, np.fromiter(named, np.int64))]
    coming = sorted(holes, reverse=True)
    open_: list[tuple[int, int]] = []  # where holes end, and the messages that they have left
    left = []
    for place in places.tolist():
        while coming and coming[-1].start <= place:
            hole = coming.pop()
            heappush(open_, (hole.stop, hole.messages))
        while open_ and open_[0][0] <= place:
            heappop(open_)
        if not open_:
            left.append(place)
            continue
        stop, messages = heappop(open_)
        if messages > 1:
            heappush(open_, (stop, messages - 1))
    return np.array(left, np.int64)


def consumed_ends(store: Store) -> Mapping[tuple[str, int], int]:
    """Return the queue offset after the last message that any consumer has read, by topic and queue id."""
    ends: dict[tuple[str, int], int] = {}
    for offset in consumed_offsets(store):
        if not offset.topic.startswith(LMQ_PREFIX):
            key = offset.topic, offset.queue_id
            ends[key] = max(offset.offset, ends.get(key, 0))
    return ends


def consumed_beyond(known: int, consumed: int, log_end: int, reach: int) -> Iterator[Absent]:
    """Yield the messages of a queue that consumers have read, and that nothing else names.

    ``known`` is the queue offset after the last one of which something else knows, 0 of an unknown queue,
    ``consumed`` that after the last one that was read. Units or items lead up to ``reach`` in the log.
    """
    messages = consumed - known
    if known > 0 < messages and messages * SMALLEST_RECORD <= reach - log_end:
        yield Absent(known, messages, log_end, reach, "consumed")
