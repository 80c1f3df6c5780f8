"""Units as the queues of a prediction exchange them."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from rmqtool.formats.consumequeue import PREBLANK_SIZE

if TYPE_CHECKING:
    import numpy.typing as npt

    from rmqtool.arrays import Int64s


QueueKey = tuple[str, int]
"""Topic, as Java decodes it, and queue id."""


class FileUnits(NamedTuple):
    """Units of one file: ``(n,)`` int64 each; tags codes only of those on disk, else 0."""

    physical_offsets: Int64s
    sizes: Int64s
    tags_codes: Int64s

    @property
    def is_record(self) -> npt.NDArray[np.bool_]:
        """Return which stand for a record: neither zeros nor pre-blank."""
        return np.asarray((self.sizes > 0) & (self.sizes != PREBLANK_SIZE), np.bool_)

    def cover(self, first: int, newer: FileUnits) -> None:
        """Lay newer units over these, the first of them over unit ``first``, as far as they overlap."""
        low, high = max(first, 0), min(first + len(newer.sizes), len(self.sizes))
        if low < high:
            for old, new in zip(self, newer, strict=True):
                old[low:high] = new[low - first : high - first]


class Appended(NamedTuple):
    """Result of a put: units appended, units at another place than theirs, and which were put in vain."""

    appended: int
    misplaced: int
    in_vain: npt.NDArray[np.bool_]


def search_first_live(physical_offsets: Int64s, log_start: int) -> int | None:
    """Halve the range as 5.3.3 does: in a queue that is out of order the result is its own.

    Java: ``ConsumeQueue#correctMinOffset`` (5.3.3).
    """
    low, high = 0, len(physical_offsets) - 1
    while high - low > 1:
        middle = (low + high) // 2
        if physical_offsets[middle] == log_start:
            low = high = middle
        elif physical_offsets[middle] > log_start:
            high = middle
        else:
            low = middle
    live = np.flatnonzero(physical_offsets[low : high + 1] >= log_start)
    return low + int(live[0]) if len(live) else None
