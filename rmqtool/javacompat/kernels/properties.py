"""Properties found in the bytes of a property string, without decoding it.

The broker (``MessageDecoder#string2messageProperties``, 4.9.1+ and 5.x) decodes first and cuts the text.
Cutting the bytes gives the same ranges:

* In UTF-8 a byte below 0x80 is a character of its own, also after a cut or malformed sequence: Java's
  decoder ends the replacement character before it. So the separators 01 and 02 are the same in bytes and
  in text, and decoding the pieces gives the pieces of the decoded whole.
* Nothing decodes to no character, so a name or value is empty in bytes exactly if it is in text. The rule
  "ignore pieces shorter than 3 chars" follows from that: name, separator and value are three characters.
* U+FFFD is the only thing that different bytes decode to, hence a wanted name of ASCII is equal in text
  exactly if it is equal in bytes. Wanted names must therefore be ASCII, as all names with a meaning to
  the broker are.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from rmqtool.javacompat.kernels.integers import as_int, load_word
from rmqtool.jit import inlined, kernel

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy.typing as npt

    from rmqtool.arrays import Buffer

_NAME_END, _PROPERTY_END = 0x01, 0x02
_ONES = np.uint64(0x0101010101010101)
_TWOS = np.uint64(0x0202020202020202)
_THREES = np.uint64(0x0303030303030303)
_HIGH_BITS = np.uint64(0x8080808080808080)
_ZERO_WORD, _7, _56 = np.uint64(0), np.uint64(7), np.uint64(56)
_PLACES = np.uint64(0x0001020304050607)


def pack_names(names: Sequence[str]) -> tuple[Buffer, npt.NDArray[np.int64]]:
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
        whole = separator > position and separator + 1 < end
        if whole and separator - position == len(name) and _equal(buffer, position, name, 0, len(name)):
            value_start, value_stop = separator + 1, end
        position = end + 1
    return value_start, value_stop


@kernel
def scan_properties(
    buffer: Buffer,
    start: int,
    stop: int,
    names: Buffer,
    name_bounds: npt.NDArray[np.int64],
    out: npt.NDArray[np.int64],
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


@inlined
def _wanted_name(
    buffer: Buffer, start: int, stop: int, names: Buffer, name_bounds: npt.NDArray[np.int64]
) -> int:
    size = stop - start
    first = buffer[start]
    for wanted in range(len(name_bounds) - 1):
        name_start = name_bounds[wanted]
        same_size = name_bounds[wanted + 1] - name_start == size
        if same_size and names[name_start] == first and _equal(buffer, start, names, name_start, size):
            return wanted
    return -1


@inlined
def _equal(left: Buffer, left_start: int, right: Buffer, right_start: int, size: int) -> bool:
    index = 0
    while index < size and left[left_start + index] == right[right_start + index]:
        index += 1
    return index == size


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
def _find_property_end(buffer: Buffer, position: int, stop: int) -> int:
    """Return the position of the first 02, or stop."""
    while position + 8 <= stop:
        word = load_word(buffer, position) ^ _TWOS
        zero_bytes = (word - _ONES) & ~word & _HIGH_BITS  # the lowest set bit is right, later ones may err
        if zero_bytes:
            return position + _lowest_byte(zero_bytes)
        position += 8
    while position < stop and buffer[position] != _PROPERTY_END:
        position += 1
    return position


@inlined
def _lowest_byte(high_bits: np.uint64) -> int:
    """Return which byte, 0 the lowest, holds the lowest of some bits 7, 15, 23, …; one must be set."""
    lowest = high_bits & (~high_bits + np.uint64(1))
    return as_int(((lowest >> _7) * _PLACES) >> _56)
