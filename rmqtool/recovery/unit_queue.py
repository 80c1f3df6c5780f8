"""A consume queue and its ext files in the broker's memory: recovery, appending, truncation, bounds."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from rmqtool.derived.ext_files import ExtFile
from rmqtool.derived.queue_files import QueueFile, padded
from rmqtool.formats.consumequeue import (
    EXT_ADDRESS_BASE,
    EXT_ADDRESS_MAX,
    EXT_END_ROOM,
    EXT_HEAD_SIZE,
    EXT_HEADS,
    EXT_SIZE_BYTES,
    PREBLANK_SIZE,
    UNIT_SIZE,
    UNITS,
)
from rmqtool.kernels.units import QueueState, append_units, new_state

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from rmqtool.arrays import Bools, Int64s, Rows
    from rmqtool.releases import Release
    from rmqtool.store.segments import Segment


QueueKey = tuple[str, int]
"""Topic, as Java decodes it, and queue id."""


class FileUnits(NamedTuple):
    """Units of one file, ``(n,)`` int64 each, and zeros after them.

    Tags codes are only of those on disk, else 0.
    """

    physical_offsets: Int64s
    sizes: Int64s
    tags_codes: Int64s

    @classmethod
    def of(cls, rows: Rows) -> FileUnits:
        """Return units as they are on disk."""
        return cls(*(rows[name].astype(np.int64) for name in ("physicalOffset", "size", "tagsCode")))

    def padded(self, count: int) -> FileUnits:
        """Return them with zeros after them, if they are fewer than ``count``."""
        return self if len(self.sizes) >= count else FileUnits(*(padded(column, count) for column in self))

    @property
    def is_record(self) -> Bools:
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
    in_vain: Bools


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


NO_ADDRESS = 1


class ExtFailureError(Exception):
    """An ext file that ends inside a unit that the broker reads; its queue cannot be recovered."""

    def __init__(self, label: str, position: int) -> None:
        super().__init__(f"has an ext unit at {position} that runs out of the file: recovery fails")
        self.label = label


class ExtFiles:
    """The ext files of one consume queue, as loaded, by name; ``deleted`` are labels by start."""

    def __init__(
        self, segments: Iterable[Segment], file_size: int, deleted: Mapping[int, str] | None = None
    ) -> None:
        self._segments = {segment.start: segment for segment in segments}
        self._starts = list(self._segments)
        self._size = file_size
        self._end = 0
        self._gone = dict(deleted or {})

    @property
    def deleted(self) -> list[str]:
        """Return the labels of the files that are deleted and not created again."""
        return [label for start, label in self._gone.items() if start not in self._starts]

    def recover(self, max_address: int) -> None:
        """Find the end of the units, then drop those after the one that the queue's last address names.

        Where the broker cannot, and does not start, this raises ExtFailureError.
        """
        for segment in self._segments.values():
            chain = ExtFile(segment).size_chain()
            if chain.fails:
                raise ExtFailureError(segment.label, chain.position)
            self._end = segment.start + chain.position
        if max_address <= EXT_ADDRESS_MAX:
            self._drop_after(max_address - EXT_ADDRESS_BASE)

    def put(self, count: int) -> None:
        """Append a unit without bit map for every message, whether the queue takes its unit or not."""
        if self._size < EXT_HEAD_SIZE + EXT_END_ROOM:
            return
        while count > 0:
            if not self._starts or self._end >= self._starts[-1] + self._size:
                self._end = self._starts[-1] + self._size if self._starts else 0
                self._starts.append(self._end)
            stop = self._starts[-1] + self._size
            taken = min(count, max(stop - EXT_END_ROOM - self._end, 0) // EXT_HEAD_SIZE)
            count -= taken
            self._end = stop if count else self._end + taken * EXT_HEAD_SIZE  # the end mark fills the file

    def drop_before(self, min_address: int) -> None:
        """Delete the files that end before the first address of a record that the log still has."""
        if min_address <= EXT_ADDRESS_MAX:
            offset = min_address - EXT_ADDRESS_BASE
            self._delete([start for start in self._starts if start + self._size < offset])

    def destroy(self) -> None:
        """Delete all files."""
        self._delete(list(self._starts))

    def _drop_after(self, offset: int) -> None:
        segment = self._segment_of(offset)
        if segment is None:
            return
        position = offset % self._size
        limit = self._end - segment.start if segment.start == self._starts[-1] else self._size
        data = segment.read_at(position, min(EXT_HEAD_SIZE, max(limit - position, 0)), [])
        head = EXT_HEADS.padded(data)
        if len(data) < EXT_SIZE_BYTES or head.size < 1:
            return
        if len(data) < EXT_HEAD_SIZE or position + EXT_HEAD_SIZE + max(head.bit_map_size, 0) > limit:
            raise ExtFailureError(segment.label, position)
        self._end = offset + head.size
        self._delete([start for start in self._starts if start > self._end])

    def _segment_of(self, offset: int) -> Segment | None:
        """Java: ``MappedFileQueue#findMappedFileByOffset``, which takes the first file for address 0."""
        start = next((begin for begin in self._starts if begin <= offset < begin + self._size), None)
        if start is None and offset == 0 and self._starts:
            start = self._starts[0]
        return None if start is None else self._segments[start]

    def _delete(self, starts: list[int]) -> None:
        self._gone |= {start: self._segments[start].label for start in starts if start in self._segments}
        self._starts = [start for start in self._starts if start not in starts]


