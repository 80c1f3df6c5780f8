"""Checks of records against what they state of themselves: level 1 of ``verify`` at memory speed.

A broker checks BODYCRC at recovery only and none of the rest ever (``CommitLog#checkMessageAndReturnSize``,
4.9.8 and 5.3.3), so only these checks show a damaged header that leaves the lengths intact.
"""

from __future__ import annotations

from enum import IntEnum
from typing import TYPE_CHECKING

import numpy as np

from rmqtool.javacompat.kernels import crc32
from rmqtool.javacompat.kernels.integers import as_int
from rmqtool.javacompat.scalars import PROP_CRC_NAME, PROP_CRC_SIZE
from rmqtool.jit import entry, kernel
from rmqtool.scan.field_kernels import (
    HIT_ROW,
    MAX_HITS,
    Check,
    check_empty_body,
    check_inner_batch,
    check_ranges,
    check_sys_flag,
    check_transaction,
    put_hit,
)
from rmqtool.scan.kernels import read_i16, read_i64
from rmqtool.scan.rows import BORN_TIMESTAMP_AT, MESSAGE_ROW

if TYPE_CHECKING:
    import numpy.typing as npt

    from rmqtool.arrays import Buffer, Int64s, Row, Rows


_CRC_NAME = np.frombuffer(PROP_CRC_NAME, np.uint8)
_CRC_BYTES = PROP_CRC_SIZE
_CRC_MASK = 0x7FFFFFFF
_ZERO, _NINE, _PROPERTY_END = 0x30, 0x39, 0x02
_PLACE, _BODY, _RECORD = Check.PHYSICAL_OFFSET.value, Check.BODY_CRC.value, Check.RECORD_CRC.value
_PROPERTIES = Check.PROPERTIES.value
_MAX_HITS = MAX_HITS


class Sum(IntEnum):
    """Places in the array of sums over records."""

    SOUND_CRCS = 0  # records whose property __CRC32# holds
    AHEAD = 1  # records that were born more than a second after they were stored
    MOST_AHEAD_MS = 2


_AHEAD, _MOST_AHEAD = Sum.AHEAD.value, Sum.MOST_AHEAD_MS.value
_CLOCKS_AGREE_MS, _OUT_OF_REASON_MS = 1000, 1 << 42


@entry(lambda: (np.empty(1, np.uint8), 0, 0))
@kernel
def stored_record_crc(buffer: Buffer, start: int, stop: int) -> int:
    """Return the checksum in ``__CRC32#``, the last property; -1 without one, -2 for a wrong form.

    Its digits stand lowest first (``MessageDecoder#createCrc32``, 5.2.0+).
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
def _check_record_crc(
    buffer: Buffer, at: int, row: Row, number: int, sums: Int64s, hits: Rows, count: int
) -> int:
    properties_start = row.topic_stop + 2
    properties_stop = properties_start + row.properties_length
    stored = stored_record_crc(buffer, properties_start, properties_stop)
    if stored != -1:
        crc = crc32(buffer, at, properties_stop - _CRC_BYTES, 0) & _CRC_MASK
        if crc == stored:
            sums[0] += 1
        else:
            count = put_hit(hits, count, _RECORD, number, crc, stored)
    return count


@kernel
def _check_body(buffer: Buffer, at: int, row: Row, number: int, hits: Rows, count: int) -> int:
    if not row.body_length:
        return check_empty_body(buffer, at, row, number, hits, count)
    crc = crc32(buffer, row.body_start, row.body_start + row.body_length, 0) & _CRC_MASK
    if crc != row.body_crc:
        count = put_hit(hits, count, _BODY, number, crc, row.body_crc)
    return count


@kernel
def _check_properties(buffer: Buffer, row: Row, number: int, hits: Rows, count: int) -> int:
    start = row.topic_stop + 2
    stop = start + row.properties_length
    if row.stray_pieces or read_i16(buffer, row.topic_stop) < 0:
        count = put_hit(hits, count, _PROPERTIES, number, 0, row.stray_pieces)
    return check_inner_batch(buffer, row, number, start, stop, hits, count)


@kernel
def _compare_clocks(buffer: Buffer, at: int, row: Row, sums: Int64s) -> None:
    ahead_ms = read_i64(buffer, at + BORN_TIMESTAMP_AT) - row.store_timestamp_ms
    if _CLOCKS_AGREE_MS < ahead_ms < _OUT_OF_REASON_MS:
        sums[_AHEAD] += 1
        sums[_MOST_AHEAD] = max(sums[_MOST_AHEAD], ahead_ms)


def _example_of_check_records() -> tuple[object, ...]:
    sums, hits = np.zeros(len(Sum), np.int64), np.empty(MAX_HITS, HIT_ROW)
    return np.empty(1, np.uint8), np.empty(0, MESSAGE_ROW), 0, 0, 0, sums, hits


@entry(_example_of_check_records)
@kernel
def check_records(
    buffer: Buffer, rows: Rows, first: int, base: int, cut: int, sums: Int64s, hits: Rows
) -> tuple[int, int]:
    """Check records from row ``first`` on, and set PHYSICALOFFSET of every row to its place.

    ``sums``, ``(len(Sum),)``, is added to; ``hits``, of ``HIT_ROW``, at least ``MAX_HITS``, is filled. With
    ``cut``, checksums are not checked here.

    Returns:
        The row to go on with when ``hits`` has room again, or the number of rows; and the number of hits.
    """
    count = 0
    for number in range(first, len(rows)):
        if count + _MAX_HITS > len(hits):
            return number, count
        row = rows[number]
        at = row.log_offset - base
        if row.physical_offset != row.log_offset:
            count = put_hit(hits, count, _PLACE, number, row.log_offset, row.physical_offset)
            row.physical_offset = row.log_offset
        if not cut:
            count = _check_body(buffer, at, row, number, hits, count)
            count = _check_record_crc(buffer, at, row, number, sums, hits, count)
        count = check_ranges(buffer, at, row, number, hits, count)
        _compare_clocks(buffer, at, row, sums)
        count = check_transaction(buffer, at, row, number, hits, count)
        count = check_sys_flag(buffer, row, number, cut, hits, count)
        count = _check_properties(buffer, row, number, hits, count)
    return len(rows), count


@entry(lambda: (np.empty(0, MESSAGE_ROW), 0, 0))
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


@entry(lambda: (np.empty(1, np.uint8), np.empty(0, MESSAGE_ROW), 0, 0, np.empty(0, np.uint32)))
@kernel
def fingerprints(buffer: Buffer, rows: Rows, base: int, cut: int, into: npt.NDArray[np.uint32]) -> None:
    """Fill ``into``, ``(k,)``, with CRC-32 of all bytes of records; of one longer than a window, its head.

    With ``cut``, the bytes at hand are all but the body's missing part, whose BODYCRC is among them.
    """
    for number in range(len(rows)):
        at = rows[number].log_offset - base
        into[number] = crc32(buffer, at, at + rows[number].total_size - cut, 0)
