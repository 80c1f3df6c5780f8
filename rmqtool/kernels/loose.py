"""Kernels that find records in raw bytes by their magic, and check their content against their fields.

They know no file, segment or chain. A position with the magic of a record 4 bytes later is a candidate. It
becomes a row if its head can be one, with marks for all that does not hold. ``loose`` runs them over images
of any size, and does the same in plain Python.
"""

from __future__ import annotations

from enum import IntEnum
from typing import TYPE_CHECKING

import numpy as np

from rmqtool.formats import message
from rmqtool.formats.framing import PLAIN
from rmqtool.formats.message import Outcome
from rmqtool.kernels.bytes import as_int
from rmqtool.kernels.checks import EARLIEST_MS, LATEST_MS, record_crcs
from rmqtool.kernels.checksums import crc32, masked_crc32
from rmqtool.kernels.jit import empty, entry, inlined, kernel
from rmqtool.kernels.properties import decode_character
from rmqtool.kernels.rows import (
    BODY_LENGTH_AT,
    BORN_PORT_AT,
    HEAD_SIZES,
    MAGIC_AT,
    PHYSICAL_OFFSET_AT,
    STORE_HOST_AT,
    STORE_PORT_AT,
    STORE_TIMESTAMP_AT,
    SYS_FLAG_AT,
    VARIANT_SHIFT,
    no_messages,
    rules_of,
)
from rmqtool.kernels.walk import check_record, frame_stop, read_i32, read_i64
from rmqtool.releases import LENIENT

if TYPE_CHECKING:
    from rmqtool.arrays import Buffer, Int64s, Row, Rows

SECTOR_BYTES = 512
"""A disk overwrites so many bytes as a whole, or none of them."""

DLEDGER_BYTES = 48
"""The head of an entry of DLedger, before each of its records."""

LOOK_BYTES = DLEDGER_BYTES + message.HEAD_OFFSETS[0]["physicalOffset"] + 8
"""Bytes read after a record, to see whether the next one names that place."""


class FoundMark(IntEnum):
    """Bits of the marks of a record found somewhere."""

    FRAME = 1  # the lengths do not add up, or the image ends before it does
    BODY = 2  # the body does not match BODYCRC
    SIGNATURE = 4  # the record does not match its property __CRC32#
    SIGNED = 8  # it matches its property __CRC32#
    TEXT = 16  # topic or properties are not text, or the latter not a list
    CHAINED = 32  # a record that names this place follows, or an end mark
    ENDS = 64  # zeros follow, or the image ends
    CROSSES = 128  # topic and properties, which no checksum protects, lie in more than one sector


FOUND_ROW = np.dtype(
    [
        ("position", np.int64),  # bytes from the image's start
        ("log_offset", np.int64),  # PHYSICALOFFSET
        ("store_timestamp_ms", np.int64),
        ("host", np.int64),  # STOREHOST as a number
        ("total_size", np.int32),
        ("blank", np.int32),  # TOTALSIZE of the end mark after it, 0 if there is none
        ("crc", np.uint32),  # CRC-32 of the whole record; 0 where its lengths do not add up
        ("marks", np.uint16),  # Found
        ("image", np.uint16),  # number of the image
    ],
    align=True,
)


_END_MAGIC_AT, _END_SIZE_AT = PLAIN.end_magic_at, PLAIN.end_size_at
_LARGEST_HEAD, _SMALLEST_RECORD = max(message.HEAD_SIZES), message.SMALLEST_RECORD
_MAGIC_V1, _MAGIC_V2, _END_MAGIC = message.MAGIC_V1, message.MAGIC_V2, PLAIN.end_magic
_MAGIC = np.array([_MAGIC_V1 >> shift & 0xFF for shift in (24, 16, 8)], np.uint8)
_FIRST, _SECOND, _THIRD = (np.uint8(value) for value in _MAGIC)
_LAST_V1, _LAST_V2 = np.uint8(_MAGIC_V1 & 0xFF), np.uint8(_MAGIC_V2 & 0xFF)
_BLOCK = 256
_LAST_PORT, _DEFINED_BITS = 0xFFFF, 0x7FF
_LARGEST_TAIL = 2 + 0x7FFF + 2 + 0x7FFF  # topic and properties with their lengths
_ONE = np.uint64(1)
_REPLACEMENT, _LEAD_OF_REPLACEMENT = 0xFFFD, 0xEF
_FNV_OFFSET, _FNV_PRIME = np.uint64(0xCBF29CE484222325), np.uint64(0x100000001B3)
_IPV6_KEY = np.uint64(1 << 62)
_PORT_MASK, _16 = np.uint64(0xFFFF), np.uint64(16)


@inlined
def _stop(at: int, row: Row) -> int:
    return as_int(at + row.total_size)


