"""Walk over gaps at the speed of the kernels: what ``record_walk.ChainWalk`` does, in batches.

Where a broker's reput gives up, this continues at the next intact record or BLANK: the magic is right,
PHYSICALOFFSET is its place, and the lengths add up. Where a frame of another place lies over such a record,
it continues there.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Protocol

import numpy as np

from rmqtool.formats import message
from rmqtool.scan.gaps import Gap, Outcome
from rmqtool.scan.hidden import HiddenRecords
from rmqtool.scan.rows import rules_of
from rmqtool.scan.walk import SegmentWalk

if TYPE_CHECKING:
    from collections.abc import Generator, Iterable, Iterator, Sequence
    from typing import Any

    from rmqtool.io.reading import UnreadableRange
    from rmqtool.releases import RecordRules
    from rmqtool.scan.splits import Split
    from rmqtool.scan.walk import MessageBatch
    from rmqtool.store.segments import Segment

_SIZE_BYTES = message.HEAD_OFFSETS[0]["magic"]
_FIRST_CHUNK_BYTES = 1 << 8  # grows: most damage is short, and a torn log asks at each of its records
_CHUNK_BYTES = 1 << 20


class GapWalk:
    """The records of one file and the gaps between them.

    Args:
        segment: the file.
        records: how records are read.
        stale_from: physical offset from which copies of older records lie after the log's end; None without.

    Attributes:
        outcome: what ended the last walk: STOP, its end was reached; BLANK, one that states the rest of the
            file; else what lies where the gap begins that reaches its end.
        log_offset: physical offset of that end: after the last record, of the BLANK, or where the walk was to
            end.
    """

    def __init__(self, segment: Segment, records: RecordRules, stale_from: int | None = None) -> None:
        self.segment = segment
        inside = stale_from is not None and segment.start <= stale_from < segment.stop
        self._stale_from = stale_from if inside and stale_from is not None else segment.stop
        self.outcome = Outcome.STOP
        self.log_offset = segment.start
        self._walk = SegmentWalk(segment, rules_of(records), stops_at_mismatch=True, passes_gaps=True)
        self._hidden = HiddenRecords(segment, self._walk.rules)

    @property
    def unreadable(self) -> list[UnreadableRange]:
        """Return the ranges of the file that could not be read so far, ascending."""
        return self._walk.unreadable

    def guess(self, start: int, stop: int) -> int | None:
        """Return where the first record of a range begins: the file's, or else the first intact one."""
        return start if start == self.segment.start else self._find(start, stop)

    def parts(self, start: int, stop: int, reach: int | None = None) -> Iterator[MessageBatch | Gap]:
        """Walk from ``start``, where a record is due; records that begin at ``stop`` or later are not taken.

        Gaps inside a window are in its batch (``MessageBatch.gaps``). The last one may extend to physical
        offset
        ``reach``, or to ``stop``. A segment that cannot be read raises EnvironmentFailureError.
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
            if self.outcome is Outcome.BLANK:
                if head.total_size == self.segment.stop - self.log_offset:
                    return
                self.outcome = Outcome.MISMATCH
            begin = self.log_offset
            data_start = first_nonzero(self.segment, begin, reach)
            if log_offset is None:
                log_offset = self._find(max(begin + 1, data_start - _SIZE_BYTES), reach)
            elif log_offset >= reach:
                log_offset = None
            self.log_offset = reach if log_offset is None else log_offset
            own = head.physical_offset == begin
            data_start = min(data_start, self.log_offset)
            yield Gap(begin, self.log_offset, self.outcome, head.total_size, head.magic, own, data_start)

    def _followed(self, start: int, stop: int) -> Generator[MessageBatch, None, int | None]:
        """Follow records to the next gap; return where it ends, if that is below a frame of another place."""
        for batch in self._walk.batches(start, min(stop, self._stale_from)):
            hiding = self._hidden.in_batch(batch)
            if hiding is None:
                yield batch
                continue
            row, found = hiding
            self.outcome, self.log_offset = Outcome.FOREIGN, int(batch.rows["log_offset"][row])
            gaps = batch.gaps[batch.gaps["row"] <= row]
            if row or len(gaps):
                yield replace(batch, rows=batch.rows[:row], values=batch.values[:row], gaps=gaps)
            return found
        self.outcome, self.log_offset = self._walk.outcome, self._walk.log_offset
        return None

    def ghosts(self) -> bool:
        """Whether something lies after the BLANK that ended the last walk."""
        if self.outcome is not Outcome.BLANK:
            return False
        stop = self.segment.stop
        return first_nonzero(self.segment, self.log_offset + message.RECORD_STARTS.size, stop) < stop

    def _head(self) -> message.PlacedStart:
        starts = message.PLACED_STARTS
        return starts.padded(self.segment.read_at(self.log_offset - self.segment.start, starts.size, []))

    def _find(self, start: int, stop: int) -> int | None:
        return find_after_zeros(self._walk, start, stop)


def find_after_zeros(walk: SegmentWalk, start: int, stop: int) -> int | None:
    """Return where the first intact record or BLANK of a range begins; the range may begin with zeros."""
    # TOTALSIZE, a record's first bytes, may begin with zeros.
    zeros = _SIZE_BYTES - 1
    last = min(stop + zeros, walk.segment.stop)
    data_start = first_nonzero(walk.segment, start, last)
    if data_start >= last or walk.find(max(start, data_start - zeros), stop) is Outcome.STOP:
        return None
    return walk.log_offset


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
    )


class SplitEnd:
    """The end of a split that was read over its gaps, for ``splits.stitch``; fields are the subclass's.

    Attributes:
        split: what was read.
        first_log_offset: physical offset of the first record; None if no intact one begins in the split.
        outcome: see `GapWalk`.
        log_offset: see `GapWalk`.
    """

    split: Split
    first_log_offset: int | None
    outcome: Outcome
    log_offset: int

    @property
    def split_stop(self) -> int:
        """Return the physical offset after the split."""
        return self.split.stop

    @property
    def next_log_offset(self) -> int | None:
        """Return the physical offset at which the next record is due; None if a gap goes on there."""
        return self.log_offset if self.outcome is Outcome.STOP and self.first_log_offset is not None else None

    @property
    def ended(self) -> bool:
        """Whether a BLANK ended the file."""
        return self.outcome is Outcome.BLANK


class SplitGaps(Protocol):
    """The gaps of one split, as its walk found them."""

    @property
    def split(self) -> Split:
        """Return what was walked."""
        ...

    @property
    def first_log_offset(self) -> int | None:
        """Return the physical offset of the first record; None if no record begins in the split."""
        ...

    @property
    def gaps(self) -> Sequence[Gap]:
        """Return gaps in log order; one that reaches the split's end is among them."""
        ...


