"""Bytes in kernels: integers, decimal text, copies, comparisons, hashes, and words that repeat.

Text is ASCII bytes. Java takes the digits of every script (``Character#digit``), as the scalar ``parse_int``
does. A kernel returns "not a number" there, so callers that need those digits use the scalar form for text
that is not ASCII.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from rmqtool.kernels.jit import empty, entry, inlined, kernel

if TYPE_CHECKING:
    from rmqtool.arrays import Buffer, Int32s, Int64s


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


_GOLDEN = np.uint64(0x9E3779B97F4A7C15)
_FEW_BYTES = 64
_FNV_BASIS, _FNV_PRIME, _32 = np.uint64(0xCBF29CE484222325), np.uint64(0x100000001B3), np.uint64(32)


@inlined
def _copy_word(out: Buffer, to: int, buffer: Buffer, start: int) -> None:
    word, n = load_word(buffer, start), np.uint64(to)
    for i in range(8):
        out[n + np.uint64(i)] = np.uint8(word >> np.uint64(8 * i))


@inlined
def copy_bytes(out: Buffer, to: int, buffer: Buffer, start: int, stop: int) -> int:
    """Copy bytes; return the place after them. Few go by words, the last overlapping the one before."""
    size = stop - start
    if 8 <= size <= _FEW_BYTES:
        for i in range(0, size - 8, 8):
            _copy_word(out, to + i, buffer, start + i)
        _copy_word(out, to + size - 8, buffer, stop - 8)
    else:
        at, n = np.uint64(start), np.uint64(to)  # unsigned positions make this a plain copy for LLVM
        for i in range(np.uint64(size)):
            out[n + i] = buffer[at + i]
    return to + size


@entry(lambda: (*empty(np.uint8, np.int64, np.int64, np.uint8),), rare=True)
@kernel
def join_spans(buffer: Buffer, starts: Int64s, stops: Int64s, out: Buffer) -> None:
    """Copy ranges of a buffer one after the other into ``out``, which has room for all."""
    at = 0
    for number in range(len(starts)):
        at = copy_bytes(out, at, buffer, starts[number], stops[number])


@inlined
def same_bytes(words: Buffer, at: int, buffer: Buffer, start: int, stop: int) -> bool:
    """Whether the bytes from a position on equal a range of another buffer.

    Compared by words, the last overlapping the one before: texts of one length may differ anywhere.
    """
    size = stop - start
    if size < 8:
        for i in range(size):
            if words[np.uint64(at + i)] != buffer[np.uint64(start + i)]:
                return False
        return True
    for i in range(0, size - 8, 8):
        if load_word(words, at + i) != load_word(buffer, start + i):
            return False
    return bool(load_word(words, at + size - 8) == load_word(buffer, stop - 8))


@kernel
def begins_with(buffer: Buffer, start: int, stop: int, text: Buffer) -> bool:
    """Whether a range begins with a text."""
    if stop - start < len(text):
        return False
    for i in range(len(text)):
        if buffer[start + i] != text[i]:
            return False
    return True


@kernel
def equals(buffer: Buffer, start: int, stop: int, text: Buffer) -> bool:
    """Whether a range is a text."""
    return stop - start == len(text) and begins_with(buffer, start, stop, text)


@kernel
def first_at_least(values: Int64s, wanted: int) -> int:
    """Return the place of the first of ascending values that is not below another."""
    low, high = 0, len(values)
    while low < high:
        middle = (low + high) // 2
        if values[middle] < wanted:
            low = middle + 1
        else:
            high = middle
    return low


@inlined
def is_word(words: Buffer, stops: Int32s, number: int, buffer: Buffer, start: int, stop: int) -> bool:
    """Whether bytes are the word of that number; see `put_word`."""
    at = stops[number]
    return stops[number + 1] - at == stop - start and same_bytes(words, at, buffer, start, stop)


@kernel
def hash_bytes(buffer: Buffer, start: int, stop: int) -> np.uint64:
    """Return a hash by eight bytes at once, the last ones overlapping those before."""
    code = _FNV_BASIS
    if stop - start < 8:
        for i in range(start, stop):
            code = (code ^ np.uint64(buffer[i])) * _FNV_PRIME
    else:
        while start + 8 < stop:
            code = (code ^ load_word(buffer, start)) * _GOLDEN
            code ^= code >> _32
            start += 8
        code = (code ^ load_word(buffer, stop - 8)) * _GOLDEN
    code = (code ^ (code >> _32)) * _GOLDEN  # the last bytes are in the highest bits so far
    return code ^ (code >> _32)


@entry(lambda: (*empty(np.uint8), 0, 0, np.full(2, -1, np.int32), np.zeros(2, np.int32), *empty(np.uint8), 0))
@kernel
def put_word(
    buffer: Buffer, start: int, stop: int, slots: Int32s, stops: Int32s, words: Buffer, count: int
) -> int:
    """Return the number of a word, a new one if it is not among the ``count``; -1 without room for it.

    ``slots`` are numbers by hash, a power of two of them, -1 in free ones. ``words`` follow each other, each
    ending in ``stops``, which has room for half as many as there are slots.
    """
    code = hash_bytes(buffer, start, stop)
    mask = len(slots) - 1
    slot = as_int(code) & mask
    while slots[slot] >= 0:
        if is_word(words, stops, slots[slot], buffer, start, stop):
            return as_int(slots[slot])
        slot = (slot + 1) & mask
    if count + 1 >= len(stops) or stops[count] + stop - start > len(words):
        return -1
    slots[slot] = count
    stops[count + 1] = copy_bytes(words, as_int(stops[count]), buffer, start, stop)
    return count
