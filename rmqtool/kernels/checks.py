"""Checks of one record against its own bytes: fields, checksums, and what a recovery reads."""

from __future__ import annotations

from enum import IntEnum
from typing import TYPE_CHECKING

import numpy as np

from rmqtool.formats import message
from rmqtool.javacompat import PROP_CRC_NAME, PROP_CRC_SIZE
from rmqtool.kernels.bytes import as_int, equals, load_word, parse_long
from rmqtool.kernels.checksums import crc32, masked_crc32
from rmqtool.kernels.jit import empty, entry, inlined, kernel
from rmqtool.kernels.properties import find_property, zero_bytes
from rmqtool.kernels.rows import (
    BODY_LENGTH_AT,
    BORN_PORT_AT,
    BORN_TIMESTAMP_AT,
    MESSAGE_ROW,
    PREPARED_OFFSET_AT,
    STORE_PORT_AT,
    VARIANT_SHIFT,
    MessageBatch,
    no_messages,
)
from rmqtool.kernels.walk import frame_stop, read_i16, read_i32, read_i64
from rmqtool.topics import OP_TOPIC

if TYPE_CHECKING:
    import numpy.typing as npt

    from rmqtool.arrays import Buffer, Int64s, Row, Rows


class Check(IntEnum):
    """Checks that a well-framed record can fail."""

    PHYSICAL_OFFSET = 0
    BODY_CRC = 1
    RECORD_CRC = 2  # the property __CRC32#
    BORN_PORT = 3
    STORE_PORT = 4
    BORN_TIME = 5
    STORE_TIME = 6
    PROPERTIES = 7
    INNER_BASE = 8  # the property that a batch queue's offset is taken from
    EMPTY_BODY_CRC = 9
    BODY_LENGTH = 10
    COMPRESSION = 11
    SYS_FLAG = 12
    INNER_FLAG = 13
    QUEUE_OFFSET = 14  # of a record that is put into no queue
    PREPARED_OFFSET = 15
    ZEROS = 16  # in the properties, which have no other fault
    NO_BODY_CRC = 17  # BODYCRC is 0, and the body is not empty
    PLACEHOLDER = 18  # a salvage made it; nothing is wrong with it


HIT_ROW = np.dtype(
    [("check", np.int64), ("row", np.int64), ("expected", np.int64), ("observed", np.int64)], align=True
)
MAX_HITS = len(Check)
"""The most that one record can put."""

EARLIEST_MS = 1_262_304_000_000
LATEST_MS = 4_102_444_800_000
"""Times within reason: 2010 (RocketMQ is younger) to 2100."""

_ZERO_RUN = 4  # no text has so many
_LAST_PORT = 0xFFFF

_TRANSACTION, _PREPARED = message.TRANSACTION_MASK, message.TRANSACTION_PREPARED
_COMMIT = message.TRANSACTION_COMMIT
_COMPRESSED_FLAG = 0x1  # MessageSysFlag, all of these
_INNER_BATCH_FLAG = 0x80  # 4.9.4+, 5.0.0+
_COMPRESSION_SHIFT, _COMPRESSION_MASK = 8, 7  # 4.9.4+, 5.0.0+
_DEFINED_BITS = 0x7FF
_LZ4, _ZSTD, _LAST_COMPRESSION = 1, 2, 3  # CompressionType; 0 and 3 are zlib
_LZ4_FRAME, _ZSTD_FRAME = 0x04224D18, 0x28B52FFD
_DEFLATE, _ZLIB_CHECK = 8, 31  # RFC 1950: the method, and what divides the first two bytes
_INNER_BASE_NAME = np.frombuffer(b"INNER_BASE", np.uint8)
_INNER_NUM_NAME = np.frombuffer(b"INNER_NUM", np.uint8)
_LOST = np.frombuffer(message.LOST_BODY.encode(), np.uint8)
_LOST_NAME = np.frombuffer(message.LOST_PROPERTY.encode(), np.uint8)
_OP_TOPIC = np.frombuffer(OP_TOPIC.encode(), np.uint8)
_MINUS, _ONE = ord("-"), ord("1")


@kernel
def put_hit(hits: Rows, count: int, check: int, row: int, expected: int, observed: int) -> int:
    """Append a hit; return how many there are now."""
    hit = hits[count]
    hit.check, hit.row, hit.expected, hit.observed = check, row, expected, observed
    return count + 1


