"""Where the log ends, found from the back: nothing on disk states it, and reading all of it takes minutes."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from rmqtool.findings.commitlog import CL_GHOST, CL_TAIL_ZERO
from rmqtool.releases import LENIENT
from rmqtool.scan.log_edge import FoundEdge
from rmqtool.scan.record_walk import Blank, ChainWalk
from rmqtool.scan.records import Record, check_record
from rmqtool.scan.resync import find_true
from rmqtool.scan.window import WINDOW_BYTES, Window

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rmqtool.scan.classify import Defect
    from rmqtool.store.segments import Segment

_LOOK_BACK_BYTES = (1 << 16, 1 << 20, 1 << 23)
_NORMAL = (CL_TAIL_ZERO, CL_GHOST)
_ZEROS = bytes(WINDOW_BYTES)


class LogEnd(NamedTuple):
    """The last record of a log.

    Attributes:
        last: The record, None in a log without any.
        end: Physical offset after the last record or BLANK; the log's start when there is none.
        tail: What follows in that file, if that is anything but zeros.
    """

    last: Record | None
    end: int
    tail: Defect | None

    @property
    def ends_cleanly(self) -> bool:
        """Whether only zeros, or nothing, follow."""
        return self.tail is None


def first_record(segments: Sequence[Segment]) -> Record | None:
    """Return the record that the log begins with; None if its first bytes are none."""
    if not segments:
        return None
    return check_record(Window(segments[0]), 0, LENIENT, base=segments[0].start).record


def find_log_end(segments: Sequence[Segment], unclean: bool = False) -> LogEnd:
    """Find the last record of the log, and where it ends.

    In the last file that holds a record, true ones are searched backwards from the last byte that is not
    zero, and the chain is followed from there to its end. Damage further to the front is not seen.

    Args:
        segments: The files, by start.
        unclean: ``abort`` is there: a torn record at the end is what the next start expects.
    """
    edge = FoundEdge(segments, unclean)
    if edge.last >= 0:
        return _end_of_segment(edge)
    return LogEnd(None, segments[0].start if segments else 0, None)


def _end_of_segment(edge: FoundEdge) -> LogEnd:
    segment = edge.segments[edge.last]
    last, end, tail = None, segment.start, None
    start = segment.start + _safe_start(segment, last_used_byte(segment))
    for event in ChainWalk(edge.last, edge).run(start, None):
        if isinstance(event, Record):
            last, end, tail = event, event.physical_offset + len(event.raw), None
        elif isinstance(event, Blank):
            end = segment.stop
        elif not event.of_record and tail is None and event.code not in _NORMAL:
            tail = event
    return LogEnd(last, end, tail)


def last_used_byte(segment: Segment) -> int:
    """Return the position after the last byte that is not zero, reading backwards; holes are not read."""
    stop = segment.size_bytes
    while stop > 0:
        start = max(0, stop - WINDOW_BYTES)
        if segment.next_data(start) >= stop:
            stop = start
            continue
        data = segment.read_at(start, stop - start, [])
        if data != _ZEROS[: len(data)]:  # a comparison is far faster than the strip, and zeros are the rule
            return start + len(data.rstrip(b"\0"))
        stop = start
    return 0


def _safe_start(segment: Segment, data_end: int) -> int:
    """Return the position of a true record shortly before ``data_end``, or the start of the file."""
    window = Window(segment)
    for back in _LOOK_BACK_BYTES:
        if back >= data_end:
            break
        found = find_true(window, data_end - back, segment.start, data_end)
        if found is not None:
            return found
    return 0
