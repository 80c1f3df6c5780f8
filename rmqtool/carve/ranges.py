"""Sets of positions as ranges."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterable

    import numpy.typing as npt

    Ranges = npt.NDArray[np.int64]


def ranges_of(pairs: Iterable[tuple[int, int]]) -> Ranges:
    """Return ranges as an array ``(n, 2)`` of start and stop, ascending, none touching another."""
    return merged(np.array([*pairs], np.int64).reshape(-1, 2))


def merged(ranges: Ranges) -> Ranges:
    """Return the union of ranges, ascending, none empty, none touching another."""
    ranges = ranges[ranges[:, 0] < ranges[:, 1]]
    if not len(ranges):
        return ranges
    ranges = ranges[np.argsort(ranges[:, 0], kind="stable")]
    reached = np.maximum.accumulate(ranges[:, 1])
    first = np.concatenate([[True], ranges[1:, 0] > reached[:-1]])
    last = np.concatenate([first[1:], [True]])
    return np.stack([ranges[first, 0], reached[last]], axis=1)


def outside(ranges: Ranges, start: int, stop: int) -> Ranges:
    """Return what of ``start`` to ``stop`` lies in none of some merged ranges."""
    bounds = np.concatenate([[start], np.clip(ranges, start, stop).reshape(-1), [stop]])
    return merged(bounds.reshape(-1, 2))


def length_of(ranges: Ranges) -> int:
    """Return how many positions lie in merged ranges."""
    return int((ranges[:, 1] - ranges[:, 0]).sum())


def overlaps(ranges: Ranges, start: int, stop: int) -> bool:
    """Whether merged ranges share a position with ``start`` to ``stop``."""
    after = int(np.searchsorted(ranges[:, 1], start, "right"))
    return after < len(ranges) and bool(ranges[after, 0] < stop)


def within(ranges: Ranges, start: int, stop: int) -> list[tuple[int, int]]:
    """Return the parts of merged ranges that lie in ``start`` to ``stop``."""
    first = int(np.searchsorted(ranges[:, 1], start, "right"))
    last = int(np.searchsorted(ranges[:, 0], stop, "left"))
    return [(max(int(low), start), min(int(high), stop)) for low, high in ranges[first:last]]