@kernel
def check_ranges(buffer: Buffer, at: int, row: Row, number: int, hits: Rows, count: int) -> int:
    """Check ports and times; return the number of hits."""
    variant = (row.sys_flag >> VARIANT_SHIFT) & 3
    born_port = read_i32(buffer, at + BORN_PORT_AT[variant])
    if born_port < 0 or born_port > _LAST_PORT:
        count = put_hit(hits, count, Check.BORN_PORT, number, _LAST_PORT, born_port)
    store_port = read_i32(buffer, at + STORE_PORT_AT[variant])
    if store_port < 0 or store_port > _LAST_PORT:
        count = put_hit(hits, count, Check.STORE_PORT, number, _LAST_PORT, store_port)
    born_ms = read_i64(buffer, at + BORN_TIMESTAMP_AT)
    if born_ms < EARLIEST_MS or born_ms > LATEST_MS:
        count = put_hit(hits, count, Check.BORN_TIME, number, 0, born_ms)
    if row.store_timestamp_ms < EARLIEST_MS or row.store_timestamp_ms > LATEST_MS:
        count = put_hit(hits, count, Check.STORE_TIME, number, 0, row.store_timestamp_ms)
    return count


@kernel
def check_transaction(buffer: Buffer, at: int, row: Row, number: int, hits: Rows, count: int) -> int:
    """Check what depends on the transaction type; return the number of hits.

    Only ``EndTransactionProcessor#processRequest`` sets PREPARED_TRANSACTION_OFFSET, to where the half
    message lies; commits that were delayed or sent back have none. Prepared and rolled back records have
    queue offset 0 (``DefaultAppendMessageCallback#doAppend``; 4.9.8, 5.3.3).
    """
    kind = row.sys_flag & _TRANSACTION
    variant = (row.sys_flag >> VARIANT_SHIFT) & 3
    prepared_at = read_i64(buffer, at + PREPARED_OFFSET_AT[variant])
    ends = kind > _PREPARED
    if prepared_at != 0 and (not ends or prepared_at < 0 or prepared_at >= row.log_offset):
        count = put_hit(hits, count, Check.PREPARED_OFFSET, number, 0, prepared_at)
    if kind not in (0, _COMMIT) and row.queue_offset != 0:
        count = put_hit(hits, count, Check.QUEUE_OFFSET, number, 0, row.queue_offset)
    return count


@kernel
def check_empty_body(buffer: Buffer, at: int, row: Row, number: int, hits: Rows, count: int) -> int:
    """Check the fields of a record without body: ``UtilAll#crc32`` of none is 0 (4.9.8, 5.3.3)."""
    length = read_i32(buffer, at + BODY_LENGTH_AT[(row.sys_flag >> VARIANT_SHIFT) & 3])
    if length < 0:
        count = put_hit(hits, count, Check.BODY_LENGTH, number, 0, length)
    if row.body_crc != 0:
        count = put_hit(hits, count, Check.EMPTY_BODY_CRC, number, 0, row.body_crc)
    return count


@kernel
def _is_compressed(buffer: Buffer, at: int, length: int, kind: int) -> bool:
    """Whether the bytes begin as ``CompressorFactory``'s compressor of that type begins them."""
    if kind in (_LZ4, _ZSTD):
        magic = np.int64(read_i32(buffer, at)) & 0xFFFFFFFF if length >= 4 else 0
        return magic == (_LZ4_FRAME if kind == _LZ4 else _ZSTD_FRAME)
    if length < 2 or buffer[at] & 0xF != _DEFLATE:
        return False
    return (as_int(buffer[at]) * 256 + as_int(buffer[at + 1])) % _ZLIB_CHECK == 0


@kernel
def check_sys_flag(buffer: Buffer, row: Row, number: int, cut: int, hits: Rows, count: int) -> int:
    """Check for undefined bits, and for a compression that is not the body's; return the number of hits."""
    kind = (row.sys_flag >> _COMPRESSION_SHIFT) & _COMPRESSION_MASK
    if row.sys_flag & ~_DEFINED_BITS or kind > _LAST_COMPRESSION:
        return put_hit(hits, count, Check.SYS_FLAG, number, 0, row.sys_flag)
    if row.sys_flag & _COMPRESSED_FLAG and row.body_length and not cut:
        if not _is_compressed(buffer, row.body_start, row.body_length, kind):
            count = put_hit(hits, count, Check.COMPRESSION, number, 0, row.sys_flag)
    return count


