"""The units of a queue as they lie in its files, chunk by chunk; holes of sparse files are not read."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from rmqtool.formats import consumequeue as formats
from rmqtool.formats import record_dtype

if TYPE_CHECKING:
    from collections.abc import Iterator

    import numpy.typing as npt

    from rmqtool.store.reading import UnreadableRange
    from rmqtool.store.segments import FileQueue, Segment

    Array = npt.NDArray[Any]
    Int64s = npt.NDArray[np.int64]
    Bools = npt.NDArray[np.bool_]

UNIT_DTYPE = record_dtype(formats.UNIT)
BATCH_DTYPE = record_dtype(formats.BATCH_UNIT)
_FIRST_CHUNK_UNITS = 1 << 12  # most queues of a store are short, and their files large and empty
_LARGEST_CHUNK_UNITS = 1 << 18


@dataclass(frozen=True)
class Units:
    """Consecutive units of one file.

    Attributes:
        segment: the file.
        position: of the first unit in the file; of a hole, of its first byte.
        rows: ``(n,)`` in the file's own format; a hole has none.
        zeros: units that a hole stands for.
    """

    segment: Segment
    position: int
    rows: Array
    zeros: int = 0

    @property
    def unit_size(self) -> int:
        """Return the bytes of a unit."""
        return int(self.rows.dtype.itemsize)

    @property
    def first_number(self) -> int:
        """Return the number of the first unit in the queue."""
        return (self.segment.start + self.position) // self.unit_size

    def __len__(self) -> int:
        return len(self.rows)

    def column(self, name: str) -> Int64s:
        """Return a field of all units, ``(n,)``."""
        return self.rows[name].astype(np.int64)

    def position_of(self, row: int) -> int:
        """Return the position in the file of a unit."""
        return self.position + row * self.unit_size


@dataclass
class QueueReader:
    """Reads the units of one queue.

    Attributes:
        files: of the queue.
        dtype: of its units.
        unreadable: ranges that the disk did not deliver, by file.
        ragged: files that end inside a unit, with the position and the bytes there.
    """

    files: FileQueue
    dtype: np.dtype[Any]
    unreadable: list[tuple[Segment, list[UnreadableRange]]] = field(default_factory=list)
    ragged: list[tuple[Segment, int, bytes]] = field(default_factory=list)

    def __iter__(self) -> Iterator[Units]:
        segments = self.files.segments
        for number, segment in enumerate(segments):
            stop = segment.size_bytes
            if number + 1 < len(segments):
                stop = min(stop, segments[number + 1].start - segment.start)
            bad: list[UnreadableRange] = []
            yield from self._units(segment, stop, bad)
            if bad:
                self.unreadable.append((segment, bad))
            segment.close()

    def _units(self, segment: Segment, stop: int, bad: list[UnreadableRange]) -> Iterator[Units]:
        width = self.dtype.itemsize
        whole = stop // width * width
        position, chunk = 0, _FIRST_CHUNK_UNITS * width
        while position < whole:
            data_start = min(segment.next_data(position), whole) // width * width
            if data_start > position:
                yield Units(segment, position, np.empty(0, self.dtype), (data_start - position) // width)
                position = data_start
                continue
            data = segment.read_at(position, min(chunk, whole - position), bad)
            rows = np.frombuffer(data, self.dtype, len(data) // width)
            if not len(rows):  # the file became shorter
                return
            yield Units(segment, position, rows)
            position += rows.nbytes
            chunk = min(4 * chunk, _LARGEST_CHUNK_UNITS * width)
        tail = segment.read_at(whole, stop - whole, bad)
        if any(tail):
            self.ragged.append((segment, whole, tail))
