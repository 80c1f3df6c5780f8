"""Messages to units and index entries, a window's batch at a time.

Sources (4.9.8, 5.3.3): ``CommitLogDispatcherBuildConsumeQueue#dispatch``,
``ConsumeQueue#putMessagePositionInfoWrapper`` and ``#multiDispatchLmqQueue``,
``BatchConsumeQueue#putMessagePositionInfoWrapper``, ``IndexService#buildIndex``, and for the tags code
``CommitLog#checkMessageAndReturnSize``.
"""

from __future__ import annotations

from enum import IntEnum
from typing import TYPE_CHECKING

import numpy as np

from rmqtool.dispatch.policy import Switch, Trait
from rmqtool.formats.message import (
    TRANSACTION_COMMIT,
    TRANSACTION_MASK,
    TRANSACTION_NONE,
    TRANSACTION_ROLLBACK,
)
from rmqtool.javacompat.kernels import abs_int, hash_utf8, next_key, parse_int, parse_long, parse_short
from rmqtool.javacompat.kernels.jit import as_int
from rmqtool.jit import kernel
from rmqtool.scan.rows import Property

if TYPE_CHECKING:
    from typing import Any

    import numpy.typing as npt

    Buffer = npt.NDArray[np.uint8]
    Int64s = npt.NDArray[np.int64]
    Rows = npt.NDArray[np.void]
    Row = Any  # one element of Rows: in a kernel its fields are attributes

QUEUE_ROW = np.dtype(
    [
        ("hash", np.uint64),
        ("name_start", np.int64),
        ("name_length", np.int32),
        ("queue_id", np.int32),
        ("topic_seed", np.int64),  # hash of "topic#"
        ("traits", np.int32),
        ("canonical", np.int32),  # the queue of the same name in valid UTF-8: where the units go
    ],
    align=True,
)

UNIT_ROW = np.dtype(
    [
        ("queue_offset", np.int64),
        ("physical_offset", np.int64),
        ("tags_code", np.int64),
        ("store_timestamp_ms", np.int64),  # NO_EXT_UNIT: the unit has no ext unit (multi dispatch)
        ("queue", np.int32),  # number in the queue table
        ("size", np.int32),
        ("batch_size", np.int32),
    ],
    align=True,
)

ENTRY_ROW = np.dtype(
    [("physical_offset", np.int64), ("store_timestamp_ms", np.int64), ("key_hash", np.int32)], align=True
)

IDLE_ROW = np.dtype([("entries_before", np.int64), ("store_timestamp_ms", np.int64)])
"""A message that was dispatched but put no entry: with a full last index file it makes the broker create the
next one. Only the first such message behind each entry is kept."""

NO_EXT_UNIT = -(1 << 63)


class Count(IntEnum):
    """Places in the array of running counts."""

    UNITS = 0
    ENTRIES = 1
    IDLES = 2
    END_PHYSICAL_OFFSET = 3  # endPhyOffset of the last index file: messages below it are not indexed
    MESSAGES = 4


class DispatchOutcome(IntEnum):
    """Why a dispatch stopped."""

    DONE = 0
    NEW_QUEUE = 1  # a queue that is not in the table
    FULL = 2  # one of the output arrays has too little room
    STALLED = 3  # an offset of a multi dispatch is no number: the broker repeats this record for ever


_DONE, _NEW_QUEUE, _FULL, _STALLED = (outcome.value for outcome in DispatchOutcome)
_UNITS, _ENTRIES, _IDLES, _END, _MESSAGES = (count.value for count in Count)
_INDEX, _MULTI, _LMQ, _SKIPS_SLASH, _INNER_BATCH, _MAX_LEVEL, _UNTIL = (switch.value for switch in Switch)
_SCHEDULE, _BATCH, _NO_MULTI = Trait.SCHEDULE.value, Trait.BATCH.value, Trait.NO_MULTI_DISPATCH.value
_EXCLUDED, _UNSAFE = Trait.EXCLUDED.value, Trait.UNSAFE.value
_KEYS, _UNIQ_KEY, _TAGS, _DELAY, _QUEUES, _OFFSETS, _NUM, _BASE = (name.value for name in Property)
_LMQ_PREFIX = np.frombuffer(b"%LMQ%", np.uint8)
_COMMA, _SLASH, _SPACE = 0x2C, 0x2F, 0x20
_NO_EXT_UNIT = NO_EXT_UNIT
_SECOND_MS = 1000
_MIX = np.uint64(0x9E3779B97F4A7C15)


