"""Walk over gaps at the speed of the kernels: what ``record_walk.ChainWalk`` does, in batches.

Where a broker's reput gives up, this continues at the next intact record or BLANK: the magic is right,
PHYSICALOFFSET is its place, and the lengths add up. Where a frame of another place lies over such a record,
it continues there.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from rmqtool.formats import message
from rmqtool.formats.message import Outcome
from rmqtool.kernels.rows import rules_of
from rmqtool.scan.gaps import Gap
from rmqtool.scan.hidden import HiddenRecords
from rmqtool.scan.walk import MessageBatch, SegmentWalk, first_nonzero

if TYPE_CHECKING:
    from collections.abc import Generator, Iterator

    from rmqtool.io.reading import UnreadableRange
    from rmqtool.releases import RecordRules
    from rmqtool.store.segments import Segment

_SIZE_BYTES = message.HEAD_OFFSETS[0]["magic"]


class GapWalk:
    """The records of one file and the gaps between them.

    From ``stale_from`` on, copies of older records lie after the log's end. ``log_offset`` is the physical
    offset of the last walk's end: after the last record, of the BLANK, or where the walk was to end.
    ``outcome`` is what ended it: STOP, its end was reached; BLANK, one that states the rest of the file; else
    what lies where the gap begins that reaches its end.
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
            if self.outcome is Outcome.BLANK:
                if head.total_size == self.segment.stop - self.log_offset:
                    return
                self.outcome = Outcome.MISMATCH
            begin = self.log_offset
            data_start = first_nonzero(self.segment, begin, reach)
            if log_offset is None:
                log_offset = self._walk.find_after_zeros(max(begin + 1, data_start - _SIZE_BYTES), reach)
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


def joined_gap(segment: Segment, gap: Gap, stop: int) -> Gap:
    """Return a gap that reached the end of its split, extended to ``stop``."""
    data_start = first_nonzero(segment, gap.stop, stop) if gap.zero else gap.data_start
    return replace(gap, stop=stop, data_start=data_start)
