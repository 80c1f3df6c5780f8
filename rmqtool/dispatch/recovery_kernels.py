"""Checks of recovery on each record beyond its framing."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from rmqtool.javacompat.kernels.checksums import crc32
from rmqtool.javacompat.scalars import PROP_CRC_SIZE
from rmqtool.jit import entry, kernel
from rmqtool.scan.check_kernels import stored_record_crc
from rmqtool.scan.rows import MESSAGE_ROW

if TYPE_CHECKING:
    from rmqtool.arrays import Buffer, Rows


_MASK = 0x7FFFFFFF  # UtilAll#crc32
_LENGTH_BYTES = 2  # of the properties
_CRC_BYTES = PROP_CRC_SIZE
_PROPERTY_END = 0x02


@entry(lambda: (np.empty(0, np.uint8), np.empty(0, MESSAGE_ROW)))
@kernel
def first_bad_crc(buffer: Buffer, rows: Rows) -> int:
    """Return the first row whose body's checksum is not BODYCRC, the number of rows if there is none.

    Args:
        buffer: the window, ``(n,)`` uint8, with all bodies in it.
        rows: ``(k,)`` of ``MESSAGE_ROW``.
    """
    for number in range(len(rows)):
        row = rows[number]
        if row.body_length > 0:
            value = crc32(buffer, row.body_start, row.body_start + row.body_length, 0)
            if value & _MASK != row.body_crc:
                return number
    return len(rows)


@entry(lambda: (np.empty(0, np.uint8), np.empty(0, MESSAGE_ROW), 0))
@kernel
def first_bad_property(buffer: Buffer, rows: Rows, base: int) -> int:
    """Return the first row without a property ``__CRC32#`` that holds, the number of rows if there is none.

    Args:
        buffer: the window, ``(n,)`` uint8, with all records in it.
        rows: ``(k,)`` of ``MESSAGE_ROW``.
        base: physical offset of the window's first byte.
    """
    for number in range(len(rows)):
        row = rows[number]
        start = row.topic_stop + _LENGTH_BYTES
        stop = start + row.properties_length
        stored = stored_record_crc(buffer, start, stop)
        # 5.3.4 and later leave out the separator before it in batches: it is a part of another property then.
        joined = stop - _CRC_BYTES > start and buffer[stop - _CRC_BYTES - 1] != _PROPERTY_END
        if (
            stored < 0
            or joined
            or crc32(buffer, row.log_offset - base, stop - _CRC_BYTES, 0) & _MASK != stored
        ):
            return number
    return len(rows)