def joined_gaps(segment: Segment, parts: Iterable[SplitGaps]) -> Iterator[Gap]:
    """Yield the gaps of one file's splits, those over their seams put together."""
    last: Gap | None = None
    for part in parts:
        if last is not None and last.stop == part.split.start:
            first = part.split.stop if part.first_log_offset is None else part.first_log_offset
            last = joined_gap(segment, last, first)
        for gap in part.gaps:
            if last is not None:
                yield last
            last = gap
    if last is not None:
        yield last


def joined_gap(segment: Segment, gap: Gap, stop: int) -> Gap:
    """Return a gap that reached the end of its split, extended to ``stop``."""
    data_start = first_nonzero(segment, gap.stop, stop) if gap.zero else gap.data_start
    return replace(gap, stop=stop, data_start=data_start)


def first_nonzero(segment: Segment, start: int, stop: int) -> int:
    """Return the physical offset of the first byte that is not zero, ``stop`` if there is none."""
    size = _FIRST_CHUNK_BYTES
    log_offset = segment.start + segment.next_data(start - segment.start)
    while log_offset < stop:
        chunk = np.empty(min(size, stop - log_offset), np.uint8)
        count = segment.read_into(log_offset - segment.start, chunk.data, [])
        if chunk[:count].any():
            return log_offset + int(np.argmax(chunk[:count] != 0))
        if count == 0:
            break
        log_offset = segment.start + segment.next_data(log_offset + count - segment.start)
        size = min(2 * size, _CHUNK_BYTES)
    return stop
