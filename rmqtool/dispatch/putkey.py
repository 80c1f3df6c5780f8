"""Entries to the items of one index file: ``IndexFile#putKey`` (4.7.1 to 5.3.3)."""

from __future__ import annotations

from enum import IntEnum
from typing import TYPE_CHECKING

import numpy as np

from rmqtool.dispatch.rows import ENTRY_ROW
from rmqtool.javacompat.kernels.integers import as_int
from rmqtool.jit import entry, kernel

if TYPE_CHECKING:
    from rmqtool.arrays import Int32s, Int64s, Rows


class Header(IntEnum):
    """Places in the array that carries an index file's header, in the order of the file's fields."""

    BEGIN_TIMESTAMP = 0
    END_TIMESTAMP = 1
    BEGIN_PHY_OFFSET = 2
    END_PHY_OFFSET = 3
    HASH_SLOT_COUNT = 4
    INDEX_COUNT = 5


_BEGIN, _END, _BEGIN_PHY, _END_PHY, _SLOTS, _COUNT = (field.value for field in Header)
_SECOND_MS = 1000
_INT_MAX = 0x7FFFFFFF


def new_header(previous_end_phy_offset: int = 0, previous_end_timestamp_ms: int = 0) -> Int64s:
    """Return the header of a file that was just created, after a full one or as the first (zeros)."""
    header = np.zeros(len(Header), np.int64)
    header[Header.INDEX_COUNT] = 1
    if previous_end_phy_offset > 0:
        header[[Header.BEGIN_PHY_OFFSET, Header.END_PHY_OFFSET]] = previous_end_phy_offset
    if previous_end_timestamp_ms > 0:
        header[[Header.BEGIN_TIMESTAMP, Header.END_TIMESTAMP]] = previous_end_timestamp_ms
    return header


@entry(lambda: (np.empty(0, ENTRY_ROW), np.zeros(1, np.int32), new_header(), *[np.empty(0, np.int32)] * 2))
@kernel
def put_keys(entries: Rows, slots: Int32s, header: Int64s, time_diffs: Int32s, previous: Int32s) -> None:
    """Put entries one after the other.

    The first put measures its time difference against the begin time that the header was created with (the
    end of the file before), and only then replaces it by its own.

    Args:
        entries: ``(n,)`` of ``ENTRY_ROW``; they must fit into the file.
        slots: ``(maxHashSlotNum,)``, newest item of each chain; updated.
        header: see ``Header``; updated.
        time_diffs: ``(n,)``, receives the items' time differences in s.
        previous: ``(n,)``, receives the number of the chain's next older item.
    """
    for i in range(len(entries)):
        entry = entries[i]
        slot = entry.key_hash % len(slots)
        store_timestamp_ms = entry.store_timestamp_ms
        older = slots[slot]
        difference = 0
        if header[_BEGIN] > 0:
            # Unsigned, for Java's longs wrap around: LLVM assumes that signed numbers never do.
            difference_ms = as_int(np.uint64(store_timestamp_ms) - np.uint64(header[_BEGIN]))
            difference = min(max(difference_ms // _SECOND_MS, 0), _INT_MAX)
        time_diffs[i] = difference
        previous[i] = older
        item = header[_COUNT]
        slots[slot] = item
        if item <= 1:
            header[_BEGIN_PHY] = entry.physical_offset
            header[_BEGIN] = store_timestamp_ms
        if older == 0:
            header[_SLOTS] += 1
        header[_COUNT] = item + 1
        header[_END_PHY] = entry.physical_offset
        header[_END] = store_timestamp_ms
