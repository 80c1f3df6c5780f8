"""Minimum and maximum offset of a consume queue, by binary search: a queue may have millions of units."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from rmqtool.formats import consumequeue, struct_of
from rmqtool.store import PathKind

if TYPE_CHECKING:
    from collections.abc import Callable

    from rmqtool.store import FileQueue, QueueFiles, Segment

_UNIT = struct_of(consumequeue.UNIT)
_BATCH_UNIT = struct_of(consumequeue.BATCH_UNIT)
_PREBLANK = (0, consumequeue.PREBLANK_SIZE, 0)


class Bounds(NamedTuple):
    """Offsets of a queue: units from ``min_offset`` to before ``max_offset`` point into the log."""

    min_offset: int
    max_offset: int


def queue_bounds(queue: QueueFiles, log_start: int) -> Bounds:
    """Return the bounds of a queue whose units are in order, as those of an undamaged store are.

    Java: ``ConsumeQueue#recover``, ``ConsumeQueue#correctMinOffset`` (4.9.8, 5.3.3), but for two things that
    these miss: pre-blank units never count, and expired units are skipped in all files.

    Args:
        queue: A consume queue, or a batch consume queue.
        log_start: Physical offset at which the log begins.
    """
    if queue.kind is PathKind.BATCHCONSUMEQUEUE:
        return _batch_bounds(queue.files, log_start)
    segments = queue.files.segments
    if not segments:
        return Bounds(0, 0)
    last = _last_begun(segments, _UNIT.size)
    max_offset = (last.start // _UNIT.size) + _count_valid(last)
    for segment in segments:
        count = _count_valid(segment)
        alive = first_holding(count, partial(_is_alive, segment, log_start))
        if alive < count:
            return Bounds(segment.start // _UNIT.size + alive, max_offset)
    return Bounds(max_offset, max_offset)


def _last_begun(segments: tuple[Segment, ...], width: int) -> Segment:
    """Return the last file that has a unit; a broker creates a file with its first unit."""
    begun = (segment for segment in reversed(segments) if any(segment.read_at(0, width, [])))
    return next(begun, segments[0])


def first_holding(count: int, holds: Callable[[int], bool]) -> int:
    """Return the first of the numbers 0..count that holds, when all behind it hold too; count if none."""
    low, high = 0, count
    while low < high:
        middle = (low + high) // 2
        low, high = (low, middle) if holds(middle) else (middle + 1, high)
    return low


def read_unit(segment: Segment, number: int) -> tuple[int, int, int]:
    """Return the fields of a unit of a consume queue; zeros behind the end of the file."""
    data = segment.read_at(number * _UNIT.size, _UNIT.size, [])
    physical_offset, size, tags_code = _UNIT.unpack(data.ljust(_UNIT.size, b"\0"))
    return physical_offset, size, tags_code


def _count_valid(segment: Segment) -> int:
    """Return the units before the first invalid one, as if all behind it were invalid."""

    def is_invalid(number: int) -> bool:
        physical_offset, size, _ = read_unit(segment, number)
        return physical_offset < 0 or size <= 0

    return first_holding(segment.size_bytes // _UNIT.size, is_invalid)


def _is_alive(segment: Segment, log_start: int, number: int) -> bool:
    unit = read_unit(segment, number)
    return unit != _PREBLANK and unit[0] >= log_start


def _batch_bounds(files: FileQueue, log_start: int) -> Bounds:
    """Return base of the first live unit, and last base with its batch."""
    segments = files.segments
    if not segments:
        return Bounds(0, 0)
    last = _last_begun(segments, _BATCH_UNIT.size)
    count = _count_batch_units(last)
    if count == 0:
        return Bounds(0, 0)
    *_, base, batch_size, _, _ = read_batch_unit(last, count - 1)
    max_offset = base + batch_size
    for segment in segments:
        count = _count_batch_units(segment)
        alive = first_holding(count, partial(_is_alive_batch, segment, log_start))
        if alive < count:
            return Bounds(read_batch_unit(segment, alive)[4], max_offset)
    return Bounds(max_offset, max_offset)


def _count_batch_units(segment: Segment) -> int:
    room = segment.size_bytes // _BATCH_UNIT.size
    return first_holding(room, lambda number: read_batch_unit(segment, number)[1] <= 0)


def _is_alive_batch(segment: Segment, log_start: int, number: int) -> bool:
    return read_batch_unit(segment, number)[0] >= log_start


def read_batch_unit(segment: Segment, number: int) -> tuple[int, ...]:
    """Return the fields of a unit of a batch consume queue; zeros behind the end of the file."""
    data = segment.read_at(number * _BATCH_UNIT.size, _BATCH_UNIT.size, [])
    return _BATCH_UNIT.unpack(data.ljust(_BATCH_UNIT.size, b"\0"))
