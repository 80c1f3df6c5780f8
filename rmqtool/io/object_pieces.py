"""Ranges of objects, small for random reads, large and ahead for sequential ones, and their zero ends."""

from __future__ import annotations

import atexit
import threading
import time
from bisect import bisect_right, insort
from collections import OrderedDict
from concurrent.futures import Future
from operator import attrgetter
from typing import TYPE_CHECKING, NamedTuple, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable

    Fetch = Callable[[int, int], bytearray]
    "Returns the bytes of an object from a position up to another."


T = TypeVar("T")

THREADS = 16
_GRACE_S = 15.0
"""For requests under way when the process ends: longer than a silent server is given."""

_slots = threading.Semaphore(THREADS)
_ending = threading.Event()


def begin(function: Callable[..., T], *arguments: object) -> Future[T]:
    """Run a function that sends requests in a thread of its own, within the limit of `THREADS`."""
    future: Future[T] = Future()
    threading.Thread(target=_run, args=(future, function, arguments), daemon=True).start()
    return future


def pause(seconds: float) -> bool:
    """Wait before another attempt; return False if the process is ending."""
    return not _ending.wait(seconds)


def _run(future: Future[T], function: Callable[..., T], arguments: tuple[object, ...]) -> None:
    with _slots:
        if _ending.is_set():
            future.cancel()
            return
        try:
            future.set_result(function(*arguments))
        except BaseException as failure:
            future.set_exception(failure)


def end() -> None:
    """Stop retries, and wait for requests under way: no thread may outlive the interpreter."""
    _ending.set()
    until = time.monotonic() + _GRACE_S
    for _ in range(THREADS):
        _slots.acquire(timeout=max(until - time.monotonic(), 0))


atexit.register(end)


SMALLEST_BYTES, LARGEST_BYTES = 64 << 10, 8 << 20
GROWTH = 4
"""Factor from one piece to the next of a sequential read."""

AHEAD = 2
"""Pieces that are fetched beyond the one that is being read."""

KEPT_BYTES = 192 << 20

_start = attrgetter("start")


class FetchedRange:
    """A range, fetched or being fetched.

    ``reach`` is its length without other pieces in its way; ``follows`` says whether the bytes before its
    start were read.
    """

    __slots__ = ("data", "follows", "reach", "start", "stop")

    def __init__(self, start: int, stop: int, reach: int, follows: bool, data: Future[bytearray]) -> None:
        self.start, self.stop, self.reach, self.follows, self.data = start, stop, reach, follows, data


class PieceCache:
    """The pieces of all objects of a store, up to `KEPT_BYTES`."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self._used: OrderedDict[FetchedRange, list[FetchedRange]] = OrderedDict()
        self._bytes = 0

    def keep(self, piece: FetchedRange, home: list[FetchedRange]) -> None:
        """Add a piece to its object's, and drop the least recently read ones."""
        insort(home, piece, key=_start)
        self._used[piece] = home
        self._bytes += piece.stop - piece.start
        while self._bytes > KEPT_BYTES:
            self.drop(next(iter(self._used)))

    def touch(self, piece: FetchedRange) -> None:
        """Note that a piece is read."""
        if piece in self._used:
            self._used.move_to_end(piece)

    def drop(self, piece: FetchedRange) -> None:
        """Drop a piece, unless that is done already."""
        home = self._used.pop(piece, None)
        if home is not None:
            home.remove(piece)
            self._bytes -= piece.stop - piece.start


class ObjectPieces:
    """The pieces of one object."""

    def __init__(self, size_bytes: int, fetch: Fetch, cache: PieceCache) -> None:
        self._size_bytes = size_bytes
        self._fetch = fetch
        self._piece_cache = cache
        self._pieces: list[FetchedRange] = []

    def bytes_from(self, position: int, wanted: int, *, goes_on: bool = True) -> memoryview:
        """Return bytes from a position inside the object: one at least, and ``wanted`` at most.

        ``goes_on`` says that more may be read after them.
        """
        with self._piece_cache.lock:
            piece = self._at(position, wanted, grows=goes_on)
            self._piece_cache.touch(piece)
            if piece.follows and goes_on:
                self._read_ahead(piece)
        try:
            data = piece.data.result()
        except BaseException:
            with self._piece_cache.lock:
                self._piece_cache.drop(piece)
            raise
        return memoryview(data)[position - piece.start :][:wanted]

    def begin(self, start: int = 0, stop: int = SMALLEST_BYTES) -> None:
        """Begin to fetch a range; by default the first bytes that readers need."""
        if start < self._size_bytes:
            with self._piece_cache.lock:
                self._at(start, stop - start, grows=False)

    def read(self, start: int, stop: int) -> bytearray:
        """Return a range inside the object, and fetch no more than that."""
        data = bytearray()
        while start + len(data) < stop:
            position = start + len(data)
            data += self.bytes_from(position, stop - position, goes_on=False)
        return data

    def _read_ahead(self, piece: FetchedRange) -> None:
        for _ in range(AHEAD):
            if piece.stop >= self._size_bytes:
                return
            piece = self._at(piece.stop, SMALLEST_BYTES)

    def _at(self, position: int, wanted: int, *, grows: bool = True) -> FetchedRange:
        """Return the piece at a position, begun if there is none; as long as wanted, or longer."""
        number = bisect_right(self._pieces, position, key=_start)
        before = self._pieces[number - 1] if number else None
        if before is not None and position < before.stop:
            return before
        follows = grows and before is not None and before.stop == position
        grown = before.reach * GROWTH if before is not None and follows else SMALLEST_BYTES
        reach = min(max(wanted, grown) if grows else wanted, LARGEST_BYTES)
        limit = self._pieces[number].start if number < len(self._pieces) else self._size_bytes
        stop = min(position + reach, limit)
        piece = FetchedRange(position, stop, reach, follows, begin(self._fetch, position, stop))
        self._piece_cache.keep(piece, self._pieces)
        return piece


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
    """Sampler of the end of one object, which a broker allocated in full and filled from the front.

    Objects have no holes, so their ends are taken for zeros by samples: a first stretch in full, and pieces
    of the rest at even distances, the last one included. No chain of records leads to what that misses: every
    reader, a broker too, stops at the first zeros. After a crash, unwritten pages may lie before written ones
    only among the latest, so in the first stretch. A copy or a digest reads everything instead.

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
