"""Words that repeat, each kept once: topics and hosts of messages."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from rmqtool.javacompat.kernels.jit import as_int
from rmqtool.jit import entry, kernel

if TYPE_CHECKING:
    from rmqtool.arrays import Buffer, Int32s


_FNV_BASIS, _FNV_PRIME, _32 = np.uint64(0xCBF29CE484222325), np.uint64(0x100000001B3), np.uint64(32)


@kernel
def copy_bytes(out: Buffer, to: int, buffer: Buffer, start: int, stop: int) -> int:
    """Copy bytes; return the place after them. Unsigned positions make this a plain copy for LLVM."""
    at, n = np.uint64(start), np.uint64(to)
    for i in range(np.uint64(stop - start)):
        out[n + i] = buffer[at + i]
    return to + stop - start


@kernel
def is_word(words: Buffer, stops: Int32s, number: int, buffer: Buffer, start: int, stop: int) -> bool:
    """Whether bytes are the word of that number; see `put_word`."""
    at = stops[number]
    if stops[number + 1] - at != stop - start:
        return False
    for i in range(stop - start):
        if words[at + i] != buffer[start + i]:
            return False
    return True


def _example_of_put_word() -> tuple[object, ...]:
    slots, words = np.full(2, -1, np.int32), np.empty(1, np.uint8)
    return np.frombuffer(b"", np.uint8), 0, 0, slots, np.zeros(2, np.int32), words, 0


@entry(_example_of_put_word)
@kernel
def put_word(
    buffer: Buffer, start: int, stop: int, slots: Int32s, stops: Int32s, words: Buffer, count: int
) -> int:
    """Return the number of a word, a new one after the ``count`` there are if it was not there before.

    Args:
        buffer: where it is.
        start: position of its first byte.
        stop: position after it.
        slots: numbers by hash, a power of two of them, -1 where there is none.
        stops: where words begin and the last ends; room for half as many as there are slots.
        words: the words, one after the other.
        count: how many there are.

    Returns:
        -1 if there is no room for a new one.
    """
    code = _FNV_BASIS
    for i in range(start, stop):
        code = (code ^ np.uint64(buffer[i])) * _FNV_PRIME
    mask = len(slots) - 1
    slot = as_int(code ^ (code >> _32)) & mask
    while slots[slot] >= 0:
        if is_word(words, stops, slots[slot], buffer, start, stop):
            return as_int(slots[slot])
        slot = (slot + 1) & mask
    if count + 1 >= len(stops) or stops[count] + stop - start > len(words):
        return -1
    slots[slot] = count
    stops[count + 1] = copy_bytes(words, as_int(stops[count]), buffer, start, stop)
    return count
