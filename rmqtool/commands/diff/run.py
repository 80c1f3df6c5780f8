"""Comparison of two stores, structure by structure: entries of derived files, the log, and the whole."""

from __future__ import annotations

import zlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from rmqtool.account import indexes_beyond, lists_beyond
from rmqtool.account.log_losses import StoreAccount, account_of, losses_of_sound_log
from rmqtool.commands.diff import Change, Difference, DifferenceLimiter, Healing, StoreComparison, Value
from rmqtool.commands.diff.entries import NUMBER, ORDER, TIME, Entries, EntryKind, LogBounds
from rmqtool.commands.diff.judging import judge_copies
from rmqtool.commands.diff.log import count_records, diff_logs, log_reaches
from rmqtool.commands.diff.records import Parting
from rmqtool.commands.diff.settings import diff_settings
from rmqtool.derived.ext_files import ExtReader
from rmqtool.derived.index_files import IndexFile, open_index_file, opened_index_files
from rmqtool.derived.positions import read_checkpoint
from rmqtool.derived.queue_files import QueueReader, Units
from rmqtool.errors import UsageError
from rmqtool.findings import Severity
from rmqtool.formats import consumequeue as formats
from rmqtool.formats import layout
from rmqtool.formats.checkpoint import CHECKPOINT
from rmqtool.formats.consumequeue import BATCH_UNITS
from rmqtool.formats.index import HEADER
from rmqtool.retention.expiry import check_expiry, of_queues
from rmqtool.scan.classify import FoundEdge
from rmqtool.scan.record_walk import find_log_end
from rmqtool.scan.records import record_at
from rmqtool.store import FileQueue, PathKind, QueueFiles, Store
from rmqtool.store.files import TREE_DEPTH
from rmqtool.store.layouts import Deed

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from rmqtool.account.lost import Absent
    from rmqtool.account.survey import SurveyedLog
    from rmqtool.arrays import Rows
    from rmqtool.derived.queues import LiveUnits

    Key = tuple[str | int | None, ...]
    _Rows = Callable[[FileQueue, StoreComparison], Iterator[Any]]


_NO_EXT = -1
_ROW = np.dtype([(name, np.int64) for name in (ORDER, NUMBER, TIME, "physical_offset", "size", "tags_code")])
_EXT_ROW = np.dtype([*_ROW.descr, ("ext_time_ms", np.int64), ("bit_map_crc", np.int64)])
_IDENTITY = (ORDER, "physical_offset", "size", "tags_code")


_UNIT_VALUES = {"physicalOffset": "physical_offset", "size": "size", "tagsCode": "tags_code"}
UNIT_ENTRIES = EntryKind(
    structure=PathKind.CONSUMEQUEUE.value,
    plural="units",
    identity=_IDENTITY,
    place=("queue_offset", ORDER),
    label="{queue} #{order}",
    values=_UNIT_VALUES,
)
EXT_UNIT_ENTRIES = UNIT_ENTRIES._replace(
    identity=(*_IDENTITY, "ext_time_ms", "bit_map_crc"),
    values={**_UNIT_VALUES, "extStoreTimestamp": "ext_time_ms", "bitMapCrc": "bit_map_crc"},
)
"""Units with the tags code, store time and bit map of their ext units instead of an address."""


def unit_rows(files: FileQueue, comparison: StoreComparison) -> Iterator[Rows]:
    """Yield the units of a queue; zeros and pre-blanks stand for no unit."""
    reader = QueueReader(files, formats.UNITS)
    for units in reader:
        rows = _rows(units, _ROW)
        if len(rows):
            yield rows
    comparison.note_unreadable(reader.unreadable)


def ext_unit_rows(files: FileQueue, ext_files: FileQueue, comparison: StoreComparison) -> Iterator[Rows]:
    """Yield the units of a queue with the fields of their ext units."""
    ext, reader = ExtReader(ext_files), QueueReader(files, formats.UNITS)
    for units in reader:
        rows = _rows(units, _EXT_ROW)
        rows["ext_time_ms"] = rows["bit_map_crc"] = _NO_EXT
        for number in np.flatnonzero(rows["tags_code"] <= formats.EXT_ADDRESS_MAX).tolist():
            unit = ext.at(int(rows["tags_code"][number]))
            if unit is not None and unit.bit_map is not None:
                rows["tags_code"][number] = unit.head.tags_code
                rows["ext_time_ms"][number] = unit.head.store_timestamp_ms
                rows["bit_map_crc"][number] = zlib.crc32(unit.bit_map)
        if len(rows):
            yield rows
    comparison.note_unreadable(reader.unreadable)


