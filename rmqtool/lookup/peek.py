"""A short look down the log, after what an index or a queue knows of it."""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING, NamedTuple

from rmqtool.scan.classify import Defect
from rmqtool.scan.record_at import record_at
from rmqtool.scan.record_walk import walk
from rmqtool.scan.records import Record

if TYPE_CHECKING:
    from collections.abc import Callable

    from rmqtool.store import FileQueue

_LOOKED_AT = 200


class Look(NamedTuple):
    """What a look down the log found.

    Attributes:
        record: The first record that was looked for; None if none was met.
        is_complete: Whether all records of the stretch were looked at, if none was met.
    """

    record: Record | None
    is_complete: bool


def peek_after(log: FileQueue, start: int, stop: int | None, wanted: Callable[[Record], bool]) -> Look:
    """Look at the first records after one place and before another.

    Args:
        log: The log.
        start: Physical offset of a record that is not looked at; before the log, all of it is.
        stop: Physical offset; None is the end of the log.
        wanted: Which record is looked for.
    """
    if start >= log.start and record_at(log, start) is None:
        return Look(None, is_complete=False)
    events = walk(log.segments, max(start, log.start), stop)
    seen = 0
    for event in islice(events, _LOOKED_AT):
        seen += 1
        if isinstance(event, Defect) and event.ends_chain:
            return Look(None, is_complete=False)
        if isinstance(event, Record) and event.physical_offset > start and wanted(event):
            return Look(event, is_complete=True)
    return Look(None, is_complete=seen < _LOOKED_AT)
