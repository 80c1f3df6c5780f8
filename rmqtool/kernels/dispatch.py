"""Messages to units and index entries, a window's batch at a time.

Sources (4.9.8, 5.3.3): ``CommitLogDispatcherBuildConsumeQueue#dispatch``,
``ConsumeQueue#putMessagePositionInfoWrapper`` and ``#multiDispatchLmqQueue``,
``BatchConsumeQueue#putMessagePositionInfoWrapper``, ``IndexService#buildIndex`` (also 5.4.0, 5.5.1), and for
the tags code ``CommitLog#checkMessageAndReturnSize``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from rmqtool.formats.message import (
    INNER_BATCH_FLAG,
    TRANSACTION_COMMIT,
    TRANSACTION_MASK,
    TRANSACTION_NONE,
    TRANSACTION_ROLLBACK,
)
from rmqtool.kernels.bytes import as_int, parse_int
from rmqtool.kernels.jit import empty, entry, kernel
from rmqtool.kernels.properties import abs_int, has_inner_batch, hash_utf8, inner_batch, next_key, value_of
from rmqtool.kernels.queues import QueueArrays, find_queue, is_blank, multi_dispatch, no_queues, put_unit
from rmqtool.kernels.rows import (
    ENTRY_ROW,
    KEYLESS_ROW,
    UNIT_ROW,
    Count,
    DispatchOutcome,
    MessageBatch,
    Property,
    Switch,
    Trait,
    no_messages,
)

if TYPE_CHECKING:
    from rmqtool.arrays import Buffer, Int64s, Row, Rows


_SECOND_MS = 1000


class DispatchRules(NamedTuple):
    """A ``DispatchPolicy`` as arrays: switches by ``Switch``, delays in ms by level, turns of tags."""

    switches: Int64s
    delays: Int64s
    tag_turns: Int64s


class DispatchRoom(NamedTuple):
    """Arrays that `dispatch` fills.

    Attributes:
        units: Of ``UNIT_ROW``.
        entries: Of ``ENTRY_ROW``.
        keyless: Of ``KEYLESS_ROW``.
        counts: Running counts, see ``Count``; a message is counted with all it puts, or not at all. Only of
            one that stalls the units before the number that is none are counted, unless ``PASSES_STALLS``
            wants all of it: then units whose offset is not known have `UNKNOWN_QUEUE_OFFSET`.
        missing: Start and stop of the name, and the id, of a queue that is not in the table.
    """

    units: Rows
    entries: Rows
    keyless: Rows
    counts: Int64s
    missing: Int64s


def dispatch_room(rows: int, keyless: int) -> DispatchRoom:
    """Return room for so many units, and as many entries."""
    filled = np.empty(rows, UNIT_ROW), np.empty(rows, ENTRY_ROW), np.empty(keyless, KEYLESS_ROW)
    return DispatchRoom(*filled, np.zeros(len(Count), np.int64), np.zeros(3, np.int64))


@kernel
def _tags_code(buffer: Buffer, row: Row, values: Int64s, traits: int, rules: DispatchRules) -> int:
    """Return the tags code, for SCHEDULE_TOPIC_XXXX the deliver time (``computeDeliverTimestamp``)."""
    if traits & Trait.SCHEDULE and values[Property.DELAY, 0] >= 0:
        level = parse_int(buffer, *value_of(values, Property.DELAY))[1]
        level = min(level, rules.switches[Switch.MAX_DELAY_LEVEL])
        if level > 0:
            delay_ms = rules.delays[level] if rules.delays[level] >= 0 else _SECOND_MS
            return as_int(np.uint64(row.store_timestamp_ms) + np.uint64(delay_ms))
    if values[Property.TAGS, 0] < 0:
        return 0
    return hash_utf8(buffer, *value_of(values, Property.TAGS), 0)


@kernel
def _put_own_unit(
    buffer: Buffer, row: Row, values: Int64s, queue: int, traits: int, tags_code: int, units: Rows, count: int
) -> int:
    """Put the unit of the message's own queue; return the new count."""
    if traits & Trait.UNSAFE:
        return count
    base, number = row.queue_offset, 1
    if traits & Trait.BATCH:
        if has_inner_batch(values):
            _, base, number = inner_batch(buffer, values)
        if base < 0 or number < 0:
            return count
    put_unit(units, count, queue, base, row, tags_code, row.store_timestamp_ms, number)
    return count + 1


