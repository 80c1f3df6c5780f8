"""Integers in kernels: any number as int64, eight bytes at once, decimal text to Java numbers.

Text is ASCII bytes. Java takes the digits of every script (``Character#digit``), as the scalar ``parse_int``
does. A kernel returns "not a number" there, so callers that need those digits use the scalar form for text
that is not ASCII.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from rmqtool.kernels.jit import kernel

if TYPE_CHECKING:
    from rmqtool.arrays import Buffer


@kernel
def as_int(value: np.integer[Any]) -> int:
    """Convert a number to int64, the ``int`` of kernels; bits beyond its range become the sign."""
    return np.int64(value)  # type: ignore[return-value] # outside of a kernel this is no int


@kernel
def load_word(buffer: Buffer, position: int) -> np.uint64:
    """Read eight bytes as a little-endian number: the first byte is the lowest.

    Unsigned positions spare numba's test for negative ones; LLVM then makes a single load of this.
    """
    p = np.uint64(position)
    return (
        np.uint64(buffer[p])
        | np.uint64(buffer[p + np.uint64(1)]) << np.uint64(8)
        | np.uint64(buffer[p + np.uint64(2)]) << np.uint64(16)
        | np.uint64(buffer[p + np.uint64(3)]) << np.uint64(24)
        | np.uint64(buffer[p + np.uint64(4)]) << np.uint64(32)
        | np.uint64(buffer[p + np.uint64(5)]) << np.uint64(40)
        | np.uint64(buffer[p + np.uint64(6)]) << np.uint64(48)
        | np.uint64(buffer[p + np.uint64(7)]) << np.uint64(56)
    )


_PLUS, _MINUS, _ZERO = 0x2B, 0x2D, 0x30
_TEN = np.uint64(10)
_LONG_LIMIT = np.uint64(1 << 63)
_TENTH_OF_LIMIT = np.uint64((1 << 63) // 10)


@kernel
def parse_long(buffer: Buffer, start: int, stop: int) -> tuple[bool, int]:
    """Parse bytes as ``Long#parseLong``: whether it is a number, and the number or 0."""
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
