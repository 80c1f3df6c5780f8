"""Images, maps of what is used of them, and the search for records in them, on all cores.

The search is ``rmqtool.scan.loose``. The walk's own search after damage (``find_record``) differs: it wants
the one record that names its place, also end marks, so it rejects most candidates by eight bytes.

Maps have the format of the manual of GNU ddrescue, "Mapfile structure": comments, a line with the current
position and status, then one line for each part, its position, its size and its status. Numbers are as C
writes them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from rmqtool.errors import EnvironmentFailureError
from rmqtool.kernels.loose import FOUND_ROW
from rmqtool.scan.loose import find_loose

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from rmqtool.arrays import Int64s, Rows
    from rmqtool.engine import Engine
    from rmqtool.io import Location, ReadOnlyFile, UnreadableRange


def ranges_of(pairs: Iterable[tuple[int, int]]) -> Int64s:
    """Return ranges as an array ``(n, 2)`` of start and stop, ascending, none touching another."""
    return merged(np.array([*pairs], np.int64).reshape(-1, 2))


def merged(ranges: Int64s) -> Int64s:
    """Return the union of ranges, ascending, none empty, none touching another."""
    ranges = ranges[ranges[:, 0] < ranges[:, 1]]
    if not len(ranges):
        return ranges
    ranges = ranges[np.argsort(ranges[:, 0], kind="stable")]
    reached = np.maximum.accumulate(ranges[:, 1])
    first = np.concatenate([[True], ranges[1:, 0] > reached[:-1]])
    last = np.concatenate([first[1:], [True]])
    return np.stack([ranges[first, 0], reached[last]], axis=1)


def outside(ranges: Int64s, start: int, stop: int) -> Int64s:
    """Return the parts of ``start`` to ``stop`` outside some merged ranges."""
    bounds = np.concatenate([[start], np.clip(ranges, start, stop).reshape(-1), [stop]])
    return merged(bounds.reshape(-1, 2))


def length_of(ranges: Int64s) -> int:
    """Return how many positions lie in merged ranges."""
    return int((ranges[:, 1] - ranges[:, 0]).sum())


def within(ranges: Int64s, start: int, stop: int) -> list[tuple[int, int]]:
    """Return the parts of merged ranges that lie in ``start`` to ``stop``."""
    first = int(np.searchsorted(ranges[:, 1], start, "right"))
    last = int(np.searchsorted(ranges[:, 0], stop, "left"))
    return [(max(int(low), start), min(int(high), stop)) for low, high in ranges[first:last]]


USED, UNREADABLE, NOTHING = "+", "-", "/"
"""Statuses of the maps: used in the result; bad sectors; read but not used."""


def map_lines(size_bytes: int, parts: Iterable[tuple[str, Int64s]]) -> Iterator[str]:
    """Yield the lines of a map.

    ``parts`` are merged ranges by status, the strongest first; the rest of the image is ``NOTHING``.
    """
    yield "# Map of what rmqtool carve used of an image, in the format of GNU ddrescue\n"
    yield f"# {USED} in the result  {UNREADABLE} could not be read  {NOTHING} nothing there\n"
    yield "# current_pos  current_status  current_pass\n"
    yield f"0x{max(size_bytes, 0):08X}     +               1\n"
    yield "#      pos        size  status\n"
    found: list[tuple[int, int, str]] = []
    free = ranges_of([(0, size_bytes)])
    for status, ranges in parts:
        taken = [part for start, stop in free for part in within(ranges, int(start), int(stop))]
        found += [(start, stop, status) for start, stop in taken]
        free = ranges_of(
            part for start, stop in free for part in outside(ranges, int(start), int(stop)).tolist()
        )
    found += [(int(start), int(stop), NOTHING) for start, stop in free]
    for start, stop, status in sorted(found):
        yield f"0x{start:08X}  0x{stop - start:08X}  {status}\n"


class Image(NamedTuple):
    """Raw bytes, with their place on the command line from 0; each worker opens the file for itself."""

    number: int
    location: Location
    size_bytes: int

    def reader(self) -> ImageReader:
        """Return a reader of its own, which opens the file at the first read."""
        return ImageReader(self)


def open_image(number: int, location: Location) -> Image:
    """Open an image, with its number on the command line."""
    with location.reader() as file:
        return Image(number, location, file.current_size())


class ImageReader:
    """Reads an image, past bad sectors, whose ranges are in ``unreadable`` and read as zeros."""

    def __init__(self, image: Image) -> None:
        self._image = image
        self._file: ReadOnlyFile = image.location.reader()
        self.unreadable: list[UnreadableRange] = []

    @property
    def size_bytes(self) -> int:
        """Return the size in bytes."""
        return self._image.size_bytes

    def read_into(self, position: int, view: memoryview[Any]) -> int:
        """Fill a view from a position on; return how many bytes came, fewer at the image's end."""
        length = min(len(view), self.size_bytes - position)
        count = self._file.read_into(position, view[:length], self.unreadable)
        if count < length:
            raise EnvironmentFailureError(
                f"{self._image.location}: ends at {position + count}, and was {self.size_bytes} bytes long"
                " before: carve a copy that does not change"
            )
        return length

    def next_written(self, position: int) -> int:
        """Return the position of the next bytes outside a hole of a sparse file."""
        return self._file.next_written(position)


RANGE_BYTES = 64 << 20


class SearchResult(NamedTuple):
    """Heads of records in images: ``(n,)`` of ``FOUND_ROW``, by image and position.

    ``unreadable`` is by image, ``(k, 2)``, merged.
    """

    rows: Rows
    unreadable: list[Int64s]


def plan_search(images: Sequence[Image], range_bytes: int) -> Iterator[tuple[Image, int, int]]:
    """Yield the ranges to search, cut at multiples of a size."""
    for image in images:
        for start in range(0, image.size_bytes, range_bytes):
            yield image, start, min(start + range_bytes, image.size_bytes)


def search_range(task: tuple[Image, int, int]) -> tuple[Rows, list[tuple[int, int]]]:
    """Search a range of an image; return the heads of records, and the ranges that cannot be read."""
    image, start, stop = task
    reader = image.reader()
    rows = find_loose(reader, start, stop)
    rows["image"] = image.number
    return rows, [(bad.position, bad.stop) for bad in reader.unreadable]


def search(
    images: Sequence[Image],
    engine: Engine,
    progress: Callable[[int], None] | None = None,
    range_bytes: int = RANGE_BYTES,
) -> SearchResult:
    """Search images, numbered from 0, in this order; ``progress`` gets the bytes done."""
    tasks = [*plan_search(images, range_bytes)]
    done = np.cumsum([0, *(stop - start for _, start, stop in tasks)])
    advance = None if progress is None else lambda count: progress(int(done[count]))
    searched = engine.map(search_range, tasks, advance)
    unreadable: list[list[tuple[int, int]]] = [[] for _ in images]
    for (image, _, _), (_, bad) in zip(tasks, searched, strict=True):
        unreadable[image.number] += bad
    rows = np.concatenate([np.empty(0, FOUND_ROW), *(rows for rows, _ in searched)])
    return SearchResult(rows, [ranges_of(bad) for bad in unreadable])
