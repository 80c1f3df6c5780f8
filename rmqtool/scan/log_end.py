"""End of the log, found from the back: nothing on disk states it, and reading all of it takes minutes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from rmqtool.findings import Finding, Severity
from rmqtool.findings.codes import CL_GHOST, CL_TAIL_ZERO
from rmqtool.releases import LENIENT
from rmqtool.scan.classify import FoundEdge, is_of_record
from rmqtool.scan.page_tail import last_used_byte, start_before
from rmqtool.scan.record_walk import Blank, ChainWalk
from rmqtool.scan.records import Record, check_record
from rmqtool.scan.window import Window

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rmqtool.store import Store
    from rmqtool.store.segments import Segment

_NORMAL = (CL_TAIL_ZERO, CL_GHOST)


class LogEnd(NamedTuple):
    """The last record of a log.

    Attributes:
        last: The record, None in a log without any.
        end: Physical offset after the last record or BLANK; the log's start when there is none.
        tail: What follows in that file, if that is anything but zeros.
    """

    last: Record | None
    end: int
    tail: Finding | None

    @property
    def ends_cleanly(self) -> bool:
        """Whether only zeros follow, nothing, or what is left in a page as ever."""
        return self.tail is None or self.tail.severity is Severity.INFO


@dataclass(frozen=True, slots=True)
class LogExtent:
    """What there is of a log; a later look tells by it whether the log has changed.

    Attributes:
        start: Physical offset of its first file.
        end: Physical offset after its last record.
    """

    start: int
    end: int

    @classmethod
    def of(cls, store: Store) -> LogExtent:
        """Look at the log of a store; little of it is read."""
        edge = FoundEdge.of(store)
        end = find_log_end(edge).end
        for segment in edge.segments:
            segment.close()
        return cls(edge.segments[0].start if edge.segments else 0, end)


def first_record(segments: Sequence[Segment]) -> Record | None:
    """Return the record that the log begins with; None if its first bytes are none."""
    if not segments:
        return None
    return check_record(Window(segments[0]), 0, LENIENT, base=segments[0].start).record


def find_log_end(edge: FoundEdge) -> LogEnd:
    """Find the last record of the log, and where it ends.

    In the last file that holds a record, true ones are searched backwards from the last byte that is not
    zero, and the chain is followed from there to its end. Damage further to the front is not seen.
    """
    if edge.last >= 0:
        return _end_of_segment(edge)
    segments = edge.segments
    return LogEnd(None, segments[0].start if segments else 0, None)


def _end_of_segment(edge: FoundEdge) -> LogEnd:
    segment = edge.segments[edge.last]
    last, end, tail = None, segment.start, None
    start = segment.start + start_before(segment, last_used_byte(segment))
    for event in ChainWalk(edge.last, edge).run(start, None):
        if isinstance(event, Record):
            last, end, tail = event, event.physical_offset + len(event.raw), None
        elif isinstance(event, Blank):
            end = segment.stop
        elif not is_of_record(event) and tail is None and event.code not in _NORMAL:
            tail = event
    return LogEnd(last, end, tail)
