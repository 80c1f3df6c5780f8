"""The index: ``IndexService#buildIndex`` and ``IndexFile#putKey``, in memory (4.9.8, 5.3.3, 5.5.1)."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING

from rmqtool.javacompat import index_key_hash, wrap_long

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.broker_model.messages import Request


class IndexFile:
    """One file; ``created_ms`` is the store time of the message that made the broker create it."""

    def __init__(self, slots: int, items: int, previous: IndexFile | None, created_ms: int) -> None:
        self.slot_count, self.item_count = slots, items
        self.created_ms = created_ms
        self.slots = [0] * slots
        self.items: list[tuple[int, int, int, int]] = []
        self.begin_timestamp = self.end_timestamp = self.begin_phy = self.end_phy = 0
        self.hash_slot_count, self.index_count = 0, 1
        if previous is not None and previous.end_phy > 0:
            self.begin_phy = self.end_phy = previous.end_phy
        if previous is not None and previous.end_timestamp > 0:
            self.begin_timestamp = self.end_timestamp = previous.end_timestamp

    @property
    def is_full(self) -> bool:
        return self.index_count >= self.item_count

    def put_key(self, key_hash: int, phy_offset: int, store_timestamp_ms: int) -> None:
        slot = key_hash % self.slot_count
        slot_value = self.slots[slot]
        if slot_value <= 0 or slot_value > self.index_count:
            slot_value = 0
        time_diff = wrap_long(store_timestamp_ms - self.begin_timestamp) // 1000
        if self.begin_timestamp <= 0 or time_diff < 0:
            time_diff = 0
        elif time_diff > 0x7FFFFFFF:
            time_diff = 0x7FFFFFFF
        self.items.append((key_hash, phy_offset, time_diff, slot_value))
        self.slots[slot] = self.index_count
        if self.index_count <= 1:
            self.begin_phy, self.begin_timestamp = phy_offset, store_timestamp_ms
        self.hash_slot_count += slot_value == 0
        self.index_count += 1
        self.end_phy, self.end_timestamp = phy_offset, store_timestamp_ms

    def to_bytes(self, empty_count: int) -> bytes:
        """Return the file as it is on disk; a file without items has ``empty_count`` in its header."""
        count = self.index_count if self.items else empty_count
        head = struct.pack(
            ">qqqqii",
            self.begin_timestamp,
            self.end_timestamp,
            self.begin_phy,
            self.end_phy,
            self.hash_slot_count,
            count,
        )
        items = b"".join(struct.pack(">iqii", *item) for item in [(0, 0, 0, 0), *self.items])
        data = head + struct.pack(f">{self.slot_count}i", *self.slots) + items
        return data.ljust(40 + 4 * self.slot_count + 20 * self.item_count, b"\0")


class IndexService:
    """All files, newest last."""

    def __init__(self, slots: int, items: int, has_tag_item: Callable[[int], bool] = lambda _: False) -> None:
        self._slots, self._items = slots, items
        self._has_tag_item = has_tag_item  # asked with a physical offset
        self.files: list[IndexFile] = []

    def build(self, request: Request) -> None:
        file = self._last_file(request)
        if request.physical_offset < file.end_phy or request.sys_flag & 0xC == 0xC:
            return
        if "UNIQ_KEY" in request.properties:
            self._put(request, request.properties["UNIQ_KEY"])
        for key in request.properties.get("KEYS", "").split(" "):
            if key:
                self._put(request, key)
        if self._has_tag_item(request.physical_offset) and request.properties.get("TAGS"):
            self._put(request, "T#" + request.properties["TAGS"])

    def _put(self, request: Request, key: str) -> None:
        key_hash = index_key_hash(request.topic, key)
        self._last_file(request).put_key(key_hash, request.physical_offset, request.store_timestamp_ms)

    def _last_file(self, request: Request) -> IndexFile:
        last = self.files[-1] if self.files else None
        if last is None or last.is_full:
            last = IndexFile(self._slots, self._items, last, request.store_timestamp_ms)
            self.files.append(last)
        return last
