"""Units of consume queues, batch consume queues and ext queues, as they lie in the files."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from rmqtool.commands import rows
from rmqtool.findings import Structure
from rmqtool.findings.consumequeue import BQ_BAD_UNIT, CQ_BAD_UNIT, CQ_EXT_UNIT, CQ_GAP_FILE, CQ_ZERO_INSIDE
from rmqtool.findings.places import IO_UNREADABLE
from rmqtool.formats import consumequeue, struct_of
from rmqtool.scan.window import Window
from rmqtool.store import PathKind

if TYPE_CHECKING:
    import struct
    from collections.abc import Callable, Iterator

    from rmqtool.findings import FindingCode
    from rmqtool.store import QueueFiles, Segment

_UNIT = struct_of(consumequeue.UNIT)
_BATCH_UNIT = struct_of(consumequeue.BATCH_UNIT)
_EXT_HEAD = struct_of(consumequeue.EXT_HEAD)
_EXT_END = consumequeue.EXT_END.build({})


class _UnitKind(NamedTuple):
    """Units of one length: their fields, the damage that they can be, and what makes rows of them."""

    fields: struct.Struct
    damage: FindingCode
    row: Callable[[QueueFiles, Segment, int, tuple[int, ...]], rows.Row]


def dump_queue(queue: QueueFiles, from_queue_offset: int = 0) -> Iterator[rows.Row]:
    """Yield the units of one queue in the order of its files, with what is wrong between them.

    Args:
        queue: The queue.
        from_queue_offset: Units of a consume queue below this are not read.
    """
    dump_file = _DUMPS[queue.kind]
    first_byte = from_queue_offset * _UNIT.size if queue.kind is PathKind.CONSUMEQUEUE else 0
    segments = queue.files.segments
    for gap in queue.files.gaps():
        sentence = f"{gap.before.label} does not start at {gap.expected}, where {gap.after.label} ends"
        yield _damage(gap.before, 0, 0, CQ_GAP_FILE, sentence)
    for number, segment in enumerate(segments):
        if segment.stop <= first_byte:
            continue
        window = Window(segment)
        is_last = not any(_begins(later) for later in segments[number + 1 :])
        yield from dump_file(queue, segment, window, max(0, first_byte - segment.start), is_last)
        for bad in window.take_unreadable():
            sentence = f"{bad.length} bytes of {segment.label} cannot be read; taken for zeros"
            yield _damage(segment, bad.position, bad.length, IO_UNREADABLE, sentence)
        segment.close()


def _begins(segment: Segment) -> bool:
    return any(segment.read_at(0, _UNIT.size))


def _damage(segment: Segment, position: int, length: int, code: FindingCode, sentence: str) -> rows.Damage:
    return rows.Damage(segment.label, position, None, length, code, sentence, Structure.CONSUMEQUEUE)


def _zeros(segment: Segment, window: Window, position: int, width: int, is_last: bool) -> tuple[int, bool]:
    """Return where the zero units from ``position`` on end, and whether they lie inside the queue."""
    stop = window.skip_zeros(position)
    if stop >= segment.size_bytes:
        return segment.size_bytes, not is_last
    return position + (stop - position) // width * width, True


def _dump_units(
    queue: QueueFiles, segment: Segment, window: Window, position: int, is_last: bool, kind: _UnitKind
) -> Iterator[rows.Row]:
    """Yield units of one length."""
    width = kind.fields.size
    while position + width <= segment.size_bytes:
        window.focus(position)
        data = window.read_at(position, width)
        if len(data) < width:
            break
        if not any(data):
            stop, inside = _zeros(segment, window, position, width, is_last)
            if inside:
                sentence = f"zero units from {position} to {stop} of {segment.label}, before valid ones"
                yield _damage(segment, position, stop - position, CQ_ZERO_INSIDE, sentence)
            position = stop
            continue
        yield kind.row(queue, segment, position, kind.fields.unpack(data))
        position += width
    yield from _rest(segment, window, position, kind.damage)


def _rest(segment: Segment, window: Window, position: int, code: FindingCode) -> Iterator[rows.Damage]:
    """Yield damage for bytes at the end of a file that are less than a unit, unless they are zero."""
    left = segment.size_bytes - position
    if left > 0 and any(window.read_at(position, left)):
        yield _damage(segment, position, left, code, f"{segment.label} ends inside a unit")


def _unit(
    queue: QueueFiles, segment: Segment, position: int, fields: tuple[int, ...]
) -> rows.Unit | rows.Damage:
    physical_offset, size, tags_code = fields
    if physical_offset < 0 or size <= 0:
        sentence = f"unit at {position} of {segment.label}: offset {physical_offset}, size {size}"
        return _damage(segment, position, _UNIT.size, CQ_BAD_UNIT, sentence)
    kind = rows.Preblank if fields == (0, consumequeue.PREBLANK_SIZE, 0) else rows.Unit
    queue_offset = (segment.start + position) // _UNIT.size
    place = (segment.label, position, queue.topic, queue.queue_id, queue_offset)
    return kind(*place, physical_offset, size, tags_code)


def _batch_unit(
    queue: QueueFiles, segment: Segment, position: int, fields: tuple[int, ...]
) -> rows.BatchUnit | rows.Damage:
    physical_offset, size, tags_code, time_ms, base, batch_size, compacted, _ = fields
    if physical_offset < 0 or size <= 0 or base < 0 or batch_size <= 0:
        sentence = f"batch unit at {position} of {segment.label} is impossible"
        return _damage(segment, position, _BATCH_UNIT.size, BQ_BAD_UNIT, sentence)
    place = (segment.label, position, queue.topic, queue.queue_id)
    return rows.BatchUnit(*place, physical_offset, size, tags_code, time_ms, base, batch_size, compacted)


def _dump_ext_units(
    queue: QueueFiles, segment: Segment, window: Window, position: int, _is_last: bool
) -> Iterator[rows.Row]:
    """Yield ext units; their lengths chain them, so the first wrong one ends the file."""
    while position + _EXT_HEAD.size <= segment.size_bytes:
        window.focus(position)
        data = window.read_at(position, _EXT_HEAD.size)
        if len(data) < _EXT_HEAD.size or data.startswith((_EXT_END, b"\0\0")):
            return
        size, tags_code, store_timestamp_ms, bit_map_size = _EXT_HEAD.unpack(data)
        bit_map = window.read_at(position + _EXT_HEAD.size, max(bit_map_size, 0))
        if size != _EXT_HEAD.size + bit_map_size or bit_map_size < 0 or len(bit_map) < bit_map_size:
            sentence = f"ext unit at {position} of {segment.label}: size {size}, bit map of {bit_map_size}"
            yield _damage(segment, position, segment.size_bytes - position, CQ_EXT_UNIT, sentence)
            return
        address = consumequeue.EXT_ADDRESS_BASE + segment.start + position
        place = (segment.label, position, queue.topic, queue.queue_id)
        yield rows.ExtUnit(*place, address, size, tags_code, store_timestamp_ms, bit_map)
        position += size


_DUMPS: dict[PathKind, Callable[[QueueFiles, Segment, Window, int, bool], Iterator[rows.Row]]] = {
    PathKind.CONSUMEQUEUE: partial(_dump_units, kind=_UnitKind(_UNIT, CQ_BAD_UNIT, _unit)),
    PathKind.BATCHCONSUMEQUEUE: partial(_dump_units, kind=_UnitKind(_BATCH_UNIT, BQ_BAD_UNIT, _batch_unit)),
    PathKind.CONSUMEQUEUE_EXT: _dump_ext_units,
}