_FILES_RECOVERED = 3
_KEPT = 128
"""Units of a file that is kept in memory: most queues are short, and there can be tens of thousands."""
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
        last_found: ``maxPhysicOffset`` then.
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
        self._appended: list[tuple[int, FileUnits]] = []
        self._gone = dict(deleted or {})
        self._seen_end = -1
        self._hole: int | None = None
        self._read: tuple[int, FileUnits] | None = None
        self._short: dict[int, FileUnits] = {}
        self.cut_again = 0
        if self._starts:
            self._recover()
        self.found, self.last_found = self.maximum, self.max_physical_offset
        self._covered = self._coverage()
        self._read = None

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
        while self._starts and self._starts[-1] + self._size < self._state[QueueState.STOP]:
            self._starts.append(self._starts[-1] + self._size)
        if kept:
            self._appended.append(
                (before, FileUnits(physical_offsets[keep], sizes[keep], np.zeros(kept, np.int64)))
            )
        places = before // UNIT_SIZE + np.arange(kept)
        ends = physical_offsets + sizes
        misplaced = int(np.count_nonzero(places != queue_offsets[keep]))
        # What reput repeats was judged before; a record of a wrong PHYSICALOFFSET may have another's unit.
        vain = ~keep & (ends > self._seen_end) & self.absent(physical_offsets, sizes)
        if vain.any():  # in few queues
            vain &= ~np.isin(physical_offsets, physical_offsets[keep])
        self._seen_end = max(self._seen_end, int(ends.max(initial=-1)))
        return Appended(kept, misplaced, vain)

    def put_ext(self, count: int) -> None:
        """Append ext units, before the queue's own, which it may not take."""
        self._ext.put(count)

    def absent(self, physical_offsets: Int64s, sizes: Int64s) -> Bools:
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
        if not self._appended:
            self._covered = self._coverage()
        self._read = None

    def units_after_start(self) -> tuple[Int64s, Int64s, Int64s, Int64s]:
        """Return queue offset, place, size and number of messages of the units, ``(n,)`` each.

        In a file that begins inside a unit, by its name, a broker finds none of them.
        """
        keys, files = [np.empty(0, np.int64)], [FileUnits(*np.empty((3, 0), np.int64))]
        for start in (file_start for file_start in self._starts if file_start % UNIT_SIZE == 0):
            units = self._units(start)
            count = max(self._written(start), 0)
            keys.append(start // UNIT_SIZE + np.arange(count))
            files.append(FileUnits(*(column[:count] for column in units)))
        self._read = None
        places, sizes, _ = (np.concatenate(column) for column in zip(*files, strict=True))
        return np.concatenate(keys), places, sizes, np.ones(len(sizes), np.int64)

    def settle(self) -> None:
        """Take what was put for the files as a start finds them."""
        self.found = self.maximum
        self._covered = self._coverage()
        self._read = None

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
        self._read = None

    def _coverage(self) -> list[tuple[int, int]]:
        """Return lowest offset and highest end of the records in each run of files that join.

        Those of the outermost file with records: a rotted unit there, which leads elsewhere, widens them.
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
                return int(units.physical_offsets[real].min())
        return _NOTHING

    def _last_end(self, head: int, tail: int) -> int:
        for start in range(tail, head - 1, -self._size):
            units = self._units(start)
            real = np.flatnonzero(units.is_record[: self._written(start)])
            if len(real):
                return int((units.physical_offsets[real] + units.sizes[real]).max())
        return -1

    def _recover(self) -> None:
        end, address = self._starts[0], NO_ADDRESS
        for start in self._starts[-_FILES_RECOVERED:]:
            units = self._units(start)
            valid = (units.physical_offsets >= 0) & (units.sizes > 0)
            count = len(valid) if valid.all() else int(valid.argmin())
            is_full = count >= self._size // UNIT_SIZE
            end = start + count * UNIT_SIZE
            if count:
                tags_codes = units.tags_codes[:count]
                at = np.flatnonzero(tags_codes <= EXT_ADDRESS_MAX)
                newest = int(tags_codes[at[-1]]) if len(at) else NO_ADDRESS
                address = address if newest == NO_ADDRESS else newest
                last = int(units.physical_offsets[count - 1] + units.sizes[count - 1])
                self._state[QueueState.MAX_PHYSICAL_OFFSET] = last
            if not is_full:
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
            self._appended.append((start, FileUnits(zeros, np.full(count, PREBLANK_SIZE, np.int64), zeros)))
        if first_queue_offset:
            self._min_logic = start + blank
        return start + blank

    def _units(self, start: int) -> FileUnits:
        """Return the units of a file, with appended ones over those on disk: the first, and all in use.

        The file read last is kept to the end of a step, a short one for longer: there are many queues, and
        large files.
        """
        if self._read is not None and self._read[0] == start:
            return self._read[1]
        self._join_appended()
        chunks = [((at - start) // UNIT_SIZE, chunk) for at, chunk in self._appended]
        used = max([1, self._written(start), *(first + len(chunk.sizes) for first, chunk in chunks)])
        units = self._found(start).padded(min(used, self._size // UNIT_SIZE))
        if chunks:
            units = FileUnits(*(unit.copy() for unit in units))
        for first, chunk in chunks:
            units.cover(first, chunk)
        self._read = start, units
        return units

    def _join_appended(self) -> None:
        """Make one chunk of appended ones that follow each other: there is one for each put."""
        runs: list[list[tuple[int, FileUnits]]] = []
        for at, chunk in self._appended:
            if runs and at == runs[-1][-1][0] + len(runs[-1][-1][1].sizes) * UNIT_SIZE:
                runs[-1].append((at, chunk))
            else:
                runs.append([(at, chunk)])
        self._appended = [
            (run[0][0], FileUnits(*map(np.concatenate, zip(*(chunk for _, chunk in run), strict=True))))
            if len(run) > 1
            else run[0]
            for run in runs
        ]

    def _found(self, start: int) -> FileUnits:
        """Return the units of a file as it is on disk, none of one that is not there."""
        if start in self._short:
            return self._short[start]
        if start not in self._on_disk:
            return FileUnits.of(np.empty(0, UNITS.dtype))
        units = FileUnits.of(QueueFile(self._on_disk[start], UNITS).written(self._size))
        if len(units.sizes) <= _KEPT:
            self._short[start] = units
        self._on_disk[start].close()
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
        self._short.pop(start, None)
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
            first_live = search_first_live(offsets, log_start)
            if first_live is not None:
                self._set_minimum(first, units, start + first_live)

    def _set_minimum(self, file_start: int, units: FileUnits, number: int) -> None:
        self._min_logic = file_start + number * UNIT_SIZE
        self._ext.drop_before(int(units.tags_codes[number]))
