"""What recovery asks of each record beyond its framing."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from rmqtool.javacompat.kernels.checksums import crc32
from rmqtool.jit import entry, kernel
from rmqtool.scan.rows import MESSAGE_ROW

if TYPE_CHECKING:
    from rmqtool.arrays import Buffer, Rows


_MASK = 0x7FFFFFFF  # UtilAll#crc32


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
