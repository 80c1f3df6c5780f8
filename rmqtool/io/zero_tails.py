"""Zeros at the end of files that a broker allocates in full and fills from the front.

A disk says where nothing was ever written; an object is fetched, or it is not known. So the end of an object
is taken for zeros by what is looked at: a first stretch of it, all of it, and pieces of the rest at even
distances, the last one included. No chain of records leads to what that misses: every
program that reads the file, a broker too, comes to its end at the first zeros. After a crash of the machine,
pages that were not written yet may lie before some that were, but within what was written last, so in the
first stretch. A copy or a digest reads all instead.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    Read = Callable[[int, int], bytearray]
    """Returns the bytes from a position up to another, and fetches no more than those."""

SHORTEST_BYTES = 1 << 20
"""A shorter end is fetched."""

_PIECE_BYTES = 64 << 10
_STRETCH_BYTES = _PIECE_BYTES, 8 << 20
_STRETCHES = 128
"""A first stretch is this part of the file, within the bounds above."""

_DISTANCE_BYTES, _MOST_PIECES = 4 << 20, 32
_ROUNDS = 32


class ZeroTail(NamedTuple):
    """The end of an object that was not fetched.

    Attributes:
        path: The object.
        start: Position of its first byte.
        size_bytes: Bytes from there to the object's end.
    """

    path: str
    start: int
    size_bytes: int


class TailSampler:
    """Sampler of the end of one object.

    Attributes:
        start: Where the zeros begin; None before the first look, or if there are none.
    """

    def __init__(self, size_bytes: int, read: Read, begin: Callable[[int, int], None]) -> None:
        self._size, self._read, self._begin = size_bytes, read, begin
        self._used = 0
        low, high = _STRETCH_BYTES
        self._stretch = min(max(size_bytes // _STRETCHES, low), high)
        self.start: int | None = None

    def begins_at(self, position: int) -> bool:
        """Return whether nothing but zeros lies from a position on.

        Raises:
            RmqtoolError: As ``read``.
        """
        if self.start is not None and position >= self.start:
            return True
        if position < self._used or self._size - position < SHORTEST_BYTES:
            return False
        for start, stop in self._looked_at(position):
            if used := self._used_in(start, stop):
                self._used = max(self._used, start + used)
                return False
        self.start = position
        return True

    def end_of_data(self) -> int:
        """Return a position that nothing but zeros lies after, near the last other byte; else the end.

        It is looked for between pieces at even distances: what was filled from the front ends after the last
        one that is not all zeros.

        Raises:
            RmqtoolError: As ``read``.
        """
        if self._size < SHORTEST_BYTES or self.start is not None:
            return self._size if self.start is None else self.start
        low, high = 0, self._size
        for start, stop in self._begun(0):
            if self._used_in(start, stop):
                low = start
                break
            high = start
        while high - low > _PIECE_BYTES:
            middle = (low + high) // 2
            if self._used_in(middle, min(middle + _PIECE_BYTES, high)):
                low = middle
            else:
                high = middle
        for _ in range(_ROUNDS):  # bodies of zeros may have misled
            if self.begins_at(high):
                return high
            high = max(high, self._used)
        return self._size

    def _used_in(self, start: int, stop: int) -> int:
        """Return how many bytes of a range lie before its zeros."""
        return len(self._read(start, stop).rstrip(b"\0"))

    def _looked_at(self, position: int) -> Iterator[tuple[int, int]]:
        """Yield the ranges that have to be zeros: first those that most likely are not."""
        stretch = min(position + self._stretch, self._size)
        first = min(position + _PIECE_BYTES, stretch)
        yield position, first
        yield from self._begun(stretch)
        for start in range(first, stretch, _STRETCH_BYTES[1]):
            yield start, min(start + _STRETCH_BYTES[1], stretch)

    def _begun(self, first: int) -> list[tuple[int, int]]:
        """Return the pieces at even distances that begin at a position or after it, the last one first."""
        count = min(max(self._size // _DISTANCE_BYTES, 2), _MOST_PIECES)
        stops = (self._size * number // count for number in range(count, 0, -1))
        pieces = [(stop - _PIECE_BYTES, stop) for stop in stops if stop - _PIECE_BYTES >= first]
        for start, stop in pieces:
            self._begin(start, stop)
        return pieces
