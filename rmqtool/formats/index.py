"""The hash index file: header, slots, items.

Sources: ``IndexHeader``, ``IndexFile#putKey`` (4.9.8, 5.3.3).

::

    IndexFile => header (40 bytes) slot[maxHashSlotNum] item[maxIndexNum]
"""

from __future__ import annotations

from typing import NamedTuple

from construct import Int32sb, Int64sb, Struct

from rmqtool.formats.fields import Decoder

HEADER = Struct(
    "beginTimestamp" / Int64sb * "beginTimestamp; ms; store time of the first item",
    "endTimestamp" / Int64sb * "endTimestamp; ms; store time of the last item",
    "beginPhyOffset" / Int64sb * "beginPhyOffset; bytes in the log; record of the first item",
    "endPhyOffset" / Int64sb * "endPhyOffset; bytes in the log; record of the last item",
    "hashSlotCount" / Int32sb * "hashSlotCount; slots; slots in use (4.7.1+)",
    "indexCount" / Int32sb * "indexCount; items; number of the next item, the first is 1",
)

SLOT = Struct("item" / Int32sb * "slotValue; item; newest item of the chain, 0 = none")

ITEM = Struct(
    "keyHash" / Int32sb * "keyHash; -; |hash of topic#key|",
    "physicalOffset" / Int64sb * "phyOffset; bytes in the log; where the record lies",
    "timeDiff" / Int32sb * "timeDiff; s; since the header's begin time when the item was put",
    "previous" / Int32sb * "slotValue; item; next older item of the chain, 0 = end",
)


class HeaderFields(NamedTuple):
    """The header of an index file."""

    begin_timestamp_ms: int
    end_timestamp_ms: int
    begin_phy_offset: int
    end_phy_offset: int
    hash_slot_count: int
    index_count: int


class SlotFields(NamedTuple):
    """A slot of an index file."""

    item: int


class ItemFields(NamedTuple):
    """An item of an index file."""

    key_hash: int
    physical_offset: int
    time_diff: int
    previous: int


HEADERS = Decoder(HEADER, HeaderFields._make)
SLOTS = Decoder(SLOT, SlotFields._make)
ITEMS = Decoder(ITEM, ItemFields._make)
HEADER_SIZE = HEADERS.size
SLOT_SIZE = SLOTS.size
ITEM_SIZE = ITEMS.size


def slot_position(slot: int) -> int:
    """Return the position in the file of a slot."""
    return HEADER_SIZE + SLOT_SIZE * slot


def item_position(slots: int, item: int) -> int:
    """Return the position in the file of an item; ``slots`` is maxHashSlotNum."""
    return HEADER_SIZE + SLOT_SIZE * slots + ITEM_SIZE * item


def file_size(slots: int, items: int) -> int:
    """Return the size in bytes of an index file of this geometry."""
    return item_position(slots, items)
