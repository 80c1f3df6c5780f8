"""Entries of queues and index as rows to compare, whatever their files; the index's tables."""

from __future__ import annotations

import zlib
from dataclasses import replace
from itertools import islice
from typing import TYPE_CHECKING, Any

import numpy as np

from rmqtool.commands.diff import Change, Comparison, Difference, DifferenceLimiter, Value
from rmqtool.commands.diff.align import NUMBER, ORDER, TIME, EntryKind
from rmqtool.derived.ext_files import ExtFile, ExtReader
from rmqtool.derived.index_files import IndexFile, open_index_file
from rmqtool.derived.queue_files import QueueReader, Units
from rmqtool.formats import consumequeue as formats
from rmqtool.formats import layout
from rmqtool.formats.consumequeue import BATCH_UNITS
from rmqtool.formats.index import HEADER
from rmqtool.store import FileQueue, PathKind

if TYPE_CHECKING:
    from collections.abc import Iterator

    import numpy.typing as npt

    from rmqtool.store import Store

    Rows = npt.NDArray[Any]


_NO_EXT = -1
_ROW = np.dtype([(name, np.int64) for name in (ORDER, NUMBER, TIME, "physical_offset", "size", "tags_code")])
_EXT_ROW = np.dtype([*_ROW.descr, ("ext_time_ms", np.int64), ("bit_map_crc", np.int64)])
_IDENTITY = (ORDER, "physical_offset", "size", "tags_code")


_UNIT_VALUES = {"physicalOffset": "physical_offset", "size": "size", "tagsCode": "tags_code"}
UNIT_ENTRIES = EntryKind(
    structure=PathKind.CONSUMEQUEUE.value,
    plural="units",
    identity=_IDENTITY,
    by_order=True,
    place=("queue_offset", ORDER),
    label="{queue} #{order}",
    values=_UNIT_VALUES,
)
EXT_UNIT_ENTRIES = replace(
    UNIT_ENTRIES,
    identity=(*_IDENTITY, "ext_time_ms", "bit_map_crc"),
    by_order=True,
    values={**_UNIT_VALUES, "extStoreTimestamp": "ext_time_ms", "bitMapCrc": "bit_map_crc"},
)
"""Units with the tags code, store time and bit map of their ext units instead of an address."""


def unit_rows(files: FileQueue, comparison: Comparison) -> Iterator[Rows]:
    """Yield the units of a queue; zeros and pre-blanks stand for no unit."""
    reader = QueueReader(files, formats.UNITS)
    for units in reader:
        rows = _rows(units, _ROW)
        if len(rows):
            yield rows
    comparison.note_unreadable(reader.unreadable)


def ext_unit_rows(files: FileQueue, ext_files: FileQueue, comparison: Comparison) -> Iterator[Rows]:
    """Yield the units of a queue with the fields of their ext units."""
    ext, reader = ExtReader(ext_files), QueueReader(files, formats.UNITS)
    for units in reader:
        rows = _rows(units, _EXT_ROW)
        rows["ext_time_ms"] = rows["bit_map_crc"] = _NO_EXT
        for number in np.flatnonzero(rows["tags_code"] <= formats.EXT_ADDRESS_MAX).tolist():
            found = ext.at(int(rows["tags_code"][number]))
            if found is not None and found.bit_map is not None:
                rows["tags_code"][number] = found.head.tags_code
                rows["ext_time_ms"][number] = found.head.store_timestamp_ms
                rows["bit_map_crc"][number] = zlib.crc32(found.bit_map)
        if len(rows):
            yield rows
    comparison.note_unreadable(reader.unreadable)


def _rows(units: Units, dtype: np.dtype[Any]) -> Rows:
    rows = np.zeros(len(units), dtype)
    rows[ORDER] = rows[NUMBER] = units.first_number + np.arange(len(units))
    rows["physical_offset"] = units.rows["physicalOffset"]
    rows["size"] = units.rows["size"]
    rows["tags_code"] = units.rows["tagsCode"]
    rest = rows["physical_offset"] | rows["tags_code"]
    is_used = (rest != 0) | ((rows["size"] != 0) & (rows["size"] != formats.PREBLANK_SIZE))
    used: Rows = rows[is_used]
    return used


_COLUMNS = {
    "physicalOffset": "physical_offset",
    "size": "size",
    "tagsCode": "tags_code",
    "storeTimestamp": "store_timestamp_ms",
    "batchSize": "batch_size",
    "compactedOffset": "compacted_offset",
}
_BATCH_ROW = np.dtype([(name, np.int64) for name in (ORDER, NUMBER, TIME, *_COLUMNS.values())])
_EXT_UNIT_ROW = np.dtype(
    [(name, np.int64) for name in (ORDER, NUMBER, TIME, "physical_offset", "tags_code", "bit_map_crc")]
)
_CHUNK = 1 << 16


BATCH_ENTRIES = EntryKind(
    structure=PathKind.BATCHCONSUMEQUEUE.value,
    plural="batch units",
    identity=(ORDER, *_COLUMNS.values()),
    by_order=False,
    place=("queue_offset", ORDER),
    label="{queue} #{order}",
    values={"msgBaseOffset": ORDER, **_COLUMNS},
)
LONE_EXT_ENTRIES = EntryKind(
    structure=PathKind.CONSUMEQUEUE_EXT.value,
    plural="ext units",
    identity=(TIME, "tags_code", "bit_map_crc"),
    by_order=False,
    place=("item", NUMBER),
    label="{queue} ext unit {number}",
    values={"tagsCode": "tags_code", "storeTimestamp": TIME, "bitMapCrc": "bit_map_crc"},
)
"""Units, in their order, of an ext queue whose consume queue is not shown."""


