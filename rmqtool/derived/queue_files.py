"""Files of consume queues and batch consume queues: units of one length, and the bounds of a queue."""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, TypeVar

from rmqtool.errors import EnvironmentFailureError
from rmqtool.formats.consumequeue import (
    BATCH_UNITS,
    PREBLANK,
    PREBLANK_SIZE,
    UNITS,
    BatchUnitFields,
    UnitFields,
)
from rmqtool.formats.message import SMALLEST_RECORD
from rmqtool.store.kinds import UNIT_QUEUE_KINDS, PathKind, is_rocksdb

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from rmqtool.arrays import Array, Bools, Int64s
    from rmqtool.formats import Decoder
    from rmqtool.io.location import UnreadableRange
    from rmqtool.store import QueueFiles, Store
    from rmqtool.store.segments import FileQueue, Segment, Window


UnitT = TypeVar("UnitT", bound=tuple[int, ...])

_FIRST_CHUNK_UNITS = 1 << 9  # most queues of a store are short, and their files large and empty
_LARGEST_CHUNK_UNITS = 1 << 18


class PlacedUnit(NamedTuple, Generic[UnitT]):
    """A unit and its position in the file."""

    position: int
    unit: UnitT


class ZeroUnits(NamedTuple):
    """Zero units from one position to another; ``to_end`` if nothing else follows in the file."""

    position: int
    stop: int
    to_end: bool


class CutUnit(NamedTuple):
    """Bytes at the end of a file that are less than a unit, and not zero."""

    position: int
    length: int


