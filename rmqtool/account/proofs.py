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
from rmqtool.topics import LMQ_PREFIX

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from rmqtool.arrays import Bools, Int64s
    from rmqtool.store import Store


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
) -> Int64s:
    """Return where index items lead to and no record is, ``(n,)`` ascending.

    Args:
        store: whose index; only files that know of such places are read.
        holds_none: returns which ranges, by physical offsets and sizes, meet no record and no end mark.
        room: returns the bytes between two places that neither takes.
        unread: receives sentences about files that cannot be read, and so prove nothing.
    """
    places = [np.empty(0, np.int64)]
    try:
        for index in opened_index_files(store):
            first, last = index.header.begin_phy_offset, index.header.end_phy_offset
            if index.has_items and 0 <= first <= last and room(first, last + 1) > 0:
                places += _places(index, holds_none)
    except EnvironmentFailureError as failure:
        unread.append(str(failure))
    return np.unique(np.concatenate(places))


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
