"""Index as one stream of (key hash, physical offset, store time); its tables where files correspond."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from rmqtool.commands.diff.align import NUMBER, ORDER, TIME, AlignRules, Entries
from rmqtool.commands.diff.model import Change, Comparison, Difference, DifferenceLimiter, Value
from rmqtool.derived.index_files import IndexFile, open_index_file
from rmqtool.formats import layout
from rmqtool.formats.index import HEADER

if TYPE_CHECKING:
    from collections.abc import Iterator

    import numpy.typing as npt

    from rmqtool.arrays import Row
    from rmqtool.store import Store

    Rows = npt.NDArray[Any]

_ROW = np.dtype(
    [(name, np.int64) for name in (ORDER, NUMBER, TIME, "physical_offset")] + [("key_hash", np.int32)]
)
_SECOND_MS = 1000
_HEADER = tuple(field.name for field in layout(HEADER))


class IndexEntries(Entries):
    """The entries of the index of two stores.

    An item's time is in seconds from the begin of its file, so times are only known to the second.
    """

    structure = "index"
    plural = "index entries"
    rules = AlignRules((ORDER, "key_hash"), by_order=False, slack_ms=_SECOND_MS - 1)

    def place(self, row: Row) -> dict[str, Any]:
        """Return the number in the stream."""
        return {"item": int(row[NUMBER])}

    def values(self, row: Row) -> dict[str, Value]:
        """Return the fields of an item."""
        return {
            "keyHash": int(row["key_hash"]),
            "physicalOffset": int(row["physical_offset"]),
            "storeTimestamp": int(row[TIME]),
        }

    def name(self, row: Row) -> str:
        """Return the number in the stream, and the record."""
        return f"entry {row[NUMBER]}, of the record at {row['physical_offset']}"


def index_rows(store: Store, comparison: Comparison) -> Iterator[Rows]:
    """Yield the items of all files of a store, in the order of the names."""
    total = 0
    for file in store.index_files:
        opened = open_index_file(file, store.settings.index_geometry)
        begin_ms = opened.header.begin_timestamp_ms
        for items in opened.item_columns():
            rows = np.zeros(len(items), _ROW)
            rows[ORDER] = rows["physical_offset"] = items.physical_offsets
            rows[NUMBER] = total + np.arange(len(items))
            rows["key_hash"] = items.key_hashes
            rows[TIME] = begin_ms + items.time_diffs * _SECOND_MS
            if items.first == 1:  # measured from the end of the file before (IndexFile#putKey)
                rows[TIME][0] = begin_ms
            total += len(items)
            yield rows
        comparison.note_unreadable([(file, opened.unreadable)])
        file.close()


def diff_tables(a: Store, b: Store, comparison: Comparison) -> Iterator[Difference]:
    """Compare headers, slots and chains of indexes with equal entries, where the files have equal bounds.

    Elsewhere they follow from where a file begins, and show nothing about the entries.
    """
    files = [
        [open_index_file(file, store.settings.index_geometry) for file in store.index_files]
        for store in (a, b)
    ]
    shapes = [[(one.geometry, one.used) for one in side if one.used] for side in files]
    if shapes[0] != shapes[1]:
        comparison.note("the index files begin at other entries; their headers and chains are not compared")
        return
    told = DifferenceLimiter(comparison, "index")
    used = [[one for one in side if one.used] for side in files]
    for ours, theirs in zip(*used, strict=True):
        yield from told.tell_all(_diff_file(ours, theirs))
        ours.file.close()
        theirs.file.close()
    yield from told.finish()


def _diff_file(one: IndexFile, other: IndexFile) -> Iterator[Difference]:
    labels = one.file.label if one.file.label == other.file.label else f"{one.file.label}, {other.file.label}"
    header = zip(_HEADER, one.header, other.header, strict=True)
    wrong = {name: (ours, theirs) for name, ours, theirs in header if ours != theirs}
    if wrong:
        text = ", ".join(f"{name} {ours} and {theirs}" for name, (ours, theirs) in wrong.items())
        a: dict[str, Value] = {name: pair[0] for name, pair in wrong.items()}
        b: dict[str, Value] = {name: pair[1] for name, pair in wrong.items()}
        yield Difference("index", Change.CHANGED, f"header of {labels}: {text}", a=a, b=b)
    for (first, ours), (_, theirs) in zip(one.slot_columns(), other.slot_columns(), strict=True):
        for slot in np.flatnonzero(ours != theirs).tolist():
            yield _link(f"slot {first + slot} of {labels}", int(ours[slot]), int(theirs[slot]))
    for mine, yours in zip(one.item_columns(), other.item_columns(), strict=True):
        for item in np.flatnonzero(mine.previous != yours.previous).tolist():
            name = f"the chain at item {mine.first + item} of {labels}"
            yield _link(name, int(mine.previous[item]), int(yours.previous[item]))


def _link(name: str, ours: int, theirs: int) -> Difference:
    sentence = f"{name} points to item {ours} and {theirs}"
    return Difference("index", Change.CHANGED, sentence, a={"item": ours}, b={"item": theirs})