@kernel
def hash_queue(names: Buffer, start: int, stop: int, queue_id: int) -> int:
    """Hash a queue for the table: FNV-1a of the topic's bytes, mixed with the queue id."""
    value = np.uint64(0xCBF29CE484222325)
    for i in range(start, stop):
        value = (value ^ np.uint64(names[i])) * np.uint64(0x100000001B3)
    value = (value ^ np.uint64(queue_id)) * _MIX
    return value ^ (value >> np.uint64(32))  # type: ignore[return-value] # an unsigned hash


@kernel
def find_queue(
    buffer: Buffer,
    start: int,
    stop: int,
    queue_id: int,
    slots: npt.NDArray[np.int32],
    queues: Rows,
    names: Buffer,
) -> int:
    """Return the number of a queue, -1 if it is not in the table."""
    value = hash_queue(buffer, start, stop, queue_id)
    mask = np.uint64(len(slots) - 1)
    slot = value & mask
    while slots[slot] >= 0:
        number = slots[slot]
        row = queues[number]
        if row.hash == value and row.queue_id == queue_id and row.name_length == stop - start:
            same = True
            for i in range(stop - start):
                if names[row.name_start + i] != buffer[start + i]:
                    same = False
                    break
            if same:
                return as_int(number)
        slot = (slot + np.uint64(1)) & mask
    return -1


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
def _put_unit(
    units: Rows,
    count: int,
    queue: int,
    queue_offset: int,
    row: Row,
    tags_code: int,
    store_timestamp_ms: int,
    batch_size: int,
) -> None:
    unit = units[count]
    unit.queue = queue
    unit.queue_offset = queue_offset
    unit.physical_offset = row.physical_offset
    unit.size = row.total_size
    unit.tags_code = tags_code
    unit.store_timestamp_ms = store_timestamp_ms
    unit.batch_size = batch_size


@kernel
def _is_wide_space(code: int) -> bool:
    """Whether three bytes are a space beyond ASCII to ``Character#isWhitespace`` (JDK 17)."""
    general = 0xE28080 <= code <= 0xE2808A and code != 0xE28087  # U+2000 to U+200A, not U+2007
    return general or code in (0xE19A80, 0xE280A8, 0xE280A9, 0xE2819F, 0xE38080)


@kernel
def _is_blank(buffer: Buffer, start: int, stop: int) -> bool:
    """As ``StringUtils#isBlank``; an absent value is blank."""
    while start < stop:
        byte = buffer[start]
        if byte == _SPACE or 0x09 <= byte <= 0x0D or 0x1C <= byte <= 0x1F:
            start += 1
            continue
        if stop - start < 3:
            return False
        code = as_int(byte) << 16 | as_int(buffer[start + 1]) << 8 | as_int(buffer[start + 2])
        if not _is_wide_space(code):
            return False
        start += 3
    return True


@kernel
def _pieces_stop(buffer: Buffer, start: int, stop: int) -> int:
    """Return where a value ends without its last commas: ``String#split`` drops empty last pieces."""
    while stop > start and buffer[stop - 1] == _COMMA:
        stop -= 1
    return stop


@kernel
def _count_pieces(buffer: Buffer, start: int, stop: int) -> int:
    if start == stop:
        return 0
    pieces = 1
    for i in range(start, stop):
        pieces += buffer[i] == _COMMA
    return pieces


