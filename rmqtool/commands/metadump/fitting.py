"""Tables of old and new hashes of the log's records, which queues and index are held against."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from pathlib import Path

    import numpy.typing as npt

    from rmqtool.arrays import Int64s
    from rmqtool.store.staged_file import StagedFile

    Rows = npt.NDArray[Any]


_ROW = np.dtype([("physical_offset", "<i8"), ("old", "<i4"), ("new", "<i4")])


class HashTable:
    """Old and new hashes of records, looked up by where the record lies.

    Args:
        file: A scratch file, which receives the rows.
    """

    def __init__(self, file: StagedFile) -> None:
        self._file = file
        self._count = 0
        self._is_sorted, self._last = True, -1

    def extend(self, physical_offsets: Int64s, old: Int64s, new: Int64s) -> None:
        """Add hashes of records at places of the log, those of one record in their order; all ``(n,)``."""
        rows = np.empty(len(old), _ROW)
        rows["physical_offset"], rows["old"], rows["new"] = physical_offsets, old, new
        self._file.write_at(self._count * _ROW.itemsize, rows.tobytes())
        self._count += len(rows)
        steps = np.diff(physical_offsets, prepend=self._last)
        self._is_sorted &= bool((steps >= 0).all())
        self._last = int(physical_offsets[-1]) if len(rows) else self._last

    def finish(self) -> LookUp:
        """Return what looks up in the table."""
        return LookUp(self._file.finish(), self._count, is_sorted=self._is_sorted)


class LookUp:
    """Finds new hashes.

    Args:
        path: The scratch file.
        count: Its rows.
        is_sorted: Whether they are by place.
    """

    def __init__(self, path: Path, count: int, *, is_sorted: bool) -> None:
        rows: Rows = np.memmap(path, _ROW, "r", shape=count) if count else np.empty(0, _ROW)
        self._rows = rows if is_sorted else rows[np.argsort(rows["physical_offset"], kind="stable")]
        self._offsets = self._rows["physical_offset"]

    def find(self, physical_offsets: Int64s, old: Int64s) -> tuple[Int64s, npt.NDArray[np.bool_]]:
        """Return new hashes for old ones, and whether the record there has such a one; all ``(n,)``.

        The second of two equal ones of a record gets that of its second, as far as there are so many.

        Args:
            physical_offsets: Where the records lie, ``(n,)``.
            old: Hashes.
        """
        turn = _turns(physical_offsets, old)
        first = np.searchsorted(self._offsets, physical_offsets)
        found, is_met = np.zeros(len(old), np.int64), np.zeros(len(old), np.bool_)
        met = np.zeros(len(old), np.int64)
        rows = np.flatnonzero(first < len(self._rows))
        step = 0
        while len(rows):
            at = first[rows] + step
            rows, at = rows[at < len(self._rows)], at[at < len(self._rows)]
            there = self._rows[at]
            is_here = there["physical_offset"] == physical_offsets[rows]
            rows, there = rows[is_here], there[is_here]
            fits = (there["old"] == old[rows]) & (met[rows] <= turn[rows])
            found[rows[fits]] = there["new"][fits]
            is_met[rows[fits]] = True
            met[rows[fits]] += 1
            step += 1
        return found, is_met


def _turns(physical_offsets: Int64s, hashes: Int64s) -> Int64s:
    """Return how many rows before each one are equal to it."""
    order = np.lexsort((np.arange(len(hashes)), hashes, physical_offsets))
    changes = np.ones(len(order), np.bool_)
    changes[1:] = (np.diff(physical_offsets[order]) != 0) | (np.diff(hashes[order]) != 0)
    numbers = np.arange(len(order))
    starts = np.maximum.accumulate(np.where(changes, numbers, 0))
    turns = np.empty(len(order), np.int64)
    turns[order] = numbers - starts
    return turns
