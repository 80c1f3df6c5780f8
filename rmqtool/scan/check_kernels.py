"""What a record says of itself, held against its bytes: level 1 of ``verify`` at memory speed.

A broker checks BODYCRC at recovery only and none of the rest ever (``CommitLog#checkMessageAndReturnSize``,
4.9.8 and 5.3.3), so this is where damage of a header shows that leaves the lengths intact.
"""

from __future__ import annotations

from enum import IntEnum
from typing import TYPE_CHECKING

import numpy as np

from rmqtool.formats import message
from rmqtool.javacompat.kernels import count_stray_pieces, crc32, find_property, parse_long
from rmqtool.javacompat.kernels.jit import as_int
from rmqtool.jit import kernel
from rmqtool.scan.kernels import read_i16, read_i32, read_i64

if TYPE_CHECKING:
    from typing import Any

    import numpy.typing as npt

    Buffer = npt.NDArray[np.uint8]
    Rows = npt.NDArray[np.void]
    Row = Any  # one row: in a kernel its fields are attributes


class Check(IntEnum):
    """What can be wrong with a record that is well framed."""

    PHYSICAL_OFFSET = 0
    BODY_CRC = 1
    RECORD_CRC = 2  # the property __CRC32#
    BORN_PORT = 3
    STORE_PORT = 4
    BORN_TIME = 5
    STORE_TIME = 6
    PROPERTIES = 7
    INNER_BASE = 8  # the property that a batch queue's offset is taken from


HIT_ROW = np.dtype(
    [("check", np.int64), ("row", np.int64), ("expected", np.int64), ("observed", np.int64)], align=True
)
MAX_HITS = len(Check)
"""The most that one record can put."""

EARLIEST_MS = 1_262_304_000_000
LATEST_MS = 4_102_444_800_000
"""Times within reason: 2010 (RocketMQ is younger) to 2100."""

CRC_PROPERTY_NAME = b"__CRC32#\x01"
CRC_PROPERTY_BYTES = len(CRC_PROPERTY_NAME) + 10 + 1
"""``CommitLog#CRC32_RESERVED_LEN`` (5.3.3): name, separator, ten digits, separator."""

_CRC_NAME = np.frombuffer(CRC_PROPERTY_NAME, np.uint8)
_CRC_BYTES = CRC_PROPERTY_BYTES
_CRC_MASK = 0x7FFFFFFF
_LAST_PORT = 0xFFFF
_ZERO, _NINE, _PROPERTY_END = 0x30, 0x39, 0x02
_PORT_BYTES = 4
_BORN_TIMESTAMP_AT = message.HEAD_OFFSETS[0]["bornTimestamp"]
# A port ends its host, and behind each host stands the field named here.
_BORN_PORT_AT = np.array([at["storeTimestamp"] - _PORT_BYTES for at in message.HEAD_OFFSETS])
_STORE_PORT_AT = np.array([at["reconsumeTimes"] - _PORT_BYTES for at in message.HEAD_OFFSETS])
_VARIANT_SHIFT = message.VARIANT_SHIFT
_EARLIEST_MS, _LATEST_MS = EARLIEST_MS, LATEST_MS
_PLACE, _BODY, _RECORD, _BORN_PORT, _STORE_PORT, _BORN_TIME, _STORE_TIME, _PROPERTIES, _INNER = (
    check.value for check in Check
)
_INNER_BATCH_FLAG = 0x80  # MessageSysFlag.INNER_BATCH_FLAG (5.0.0+)
_INNER_BASE_NAME = np.frombuffer(b"INNER_BASE", np.uint8)
_MAX_HITS = MAX_HITS


@kernel
def _hit(hits: Rows, count: int, check: int, row: int, expected: int, observed: int) -> int:
    hit = hits[count]
    hit.check, hit.row, hit.expected, hit.observed = check, row, expected, observed
    return count + 1


@kernel
def stored_record_crc(buffer: Buffer, start: int, stop: int) -> int:
    """Return the checksum that the property ``__CRC32#`` states.

    Its digits stand lowest first (``MessageDecoder#createCrc32``, 5.2.0+).

    Args:
        buffer: bytes, ``(n,)`` uint8.
        start: position of the properties.
        stop: position behind them; the property is their last, or it does not count.

    Returns:
        -1 if there is no such property, -2 if its digits are none.
    """
    at = stop - _CRC_BYTES
    if at < start:
        return -1
    for i in range(len(_CRC_NAME)):
        if buffer[at + i] != _CRC_NAME[i]:
            return -1
    at += len(_CRC_NAME)
    value, unit = np.int64(0), np.int64(1)
    for i in range(at, stop - 1):
        if buffer[i] < _ZERO or buffer[i] > _NINE:
            return -2
        value += unit * (as_int(buffer[i]) - _ZERO)
        unit *= 10
    return as_int(value) if buffer[stop - 1] == _PROPERTY_END else -2


