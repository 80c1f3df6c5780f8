"""Files of consume queues and batch consume queues: units of one length."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, TypeVar

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rmqtool.arrays import Array, Int64s
    from rmqtool.formats import Decoder
    from rmqtool.io.location import UnreadableRange
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

        parts = []
        for units in self.columns(size_bytes, []):
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

    def columns(self, stop: int, unreadable: list[UnreadableRange], position: int = 0) -> Iterator[Units]:
        """Yield its units in chunks from a position to before ``stop``; holes of a file are not read."""
        import numpy as np

        width, dtype = self._units.size, self._units.dtype
        whole = stop // width * width
        chunk = _FIRST_CHUNK_UNITS * width
        while position < whole:
            data_start = min(self.segment.next_written(position), whole) // width * width
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

    ``start`` and ``stop`` are addresses of units. ``unreadable`` are ranges that the disk did not deliver, by
    file; ``ragged`` are files that end inside a unit, with the position and the bytes there.
    """

    files: FileQueue
    units: Decoder[Any]
    start: int = 0
    stop: int | None = None
    unreadable: list[tuple[Segment, list[UnreadableRange]]] = field(default_factory=list)
    ragged: list[tuple[Segment, int, bytes]] = field(default_factory=list)

    def __iter__(self) -> Iterator[Units]:
        segments = self.files.segments
        for number, segment in enumerate(segments):
            stop = segment.size_bytes
            if number + 1 < len(segments):
                stop = min(stop, segments[number + 1].start - segment.start)
            if self.stop is not None:
                stop = min(stop, self.stop - segment.start)
            first = max(self.start - segment.start, 0)
            if first > stop:
                continue
            bad: list[UnreadableRange] = []
            yield from QueueFile(segment, self.units).columns(stop, bad, first)
            whole = stop // self.units.size * self.units.size
            tail = segment.read_at(whole, stop - whole, bad)
            if any(tail):
                self.ragged.append((segment, whole, tail))
            if bad:
                self.unreadable.append((segment, bad))
            segment.close()
