"""Words that repeat, each kept once, and fingerprints of records."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from rmqtool.kernels.integers import as_int, load_word
from rmqtool.kernels.jit import entry, inlined, kernel

if TYPE_CHECKING:
    from rmqtool.arrays import Buffer, Int32s


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


def _example_of_put_word() -> tuple[object, ...]:
    slots, words = np.full(2, -1, np.int32), np.empty(1, np.uint8)
    return np.frombuffer(b"", np.uint8), 0, 0, slots, np.zeros(2, np.int32), words, 0


@entry(_example_of_put_word)
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
