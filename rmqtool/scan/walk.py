"""Drive the kernels over one segment through a window of bounded size.

The window is read with ``pread`` into one reused buffer: a mapped file that shrinks or has a bad sector
would kill the process. It starts at ``WINDOW_BYTES`` and grows to ``WINDOW_MAX_BYTES`` for long records; of
a record longer still only head, topic and properties are read, never its body.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from rmqtool.formats.framing import END_MARK_BYTES
from rmqtool.formats.message import HEAD_SIZES, Outcome, decode_head, host_variant
from rmqtool.io.location import UnreadableRange
from rmqtool.kernels.rows import GAP_ROW, MESSAGE_ROW, MISMATCH_ROW, MessageBatch, Property, framed
from rmqtool.kernels.walk import find_record, walk_over_damage

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rmqtool.arrays import Buffer, Int64s, Rows
    from rmqtool.store.segments import Segment

WINDOW_BYTES = 1 << 20
WINDOW_MAX_BYTES = 8 << 20
_ROWS = 4096
_FIRST_CHUNK_BYTES = 1 << 8  # grows: most damage is short, and a torn log reads one at each of its records
_CHUNK_BYTES = 1 << 20
_TAIL_BYTES = (
    2 + 0x7FFF + 2 + 0x7FFF
)  # the most that can follow a body: topic and properties with their lengths


class KernelWindow:
    """Bytes of a segment at hand: ``buffer[:stop]`` begins at physical offset ``base``.

    Args:
        segment: where to read.

    Attributes:
        cut: body bytes left out of the window after the head of its first and only record; 0 otherwise.
        unreadable: ranges of the file that the disk did not deliver (they read as zeros).
    """

    def __init__(self, segment: Segment) -> None:
        self._segment = segment
        self.buffer: Buffer = np.empty(min(WINDOW_BYTES, max(segment.size_bytes, 1)), np.uint8)
        self.base = segment.start
        self.stop = 0
        self.cut = 0
        self.unreadable: list[UnreadableRange] = []

    def reach(self, log_offset: int) -> None:
        """Make sure that the byte at ``log_offset`` is at hand, if the segment has it."""
        if log_offset == self.base and self.stop:
            return
        if self.cut or not self.base <= log_offset < self.base + self.stop:
            self._load(log_offset)

    def extend(self, log_offset: int) -> bool:
        """Bring more bytes of the record at ``log_offset``; return False if the segment has no more."""
        if self.base != log_offset:
            self._load(log_offset)
        elif self.stop < len(self.buffer) or self.cut:
            return False
        elif len(self.buffer) < WINDOW_MAX_BYTES:
            self.buffer = np.empty(min(2 * len(self.buffer), WINDOW_MAX_BYTES), np.uint8)
            self._load(log_offset)
        else:
            self._elide_body()
        return True

    def _elide_body(self) -> None:
        """Bring head, topic and properties of the first record, without the body between them."""
        lead = self._segment.framing.lead
        head = decode_head(self.buffer[lead : lead + max(HEAD_SIZES)].tobytes())
        if head is None:
            raise ValueError("a window of that size holds a head")
        size = lead + HEAD_SIZES[host_variant(head.sys_flag)]
        self.cut = max(head.body_length, 0)
        tail = self.buffer.data[size : size + _TAIL_BYTES]
        position = self.base + size + self.cut - self._segment.start
        self.stop = size + self._segment.read_into(position, tail, self.unreadable)

    def _load(self, log_offset: int) -> None:
        self.base, self.cut = log_offset, 0
        position = log_offset - self._segment.start
        self.stop = self._segment.read_into(position, self.buffer.data, self.unreadable)


@dataclass
class SegmentWalk:
    """The chain of records of one segment, as a reput reads it.

    Attributes:
        segment: the walked file.
        rules: see ``rmqtool.kernels.rows.Rules``.
        stops_at_mismatch: whether a failure of size > 0 ends a walk, too; a broker walks on, and messages on
            both sides of it can be in one batch.
        passes_gaps: whether damage ends a walk only where the window does not show the next intact record;
            other damage is reported in the batches. Needs ``stops_at_mismatch``.
        outcome: end of the last walk: STOP, FILE_END or a failure.
        log_offset: physical offset of that end.
        kept: bytes of the array that a thread has kept by then, see ``RecordRules.kept_array``; a walk that
            passes gaps is no broker's, and keeps none.
    """

    segment: Segment
    rules: Int64s
    stops_at_mismatch: bool = False
    passes_gaps: bool = False
    outcome: Outcome = Outcome.STOP
    log_offset: int = 0
    kept: int = 0

    def __post_init__(self) -> None:
        self.window = KernelWindow(self.segment)
        self.rules = framed(self.rules, self.segment.framing)
        self._rows = np.empty(_ROWS, MESSAGE_ROW)
        self._values = np.empty((_ROWS, len(Property), 2), np.int64)
        self._passed = np.empty(0 if self.stops_at_mismatch else _ROWS, MISMATCH_ROW)
        self._mismatches: list[Rows] = []
        self._gaps = np.empty(_ROWS if self.passes_gaps else 0, GAP_ROW)

    @property
    def unreadable(self) -> list[UnreadableRange]:
        """Ranges of the file that could not be read so far, ascending; windows overlap on some."""
        joined: list[UnreadableRange] = []
        for bad in sorted(self.window.unreadable):
            last = joined.pop() if joined and bad.position <= joined[-1].stop else bad
            joined.append(UnreadableRange(last.position, max(last.stop, bad.stop) - last.position))
        return joined

    @property
    def mismatches(self) -> Rows:
        """Failures of size > 0 on the way of the last walk, ``(n,)`` of ``MISMATCH_ROW``."""
        return np.concatenate([self._passed[:0], *self._mismatches])

    @property
    def blank_length(self) -> int:
        """Bytes that the end mark which ended the last walk states; 0 if something else did."""
        at = self.log_offset - self.window.base
        mark = self.window.buffer[at : at + END_MARK_BYTES].tobytes()
        return (self.outcome == Outcome.FILE_END and self.segment.framing.end_size(mark)) or 0

    def batches(self, start: int, stop: int, kept: int = 0) -> Iterator[MessageBatch]:
        """Walk from the record at ``start`` on; records that begin at ``stop`` or later are not taken.

        ``kept`` is the array that the thread has from earlier walks.
        """
        self.log_offset, self.kept = start, kept
        self._mismatches.clear()
        stop = min(stop, self.segment.stop)
        while True:
            self.window.reach(self.log_offset)
            count, gaps = self._walk_window(stop, self._passed)
            if count or gaps:
                yield self._batch(count, gaps)
            if not self._goes_on(stop):
                return

    def find(self, start: int, stop: int) -> Outcome:
        """Find the first intact record or end mark at ``start`` or after it, before ``stop``.

        Zeros are passed over where a window begins: a hole of gigabytes can follow damage.

        Returns:
            RECORD or FILE_END, with ``log_offset`` where it lies; STOP if there is none.
        """
        self.log_offset = start
        stop = min(stop, self.segment.stop)
        zeros, window = self.segment.framing.most_zeros, self.window
        last = min(stop + zeros, self.segment.stop)
        while True:
            data_start = first_nonzero(self.segment, self.log_offset, last)
            if data_start >= last:
                return Outcome.STOP
            self.log_offset = max(self.log_offset, data_start - zeros)
            window.reach(self.log_offset)
            outcome, at = find_record(*self._place(stop), self.rules, self._rows, self._values)
            self.log_offset = window.base + at
            if outcome != Outcome.NEED:
                return Outcome(outcome)
            if not window.extend(self.log_offset):
                return Outcome.STOP
            if window.cut:
                if self._walk_window(stop, self._passed[:0])[0]:
                    self.log_offset = window.base
                    return Outcome.RECORD
                self.log_offset = window.base + 1

    def guess(self, start: int, stop: int) -> int | None:
        """Return where the first record of a range begins: the file's, or else the first true one."""
        return start if start == self.segment.start else self.next_intact(start, stop)

    def next_intact(self, start: int, stop: int) -> int | None:
        """Return where the first intact record or end mark begins in a range."""
        return None if self.find(start, stop) is Outcome.STOP else self.log_offset

    def _batch(self, count: int, gaps: int) -> MessageBatch:
        window, told = self.window, self._gaps[:gaps]
        rows, values = self._rows[:count], self._values[:count]
        return MessageBatch(window.buffer, rows, values, window.base, window.cut, told)

    def _place(self, stop: int) -> tuple[Buffer, int, int, int, int, int]:
        """Return what every kernel takes first, from buffer to base."""
        window, base = self.window, self.window.base
        return window.buffer, self.log_offset - base, stop - base, window.stop, self.segment.stop - base, base

    def _walk_window(self, stop: int, passed: Rows) -> tuple[int, int]:
        """Walk over what is at hand; return how many messages and gaps there are."""
        window = self.window
        outcome, at, count, mismatches, self.kept, gaps = walk_over_damage(
            *self._place(stop),
            window.cut,
            self.rules,
            0 if self.passes_gaps else self.kept,
            self._rows,
            self._values,
            passed,
            self._gaps,
        )
        if mismatches:
            self._mismatches.append(passed[:mismatches].copy())
        self.outcome, self.log_offset = Outcome(outcome), window.base + at
        return count, gaps

    def _goes_on(self, stop: int) -> bool:
        """Prepare for what ended the window's walk; return False if it ended the segment's."""
        if self.outcome == Outcome.NEED:
            if not self.window.extend(self.log_offset):
                self.outcome = Outcome.BAD_LENGTH  # the file is shorter than when it was listed
                return False
            return True
        return self.outcome == Outcome.FULL or (self.outcome == Outcome.STOP and self.log_offset < stop)


def first_nonzero(segment: Segment, start: int, stop: int) -> int:
    """Return the physical offset of the first byte that is not zero, ``stop`` if there is none."""
    size = _FIRST_CHUNK_BYTES
    log_offset = segment.start + segment.next_written(start - segment.start)
    while log_offset < stop:
        chunk = np.empty(min(size, stop - log_offset), np.uint8)
        count = segment.read_into(log_offset - segment.start, chunk.data, [])
        if chunk[:count].any():
            return log_offset + int(np.argmax(chunk[:count] != 0))
        if count == 0:
            break
        log_offset = segment.start + segment.next_written(log_offset + count - segment.start)
        size = min(2 * size, _CHUNK_BYTES)
    return stop