def _rows(units: Units, dtype: np.dtype[Any]) -> Rows:
    rows = np.zeros(len(units), dtype)
    rows[ORDER] = rows[NUMBER] = units.first_number + np.arange(len(units))
    rows["physical_offset"] = units.rows["physicalOffset"]
    rows["size"] = units.rows["size"]
    rows["tags_code"] = units.rows["tagsCode"]
    rest = rows["physical_offset"] | rows["tags_code"]
    is_used = (rest != 0) | ((rows["size"] != 0) & (rows["size"] != formats.PREBLANK_SIZE))
    used: Rows = rows[is_used]
    return used


_COLUMNS = {
    "physicalOffset": "physical_offset",
    "size": "size",
    "tagsCode": "tags_code",
    "storeTimestamp": "store_timestamp_ms",
    "batchSize": "batch_size",
    "compactedOffset": "compacted_offset",
}
_BATCH_ROW = np.dtype([(name, np.int64) for name in (ORDER, NUMBER, TIME, *_COLUMNS.values())])


BATCH_ENTRIES = EntryKind(
    structure=PathKind.BATCHCONSUMEQUEUE.value,
    plural="batch units",
    identity=(ORDER, *_COLUMNS.values()),
    place=("queue_offset", ORDER),
    label="{queue} #{order}",
    values={"msgBaseOffset": ORDER, **_COLUMNS},
)


def batch_rows(files: FileQueue, comparison: StoreComparison) -> Iterator[Rows]:
    """Yield the units of a batch consume queue; zeros stand for no unit."""
    total, reader = 0, QueueReader(files, BATCH_UNITS)
    for units in reader:
        used = units.rows[
            np.frombuffer(units.rows.tobytes(), np.uint8).reshape(-1, units.unit_size).any(axis=1)
        ]
        rows = np.zeros(len(used), _BATCH_ROW)
        rows[ORDER] = used["msgBaseOffset"]
        rows[NUMBER] = total + np.arange(len(used))
        for name, column in _COLUMNS.items():
            rows[column] = used[name]
        total += len(used)
        if len(rows):
            yield rows
    comparison.note_unreadable(reader.unreadable)


_INDEX_ROW = np.dtype(
    [(name, np.int64) for name in (ORDER, NUMBER, TIME, "physical_offset")] + [("key_hash", np.int32)]
)
_SECOND_MS = 1000
_HEADER = tuple(field.name for field in layout(HEADER))


INDEX_ENTRIES = EntryKind(
    structure="index",
    plural="index entries",
    identity=(ORDER, "key_hash"),
    slack_ms=_SECOND_MS - 1,
    place=("item", NUMBER),
    label="entry {number}, of the record at {physical_offset}",
    values={"keyHash": "key_hash", "physicalOffset": "physical_offset", "storeTimestamp": TIME},
)
"""An item's time is in seconds from the begin of its file, so times are only known to the second."""


def index_rows(store: Store, comparison: StoreComparison) -> Iterator[Rows]:
    """Yield the items of all files of a store, in the order of the names."""
    total = 0
    for opened in opened_index_files(store):
        begin_ms = opened.header.begin_timestamp_ms
        for items in opened.item_columns():
            rows = np.zeros(len(items), _INDEX_ROW)
            rows[ORDER] = rows["physical_offset"] = items.physical_offsets
            rows[NUMBER] = total + np.arange(len(items))
            rows["key_hash"] = items.key_hashes
            rows[TIME] = begin_ms + items.time_diffs * _SECOND_MS
            if items.first == 1:  # measured from the end of the file before (IndexFile#putKey)
                rows[TIME][0] = begin_ms
            total += len(items)
            yield rows
        comparison.note_unreadable([(opened.file, opened.unreadable)])


