"""One index file as bytes say it: header, slots, items, chains; nothing is trusted before it is checked."""

from __future__ import annotations

from array import array
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

from rmqtool.formats import index, struct_of
from rmqtool.scan.window import Window
from rmqtool.store import Origin

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rmqtool.progress import Progress
    from rmqtool.store import Store, StoreFile
    from rmqtool.store.geometry import Geometry
    from rmqtool.store.reading import UnreadableRange

_HEADER = struct_of(index.HEADER)
_SLOT = struct_of(index.SLOT)
_ITEM = struct_of(index.ITEM)
_LOOK_UP_WINDOW_BYTES = 4096
_SLOT_BLOCK = 1 << 18
_NO_ITEM = (0, 0, 0, 0)


def warn_of_assumed_geometry(store: Store, progress: Progress) -> bool:
    """Warn if the index has items and their place had to be assumed; return whether it had to be."""
    if not store.index_files or store.settings["maxHashSlotNum"].origin is not Origin.DEFAULT:
        return False
    geometry = store.settings.index_geometry
    if any(
        (header := IndexFile(one, geometry).header) and header.index_count > 1 for one in store.index_files
    ):
        progress.warn(
            f"the index files do not tell their number of slots: {geometry.slots} assumed; give the broker's"
            " with -c broker.conf or -p maxHashSlotNum=N"
        )
    return True


class Header(NamedTuple):
    """The header of an index file."""

    begin_timestamp_ms: int
    end_timestamp_ms: int
    begin_phy_offset: int
    end_phy_offset: int
    hash_slot_count: int
    index_count: int


class Item(NamedTuple):
    """An item of an index file."""

    key_hash: int
    physical_offset: int
    time_diff: int
    previous: int


class IndexFile:
    """An index file of a known geometry.

    Args:
        file: The file.
        geometry: Its slots and items.
        window_bytes: How much is kept at hand; little for a look-up, which jumps.
    """

    def __init__(
        self, file: StoreFile, geometry: Geometry, window_bytes: int = _LOOK_UP_WINDOW_BYTES
    ) -> None:
        self.file = file
        self.slots = geometry.slots
        self._items = geometry.items
        self._window = Window(file, window_bytes)
        head = self._window.read_at(0, _HEADER.size)
        self.header = Header._make(_HEADER.unpack(head)) if len(head) == _HEADER.size else None

    @property
    def item_room(self) -> int:
        """Return the highest item number that the bytes at hand can hold."""
        left = self.file.size_bytes - index.item_position(self.slots, 0)
        return max(0, min(self._items, left // _ITEM.size) - 1)

    @property
    def last_item(self) -> int:
        """Return the number of the newest item; 0 in a file without items."""
        if self.header is None:
            return 0
        return max(0, min(self.header.index_count - 1, self.item_room))

    @property
    def problem(self) -> str | None:
        """Say what is wrong with the header; None if nothing is."""
        if self.header is None:
            return "it is too short for a header"
        count = self.header.index_count
        if not 0 <= count <= self.item_room + 1:
            return f"its header counts {count} items, there is room for {self.item_room}"
        behind = self.item(self.last_item + 1) if self.last_item < self.item_room else None
        if behind not in {None, _NO_ITEM}:
            return f"its header counts {self.last_item} items, and there is one more"
        return None

    @cached_property
    def lost_slots(self) -> int:
        """Return how many slots the header counts beyond those in use.

        Java: ``IndexFile#putKey``: up to 4.7.0 hashSlotCount is that of items, which is no loss.
        """
        if self.header is None or self.header.hash_slot_count == self.last_item:
            return 0
        return max(0, self.header.hash_slot_count - self._count_used_slots())

    def _count_used_slots(self) -> int:
        count = 0
        for number in range(0, self.slots, _SLOT_BLOCK):
            room = min(_SLOT_BLOCK, self.slots - number)
            data = self._window.read_at(index.slot_position(number), room * _SLOT.size)
            if data.count(0) != len(data):
                values = array("i", data[: len(data) // _SLOT.size * _SLOT.size])
                count += len(values) - values.count(0)
        return count

    def slot(self, number: int) -> int:
        """Return the item a slot points to; 0 if the file ends before."""
        data = self._window.read_at(index.slot_position(number), _SLOT.size)
        return int(_SLOT.unpack(data)[0]) if len(data) == _SLOT.size else 0

    def item(self, number: int) -> Item | None:
        """Return an item; None if the file ends before."""
        data = self._window.read_at(index.item_position(self.slots, number), _ITEM.size)
        return Item._make(_ITEM.unpack(data)) if len(data) == _ITEM.size else None

    def items(self) -> Iterator[tuple[int, Item]]:
        """Yield number and item of all items in the order of the log."""
        for number in range(1, self.last_item + 1):
            self._window.focus(index.item_position(self.slots, number))
            item = self.item(number)
            if item is None:
                return
            yield number, item

    def used_slots(self) -> Iterator[tuple[int, int]]:
        """Yield number and value of the slots that are not zero."""
        stop = min(index.slot_position(self.slots), self.file.size_bytes // _SLOT.size * _SLOT.size)
        position = index.slot_position(0)
        while (position := self._window.skip_zeros(position)) < stop:
            number = (position - index.slot_position(0)) // _SLOT.size
            self._window.focus(index.slot_position(number))
            yield number, self.slot(number)
            position = index.slot_position(number + 1)

    def chain(self, slot: int) -> Iterator[tuple[int, Item]]:
        """Yield number and item of a slot's chain, newest first, as long as it descends.

        Java: ``IndexFile#selectPhyOffset`` (4.9.8, 5.3.3), which also follows links that do not descend; a
        chain that does is at most as long as the file.
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

    def chain_problem(self, slot: int, last: tuple[int, Item] | None) -> str | None:
        """Say why a walk of `chain` that yielded ``last`` may have missed items; None if it did not."""
        if last is None:
            number = self.slot(slot)
            return None if number == 0 else f"slot {slot} points to item {number}, which is none"
        number, item = last
        if item == _NO_ITEM:
            return f"item {number} of slot {slot} is empty"
        if item.previous >= number or item.previous < 0:
            return f"item {number} of slot {slot} is followed by item {item.previous}"
        if item.previous > self.last_item:
            return f"item {number} of slot {slot} leads out of the file"
        return None

    def take_unreadable(self) -> list[UnreadableRange]:
        """Return ranges that could not be read since the last call."""
        return self._window.take_unreadable()