@kernel
def check_inner_batch(
    buffer: Buffer, row: Row, number: int, start: int, stop: int, hits: Rows, count: int
) -> int:
    """Check that an inner batch has INNER_NUM, and INNER_BASE equals QUEUEOFFSET; return the hits so far."""
    if not row.sys_flag & _INNER_BATCH_FLAG:
        return count
    if find_property(buffer, start, stop, _INNER_NUM_NAME)[0] < 0:
        count = put_hit(hits, count, Check.INNER_FLAG, number, 0, row.sys_flag)
    value, value_stop = find_property(buffer, start, stop, _INNER_BASE_NAME)
    if value >= 0:
        ok, base = parse_long(buffer, value, value_stop)
        if ok and base != row.queue_offset:
            count = put_hit(hits, count, Check.INNER_BASE, number, base, row.queue_offset)
    return count


_CRC_NAME = np.frombuffer(PROP_CRC_NAME, np.uint8)
_ZERO, _NINE, _PROPERTY_END = 0x30, 0x39, 0x02


class Sum(IntEnum):
    """Places in the array of sums over records."""

    SOUND_CRCS = 0  # records whose property __CRC32# holds
    AHEAD = 1  # records that were born more than a second after they were stored
    MOST_AHEAD_MS = 2


_CLOCKS_AGREE_MS, _OUT_OF_REASON_MS = 1000, 1 << 42


@entry(lambda: (np.empty(1, np.uint8), 0, 0))
@kernel
def stored_record_crc(buffer: Buffer, start: int, stop: int) -> int:
    """Return the checksum in ``__CRC32#``, the last property; -1 without one, -2 for a wrong form.

    Its digits stand lowest first (``MessageDecoder#createCrc32``, 5.2.0+).
    """
    at = stop - PROP_CRC_SIZE
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


@inlined
def record_crcs(buffer: Buffer, at: int, row: Row) -> tuple[int, int]:
    """Return the checksum in ``__CRC32#``, as `stored_record_crc`, and that of the bytes before it."""
    start = row.topic_stop + 2
    stop = start + row.properties_length
    stored = stored_record_crc(buffer, start, stop)
    return stored, masked_crc32(buffer, at, stop - PROP_CRC_SIZE) if stored != -1 else 0


@kernel
def _check_record_crc(
    buffer: Buffer, at: int, row: Row, number: int, sums: Int64s, hits: Rows, count: int
) -> int:
    stored, crc = record_crcs(buffer, at, row)
    if stored != -1:
        if crc == stored:
            sums[Sum.SOUND_CRCS] += 1
        else:
            count = put_hit(hits, count, Check.RECORD_CRC, number, crc, stored)
    return count


@kernel
def _check_body(buffer: Buffer, at: int, row: Row, number: int, hits: Rows, count: int) -> int:
    if not row.body_length:
        return check_empty_body(buffer, at, row, number, hits, count)
    crc = masked_crc32(buffer, row.body_start, row.body_start + row.body_length)
    if crc != row.body_crc:
        check = Check.BODY_CRC if row.body_crc else Check.NO_BODY_CRC
        count = put_hit(hits, count, check, number, crc, row.body_crc)
    return count


@kernel
def _has_zeros(buffer: Buffer, start: int, stop: int) -> bool:
    """Whether four zeros follow each other: most properties have none, as eight bytes at a time show."""
    if stop - start >= 8:
        some = zero_bytes(load_word(buffer, stop - 8))
        for at in range(start, stop - 8, 8):
            some |= zero_bytes(load_word(buffer, at))
        if not some:
            return False
    zeros = 0
    for at in range(start, stop):
        zeros = 0 if buffer[at] else zeros + 1
        if zeros == _ZERO_RUN:
            return True
    return False


@kernel
def names_none(buffer: Buffer, start: int, stop: int) -> bool:
    """Return whether an op message is a salvage's placeholder: its body is the number -1, or its sign."""
    if start == stop or buffer[start] != _MINUS:
        return False
    for at in range(start + 1, stop):
        if buffer[at] != (_ZERO if at < stop - 1 else _ONE):
            return False
    return True