@kernel
def _is_inner_batch(row: Row, values: Int64s) -> bool:
    """Whether the record holds an inner batch, which proves that its topic has batch queues.

    Java: ``HookUtils#checkInnerBatch`` (5.0.0 to 5.5.1) refuses one for any other topic, and
    ``BatchConsumeQueue#assignQueueOffset`` gives it INNER_BASE.
    """
    return bool(row.sys_flag & INNER_BATCH_FLAG and has_inner_batch(values))


@kernel
def _asks_for_more_queues(buffer: Buffer, values: Int64s) -> bool:
    """Whether a message names further queues, and offsets in them.

    ``MultiDispatchUtils#checkMultiDispatchQueue`` (5.3.3) and its like in 4.9.8.
    """
    return not (
        is_blank(buffer, *value_of(values, Property.INNER_MULTI_DISPATCH))
        or is_blank(buffer, *value_of(values, Property.INNER_MULTI_QUEUE_OFFSET))
    )


@kernel
def _put_entry(entries: Rows, count: int, row: Row, key_hash: int, of_tags: bool) -> int:
    """Put one entry; return the new count."""
    entry = entries[count]
    entry.key_hash = abs_int(key_hash)
    entry.physical_offset = row.physical_offset
    entry.store_timestamp_ms = row.store_timestamp_ms
    entry.of_tags = of_tags
    return count + 1


@kernel
def _put_entries(
    buffer: Buffer, row: Row, values: Int64s, queue: Row, with_tags: bool, entries: Rows, count: int
) -> int:
    """Put the unique key, the keys cut at single spaces, and the tags as a whole; return the new count."""
    if values[Property.UNIQ_KEY, 0] >= 0:
        key_hash = hash_utf8(buffer, *value_of(values, Property.UNIQ_KEY), queue.topic_seed)
        count = _put_entry(entries, count, row, key_hash, False)
    if values[Property.KEYS, 0] >= 0:
        start, stop = next_key(buffer, *value_of(values, Property.KEYS))
        while start >= 0:
            key_hash = hash_utf8(buffer, start, stop, queue.topic_seed)
            count = _put_entry(entries, count, row, key_hash, False)
            start, stop = next_key(buffer, stop, values[Property.KEYS, 1])
    if with_tags and values[Property.TAGS, 1] > values[Property.TAGS, 0]:
        key_hash = hash_utf8(buffer, *value_of(values, Property.TAGS), queue.tag_seed)
        count = _put_entry(entries, count, row, key_hash, True)
    return count


@kernel
def _has_tag_item(row: Row, tag_turns: Int64s) -> bool:
    """Whether a broker of 5.4.0 or later dispatched the message."""
    turns = 0
    for turn in tag_turns:
        turns += row.physical_offset >= turn
    return turns % 2 == 1


@kernel
def _index(
    buffer: Buffer,
    row: Row,
    values: Int64s,
    queue: Row,
    tag_turns: Int64s,
    room: DispatchRoom,
) -> None:
    """Put the message's index entries, or note that it put none."""
    entries, keyless, counts = room.entries, room.keyless, room.counts
    before = counts[Count.ENTRIES]
    rollback = row.sys_flag & TRANSACTION_MASK == TRANSACTION_ROLLBACK
    if row.physical_offset < counts[Count.END_PHYSICAL_OFFSET]:
        counts[Count.UNINDEXED] += 1
    elif not rollback:
        with_tags = _has_tag_item(row, tag_turns)
        counts[Count.ENTRIES] = _put_entries(buffer, row, values, queue, with_tags, entries, before)
    if counts[Count.ENTRIES] > before:
        counts[Count.END_PHYSICAL_OFFSET] = row.physical_offset
    elif counts[Count.KEYLESS] == 0 or keyless[counts[Count.KEYLESS] - 1].entries_before != before:
        keyless[counts[Count.KEYLESS]].entries_before = before
        keyless[counts[Count.KEYLESS]].store_timestamp_ms = row.store_timestamp_ms
        counts[Count.KEYLESS] += 1


