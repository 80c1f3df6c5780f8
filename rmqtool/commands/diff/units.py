"""Units of consume queues, batch consume queues and ext queues compared, whatever their files."""

from __future__ import annotations

import zlib
from itertools import islice
from typing import TYPE_CHECKING, Any

import numpy as np

from rmqtool.commands.diff.align import NUMBER, ORDER, TIME, AlignRules, Entries
from rmqtool.derived.ext_files import ExtFile, ExtReader
from rmqtool.derived.queue_files import QueueReader, Units
from rmqtool.formats import consumequeue as formats
from rmqtool.formats.consumequeue import BATCH_UNITS
from rmqtool.store import FileQueue, PathKind

if TYPE_CHECKING:
    from collections.abc import Iterator

    import numpy.typing as npt

    from rmqtool.arrays import Row
    from rmqtool.commands.diff.model import Comparison, Value

    Rows = npt.NDArray[Any]


_NO_EXT = -1
_ROW = np.dtype([(name, np.int64) for name in (ORDER, NUMBER, TIME, "physical_offset", "size", "tags_code")])
_EXT_ROW = np.dtype([*_ROW.descr, ("ext_time_ms", np.int64), ("bit_map_crc", np.int64)])
_IDENTITY = (ORDER, "physical_offset", "size", "tags_code")


class UnitEntries(Entries):
    """The units of a consume queue of two stores."""

    structure = PathKind.CONSUMEQUEUE.value
    plural = "units"
    rules = AlignRules(_IDENTITY, by_order=True)

    def place(self, row: Row) -> dict[str, Any]:
        """Return the queue offset."""
        return {"queue_offset": int(row[ORDER])}

    def values(self, row: Row) -> dict[str, Value]:
        """Return the fields of the unit."""
        return {
            "physicalOffset": int(row["physical_offset"]),
            "size": int(row["size"]),
            "tagsCode": int(row["tags_code"]),
        }

    def name(self, row: Row) -> str:
        """Return queue and queue offset."""
        return f"{self.topic}/{self.queue_id} #{row[ORDER]}"


class ExtUnitEntries(UnitEntries):
    """The same of queues with ext units: tags code, store time and bit map instead of an address."""

    rules = AlignRules((*_IDENTITY, "ext_time_ms", "bit_map_crc"), by_order=True)

    def values(self, row: Row) -> dict[str, Value]:
        """Return the fields of unit and ext unit."""
        return {
            **super().values(row),
            "extStoreTimestamp": int(row["ext_time_ms"]),
            "bitMapCrc": int(row["bit_map_crc"]),
        }


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


class BatchEntries(Entries):
    """The units of a batch consume queue of two stores."""

    structure = PathKind.BATCHCONSUMEQUEUE.value
    plural = "batch units"
    rules = AlignRules((ORDER, *_COLUMNS.values()), by_order=False)

    def place(self, row: Row) -> dict[str, Any]:
        """Return the queue offset of the batch."""
        return {"queue_offset": int(row[ORDER])}

    def values(self, row: Row) -> dict[str, Value]:
        """Return the fields of the unit."""
        fields = {name: int(row[column]) for name, column in _COLUMNS.items()}
        return {"msgBaseOffset": int(row[ORDER]), **fields}

    def name(self, row: Row) -> str:
        """Return queue and queue offset."""
        return f"{self.topic}/{self.queue_id} #{row[ORDER]}"


class LoneExtEntries(Entries):
    """The units, in their order, of an ext queue whose consume queue is not shown."""

    structure = PathKind.CONSUMEQUEUE_EXT.value
    plural = "ext units"
    rules = AlignRules((TIME, "tags_code", "bit_map_crc"), by_order=False)

    def place(self, row: Row) -> dict[str, Any]:
        """Return the number in the queue."""
        return {"item": int(row[NUMBER])}

    def values(self, row: Row) -> dict[str, Value]:
        """Return the fields of the unit."""
        names = {"tagsCode": "tags_code", "storeTimestamp": TIME, "bitMapCrc": "bit_map_crc"}
        return {name: int(row[column]) for name, column in names.items()}

    def name(self, row: Row) -> str:
        """Return queue and number."""
        return f"{self.topic}/{self.queue_id} ext unit {row[NUMBER]}"


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


def lone_ext_rows(files: FileQueue) -> Iterator[Rows]:
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