def diff_tables(a: Store, b: Store, comparison: StoreComparison) -> Iterator[Difference]:
    """Compare headers, slots and chains of indexes with equal entries, where the files have equal bounds.

    Elsewhere they follow from where a file begins, and show nothing about the entries.
    """
    used = []
    for store in (a, b):
        files = [open_index_file(file, store.settings.index_geometry) for file in store.index_files]
        used.append([file for file in files if file.used])
    if len({tuple((file.geometry, file.used) for file in side) for side in used}) > 1:
        comparison.note("the index files begin at other entries; their headers and chains are not compared")
        return
    limiter = DifferenceLimiter(comparison, "index")
    for ours, theirs in zip(*used, strict=True):
        yield from limiter.add_all(_diff_file(ours, theirs))
        ours.file.close()
        theirs.file.close()
    yield from limiter.finish()


def _diff_file(file: IndexFile, other: IndexFile) -> Iterator[Difference]:
    labels = (
        file.file.label if file.file.label == other.file.label else f"{file.file.label}, {other.file.label}"
    )
    header = zip(_HEADER, file.header, other.header, strict=True)
    wrong = {name: (ours, theirs) for name, ours, theirs in header if ours != theirs}
    if wrong:
        text = ", ".join(f"{name} {ours} and {theirs}" for name, (ours, theirs) in wrong.items())
        a: dict[str, Value] = {name: pair[0] for name, pair in wrong.items()}
        b: dict[str, Value] = {name: pair[1] for name, pair in wrong.items()}
        yield Difference("index", Change.CHANGED, f"header of {labels}: {text}", a=a, b=b)
    for (first, ours), (_, theirs) in zip(file.slot_columns(), other.slot_columns(), strict=True):
        for slot in np.flatnonzero(ours != theirs).tolist():
            yield _link(f"slot {first + slot} of {labels}", int(ours[slot]), int(theirs[slot]))
    for mine, yours in zip(file.item_columns(), other.item_columns(), strict=True):
        for item in np.flatnonzero(mine.previous != yours.previous).tolist():
            name = f"the chain at item {mine.first + item} of {labels}"
            yield _link(name, int(mine.previous[item]), int(yours.previous[item]))


def _link(name: str, ours: int, theirs: int) -> Difference:
    sentence = f"{name} points to item {ours} and {theirs}"
    return Difference("index", Change.CHANGED, sentence, a={"item": ours}, b={"item": theirs})


class _Replica(NamedTuple):
    name: str
    store: Store
    account: StoreAccount
    bounds: tuple[int, int]


@dataclass
class _HeldElsewhere:
    """Counts lost messages of a log that another log has: by their queue offsets, or by their places."""

    there: SurveyedLog
    log: FileQueue
    messages: int = 0

    def absent(self, queue: tuple[str, int], absent: Iterable[Absent]) -> None:
        """Take those of a queue."""
        runs = self.there.runs.get(queue)
        if runs is None:
            return
        for gone in absent:
            last = gone.queue_offset + gone.messages
            held = np.minimum(runs["stop"], last) - np.maximum(runs["first"], gone.queue_offset)
            self.messages += min(int(np.maximum(held, 0).sum()), gone.messages)

    def indexed(self, places: Iterable[int]) -> None:
        """Take those that only the index knows."""
        self.messages += sum(record_at(self.log, place) is not None for place in places)

    def before(self, queue: tuple[str, int] | None, units: LiveUnits) -> None:
        """Skip those before the log, which are not lost for certain."""


def healing(a: Store, b: Store, reaches: LogBounds, comparison: StoreComparison) -> Iterator[Healing]:
    """Yield, for each side with losses, how much of them the other side has, after the whole comparison."""
    sides = [
        _Replica(name, store, account_of(store), bounds)
        for name, store, bounds in zip(
            "ab", (a, b), zip(reaches.starts, reaches.ends, strict=True), strict=True
        )
    ]
    for side, other in (sides, sides[::-1]):
        damaged = comparison.damaged[side.name]
        losses = None
        if (comparison.is_damaged or _leads_beyond(side)) and side.account.can_tell:
            losses = side.account.losses()
        elif side.bounds[0] > 0:
            losses = losses_of_sound_log(side.store)
        if side.bounds[0] > 0:
            latest_ms = find_log_end(FoundEdge.of(side.store)).last_ms
            for expiry in check_expiry(side.store, of_queues(side.store, latest_ms)):
                if expiry.severity is Severity.ERROR:
                    comparison.is_damaged = True
                    comparison.note(f"{side.name.upper()}: {expiry.message}")
        if losses is None:
            continue
        lost = losses.messages
        held = _HeldElsewhere(other.account.surveyed, other.account.surveyed.log) if lost else None
        if held is not None:
            comparison.is_damaged |= side.account.is_log_cut  # a lagging slave has no trace of these
            side.account.losses(lost=held)
        if lost or damaged or losses.before:
            yield Healing(side.name, lost, 0 if held is None else held.messages, damaged, losses.before)


