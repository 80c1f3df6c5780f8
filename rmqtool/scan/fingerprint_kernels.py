"""Fingerprints of records, to compare two copies."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from rmqtool.javacompat.kernels import crc32
from rmqtool.jit import entry, kernel
from rmqtool.scan.rows import MESSAGE_ROW

if TYPE_CHECKING:
    import numpy.typing as npt

    from rmqtool.arrays import Buffer, Rows


@entry(lambda: (np.empty(1, np.uint8), np.empty(0, MESSAGE_ROW), 0, 0, np.empty(0, np.uint32)))
@kernel
def fingerprints(buffer: Buffer, rows: Rows, base: int, cut: int, into: npt.NDArray[np.uint32]) -> None:
    """Fill ``into``, ``(k,)``, with CRC-32 of all bytes of records; of one longer than a window, its head.

    With ``cut``, the bytes at hand are all but the body's missing part, whose BODYCRC is among them.
    """
    for number in range(len(rows)):
        at = rows[number].log_offset - base
        into[number] = crc32(buffer, at, at + rows[number].total_size - cut, 0)
