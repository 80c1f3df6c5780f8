"""Entries that the log requires and that have no item.

The entry of TAGS is never missed: a broker before 5.4.0 puts none, so a message is whole with and without.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from rmqtool.arrays import Int64s
    from rmqtool.check.expected import ExpectedEntries


_NONE = np.iinfo(np.int64).max


@dataclass(frozen=True)
class MissingRanges:
    """Ranges of rows without items, in log order, each with ``keys`` entries of keys; columns ``(n,)``."""

    starts: Int64s
    stops: Int64s
    keys: Int64s
    first_keys: Int64s

    def __len__(self) -> int:
        return len(self.starts)


def missing_ranges(expected: ExpectedEntries) -> MissingRanges:
    """Return the ranges of entries without item."""
    parts = [_of_window(expected, window) for window in range(len(expected.spans))]
    starts, stops, keys, first_keys = np.concatenate([np.zeros((4, 0), np.int64), *parts], axis=1)
    begins = np.flatnonzero(np.concatenate([[True], starts[1:] != stops[:-1]])[: len(starts)])
    if not len(begins):
        return MissingRanges(starts, stops, keys, first_keys)
    ends = np.append(begins[1:], len(starts)) - 1
    keys, first_keys = np.add.reduceat(keys, begins), np.minimum.reduceat(first_keys, begins)
    has_keys = keys > 0
    return MissingRanges(
        starts[begins][has_keys], stops[ends][has_keys], keys[has_keys], first_keys[has_keys]
    )


def _of_window(expected: ExpectedEntries, window: int) -> Int64s:
    """Return starts, stops, keys and first keys of a window's ranges, ``(4, n)``.

    One without keys counts only at the window's edge, where it may go on.
    """
    unseen = expected.unseen(window)
    if not len(unseen):
        return np.zeros((4, 0), np.int64)
    is_key = ~expected.rows(window).of_tags[unseen]
    firsts = np.concatenate([[0], np.flatnonzero(np.diff(unseen) != 1) + 1])
    lasts = np.append(firsts[1:], len(unseen)) - 1
    starts, stops = unseen[firsts], unseen[lasts] + 1
    first_keys = np.minimum.reduceat(np.where(is_key, unseen, _NONE), firsts)
    keys = np.add.reduceat(is_key.astype(np.int64), firsts)
    counts = (keys > 0) | (starts == 0) | (stops == expected.spans[window].count)
    base = expected.firsts[window]
    first_keys = np.where(keys > 0, first_keys + base, _NONE)
    return np.stack([starts + base, stops + base, keys, first_keys])[:, counts]
