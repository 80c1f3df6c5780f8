"""Place and emit the index files: one stream of entries in log order, cut into files."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from datetime import datetime, timedelta, tzinfo
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from rmqtool.engine import together
from rmqtool.errors import UsageError
from rmqtool.formats import index as formats
from rmqtool.javacompat import index_file_name
from rmqtool.kernels.rows import ENTRY_ROW, KEYLESS_ROW
from rmqtool.kernels.units import HeaderState, new_header, put_keys
from rmqtool.reput.blocks import ENTRY_COLUMNS, Block, BlockColumn

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from rmqtool.arrays import Array
    from rmqtool.store.geometry import Geometry
    from rmqtool.store.staging import StagedFile, StagingHandle


_DIGITS = "%Y%m%d%H%M%S%f"
_LENGTH = 17


class IndexNames:
    """Strictly ascending names ``yyyyMMddHHmmssSSS``.

    A name is the time given, in the zone given; on ties, and where a clock was set back (or summer time
    ended), one millisecond after the name before: names are all that orders the files.
    """

    def __init__(self, zone: tzinfo) -> None:
        self._zone = zone
        self._last = ""

    def next(self, timestamp_ms: int) -> str:
        """Return the name of a file that a message stored at ``timestamp_ms`` made the broker create."""
        name = index_file_name(timestamp_ms, self._zone)
        if len(name) != _LENGTH:  # a year after 9999: no such name sorts
            name = self._last or "0" * _LENGTH
        if name <= self._last:
            name = _following(self._last)
        self._last = name
        return name


def _following(name: str) -> str:
    """Return the name one millisecond after, or simply the next number where a name is not a time."""
    try:
        moment = datetime.strptime(name + "000", _DIGITS) + timedelta(milliseconds=1)  # noqa: DTZ007 - no zone
    except (ValueError, OverflowError):
        return f"{int(name) + 1:0{_LENGTH}d}"
    return f"{moment.year:04d}{moment:%m%d%H%M%S%f}"[:_LENGTH]


_CHUNK_ENTRIES = 1 << 18
_LARGEST_FILE_BYTES = (1 << 31) - 1
_BUNDLE_BYTES = 64 << 20
_PAGE_SLOTS = 1024  # 4096 bytes: slots are written by the page, empty ones stay holes


class IndexPlan(NamedTuple):
    """One index file, the ``entries`` that it holds in order.

    ``previous`` is endPhyOffset and endTimestamp of the full file before it, zeros for the first;
    ``empty_count`` is the indexCount of a file without entries: 0 in a 4.9 broker, 1 in 5.x at a clean stop.
    """

    staging: StagingHandle
    name: str
    geometry: Geometry
    entries: tuple[BlockColumn, ...]
    previous: tuple[int, int]
    empty_count: int


class IndexStream(NamedTuple):
    """The entries of all blocks, in log order, as one stream; ``firsts`` numbers the first of each block."""

    blocks: tuple[Block, ...]
    firsts: tuple[int, ...]
    total: int

    def entry(self, number: int) -> tuple[int, int]:
        """Return physical offset and store time of an entry."""
        column = next(self.ranges(number, number + 1))
        row = column.read(ENTRY_ROW)[0]
        return int(row["physical_offset"]), int(row["store_timestamp_ms"])

    def ranges(self, start: int, stop: int) -> Iterator[BlockColumn]:
        """Yield where the entries ``[start, stop)`` lie."""
        for number in range(max(bisect_right(self.firsts, start) - 1, 0), bisect_left(self.firsts, stop)):
            block, first = self.blocks[number], self.firsts[number]
            low, high = max(start, first), min(stop, first + block.count("entries"))
            if low < high:
                yield block.rows("entries", low - first, high - low)

    def keyless_after(self, number: int) -> int | None:
        """Return the store time of the first message without entries right after entry ``number - 1``.

        None if the next message that is dispatched has entries, or none comes.
        """
        # Of the blocks that it can lie in, the first ends where it begins.
        before = max(bisect_left(self.firsts, number) - 1, 0)
        for block, first in zip(self.blocks[before:], self.firsts[before:], strict=True):
            if first > number:
                break
            keyless = block.read("keyless")
            at = int(np.searchsorted(keyless["entries_before"], number - first))
            if at < len(keyless) and keyless["entries_before"][at] == number - first:
                return int(keyless["store_timestamp_ms"][at])
            if number < first + block.count("entries"):
                return None
        return None


def index_stream(blocks: Sequence[Block]) -> IndexStream:
    """Number the entries of all blocks."""
    firsts, total = [], 0
    for block in blocks:
        firsts.append(total)
        total += block.count("entries")
    slim = tuple(block.slim(*ENTRY_COLUMNS) for block in blocks)
    return IndexStream(slim, tuple(firsts), total)


def check_geometry(geometry: Geometry) -> None:
    """Refuse sizes with which a broker cannot make index files."""
    if geometry.items < 2:
        raise UsageError(f"maxIndexNum={geometry.items}: must be at least 2, as item 0 is never used")
    if geometry.size_bytes > _LARGEST_FILE_BYTES:
        raise UsageError(
            f"maxHashSlotNum={geometry.slots} and maxIndexNum={geometry.items} make index files of"
            f" {geometry.size_bytes} bytes; a broker's end at {_LARGEST_FILE_BYTES}"
        )


def plan_indexes(
    stream: IndexStream, geometry: Geometry, staging: StagingHandle, zone: tzinfo, *, empty_count: int
) -> list[IndexPlan]:
    """Cut the stream into files.

    A file is created by the first message that is dispatched when the last file is full (or there is none),
    whether it has keys or not: ``IndexService#retryGetAndCreateIndexFile`` comes first in ``#buildIndex``.
    """
    plans: list[IndexPlan] = []
    names = IndexNames(zone)
    start = 0
    while (created_ms := _creation(stream, start)) is not None:
        stop = min(start + geometry.items - 1, stream.total)
        previous = stream.entry(start - 1) if start else (0, 0)
        ranges = tuple(stream.ranges(start, stop))
        plans.append(IndexPlan(staging, names.next(created_ms), geometry, ranges, previous, empty_count))
        if stop - start < geometry.items - 1:
            break
        start = stop
    return plans


def bundle_indexes(plans: Sequence[IndexPlan]) -> list[tuple[IndexPlan, ...]]:
    """Share the files out to tasks: large ones to one each, small ones together."""
    groups = together(plans, lambda plan: plan.geometry.size_bytes, _BUNDLE_BYTES)
    return [tuple(group) for group in groups]


def _creation(stream: IndexStream, number: int) -> int | None:
    """Return the store time of the message that creates the file of which ``number`` is the first entry."""
    keyless = stream.keyless_after(number)
    if keyless is not None:
        return keyless
    return stream.entry(number)[1] if number < stream.total else None


def emit_index(plan: IndexPlan) -> None:
    """Write one index file."""
    header = new_header(*plan.previous)
    slots = np.zeros(plan.geometry.slots, np.int32)
    with plan.staging.create_file(f"index/{plan.name}", plan.geometry.size_bytes) as file:
        for entries in _chunks(plan.entries):
            first_item = int(header[HeaderState.INDEX_COUNT])
            items = _put(entries, slots, header)
            file.write_at(formats.item_position(plan.geometry.slots, first_item), items.data.cast("B"))
        if header[HeaderState.INDEX_COUNT] == 1:
            header[HeaderState.INDEX_COUNT] = plan.empty_count
        else:
            _write_slots(file, slots)
        file.write_at(0, formats.HEADERS.encode(header.tolist()))


def _chunks(ranges: Sequence[BlockColumn]) -> Iterator[Array]:
    for entries in ranges:
        for start in range(0, entries.count, _CHUNK_ENTRIES):
            count = min(_CHUNK_ENTRIES, entries.count - start)
            yield entries.part(start, count, ENTRY_ROW.itemsize).read(ENTRY_ROW)


def _put(entries: Array, slots: Array, header: Array) -> Array:
    time_diffs = np.empty(len(entries), np.int32)
    previous = np.empty(len(entries), np.int32)
    put_keys(entries, slots, header, time_diffs, previous)
    items = np.empty(len(entries), formats.ITEMS.dtype)
    items["keyHash"] = entries["key_hash"]
    items["physicalOffset"] = entries["physical_offset"]
    items["timeDiff"] = time_diffs
    items["previous"] = previous
    return items


def _write_slots(file: StagedFile, slots: Array) -> None:
    """Write the pages of the slot table that are not empty, neighbours in one go."""
    starts = np.arange(0, len(slots), _PAGE_SLOTS)
    used = np.flatnonzero(np.logical_or.reduceat(slots, starts))
    for pages in np.split(used, np.flatnonzero(np.diff(used) > 1) + 1):
        first, stop = int(pages[0]) * _PAGE_SLOTS, (int(pages[-1]) + 1) * _PAGE_SLOTS
        table = slots[first:stop].astype(formats.SLOTS.dtype["item"])
        file.write_at(formats.slot_position(first), table.data.cast("B"))


def passed_over(block_entries: Array, end_phy_offset: int) -> int:
    """Return how many messages with entries lie below an index's endPhyOffset."""
    offsets = block_entries["physical_offset"]
    return len(np.unique(offsets[offsets < end_phy_offset]))


