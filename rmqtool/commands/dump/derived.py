"""Units, index files and the JSON files in ``config/``, as they lie on disk."""

from __future__ import annotations

import re
from contextlib import suppress
from dataclasses import replace
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, Any, NamedTuple

from rmqtool import rows
from rmqtool.derived.ext_files import ExtFile
from rmqtool.derived.index_files import IndexFile
from rmqtool.derived.queue_files import CutUnit, QueueFile, ZeroUnits
from rmqtool.errors import EnvironmentFailureError, UsageError
from rmqtool.findings import FindingCode, Severity, Structure, codes
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
from rmqtool.formats.entry import ENTRY_UNITS, EntryUnit
from rmqtool.formats.index import HEADER_SIZE
from rmqtool.javacompat import tags_hash
from rmqtool.store import PathKind, QueueFiles, Segment, Store, StoreFile
from rmqtool.store.broker_conf import parse_java_properties
from rmqtool.store.broker_json import parse_broker_json, read_config_text
from rmqtool.store.kinds import BACKUP
from rmqtool.store.ledger import PROGRESS
from rmqtool.store.segments import WINDOW_BYTES, Window

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from rmqtool.commands.dump import DumpRequest
    from rmqtool.formats import Decoder
    from rmqtool.progress import Progress
    from rmqtool.store.geometry import Geometry


_NUMBER = re.compile("-?[0-9]{1,19}")


def dump_config(store: Store) -> Iterator[rows.ConfigEntry | rows.Damage]:
    """Yield the entries of the config files that are shown, and of the ``.bak`` after a bad one.

    Java: ``ConfigManager#load`` (4.9.8, 5.3.3), which takes the ``.bak`` in the same cases.
    """
    for file, backup in store.config_files:
        entries = list(_file_rows(file))
        yield from entries
        if backup is not None and any(isinstance(row, rows.Damage) for row in entries):
            yield from _file_rows(backup)


def _file_rows(file: StoreFile) -> Iterator[rows.ConfigEntry | rows.Damage]:
    try:
        text = read_config_text(file.path)
        if not text.strip():
            yield _bad_config(file, "is empty")
            return
        number = PROGRESS.get(file.path.name.removesuffix(BACKUP))
        document = parse_broker_json(text) if number is None else _progress(text, number)
    except (EnvironmentFailureError, UsageError, ValueError) as failure:
        yield _bad_config(file, f"cannot be decoded: {failure}")
        return
    yield from _entries(file.label, document)


def _progress(text: str, number: str) -> dict[str, str | int]:
    """Return the properties of a member of DLedger; ValueError without the number that they are for."""
    properties = parse_java_properties(text.encode("iso-8859-1", "replace"))
    numbers = {name: int(value) for name, value in properties.items() if _NUMBER.fullmatch(value)}
    if number not in numbers:
        raise ValueError(f"no number {number}")
    return properties | numbers


def _entries(label: str, document: object) -> Iterator[rows.ConfigEntry]:
    """Yield the members of the tables in a document; any other member is one entry."""
    if not isinstance(document, dict):
        yield rows.ConfigEntry(label, None, None, document)
        return
    for name, value in document.items():
        if isinstance(value, dict):
            for entry, content in value.items():
                yield rows.ConfigEntry(label, name, entry, content)
        else:
            yield rows.ConfigEntry(label, None, name, value)


def _bad_config(file: StoreFile, reason: str) -> rows.Damage:
    place = (file.label, 0, None, file.size_bytes)
    return rows.Damage(*place, codes.ST_CONFIG, f"{file.label} {reason}", Structure.STORE, Severity.ERROR)


_LONGEST_CHAIN = 10_000
"""Items of one chain that are listed; chains this long exist in damaged files only."""


def dump_index_file(
    file: StoreFile, geometry: Geometry, *, assumed: bool = False, slots: bool = False, chains: bool = False
) -> Iterator[rows.Row]:
    """Yield the header of an index file and its items, on request the used slots and their chains.

    ``assumed`` is whether ``geometry``, which no byte of the file shows, is only the broker's default, with
    which no size is compared.
    """
    index_file = IndexFile(file, geometry, WINDOW_BYTES)
    if index_file.is_short:
        yield _bad_index(file, 0, file.size_bytes, codes.IX_SIZE, f"{file.label} is shorter than a header")
        return
    yield rows.IndexHeader(file.label, *index_file.header)
    yield from _header_damage(index_file, index_file.file.size_bytes if assumed else geometry.size_bytes)
    if slots:
        for number, item in index_file.used_slots():
            yield rows.Slot(file.label, number, item)
    for number, entry in index_file.items():
        slot = entry.key_hash % geometry.slots if entry.key_hash >= 0 else None
        yield rows.Item(file.label, number, slot, *entry)
    if chains:
        for number, _ in index_file.used_slots():
            yield _chain(index_file, number)
    for bad in index_file.take_unreadable():
        sentence = f"{bad.length} bytes of {file.label} cannot be read; taken for zeros"
        yield _bad_index(file, bad.position, bad.length, codes.IO_UNREADABLE, sentence)


