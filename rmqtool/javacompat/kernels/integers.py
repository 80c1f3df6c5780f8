"""Decimal text to Java numbers, on ASCII bytes.

Java takes the digits of every script (``Character#digit``). The scalar ``parse_int`` does too; a kernel
answers "not a number" there, so a caller to whom it matters asks the scalar form about every text that is not
ASCII.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from rmqtool.javacompat.kernels.jit import as_int
from rmqtool.jit import kernel

if TYPE_CHECKING:
    from rmqtool.arrays import Buffer

_PLUS, _MINUS, _ZERO = 0x2B, 0x2D, 0x30
_TEN = np.uint64(10)
_LONG_LIMIT = np.uint64(1 << 63)
_TENTH_OF_LIMIT = np.uint64((1 << 63) // 10)


@kernel
def parse_long(buffer: Buffer, start: int, stop: int) -> tuple[bool, int]:
    """Parse the bytes from start to stop as ``Long#parseLong``.

    Returns:
        Whether it is a number, and the number (0 if not).
    """
    position = start
    negative = False
    if position < stop and (buffer[position] == _MINUS or buffer[position] == _PLUS):
        negative = buffer[position] == _MINUS
        position += 1
    if position >= stop:
        return False, 0
    magnitude = np.uint64(0)
    while position < stop:
        digit = as_int(buffer[position]) - _ZERO
        if digit < 0 or digit > 9 or magnitude > _TENTH_OF_LIMIT:
            return False, 0
        magnitude = magnitude * _TEN + np.uint64(digit)
        position += 1
    if magnitude > _LONG_LIMIT or (magnitude == _LONG_LIMIT and not negative):
        return False, 0
    value = as_int(magnitude)  # 2^63 becomes -2^63, which is its own negative
    return True, -value if negative else value


@kernel
def parse_int(buffer: Buffer, start: int, stop: int) -> tuple[bool, int]:
    """Parse the bytes from start to stop as ``Integer#parseInt``; see ``parse_long``."""
    ok, value = parse_long(buffer, start, stop)
    if ok and -0x80000000 <= value <= 0x7FFFFFFF:
        return True, value
    return False, 0


@kernel
def parse_short(buffer: Buffer, start: int, stop: int) -> tuple[bool, int]:
    """Parse the bytes from start to stop as ``Short#parseShort``; see ``parse_long``."""
    ok, value = parse_long(buffer, start, stop)
    if ok and -0x8000 <= value <= 0x7FFF:
        return True, value
    return False, 0
