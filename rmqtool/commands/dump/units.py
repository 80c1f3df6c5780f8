"""Units of consume queues, batch consume queues and ext queues, in the order of the files."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

from rmqtool import rows
from rmqtool.derived.ext_files import ExtFile
from rmqtool.derived.queue_files import CutUnit, QueueFile, ZeroUnits
from rmqtool.findings import Structure
from rmqtool.findings.consumequeue import BQ_BAD_UNIT, CQ_BAD_UNIT, CQ_EXT_UNIT, CQ_GAP_FILE, CQ_ZERO_INSIDE
from rmqtool.findings.places import IO_UNREADABLE
from rmqtool.formats.consumequeue import (
    BATCH_UNIT_SIZE,
    BATCH_UNITS,
    EXT_ADDRESS_BASE,
    PREBLANK_SIZE,
    UNIT_SIZE,
    UNITS,
    BatchUnitFields,
    UnitFields,
)
from rmqtool.javacompat import tags_hash
from rmqtool.scan.window import Window
from rmqtool.store import PathKind

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from rmqtool.commands.dump.request import DumpRequest
    from rmqtool.findings import FindingCode
    from rmqtool.formats import Decoder
    from rmqtool.progress import Progress
    from rmqtool.store import QueueFiles, Segment, Store


class _UnitKind(NamedTuple):
    """Units of one length: their decoder, the code of their damage, and the maker of their rows."""

    units: Decoder[Any]
    damage: FindingCode
    row: Callable[[QueueFiles, Segment, int, Any], rows.Row]


def dump_queues(store: Store, kind: PathKind, request: DumpRequest, progress: Progress) -> Iterator[rows.Row]:
    """Yield the requested rows of the queues of a kind."""
    wanted, done = request.messages, 0
    progress.stage(kind.value, None)
    for queue in store.queues(kind):
        if wanted.admits_queue(queue.topic, queue.queue_id):
            for row in dump_queue(queue, wanted.from_queue_offset or 0):
                if isinstance(row, rows.Damage) or admits_unit(request, row):
                    yield row
            done += sum(segment.size_bytes for segment in queue.files)
            progress.advance(done)


def admits_unit(request: DumpRequest, row: rows.Row) -> bool:
    """Whether the request admits a unit."""
    wanted = request.messages
    if wanted.tag is not None and getattr(row, "tags_code", None) != tags_hash(wanted.tag):
        return False
    if isinstance(row, rows.BatchUnit | rows.ExtUnit):
        time = row.store_timestamp_ms
        if time < (wanted.begin_ms or time) or time > (wanted.end_ms or time):
            return False
    return isinstance(row, rows.ExtUnit) or request.admits_offset(getattr(row, "physical_offset", 0))


def dump_queue(queue: QueueFiles, from_queue_offset: int = 0) -> Iterator[rows.Row]:
    """Yield the units of one queue in the order of its files, with the damage between them.

    Units of a consume queue below ``from_queue_offset`` are not read.
    """
    dump_file = UNIT_DUMPS[queue.kind]
    first_byte = from_queue_offset * UNIT_SIZE if queue.kind is PathKind.CONSUMEQUEUE else 0
    segments = queue.files.segments
    for gap in queue.files.gaps():
        sentence = f"{gap.before.label} does not start at {gap.expected}, where {gap.after.label} ends"
        yield _damage(gap.before, 0, 0, CQ_GAP_FILE, sentence)
    for number, segment in enumerate(segments):
        if segment.stop <= first_byte:
            continue
        window = Window(segment)
        is_last = not any(QueueFile(later, UNITS).is_begun for later in segments[number + 1 :])
        yield from dump_file(queue, segment, window, max(0, first_byte - segment.start), is_last)
        for bad in window.take_unreadable():
            sentence = f"{bad.length} bytes of {segment.label} cannot be read; taken for zeros"
            yield _damage(segment, bad.position, bad.length, IO_UNREADABLE, sentence)
        segment.close()


def _damage(segment: Segment, position: int, length: int, code: FindingCode, sentence: str) -> rows.Damage:
    return rows.Damage(segment.label, position, None, length, code, sentence, Structure.CONSUMEQUEUE)


def _dump_units(
    queue: QueueFiles, segment: Segment, window: Window, position: int, is_last: bool, kind: _UnitKind
) -> Iterator[rows.Row]:
    for found in QueueFile(segment, kind.units).rows(window, position):
        if isinstance(found, CutUnit):
            sentence = f"{segment.label} ends inside a unit"
            yield _damage(segment, found.position, found.length, kind.damage, sentence)
        elif not isinstance(found, ZeroUnits):
            yield kind.row(queue, segment, found.position, found.unit)
        elif not (found.to_end and is_last):
            length = found.stop - found.position
            where = f"from {found.position} to {found.stop} of {segment.label}"
            sentence = f"zero units {where}, before valid ones"
            yield _damage(segment, found.position, length, CQ_ZERO_INSIDE, sentence)


def _unit(queue: QueueFiles, segment: Segment, position: int, unit: UnitFields) -> rows.Unit | rows.Damage:
    if unit.physical_offset < 0 or unit.size <= 0:
        sentence = f"unit at {position} of {segment.label}: offset {unit.physical_offset}, size {unit.size}"
        return _damage(segment, position, UNIT_SIZE, CQ_BAD_UNIT, sentence)
    kind = rows.Preblank if unit == (0, PREBLANK_SIZE, 0) else rows.Unit
    queue_offset = (segment.start + position) // UNIT_SIZE
    return kind(segment.label, position, queue.topic, queue.queue_id, queue_offset, *unit)


def _batch_unit(
    queue: QueueFiles, segment: Segment, position: int, unit: BatchUnitFields
) -> rows.BatchUnit | rows.Damage:
    if unit.physical_offset < 0 or unit.size <= 0 or unit.msg_base_offset < 0 or unit.batch_size <= 0:
        sentence = f"batch unit at {position} of {segment.label} is impossible"
        return _damage(segment, position, BATCH_UNIT_SIZE, BQ_BAD_UNIT, sentence)
    return rows.BatchUnit(segment.label, position, queue.topic, queue.queue_id, *unit[:-1])


def _dump_ext_units(
    queue: QueueFiles, segment: Segment, window: Window, position: int, _is_last: bool
) -> Iterator[rows.Row]:
    """Yield ext units; their sizes chain them, so the first wrong one ends the file."""
    for unit in ExtFile(segment, window).rows(position):
        size, tags_code, store_timestamp_ms, bit_map_size = unit.head
        if unit.bit_map is None:
            where = f"ext unit at {unit.position} of {segment.label}"
            sentence = f"{where}: size {size}, bit map of {bit_map_size}"
            yield _damage(segment, unit.position, segment.size_bytes - unit.position, CQ_EXT_UNIT, sentence)
            return
        address = EXT_ADDRESS_BASE + segment.start + unit.position
        place = (segment.label, unit.position, queue.topic, queue.queue_id)
        yield rows.ExtUnit(*place, address, size, tags_code, store_timestamp_ms, unit.bit_map)


UNIT_DUMPS: dict[PathKind, Callable[[QueueFiles, Segment, Window, int, bool], Iterator[rows.Row]]] = {
    PathKind.CONSUMEQUEUE: partial(_dump_units, kind=_UnitKind(UNITS, CQ_BAD_UNIT, _unit)),
    PathKind.BATCHCONSUMEQUEUE: partial(_dump_units, kind=_UnitKind(BATCH_UNITS, BQ_BAD_UNIT, _batch_unit)),
    PathKind.CONSUMEQUEUE_EXT: _dump_ext_units,
}
