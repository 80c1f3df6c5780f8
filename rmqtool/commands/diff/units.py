"""Consume queues by queue offset, whatever their files; tags codes that are addresses by what lies there."""

from __future__ import annotations

import zlib
from typing import TYPE_CHECKING, Any

import numpy as np

from rmqtool.check.queues.reader import UNIT_DTYPE, QueueReader
from rmqtool.commands.diff.align import NUMBER, ORDER, TIME, Rules
from rmqtool.commands.diff.entries import Entries
from rmqtool.formats import consumequeue as formats
from rmqtool.formats import struct_of
from rmqtool.scan.window import Window
from rmqtool.store import PathKind

if TYPE_CHECKING:
    from collections.abc import Iterator

    import numpy.typing as npt

    from rmqtool.check.queues.reader import Units
    from rmqtool.commands.diff.entries import Row
    from rmqtool.commands.diff.model import Comparison, Value
    from rmqtool.store import FileQueue, Segment

    Rows = npt.NDArray[Any]

_EXT_HEAD = struct_of(formats.EXT_HEAD)
_NO_EXT = -1
_ROW = np.dtype([(name, np.int64) for name in (ORDER, NUMBER, TIME, "physical_offset", "size", "tags_code")])
_EXT_ROW = np.dtype([*_ROW.descr, ("ext_time_ms", np.int64), ("bit_map_crc", np.int64)])
_IDENTITY = (ORDER, "physical_offset", "size", "tags_code")


class UnitEntries(Entries):
    """The units of a consume queue of two stores."""

    structure = PathKind.CONSUMEQUEUE.value
    plural = "units"
    rules = Rules(_IDENTITY, by_order=True)

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

    rules = Rules((*_IDENTITY, "ext_time_ms", "bit_map_crc"), by_order=True)

    def values(self, row: Row) -> dict[str, Value]:
        """Return the fields of unit and ext unit."""
        return {
            **super().values(row),
            "extStoreTimestamp": int(row["ext_time_ms"]),
            "bitMapCrc": int(row["bit_map_crc"]),
        }


def unit_rows(files: FileQueue, comparison: Comparison) -> Iterator[Rows]:
    """Yield the units of a queue; zeros and pre-blanks stand for no unit."""
    reader = QueueReader(files, UNIT_DTYPE)
    for units in reader:
        rows = _rows(units, _ROW)
        if len(rows):
            yield rows
    comparison.note_unreadable(reader.unreadable)


def ext_unit_rows(files: FileQueue, ext_files: FileQueue, comparison: Comparison) -> Iterator[Rows]:
    """Yield the units of a queue with what their ext units say."""
    ext, reader = _ExtUnits(ext_files), QueueReader(files, UNIT_DTYPE)
    for units in reader:
        rows = _rows(units, _EXT_ROW)
        rows["ext_time_ms"] = rows["bit_map_crc"] = _NO_EXT
        for number in np.flatnonzero(rows["tags_code"] <= formats.EXT_ADDRESS_MAX).tolist():
            found = ext.read(int(rows["tags_code"][number]))
            if found is not None:
                rows["tags_code"][number], rows["ext_time_ms"][number] = found[:2]
                rows["bit_map_crc"][number] = found[2]
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


class _ExtUnits:
    """Reads the ext units of one queue by address."""

    def __init__(self, files: FileQueue) -> None:
        self._files = files
        self._segment: Segment | None = None
        self._window: Window | None = None

    def read(self, address: int) -> tuple[int, int, int] | None:
        """Return tags code, store time and checksum of the bit map; None where no ext unit lies."""
        place = address - formats.EXT_ADDRESS_BASE
        segment = self._files.segment_at(place)
        if segment is None:
            return None
        if self._window is None or segment is not self._segment:
            self._segment, self._window = segment, Window(segment)
        position = place - segment.start
        self._window.focus(position)
        data = self._window.read_at(position, _EXT_HEAD.size)
        if len(data) < _EXT_HEAD.size:
            return None
        size, tags_code, store_timestamp_ms, bit_map_size = _EXT_HEAD.unpack(data)
        if size != _EXT_HEAD.size + bit_map_size or bit_map_size < 0:
            return None
        bit_map = self._window.read_at(position + _EXT_HEAD.size, bit_map_size)
        return tags_code, store_timestamp_ms, zlib.crc32(bit_map)