def without_backward_messages(
    block_entries: Array, keyless: Array, end_phy_offset: int
) -> tuple[Array, Array]:
    """Drop the entries of messages that lie below an index's endPhyOffset: ``buildIndex`` skips them.

    Args:
        block_entries: ``(n,)`` of ``ENTRY_ROW``, filtered within their own split only.
        keyless: ``(k,)`` of ``KEYLESS_ROW``.
        end_phy_offset: greatest offset of an indexed message in the splits before.

    Returns:
        Entries and keyless messages as they are after those splits.
    """
    offsets = block_entries["physical_offset"]
    keep = offsets >= end_phy_offset
    kept_before = np.concatenate([[0], np.cumsum(keep)])
    dropped = np.zeros(int((~keep).sum()), KEYLESS_ROW)
    dropped["entries_before"] = kept_before[:-1][~keep]
    dropped["store_timestamp_ms"] = block_entries["store_timestamp_ms"][~keep]
    moved = keyless.copy()
    moved["entries_before"] = kept_before[keyless["entries_before"]]
    # By place in the log: a keyless message comes before the entry whose number it bears.
    order = np.argsort(
        np.concatenate([keyless["entries_before"] * 2, np.flatnonzero(~keep) * 2 + 1]), kind="stable"
    )
    merged = np.concatenate([moved, dropped])[order]
    _, first = np.unique(merged["entries_before"], return_index=True)
    return block_entries[keep], merged[first]
