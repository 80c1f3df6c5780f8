"""How far the queues of a store had come, by their last units: a few reads a queue."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from rmqtool.commands.queue_bounds import first_holding
from rmqtool.formats import consumequeue as formats
from rmqtool.formats import struct_of

if TYPE_CHECKING:
    from collections.abc import Iterable

    from rmqtool.store import FileQueue, Segment

_HEADS = {
    formats.UNIT_SIZE: struct_of(formats.UNIT),
    formats.BATCH_UNIT_SIZE: struct_of(formats.BATCH_UNIT),
}


def queue_progress(queues: Iterable[tuple[FileQueue, bool]], log_end: int) -> int:
    """Return the end of the last record inside the log of which any queue has a unit, 0 if none has.

    Dispatch goes through the log in order, for all queues. So what lies below was passed; only what lies
    above can still be waiting for its unit.

    Args:
        queues: files of each queue, and whether it is a batch queue.
        log_end: end of the last record of the log; units beyond it do not count.

    Raises:
        EnvironmentFailureError: a file cannot be opened or read.
    """
    furthest = 0
    for files, is_batch in queues:
        end = _last_end(files, formats.BATCH_UNIT_SIZE if is_batch else formats.UNIT_SIZE)
        if end <= log_end:
            furthest = max(furthest, end)
        files.close()
    return furthest


def _last_end(files: FileQueue, width: int) -> int:
    """Return the end of the record of a queue's last unit, as if its units were in order; 0 without any."""
    for segment in reversed(files.segments):
        count = first_holding(segment.size_bytes // width, partial(_is_unused, segment, width))
        if count:
            return _end(segment, width, count - 1)
    return 0


def _is_unused(segment: Segment, width: int, number: int) -> bool:
    return _end(segment, width, number) == 0


def _end(segment: Segment, width: int, number: int) -> int:
    """Return the end of a unit's record, 0 if it is no unit; a pre-blank one's lies beyond every log."""
    data = segment.read_at(number * width, width, []).ljust(width, b"\0")
    physical_offset, size, *_ = (int(field) for field in _HEADS[width].unpack(data))
    return physical_offset + size if physical_offset >= 0 and size > 0 else 0
