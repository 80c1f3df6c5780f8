"""The record at one place of the log, as look-ups need it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rmqtool.releases import LENIENT
from rmqtool.scan.records import Record, check_record
from rmqtool.scan.window import Window

if TYPE_CHECKING:
    from rmqtool.store import FileQueue

_WINDOW_BYTES = 4096


_HEAD_BYTES = 8


def holds_bytes(log: FileQueue, physical_offset: int) -> bool:
    """Tell whether anything was ever written at an offset: zeros stand in lieu of the length of a record.

    Raises:
        EnvironmentFailureError: The segment cannot be opened.
    """
    segment = log.segment_at(physical_offset)
    return segment is not None and any(segment.read_at(physical_offset - segment.start, _HEAD_BYTES, []))


def record_at(log: FileQueue, physical_offset: int) -> Record | None:
    """Return the record that lies at an offset; None if nothing does, or it cannot be read.

    What a damaged queue or index points to may be anything: only bytes that are a record count, and nothing
    is read before its length is known to be there.
    """
    segment = log.segment_at(physical_offset)
    if segment is None:
        return None
    window = Window(segment, _WINDOW_BYTES)
    position = physical_offset - segment.start
    window.focus(position)
    return check_record(window, position, LENIENT, base=segment.start).record
