"""Rows of two tables that are equal, and whether they stand in the same order."""

from __future__ import annotations

from bisect import bisect_right
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy.typing as npt

    from rmqtool.arrays import Bools, Int64s

    Rows = npt.NDArray[Any]


def match_rows(a: Sequence[Rows], b: Sequence[Rows]) -> tuple[Int64s, Int64s]:
    """Pair equal rows, the first with the first, the second with the second.

    Args:
        a: Columns of A.
        b: Columns of B.

    Returns:
        Places in A and in B of the pairs.
    """
    count_a, total = len(a[0]), len(a[0]) + len(b[0])
    columns = [np.concatenate([one, other]) for one, other in zip(a, b, strict=True)]
    is_b = np.arange(total) >= count_a
    order = np.lexsort((is_b, *reversed(columns)))  # stable: equal rows of a side stay in their order
    begins = np.zeros(total, np.bool_)
    begins[:1] = True
    for column in columns:
        ordered = column[order]
        begins[1:] |= ordered[1:] != ordered[:-1]
    group = np.cumsum(begins) - 1
    from_b = is_b[order]
    counts_a = np.bincount(group[~from_b], minlength=int(begins.sum()))
    counts_b = np.bincount(group[from_b], minlength=int(begins.sum()))
    place = np.arange(total) - np.flatnonzero(begins)[group] - np.where(from_b, counts_a[group], 0)
    paired = place < np.minimum(counts_a, counts_b)[group]
    return order[paired & ~from_b], order[paired & from_b] - count_a


def misplaced(orders: Int64s, places: Int64s) -> Bools:
    """Tell which matched rows stand in another order; keys of one record are in none.

    Args:
        orders: ``(n,)`` of B.
        places: ``(m,)`` places in B of the rows of A, in A's order.
    """
    records = np.cumsum(np.concatenate([[0], np.diff(orders) != 0])) if len(orders) else orders
    found = records[places]
    moved = np.zeros(len(found), np.bool_)
    if len(found) and (np.diff(found) < 0).any():
        moved[:] = True
        moved[_longest_ascent(found.tolist())] = False
    return moved


def _longest_ascent(values: list[int]) -> list[int]:
    """Return the places of a longest subsequence that never descends."""
    tails: list[int] = []  # the smallest value that ends a subsequence of each length
    ends: list[int] = []  # its place
    before: list[int] = []
    for place, value in enumerate(values):
        length = bisect_right(tails, value)
        before.append(ends[length - 1] if length else -1)
        tails[length : length + 1] = [value]
        ends[length : length + 1] = [place]
    chosen, place = [], ends[-1]
    while place >= 0:
        chosen.append(place)
        place = before[place]
    return chosen