def _leads_beyond(side: _Replica) -> bool:
    start, end = side.bounds
    return side.account.can_tell and (lists_beyond(side.store, start, end) or indexes_beyond(side.store, end))


_NO_FILES = FileQueue((), ())


def diff_stores(a: Store, b: Store, comparison: StoreComparison) -> Iterator[Difference]:
    """Yield the differences of two stores, or of the same part of two stores, and fill ``comparison``."""
    if a.kind is not b.kind:
        raise UsageError(
            f"{a.place.path} is {a.kind.value}, {b.place.path} is {b.kind.value}; compare like with like"
        )
    if a.kind is PathKind.CONSUMEQUEUE_EXT:
        raise UsageError(
            f"{a.place.path}: ext units are compared through the units that name them; give the stores"
        )
    for feature in (*a.hidden, *b.hidden):
        comparison.note(f"{feature.label}: {feature.code.title}; it is not compared")
    comparison.is_unread = bool(a.unread or b.unread)
    start = max(a.commitlog.start, b.commitlog.start)
    reaches = LogBounds((start, start))
    if len(a.commitlog) and len(b.commitlog):
        reaches, ends = log_reaches(a, b)
        parting = Parting((a.commitlog, b.commitlog))
        yield from diff_logs((a, b), reaches, ends, comparison, parting)
        within = dict(zip("ab", reaches.ends, strict=True))
        damaged_at = {side: at for side, at in comparison.damaged_at.items() if at < within.get(side, 0)}
        comparison.verdict = judge_copies((a, b), reaches, ends, parting, damaged_at)
        for store in (a, b):
            store.commitlog.close()
    else:
        yield from _one_sided(a, b, PathKind.COMMITLOG, len(a.commitlog), len(b.commitlog), comparison)
        lacking = a if len(b.commitlog) else b
        if a.kind is PathKind.STORE and len(a.commitlog) != len(b.commitlog) and _lost_its_log(lacking):
            bounds, ends = log_reaches(a, b)
            parting = Parting((a.commitlog, b.commitlog))
            count_records((b, a)[lacking is b], int(lacking is a), bounds, parting)
            comparison.verdict = judge_copies((a, b), bounds, ends, parting, {})
    yield from _diff_queues(a, b, PathKind.CONSUMEQUEUE, reaches, comparison)
    yield from _diff_queues(a, b, PathKind.BATCHCONSUMEQUEUE, reaches, comparison)
    yield from _diff_index(a, b, reaches, comparison)
    yield from _diff_checkpoint(a, b, comparison)
    if a.kind is PathKind.STORE:
        yield from diff_settings(a, b, comparison)
    if a.kind is PathKind.STORE and len(a.commitlog) and len(b.commitlog):
        comparison.healing += healing(a, b, reaches, comparison)


def _one_sided(
    a: Store, b: Store, kind: PathKind, ours: int, theirs: int, comparison: StoreComparison
) -> Iterator[Difference]:
    """Report a part that only one side has; the result of a rebuild lacks some by nature."""
    if bool(ours) == bool(theirs):
        return
    owner, lacking = ("A", b) if ours else ("B", a)
    if lacking.kind is PathKind.STORE and (len(lacking.commitlog) or _lost_its_log(lacking)):
        change = Change.ONLY_A if ours else Change.ONLY_B
        sentence = f"only {owner} has a {kind.value}"
        damaged = ("b" if ours else "a") if kind is PathKind.COMMITLOG else None
        yield comparison.count(
            Difference(kind.value, change, sentence, count=max(ours, theirs), damaged=damaged)
        )
    else:
        comparison.note(f"only {owner} has a {kind.value}; it is not compared")


def _lost_its_log(store: Store) -> bool:
    """Whether a store has no log, and had one: a rebuilt folder has nothing but queues and index."""
    others = (store.checkpoint, store.config, store.abort, store.lock)
    is_of_broker = any(others) or any(directory.is_directory() for directory in store.commitlog.directories)
    return is_of_broker and store.can(Deed.READ_LOG)


