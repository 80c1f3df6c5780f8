"""Zeros at the end of files that a broker allocates in full and fills from the front.

Objects have no holes, so their ends are taken for zeros by samples: a first stretch in full, and pieces of
the rest at even distances, the last one included. No chain of records leads to what that misses: every
reader, a broker too, stops at the first zeros. After a crash, unwritten pages may lie before written ones
only among the latest, so in the first stretch. A copy or a digest reads everything instead.
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
    """The end of an object that was not fetched."""

    path: str
    start: int
    size_bytes: int


class TailSampler:
    """Sampler of the end of one object.

    ``start`` is where its zeros begin; None before the first sample, or if there are none.
    """

    def __init__(self, size_bytes: int, read: Read, begin: Callable[[int, int], None]) -> None:
        self._size, self._read, self._begin = size_bytes, read, begin
        self._used = 0
        low, high = _STRETCH_BYTES
        self._stretch = min(max(size_bytes // _STRETCHES, low), high)
        self.start: int | None = None

    def begins_at(self, position: int) -> bool:
        """Return whether samples show nothing but zeros from a position on."""
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
        """Return a position after which only zeros lie, near the last other byte; else the end.

        It lies between pieces at even distances: files filled from the front end after the last piece that is
        not all zeros.
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
        return len(self._read(start, stop).rstrip(b"\0"))

    def _looked_at(self, position: int) -> Iterator[tuple[int, int]]:
        """Yield the ranges that must be zeros: first those that most likely are not."""
        stretch = min(position + self._stretch, self._size)
        first = min(position + _PIECE_BYTES, stretch)
        yield position, first
        yield from self._begun(stretch)
        for start in range(first, stretch, _STRETCH_BYTES[1]):
            yield start, min(start + _STRETCH_BYTES[1], stretch)

    def _begun(self, first: int) -> list[tuple[int, int]]:
        """Begin to fetch the pieces at even distances from a position on; return them, the last one first."""
        count = min(max(self._size // _DISTANCE_BYTES, 2), _MOST_PIECES)
        stops = (self._size * number // count for number in range(count, 0, -1))
        pieces = [(stop - _PIECE_BYTES, stop) for stop in stops if stop - _PIECE_BYTES >= first]
        for start, stop in pieces:
            self._begin(start, stop)
        return pieces