class QueueFile(Generic[UnitT]):
    """One file of a queue."""

    def __init__(self, segment: Segment, units: Decoder[UnitT]) -> None:
        self.segment = segment
        self._units = units

    @property
    def room(self) -> int:
        """Whole units in its bytes."""
        return self.segment.size_bytes // self._units.size

    @property
    def first_number(self) -> int:
        """Number of its first unit in the queue."""
        return self.segment.start // self._units.size

    @property
    def is_begun(self) -> bool:
        """Whether it has its first unit; a broker creates a file with its first unit."""
        return any(self.segment.read_at(0, self._units.size, []))

    def unit(self, number: int) -> UnitT:
        """Return a unit by its number in the file; zeros past the end of the file."""
        return self._units.padded(self.segment.read_at(number * self._units.size, self._units.size, []))

    def rows(self, window: Window, position: int = 0) -> Iterator[PlacedUnit[UnitT] | ZeroUnits | CutUnit]:
        """Yield its units from a position on, one by one, and zeros and cut units between them."""
        width, size_bytes = self._units.size, self.segment.size_bytes
        while position + width <= size_bytes:
            window.focus(position)
            data = window.read_at(position, width)
            unit = self._units.decode(data)
            if unit is None:
                break
            if any(data):
                yield PlacedUnit(position, unit)
                position += width
                continue
            stop = window.skip_zeros(position)
            to_end = stop >= size_bytes
            stop = size_bytes if to_end else position + (stop - position) // width * width
            yield ZeroUnits(position, stop, to_end)
            position = stop
        left = size_bytes - position
        if left > 0 and any(window.read_at(position, left)):
            yield CutUnit(position, left)

    def written(self, size_bytes: int) -> Array:
        """Return its units as a broker maps them, up to the last that is not zeros.

        They are ``(n,)`` in the file's format; ``size_bytes`` is the configured size of a file. Holes of a
        sparse file are not read: it has room for hundreds of thousands of units, most often for nothing.
        """
        import numpy as np

        parts, stop = [], min(size_bytes, self.segment.end_of_data())
        for units in self.columns(stop, []):
            if len(units) and (used := len(units.rows.tobytes().rstrip(b"\0"))):
                first = units.position // units.unit_size
                parts.append((first, units.rows[: -(-used // units.unit_size)]))
        if len(parts) == 1 and not parts[0][0]:
            return parts[0][1]
        first, last = parts[-1] if parts else (0, np.empty(0, self._units.dtype))
        rows = np.zeros(first + len(last), self._units.dtype)
        for first, part in parts:
            rows[first : first + len(part)] = part
        return rows

    def loaded(self, size_bytes: int) -> Array:
        """Return the same, with zeros up to the file's end: ``(units in a file,)``."""
        return padded(self.written(size_bytes), size_bytes // self._units.size)

    def columns(self, stop: int, unreadable: list[UnreadableRange]) -> Iterator[Units]:
        """Yield its units in chunks up to the position ``stop``; holes of a sparse file are not read."""
        import numpy as np

        width, dtype = self._units.size, self._units.dtype
        whole = stop // width * width
        position, chunk = 0, _FIRST_CHUNK_UNITS * width
        while position < whole:
            data_start = min(self.segment.next_data(position), whole) // width * width
            if data_start > position:
                yield Units(self.segment, position, np.empty(0, dtype), (data_start - position) // width)
                position = data_start
                continue
            data = self.segment.read_at(position, min(chunk, whole - position), unreadable)
            rows = np.frombuffer(data, dtype, len(data) // width)
            if not len(rows):  # the file became shorter
                return
            yield Units(self.segment, position, rows)
            position += rows.nbytes
            chunk = min(4 * chunk, _LARGEST_CHUNK_UNITS * width)


def padded(rows: Array, count: int) -> Array:
    """Return units with zeros after them, if they are fewer than ``count``."""
    import numpy as np

    return rows if len(rows) >= count else np.concatenate((rows, np.zeros(count - len(rows), rows.dtype)))


@dataclass(frozen=True)
class Units:
    """Consecutive units of one file, from a position in bytes.

    ``rows`` is ``(n,)`` in the file's own format; for a hole it is empty, and ``zeros`` is the number of
    units.
    """

    segment: Segment
    position: int
    rows: Array
    zeros: int = 0

    @property
    def unit_size(self) -> int:
        """Bytes of a unit."""
        return int(self.rows.dtype.itemsize)

    @property
    def first_number(self) -> int:
        """Number of the first unit in the queue."""
        return (self.segment.start + self.position) // self.unit_size

    def __len__(self) -> int:
        return len(self.rows)

    def column(self, name: str) -> Int64s:
        """Return a field of all units, ``(n,)``."""
        return self.rows[name].astype("int64")

    def position_of(self, row: int) -> int:
        """Return the position in the file of a unit."""
        return self.position + row * self.unit_size


@dataclass
class QueueReader:
    """Reader of one queue's units, column by column; each file is closed after its last unit.

    ``unreadable`` are ranges that the disk did not deliver, by file; ``ragged`` are files that end inside a
    unit, with the position and the bytes there.
    """

    files: FileQueue
    units: Decoder[Any]
    unreadable: list[tuple[Segment, list[UnreadableRange]]] = field(default_factory=list)
    ragged: list[tuple[Segment, int, bytes]] = field(default_factory=list)

    def __iter__(self) -> Iterator[Units]:
        segments = self.files.segments
        for number, segment in enumerate(segments):
            stop = segment.size_bytes
            if number + 1 < len(segments):
                stop = min(stop, segments[number + 1].start - segment.start)
            bad: list[UnreadableRange] = []
            yield from QueueFile(segment, self.units).columns(stop, bad)
            whole = stop // self.units.size * self.units.size
            tail = segment.read_at(whole, stop - whole, bad)
            if any(tail):
                self.ragged.append((segment, whole, tail))
            if bad:
                self.unreadable.append((segment, bad))
            segment.close()


class LiveUnits(NamedTuple):
    """Units of a queue, ``(n,)`` each.

    ``keys`` are numbers of the units, of a batch queue their base offsets; ``sizes`` are those of the records
    in bytes; ``messages`` are more than one in a batch queue.
    """

    keys: Array
    physical_offsets: Array
    sizes: Array
    tags_codes: Array
    messages: Array

    def only(self, which: Bools) -> LiveUnits:
        """Return some of them."""
        return LiveUnits(*(column[which] for column in self))

    @property
    def sane(self) -> LiveUnits:
        """Return units of a message whose size can be that of a record."""
        in_size = (self.sizes >= SMALLEST_RECORD) & (self.sizes < PREBLANK_SIZE)
        return self.only(in_size & (self.messages > 0))


def live_units(queue: QueueFiles) -> Iterator[LiveUnits]:
    """Yield the units of a consume queue, or batch consume queue, chunk by chunk."""
    is_batch = queue.kind is PathKind.BATCHCONSUMEQUEUE
    for units in QueueReader(queue.files, BATCH_UNITS if is_batch else UNITS):
        if len(units):
            yield _live(units, is_batch=is_batch)


def _live(units: Units, *, is_batch: bool) -> LiveUnits:
    import numpy as np

    offsets, sizes = units.column("physicalOffset"), units.column("size")
    numbers: Int64s = units.first_number + np.arange(len(units))
    messages: Int64s = np.ones(len(units), np.int64)
    if is_batch:
        numbers, messages = units.column("msgBaseOffset"), units.column("batchSize")
    is_preblank = (offsets == 0) & (sizes == PREBLANK_SIZE)
    valid = (sizes > 0) & (offsets >= 0) & ~is_preblank
    return LiveUnits(numbers, offsets, sizes, units.column("tagsCode"), messages).only(valid)


def all_live_units(queue: QueueFiles) -> LiveUnits:
    """Return all units of a queue."""
    import numpy as np

    parts = [*live_units(queue)] or [LiveUnits(*(np.empty(0, np.int64) for _ in LiveUnits._fields))]
    return parts[0] if len(parts) == 1 else LiveUnits(*map(np.concatenate, zip(*parts, strict=True)))


def queue_units(store: Store, unread: list[str]) -> Iterator[tuple[QueueFiles, LiveUnits]]:
    """Yield the queues of a store that are files, each with its list."""
    for kind in UNIT_QUEUE_KINDS:
        root = store.roots.get(kind)
        if root is None or is_rocksdb(root.paths[0]):
            continue
        try:
            queues = list(store.queues(kind))
        except EnvironmentFailureError as failure:
            unread.append(str(failure))
            continue
        for queue in queues:
            try:
                units = all_live_units(queue)
            except EnvironmentFailureError as failure:
                unread.append(str(failure))
                continue
            yield queue, units


class Bounds(NamedTuple):
    """Offsets of a queue: units from ``min_offset`` to before ``max_offset`` point into the log."""

    min_offset: int
    max_offset: int


def queue_bounds(queue: QueueFiles, log_start: int) -> Bounds:
    """Return the bounds of a (batch) consume queue whose units are in order, as in an undamaged store.

    Java: ``ConsumeQueue#recover``, ``ConsumeQueue#correctMinOffset`` (4.9.8, 5.3.3), but for two things that
    these miss: pre-blank units never count, and expired units are skipped in all files. ``log_start`` is a
    physical offset.
    """
    if not queue.files.segments:
        return Bounds(0, 0)
    if queue.kind is PathKind.BATCHCONSUMEQUEUE:
        return _batch_bounds(queue.files, log_start)
    files = [QueueFile(segment, UNITS) for segment in queue.files]
    last = _last_begun(files)
    valid = _count_valid(last)
    max_offset = last.first_number + valid
    for file in files:

        def is_alive(number: int) -> bool:
            unit = file.unit(number)  # noqa: B023 - used at once
            return unit != PREBLANK and unit.physical_offset >= log_start

        count = valid if file is last else _count_valid(file)
        alive = bisect_left(range(count), True, key=is_alive)
        if alive < count:
            return Bounds(file.first_number + alive, max_offset)
    return Bounds(max_offset, max_offset)


def messages_from(queue: QueueFiles, physical_offset: int, max_offset: int | None = None) -> int:
    """Return how many messages at the end of a queue lie at a physical offset, or after it.

    The queue's units are in order; ``max_offset`` is its end as in `queue_bounds`, if known. Most often the
    offset is after all of them: then only the last unit is read.
    """
    if not queue.files.segments:
        return 0
    if queue.kind is not PathKind.BATCHCONSUMEQUEUE:
        if max_offset is None:
            last_file = _last_begun([QueueFile(segment, UNITS) for segment in queue.files])
            max_offset = last_file.first_number + _count_valid(last_file)
        position = (max_offset - 1) * UNITS.size
        segment = queue.files.segment_at(position)
        if segment is None:
            return 0
        last = QueueFile(segment, UNITS).unit((position - segment.start) // UNITS.size)
        if last.physical_offset < physical_offset:
            return 0
    bounds = queue_bounds(queue, physical_offset)
    return bounds.max_offset - bounds.min_offset


def ends_by(queue: QueueFiles, max_offset: int) -> bool:
    """Return whether the last file of a consume queue, with units in order, shows that it ends by then."""
    if queue.kind is PathKind.BATCHCONSUMEQUEUE or not queue.files.segments:
        return False
    file, position = QueueFile(queue.files.segments[-1], UNITS), max_offset * UNITS.size
    if not file.segment.start <= position < file.segment.stop:
        return position == file.segment.stop
    return _is_invalid(file.unit(max_offset - file.first_number))


def _last_begun(files: Sequence[QueueFile[UnitT]]) -> QueueFile[UnitT]:
    """Return the last file with a unit, or else the first one."""
    return next((file for file in reversed(files) if file.is_begun), files[0])


def _count_valid(file: QueueFile[UnitFields]) -> int:
    """Return the units before the first invalid one, as if all after it were invalid."""
    return bisect_left(range(file.room), True, key=lambda number: _is_invalid(file.unit(number)))


def _is_invalid(unit: UnitFields) -> bool:
    return unit.physical_offset < 0 or unit.size <= 0


def _batch_bounds(queue: FileQueue, log_start: int) -> Bounds:
    """Return base of the first live unit, and last base with its batch."""
    files = [QueueFile(segment, BATCH_UNITS) for segment in queue]
    last = _last_begun(files)
    count = _count_batch_units(last)
    if count == 0:
        return Bounds(0, 0)
    newest = last.unit(count - 1)
    max_offset = newest.msg_base_offset + newest.batch_size
    for file in files:
        count = _count_batch_units(file)
        alive = bisect_left(
            range(count), True, key=lambda number: file.unit(number).physical_offset >= log_start
        )
        if alive < count:
            return Bounds(file.unit(alive).msg_base_offset, max_offset)
    return Bounds(max_offset, max_offset)


def _count_batch_units(file: QueueFile[BatchUnitFields]) -> int:
    return bisect_left(range(file.room), True, key=lambda number: file.unit(number).size <= 0)