@kernel
def _piece_stop(buffer: Buffer, start: int, stop: int) -> int:
    while start < stop and buffer[start] != _COMMA:
        start += 1
    return start


@kernel
def _contains_slash(buffer: Buffer, start: int, stop: int) -> bool:
    for i in range(start, stop):
        if buffer[i] == _SLASH:
            return True
    return False


@kernel
def _is_lmq(buffer: Buffer, start: int, stop: int) -> bool:
    if stop - start < len(_LMQ_PREFIX):
        return False
    for i in range(len(_LMQ_PREFIX)):
        if buffer[start + i] != _LMQ_PREFIX[i]:
            return False
    return True


@kernel
def _multi_dispatch(
    buffer: Buffer,
    row: Row,
    values: Int64s,
    tags_code: int,
    switches: Int64s,
    slots: npt.NDArray[np.int32],
    queues: Rows,
    names: Buffer,
    units: Rows,
    count: int,
    missing: Int64s,
) -> tuple[int, int]:
    """Put the units of the extra queues; return outcome and the new count.

    Empty names and offsets inside the lists are pieces; a name that cannot be a directory puts no unit.
    """
    name = values[_QUEUES, 0]
    names_stop = _pieces_stop(buffer, name, values[_QUEUES, 1])
    offset = values[_OFFSETS, 0]
    offsets_stop = _pieces_stop(buffer, offset, values[_OFFSETS, 1])
    pieces = _count_pieces(buffer, name, names_stop)
    if pieces != _count_pieces(buffer, offset, offsets_stop):
        return _DONE, count
    for _ in range(pieces):
        name_stop = _piece_stop(buffer, name, names_stop)
        offset_stop = _piece_stop(buffer, offset, offsets_stop)
        if not (switches[_SKIPS_SLASH] and _contains_slash(buffer, name, name_stop)):
            ok, queue_offset = parse_long(buffer, offset, offset_stop)
            if not ok:
                return _STALLED, count
            queue_id = 0 if switches[_LMQ] and _is_lmq(buffer, name, name_stop) else row.queue_id
            queue = find_queue(buffer, name, name_stop, queue_id, slots, queues, names)
            if queue < 0:
                missing[0], missing[1], missing[2] = name, name_stop, queue_id
                return _NEW_QUEUE, count
            if not queues[queue].traits & (_UNSAFE | _EXCLUDED):
                _put_unit(
                    units, count, queues[queue].canonical, queue_offset, row, tags_code, _NO_EXT_UNIT, 1
                )
                count += 1
        name, offset = name_stop + 1, offset_stop + 1
    return _DONE, count


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
    _put_unit(units, count, queue, base, row, tags_code, row.store_timestamp_ms, number)
    return count + 1


@kernel
def _put_entries(buffer: Buffer, row: Row, values: Int64s, seed: int, entries: Rows, count: int) -> int:
    """Put the unique key, then the keys cut at single spaces; return the new count."""
    if values[_UNIQ_KEY, 0] >= 0:
        key_hash = hash_utf8(buffer, values[_UNIQ_KEY, 0], values[_UNIQ_KEY, 1], seed)
        entries[count].key_hash = abs_int(key_hash)
        entries[count].physical_offset = row.physical_offset
        entries[count].store_timestamp_ms = row.store_timestamp_ms
        count += 1
    if values[_KEYS, 0] >= 0:
        start, stop = next_key(buffer, values[_KEYS, 0], values[_KEYS, 1])
        while start >= 0:
            entries[count].key_hash = abs_int(hash_utf8(buffer, start, stop, seed))
            entries[count].physical_offset = row.physical_offset
            entries[count].store_timestamp_ms = row.store_timestamp_ms
            count += 1
            start, stop = next_key(buffer, stop, values[_KEYS, 1])
    return count


