"""Messages to units and index entries, a window's batch at a time.

Sources (4.9.8, 5.3.3): ``CommitLogDispatcherBuildConsumeQueue#dispatch``,
``ConsumeQueue#putMessagePositionInfoWrapper`` and ``#multiDispatchLmqQueue``,
``BatchConsumeQueue#putMessagePositionInfoWrapper``, ``IndexService#buildIndex`` (also 5.4.0, 5.5.1), and for
the tags code ``CommitLog#checkMessageAndReturnSize``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from rmqtool.formats.message import (
    INNER_BATCH_FLAG,
    TRANSACTION_COMMIT,
    TRANSACTION_MASK,
    TRANSACTION_NONE,
    TRANSACTION_ROLLBACK,
)
from rmqtool.kernels.integers import as_int, parse_int, parse_long, parse_short
from rmqtool.kernels.jit import entry, kernel
from rmqtool.kernels.properties import abs_int, hash_utf8, next_key
from rmqtool.kernels.queues import find_queue, is_blank, multi_dispatch, put_unit
from rmqtool.kernels.rows import (
    ENTRY_ROW,
    KEYLESS_ROW,
    MESSAGE_ROW,
    QUEUE_ROW,
    UNIT_ROW,
    Count,
    DispatchOutcome,
    Property,
    Switch,
    Trait,
)

if TYPE_CHECKING:
    import numpy.typing as npt

    from rmqtool.arrays import Buffer, Int64s, Row, Rows


_DONE, _NEW_QUEUE, _FULL, _STALLED = (outcome.value for outcome in DispatchOutcome)
_UNITS, _ENTRIES, _KEYLESS, _END, _MESSAGES, _UNINDEXED = (count.value for count in Count)
_INDEX, _MULTI, _MAX_LEVEL = Switch.INDEX.value, Switch.MULTI_DISPATCH.value, Switch.MAX_DELAY_LEVEL.value
_UNTIL, _PASSES = Switch.UNTIL_TIMESTAMP.value, Switch.PASSES_STALLS.value
_SCHEDULE, _BATCH, _NO_MULTI = Trait.SCHEDULE.value, Trait.BATCH.value, Trait.NO_MULTI_DISPATCH.value
_EXCLUDED, _UNSAFE, _INNER = Trait.EXCLUDED.value, Trait.UNSAFE.value, Trait.INNER_BATCHES.value
_KEYS, _UNIQ_KEY, _TAGS, _DELAY, _QUEUES, _OFFSETS, _NUM, _BASE = (name.value for name in Property)
_SECOND_MS = 1000


@kernel
def _tags_code(
    buffer: Buffer, row: Row, values: Int64s, traits: int, switches: Int64s, delays: Int64s
) -> int:
    """Return the tags code, for SCHEDULE_TOPIC_XXXX the deliver time (``computeDeliverTimestamp``)."""
    if traits & _SCHEDULE and values[_DELAY, 0] >= 0:
        level = min(parse_int(buffer, values[_DELAY, 0], values[_DELAY, 1])[1], switches[_MAX_LEVEL])
        if level > 0:
            delay_ms = delays[level] if delays[level] >= 0 else _SECOND_MS
            return as_int(np.uint64(row.store_timestamp_ms) + np.uint64(delay_ms))
    if values[_TAGS, 0] < 0:
        return 0
    return hash_utf8(buffer, values[_TAGS, 0], values[_TAGS, 1], 0)


@kernel
def _put_own_unit(
    buffer: Buffer, row: Row, values: Int64s, queue: int, traits: int, tags_code: int, units: Rows, count: int
) -> int:
    """Put the unit of the message's own queue; return the new count."""
    if traits & _UNSAFE:
        return count
    base, number = row.queue_offset, 1
    if traits & _BATCH:
        if values[_NUM, 0] >= 0 and values[_BASE, 0] >= 0:
            base = parse_long(buffer, values[_BASE, 0], values[_BASE, 1])[1]
            number = parse_short(buffer, values[_NUM, 0], values[_NUM, 1])[1]
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
    has_both = values[_NUM, 0] >= 0 and values[_BASE, 0] >= 0
    return bool(row.sys_flag & INNER_BATCH_FLAG and has_both)


@kernel
def _asks_for_more_queues(buffer: Buffer, values: Int64s) -> bool:
    """Whether a message names further queues, and offsets in them.

    ``MultiDispatchUtils#checkMultiDispatchQueue`` (5.3.3) and its like in 4.9.8.
    """
    return not (
        is_blank(buffer, values[_QUEUES, 0], values[_QUEUES, 1])
        or is_blank(buffer, values[_OFFSETS, 0], values[_OFFSETS, 1])
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
    if values[_UNIQ_KEY, 0] >= 0:
        key_hash = hash_utf8(buffer, values[_UNIQ_KEY, 0], values[_UNIQ_KEY, 1], queue.topic_seed)
        count = _put_entry(entries, count, row, key_hash, False)
    if values[_KEYS, 0] >= 0:
        start, stop = next_key(buffer, values[_KEYS, 0], values[_KEYS, 1])
        while start >= 0:
            key_hash = hash_utf8(buffer, start, stop, queue.topic_seed)
            count = _put_entry(entries, count, row, key_hash, False)
            start, stop = next_key(buffer, stop, values[_KEYS, 1])
    if with_tags and values[_TAGS, 1] > values[_TAGS, 0]:
        key_hash = hash_utf8(buffer, values[_TAGS, 0], values[_TAGS, 1], queue.tag_seed)
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
    entries: Rows,
    keyless: Rows,
    counts: Int64s,
) -> None:
    """Put the message's index entries, or note that it put none."""
    before = counts[_ENTRIES]
    rollback = row.sys_flag & TRANSACTION_MASK == TRANSACTION_ROLLBACK
    if row.physical_offset < counts[_END]:
        counts[_UNINDEXED] += 1
    elif not rollback:
        with_tags = _has_tag_item(row, tag_turns)
        counts[_ENTRIES] = _put_entries(buffer, row, values, queue, with_tags, entries, before)
    if counts[_ENTRIES] > before:
        counts[_END] = row.physical_offset
    elif counts[_KEYLESS] == 0 or keyless[counts[_KEYLESS] - 1].entries_before != before:
        keyless[counts[_KEYLESS]].entries_before = before
        keyless[counts[_KEYLESS]].store_timestamp_ms = row.store_timestamp_ms
        counts[_KEYLESS] += 1


