"""CRC-32 of a buffer: by carry-less multiplication where the processor has it, else by tables.

The tables take sixteen bytes a step (slicing-by-16): the one for byte b at distance d from the end of a block
holds the CRC of that byte followed by d zero bytes. As CRC is linear, a block of sixteen is the exclusive or
of sixteen entries, which do not wait for each other.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from rmqtool.kernels import crc32_clmul
from rmqtool.kernels.integers import as_int, load_word
from rmqtool.kernels.jit import kernel

if TYPE_CHECKING:
    import numpy.typing as npt

    from rmqtool.arrays import Buffer

_POLYNOMIAL = 0xEDB88320  # IEEE 802.3, bits reversed
_BLOCK = 16


def _make_tables() -> npt.NDArray[np.uint32]:
    tables = np.zeros((_BLOCK, 256), np.uint32)
    tables[0] = np.arange(256)
    for _ in range(8):
        tables[0] = (tables[0] >> 1) ^ np.where(tables[0] & 1, np.uint32(_POLYNOMIAL), np.uint32(0))
    for distance in range(1, _BLOCK):
        before = tables[distance - 1]
        tables[distance] = (before >> 8) ^ tables[0][before & 0xFF]
    return tables.reshape(-1)


_TABLES = _make_tables()  # a global is frozen into the compiled kernel; these numbers never change
_TABLE_SIZE = np.uint64(256)
_TABLE_3, _TABLE_7, _TABLE_11, _TABLE_15 = (np.uint64(distance * 256) for distance in (3, 7, 11, 15))
_8, _16, _24, _32 = np.uint64(8), np.uint64(16), np.uint64(24), np.uint64(32)
_ALL_BITS, _BYTE = np.uint64(0xFFFFFFFF), np.uint64(0xFF)


@kernel
def crc32_by_tables(buffer: Buffer, start: int, stop: int, value: int) -> int:
    """Return CRC-32 as ``crc32`` does, on any processor."""
    crc = np.uint64(value) ^ _ALL_BITS
    position = start
    while position + 16 <= stop:
        first = load_word(buffer, position)
        second = load_word(buffer, position + 8)
        # Only the last term waits for the block before, so it comes last.
        rest = _four(first >> _32, _TABLE_11) ^ _four(second, _TABLE_7) ^ _four(second >> _32, _TABLE_3)
        crc = rest ^ _four(first ^ crc, _TABLE_15)
        position += 16
    while position < stop:
        index = (crc ^ np.uint64(buffer[np.uint64(position)])) & _BYTE
        crc = np.uint64(_TABLES[index]) ^ (crc >> _8)
        position += 1
    return as_int(crc ^ _ALL_BITS)


@kernel
def _four(word: np.uint64, table: np.uint64) -> np.uint64:
    """Look up four bytes: the lowest in the table that starts at an entry, each next one table earlier."""
    first = _TABLES[table + (word & _BYTE)] ^ _TABLES[table - _TABLE_SIZE + (word >> _8 & _BYTE)]
    table -= _TABLE_SIZE + _TABLE_SIZE
    second = _TABLES[table + (word >> _16 & _BYTE)] ^ _TABLES[table - _TABLE_SIZE + (word >> _24 & _BYTE)]
    return np.uint64(first ^ second)


if crc32_clmul.AVAILABLE:
    _LEAST_BYTES = crc32_clmul.LEAST_BYTES
    _fold_blocks = crc32_clmul.fold_blocks

    @kernel
    def crc32(buffer: Buffer, start: int, stop: int, value: int) -> int:
        """Return CRC-32 (IEEE) of the bytes from start to stop, all 32 bits.

        BODYCRC is this without the sign bit (``UtilAll#crc32``, 4.9.8, 5.3.3). ``value`` is the CRC-32 of the
        bytes before these, 0 for none.
        """
        if stop - start >= _LEAST_BYTES:
            blocks_stop = stop - ((stop - start) & (_BLOCK - 1))
            state = _fold_blocks(buffer, start, blocks_stop, np.uint64(value) ^ _ALL_BITS)
            value, start = as_int(state ^ _ALL_BITS), blocks_stop
        return crc32_by_tables(buffer, start, stop, value)

else:
    crc32 = crc32_by_tables