@kernel
def _index(
    buffer: Buffer, row: Row, values: Int64s, seed: int, entries: Rows, idles: Rows, counts: Int64s
) -> None:
    """Put the message's index entries, or note that it put none."""
    before = counts[_ENTRIES]
    rollback = row.sys_flag & TRANSACTION_MASK == TRANSACTION_ROLLBACK
    if row.physical_offset >= counts[_END] and not rollback:
        counts[_ENTRIES] = _put_entries(buffer, row, values, seed, entries, before)
    if counts[_ENTRIES] > before:
        counts[_END] = row.physical_offset
    elif counts[_IDLES] == 0 or idles[counts[_IDLES] - 1].entries_before != before:
        idles[counts[_IDLES]].entries_before = before
        idles[counts[_IDLES]].store_timestamp_ms = row.store_timestamp_ms
        counts[_IDLES] += 1


@kernel
def _has_room(values: Int64s, units: Rows, entries: Rows, idles: Rows, counts: Int64s) -> bool:
    """Whether the most that one message can put fits."""
    names_length = values[_QUEUES, 1] - values[_QUEUES, 0]
    keys_length = values[_KEYS, 1] - values[_KEYS, 0]
    return bool(
        len(units) - counts[_UNITS] >= 2 + names_length
        and len(entries) - counts[_ENTRIES] >= 2 + keys_length
        and len(idles) - counts[_IDLES] >= 1
    )


@kernel
def dispatch(
    buffer: Buffer,
    rows: Rows,
    values: Int64s,
    first: int,
    switches: Int64s,
    delays: Int64s,
    slots: npt.NDArray[np.int32],
    queues: Rows,
    names: Buffer,
    units: Rows,
    entries: Rows,
    idles: Rows,
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
        slots: the queue table's slots.
        queues: the queue table's rows, of ``QUEUE_ROW``.
        names: the queue table's names.
        units: filled, of ``UNIT_ROW``.
        entries: filled, of ``ENTRY_ROW``.
        idles: filled, of ``IDLE_ROW``.
        counts: running counts, see ``Count``; a message is counted with all it puts, or not at all.
        missing: receives start and stop of the name, and the id, of a queue that is not in the table.

    Returns:
        A ``DispatchOutcome`` and the row it stands at.
    """
    for number in range(first, len(rows)):
        row = rows[number]
        value = values[number]
        if not _has_room(value, units, entries, idles, counts):
            return _FULL, number
        queue = find_queue(buffer, row.topic_start, row.topic_stop, row.queue_id, slots, queues, names)
        if queue < 0:
            missing[0], missing[1], missing[2] = row.topic_start, row.topic_stop, row.queue_id
            return _NEW_QUEUE, number
        traits = queues[queue].traits
        if traits & _EXCLUDED or row.store_timestamp_ms > switches[_UNTIL]:
            continue
        count = counts[_UNITS]
        transaction = row.sys_flag & TRANSACTION_MASK
        if transaction in (TRANSACTION_NONE, TRANSACTION_COMMIT):
            tags_code = _tags_code(buffer, row, value, traits, switches, delays)
            canonical = queues[queue].canonical
            count = _put_own_unit(buffer, row, value, canonical, traits, tags_code, units, count)
            multi = switches[_MULTI] and not traits & (_NO_MULTI | _BATCH)
            if multi and not (
                _is_blank(buffer, value[_QUEUES, 0], value[_QUEUES, 1])
                or _is_blank(buffer, value[_OFFSETS, 0], value[_OFFSETS, 1])
            ):
                outcome, count = _multi_dispatch(
                    buffer, row, value, tags_code, switches, slots, queues, names, units, count, missing
                )
                if outcome == _STALLED:
                    counts[_UNITS] = count
                if outcome != _DONE:
                    return outcome, number
        counts[_UNITS] = count
        counts[_MESSAGES] += 1
        if switches[_INDEX]:
            _index(buffer, row, value, queues[queue].topic_seed, entries, idles, counts)
    return _DONE, len(rows)
