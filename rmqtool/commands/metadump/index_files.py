"""Index files: new key hashes, and the slots and chains that these make.

What was wrong stays wrong: an item that named another than the next older one of its slot, a slot that did
not hold its newest item. Sizes, places, offsets and times stay.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from rmqtool.commands.metadump.queue_files import write_noise
from rmqtool.commands.metadump.sparse import write_sparse
from rmqtool.derived.index_files import open_index_file
from rmqtool.formats.index import (
    HEADER_SIZE,
    HEADERS,
    ITEM_SIZE,
    ITEMS,
    SLOT_SIZE,
    SLOTS,
    item_position,
    slot_position,
)

if TYPE_CHECKING:
    import numpy.typing as npt

    from rmqtool.arrays import Int64s
    from rmqtool.commands.metadump.disguise import Disguise
    from rmqtool.commands.metadump.fitting import LookUp
    from rmqtool.store import StoreFile
    from rmqtool.store.geometry import Geometry
    from rmqtool.store.staged_file import StagedFile


_CHUNK_ITEMS = 1 << 16
_CHUNK_SLOTS = 1 << 18
_INT_MIN, _INT_MAX = -(1 << 31), (1 << 31) - 1


class _Chains:
    """The newest item of each slot, as items are put.

    Args:
        slots: Number of slots.
    """

    def __init__(self, slots: int) -> None:
        self.newest = np.zeros(slots, np.int64)

    def put(self, key_hashes: Int64s, first: int) -> Int64s:
        """Put consecutive items; return the older item that each one names (``IndexFile#putKey``)."""
        slots = key_hashes % len(self.newest)
        order = np.argsort(slots, kind="stable")
        grouped, numbers = slots[order], order + first
        begins = np.ones(len(order), np.bool_)
        begins[1:] = grouped[1:] != grouped[:-1]
        before = np.empty(len(order), np.int64)
        before[1:] = numbers[:-1]
        before[begins] = self.newest[grouped[begins]]
        ends = np.append(begins[1:], True)
        self.newest[grouped[ends]] = numbers[ends]
        found = np.empty(len(order), np.int64)
        found[order] = before
        return found


def write_index_file(
    file: StoreFile, geometry: Geometry, target: StagedFile, keys: LookUp, disguise: Disguise
) -> None:
    """Make an index file anew.

    Args:
        file: The file.
        geometry: The store's.
        target: Receives it, at its full size already.
        keys: Hashes of the log's records.
        disguise: Replaces what the log does not know.

    Raises:
        EnvironmentFailureError: The file cannot be read.
    """
    index = open_index_file(file, geometry)
    slots = index.geometry.slots
    old, new = _Chains(slots), _Chains(slots)
    first_item = item_position(slots, 0)
    stop = min(file.size_bytes, index.geometry.size_bytes)
    for first in range(0, max(stop - first_item, 0) // ITEM_SIZE, _CHUNK_ITEMS):
        at = first_item + first * ITEM_SIZE
        data = file.read_at(at, min(_CHUNK_ITEMS * ITEM_SIZE, (stop - at) // ITEM_SIZE * ITEM_SIZE), [])
        if any(data):
            items = np.frombuffer(data, ITEMS.dtype).copy()
            _renew(items, first, index.used, keys, disguise, old, new)
            write_sparse(target, at, items.tobytes())
    items_stop = first_item + max(stop - first_item, 0) // ITEM_SIZE * ITEM_SIZE
    after = max(items_stop, min(first_item, file.size_bytes))
    write_noise(file, target, file.label, after, file.size_bytes, disguise)  # no broker reads it
    _write_slots(file, target, old.newest, new.newest)
    _write_header(file, target, index.used, old.newest, new.newest)
    file.close()


def _renew(
    items: npt.NDArray[Any],
    first: int,
    used: int,
    keys: LookUp,
    disguise: Disguise,
    old: _Chains,
    new: _Chains,
) -> None:
    """Give items their new hashes, and links where they are in use."""
    hashes = items["keyHash"].astype(np.int64)
    made, is_met = keys.find(items["physicalOffset"].astype(np.int64), hashes)
    for row in np.flatnonzero(~is_met & (hashes != 0)):
        value = disguise.number(b"key", abs(int(hashes[row])), 31)
        made[row] = value if hashes[row] > 0 else -value
    items["keyHash"] = made
    start, stop = max(1 - first, 0), min(len(items), used + 1 - first)
    if start >= stop:
        return
    chosen = slice(start, stop)
    previous = items["previous"][chosen].astype(np.int64)
    wanted = old.put(hashes[chosen], first + start)
    found = new.put(made[chosen], first + start)
    items["previous"][chosen] = np.where(previous == wanted, found, _wrong(previous, wanted, found))


def _wrong(observed: Int64s, wanted: Int64s, found: Int64s) -> Int64s:
    """Return values that differ from those that are right now, where ``observed`` differed from ``wanted``.

    The observed one where that does; else the one that was right; else another older item.
    """
    other = np.where(wanted != found, wanted, np.where(found > 0, found - 1, 1))
    return np.where(observed != found, observed, other)


def _write_slots(file: StoreFile, target: StagedFile, old: Int64s, new: Int64s) -> None:
    for first in range(0, len(old), _CHUNK_SLOTS):
        data = file.read_at(slot_position(first), min(_CHUNK_SLOTS, len(old) - first) * SLOT_SIZE, [])
        whole = data[: len(data) // SLOT_SIZE * SLOT_SIZE]
        slots = np.frombuffer(whole, SLOTS.dtype)["item"].astype(np.int64)
        wanted, found = old[first : first + len(slots)], new[first : first + len(slots)]
        made = np.where(slots == wanted, found, _wrong(slots, wanted, found))
        if made.any():
            write_sparse(target, slot_position(first), made.astype(SLOTS.dtype["item"]).tobytes())


def _write_header(file: StoreFile, target: StagedFile, used: int, old: Int64s, new: Int64s) -> None:
    data = file.read_at(0, HEADER_SIZE, [])
    header = HEADERS.decode(data)
    if header is not None:
        count = header.hash_slot_count
        used_slots, made = int(np.count_nonzero(old)), int(np.count_nonzero(new))
        if count not in {0, used}:  # of 4.7.0 and older, and of a file without items
            count = min(max(count + made - used_slots, _INT_MIN), _INT_MAX)
        elif count == used_slots:
            count = made
        data = HEADERS.encode(header._replace(hash_slot_count=count))
    write_sparse(target, 0, data)
