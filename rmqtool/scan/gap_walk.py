"""Walk over gaps at the speed of the kernels: ``record_walk.ChainWalk`` in batches.

Where a broker's reput gives up, this continues at the next intact record or end mark: the magic is right,
PHYSICALOFFSET is its place, and the lengths add up.

A foreign frame can lie over whole records (``HiddenRecords``), and a broker skips them with it: its
PHYSICALOFFSET is not its place, as that of stale bytes, or of another file. A record in
the body of a frame whose checksum holds is the frame's own, not one of the log.
"""

from __future__ import annotations

import zlib
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any

import numpy as np

from rmqtool.formats.framing import END_MARK_BYTES, FrameHead
from rmqtool.formats.message import Outcome
from rmqtool.kernels.compare import are_among
from rmqtool.kernels.rows import MessageBatch, frame_starts, frame_stops, rules_of
from rmqtool.releases import LENIENT, RecordRules
from rmqtool.scan.records import Gap
from rmqtool.scan.walk import SegmentWalk, first_nonzero

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterator

    from rmqtool.arrays import Int64s
    from rmqtool.io.location import UnreadableRange
    from rmqtool.store.segments import Segment


_AHEAD_BYTES = 1 << 20
_COUNTED_BYTES = 64 << 20


class HiddenRecords:
    """Finds the first intact record below a frame of one file.

    Args:
        segment: the file.
        rules: see ``rmqtool.kernels.rows.Rules``.
        reach: physical offset up to which is searched; the file's end when None.
        false: physical offsets of frames that are as foreign ones, though they lie where they say.
    """

    def __init__(
        self, segment: Segment, rules: Int64s, reach: int | None = None, false: Int64s | None = None
    ) -> None:
        self._false = false
        self._segment, self._rules = segment, rules
        self._reach = segment.stop if reach is None else reach
        self._searched: tuple[int, int, int | None] = 0, 0, None
        self._unread = 2 * segment.size_bytes  # of bodies: frames over frames must not be read without end

    def in_batch(self, batch: MessageBatch) -> tuple[int, int] | None:
        """Return a batch's first foreign row that hides an intact record, and that record's place."""
        rows = batch.rows
        starts = rows["log_offset"]
        is_foreign = rows["physical_offset"] != starts
        if self._false is not None:
            is_foreign |= are_among(starts, self._false)
        if not is_foreign.any():
            return None
        foreign = np.flatnonzero(is_foreign)
        frames, stops = frame_starts(rows), frame_stops(rows)[foreign]
        while len(foreign):
            met = self._find_ahead(int(frames[foreign[0]]) + 1, int(stops[-1]))
            if met is None:
                return None
            foreign, stops = foreign[stops > met], stops[stops > met]
            if not len(foreign) or frames[foreign[0]] >= met:
                continue
            row = rows[foreign[0]]
            body, length = batch.base + int(row["body_start"]), max(int(row["body_length"]), 0)
            is_proven = partial(self._proves, body, length, int(row["body_crc"]))
            hidden = self.below(int(frames[foreign[0]]), int(stops[0]), body + length, is_proven)
            if hidden is not None:
                return int(foreign[0]), hidden
            foreign, stops = foreign[1:], stops[1:]
        return None

    def below(self, start: int, stop: int, body_stop: int, is_proven: Callable[[], bool]) -> int | None:
        """Return the start of the first intact record inside a frame."""
        hidden = self._find_ahead(start + 1, stop)
        if hidden is None or hidden >= body_stop or not is_proven():
            return hidden
        return self.find(body_stop, stop)

    def _proves(self, start: int, length: int, crc: int) -> bool:
        """Whether the body at a physical offset matches its checksum."""
        if length > self._unread:
            return False
        self._unread -= length
        value, position = 0, start - self._segment.start
        while length > 0 and (data := self._segment.read_at(position, min(length, _AHEAD_BYTES), [])):
            value, position, length = zlib.crc32(data, value), position + len(data), length - len(data)
        return not length and value & 0x7FFFFFFF == crc

    def _find_ahead(self, start: int, stop: int) -> int | None:
        """Return what `find` does; the bytes of many frames of another log are searched once."""
        known_from, known_to, _ = self._searched
        if not known_from <= start <= known_to or (stop > known_to and self._searched[2] is None):
            ahead = max(stop, start + _AHEAD_BYTES)
            record_at = self.find(start, ahead)
            self._searched = start, ahead if record_at is None else record_at, record_at
        record_at = self._searched[2]
        return record_at if record_at is not None and start <= record_at < stop else None

    def find(self, start: int, stop: int) -> int | None:
        """Return where the first intact record or end mark begins in a range."""
        stop = min(stop, self._reach)
        return None if start >= stop else self._search.next_intact(start, stop)

    @cached_property
    def _search(self) -> SegmentWalk:
        """A walk of its own: a batch is valid until its walk goes on."""
        return SegmentWalk(self._segment, self._rules, stops_at_mismatch=True)


def count_hidden(segment: Segment, gap: Gap) -> int:
    """Return how many intact records follow each other below the frame that a gap begins with.

    Those of its first 64 MiB are counted.
    """
    stop = min(segment.framing.frame_stop(gap.start, gap.total_size), gap.stop + _COUNTED_BYTES)
    walk = SegmentWalk(segment, rules_of(LENIENT), stops_at_mismatch=True)
    batches = (batch.rows for batch in walk.batches(gap.stop, stop))
    return sum(int((rows["physical_offset"] == rows["log_offset"]).sum()) for rows in batches)


