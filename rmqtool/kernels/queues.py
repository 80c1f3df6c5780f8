"""Table of queues: look-up, units put, and the further queues of one message (LMQ)."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from rmqtool.kernels.bytes import as_int, begins_with, hash_bytes, parse_long, same_bytes
from rmqtool.kernels.jit import empty, entry, kernel
from rmqtool.kernels.rows import (
    NO_EXT_UNIT,
    QUEUE_ROW,
    UNKNOWN_QUEUE_OFFSET,
    DispatchOutcome,
    Property,
    Switch,
    Trait,
)
from rmqtool.topics import LMQ_PREFIX

if TYPE_CHECKING:
    from rmqtool.arrays import Buffer, Int32s, Int64s, Row, Rows


_MIX = np.uint64(0x9E3779B97F4A7C15)


@entry(lambda: (*empty(np.uint8), 0, 0, 0))
@kernel
def hash_queue(names: Buffer, start: int, stop: int, queue_id: int) -> int:
    """Hash a queue for the table: the topic's bytes, mixed with the queue id."""
    value = (hash_bytes(names, start, stop) ^ np.uint64(queue_id)) * _MIX
    return value ^ (value >> np.uint64(32))  # type: ignore[return-value] # an unsigned hash


class QueueArrays(NamedTuple):
    """Table of queues, or of totals by queue.

    Attributes:
        slots: ``(2^k,)`` numbers of rows by hash, -1 in free ones.
        rows: ``(n,)`` with the first fields of ``QUEUE_ROW``.
        names: The topics' bytes one after the other.
    """

    slots: Int32s
    rows: Rows
    names: Buffer


def no_queues(kind: np.dtype[np.void] = QUEUE_ROW) -> QueueArrays:
    """Return an empty table for examples of arguments."""
    return QueueArrays(np.full(1, -1, np.int32), np.empty(0, kind), np.empty(0, np.uint8))


@entry(lambda: (*empty(np.uint8), 0, 0, 0, no_queues()))
@kernel
def find_queue(buffer: Buffer, start: int, stop: int, queue_id: int, table: QueueArrays) -> int:
    """Return the number of a queue, -1 if it is not in the table."""
    value = hash_queue(buffer, start, stop, queue_id)
    slots, mask = table.slots, np.uint64(len(table.slots) - 1)
    slot = value & mask
    while slots[slot] >= 0:
        number = slots[slot]
        row = table.rows[number]
        fits = row.hash == value and row.queue_id == queue_id and row.name_length == stop - start
        if fits and same_bytes(table.names, row.name_start, buffer, start, stop):
            return as_int(number)
        slot = (slot + np.uint64(1)) & mask
    return -1


@kernel
def put_slot(hashed: int, number: int, slots: Int32s) -> None:
    """Let the table of slots, ``(2^k,)`` with -1 for an empty one, lead to a row."""
    mask = np.uint64(len(slots) - 1)
    slot = np.uint64(hashed) & mask
    while slots[slot] >= 0:
        slot = (slot + np.uint64(1)) & mask
    slots[slot] = number


@kernel
def put_unit(
    units: Rows,
    count: int,
    queue: int,
    queue_offset: int,
    row: Row,
    tags_code: int,
    store_timestamp_ms: int,
    batch_size: int,
) -> None:
    """Fill row ``count`` of ``units`` (``UNIT_ROW``) for a message of ``MESSAGE_ROW``."""
    unit = units[count]
    unit.queue = queue
    unit.queue_offset = queue_offset
    unit.physical_offset = row.physical_offset
    unit.size = row.total_size
    unit.tags_code = tags_code
    unit.store_timestamp_ms = store_timestamp_ms
    unit.batch_size = batch_size


_LMQ_PREFIX = np.frombuffer(LMQ_PREFIX.encode(), np.uint8)
_COMMA, _SLASH, _SPACE = 0x2C, 0x2F, 0x20


@kernel
def _is_wide_space(code: int) -> bool:
    """Whether three bytes are a space beyond ASCII to ``Character#isWhitespace`` (JDK 17)."""
    general = 0xE28080 <= code <= 0xE2808A and code != 0xE28087  # U+2000 to U+200A, not U+2007
    return general or code in (0xE19A80, 0xE280A8, 0xE280A9, 0xE2819F, 0xE38080)


@kernel
def is_blank(buffer: Buffer, start: int, stop: int) -> bool:
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
def multi_dispatch(
    buffer: Buffer,
    row: Row,
    values: Int64s,
    tags_code: int,
    switches: Int64s,
    table: QueueArrays,
    units: Rows,
    count: int,
    missing: Int64s,
) -> tuple[int, int]:
    """Put the units of the extra queues; return outcome and the new count.

    Empty names and offsets inside the lists are pieces; a name that cannot be a directory puts no unit, nor
    does a queue of inner batches take one: a broker fails at it (``ConsumeQueue#doDispatchLmqQueue`` casts).
    """
    name = values[Property.INNER_MULTI_DISPATCH, 0]
    names_stop = _pieces_stop(buffer, name, values[Property.INNER_MULTI_DISPATCH, 1])
    offset = values[Property.INNER_MULTI_QUEUE_OFFSET, 0]
    offsets_stop = _pieces_stop(buffer, offset, values[Property.INNER_MULTI_QUEUE_OFFSET, 1])
    pieces = _count_pieces(buffer, name, names_stop)
    if pieces != _count_pieces(buffer, offset, offsets_stop):
        return DispatchOutcome.DONE, count
    outcome = DispatchOutcome.DONE
    for _ in range(pieces):
        name_stop = _piece_stop(buffer, name, names_stop)
        offset_stop = _piece_stop(buffer, offset, offsets_stop)
        if not (switches[Switch.SKIPS_SLASH] and _contains_slash(buffer, name, name_stop)):
            ok, queue_offset = parse_long(buffer, offset, offset_stop)
            if not ok:
                outcome, queue_offset = DispatchOutcome.STALLED, UNKNOWN_QUEUE_OFFSET
                if not switches[Switch.PASSES_STALLS]:
                    break
            queue_id = (
                0
                if switches[Switch.LMQ] and begins_with(buffer, name, name_stop, _LMQ_PREFIX)
                else row.queue_id
            )
            queue = find_queue(buffer, name, name_stop, queue_id, table)
            if queue < 0:
                missing[0], missing[1], missing[2] = name, name_stop, queue_id
                return DispatchOutcome.NEW_QUEUE, count
            other = table.rows[queue]
            if not other.traits & (Trait.UNSAFE | Trait.EXCLUDED | Trait.BATCH):
                put_unit(units, count, other.canonical, queue_offset, row, tags_code, NO_EXT_UNIT, 1)
                count += 1
        name, offset = name_stop + 1, offset_stop + 1
    return outcome, count