@kernel
def _is_placeholder(buffer: Buffer, row: Row, start: int, stop: int) -> bool:
    """Whether a salvage made a record: most have the first letter of their bodies to compare."""
    body, body_stop = row.body_start, row.body_start + row.body_length
    if body == body_stop:
        return False
    if buffer[body] == _LOST[0]:
        return find_property(buffer, start, stop, _LOST_NAME)[0] >= 0
    is_op = buffer[body] == _MINUS and equals(buffer, row.topic_start, row.topic_stop, _OP_TOPIC)
    return is_op and names_none(buffer, body, body_stop)


@kernel
def _check_properties(buffer: Buffer, row: Row, number: int, cut: int, hits: Rows, count: int) -> int:
    start = row.topic_stop + 2
    stop = start + row.properties_length
    if not cut and _is_placeholder(buffer, row, start, stop):
        count = put_hit(hits, count, Check.PLACEHOLDER, number, 0, 0)
    if row.stray_pieces or read_i16(buffer, row.topic_stop) < 0:
        count = put_hit(hits, count, Check.PROPERTIES, number, 0, row.stray_pieces)
    elif _has_zeros(buffer, start, stop):
        count = put_hit(hits, count, Check.ZEROS, number, 0, 0)
    return check_inner_batch(buffer, row, number, start, stop, hits, count)


@kernel
def _compare_clocks(buffer: Buffer, at: int, row: Row, sums: Int64s) -> None:
    ahead_ms = read_i64(buffer, at + BORN_TIMESTAMP_AT) - row.store_timestamp_ms
    if _CLOCKS_AGREE_MS < ahead_ms < _OUT_OF_REASON_MS:
        sums[Sum.AHEAD] += 1
        sums[Sum.MOST_AHEAD_MS] = max(sums[Sum.MOST_AHEAD_MS], ahead_ms)


@entry(lambda: (no_messages(), 0, *empty(np.int64, HIT_ROW)))
@kernel
def check_records(batch: MessageBatch, first: int, sums: Int64s, hits: Rows) -> tuple[int, int]:
    """Check records from row ``first`` on, and set PHYSICALOFFSET of every row to its place.

    ``sums``, ``(len(Sum),)``, is added to; ``hits``, of ``HIT_ROW``, at least ``MAX_HITS``, is filled. Of a
    record that is cut, checksums are not checked here.

    Returns:
        The row to go on with when ``hits`` has room again, or the number of rows; and the number of hits.
    """
    buffer, rows, cut, count = batch.buffer, batch.rows, batch.cut, 0
    for number in range(first, len(rows)):
        if count + MAX_HITS > len(hits):
            return number, count
        row = rows[number]
        at = row.log_offset - batch.base
        if row.physical_offset != row.log_offset:
            count = put_hit(hits, count, Check.PHYSICAL_OFFSET, number, row.log_offset, row.physical_offset)
            row.physical_offset = row.log_offset
        if not cut:
            count = _check_body(buffer, at, row, number, hits, count)
            count = _check_record_crc(buffer, at, row, number, sums, hits, count)
        count = check_ranges(buffer, at, row, number, hits, count)
        _compare_clocks(buffer, at, row, sums)
        count = check_transaction(buffer, at, row, number, hits, count)
        count = check_sys_flag(buffer, row, number, cut, hits, count)
        count = _check_properties(buffer, row, number, cut, hits, count)
    return len(rows), count


@entry(lambda: (*empty(MESSAGE_ROW), 0, 0))
@kernel
def measure_times(rows: Rows, first: int, latest_ms: int) -> tuple[int, int]:
    """Find the first row from ``first`` on whose STORETIMESTAMP is lower than the one before.

    Returns:
        That row, or the number of rows; and the STORETIMESTAMP of the record before it.
    """
    for number in range(first, len(rows)):
        store_ms = rows[number].store_timestamp_ms
        if store_ms < latest_ms:
            return number, latest_ms
        latest_ms = store_ms
    return len(rows), latest_ms


@entry(lambda: (no_messages(), *empty(np.uint32)), rare=True)
@kernel
def fingerprints(batch: MessageBatch, into: npt.NDArray[np.uint32]) -> None:
    """Fill ``into``, ``(k,)``, with CRC-32 of all bytes of records; of one longer than a window, its head.

    With ``cut``, the bytes at hand are all but the body's missing part, whose BODYCRC is among them.
    """
    rows = batch.rows
    for number in range(len(rows)):
        at, stop = rows[number].log_offset - batch.base, frame_stop(rows[number]) - batch.base
        into[number] = crc32(batch.buffer, at, stop - batch.cut, 0)
