"""Index files written by the broker's put rule, of geometries that the fixtures do not have."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rmqtool.formats.index import HEADER, ITEM, SLOT, file_size, item_position, slot_position

if TYPE_CHECKING:
    from collections.abc import Sequence


def build_index(
    slots: int, items: int, entries: Sequence[tuple[int, int]], begin_ms: int = 1_650_000_000_000
) -> bytearray:
    """Return an index file that holds ``(key hash, physical offset)`` entries, put in order.

    Java: ``IndexFile#putKey`` (4.9.8, 5.3.3); every message is stored at the same moment.
    """
    data = bytearray(file_size(slots, items))
    used = 0
    for number, (key_hash, physical_offset) in enumerate(entries, start=1):
        place = slot_position(key_hash % slots)
        previous = SLOT.parse(data[place : place + SLOT.sizeof()]).item
        used += previous == 0
        data[place : place + SLOT.sizeof()] = SLOT.build({"item": number})
        item = {"keyHash": key_hash, "physicalOffset": physical_offset, "timeDiff": 0, "previous": previous}
        place = item_position(slots, number)
        data[place : place + ITEM.sizeof()] = ITEM.build(item)
    if entries:
        header = {
            "beginTimestamp": begin_ms,
            "endTimestamp": begin_ms,
            "beginPhyOffset": entries[0][1],
            "endPhyOffset": entries[-1][1],
            "hashSlotCount": used,
            "indexCount": len(entries) + 1,
        }
        data[: HEADER.sizeof()] = HEADER.build(header)
    return data