@kernel
def _has_room(values: Int64s, room: DispatchRoom) -> bool:
    """Whether the most that one message can put fits."""
    counts = room.counts
    names_length = values[Property.INNER_MULTI_DISPATCH, 1] - values[Property.INNER_MULTI_DISPATCH, 0]
    keys_length = values[Property.KEYS, 1] - values[Property.KEYS, 0]
    return bool(
        len(room.units) - counts[Count.UNITS] >= 2 + names_length
        and len(room.entries) - counts[Count.ENTRIES]
        >= 3 + keys_length  # the unique key and the tags beside them
        and len(room.keyless) - counts[Count.KEYLESS] >= 1
    )


def _example_of_dispatch() -> tuple[object, ...]:
    rules = DispatchRules(*empty(np.int64, np.int64, np.int64))
    return no_messages(), 0, rules, no_queues(), dispatch_room(0, 0)


@entry(_example_of_dispatch)
@kernel
def dispatch(
    batch: MessageBatch, first: int, rules: DispatchRules, table: QueueArrays, room: DispatchRoom
) -> tuple[int, int]:
    """Dispatch messages from row ``first`` on, in log order.

    Args:
        batch: the messages.
        first: the first row to dispatch.
        rules: the policy.
        table: the queues, of ``QUEUE_ROW``; ``Trait.INNER_BATCHES`` is set in them.
        room: what is filled.

    Returns:
        A ``DispatchOutcome`` and its row.
    """
    buffer, rows = batch.buffer, batch.rows
    switches, counts, missing = rules.switches, room.counts, room.missing
    for number in range(first, len(rows)):
        row = rows[number]
        value = batch.values[number]
        if not _has_room(value, room):
            return DispatchOutcome.FULL, number
        queue = find_queue(buffer, row.topic_start, row.topic_stop, row.queue_id, table)
        if queue < 0:
            missing[0], missing[1], missing[2] = row.topic_start, row.topic_stop, row.queue_id
            return DispatchOutcome.NEW_QUEUE, number
        own = table.rows[queue]
        traits = own.traits
        if traits & Trait.EXCLUDED or row.store_timestamp_ms > switches[Switch.UNTIL_TIMESTAMP]:
            continue
        if _is_inner_batch(row, value):
            own.traits = traits | Trait.INNER_BATCHES
        outcome: int = DispatchOutcome.DONE
        count = counts[Count.UNITS]
        transaction = row.sys_flag & TRANSACTION_MASK
        if transaction in (TRANSACTION_NONE, TRANSACTION_COMMIT):
            tags_code = _tags_code(buffer, row, value, traits, rules)
            count = _put_own_unit(buffer, row, value, own.canonical, traits, tags_code, room.units, count)
            multi = switches[Switch.MULTI_DISPATCH] and not traits & (Trait.NO_MULTI_DISPATCH | Trait.BATCH)
            if multi and _asks_for_more_queues(buffer, value):
                outcome, count = multi_dispatch(
                    buffer, row, value, tags_code, switches, table, room.units, count, missing
                )
                if outcome == DispatchOutcome.NEW_QUEUE:
                    return outcome, number
        counts[Count.UNITS] = count
        if outcome == DispatchOutcome.STALLED and not switches[Switch.PASSES_STALLS]:
            return outcome, number
        counts[Count.MESSAGES] += 1
        if switches[Switch.INDEX]:
            _index(buffer, row, value, own, rules.tag_turns, room)
        if outcome == DispatchOutcome.STALLED:
            return outcome, number
    return DispatchOutcome.DONE, len(rows)
