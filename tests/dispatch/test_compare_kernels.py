"""The comparing kernels against plain dictionaries."""

from __future__ import annotations

from collections import Counter

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from rmqtool.kernels.compare import NOWHERE, ItemMatch, follow_chains, match_items, match_units

offsets = st.lists(st.integers(0, 12), max_size=25)
entries = st.lists(st.tuples(st.integers(0, 8), st.integers(0, 3)), max_size=25)


@given(offsets, offsets)
def test_units_find_their_records(units: list[int], records: list[int]) -> None:
    """A unit has the first row of its record; all but the first unit of a record repeat it."""
    expected = np.array(sorted(records), np.int64)
    seen = np.zeros(len(expected), np.bool_)
    found, repeated = np.empty(len(units), np.int64), np.empty(len(units), np.bool_)
    match_units(np.array(units, np.int64), expected, seen, found, repeated)
    rows = expected.tolist()
    assert found.tolist() == [rows.index(unit) if unit in rows else NOWHERE for unit in units]
    wanted = [unit in records and unit in units[:number] for number, unit in enumerate(units)]
    assert repeated.tolist() == wanted
    assert seen.tolist() == [row in units for row in rows]


@given(entries, entries)
def test_items_take_every_entry_once(items: list[tuple[int, int]], demanded: list[tuple[int, int]]) -> None:
    """As many items take an entry as there are such entries; the others repeat it, or have another key."""
    demanded = sorted(demanded, key=lambda entry: entry[0])
    expected = np.array([offset for offset, _ in demanded], np.int64)
    hashes = np.array([key for _, key in demanded], np.int32)
    seen = np.zeros(len(demanded), np.bool_)
    found, matches = np.empty(len(items), np.int64), np.empty(len(items), np.uint8)
    match_items(
        np.array([key for _, key in items], np.int32),
        np.array([offset for offset, _ in items], np.int64),
        hashes,
        expected,
        seen,
        found,
        matches,
    )
    left = Counter(demanded)
    for item, row, match in zip(items, found.tolist(), matches.tolist(), strict=True):
        if left[item] > 0:
            left[item] -= 1
            assert match == ItemMatch.TAKEN
            assert demanded[row] == item
        elif item in demanded:
            assert match == ItemMatch.REPEATED
            assert demanded[row] == item
        elif item[0] in expected.tolist():
            assert match == ItemMatch.OTHER_KEY
            assert demanded[row][0] == item[0]
        else:
            assert (match, row) == (ItemMatch.NOWHERE, NOWHERE)
    assert Counter(entry for entry, was in zip(demanded, seen, strict=True) if not was) == +left


@given(st.lists(st.tuples(st.integers(-5, 40), st.integers(0, 6)), max_size=30), st.integers(1, 7))
def test_chains_name_the_newest_item_before(items: list[tuple[int, int]], slots: int) -> None:
    """Each item must name the newest item of its slot before it, whatever pieces the file is read in."""
    newest = np.zeros(slots, np.int32)
    heads: dict[int, int] = {}
    for start in range(0, len(items), 7):
        piece = items[start : start + 7]
        wrong = np.zeros(len(piece), np.bool_)
        key_hashes = np.array([key for key, _ in piece], np.int32)
        previous = np.array([older for _, older in piece], np.int32)
        count = follow_chains(key_hashes, previous, start + 1, newest, wrong)
        for number, (key, older) in enumerate(piece, start=start + 1):
            assert wrong[number - start - 1] == (older != heads.get(key % slots, 0))
            heads[key % slots] = number
        assert count == wrong.sum()
    assert newest.tolist() == [heads.get(slot, 0) for slot in range(slots)]