class GapWalk:
    """The records of one file and the gaps between them.

    From ``stale_from`` on, copies of older records lie after the log's end. ``log_offset`` is the physical
    offset of the last walk's end: after the last record, of the end mark, or where the walk was to end.
    ``outcome`` is what ended it: STOP, its end was reached; FILE_END, a mark states the file's rest; else
    what lies where the gap begins that reaches its end. ``false`` are physical offsets of frames that are
    none, though they lie where they say: records below them are read in their place.
    """

    def __init__(
        self,
        segment: Segment,
        records: RecordRules,
        stale_from: int | None = None,
        false: Int64s | None = None,
    ) -> None:
        self.segment = segment
        inside = stale_from is not None and segment.start <= stale_from < segment.stop
        self._stale_from = stale_from if inside and stale_from is not None else segment.stop
        self.outcome = Outcome.STOP
        self.log_offset = segment.start
        self._walk = SegmentWalk(segment, rules_of(records), stops_at_mismatch=True, passes_gaps=True)
        self._hidden = HiddenRecords(segment, self._walk.rules, false=false)

    @property
    def unreadable(self) -> list[UnreadableRange]:
        """Return the ranges of the file that could not be read so far, ascending."""
        return self._walk.unreadable

    def guess(self, start: int, stop: int) -> int | None:
        """Return where the first record of a range begins: the file's, or else the first intact one."""
        return self._walk.guess(start, stop)

    def parts(self, start: int, stop: int, reach: int | None = None) -> Iterator[MessageBatch | Gap]:
        """Walk from ``start``, where a record is due; records that begin at ``stop`` or later are not taken.

        Gaps inside a window are in its batch (``MessageBatch.gaps``). The last one may extend to physical
        offset ``reach``, or to ``stop``. A segment that cannot be read raises EnvironmentFailureError.
        """
        stop = min(stop, self.segment.stop)
        reach = stop if reach is None else min(reach, self.segment.stop)
        log_offset: int | None = start
        while log_offset is not None:
            log_offset = yield from self._followed(log_offset, stop)
            if self.outcome is Outcome.STOP:
                if self.log_offset != self._stale_from or self.log_offset >= stop:
                    return
                self.outcome = Outcome.MISMATCH
            head = self._head()
            if self.outcome is Outcome.FILE_END:
                if head.total_size == self.segment.stop - self.log_offset:
                    return
                self.outcome = Outcome.MISMATCH
            begin, framing = self.log_offset, self.segment.framing
            data_start = first_nonzero(self.segment, begin, reach)
            if log_offset is None:
                log_offset = self._walk.next_intact(max(begin + 1, data_start - framing.most_zeros), reach)
            elif log_offset >= reach:
                log_offset = None
            self.log_offset = reach if log_offset is None else log_offset
            own = head.physical_offset == begin + framing.lead
            data_start = min(data_start, self.log_offset)
            size, magic, _, is_end = head
            yield Gap(begin, self.log_offset, self.outcome, size, magic, own, data_start, is_end)

    def _followed(self, start: int, stop: int) -> Generator[MessageBatch, None, int | None]:
        """Follow records to the next gap; return where it ends, if that is below a frame of another place."""
        for batch in self._walk.batches(start, min(stop, self._stale_from)):
            hiding = self._hidden.in_batch(batch)
            if hiding is None:
                yield batch
                continue
            row, place = hiding
            self.outcome, self.log_offset = Outcome.FOREIGN, int(frame_starts(batch.rows)[row])
            gaps = batch.gaps[batch.gaps["row"] <= row]
            if row or len(gaps):
                yield batch.only(slice(row))._replace(gaps=gaps)
            return place
        self.outcome, self.log_offset = self._walk.outcome, self._walk.log_offset
        return None

    def ghosts(self) -> bool:
        """Whether something lies after the end mark that ended the last walk."""
        if self.outcome is not Outcome.FILE_END:
            return False
        stop = self.segment.stop
        return first_nonzero(self.segment, self.log_offset + END_MARK_BYTES, stop) < stop

    def _head(self) -> FrameHead:
        framing, position = self.segment.framing, self.log_offset - self.segment.start
        return framing.head(self.segment.read_at(position, framing.head_size, []))


def gap_of(row: Any) -> Gap:  # noqa: ANN401 - a numpy row
    """Return one ``GAP_ROW`` of a batch."""
    return Gap(
        start=int(row["start"]),
        stop=int(row["stop"]),
        reason=Outcome(int(row["reason"])),
        total_size=int(row["total_size"]),
        magic=int(row["magic"]),
        own=bool(row["own"]),
        data_start=int(row["data_start"]),
        is_end=bool(row["is_end"]),
    )


def joined_gap(segment: Segment, gap: Gap, stop: int) -> Gap:
    """Return a gap that reached the end of its split, extended to ``stop``."""
    data_start = first_nonzero(segment, gap.stop, stop) if gap.zero else gap.data_start
    return gap._replace(stop=stop, data_start=data_start)
