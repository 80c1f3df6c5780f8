"""Index files as the checks read them: header, items in chunks, slots, and what lies behind the items."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from rmqtool.derived.index_files import Header
from rmqtool.formats import index as formats
from rmqtool.formats import record_dtype, struct_of
from rmqtool.store.geometry import Geometry, own_geometry

if TYPE_CHECKING:
    from collections.abc import Iterator

    import numpy.typing as npt

    from rmqtool.store.reading import UnreadableRange
    from rmqtool.store.segments import StoreFile

    Int32s = npt.NDArray[np.int32]
    Int64s = npt.NDArray[np.int64]
    Bools = npt.NDArray[np.bool_]

ITEM_DTYPE = record_dtype(formats.ITEM)
_HEADER = struct_of(formats.HEADER)
_CHUNK_ITEMS = 1 << 18
_CHUNK_SLOTS = 1 << 20


@dataclass(frozen=True, slots=True)
class Items:
    """Consecutive items of one file; every column ``(n,)``."""

    first: int
    key_hashes: Int32s
    physical_offsets: Int64s
    time_diffs: Int64s
    previous: Int32s

    def __len__(self) -> int:
        return len(self.key_hashes)


@dataclass
class IndexFile:
    """One file, read by one geometry; bytes that it does not have are zeros, as a broker extends it.

    Attributes:
        file: the file.
        geometry: slots and items.
        header: its header.
        unreadable: ranges that the disk did not deliver.
    """

    file: StoreFile
    geometry: Geometry
    header: Header = field(init=False)
    unreadable: list[UnreadableRange] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.header = Header(*_HEADER.unpack(self._bytes(0, _HEADER.size)))

    @property
    def used(self) -> int:
        """Return how many items the header counts, as far as the file can hold them."""
        return min(max(self.header.index_count, 1), self.geometry.items) - 1

    def item_position(self, item: int) -> int:
        """Return the position in the file of an item."""
        return formats.item_position(self.geometry.slots, item)

    def items(self) -> Iterator[Items]:
        """Yield the items that the header counts."""
        for first in range(1, self.used + 1, _CHUNK_ITEMS):
            count = min(_CHUNK_ITEMS, self.used + 1 - first)
            data = self._bytes(self.item_position(first), count * ITEM_DTYPE.itemsize)
            rows = np.frombuffer(data, ITEM_DTYPE)
            yield Items(
                first,
                rows["keyHash"].astype(np.int32),
                rows["physicalOffset"].astype(np.int64),
                rows["timeDiff"].astype(np.int64),
                rows["previous"].astype(np.int32),
            )

    def slots(self) -> Iterator[tuple[int, Int32s]]:
        """Yield the number of a first slot, and slots from there on."""
        for first in range(0, self.geometry.slots, _CHUNK_SLOTS):
            count = min(_CHUNK_SLOTS, self.geometry.slots - first)
            data = self._bytes(formats.slot_position(first), count * formats.SLOT_SIZE)
            yield first, np.frombuffer(data, ">i4").astype(np.int32)

    def unused_items(self) -> Iterator[tuple[int, Bools]]:
        """Yield the number of a first item behind those in use, and which items from there on are not zero.

        Item 0, which no broker uses, comes first. Holes of a sparse file are passed over.
        """
        yield 0, _nonzero(self._bytes(self.item_position(0), ITEM_DTYPE.itemsize))
        item, size = self.used + 1, min(self.file.size_bytes, self.geometry.size_bytes)
        while self.item_position(item) < size:
            data_start = self.file.next_data(self.item_position(item))
            item += max(data_start - self.item_position(item), 0) // ITEM_DTYPE.itemsize
            count = min(_CHUNK_ITEMS, self.geometry.items - item)
            if count <= 0 or data_start >= size:
                return
            yield item, _nonzero(self._bytes(self.item_position(item), count * ITEM_DTYPE.itemsize))
            item += count

    def _bytes(self, position: int, length: int) -> bytes:
        return self.file.read_at(position, length, self.unreadable).ljust(length, b"\0")


def open_index_file(file: StoreFile, geometry: Geometry) -> IndexFile:
    """Read a file's header; by the geometry that its contents prove, where the given one cannot be right.

    Raises:
        EnvironmentFailureError: the file cannot be opened or read.
    """
    return IndexFile(file, own_geometry(file, geometry) or geometry)


def _nonzero(data: bytes) -> Bools:
    rows = np.frombuffer(data, np.uint8)
    if not rows.any():
        return np.zeros(len(rows) // ITEM_DTYPE.itemsize, np.bool_)
    return np.asarray(rows.reshape(-1, ITEM_DTYPE.itemsize).any(axis=1))
