"""Images, their readable ranges and maps of ddrescue; the search for records in them, on all cores.

The search is ``rmqtool.scan.loose``. The walk's own search after damage (``find_record``) differs: it wants
the one record that names its place, also BLANKs, so it rejects most candidates by eight bytes.

Maps have the format of the manual of GNU ddrescue, "Mapfile structure": comments, a line with the current
position and status, then one line for each part, its position, its size and its status. Numbers are as C
writes them.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from rmqtool.errors import EnvironmentFailureError, UsageError
from rmqtool.kernels.loose import FOUND_ROW
from rmqtool.scan.loose import find_loose

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    import numpy.typing as npt

    from rmqtool.engine import Engine
    from rmqtool.io import Location, ReadOnlyFile, UnreadableRange

    Ranges = npt.NDArray[np.int64]
    Rows = npt.NDArray[Any]


def ranges_of(pairs: Iterable[tuple[int, int]]) -> Ranges:
    """Return ranges as an array ``(n, 2)`` of start and stop, ascending, none touching another."""
    return merged(np.array([*pairs], np.int64).reshape(-1, 2))


def merged(ranges: Ranges) -> Ranges:
    """Return the union of ranges, ascending, none empty, none touching another."""
    ranges = ranges[ranges[:, 0] < ranges[:, 1]]
    if not len(ranges):
        return ranges
    ranges = ranges[np.argsort(ranges[:, 0], kind="stable")]
    reached = np.maximum.accumulate(ranges[:, 1])
    first = np.concatenate([[True], ranges[1:, 0] > reached[:-1]])
    last = np.concatenate([first[1:], [True]])
    return np.stack([ranges[first, 0], reached[last]], axis=1)


def outside(ranges: Ranges, start: int, stop: int) -> Ranges:
    """Return the parts of ``start`` to ``stop`` outside some merged ranges."""
    bounds = np.concatenate([[start], np.clip(ranges, start, stop).reshape(-1), [stop]])
    return merged(bounds.reshape(-1, 2))


def length_of(ranges: Ranges) -> int:
    """Return how many positions lie in merged ranges."""
    return int((ranges[:, 1] - ranges[:, 0]).sum())


def overlaps(ranges: Ranges, start: int, stop: int) -> bool:
    """Whether merged ranges share a position with ``start`` to ``stop``."""
    after = int(np.searchsorted(ranges[:, 1], start, "right"))
    return after < len(ranges) and bool(ranges[after, 0] < stop)


def within(ranges: Ranges, start: int, stop: int) -> list[tuple[int, int]]:
    """Return the parts of merged ranges that lie in ``start`` to ``stop``."""
    first = int(np.searchsorted(ranges[:, 1], start, "right"))
    last = int(np.searchsorted(ranges[:, 0], stop, "left"))
    return [(max(int(low), start), min(int(high), stop)) for low, high in ranges[first:last]]


USED, UNREADABLE, NOTHING, NOT_READ = "+", "-", "/", "?"
"""Statuses of the maps that we write: used in the result; bad sectors; read but not used; not read."""

_STATUSES = frozenset("?*/-+")
_FINISHED = "+"


def read_map(text: str, label: str) -> Ranges:
    """Return the parts that a map calls finished (status ``+``); a UsageError names the wrong line."""
    lines = [
        (number, line.split())
        for number, line in enumerate(text.splitlines(), 1)
        if line.strip() and not line.lstrip().startswith("#")
    ]
    if not lines:
        raise UsageError(f"{label}: is not a map of ddrescue: it has no line")
    return ranges_of(_finished(lines[1:], label))


def _finished(lines: Iterable[tuple[int, list[str]]], label: str) -> Iterator[tuple[int, int]]:
    last = 0
    for number, fields in lines:
        try:
            position, size = (int(text, 0) for text in fields[:2])
            (status,) = fields[2:]
        except ValueError:
            raise UsageError(
                f"{label}: line {number} is not a line of a map of ddrescue, position, size and status"
            ) from None
        if status not in _STATUSES or size <= 0 or position < last:
            raise UsageError(f"{label}: line {number} cannot be in a map of ddrescue: {' '.join(fields)}")
        last = position + size
        if status == _FINISHED:
            yield position, last


def map_lines(size_bytes: int, parts: Iterable[tuple[str, Ranges]]) -> Iterator[str]:
    """Yield the lines of a map.

    ``parts`` are merged ranges by status, the strongest first; the rest of the image is ``NOTHING``.
    """
    yield "# Map of what rmqtool carve used of an image, in the format of GNU ddrescue\n"
    yield f"# {USED} in the result  {UNREADABLE} could not be read  {NOTHING} nothing there"
    yield f"  {NOT_READ} not read, by --domain-map\n"
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


@dataclass(frozen=True)
class Image:
    """Raw bytes, read only within their domain and taken for zeros elsewhere.

    A value, which workers get: each opens the file for itself.

    Attributes:
        number: its place on the command line, from 0.
        domain: ranges to read, ``(n, 2)``, merged.
    """

    number: int
    location: Location
    size_bytes: int
    domain: Ranges = field(repr=False)

    def reader(self) -> ImageReader:
        """Return a reader of its own, which opens the file at the first read."""
        return ImageReader(self)

    @property
    def left_out(self) -> Ranges:
        """Return the ranges that are not read, by the map."""
        return outside(self.domain, 0, self.size_bytes)


def open_image(number: int, location: Location, domain: Ranges | None = None) -> Image:
    """Open an image, with its number on the command line; UsageError if the map names no part of it."""
    with location.reader() as file:
        size = file.current_size()
    whole = ranges_of([(0, size)])
    if domain is None:
        return Image(number, location, size, whole)
    clipped = merged(np.clip(domain, 0, size))
    if not len(clipped):
        raise UsageError(f"{location}: its map has no finished area (status +) within {size} bytes")
    return Image(number, location, size, clipped)


class ImageReader:
    """Reads an image, past bad sectors, whose ranges are in ``unreadable`` and read as zeros."""

    def __init__(self, image: Image) -> None:
        self._image = image
        self._file: ReadOnlyFile = image.location.reader()
        self._is_whole = length_of(image.domain) == image.size_bytes
        self.unreadable: list[UnreadableRange] = []

    @property
    def size_bytes(self) -> int:
        """Return the size in bytes."""
        return self._image.size_bytes

    def read_into(self, position: int, view: memoryview[Any]) -> int:
        """Fill a view from a position on; return how many bytes came, fewer at the image's end."""
        length = min(len(view), self.size_bytes - position)
        parts = [(position, position + length)]
        if not self._is_whole:
            parts = within(self._image.domain, position, position + length)
            view[:length] = bytes(length)
        for start, stop in parts:
            count = self._file.read_into(start, view[start - position : stop - position], self.unreadable)
            if count < stop - start:
                raise EnvironmentFailureError(
                    f"{self._image.location}: ends at {start + count}, and was {self.size_bytes} bytes long"
                    " before: carve a copy that does not change"
                )
        return length

    def next_data(self, position: int) -> int:
        """Return the position of the next bytes outside a hole of a sparse file."""
        return self._file.next_data(position)


RANGE_BYTES = 64 << 20


@dataclass(frozen=True)
class SearchResult:
    """Heads of records in images: ``(n,)`` of ``FOUND_ROW``, by image and position.

    ``unreadable`` is by image, ``(k, 2)``, merged.
    """

    rows: Rows
    unreadable: list[Ranges]


def plan_search(images: Sequence[Image], range_bytes: int) -> Iterator[tuple[Image, int, int]]:
    """Yield the ranges to search: those that the maps leave, cut at multiples of a size."""
    for image in images:
        for start in range(0, image.size_bytes, range_bytes):
            for low, high in within(image.domain, start, min(start + range_bytes, image.size_bytes)):
                yield image, low, high


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
    found = engine.map(search_range, tasks, advance)
    unreadable: list[list[tuple[int, int]]] = [[] for _ in images]
    for (image, _, _), (_, bad) in zip(tasks, found, strict=True):
        unreadable[image.number] += bad
    rows = np.concatenate([np.empty(0, FOUND_ROW), *(rows for rows, _ in found)])
    return SearchResult(rows, [ranges_of(bad) for bad in unreadable])
