"""Whole records below a frame that is none of this place: a broker skips them with the frame.

A frame is foreign if its PHYSICALOFFSET is not the place it lies at: stale bytes, or those of another file.
What the body of a frame carries, if its checksum holds, is the frame's own, and no record of the log.
"""

from __future__ import annotations

import zlib
from functools import cached_property, partial
from typing import TYPE_CHECKING

import numpy as np

from rmqtool.formats.message import Outcome
from rmqtool.kernels.rows import rules_of
from rmqtool.releases import LENIENT
from rmqtool.scan.walk import MessageBatch, SegmentWalk

if TYPE_CHECKING:
    from collections.abc import Callable

    from rmqtool.arrays import Int64s
    from rmqtool.scan.gaps import Gap
    from rmqtool.store.segments import Segment

_AHEAD_BYTES = 1 << 20
_COUNTED_BYTES = 64 << 20


class HiddenRecords:
    """Finds the first true record below a frame of one file.

    Args:
        segment: the file.
        rules: see ``rmqtool.kernels.rows.Rules``.
        reach: physical offset up to which is searched; the file's end when None.
    """

    def __init__(self, segment: Segment, rules: Int64s, reach: int | None = None) -> None:
        self._segment, self._rules = segment, rules
        self._reach = segment.stop if reach is None else reach
        self._searched: tuple[int, int, int | None] = 0, 0, None
        self._unread = 2 * segment.size_bytes  # of bodies: frames over frames must not be read without end

    def in_batch(self, batch: MessageBatch) -> tuple[int, int] | None:
        """Return the first row of a batch that is foreign and hides a true record, and where that one lies.

        Raises:
            EnvironmentFailureError: the file cannot be opened or read.
        """
        rows = batch.rows
        starts = rows["log_offset"]
        foreign = np.flatnonzero(rows["physical_offset"] != starts)
        stops = starts[foreign] + rows["total_size"][foreign]
        while len(foreign):
            met = self._find_ahead(int(starts[foreign[0]]) + 1, int(stops[-1]))
            if met is None:
                return None
            foreign, stops = foreign[stops > met], stops[stops > met]
            if not len(foreign) or starts[foreign[0]] >= met:
                continue
            row = rows[foreign[0]]
            body, length = batch.base + int(row["body_start"]), max(int(row["body_length"]), 0)
            is_proven = partial(self._proves, body, length, int(row["body_crc"]))
            found = self.below(int(row["log_offset"]), int(stops[0]), body + length, is_proven)
            if found is not None:
                return int(foreign[0]), found
            foreign, stops = foreign[1:], stops[1:]
        return None

    def below(self, start: int, stop: int, body_stop: int, is_proven: Callable[[], bool]) -> int | None:
        """Return where the first true record begins in what a frame takes.

        Args:
            start: physical offset of the frame.
            stop: physical offset after it.
            body_stop: physical offset after its body.
            is_proven: tells whether the body's checksum holds.
        """
        hidden = self._find_ahead(start + 1, stop)
        if hidden is None or hidden >= body_stop or not is_proven():
            return hidden
        return self._find(body_stop, stop)

    def _proves(self, start: int, length: int, crc: int) -> bool:
        """Whether the body at a physical offset is what its checksum says."""
        if length > self._unread:
            return False
        self._unread -= length
        value, position = 0, start - self._segment.start
        while length > 0 and (data := self._segment.read_at(position, min(length, _AHEAD_BYTES), [])):
            value, position, length = zlib.crc32(data, value), position + len(data), length - len(data)
        return not length and value & 0x7FFFFFFF == crc

    def _find_ahead(self, start: int, stop: int) -> int | None:
        """Return what `_find` does; the bytes of many frames of another log are searched once."""
        known_from, known_to, _ = self._searched
        if not known_from <= start <= known_to or (stop > known_to and self._searched[2] is None):
            ahead = max(stop, start + _AHEAD_BYTES)
            found = self._find(start, ahead)
            self._searched = start, ahead if found is None else found, found
        found = self._searched[2]
        return found if found is not None and start <= found < stop else None

    def _find(self, start: int, stop: int) -> int | None:
        """Return where the first true record or BLANK begins in a range."""
        stop = min(stop, self._reach)
        if start >= stop or self._search.find(start, stop) is Outcome.STOP:
            return None
        return self._search.log_offset

    @cached_property
    def _search(self) -> SegmentWalk:
        """A walk of its own: a batch is valid until its walk goes on."""
        return SegmentWalk(self._segment, self._rules, stops_at_mismatch=True)


def count_hidden(segment: Segment, gap: Gap) -> int:
    """Return how many true records follow each other below the frame that a gap begins with.

    Those of its first 64 MiB are counted.
    """
    stop = min(gap.start + gap.total_size, gap.stop + _COUNTED_BYTES)
    walk = SegmentWalk(segment, rules_of(LENIENT), stops_at_mismatch=True)
    batches = (batch.rows for batch in walk.batches(gap.stop, stop))
    return sum(int((rows["physical_offset"] == rows["log_offset"]).sum()) for rows in batches)
