"""Properties and text in the bytes of a record, by the rules of Java: names, values, KEYS, hash codes."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from rmqtool.formats.message import TRANSACTION_COMMIT, TRANSACTION_MASK, TRANSACTION_NONE
from rmqtool.kernels.bytes import as_int, equals, load_word, parse_long, parse_short, same_bytes
from rmqtool.kernels.jit import entry, inlined, kernel
from rmqtool.kernels.rows import Property, no_messages

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rmqtool.arrays import Buffer, Int64s, Row, Rows


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


_NAME_END, _PROPERTY_END = 0x01, 0x02
_ONES = np.uint64(0x0101010101010101)
_TWOS = np.uint64(0x0202020202020202)
_THREES = np.uint64(0x0303030303030303)
_HIGH_BITS = np.uint64(0x8080808080808080)
_ZERO_WORD, _7, _56 = np.uint64(0), np.uint64(7), np.uint64(56)
_PLACES = np.uint64(0x0001020304050607)


def pack_names(names: Sequence[str]) -> tuple[Buffer, Int64s]:
    """Return names for ``scan_properties``: their bytes, uint8, and bounds ``(k + 1,)`` int64.

    They must be ASCII (else `UnicodeEncodeError`), not empty, and different. Name i is ``[bounds[i], bounds[i
    + 1])``.
    """
    encoded = [name.encode("ascii") for name in names]
    bounds = np.cumsum([0, *map(len, encoded)], dtype=np.int64)
    return np.array(bytearray(b"".join(encoded)), dtype=np.uint8), bounds


@kernel
def find_property(buffer: Buffer, start: int, stop: int, name: Buffer) -> tuple[int, int]:
    """Return start and stop of a property's value, which is never empty; (-1, -1) if there is none.

    Of equal names the last one counts; ``name`` is ASCII bytes.
    """
    value_start, value_stop = -1, -1
    position = start
    while position < stop:
        separator, end = next_property(buffer, position, stop)
        if separator > position and separator + 1 < end and equals(buffer, position, separator, name):
            value_start, value_stop = separator + 1, end
        position = end + 1
    return value_start, value_stop


@kernel
def scan_properties(
    buffer: Buffer,
    start: int,
    stop: int,
    names: Buffer,
    name_bounds: Int64s,
    out: Int64s,
) -> int:
    """Find the values of several properties in one pass, see ``find_property``.

    Return the number of stray pieces. A piece without a name, or with nothing after one, is stray; the reader
    drops it silently. Empty pieces (a separator too many) and properties with an empty value, which some
    clients send and the reader drops as well, do not count. ``names`` and ``name_bounds`` are made by
    ``pack_names``; ``out``, ``(k, 2)``, receives start and stop of each value, -1 where there is none.
    """
    for wanted in range(len(name_bounds) - 1):
        out[wanted, 0] = -1
        out[wanted, 1] = -1
    strays = 0
    position = start
    while position < stop:
        separator, end = next_property(buffer, position, stop)
        if separator > position and separator + 1 < end:
            wanted = _wanted_name(buffer, position, separator, names, name_bounds)
            if wanted >= 0:
                out[wanted, 0] = separator + 1
                out[wanted, 1] = end
        elif separator == position < end or position < separator == end:
            strays += 1
        position = end + 1
    return strays


@entry(lambda: (*no_messages()[:2], *pack_names(["A"]), np.empty((0, 1, 2), np.int64)), rare=True)
@kernel
def values_named(buffer: Buffer, rows: Rows, names: Buffer, name_bounds: Int64s, out: Int64s) -> None:
    """Fill ``out``, ``(n, k, 2)``, with the values of properties of messages, as `scan_properties` does."""
    for number in range(len(rows)):
        start = as_int(rows[number].topic_stop + 2)
        scan_properties(
            buffer, start, start + rows[number].properties_length, names, name_bounds, out[number]
        )


@inlined
def _wanted_name(buffer: Buffer, start: int, stop: int, names: Buffer, name_bounds: Int64s) -> int:
    size = stop - start
    first = buffer[start]
    for wanted in range(len(name_bounds) - 1):
        name_start = name_bounds[wanted]
        same_size = name_bounds[wanted + 1] - name_start == size
        if same_size and names[name_start] == first and same_bytes(names, name_start, buffer, start, stop):
            return wanted
    return -1


@inlined
def value_of(values: Int64s, name: int) -> tuple[int, int]:
    """Return start and stop of a property's value, of the ranges of one message; -1 where there is none."""
    return values[name, 0], values[name, 1]


@inlined
def has_inner_batch(values: Int64s) -> bool:
    """Whether a message has both INNER_NUM and INNER_BASE: else a broker reads neither."""
    return bool(values[Property.INNER_NUM, 0] >= 0 and values[Property.INNER_BASE, 0] >= 0)


@inlined
def inner_batch(buffer: Buffer, values: Int64s) -> tuple[bool, int, int]:
    """Return whether INNER_BASE and INNER_NUM, which are there, are numbers; and these, or 0."""
    is_base, base = parse_long(buffer, *value_of(values, Property.INNER_BASE))
    is_number, number = parse_short(buffer, *value_of(values, Property.INNER_NUM))
    return is_base and is_number, base, number


@inlined
def offsets_taken(buffer: Buffer, row: Row, values: Int64s) -> int:
    """Return how many queue offsets a message takes: a half message none, an inner batch INNER_NUM."""
    kind = row.sys_flag & TRANSACTION_MASK
    if kind not in (TRANSACTION_NONE, TRANSACTION_COMMIT):
        return 0
    return max(inner_batch(buffer, values)[2], 1) if has_inner_batch(values) else 1


@inlined
def next_property(buffer: Buffer, position: int, stop: int) -> tuple[int, int]:
    """Return where the name of the piece ends and where the piece ends.

    A piece without a name end has both at its end, so that its value is empty.
    """
    separator = _find_separator(buffer, position, stop)
    if separator >= stop or buffer[separator] == _PROPERTY_END:
        return separator, separator
    return separator, _find_property_end(buffer, separator + 1, stop)


@inlined
def _find_separator(buffer: Buffer, position: int, stop: int) -> int:
    """Return the position of the first 01 or 02, or stop."""
    while position + 8 <= stop:
        word = load_word(buffer, position)
        below_three = (word - _THREES) & ~word & _HIGH_BITS  # the lowest set bit is right, later ones may err
        if below_three == _ZERO_WORD:
            position += 8
            continue
        position += _lowest_byte(below_three)
        if buffer[position] != 0:
            return position
        position += 1
    while position < stop and buffer[position] != _NAME_END and buffer[position] != _PROPERTY_END:
        position += 1
    return position


@inlined
def zero_bytes(word: np.uint64) -> np.uint64:
    """Mark the zeros among eight bytes by their bit 7: the lowest mark is right, later ones may err."""
    return (word - _ONES) & ~word & _HIGH_BITS


@inlined
def _find_property_end(buffer: Buffer, position: int, stop: int) -> int:
    """Return the position of the first 02, or stop."""
    while position + 8 <= stop:
        ends = zero_bytes(load_word(buffer, position) ^ _TWOS)
        if ends:
            return position + _lowest_byte(ends)
        position += 8
    while position < stop and buffer[position] != _PROPERTY_END:
        position += 1
    return position


@inlined
def _lowest_byte(high_bits: np.uint64) -> int:
    """Return which byte, 0 the lowest, holds the lowest of some bits 7, 15, 23, …; one must be set."""
    lowest = high_bits & (~high_bits + np.uint64(1))
    return as_int(((lowest >> _7) * _PLACES) >> _56)
