"""One index file: header, slots, items, chains; nothing is trusted before it is checked.

Rows are for look-ups and need no numpy, columns are for whole files.
"""

from __future__ import annotations

from array import array
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from rmqtool.formats import index
from rmqtool.formats.index import (
    HEADER_SIZE,
    HEADERS,
    ITEM_SIZE,
    ITEMS,
    SLOT_SIZE,
    SLOTS,
    HeaderFields,
    ItemFields,
)
from rmqtool.store import Origin, Store, StoreFile
from rmqtool.store.geometry import Geometry, own_geometry
from rmqtool.store.segments import Window

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from rmqtool.arrays import Bools, Int32s, Int64s
    from rmqtool.io.location import UnreadableRange
    from rmqtool.progress import Progress


LARGEST_LONG = (1 << 63) - 1
"""End of a search without one."""

_LOOK_UP_WINDOW_BYTES = 4096
_SLOT_BLOCK = 1 << 18
_NO_ITEM = ItemFields(0, 0, 0, 0)
_CHUNK_ITEMS = 1 << 18
_CHUNK_SLOTS = 1 << 20


def warn_of_assumed_geometry(store: Store, progress: Progress) -> bool:
    """Warn if the index has items and their division is assumed; return whether it is."""
    if not store.index_files or store.settings["maxHashSlotNum"].origin is not Origin.DEFAULT:
        return False
    geometry = store.settings.index_geometry
    if any(IndexFile(file, geometry).has_items for file in store.index_files):
        progress.warn(
            f"the index files do not show their number of slots: {geometry.slots} assumed; pass the "
            "broker's own with -c broker.conf or -p maxHashSlotNum=N"
        )
    return True


def index_headers(files: Iterable[StoreFile]) -> Iterator[HeaderFields]:
    """Yield the headers of index files, unchecked; zeros past the end of a short file."""
    for file in files:
        header = HEADERS.padded(file.read_at(0, HEADER_SIZE, []))
        file.close()
        yield header


def open_index_file(file: StoreFile, geometry: Geometry) -> IndexFile:
    """Read a file's header, with the geometry that its contents prove if the given one cannot be right."""
    return IndexFile(file, own_geometry(file, geometry) or geometry)


def opened_index_files(store: Store) -> Iterator[IndexFile]:
    """Yield the index files of a store, as `open_index_file` reads them; each is closed after its turn."""
    for file in store.index_files:
        try:
            yield open_index_file(file, store.settings.index_geometry)
        finally:
            file.close()


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


