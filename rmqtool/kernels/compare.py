"""Comparison of present entries with those that the log demands, row by row.

Both sides lie in log order almost always, so a cursor runs along; only where it does not fit the row is
looked up by bisection. Every expected row is taken by the first row that fits it.
"""

from __future__ import annotations

from enum import IntEnum
from typing import TYPE_CHECKING

import numpy as np

from rmqtool.kernels.jit import entry, kernel

if TYPE_CHECKING:
    import numpy.typing as npt

    from rmqtool.arrays import Bools, Int32s, Int64s


NOWHERE = -1


class ItemMatch(IntEnum):
    """Relation of an index item to the entries that the log demands."""

    NOWHERE = 0  # no record with keys begins there
    TAKEN = 1  # it is an expected entry
    REPEATED = 2  # its entry was taken before
    OTHER_KEY = 3  # the record has no key of that hash


_TAKEN, _REPEATED, _OTHER = ItemMatch.TAKEN.value, ItemMatch.REPEATED.value, ItemMatch.OTHER_KEY.value
_NO_ITEM = ItemMatch.NOWHERE.value


@kernel
def _first_at_least(values: Int64s, wanted: int) -> int:
    low, high = 0, len(values)
    while low < high:
        middle = (low + high) // 2
        if values[middle] < wanted:
            low = middle + 1
        else:
            high = middle
    return low


@kernel
def _row_at(values: Int64s, cursor: int, wanted: int) -> int:
    """Return the first row of a value, -1 if there is none; quickly if it is at the cursor."""
    if cursor < len(values) and values[cursor] == wanted and (cursor == 0 or values[cursor - 1] != wanted):
        return cursor
    row = _first_at_least(values, wanted)
    return row if row < len(values) and values[row] == wanted else -1


def _example_of_match_units() -> tuple[object, ...]:
    numbers, flags = np.empty(0, np.int64), np.empty(0, np.bool_)
    return numbers, numbers, flags, numbers, flags


@entry(_example_of_match_units)
@kernel
def match_units(
    physical_offsets: Int64s, expected: Int64s, seen: Bools, found: Int64s, repeated: Bools
) -> None:
    """Find the record of every unit among those of its queue.

    Args:
        physical_offsets: ``(n,)`` of the units, in the order of the queue.
        expected: ``(m,)`` of the queue's records, ascending. A record that was dispatched to the same queue
            twice (multi dispatch) stands there twice and has one unit: ``end <= maxPhysicOffset`` skips it.
        seen: ``(m,)``, set where a unit was found; all rows of a record at once.
        found: ``(n,)``, receives the row of the record, `NOWHERE` if there is none.
        repeated: ``(n,)``, receives whether an earlier unit had that record.
    """
    cursor = 0
    for i in range(len(physical_offsets)):
        row = _row_at(expected, cursor, physical_offsets[i])
        found[i] = row
        repeated[i] = row >= 0 and seen[row]
        if row >= 0:
            cursor = row
            while cursor < len(expected) and expected[cursor] == expected[row]:
                seen[cursor] = True
                cursor += 1


def _example_of_match_items() -> tuple[object, ...]:
    hashes, numbers = np.empty(0, np.int32), np.empty(0, np.int64)
    seen, matches = np.empty(0, np.bool_), np.empty(0, np.uint8)
    return hashes, numbers, hashes, numbers, seen, numbers, matches


@entry(_example_of_match_items)
@kernel
def match_items(
    key_hashes: Int32s,
    physical_offsets: Int64s,
    expected_hashes: Int32s,
    expected: Int64s,
    seen: Bools,
    found: Int64s,
    matches: npt.NDArray[np.uint8],
) -> None:
    """Find the entry of every index item; the order within a record does not count.

    Args:
        key_hashes: ``(n,)`` of the items.
        physical_offsets: ``(n,)`` of the items.
        expected_hashes: ``(m,)`` of the entries.
        expected: ``(m,)`` physical offsets of the entries, ascending.
        seen: ``(m,)``, set where an item took the entry.
        found: ``(n,)``, receives the row of the entry; of the record's first where the hash is another.
        matches: ``(n,)``, receives an `ItemMatch`.
    """
    cursor = 0
    for i in range(len(physical_offsets)):
        row = _row_at(expected, cursor, physical_offsets[i])
        found[i] = row
        if row < 0:
            matches[i] = _NO_ITEM
            continue
        matches[i] = _OTHER
        while row < len(expected) and expected[row] == physical_offsets[i]:
            if expected_hashes[row] == key_hashes[i]:
                found[i] = row
                matches[i] = _REPEATED if seen[row] else _TAKEN
            if matches[i] == _TAKEN:
                seen[row] = True
                break
            row += 1
        cursor = found[i] if matches[i] == _OTHER else row + 1


def _example_of_follow_chains() -> tuple[object, ...]:
    hashes = np.empty(0, np.int32)
    return hashes, hashes, 0, np.zeros(1, np.int32), np.empty(0, np.bool_)


@entry(_example_of_follow_chains)
@kernel
def follow_chains(key_hashes: Int32s, previous: Int32s, first_item: int, newest: Int32s, wrong: Bools) -> int:
    """Hold the items' chains against those that the put rule makes (``IndexFile#putKey``).

    Args:
        key_hashes: ``(n,)`` of consecutive items.
        previous: ``(n,)``, the older item that each one names.
        first_item: number of the first one.
        newest: ``(maxHashSlotNum,)``, newest item of each slot so far; carried on.
        wrong: ``(n,)``, receives whether an item names another than the newest before it.

    Returns:
        How many do.
    """
    count = 0
    for i in range(len(key_hashes)):
        slot = key_hashes[i] % len(newest)
        wrong[i] = previous[i] != newest[slot]
        count += wrong[i]
        newest[slot] = first_item + i
    return count