@kernel
def _is_magic(buffer: Buffer, at: int, stop: int) -> bool:
    if at + 4 > stop or buffer[at] != _FIRST or buffer[at + 1] != _SECOND or buffer[at + 2] != _THIRD:
        return False
    return bool(buffer[at + 3] == _LAST_V1 or buffer[at + 3] == _LAST_V2)


@entry(lambda: (np.zeros(1, np.uint8), 0, 0))
@kernel
def next_magic(buffer: Buffer, at: int, stop: int) -> int:
    """Return the position of the next magic of a record that lies whole before ``stop``; else ``stop``.

    Blocks are searched without a branch, which LLVM makes vector instructions of; in random bytes, one block
    of 256 has the first two bytes of a magic.
    """
    while at + _BLOCK < stop:
        is_near = np.uint8(0)
        start = np.uint64(at)
        for i in range(_BLOCK):
            p = start + np.uint64(i)
            is_near |= np.uint8(buffer[p] == _FIRST) & np.uint8(buffer[p + _ONE] == _SECOND)
        if is_near:
            for position in range(at, at + _BLOCK):
                if _is_magic(buffer, position, stop):
                    return position
        at += _BLOCK
    while at < stop:
        if _is_magic(buffer, at, stop):
            return at
        at += 1
    return stop


@kernel
def _host_key(buffer: Buffer, at: int, width: int) -> int:
    """Return a number for a host: address and port of IPv4 themselves, of IPv6 a hash."""
    if width == 8:
        address = np.uint64(read_i32(buffer, at)) & np.uint64(0xFFFFFFFF)
        return as_int(address << _16 | np.uint64(read_i32(buffer, at + 4)) & _PORT_MASK)
    key = _FNV_OFFSET
    for i in range(at, at + width):
        key = (key ^ np.uint64(buffer[i])) * _FNV_PRIME
    return as_int(key >> np.uint64(2) | _IPV6_KEY)


@kernel
def _read_head(buffer: Buffer, at: int, image_stop: int, row: Row) -> bool:
    """Read the fields of a head; return whether it can be that of a record."""
    row.total_size = read_i32(buffer, at)
    row.log_offset = read_i64(buffer, at + PHYSICAL_OFFSET_AT)
    sys_flag = read_i32(buffer, at + SYS_FLAG_AT)
    if row.total_size < _SMALLEST_RECORD or row.log_offset < 0 or sys_flag & ~_DEFINED_BITS:
        return False
    variant = (sys_flag >> VARIANT_SHIFT) & 3
    if at + HEAD_SIZES[variant] > image_stop:
        return False
    row.store_timestamp_ms = read_i64(buffer, at + STORE_TIMESTAMP_AT[variant])
    if row.store_timestamp_ms < EARLIEST_MS or row.store_timestamp_ms > LATEST_MS:
        return False
    born_port = read_i32(buffer, at + BORN_PORT_AT[variant])
    store_port = read_i32(buffer, at + STORE_PORT_AT[variant])
    if born_port < 0 or born_port > _LAST_PORT or store_port < 0 or store_port > _LAST_PORT:
        return False
    body_length = max(read_i32(buffer, at + BODY_LENGTH_AT[variant]), 0)
    tail = row.total_size - HEAD_SIZES[variant] - body_length
    if tail < _SMALLEST_RECORD - HEAD_SIZES[0] or tail > _LARGEST_TAIL:
        return False
    host_at = STORE_HOST_AT[variant]
    row.host = _host_key(buffer, at + host_at, STORE_PORT_AT[variant] + 4 - host_at)
    return True


@kernel
def is_text(buffer: Buffer, start: int, stop: int, separators: int) -> bool:
    """Whether bytes are UTF-8 without control characters.

    ``separators`` accepts those of properties, tabs and line ends as well.
    """
    at = start
    while at < stop:
        byte = buffer[at]
        if byte < 0x80:
            if byte < 0x20 and not (separators and byte in (1, 2, 9, 10, 13)):
                return False
            at += 1
            continue
        character, size = decode_character(buffer, at, stop)
        if character == _REPLACEMENT and not (byte == _LEAD_OF_REPLACEMENT and size == 3):
            return False
        at += size
    return True


@kernel
def _begins(buffer: Buffer, at: int, window_stop: int, log_offset: int) -> bool:
    """Whether a record that names an offset begins; where the bytes end early, by those at hand."""
    if at + PHYSICAL_OFFSET_AT + 8 > window_stop:
        return _is_magic(buffer, at + MAGIC_AT, window_stop)
    if not _is_magic(buffer, at + MAGIC_AT, window_stop):
        return False
    return read_i64(buffer, at + PHYSICAL_OFFSET_AT) == log_offset


