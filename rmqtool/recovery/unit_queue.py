"""Consume queue in the broker's memory: recovery, appending, truncation and bounds.

Origin: ``ConsumeQueue#recover``, ``#truncateDirtyLogicFiles``, ``#correctMinOffset``,
``#putMessagePositionInfo`` (4.9.8, 5.3.3), ``MappedFileQueue#truncateDirtyFiles``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from rmqtool.derived.queue_files import QueueFile
from rmqtool.dispatch.append import QueueState, append_units, new_state
from rmqtool.formats.consumequeue import PREBLANK_SIZE, UNIT_SIZE, UNITS
from rmqtool.recovery.ext_queue import NO_ADDRESS, ExtFiles, last_address
from rmqtool.recovery.units import Appended, FileUnits, search_first_live

if TYPE_CHECKING:
    from collections.abc import Mapping

    import numpy.typing as npt

    from rmqtool.arrays import Int64s
    from rmqtool.releases import Release
    from rmqtool.store.segments import Segment


_FILES_RECOVERED = 3
_LOADED = -1  # pre-blank units go into a file that this start makes, never into one that it finds
_NOTHING = (1 << 63) - 1


class EmptyLastFileError(Exception):
    """A last file without units, in which a broker looks for the last unit; the message names the file."""


class UnitQueue:
    """The state of one consume queue, as recovery finds and changes it; nothing is written.

    Without ``ext``, ``enableConsumeQueueExt`` is off; recovery of its ext files may raise ExtFailureError.
    ``deleted`` are labels of files that loading deleted, by start.

    Attributes:
        found: max offset as recovery of the queue finds it.
        cut_again: units appended by the start that its truncation drops.
    """

    batch = False

    def __init__(
        self,
        segments: list[Segment],
        file_size: int,
        deleted: Mapping[int, str] | None = None,
        ext: ExtFiles | None = None,
    ) -> None:
        self._ext = ext or ExtFiles((), 0)
        self._size = file_size
        self._on_disk = {segment.start: segment for segment in segments}
        self._starts = [segment.start for segment in segments]
        self._state = new_state()
        self._min_logic = 0
        self._chunks: list[tuple[int, FileUnits]] = []
        self._gone = dict(deleted or {})
        self._seen_end = -1
        self._hole: int | None = None
        self.cut_again = 0
        if self._starts:
            self._recover()
        self.found = self.maximum
        self._covered = self._coverage()

    @property
    def deleted(self) -> list[str]:
        """Return the labels of the files that are deleted and not created again."""
        gone = [label for start, label in self._gone.items() if start not in self._starts]
        return gone + self._ext.deleted

    @property
    def max_physical_offset(self) -> int:
        """Return ``maxPhysicOffset``."""
        return int(self._state[QueueState.MAX_PHYSICAL_OFFSET])

    @property
    def minimum(self) -> int:
        """Return the min offset, in units."""
        return self._min_logic // UNIT_SIZE

    @property
    def maximum(self) -> int:
        """Return the max offset, in units."""
        return self._end // UNIT_SIZE

    @property
    def _end(self) -> int:
        return int(self._state[QueueState.CURRENT]) if self._starts else 0

    def put(self, queue_offsets: Int64s, physical_offsets: Int64s, sizes: Int64s) -> Appended:
        """Put units in log order, all arrays ``(n,)``."""
        state, keep = self._state, np.empty(len(queue_offsets), np.bool_)
        before, was_empty = self._end, not self._starts
        kept = int(append_units(queue_offsets, physical_offsets, sizes, self._size, state, keep))
        if was_empty and state[QueueState.STARTED]:
            before = self._begin(int(queue_offsets[keep][0]) if kept else 0)
        self._add_files()
        if kept:
            self._keep(before, FileUnits(physical_offsets[keep], sizes[keep], np.zeros(kept, np.int64)))
        places = before // UNIT_SIZE + np.arange(kept)
        ends = physical_offsets + sizes
        misplaced = int(np.count_nonzero(places != queue_offsets[keep]))
        # What reput repeats was judged before.
        vain = ~keep & (ends > self._seen_end) & self.absent(physical_offsets, sizes)
        self._seen_end = max(self._seen_end, int(ends.max(initial=-1)))
        return Appended(kept, misplaced, vain)

    def put_ext(self, count: int) -> None:
        """Append ext units, before the queue's own, which it may not take."""
        self._ext.put(count)

    def absent(self, physical_offsets: Int64s, sizes: Int64s) -> npt.NDArray[np.bool_]:
        """Return which records have no unit in the files as found, by the ranges that those cover."""
        absent = np.ones(len(physical_offsets), np.bool_)
        for first, end in self._covered:
            absent &= (physical_offsets < first) | (physical_offsets + sizes > end)
        return absent

    def truncate(self, physical_offset: int) -> None:
        """Drop units from ``physical_offset`` on; the first unit of a file counts, valid or not."""
        self._state[QueueState.MAX_PHYSICAL_OFFSET] = physical_offset
        before = self.maximum
        while self._starts:
            units = self._units(self._starts[-1])
            if units.physical_offsets[0] < physical_offset:
                self._cut_last(units, physical_offset)
                break
            self._delete_last()
        else:
            self._state[QueueState.STARTED] = 0
        self.cut_again = max(before - max(self.maximum, self.found), 0)
        if not self._chunks:
            self._covered = self._coverage()

    def destroy(self) -> None:
        """Delete everything, as for a log without files."""
        while self._starts:
            self._delete_last()
        self._ext.destroy()
        self._state, self._min_logic = new_state(), 0

    def correct_minimum(self, log_start: int, release: Release) -> None:
        """Find the first unit whose record the log still has; EmptyLastFileError where 5.0 to 5.4 cannot."""
        if release.halves_for_minimum:
            self._correct_minimum_5(log_start, release)
        else:
            self._correct_minimum_4(log_start)

    def _coverage(self) -> list[tuple[int, int]]:
        """Return first offset and last end of the records in each run of files that join.

        A run ends before a zero unit that truncation took for one: its record has no unit.
        """
        heads = [at for at in self._starts if at - self._size not in self._starts or at == self._hole]
        tails = [
            at for at in self._starts if at + self._size not in self._starts or at + self._size == self._hole
        ]
        return [
            (self._first_offset(head, tail), self._last_end(head, tail))
            for head, tail in zip(heads, tails, strict=True)
        ]

    def _first_offset(self, head: int, tail: int) -> int:
        for start in range(head, tail + 1, self._size):
            units = self._units(start)
            real = np.flatnonzero(units.is_record)
            if len(real):
                return int(units.physical_offsets[real[0]])
        return _NOTHING

    def _last_end(self, head: int, tail: int) -> int:
        for start in range(tail, head - 1, -self._size):
            units = self._units(start)
            real = np.flatnonzero(units.is_record[: self._written(start)])
            if len(real):
                return int(units.physical_offsets[real[-1]] + units.sizes[real[-1]])
        return -1

    def _recover(self) -> None:
        end, address = self._starts[0], NO_ADDRESS
        for start in self._starts[-_FILES_RECOVERED:]:
            units = self._units(start)
            valid = (units.physical_offsets >= 0) & (units.sizes > 0)
            count = len(valid) if valid.all() else int(valid.argmin())
            end = start + count * UNIT_SIZE
            if count:
                found = last_address(units.tags_codes[:count])
                address = address if found == NO_ADDRESS else found
                last = int(units.physical_offsets[count - 1] + units.sizes[count - 1])
                self._state[QueueState.MAX_PHYSICAL_OFFSET] = last
            if count < len(valid):
                break
        while self._starts[-1] > end:
            self._delete_last()
        self._place(min(end, self._starts[-1] + self._size))
        self._ext.recover(address)

    def _place(self, end: int) -> None:
        state = self._state
        state[QueueState.STARTED], state[QueueState.FIRST_START] = 1, _LOADED
        state[QueueState.CURRENT], state[QueueState.STOP] = end, self._starts[-1] + self._size

    def _begin(self, first_queue_offset: int) -> int:
        """Add the first file of a queue that had none; return where its first unit goes."""
        start, blank = int(self._state[QueueState.FIRST_START]), int(self._state[QueueState.PREBLANK])
        self._starts.append(start)
        if blank:
            count = blank // UNIT_SIZE
            zeros = np.zeros(count, np.int64)
            self._keep(start, FileUnits(zeros, np.full(count, PREBLANK_SIZE, np.int64), zeros))
        if first_queue_offset:
            self._min_logic = start + blank
        return start + blank

    def _add_files(self) -> None:
        while self._starts and self._starts[-1] + self._size < self._state[QueueState.STOP]:
            self._starts.append(self._starts[-1] + self._size)

    def _keep(self, position: int, units: FileUnits) -> None:
        """Keep appended units that lie in the first or the last file."""
        self._chunks.append((position, units))
        first_stop, last_start = self._starts[0] + self._size, self._starts[-1]
        self._chunks = [
            (at, units)
            for at, units in self._chunks
            if at < first_stop or at + len(units.sizes) * UNIT_SIZE > last_start
        ]

    def _units(self, start: int) -> FileUnits:
        """Return the units of a file, with appended ones over those on disk."""
        rows = np.zeros(self._size // UNIT_SIZE, UNITS.dtype)
        if start in self._on_disk:
            rows = QueueFile(self._on_disk[start], UNITS).loaded(self._size)
        units = FileUnits(*(rows[name].astype(np.int64) for name in ("physicalOffset", "size", "tagsCode")))
        for at, chunk in self._chunks:
            units.cover((at - start) // UNIT_SIZE, chunk)
        return units

    def _cut_last(self, units: FileUnits, physical_offset: int) -> None:
        kept = (units.physical_offsets >= 0) & (units.sizes > 0) & (units.physical_offsets < physical_offset)
        kept[0] = True
        count = len(kept) if kept.all() else int(kept.argmin())
        self._hole = self._starts[-1] if units.sizes[0] <= 0 and count > 1 else None
        self._place(self._starts[-1] + count * UNIT_SIZE)
        self._state[QueueState.MAX_PHYSICAL_OFFSET] = (
            units.physical_offsets[count - 1] + units.sizes[count - 1]
        )

    def _delete_last(self) -> None:
        start = self._starts.pop()
        segment = self._on_disk.pop(start, None)
        if segment is not None:
            self._gone[start] = segment.label

    def _written(self, start: int) -> int:
        return min(self._end - start, self._size) // UNIT_SIZE

    def _correct_minimum_4(self, log_start: int) -> None:
        if self._starts:
            first = self._starts[0]
            units = self._units(first)
            live = units.physical_offsets[: self._written(first)] >= log_start
            if live.any():
                self._set_minimum(first, units, int(live.argmax()))

    def _correct_minimum_5(self, log_start: int, release: Release) -> None:
        if not self._starts or self._min_logic >= self._end:
            return
        first, last = self._starts[0], self._starts[-1]
        written = self._written(last)
        if written == 0 and release.needs_last_unit:
            raise EmptyLastFileError(f"{last:020}")
        if written and self._units(last).physical_offsets[written - 1] < log_start:
            self._min_logic = self._end
            return
        intact = self._min_logic >= first
        start = max(self._min_logic - first, 0) // UNIT_SIZE
        units = self._units(first)
        offsets = units.physical_offsets[start : self._written(first)]
        if len(offsets) and not (intact and offsets[0] >= log_start):
            found = search_first_live(offsets, log_start)
            if found is not None:
                self._set_minimum(first, units, start + found)

    def _set_minimum(self, file_start: int, units: FileUnits, number: int) -> None:
        self._min_logic = file_start + number * UNIT_SIZE
        self._ext.drop_before(int(units.tags_codes[number]))
