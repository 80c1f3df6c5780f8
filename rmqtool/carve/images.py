"""What is looked through: an image, its size, and where in it may be read."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from rmqtool.carve.ranges import length_of, merged, outside, ranges_of, within
from rmqtool.errors import EnvironmentFailureError, UsageError

if TYPE_CHECKING:
    from rmqtool.carve.ranges import Ranges
    from rmqtool.io import Location, ReadOnlyFile, UnreadableRange


@dataclass(frozen=True)
class Image:
    """Raw bytes, to be read only where their domain is; elsewhere they are taken for zeros.

    A value, which workers get: each opens the file for itself.

    Attributes:
        number: its place on the command line, from 0.
        location: where it is.
        size_bytes: how long it is.
        domain: what may be read, ``(n, 2)`` of merged ranges.
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
        """What is not read, as the map says."""
        return outside(self.domain, 0, self.size_bytes)


def open_image(number: int, location: Location, domain: Ranges | None = None) -> Image:
    """Look at an image.

    Args:
        number: its place on the command line, from 0.
        location: where it is.
        domain: what may be read of it; None: all.

    Raises:
        EnvironmentFailureError: it cannot be opened.
        UsageError: the map has nothing of it.
    """
    with location.reader() as file:
        size = file.size_bytes()
    whole = ranges_of([(0, size)])
    if domain is None:
        return Image(number, location, size, whole)
    clipped = merged(np.clip(domain, 0, size))
    if not len(clipped):
        raise UsageError(f"{location}: its map has no finished area (status +) within {size} bytes")
    return Image(number, location, size, clipped)


class ImageReader:
    """Reads an image, past bad sectors.

    Args:
        image: what to read.

    Attributes:
        unreadable: what the disk did not deliver so far; it reads as zeros.
    """

    def __init__(self, image: Image) -> None:
        self._image = image
        self._file: ReadOnlyFile = image.location.reader()
        self._is_whole = length_of(image.domain) == image.size_bytes
        self.unreadable: list[UnreadableRange] = []

    @property
    def size_bytes(self) -> int:
        """How long it is."""
        return self._image.size_bytes

    def read_into(self, position: int, view: memoryview[Any]) -> int:
        """Fill a view from a position on; return how many bytes came, fewer at the image's end.

        Raises:
            EnvironmentFailureError: it cannot be read, or has become shorter.
        """
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
                    " before: carve a copy that nobody changes"
                )
        return length

    def next_data(self, position: int) -> int:
        """Return where the next bytes lie that are in no hole of a sparse file."""
        return self._file.next_data(position)