@kernel
def _what_follows(buffer: Buffer, at: int, window_stop: int, row: Row) -> int:
    """Return marks for the bytes after a record; sets ``blank`` for an end mark."""
    after = frame_stop(row)
    if at + 8 > window_stop:  # the image ends
        return FoundMark.ENDS
    if _begins(buffer, at, window_stop, after):
        return FoundMark.CHAINED
    if _begins(buffer, at + DLEDGER_BYTES, window_stop, after + DLEDGER_BYTES):
        return FoundMark.CHAINED
    if read_i32(buffer, at + _END_MAGIC_AT) == _END_MAGIC:
        left = read_i32(buffer, at + _END_SIZE_AT)
        if left >= 8:
            row.blank = left
            return FoundMark.CHAINED
    for i in range(at, min(at + PHYSICAL_OFFSET_AT + 8, window_stop)):
        if buffer[i]:
            return 0
    return FoundMark.ENDS


@kernel
def _examine(buffer: Buffer, at: int, base: int, row: Row, found: Row) -> int:
    """Check the checksums and the text of a record whose lengths add up; return marks."""
    marks = 0
    if masked_crc32(buffer, row.body_start, row.body_start + row.body_length) != row.body_crc:
        marks |= FoundMark.BODY
    properties = row.topic_stop + 2
    stop = _stop(at, row)
    stored, crc = record_crcs(buffer, at, row)
    if stored != -1:
        marks |= FoundMark.SIGNED if crc == stored else FoundMark.SIGNATURE
    empty = row.topic_stop == row.topic_start
    if empty or not is_text(buffer, row.topic_start, row.topic_stop, 0):
        marks |= FoundMark.TEXT
    if row.stray_pieces or not is_text(buffer, properties, properties + row.properties_length, 1):
        marks |= FoundMark.TEXT
    if (base + row.body_start + row.body_length) // SECTOR_BYTES != (base + stop - 1) // SECTOR_BYTES:
        marks |= FoundMark.CROSSES
    found.crc = np.uint32(crc32(buffer, at, stop, 0))
    return marks


@entry(
    lambda: (
        *(np.empty(1, np.uint8), 0, 0, 0, 0, 0, rules_of(LENIENT)),
        *no_messages(1)[1:3],
        *empty(FOUND_ROW),
    )
)
@kernel
def find_loose_records(
    buffer: Buffer,
    at: int,
    stop: int,
    window_stop: int,
    image_stop: int,
    base: int,
    rules: Int64s,
    rows: Rows,
    values: Int64s,
    found: Rows,
) -> tuple[int, int, int]:
    """Find the records that begin in a window from ``at`` on, before ``stop``, also those inside others.

    ``base`` is the position of index 0 in the image, ``image_stop`` the index after its last byte, ``rules``
    are those of ``LENIENT``. ``found``, of ``FOUND_ROW``, is filled; ``rows`` and ``values`` are scratch for
    one.

    Returns:
        An ``Outcome``: STOP, NEED if the record at the index needs more bytes than the window has, FULL;
        the index where to go on; and the number of records.
    """
    count = 0
    while True:
        limit = min(stop + MAGIC_AT + 3, window_stop)  # of the last magic that counts, the last byte's
        at = next_magic(buffer, at + MAGIC_AT, limit) - MAGIC_AT
        if at + MAGIC_AT >= limit:
            is_all = window_stop == image_stop or window_stop >= stop + MAGIC_AT + 3
            return Outcome.STOP, stop if is_all else max(window_stop - MAGIC_AT - 3, 0), count
        if count == len(found):
            return Outcome.FULL, at, count
        if at + _LARGEST_HEAD > window_stop and window_stop < image_stop:
            return Outcome.NEED, at, count
        loose = found[count]
        if at + _SMALLEST_RECORD > image_stop or not _read_head(buffer, at, image_stop, loose):
            at += 1
            continue
        loose.position, loose.blank, loose.crc, loose.image = base + at, 0, 0, 0
        loose.marks = FoundMark.FRAME
        after = _stop(at, loose)
        if after <= image_stop:
            if window_stop < min(after + LOOK_BYTES, image_stop):
                return Outcome.NEED, at, count
            outcome = check_record(buffer, at, window_stop, image_stop, base, 0, rules, 0, rows[0], values[0])
            if outcome == Outcome.RECORD:
                marks = _examine(buffer, at, base, rows[0], loose)
                loose.marks = marks | _what_follows(buffer, after, window_stop, loose)
        count += 1
        at += 1


@entry(lambda: (np.empty(1, np.uint8), 0, *empty(FOUND_ROW)))
@kernel
def first_changed(buffer: Buffer, base: int, rows: Rows) -> int:
    """Return the first of some ``FOUND_ROW`` whose bytes have changed since; -1 if there is none.

    ``base`` is the position in the image of the first byte of ``buffer``, which holds all of them.
    """
    for number in range(len(rows)):
        start = rows[number].position - base
        if np.uint32(crc32(buffer, start, _stop(start, rows[number]), 0)) != rows[number].crc:
            return number
    return -1
