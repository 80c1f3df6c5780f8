"""What index files account for: messages that have items there, none of them of a key."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from rmqtool.derived.index_files import open_index_file
from rmqtool.javacompat import index_key_hash

if TYPE_CHECKING:
    import numpy.typing as npt

    from rmqtool.arrays import Bools, Int64s
    from rmqtool.derived.index_files import IndexFile
    from rmqtool.store import Store


class IndexAccount:
    """Tells of messages whether they may have a key.

    A file is believed if its header fits, and the chains of the key hold only what belongs there. Its first
    and last message are not: their items may go on in another file.

    Args:
        store: The store.
        topics: The topics of messages that are asked for.
        key: A key, or unique key.
    """

    def __init__(self, store: Store, topics: list[str], key: str) -> None:
        self._hashes = np.array(sorted(index_key_hash(topic, key) for topic in topics), np.int64)
        geometry = store.settings.index_geometry
        files = [open_index_file(one, geometry) for one in store.index_files]
        self._files = [one for one in files if self._is_sound(one)]
        for one in files:
            one.file.close()
        self._known: Int64s = np.empty(0, np.int64)
        self._met: Int64s = self._known

    def load(self, start: int, stop: int) -> None:
        """Read the items of a range of the log, physical offsets."""
        known: list[Int64s] = [np.empty(0, np.int64)]
        met: list[Int64s] = [np.empty(0, np.int64)]
        for file in self._files:
            header = file.header
            if header.end_phy_offset < start or header.begin_phy_offset >= stop:
                continue
            for items in file.item_columns():
                offsets = items.physical_offsets
                met.append(offsets[_are_among(items.key_hashes, self._hashes)])
                within = (offsets >= start) & (offsets < stop)
                known.append(
                    offsets[within & (offsets > header.begin_phy_offset) & (offsets < header.end_phy_offset)]
                )
            file.file.close()
        self._known, self._met = np.sort(np.concatenate(known)), np.sort(np.concatenate(met))

    def may_have(self, offsets: Int64s) -> Bools:
        """Return which of the messages that lie at physical offsets may have the key."""
        return ~_are_among(offsets, self._known) | _are_among(offsets, self._met)

    def _is_sound(self, file: IndexFile) -> bool:
        if file.problem is not None or not file.has_items or file.lost_slots:
            return False
        for key_hash in self._hashes.tolist():
            slot, last = key_hash % file.slots, None
            for last in file.chain(slot):
                if last[1].key_hash < 0 or last[1].key_hash % file.slots != slot:
                    return False
            if file.chain_problem(slot, last) is not None:
                return False
        return not file.take_unreadable()


def _are_among(numbers: npt.NDArray[np.integer[Any]], some: Int64s) -> Bools:
    """Return which numbers are among some that ascend; many times faster than ``np.isin``."""
    if not len(some):
        return np.zeros(len(numbers), np.bool_)
    places = np.searchsorted(some, numbers)
    return np.asarray(some[np.minimum(places, len(some) - 1)] == numbers)
