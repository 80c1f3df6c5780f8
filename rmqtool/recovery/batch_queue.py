"""A batch consume queue in the broker's memory (5.0.0+).

Sources: ``BatchConsumeQueue#recover``, ``#truncateDirtyLogicFiles``, ``#correctMinOffset``,
``#putBatchMessagePositionInfo`` (5.3.3).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from rmqtool.derived.queue_files import QueueFile, padded
from rmqtool.formats.consumequeue import BATCH_UNITS
from rmqtool.recovery.unit_queue import Appended

if TYPE_CHECKING:
    from rmqtool.arrays import Bools, Int64s, Rows
    from rmqtool.releases import Release
    from rmqtool.store.segments import Segment


_FILES_RECOVERED = 3
_NOTHING = (1 << 63) - 1


class BatchQueue:
    """The state of one batch consume queue; of appended units it keeps the first and the last.

    Attributes:
        max_physical_offset: start, not end, of the last record with a unit; -1 if none.
        minimum: min offset; -1 if there is none.
        found: max offset as recovery of the queue finds it.
        last_found: ``max_physical_offset`` then.
    """

    batch = True
    cut_again = 0

    def __init__(self, segments: list[Segment], file_size: int) -> None:
        self._size = file_size
        self._segments = list(segments)
        self._rows: list[Rows] = [self._read(segment) for segment in segments]
        self._room = file_size // BATCH_UNITS.size
        self._put: tuple[int, int] | None = None
        self._appended: list[Int64s] = []
        self.deleted: list[str] = []
        self.max_physical_offset = -1
        self.minimum, self.maximum = -1, 0
        if segments:
            self._recover()
        self.found, self.last_found = self.maximum, self.max_physical_offset
        self._covered = self._coverage()

    def put(self, bases: Int64s, physical_offsets: Int64s, batch_sizes: Int64s) -> Appended:
        """Put units in log order, all arrays ``(n,)``; only the physical offset is compared."""
        before = np.concatenate(([self.max_physical_offset], physical_offsets))
        keep = physical_offsets > np.maximum.accumulate(before)[:-1]
        kept = int(keep.sum())
        if kept:
            self.max_physical_offset = int(physical_offsets[keep][-1])
            self.maximum = int((bases + batch_sizes)[keep][-1])
            self._put = self._put or (int(bases[keep][0]), int(physical_offsets[keep][0]))
            self._appended.append(np.stack([bases, physical_offsets, batch_sizes])[:, keep])
        return Appended(kept, 0, np.zeros(len(keep), np.bool_))

    def absent(self, physical_offsets: Int64s, sizes: Int64s) -> Bools:
        """Return which records have no unit in the files as found, by the range that those cover."""
        first, last = self._covered
        are_absent: Bools = (physical_offsets < first) | (physical_offsets > last) | (sizes <= 0)
        return are_absent

    def truncate(self, physical_offset: int) -> None:
        """Drop units from ``physical_offset`` on; what was appended since the start lies before it."""
        if self._put is not None:
            return
        self.max_physical_offset = physical_offset - 1
        while self._rows:
            rows = padded(self._read(self._segments[-1]), 1)
            if rows["physicalOffset"][0] < physical_offset:
                kept = _valid(rows) & (rows["physicalOffset"] < physical_offset)
                kept[0] = True
                self._rows[-1] = _leading(rows, kept)
                self.max_physical_offset = int(self._rows[-1]["physicalOffset"][-1])
                break
            self._delete_last()
        self._revise()

    def units_after_start(self) -> tuple[Int64s, Int64s, Int64s, Int64s]:
        """Return base offset, place, size and number of messages of the units, ``(n,)`` each.

        Appended units have size -1: it is that of their record.
        """
        names = ("msgBaseOffset", "physicalOffset", "size", "batchSize")
        parts = [np.empty((4, 0), np.int64)]
        parts += [np.stack([rows[name].astype(np.int64) for name in names]) for rows in self._rows]
        for bases, places, messages in self._appended:
            parts.append(np.stack([bases, places, np.full(len(bases), -1), messages]))
        keys, places, sizes, messages = np.concatenate(parts, axis=1)
        return keys, places, sizes, messages

    def settle(self) -> None:
        """Take what was put for the files as a start finds them."""
        self.found = self.maximum

    def destroy(self) -> None:
        """Delete everything, as for a log without files."""
        while self._rows:
            self._delete_last()
        self._revise()

    def correct_minimum(self, log_start: int, _release: Release) -> None:
        """Find the first unit whose record the log still has."""
        rows = self._rows[0] if self._rows else None
        if rows is None or not len(rows):
            self.minimum = self._put[0] if self._put else -1
            return
        self.minimum = int(rows["msgBaseOffset"][0])
        expired = rows["physicalOffset"] < log_start
        count = len(expired) if expired.all() else int(expired.argmin())
        if count:
            self.minimum = int(rows["msgBaseOffset"][count - 1] + rows["batchSize"][count - 1])

    def _coverage(self) -> tuple[int, int]:
        if not self._rows or not len(self._rows[0]):
            return _NOTHING, -1
        return int(self._rows[0]["physicalOffset"][0]), self.max_physical_offset

    def _read(self, segment: Segment) -> Rows:
        """Return the units of a file, without the zeros after them."""
        return QueueFile(segment, BATCH_UNITS).written(self._size)

    def _recover(self) -> None:
        first = max(len(self._rows) - _FILES_RECOVERED, 0)
        self._rows[:first] = [padded(rows, self._room) for rows in self._rows[:first]]  # as they are mapped
        for number in range(first, len(self._rows)):
            rows = self._rows[number]
            self._rows[number] = _leading(rows, _valid(rows))
            if len(self._rows[number]):
                self.max_physical_offset = int(self._rows[number]["physicalOffset"][-1])
            if len(self._rows[number]) < self._room:
                while len(self._rows) > number + 1:
                    self._delete_last()
                break
        self._revise()

    def _revise(self) -> None:
        """Java: ``reviseMaxAndMinOffsetInQueue``."""
        self.minimum, self.maximum = -1, 0
        if self._rows and len(self._rows[0]):
            self.minimum = int(self._rows[0]["msgBaseOffset"][0])
        for rows in self._rows[:-3:-1]:
            if len(rows):
                self.maximum = int(rows["msgBaseOffset"][-1] + rows["batchSize"][-1])
                break

    def _delete_last(self) -> None:
        self._rows.pop()
        self.deleted.append(self._segments.pop().label)


def _valid(rows: Rows) -> Bools:
    return (
        (rows["physicalOffset"] >= 0)
        & (rows["size"] > 0)
        & (rows["msgBaseOffset"] >= 0)
        & (rows["batchSize"] > 0)
    )


def _leading(rows: Rows, kept: Bools) -> Rows:
    return rows if kept.all() else rows[: int(kept.argmin())]
