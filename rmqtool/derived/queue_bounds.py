"""Minimum and maximum offset of a consume queue, by binary search: a queue may have millions of units."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from rmqtool.derived.queue_files import QueueFile
from rmqtool.formats.consumequeue import BATCH_UNITS, PREBLANK, UNITS, UnitFields
from rmqtool.store.kinds import PathKind

if TYPE_CHECKING:
    from collections.abc import Callable

    from rmqtool.formats.consumequeue import BatchUnitFields
    from rmqtool.store import FileQueue, QueueFiles


class Bounds(NamedTuple):
    """Offsets of a queue: units from ``min_offset`` to before ``max_offset`` point into the log."""

    min_offset: int
    max_offset: int


def queue_bounds(queue: QueueFiles, log_start: int) -> Bounds:
    """Return the bounds of a (batch) consume queue whose units are in order, as in an undamaged store.

    Java: ``ConsumeQueue#recover``, ``ConsumeQueue#correctMinOffset`` (4.9.8, 5.3.3), but for two things that
    these miss: pre-blank units never count, and expired units are skipped in all files. ``log_start`` is a
    physical offset.
    """
    if not queue.files.segments:
        return Bounds(0, 0)
    if queue.kind is PathKind.BATCHCONSUMEQUEUE:
        return _batch_bounds(queue.files, log_start)
    files = [QueueFile(segment, UNITS) for segment in queue.files]
    last = next((file for file in reversed(files) if file.is_begun), files[0])
    max_offset = last.first_number + _count_valid(last)
    for file in files:

        def is_alive(number: int) -> bool:
            unit = file.unit(number)  # noqa: B023 - used at once
            return unit != PREBLANK and unit.physical_offset >= log_start

        count = _count_valid(file)
        alive = first_holding(count, is_alive)
        if alive < count:
            return Bounds(file.first_number + alive, max_offset)
    return Bounds(max_offset, max_offset)


def messages_from(queue: QueueFiles, max_offset: int, physical_offset: int) -> int:
    """Return how many messages at the end of a queue lie at a physical offset, or after it.

    The queue's units are in order; ``max_offset`` is its end as in `queue_bounds`. Most often the offset is
    after all of them: then only the last unit is read.
    """
    position = (max_offset - 1) * UNITS.size
    if queue.kind is not PathKind.BATCHCONSUMEQUEUE:
        segment = queue.files.segment_at(position)
        if segment is None:
            return 0
        last = QueueFile(segment, UNITS).unit((position - segment.start) // UNITS.size)
        if last.physical_offset < physical_offset:
            return 0
    bounds = queue_bounds(queue, physical_offset)
    return bounds.max_offset - bounds.min_offset


def first_holding(count: int, holds: Callable[[int], bool]) -> int:
    """Return the first of the numbers 0..count that holds, if all after it hold too; count if none."""
    low, high = 0, count
    while low < high:
        middle = (low + high) // 2
        low, high = (low, middle) if holds(middle) else (middle + 1, high)
    return low


def _count_valid(file: QueueFile[UnitFields]) -> int:
    """Return the units before the first invalid one, as if all after it were invalid."""

    def is_invalid(number: int) -> bool:
        unit = file.unit(number)
        return unit.physical_offset < 0 or unit.size <= 0

    return first_holding(file.room, is_invalid)


def _batch_bounds(queue: FileQueue, log_start: int) -> Bounds:
    """Return base of the first live unit, and last base with its batch."""
    files = [QueueFile(segment, BATCH_UNITS) for segment in queue]
    last = next((file for file in reversed(files) if file.is_begun), files[0])
    count = _count_batch_units(last)
    if count == 0:
        return Bounds(0, 0)
    newest = last.unit(count - 1)
    max_offset = newest.msg_base_offset + newest.batch_size
    for file in files:
        count = _count_batch_units(file)
        alive = first_holding(count, lambda number: file.unit(number).physical_offset >= log_start)  # noqa: B023
        if alive < count:
            return Bounds(file.unit(alive).msg_base_offset, max_offset)
    return Bounds(max_offset, max_offset)


def _count_batch_units(file: QueueFile[BatchUnitFields]) -> int:
    return first_holding(file.room, lambda number: file.unit(number).size <= 0)