def _header_damage(index_file: IndexFile, size_bytes: int) -> Iterator[rows.Damage]:
    file, count = index_file.file, index_file.header.index_count
    if file.size_bytes != size_bytes:
        sentence = f"{file.label} has {file.size_bytes} bytes, its settings require {size_bytes}"
        yield _bad_index(file, 0, file.size_bytes, codes.IX_SIZE, sentence)
    if not 0 <= count <= index_file.item_room + 1:
        sentence = f"indexCount of {file.label} is {count}, it has room for {index_file.item_room}"
        yield _bad_index(file, 0, HEADER_SIZE, codes.IX_COUNT, sentence)


def _chain(index_file: IndexFile, slot: int) -> rows.Chain:
    items = list(islice(index_file.chain(slot), _LONGEST_CHAIN))
    numbers = [number for number, _ in items]
    ends = index_file.chain_problem(slot, items[-1] if items else None) or "ends"
    ends = "cut here" if len(items) == _LONGEST_CHAIN else ends
    return rows.Chain(index_file.file.label, slot, numbers, ends)


def _bad_index(file: StoreFile, position: int, length: int, code: FindingCode, sentence: str) -> rows.Damage:
    return rows.Damage(file.label, position, None, length, code, sentence, Structure.INDEX)


class _UnitKind(NamedTuple):
    """Units of one length: their decoder, the code of their damage, and the maker of their rows."""

    units: Decoder[Any]
    damage: FindingCode
    row: Callable[[QueueFiles, Segment, int, Any], rows.Row]


_LISTED_AHEAD = 16
"""Queues that are listed for the total before the rows of each, as to list all would delay the first row."""


def dump_queues(store: Store, request: DumpRequest, progress: Progress, kind: PathKind) -> Iterator[rows.Row]:
    """Yield the requested rows of the queues of a kind."""
    wanted, done, total, is_listed = request.messages, 0, 0, False
    progress.stage(kind.value, None)
    sizes = _sizes(_admitted(store, request, kind))
    for queue in _admitted(store, request, kind):
        if not is_listed:
            some = list(islice(sizes, _LISTED_AHEAD))
            total += sum(some)
            if is_listed := len(some) < _LISTED_AHEAD:
                progress.stage(kind.value, total)
                progress.advance(done)
        for row in dump_queue(queue, wanted.from_queue_offset or 0):
            if isinstance(row, rows.Damage) or admits_unit(request, row):
                yield row
        done += queue.size_bytes
        progress.advance(done)


def _admitted(store: Store, request: DumpRequest, kind: PathKind) -> Iterator[QueueFiles]:
    admits = request.messages.admits_queue
    return (queue for queue in store.queues(kind) if admits(queue.topic, queue.queue_id))


def _sizes(queues: Iterator[QueueFiles]) -> Iterator[int]:
    with suppress(EnvironmentFailureError):  # the dump ends with it, after the rows of the queues before
        for queue in queues:
            yield queue.size_bytes


def dump_entry_index(store: Store, request: DumpRequest, progress: Progress) -> Iterator[rows.Row]:
    """Yield the units of DLedger's index of entries; what is wrong with them is of one kind."""
    for row in dump_queues(store, request, progress, PathKind.ENTRY_INDEX):
        if isinstance(row, rows.Damage) and row.code is not codes.IO_UNREADABLE:
            yield replace(row, code=codes.DL_UNIT, structure=Structure.STORE)
        else:
            yield row


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
        yield _damage(gap.before, 0, 0, codes.CQ_GAP_FILE, sentence)
    for number, segment in enumerate(segments):
        if segment.stop <= first_byte:
            continue
        window = Window(segment)
        is_last = not any(QueueFile(later, UNITS).is_begun for later in segments[number + 1 :])
        yield from dump_file(queue, segment, window, max(0, first_byte - segment.start), is_last)
        for bad in window.take_unreadable():
            sentence = f"{bad.length} bytes of {segment.label} cannot be read; taken for zeros"
            yield _damage(segment, bad.position, bad.length, codes.IO_UNREADABLE, sentence)
        segment.close()


