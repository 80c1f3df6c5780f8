"""Look through images for records, range by range, on all cores.

The search itself is ``rmqtool.scan.loose``, which looks for magics as skeletons do in the gaps of a log. The
walk's own search after damage (``find_record``) is another: it wants the one record that says to lie there,
BLANKs as well, so that it can turn most candidates down by eight bytes and never reads a record that is none.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from rmqtool.carve.ranges import ranges_of, within
from rmqtool.scan.loose import find_loose
from rmqtool.scan.loose_rows import FOUND_ROW

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    import numpy.typing as npt

    from rmqtool.carve.images import Image
    from rmqtool.carve.ranges import Ranges
    from rmqtool.engine import Engine

    Rows = npt.NDArray[Any]

RANGE_BYTES = 64 << 20


@dataclass(frozen=True)
class SearchTask:
    """A range of an image.

    Attributes:
        image: where to look.
        start: position of its first byte.
        stop: position after its last byte.
    """

    image: Image
    start: int
    stop: int


@dataclass(frozen=True)
class RangeResult:
    """What a range holds.

    Attributes:
        rows: ``(n,)`` of ``FOUND_ROW``, by position.
        unreadable: ranges of the image that the disk did not deliver.
    """

    rows: Rows
    unreadable: tuple[tuple[int, int], ...]


@dataclass(frozen=True)
class SearchResult:
    """What images hold.

    Attributes:
        rows: ``(n,)`` of ``FOUND_ROW``, by image and position: every head that can be one of a record.
        unreadable: of each image, what the disk did not deliver, ``(k, 2)`` of merged ranges.
    """

    rows: Rows
    unreadable: list[Ranges] = field(default_factory=list)


def plan_search(images: Sequence[Image], range_bytes: int = RANGE_BYTES) -> Iterator[SearchTask]:
    """Yield the ranges to look through: what the maps leave, cut at multiples of a size."""
    for image in images:
        for start in range(0, image.size_bytes, range_bytes):
            for low, high in within(image.domain, start, min(start + range_bytes, image.size_bytes)):
                yield SearchTask(image, low, high)


def search_range(task: SearchTask) -> RangeResult:
    """Look through one range.

    Raises:
        EnvironmentFailureError: the image cannot be read.
    """
    reader = task.image.reader()
    rows = find_loose(reader, task.start, task.stop)
    rows["image"] = task.image.number
    return RangeResult(rows, tuple((bad.position, bad.stop) for bad in reader.unreadable))


def search(
    images: Sequence[Image],
    engine: Engine,
    progress: Callable[[int], None] | None = None,
    range_bytes: int = RANGE_BYTES,
) -> SearchResult:
    """Look through images.

    Args:
        images: numbered from 0, in this order.
        engine: runs the ranges.
        progress: told the bytes done.
        range_bytes: of a range, at most.

    Raises:
        EnvironmentFailureError: an image cannot be read.
    """
    tasks = [*plan_search(images, range_bytes)]
    done = np.cumsum([0, *(task.stop - task.start for task in tasks)])
    tell = None if progress is None else lambda count: progress(int(done[count]))
    found = engine.map(search_range, tasks, tell)
    unreadable = [
        ranges_of(
            bad
            for task, one in zip(tasks, found, strict=True)
            for bad in one.unreadable
            if task.image.number == image.number
        )
        for image in images
    ]
    return SearchResult(np.concatenate([np.empty(0, FOUND_ROW), *(one.rows for one in found)]), unreadable)
