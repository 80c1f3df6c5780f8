"""Comparison of present entries with those that the log demands, row by row.

Both sides lie in log order almost always, so a cursor runs along; only where it does not fit the row is
looked up by bisection. Every expected row is taken by the first row that fits it.
"""

from __future__ import annotations

from enum import IntEnum
from typing import TYPE_CHECKING

import numpy as np

from rmqtool.kernels.bytes import first_at_least
from rmqtool.kernels.jit import empty, entry, kernel

if TYPE_CHECKING:
    from rmqtool.arrays import Bools, Buffer, Int32s, Int64s


NOWHERE = -1


class ItemMatch(IntEnum):
    """Relation of an index item to the entries that the log demands."""

    NOWHERE = 0  # no record with keys begins there
    TAKEN = 1  # it is an expected entry
    REPEATED = 2  # its entry was taken before
    OTHER_KEY = 3  # the record has no key of that hash


@kernel
def _row_at(values: Int64s, cursor: int, wanted: int) -> int:
    """Return the first row of a value, -1 if there is none; quickly if it is at the cursor."""
    if cursor < len(values) and values[cursor] == wanted and (cursor == 0 or values[cursor - 1] != wanted):
        return cursor
    row = first_at_least(values, wanted)
    return row if row < len(values) and values[row] == wanted else -1


@entry(lambda: empty(np.int64, np.int64, np.bool_, np.int64, np.bool_))
@kernel
def match_units(
    physical_offsets: Int64s, expected: Int64s, seen: Bools, matched: Int64s, repeated: Bools
) -> None:
    """Find the record of every unit among those of its queue.

    Args:
        physical_offsets: ``(n,)`` of the units, in the order of the queue.
        expected: ``(m,)`` of the queue's records, ascending. A record that was dispatched to the same queue
            twice (multi dispatch) is there twice and has one unit: ``end <= maxPhysicOffset`` skips it.
        seen: ``(m,)``, set where a unit was found; all rows of a record at once.
        matched: ``(n,)``, receives the row of the record, `NOWHERE` if there is none.
        repeated: ``(n,)``, receives whether an earlier unit had that record.
    """
    cursor = 0
    for i in range(len(physical_offsets)):
        row = _row_at(expected, cursor, physical_offsets[i])
        matched[i] = row
        repeated[i] = row >= 0 and seen[row]
        if row >= 0:
            cursor = row
            while cursor < len(expected) and expected[cursor] == expected[row]:
                seen[cursor] = True
                cursor += 1


@entry(lambda: empty(np.int32, np.int64, np.int32, np.int64, np.bool_, np.int64, np.uint8))
@kernel
def match_items(
    key_hashes: Int32s,
    physical_offsets: Int64s,
    expected_hashes: Int32s,
    expected: Int64s,
    seen: Bools,
    matched: Int64s,
    matches: Buffer,
) -> None:
    """Find the entry of every index item; the order within a record does not count.

    Args:
        key_hashes: ``(n,)`` of the items.
        physical_offsets: ``(n,)`` of the items.
        expected_hashes: ``(m,)`` of the entries.
        expected: ``(m,)`` physical offsets of the entries, ascending.
        seen: ``(m,)``, set where an item took the entry.
        matched: ``(n,)``, receives the row of the entry; of the record's first where the hash is another.
        matches: ``(n,)``, receives an `ItemMatch`.
    """
    cursor = 0
    for i in range(len(physical_offsets)):
        row = _row_at(expected, cursor, physical_offsets[i])
        matched[i] = row
        if row < 0:
            matches[i] = ItemMatch.NOWHERE
            continue
        matches[i] = ItemMatch.OTHER_KEY
        while row < len(expected) and expected[row] == physical_offsets[i]:
            if expected_hashes[row] == key_hashes[i]:
                matched[i] = row
                matches[i] = ItemMatch.REPEATED if seen[row] else ItemMatch.TAKEN
            if matches[i] == ItemMatch.TAKEN:
                seen[row] = True
                break
            row += 1
        cursor = matched[i] if matches[i] == ItemMatch.OTHER_KEY else row + 1


@entry(lambda: (*empty(np.int32, np.int32), 0, np.zeros(1, np.int32), *empty(np.bool_)))
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
        Number of rows that do.
    """
    count = 0
    for i in range(len(key_hashes)):
        slot = key_hashes[i] % len(newest)
        wrong[i] = previous[i] != newest[slot]
        count += wrong[i]
        newest[slot] = first_item + i
    return count


@entry(lambda: (*empty(np.int32, np.int32, np.int32, np.int32), *empty(np.bool_)), rare=True)
@kernel
def reach_items(slots: Int32s, key_hashes: Int32s, previous: Int32s, passed: Int32s, reached: Bools) -> None:
    """Find the items that a query reaches by the chain of their key's slot (``IndexFile#selectPhyOffset``).

    Args:
        slots: ``(maxHashSlotNum,)``, the newest item of each.
        key_hashes: ``(n,)`` of the items from 1 on.
        previous: ``(n,)``, the item that each one names.
        passed: ``(n,)`` zeros, receives the slot whose chain passed each last: chains may run in a circle.
        reached: ``(n,)``, receives which are reached; False before.
    """
    for slot in range(len(slots)):
        item = slots[slot]
        while 0 < item <= len(key_hashes) and passed[item - 1] != slot + 1:
            passed[item - 1] = slot + 1
            if key_hashes[item - 1] % len(slots) == slot:
                reached[item - 1] = True
            item = previous[item - 1]


_PIECE_ROWS = 1 << 18


def are_among(values: Int64s, others: Int64s) -> Bools:
    """Return which values are among others; piece by piece, as places take eight times the room.

    It sorts: ``np.isin`` hashes, which takes 20 times as long.
    """
    are_there = np.zeros(len(values), np.bool_)
    if not len(others):
        return are_there
    others = np.sort(others)
    for first in range(0, len(values), _PIECE_ROWS):
        piece = values[first : first + _PIECE_ROWS]
        number = np.minimum(np.searchsorted(others, piece), len(others) - 1)
        are_there[first : first + _PIECE_ROWS] = others[number] == piece
    return are_there
