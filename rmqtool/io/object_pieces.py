"""Ranges of objects, small for random reads, large and ahead for sequential ones, and their zero ends."""

from __future__ import annotations

import atexit
import threading
import time
from bisect import bisect_right, insort
from collections import OrderedDict
from concurrent.futures import Future
from operator import attrgetter
from typing import TYPE_CHECKING, TypeVar

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

    def bytes_from(self, position: int, wanted: int) -> memoryview:
        """Return bytes from a position inside the object: one at least, and ``wanted`` at most."""
        with self._piece_cache.lock:
            piece = self._at(position, wanted)
            self._piece_cache.touch(piece)
            if piece.follows:
                self._read_ahead(piece)
        try:
            data = piece.data.result()
        except BaseException:
            with self._piece_cache.lock:
                self._piece_cache.drop(piece)
            raise
        return memoryview(data)[position - piece.start :][:wanted]

    def begin(self) -> None:
        """Begin to fetch the first bytes, which readers need."""
        if self._size_bytes:
            with self._piece_cache.lock:
                self._at(0, SMALLEST_BYTES)

    def _read_ahead(self, piece: FetchedRange) -> None:
        for _ in range(AHEAD):
            if piece.stop >= self._size_bytes:
                return
            piece = self._at(piece.stop, SMALLEST_BYTES)

    def _at(self, position: int, wanted: int) -> FetchedRange:
        """Return the piece at a position, begun if there is none; as long as wanted, or longer."""
        number = bisect_right(self._pieces, position, key=_start)
        before = self._pieces[number - 1] if number else None
        if before is not None and position < before.stop:
            return before
        follows = before is not None and before.stop == position
        grown = before.reach * GROWTH if before is not None and follows else SMALLEST_BYTES
        reach = min(max(wanted, grown), LARGEST_BYTES)
        limit = self._pieces[number].start if number < len(self._pieces) else self._size_bytes
        stop = min(position + reach, limit)
        piece = FetchedRange(position, stop, reach, follows, begin(self._fetch, position, stop))
        self._piece_cache.keep(piece, self._pieces)
        return piece
