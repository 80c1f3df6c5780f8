"""Hash codes of UTF-8 bytes as Java would decode them, and the cutting of KEYS."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from rmqtool.javacompat.kernels.integers import as_int, load_word
from rmqtool.jit import kernel

if TYPE_CHECKING:
    from rmqtool.arrays import Buffer

_NOT_ASCII = np.uint64(0x8080808080808080)
_BYTES_OF_PAIRS = np.uint64(0x00FF00FF00FF00FF)
_PAIRS_OF_QUADS = np.uint64(0x0000FFFF0000FFFF)
_LOW_HALF = np.uint64(0xFFFFFFFF)
_31 = np.uint64(31)
_31_2 = np.uint64(31**2)
_31_4 = np.uint64(31**4)
_31_8 = np.uint64(31**8)
_8, _16, _32 = np.uint64(8), np.uint64(16), np.uint64(32)
_REPLACEMENT = 0xFFFD
_SPACE = 0x20


@kernel
def hash_utf8(buffer: Buffer, start: int, stop: int, seed: int) -> int:
    """Return ``String#hashCode`` of ``new String(bytes, UTF_8)``, continued from a seed.

    The seed is the hash of the text before, 0 for none. The result is of the signed 32-bit range, equal to
    ``string_hash(decode_utf8(bytes), seed)``.
    """
    # The hash is kept modulo 2^64 and cut to 32 bits at the end: both moduli agree there.
    code = np.uint64(seed)
    position = start
    while True:
        code, position = _hash_ascii(buffer, position, stop, code)
        if position >= stop:
            return _signed(code)
        character, size = decode_character(buffer, position, stop)
        code = _hash_character(code, character)
        position += size


@kernel
def abs_int(code: int) -> int:
    """Return the absolute value of a hash code, 0 for -2^31 (``IndexFile#indexKeyHashMethod``)."""
    if code == -0x80000000:
        return 0
    return abs(code)


@kernel
def next_key(buffer: Buffer, position: int, stop: int) -> tuple[int, int]:
    """Return start and stop of the next key of a KEYS value, a run without U+0020.

    (-1, -1) if there is none. Every byte 0x20 is a space of the decoded text too (malformed bytes never take
    an ASCII byte with them), so the cuts of ``split_keys`` are found in the bytes.
    """
    while position < stop and buffer[position] == _SPACE:
        position += 1
    if position >= stop:
        return -1, -1
    start = position
    while position < stop and buffer[position] != _SPACE:
        position += 1
    return start, position


@kernel
def _hash_ascii(buffer: Buffer, position: int, stop: int, code: np.uint64) -> tuple[np.uint64, int]:
    """Hash up to the first byte that is not ASCII; return the hash and that byte's position."""
    while position + 8 <= stop:
        word = load_word(buffer, position)
        if word & _NOT_ASCII:
            break
        # Neighbours become 31 * a + b: bytes to pairs, pairs to quads, quads to one, in lanes of one word.
        word = (word & _BYTES_OF_PAIRS) * _31 + ((word >> _8) & _BYTES_OF_PAIRS)
        word = (word & _PAIRS_OF_QUADS) * _31_2 + ((word >> _16) & _PAIRS_OF_QUADS)
        code = code * _31_8 + (word & _LOW_HALF) * _31_4 + (word >> _32)
        position += 8
    while position < stop:
        byte = buffer[np.uint64(position)]
        if byte >= 0x80:
            break
        code = code * _31 + np.uint64(byte)
        position += 1
    return code, position


@kernel
def _hash_character(code: np.uint64, character: int) -> np.uint64:
    """Continue a hash by one character, beyond U+FFFF by its two surrogates."""
    if character > 0xFFFF:
        code = code * _31 + np.uint64(0xD7C0 + (character >> 10))
        character = 0xDC00 | (character & 0x3FF)
    return code * _31 + np.uint64(character)


@kernel
def _signed(code: np.uint64) -> int:
    return (as_int(code & _LOW_HALF) ^ 0x80000000) - 0x80000000


@kernel
def decode_character(buffer: Buffer, position: int, stop: int) -> tuple[int, int]:
    """Return a code point that is not ASCII, or U+FFFD, and its number of bytes, as JDK 17 decodes.

    U+FFFD takes the longest beginning of a well-formed sequence, at least one byte. A surrogate counts as
    well formed until it is complete and then is replaced whole: there Java differs from the Unicode
    recommendation.
    """
    lead = as_int(buffer[position])
    if lead < 0xC2 or lead > 0xF4:
        return _REPLACEMENT, 1
    size = 2 + (lead >= 0xE0) + (lead >= 0xF0)
    character = lead & (0x7F >> size)
    # Other second bytes would make the sequence overlong or lead beyond U+10FFFF.
    lowest = 0xA0 if lead == 0xE0 else 0x90 if lead == 0xF0 else 0x80
    highest = 0x8F if lead == 0xF4 else 0xBF
    for taken in range(1, size):
        if position + taken >= stop:
            return _REPLACEMENT, taken
        byte = as_int(buffer[position + taken])
        if byte < lowest or byte > highest:
            return _REPLACEMENT, taken
        character = character << 6 | (byte & 0x3F)
        lowest, highest = 0x80, 0xBF
    if character >> 11 == 0xD800 >> 11:
        character = _REPLACEMENT
    return character, size