@kernel
def _has_room(values: Int64s, units: Rows, entries: Rows, keyless: Rows, counts: Int64s) -> bool:
    """Whether the most that one message can put fits."""
    names_length = values[_QUEUES, 1] - values[_QUEUES, 0]
    keys_length = values[_KEYS, 1] - values[_KEYS, 0]
    return bool(
        len(units) - counts[_UNITS] >= 2 + names_length
        and len(entries) - counts[_ENTRIES] >= 3 + keys_length  # the unique key and the tags beside them
        and len(keyless) - counts[_KEYLESS] >= 1
    )


def _example_of_dispatch() -> tuple[object, ...]:
    rows, values = np.empty(0, MESSAGE_ROW), np.empty((0, len(Property), 2), np.int64)
    switches = np.zeros(len(Switch), np.int64), np.zeros(1, np.int64), np.zeros(1, np.int64)
    queues = np.full(1, -1, np.int32), np.empty(0, QUEUE_ROW), np.empty(0, np.uint8)
    out = np.empty(0, UNIT_ROW), np.empty(0, ENTRY_ROW), np.empty(0, KEYLESS_ROW)
    counts, missing = np.zeros(len(Count), np.int64), np.zeros(3, np.int64)
    return np.empty(1, np.uint8), rows, values, 0, *switches, *queues, *out, counts, missing


@entry(_example_of_dispatch)
@kernel
def dispatch(
    buffer: Buffer,
    rows: Rows,
    values: Int64s,
    first: int,
    switches: Int64s,
    delays: Int64s,
    tag_turns: Int64s,
    slots: npt.NDArray[np.int32],
    queues: Rows,
    names: Buffer,
    units: Rows,
    entries: Rows,
    keyless: Rows,
    counts: Int64s,
    missing: Int64s,
) -> tuple[int, int]:
    """Dispatch messages from row ``first`` on, in log order.

    Args:
        buffer: the window that the ranges point into, ``(n,)`` uint8.
        rows: ``(k,)`` of ``MESSAGE_ROW``.
        values: ``(k, 8, 2)``, ranges of the values of ``Property``.
        first: the first row to dispatch.
        switches: see ``Switch``.
        delays: delay in ms by level.
        tag_turns: see ``DispatchPolicy.tag_turns``.
        slots: the queue table's slots.
        queues: the queue table's rows, of ``QUEUE_ROW``; ``Trait.INNER_BATCHES`` is set in them.
        names: the queue table's names.
        units: filled, of ``UNIT_ROW``.
        entries: filled, of ``ENTRY_ROW``.
        keyless: filled, of ``KEYLESS_ROW``.
        counts: running counts, see ``Count``; a message is counted with all it puts, or not at all. Only of
            one that stalls the units before the number that is none are counted, unless ``PASSES_STALLS``
            wants all of it: then units whose offset is not known have `UNKNOWN_QUEUE_OFFSET`.
        missing: receives start and stop of the name, and the id, of a queue that is not in the table.

    Returns:
        A ``DispatchOutcome`` and the row it stands at.
    """
    for number in range(first, len(rows)):
        row = rows[number]
        value = values[number]
        if not _has_room(value, units, entries, keyless, counts):
            return _FULL, number
        queue = find_queue(buffer, row.topic_start, row.topic_stop, row.queue_id, slots, queues, names)
        if queue < 0:
            missing[0], missing[1], missing[2] = row.topic_start, row.topic_stop, row.queue_id
            return _NEW_QUEUE, number
        traits = queues[queue].traits
        if traits & _EXCLUDED or row.store_timestamp_ms > switches[_UNTIL]:
            continue
        if _is_inner_batch(row, value):
            queues[queue].traits = traits | _INNER
        outcome, count = _DONE, counts[_UNITS]
        transaction = row.sys_flag & TRANSACTION_MASK
        if transaction in (TRANSACTION_NONE, TRANSACTION_COMMIT):
            tags_code = _tags_code(buffer, row, value, traits, switches, delays)
            canonical = queues[queue].canonical
            count = _put_own_unit(buffer, row, value, canonical, traits, tags_code, units, count)
            multi = switches[_MULTI] and not traits & (_NO_MULTI | _BATCH)
            if multi and _asks_for_more_queues(buffer, value):
                outcome, count = multi_dispatch(
                    buffer, row, value, tags_code, switches, slots, queues, names, units, count, missing
                )
                if outcome == _NEW_QUEUE:
                    return outcome, number
        counts[_UNITS] = count
        if outcome == _STALLED and not switches[_PASSES]:
            return outcome, number
        counts[_MESSAGES] += 1
        if switches[_INDEX]:
            _index(buffer, row, value, queues[queue], tag_turns, entries, keyless, counts)
        if outcome == _STALLED:
            return outcome, number
    return _DONE, len(rows)