class IndexFile:
    """An index file of a known geometry.

    ``header`` is zeros past the end of a file that `is_short`; ``unreadable`` has the ranges that the disk
    did not deliver, but for those of the window.
    """

    def __init__(
        self, file: StoreFile, geometry: Geometry, window_bytes: int = _LOOK_UP_WINDOW_BYTES
    ) -> None:
        self.file = file
        self.geometry = geometry
        self.unreadable: list[UnreadableRange] = []
        self._window = Window(file, window_bytes)
        head = file.read_at(0, min(HEADER_SIZE, file.size_bytes), self.unreadable)
        self.is_short = len(head) < HEADER_SIZE
        self.header = HEADERS.padded(head)

    @property
    def slots(self) -> int:
        """``maxHashSlotNum``."""
        return self.geometry.slots

    @property
    def has_items(self) -> bool:
        """Whether its header counts items, present or not."""
        return not self.is_short and self.header.index_count > 1

    @property
    def used(self) -> int:
        """Items that the header counts, as far as a file of full size can hold them."""
        return min(max(self.header.index_count, 1), self.geometry.items) - 1

    @property
    def item_room(self) -> int:
        """Highest item number that the present bytes can hold."""
        left = self.file.size_bytes - self.item_position(0)
        return max(0, min(self.geometry.items, left // ITEM_SIZE) - 1)

    @property
    def last_item(self) -> int:
        """Number of the newest present item; 0 in a file without items."""
        return max(0, min(self.header.index_count - 1, self.item_room))

    @property
    def problem(self) -> str | None:
        """Damage of the header; None without any."""
        if self.is_short:
            return "it is too short for a header"
        count = self.header.index_count
        if not 0 <= count <= self.item_room + 1:
            return f"its header counts {count} items, there is room for {self.item_room}"
        after = self.item(self.last_item + 1) if self.last_item < self.item_room else None
        if after not in {None, _NO_ITEM}:
            return f"its header counts {self.last_item} items, but one more item is in use"
        return None

    @cached_property
    def lost_slots(self) -> int:
        """Slots that the header counts beyond those in use.

        Java: ``IndexFile#putKey``: up to 4.7.0 hashSlotCount is that of items, which is no loss.
        """
        if self.is_short or self.header.hash_slot_count == self.last_item:
            return 0
        return max(0, self.header.hash_slot_count - self._count_used_slots())

    def _count_used_slots(self) -> int:
        count = 0
        for number in range(0, self.slots, _SLOT_BLOCK):
            room = min(_SLOT_BLOCK, self.slots - number)
            data = self._window.read_at(index.slot_position(number), room * SLOT_SIZE)
            if data.count(0) != len(data):
                values = array("i", data[: len(data) // SLOT_SIZE * SLOT_SIZE])
                count += len(values) - values.count(0)
        return count

    def item_position(self, item: int) -> int:
        """Return the position in the file of an item."""
        return index.item_position(self.geometry.slots, item)

    def slot(self, number: int) -> int:
        """Return the item a slot points to; 0 if the file ends before."""
        slot = SLOTS.decode(self._window.read_at(index.slot_position(number), SLOT_SIZE))
        return 0 if slot is None else slot.item

    def focus(self, number: int) -> None:
        """Read items from a number on in one piece: those that come next."""
        self._window.focus(self.item_position(number))

    def item(self, number: int) -> ItemFields | None:
        """Return an item; None if the file ends before."""
        return ITEMS.decode(self._window.read_at(self.item_position(number), ITEM_SIZE))

    def items(self) -> Iterator[tuple[int, ItemFields]]:
        """Yield number and item of all items in the order of the log."""
        for number in range(1, self.last_item + 1):
            self.focus(number)
            item = self.item(number)
            if item is None:
                return
            yield number, item

    def used_slots(self) -> Iterator[tuple[int, int]]:
        """Yield number and value of the slots that are not zero."""
        stop = min(index.slot_position(self.slots), self.file.size_bytes // SLOT_SIZE * SLOT_SIZE)
        position = index.slot_position(0)
        while (position := self._window.skip_zeros(position)) < stop:
            number = (position - index.slot_position(0)) // SLOT_SIZE
            self._window.focus(index.slot_position(number))
            yield number, self.slot(number)
            position = index.slot_position(number + 1)

    def chain(self, slot: int) -> Iterator[tuple[int, ItemFields]]:
        """Yield number and item of a slot's chain, newest first, as long as it descends.

        Java: ``IndexFile#selectPhyOffset`` (4.9.8, 5.3.3), which also follows links that do not descend; a
        chain that descends is at most as long as the file.
        """
        number = self.slot(slot)
        while 0 < number <= self.last_item:
            item = self.item(number)
            if item is None:
                return
            yield number, item
            if item.previous >= number:
                return
            number = item.previous

    def chain_problem(self, slot: int, last: tuple[int, ItemFields] | None) -> str | None:
        """Return why a walk of `chain` that ended with ``last`` may have missed items; None if it did not."""
        if last is None:
            number = self.slot(slot)
            return None if number == 0 else f"slot {slot} points to item {number}, which does not exist"
        number, item = last
        if item == _NO_ITEM:
            return f"item {number} of slot {slot} is empty"
        if item.previous >= number or item.previous < 0:
            return f"item {number} of slot {slot} is followed by item {item.previous}"
        if item.previous > self.last_item:
            return f"item {number} of slot {slot} points out of the file"
        return None

    def is_time_matched(self, begin_ms: int, end_ms: int) -> bool:
        """Whether a broker walks its chains when it looks up a key between two store times.

        Java: ``IndexFile#isTimeMatched`` (4.9.8, 5.3.3).
        """
        first, last = self.header.begin_timestamp_ms, self.header.end_timestamp_ms
        return (begin_ms < first and end_ms > last) or first <= begin_ms <= last or first <= end_ms <= last

    def take_unreadable(self) -> list[UnreadableRange]:
        """Return ranges that could not be read since the last call."""
        ranges = [*self.unreadable, *self._window.take_unreadable()]
        self.unreadable.clear()
        return ranges

    def item_columns(self) -> Iterator[Items]:
        """Yield the items that the header counts; zeros past the end of the file."""
        import numpy as np

        for first in range(1, self.used + 1, _CHUNK_ITEMS):
            count = min(_CHUNK_ITEMS, self.used + 1 - first)
            rows = np.frombuffer(self._bytes(self.item_position(first), count * ITEM_SIZE), ITEMS.dtype)
            yield Items(
                first,
                rows["keyHash"].astype(np.int32),
                rows["physicalOffset"].astype(np.int64),
                rows["timeDiff"].astype(np.int64),
                rows["previous"].astype(np.int32),
            )

    def hashes_at(self, physical_offsets: Int64s) -> Iterator[tuple[int, int]]:
        """Yield physical offset and key hash of each item that leads to one of some places."""
        import numpy as np

        for items in self.item_columns():
            here = np.isin(items.physical_offsets, physical_offsets)
            pairs = items.physical_offsets[here].tolist(), items.key_hashes[here].tolist()
            yield from zip(*pairs, strict=True)

    def slot_columns(self) -> Iterator[tuple[int, Int32s]]:
        """Yield the number of a first slot, and slots from there on."""
        import numpy as np

        for first in range(0, self.slots, _CHUNK_SLOTS):
            count = min(_CHUNK_SLOTS, self.slots - first)
            data = self._bytes(index.slot_position(first), count * SLOT_SIZE)
            yield first, np.frombuffer(data, SLOTS.dtype)["item"].astype(np.int32)

    def unused_items(self) -> Iterator[tuple[int, Bools]]:
        """Yield the number of a first unused item, and which items from there on are not zero.

        Item 0, which no broker uses, comes first. Holes of a sparse file are skipped.
        """
        yield 0, _nonzero(self._bytes(self.item_position(0), ITEM_SIZE))
        item, size = self.used + 1, min(self.file.size_bytes, self.geometry.size_bytes)
        while self.item_position(item) < size:
            data_start = self.file.next_written(self.item_position(item))
            item += max(data_start - self.item_position(item), 0) // ITEM_SIZE
            count = min(_CHUNK_ITEMS, self.geometry.items - item)
            if count <= 0 or data_start >= size:
                return
            yield item, _nonzero(self._bytes(self.item_position(item), count * ITEM_SIZE))
            item += count

    def _bytes(self, position: int, length: int) -> bytes:
        return self.file.read_at(position, length, self.unreadable).ljust(length, b"\0")


def _nonzero(data: bytes) -> Bools:
    import numpy as np

    rows = np.frombuffer(data, np.uint8)
    if not rows.any():
        return np.zeros(len(rows) // ITEM_SIZE, np.bool_)
    return np.asarray(rows.reshape(-1, ITEM_SIZE).any(axis=1))
