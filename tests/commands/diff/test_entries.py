"""Two streams of entries: what is found is what was done to one of them, wherever chunks end."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rmqtool.commands.diff.entries import EntryKind, LogBounds, join
from tests.strategies import examples

if TYPE_CHECKING:
    from collections.abc import Iterator

    import numpy.typing as npt

    Entry = tuple[int, int]

ROW = np.dtype([(name, np.int64) for name in ("order", "number", "time_ms", "physical_offset", "hash")])
KIND = EntryKind("rows", "rows", ("order", "hash"), place=("", ""), label="", values={}, slack_ms=999)


def rows_of(entries: list[Entry], times: dict[int, int] | None = None) -> npt.NDArray[Any]:
    """Return rows of (order, hash) pairs."""
    rows = np.zeros(len(entries), ROW)
    for number, (order, key_hash) in enumerate(entries):
        rows[number] = (order, number, (times or {}).get(number, 0), order, key_hash)
    return rows


def chunks(rows: npt.NDArray[Any], size: int) -> Iterator[npt.NDArray[Any]]:
    return (rows[start : start + size] for start in range(0, len(rows), size))


class Found:
    """All windows of an alignment, joined."""

    def __init__(
        self,
        a: npt.NDArray[Any],
        b: npt.NDArray[Any],
        sizes: tuple[int, int] = (64, 64),
        reaches: LogBounds | None = None,
    ) -> None:
        self.changed: list[tuple[int, int]] = []
        self.only_a: list[int] = []
        self.only_b: list[int] = []
        self.excused = self.compared = 0
        for window in join(chunks(a, sizes[0]), chunks(b, sizes[1]), KIND, reaches or LogBounds()):
            self.changed += zip(*(rows["number"].tolist() for rows in window.changed), strict=True)
            self.only_a += window.only_a["number"].tolist()
            self.only_b += window.only_b["number"].tolist()
            self.excused += window.excused
            self.compared += window.compared

    @property
    def is_nothing(self) -> bool:
        return not (self.changed or self.only_a or self.only_b)


LONG = [(100 * number // 3, number % 7) for number in range(1000)]
SIZES = [(64, 64), (1000, 1000), (40, 97), (4096, 50)]


@pytest.mark.parametrize("sizes", SIZES)
def test_equal_streams_differ_in_nothing(sizes: tuple[int, int]) -> None:
    found = Found(rows_of(LONG), rows_of(LONG), sizes)
    assert found.is_nothing
    assert found.compared == len(LONG)


@pytest.mark.parametrize("sizes", SIZES)
@pytest.mark.parametrize("at", [0, 1, 63, 64, 500, 998, 999])
def test_one_edit_is_one_difference(at: int, sizes: tuple[int, int]) -> None:
    """An entry too many, too few, or with another hash or a wild offset; the rest is as before."""
    more = rows_of([*LONG[:at], (LONG[at][0], 99), *LONG[at:]])
    assert Found(rows_of(LONG), more, sizes).only_b == [at]
    assert Found(more, rows_of(LONG), sizes).only_a == [at]
    other = rows_of([*LONG[:at], (LONG[at][0], 99), *LONG[at + 1 :]])
    found = Found(rows_of(LONG), other, sizes)
    assert (found.changed, found.only_a, found.only_b) == ([(at, at)], [], [])
    for order in (1, 1 << 60, -1):
        other = rows_of([*LONG[:at], (order, 5), *LONG[at + 1 :]])
        found = Found(rows_of(LONG), other, sizes, LogBounds(ends=(40_000, 40_000)))
        assert (found.changed, found.only_a, found.only_b) == ([], [at], [at])


@pytest.mark.parametrize("order", [1, -1, 1 << 60])
@pytest.mark.parametrize("sizes", SIZES)
def test_a_damaged_stretch_is_found_where_it_is(sizes: tuple[int, int], order: int) -> None:
    torn = [*LONG[:200], *[(order, 9)] * 150, *LONG[350:]]
    found = Found(rows_of(LONG), rows_of(torn), sizes, LogBounds(ends=(40_000, 40_000)))
    assert (found.changed, found.only_a, found.only_b) == ([], [*range(200, 350)], [*range(200, 350)])


@pytest.mark.parametrize("sizes", SIZES)
def test_a_missing_range_is_missing_and_nothing_else(sizes: tuple[int, int]) -> None:
    found = Found(rows_of(LONG), rows_of([*LONG[:100], *LONG[800:]]), sizes)
    assert found.only_a == list(range(100, 800))
    assert (found.changed, found.only_b) == ([], [])


def test_the_order_of_entries_is_no_difference_of_theirs() -> None:
    """Slots and chains differ then, which are compared where all entries are the same."""
    swapped = [*LONG[:300], LONG[310], *LONG[301:310], LONG[300], *LONG[311:]]
    assert Found(rows_of(LONG), rows_of(swapped), (1000, 1000)).is_nothing


def test_keys_of_one_record_may_stand_in_any_order() -> None:
    one, other = [(10, 1), (10, 2), (20, 3)], [(10, 2), (10, 1), (20, 3)]
    assert Found(rows_of(one), rows_of(other)).is_nothing


def test_times_may_differ_by_what_a_second_hides() -> None:
    one, other = rows_of(LONG, {500: 999}), rows_of(LONG)
    assert Found(one, other).is_nothing
    assert Found(rows_of(LONG, {500: 1000}), other).changed == [(500, 500)]


def test_what_lies_beyond_the_others_log_is_excused() -> None:
    """Retention on one side, lag on the other; an entry beyond both logs is not."""
    a, b = rows_of(LONG), rows_of([*LONG[100:900], (10**9, 1)])
    reaches = LogBounds((0, LONG[100][0]), (LONG[-1][0] + 1, LONG[900][0]))
    found = Found(a, b, reaches=reaches)
    assert (found.only_a, found.only_b, found.changed, found.excused) == ([], [800], [], 200)
    found = Found(b, a, reaches=LogBounds(reaches.starts[::-1], reaches.ends[::-1]))
    assert (found.only_a, found.only_b, found.changed, found.excused) == ([800], [], [], 200)


def test_units_are_versions_of_each_other_at_one_offset_only() -> None:
    one, other = rows_of([(0, 1), (1, 1), (3, 1)]), rows_of([(0, 1), (1, 2), (2, 1)])
    found = Found(one, other)
    assert (found.changed, found.only_a, found.only_b) == ([(1, 1)], [2], [2])


entries = st.lists(st.tuples(st.integers(0, 40), st.integers(0, 2)), max_size=60)


@given(entries, entries, st.integers(1, 20), st.integers(1, 20))
@examples(300)
def test_any_streams_are_told_apart_and_none_from_itself(
    one: list[Entry], other: list[Entry], size_a: int, size_b: int
) -> None:
    """In no order whatever; swapping the sides swaps the answer."""
    a, b = rows_of(one), rows_of(other)
    assert Found(a, a, (size_a, size_b)).is_nothing
    there, back = Found(a, b, (size_a, size_b)), Found(b, a, (size_b, size_a))
    assert len(there.only_a) - len(there.only_b) == len(one) - len(other)
    assert (there.only_a, there.only_b) == (back.only_b, back.only_a)
    assert sorted(there.changed) == sorted((x, y) for y, x in back.changed)
    if sorted(one) != sorted(other):
        assert not there.is_nothing