def _queues(store: Store, kind: PathKind) -> dict[Key, QueueFiles]:
    root = store.roots.get(kind)
    depth = TREE_DEPTH if root is None else root.depth
    return {(queue.topic, queue.queue_id)[TREE_DEPTH - depth :]: queue for queue in store.queues(kind)}


def _diff_queues(
    a: Store, b: Store, kind: PathKind, reaches: LogBounds, comparison: StoreComparison
) -> Iterator[Difference]:
    ours, theirs = _queues(a, kind), _queues(b, kind)
    if not ours or not theirs:
        yield from _one_sided(a, b, kind, len(ours), len(theirs), comparison)
        return
    for key in sorted(ours.keys() | theirs.keys(), key=lambda key: tuple(map(_sortable, key))):
        pair = ours.get(key), theirs.get(key)
        known = pair[0] or pair[1]
        if known is not None:
            comparison.compared["queues"] += 1
            yield from _diff_queue(known, pair, (a, b), reaches, comparison)
        for queue in pair:
            if queue is not None:
                queue.files.close()


def _sortable(part: str | int | None) -> tuple[int, str]:
    return (part, "") if isinstance(part, int) else (-1, str(part))


def _diff_queue(
    known: QueueFiles,
    pair: tuple[QueueFiles | None, QueueFiles | None],
    stores: tuple[Store, Store],
    reaches: LogBounds,
    comparison: StoreComparison,
) -> Iterator[Difference]:
    files = [_NO_FILES if queue is None else queue.files for queue in pair]
    kind, rows_of = QUEUE_DIFFS[known.kind]
    ext = [_ext_files(store, known) for store in stores] if known.kind is PathKind.CONSUMEQUEUE else []
    if any(map(len, ext)):
        kind = EXT_UNIT_ENTRIES
        ours, theirs = (ext_unit_rows(*both, comparison) for both in zip(files, ext, strict=True))
    else:
        ours, theirs = (rows_of(file, comparison) for file in files)
    yield from Entries(kind, comparison, known.topic, known.queue_id).compare(ours, theirs, reaches)
    for one in ext:
        one.close()


QUEUE_DIFFS: dict[PathKind, tuple[EntryKind, _Rows]] = {
    PathKind.CONSUMEQUEUE: (UNIT_ENTRIES, unit_rows),
    PathKind.BATCHCONSUMEQUEUE: (BATCH_ENTRIES, batch_rows),
}
"""Entries of each kind of queue, and their rows; a side without its directory has no files of it."""


def _ext_files(store: Store, queue: QueueFiles) -> FileQueue:
    if queue.topic is None or queue.queue_id is None:
        return _NO_FILES
    ext_queue = store.queue(queue.topic, queue.queue_id, PathKind.CONSUMEQUEUE_EXT)
    return _NO_FILES if ext_queue is None else ext_queue.files


def _diff_index(a: Store, b: Store, reaches: LogBounds, comparison: StoreComparison) -> Iterator[Difference]:
    if not a.index_files or not b.index_files:
        yield from _one_sided(a, b, PathKind.INDEX, len(a.index_files), len(b.index_files), comparison)
        return
    entries = Entries(INDEX_ENTRIES, comparison)
    yield from entries.compare(index_rows(a, comparison), index_rows(b, comparison), reaches)
    if not entries.found:
        yield from diff_tables(a, b, comparison)


def _diff_checkpoint(a: Store, b: Store, comparison: StoreComparison) -> Iterator[Difference]:
    fields, other = read_checkpoint(a.checkpoint, []), read_checkpoint(b.checkpoint, [])
    if fields is None or other is None:
        have = int(fields is not None), int(other is not None)
        yield from _one_sided(a, b, PathKind.CHECKPOINT, *have, comparison)
        return
    for field, left, right in zip(layout(CHECKPOINT), fields, other, strict=True):
        if left != right:
            sentence = f"{field.name} differs"
            a_says: dict[str, Value] = {field.name: left}
            b_says: dict[str, Value] = {field.name: right}
            difference = Difference("checkpoint", Change.CHANGED, sentence, a=a_says, b=b_says, normal=True)
            yield comparison.count(difference)
