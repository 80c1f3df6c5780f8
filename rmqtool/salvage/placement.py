"""Places for lost messages: kept ranges of the log, free ranges between, messages that wait for one."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from heapq import heappop, heappush
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from rmqtool.dispatch.policy import NEVER
from rmqtool.formats.message import END_FILE_MIN_BLANK_LENGTH

if TYPE_CHECKING:
    from collections.abc import Iterator

    import numpy.typing as npt

    from rmqtool.salvage import Lost, RecordForm

    Rows = npt.NDArray[Any]


class FreeRange(NamedTuple):
    """Bytes of one file that no record takes."""

    start: int
    stop: int
    to_end: bool  # of the file


@dataclass(frozen=True)
class Ground:
    """What stays of a log, and what is free.

    Attributes:
        start: physical offset of the first byte.
        end: physical offset after the last record that stays, or after the BLANK behind it.
        file_size: of every file.
        form: how records are made.
        kept: ``(n,)`` of ``RECORD_ROW``.
        blanks: physical offsets of the BLANKs that stay.
    """

    start: int
    end: int
    file_size: int
    form: RecordForm
    kept: Rows
    blanks: frozenset[int]

    @cached_property
    def starts(self) -> Rows:
        """Physical offsets of what stays, ``(n,)``."""
        return np.ascontiguousarray(self.kept["log_offset"])

    def file_stop(self, log_offset: int) -> int:
        """Return where the file ends that holds a byte."""
        return self.start + ((log_offset - self.start) // self.file_size + 1) * self.file_size

    def pieces(self, reach: int) -> list[FreeRange]:
        """Return what is free up to the end of the file before ``reach``, in order."""
        stop = self.file_stop(max(reach - 1, self.start))
        starts = self.starts
        ends = starts + self.kept["total_size"]
        before = np.concatenate([[self.start], ends])
        after = np.concatenate([starts, [stop]])
        found: list[FreeRange] = []
        for number in np.flatnonzero(after > before):
            found += self._cut(int(before[number]), int(after[number]))
        return found

    def room(self, start: int, stop: int) -> int:
        """Return the bytes of the longest record that what is free between two places has room for."""
        starts, stops, usable = self._free
        one, two = np.searchsorted(stops, start, "right"), np.searchsorted(starts, stop)
        return int(usable[one:two].max(initial=0))

    @cached_property
    def _free(self) -> tuple[Rows, Rows, Rows]:
        """Start and stop of each piece, and the bytes that a record can take of it; behind the end all."""
        pieces = [(piece.start, piece.stop, piece.to_end) for piece in self.pieces(self.end)]
        starts, stops, to_end = np.array(pieces, np.int64).reshape(-1, 3).T
        usable = stops - starts - END_FILE_MIN_BLANK_LENGTH * to_end
        return np.append(starts, self.end), np.append(stops, NEVER), np.append(usable, self.file_size)

    def _cut(self, start: int, stop: int) -> Iterator[FreeRange]:
        """Cut what is free at the ends of files; BLANKs that stay are not free."""
        while start < stop:
            file_stop = self.file_stop(start)
            if start not in self.blanks:
                yield FreeRange(start, min(stop, file_stop), stop >= file_stop)
            start = file_stop


@dataclass
class Wanted:
    """Lost messages of a queue that wait for a place.

    Attributes:
        lost: which.
        number: in what is lost.
        start: physical offset from which they can lie.
        first: number of the first piece that they may be in.
        last: number of the last.
        sizes: bytes of a tombstone that says what it is, and of ever smaller ones.
        batch: one tombstone stands for all.
    """

    lost: Lost
    number: int
    start: int
    first: int
    last: int
    sizes: tuple[int, ...]
    batch: bool
    done: int = 0

    @property
    def left(self) -> int:
        """Return how many tombstones are still to be placed."""
        return (1 if self.batch else self.lost.count) - self.done


class Waiting:
    """The lost that wait for a place, by the last piece that they may be in.

    Args:
        wanted: all of them.
        rooms: bytes that each piece has for tombstones.
    """

    def __init__(self, wanted: list[Wanted], rooms: list[int]) -> None:
        self._rooms = np.array(rooms, np.int64)
        ranks = max((len(one.sizes) for one in wanted), default=0)
        self._due = np.zeros((ranks, len(rooms)), np.int64)
        for one in wanted:
            if one.last >= 0:
                self._due[:, one.last] += one.left * np.array(one.sizes)
        self._coming = sorted(wanted, key=lambda one: (one.first, one.number), reverse=True)
        self._open: list[tuple[int, int, Wanted]] = []
        self._missed: dict[int, int] = {}

    def at(self, piece: int) -> list[Wanted]:
        """Return those that may be in a piece, the most urgent first; a queue's in their order."""
        while self._coming and self._coming[-1].first <= piece:
            one = self._coming.pop()
            heappush(self._open, (one.last, one.number, one))
        while self._open and self._open[0][0] < piece:
            self._miss(heappop(self._open)[2])
        self._open = [entry for entry in self._open if entry[2].left]
        self._open.sort(key=lambda entry: entry[:2])
        ready = [entry[2] for entry in self._open]
        # A lone record with a damaged queue id invents such losses: real ones come first.
        return sorted(ready, key=lambda one: one.lost.from_start)

    def fits(self, piece: int, rank: int) -> bool:
        """Return whether tombstones of a size, by its number, leave room for all that must go nearby."""
        stop = max((one.last for one in self.at(piece)), default=-1) + 1
        if not stop:
            return True
        due, rooms = self._due[rank, piece:stop], self._rooms[piece:stop]
        return bool((np.cumsum(due) <= np.cumsum(rooms)).all())

    def take(self, one: Wanted, count: int) -> None:
        """Note that some have a place."""
        one.done += count
        self._due[:, one.last] -= count * np.array(one.sizes)

    def without_place(self) -> dict[int, int]:
        """Return how many of each lost have no tombstone."""
        for one in [*self._coming, *(entry[2] for entry in self._open)]:
            self._miss(one)
        self._coming, self._open = [], []
        return self._missed

    def _miss(self, one: Wanted) -> None:
        if one.left:
            self._missed[one.number] = one.lost.count if one.batch else one.left