@kernel
def _check_sums(
    buffer: Buffer, at: int, row: Row, number: int, properties_stop: int, hits: Rows, count: int
) -> int:
    if row.body_length:
        crc = crc32(buffer, row.body_start, row.body_start + row.body_length, 0) & _CRC_MASK
        if crc != row.body_crc:
            count = _hit(hits, count, _BODY, number, crc, row.body_crc)
    stored = stored_record_crc(buffer, row.topic_stop + 2, properties_stop)
    if stored != -1:
        crc = crc32(buffer, at, properties_stop - _CRC_BYTES, 0) & _CRC_MASK
        if crc != stored:
            count = _hit(hits, count, _RECORD, number, crc, stored)
    return count


@kernel
def _check_fields(buffer: Buffer, at: int, row: Row, number: int, hits: Rows, count: int) -> int:
    variant = (row.sys_flag >> _VARIANT_SHIFT) & 3
    born_port = read_i32(buffer, at + _BORN_PORT_AT[variant])
    if born_port < 0 or born_port > _LAST_PORT:
        count = _hit(hits, count, _BORN_PORT, number, _LAST_PORT, born_port)
    store_port = read_i32(buffer, at + _STORE_PORT_AT[variant])
    if store_port < 0 or store_port > _LAST_PORT:
        count = _hit(hits, count, _STORE_PORT, number, _LAST_PORT, store_port)
    born_ms = read_i64(buffer, at + _BORN_TIMESTAMP_AT)
    if born_ms < _EARLIEST_MS or born_ms > _LATEST_MS:
        count = _hit(hits, count, _BORN_TIME, number, 0, born_ms)
    if row.store_timestamp_ms < _EARLIEST_MS or row.store_timestamp_ms > _LATEST_MS:
        count = _hit(hits, count, _STORE_TIME, number, 0, row.store_timestamp_ms)
    return count


@kernel
def _check_inner_base(
    buffer: Buffer, row: Row, number: int, start: int, stop: int, hits: Rows, count: int
) -> int:
    """Hold QUEUEOFFSET of an inner batch against INNER_BASE: a broker writes the same number into both."""
    value, value_stop = find_property(buffer, start, stop, _INNER_BASE_NAME)
    if value >= 0:
        ok, base = parse_long(buffer, value, value_stop)
        if ok and base != row.queue_offset:
            count = _hit(hits, count, _INNER, number, base, row.queue_offset)
    return count


@kernel
def check_records(buffer: Buffer, rows: Rows, first: int, base: int, cut: int, hits: Rows) -> tuple[int, int]:
    """Check records from row ``first`` on; the place becomes the PHYSICALOFFSET of every row.

    Args:
        buffer: the window, ``(n,)`` uint8.
        rows: ``(k,)`` of ``MESSAGE_ROW``.
        first: the first row to check.
        base: physical offset of the window's first byte.
        cut: body bytes that the window leaves out; then checksums are left to others.
        hits: filled, of ``HIT_ROW``, at least ``MAX_HITS``.

    Returns:
        The row to go on with (no room for more hits), or their number; and the number of hits.
    """
    count = 0
    for number in range(first, len(rows)):
        if count + _MAX_HITS > len(hits):
            return number, count
        row = rows[number]
        at = row.place - base
        if row.physical_offset != row.place:
            count = _hit(hits, count, _PLACE, number, row.place, row.physical_offset)
            row.physical_offset = row.place
        properties_start = row.topic_stop + 2
        properties_stop = properties_start + row.properties_length
        if not cut:
            count = _check_sums(buffer, at, row, number, properties_stop, hits, count)
        count = _check_fields(buffer, at, row, number, hits, count)
        strays = count_stray_pieces(buffer, properties_start, properties_stop)
        if strays or read_i16(buffer, row.topic_stop) < 0:
            count = _hit(hits, count, _PROPERTIES, number, 0, strays)
        if row.sys_flag & _INNER_BATCH_FLAG:
            count = _check_inner_base(buffer, row, number, properties_start, properties_stop, hits, count)
    return len(rows), count


@kernel
def measure_times(rows: Rows, first: int, latest_ms: int) -> tuple[int, int]:
    """Find the first row from ``first`` on whose STORETIMESTAMP is lower than the one before.

    Args:
        rows: ``(k,)`` of ``MESSAGE_ROW``.
        first: where to begin.
        latest_ms: STORETIMESTAMP of the record before.

    Returns:
        That row, or their number; and the STORETIMESTAMP of the record before it.
    """
    for number in range(first, len(rows)):
        store_ms = rows[number].store_timestamp_ms
        if store_ms < latest_ms:
            return number, latest_ms
        latest_ms = store_ms
    return len(rows), latest_ms