def _damage(segment: Segment, position: int, length: int, code: FindingCode, sentence: str) -> rows.Damage:
    return rows.Damage(segment.label, position, None, length, code, sentence, Structure.CONSUMEQUEUE)


def _dump_units(
    queue: QueueFiles, segment: Segment, window: Window, position: int, is_last: bool, kind: _UnitKind
) -> Iterator[rows.Row]:
    for part in QueueFile(segment, kind.units).rows(window, position):
        if isinstance(part, CutUnit):
            sentence = f"{segment.label} ends inside a unit"
            yield _damage(segment, part.position, part.length, kind.damage, sentence)
        elif not isinstance(part, ZeroUnits):
            yield kind.row(queue, segment, part.position, part.unit)
        elif not (part.to_end and is_last):
            length = part.stop - part.position
            where = f"from {part.position} to {part.stop} of {segment.label}"
            sentence = f"zero units {where}, before valid ones"
            yield _damage(segment, part.position, length, codes.CQ_ZERO_INSIDE, sentence)


def _unit(queue: QueueFiles, segment: Segment, position: int, unit: UnitFields) -> rows.Unit | rows.Damage:
    if unit.physical_offset < 0 or unit.size <= 0:
        sentence = f"unit at {position} of {segment.label}: offset {unit.physical_offset}, size {unit.size}"
        return _damage(segment, position, UNIT_SIZE, codes.CQ_BAD_UNIT, sentence)
    kind = rows.Preblank if unit == (0, PREBLANK_SIZE, 0) else rows.Unit
    queue_offset = (segment.start + position) // UNIT_SIZE
    return kind(segment.label, position, queue.topic, queue.queue_id, queue_offset, *unit)


def _batch_unit(
    queue: QueueFiles, segment: Segment, position: int, unit: BatchUnitFields
) -> rows.BatchUnit | rows.Damage:
    if unit.physical_offset < 0 or unit.size <= 0 or unit.msg_base_offset < 0 or unit.batch_size <= 0:
        sentence = f"batch unit at {position} of {segment.label} is impossible"
        return _damage(segment, position, BATCH_UNIT_SIZE, codes.BQ_BAD_UNIT, sentence)
    return rows.BatchUnit(segment.label, position, queue.topic, queue.queue_id, *unit[:-1])


def _entry_unit(
    _queue: QueueFiles, segment: Segment, position: int, unit: EntryUnit
) -> rows.EntryUnit | rows.Damage:
    if unit.index * ENTRY_UNITS.size != segment.start + position or unit.pos < 0 or unit.size <= 0:
        place = f"unit at {position} of {segment.label}"
        sentence = f"{place}: entry {unit.index}, pos {unit.pos}, size {unit.size}"
        return _damage(segment, position, ENTRY_UNITS.size, codes.DL_UNIT, sentence)
    return rows.EntryUnit(segment.label, position, *unit)


def _dump_ext_units(
    queue: QueueFiles, segment: Segment, window: Window, position: int, _is_last: bool
) -> Iterator[rows.Row]:
    """Yield ext units; their sizes chain them, so the first wrong one ends the file."""
    for unit in ExtFile(segment, window).rows(position):
        size, tags_code, store_timestamp_ms, bit_map_size = unit.head
        if unit.bit_map is None:
            where = f"ext unit at {unit.position} of {segment.label}"
            sentence = f"{where}: size {size}, bit map of {bit_map_size}"
            yield _damage(
                segment, unit.position, segment.size_bytes - unit.position, codes.CQ_EXT_UNIT, sentence
            )
            return
        address = EXT_ADDRESS_BASE + segment.start + unit.position
        place = (segment.label, unit.position, queue.topic, queue.queue_id)
        yield rows.ExtUnit(*place, address, size, tags_code, store_timestamp_ms, unit.bit_map)


UNIT_DUMPS: dict[PathKind, Callable[[QueueFiles, Segment, Window, int, bool], Iterator[rows.Row]]] = {
    PathKind.CONSUMEQUEUE: partial(_dump_units, kind=_UnitKind(UNITS, codes.CQ_BAD_UNIT, _unit)),
    PathKind.BATCHCONSUMEQUEUE: partial(
        _dump_units, kind=_UnitKind(BATCH_UNITS, codes.BQ_BAD_UNIT, _batch_unit)
    ),
    PathKind.CONSUMEQUEUE_EXT: _dump_ext_units,
    PathKind.ENTRY_INDEX: partial(_dump_units, kind=_UnitKind(ENTRY_UNITS, codes.DL_UNIT, _entry_unit)),
}