def batch_rows(files: FileQueue, comparison: Comparison) -> Iterator[Rows]:
    """Yield the units of a batch consume queue; zeros stand for no unit."""
    total, reader = 0, QueueReader(files, BATCH_UNITS)
    for units in reader:
        used = units.rows[
            np.frombuffer(units.rows.tobytes(), np.uint8).reshape(-1, units.unit_size).any(axis=1)
        ]
        rows = np.zeros(len(used), _BATCH_ROW)
        rows[ORDER] = used["msgBaseOffset"]
        rows[NUMBER] = total + np.arange(len(used))
        for name, column in _COLUMNS.items():
            rows[column] = used[name]
        total += len(used)
        if len(rows):
            yield rows
    comparison.note_unreadable(reader.unreadable)


def lone_ext_rows(files: FileQueue, _comparison: Comparison) -> Iterator[Rows]:
    """Yield the units of an ext queue."""
    total = 0
    units = (
        (unit.head, zlib.crc32(unit.bit_map))
        for segment in files
        for unit in ExtFile(segment).rows()
        if unit.bit_map is not None
    )
    while chunk := list(islice(units, _CHUNK)):
        numbers = range(total, total + len(chunk))
        values = [
            (number, number, head.store_timestamp_ms, 0, head.tags_code, bit_map_crc)
            for number, (head, bit_map_crc) in zip(numbers, chunk, strict=True)
        ]
        yield np.array(values, _EXT_UNIT_ROW)
        total += len(chunk)


_INDEX_ROW = np.dtype(
    [(name, np.int64) for name in (ORDER, NUMBER, TIME, "physical_offset")] + [("key_hash", np.int32)]
)
_SECOND_MS = 1000
_HEADER = tuple(field.name for field in layout(HEADER))


INDEX_ENTRIES = EntryKind(
    structure="index",
    plural="index entries",
    identity=(ORDER, "key_hash"),
    by_order=False,
    slack_ms=_SECOND_MS - 1,
    place=("item", NUMBER),
    label="entry {number}, of the record at {physical_offset}",
    values={"keyHash": "key_hash", "physicalOffset": "physical_offset", "storeTimestamp": TIME},
)
"""An item's time is in seconds from the begin of its file, so times are only known to the second."""


def index_rows(store: Store, comparison: Comparison) -> Iterator[Rows]:
    """Yield the items of all files of a store, in the order of the names."""
    total = 0
    for file in store.index_files:
        opened = open_index_file(file, store.settings.index_geometry)
        begin_ms = opened.header.begin_timestamp_ms
        for items in opened.item_columns():
            rows = np.zeros(len(items), _INDEX_ROW)
            rows[ORDER] = rows["physical_offset"] = items.physical_offsets
            rows[NUMBER] = total + np.arange(len(items))
            rows["key_hash"] = items.key_hashes
            rows[TIME] = begin_ms + items.time_diffs * _SECOND_MS
            if items.first == 1:  # measured from the end of the file before (IndexFile#putKey)
                rows[TIME][0] = begin_ms
            total += len(items)
            yield rows
        comparison.note_unreadable([(file, opened.unreadable)])
        file.close()


def diff_tables(a: Store, b: Store, comparison: Comparison) -> Iterator[Difference]:
    """Compare headers, slots and chains of indexes with equal entries, where the files have equal bounds.

    Elsewhere they follow from where a file begins, and show nothing about the entries.
    """
    files = [
        [open_index_file(file, store.settings.index_geometry) for file in store.index_files]
        for store in (a, b)
    ]
    shapes = [[(one.geometry, one.used) for one in side if one.used] for side in files]
    if shapes[0] != shapes[1]:
        comparison.note("the index files begin at other entries; their headers and chains are not compared")
        return
    told = DifferenceLimiter(comparison, "index")
    used = [[one for one in side if one.used] for side in files]
    for ours, theirs in zip(*used, strict=True):
        yield from told.tell_all(_diff_file(ours, theirs))
        ours.file.close()
        theirs.file.close()
    yield from told.finish()


def _diff_file(one: IndexFile, other: IndexFile) -> Iterator[Difference]:
    labels = one.file.label if one.file.label == other.file.label else f"{one.file.label}, {other.file.label}"
    header = zip(_HEADER, one.header, other.header, strict=True)
    wrong = {name: (ours, theirs) for name, ours, theirs in header if ours != theirs}
    if wrong:
        text = ", ".join(f"{name} {ours} and {theirs}" for name, (ours, theirs) in wrong.items())
        a: dict[str, Value] = {name: pair[0] for name, pair in wrong.items()}
        b: dict[str, Value] = {name: pair[1] for name, pair in wrong.items()}
        yield Difference("index", Change.CHANGED, f"header of {labels}: {text}", a=a, b=b)
    for (first, ours), (_, theirs) in zip(one.slot_columns(), other.slot_columns(), strict=True):
        for slot in np.flatnonzero(ours != theirs).tolist():
            yield _link(f"slot {first + slot} of {labels}", int(ours[slot]), int(theirs[slot]))
    for mine, yours in zip(one.item_columns(), other.item_columns(), strict=True):
        for item in np.flatnonzero(mine.previous != yours.previous).tolist():
            name = f"the chain at item {mine.first + item} of {labels}"
            yield _link(name, int(mine.previous[item]), int(yours.previous[item]))


def _link(name: str, ours: int, theirs: int) -> Difference:
    sentence = f"{name} points to item {ours} and {theirs}"
    return Difference("index", Change.CHANGED, sentence, a={"item": ours}, b={"item": theirs})
