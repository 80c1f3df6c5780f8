"""Ranges of a log that stay, and the free ranges between them, file by file."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from rmqtool.dispatch.policy import NEVER
from rmqtool.formats.framing import END_MARK_BYTES
from rmqtool.kernels.rows import frame_starts, frame_stops

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rmqtool.arrays import Int64s, Rows
    from rmqtool.salvage import RecordForm


class FreeRange(NamedTuple):
    """Bytes of one file that no record takes."""

    start: int
    stop: int
    to_end: bool  # of the file


@dataclass(frozen=True)
class KeptRanges:
    """Records and end marks of a log that stay, and the ranges between them that are free.

    Attributes:
        start: physical offset of the first byte.
        end: physical offset after the last record that stays, or after the end mark that follows it.
        file_size: of every file.
        form: how records are made.
        records: those that stay, ``(n,)`` of ``RECORD_ROW``.
        blanks: physical offsets of the end marks that stay.
    """

    start: int
    end: int
    file_size: int
    form: RecordForm
    records: Rows
    blanks: frozenset[int]

    @cached_property
    def starts(self) -> Rows:
        """Physical offsets of the frames of the kept ranges, ``(n,)``."""
        return np.ascontiguousarray(frame_starts(self.records))

    def file_stop(self, log_offset: int) -> int:
        """Return where the file ends that holds a byte."""
        return self.start + ((log_offset - self.start) // self.file_size + 1) * self.file_size

    def pieces(self, reach: int) -> list[FreeRange]:
        """Return the free bytes up to the end of the file before ``reach``, in order."""
        stop = self.file_stop(max(reach - 1, self.start))
        starts = self.starts
        before = np.concatenate([[self.start], frame_stops(self.records)])
        after = np.concatenate([starts, [stop]])
        ranges: list[FreeRange] = []
        for number in np.flatnonzero(after > before):
            ranges += self._cut(int(before[number]), int(after[number]))
        return ranges

    def room(self, start: int, stop: int) -> int:
        """Return the size of the longest record that fits into the free bytes between two places."""
        starts, stops, usable = self._free
        low, high = np.searchsorted(stops, start, "right"), np.searchsorted(starts, stop)
        return int(usable[low:high].max(initial=0))

    @cached_property
    def _free(self) -> tuple[Int64s, Int64s, Int64s]:
        """Start and stop of each piece, and the bytes that a record can take of it; after the end all."""
        pieces = [(piece.start, piece.stop, piece.to_end) for piece in self.pieces(self.end)]
        starts, stops, to_end = np.array(pieces, np.int64).reshape(-1, 3).T
        usable = stops - starts - END_MARK_BYTES * to_end
        return np.append(starts, self.end), np.append(stops, NEVER), np.append(usable, self.file_size)

    def _cut(self, start: int, stop: int) -> Iterator[FreeRange]:
        """Cut the free bytes at the ends of files; end marks that stay are not free."""
        while start < stop:
            file_stop = self.file_stop(start)
            if start not in self.blanks:
                yield FreeRange(start, min(stop, file_stop), stop >= file_stop)
            start = file_stop
