"""Comparison of the parts of two stores, one after the other."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from rmqtool.account.log_losses import StoreAccount, losses_of_sound_log
from rmqtool.account.model import indexes_beyond, lists_beyond
from rmqtool.commands.diff import Change, Comparison, Difference, Healing, Value
from rmqtool.commands.diff.align import Entries, EntryKind, LogBounds
from rmqtool.commands.diff.entries import (
    BATCH_ENTRIES,
    EXT_UNIT_ENTRIES,
    INDEX_ENTRIES,
    LONE_EXT_ENTRIES,
    UNIT_ENTRIES,
    batch_rows,
    diff_tables,
    ext_unit_rows,
    index_rows,
    lone_ext_rows,
    unit_rows,
)
from rmqtool.commands.diff.log import diff_logs, log_reaches
from rmqtool.derived.positions import read_checkpoint
from rmqtool.errors import UsageError
from rmqtool.formats import layout
from rmqtool.formats.checkpoint import CHECKPOINT
from rmqtool.scan.records import record_at
from rmqtool.store import FileQueue, PathKind, QueueFiles, Store
from rmqtool.store.files import TREE_DEPTH

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from rmqtool.account.lost import Absent
    from rmqtool.account.survey import SurveyedLog
    from rmqtool.derived.queue_files import LiveUnits

    Key = tuple[str | int | None, ...]
    _Rows = Callable[[FileQueue, Comparison], Iterator[Any]]


class _Replica(NamedTuple):
    name: str
    store: Store
    account: StoreAccount
    bounds: tuple[int, int]


@dataclass
class _Held:
    """Counts lost messages of a log that another log has: by their queue offsets, or by their places."""

    there: SurveyedLog
    log: FileQueue
    messages: int = 0

    def absent(self, queue: tuple[str, int], absent: Iterable[Absent]) -> None:
        """Take those of a queue."""
        runs = self.there.runs.get(queue)
        if runs is None:
            return
        for one in absent:
            last = one.queue_offset + one.messages
            held = np.minimum(runs["stop"], last) - np.maximum(runs["first"], one.queue_offset)
            self.messages += min(int(np.maximum(held, 0).sum()), one.messages)

    def indexed(self, places: Iterable[int]) -> None:
        """Take those that only the index knows."""
        self.messages += sum(record_at(self.log, place) is not None for place in places)

    def before(self, queue: tuple[str, int] | None, units: LiveUnits) -> None:
        """Skip those before the log, which are not lost for certain."""


def healing(a: Store, b: Store, reaches: LogBounds, comparison: Comparison) -> Iterator[Healing]:
    """Yield, for each side with losses, how much of them the other side has, after the whole comparison."""
    sides = [
        _Replica(name, store, StoreAccount(store), bounds)
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
        if losses is None:
            continue
        lost = losses.messages
        held = _Held(other.account.looked, other.account.looked.log) if lost else None
        if held is not None:
            comparison.is_damaged |= side.account.is_log_cut  # a lagging slave has no trace of these
            side.account.losses(lost=held)
        if lost or damaged or losses.before:
            yield Healing(side.name, lost, 0 if held is None else held.messages, damaged, losses.before)


def _leads_beyond(side: _Replica) -> bool:
    start, end = side.bounds
    return side.account.can_tell and (lists_beyond(side.store, start, end) or indexes_beyond(side.store, end))


_NO_FILES = FileQueue((), ())


def diff_stores(a: Store, b: Store, comparison: Comparison) -> Iterator[Difference]:
    """Yield the differences of two stores, or of the same part of two stores, and fill ``comparison``.

    Raises:
        UsageError: They are not of one kind.
        EnvironmentFailureError: A file cannot be read.
    """
    if a.kind is not b.kind:
        raise UsageError(
            f"{a.place.path} is {a.kind.value}, {b.place.path} is {b.kind.value}; compare like with like"
        )
    for store in (a, b):
        store.base.source.fetch_tails()
    for feature in (*a.features, *b.features):
        comparison.note(f"{feature.label}: {feature.code.title}; it is not compared")
    start = max(a.commitlog.start, b.commitlog.start)
    reaches = LogBounds((start, start))
    if len(a.commitlog) and len(b.commitlog):
        reaches, ends = log_reaches(a, b)
        yield from diff_logs((a, b), reaches, ends, comparison)
        for store in (a, b):
            store.commitlog.close()
    else:
        yield from _one_sided(a, b, PathKind.COMMITLOG, len(a.commitlog), len(b.commitlog), comparison)
    yield from _diff_queues(a, b, PathKind.CONSUMEQUEUE, reaches, comparison)
    yield from _diff_queues(a, b, PathKind.BATCHCONSUMEQUEUE, reaches, comparison)
    if PathKind.CONSUMEQUEUE_EXT in {a.kind, b.kind}:
        yield from _diff_queues(a, b, PathKind.CONSUMEQUEUE_EXT, reaches, comparison)
    yield from _diff_index(a, b, reaches, comparison)
    yield from _diff_checkpoint(a, b, comparison)
    if a.kind is PathKind.STORE and len(a.commitlog) and len(b.commitlog):
        comparison.healing += healing(a, b, reaches, comparison)


def _one_sided(
    a: Store, b: Store, kind: PathKind, ours: int, theirs: int, comparison: Comparison
) -> Iterator[Difference]:
    """Report a part that only one side has; the result of a rebuild lacks some by nature."""
    if bool(ours) == bool(theirs):
        return
    owner, lacking = ("A", b) if ours else ("B", a)
    if len(lacking.commitlog) and lacking.kind is PathKind.STORE:
        change = Change.ONLY_A if ours else Change.ONLY_B
        sentence = f"only {owner} has a {kind.value}"
        yield comparison.count(Difference(kind.value, change, sentence, count=max(ours, theirs)))
    else:
        comparison.note(f"only {owner} has a {kind.value}; it is not compared")


def _queues(store: Store, kind: PathKind) -> dict[Key, QueueFiles]:
    root = store.roots.get(kind)
    depth = TREE_DEPTH if root is None else root.depth
    return {(queue.topic, queue.queue_id)[TREE_DEPTH - depth :]: queue for queue in store.queues(kind)}


def _diff_queues(
    a: Store, b: Store, kind: PathKind, reaches: LogBounds, comparison: Comparison
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
    comparison: Comparison,
) -> Iterator[Difference]:
    files = [_NO_FILES if queue is None else queue.files for queue in pair]
    kind, rows_of = QUEUE_DIFFS[known.kind]
    ext = [_ext_files(store, known) for store in stores] if known.kind is PathKind.CONSUMEQUEUE else []
    if any(map(len, ext)):
        kind = EXT_UNIT_ENTRIES
        ours, theirs = (ext_unit_rows(*both, comparison) for both in zip(files, ext, strict=True))
    else:
        ours, theirs = (rows_of(one, comparison) for one in files)
    yield from Entries(kind, comparison, known.topic, known.queue_id).compare(ours, theirs, reaches)
    for one in ext:
        one.close()


QUEUE_DIFFS: dict[PathKind, tuple[EntryKind, _Rows]] = {
    PathKind.CONSUMEQUEUE: (UNIT_ENTRIES, unit_rows),
    PathKind.BATCHCONSUMEQUEUE: (BATCH_ENTRIES, batch_rows),
    PathKind.CONSUMEQUEUE_EXT: (LONE_EXT_ENTRIES, lone_ext_rows),
}
"""Entries of each kind of queue, and their rows; a side without its directory has no files of it."""


def _ext_files(store: Store, queue: QueueFiles) -> FileQueue:
    if queue.topic is None or queue.queue_id is None:
        return _NO_FILES
    found = store.queue(queue.topic, queue.queue_id, PathKind.CONSUMEQUEUE_EXT)
    return _NO_FILES if found is None else found.files


def _diff_index(a: Store, b: Store, reaches: LogBounds, comparison: Comparison) -> Iterator[Difference]:
    if not a.index_files or not b.index_files:
        yield from _one_sided(a, b, PathKind.INDEX, len(a.index_files), len(b.index_files), comparison)
        return
    entries = Entries(INDEX_ENTRIES, comparison)
    yield from entries.compare(index_rows(a, comparison), index_rows(b, comparison), reaches)
    if not entries.found:
        yield from diff_tables(a, b, comparison)


def _diff_checkpoint(a: Store, b: Store, comparison: Comparison) -> Iterator[Difference]:
    one, other = read_checkpoint(a.checkpoint, []), read_checkpoint(b.checkpoint, [])
    if one is None or other is None:
        have = one is not None, other is not None
        yield from _one_sided(a, b, PathKind.CHECKPOINT, *have, comparison)
        return
    for field, left, right in zip(layout(CHECKPOINT), one, other, strict=True):
        if left != right:
            sentence = f"{field.name} differs"
            a_says: dict[str, Value] = {field.name: left}
            b_says: dict[str, Value] = {field.name: right}
            found = Difference("checkpoint", Change.CHANGED, sentence, a=a_says, b=b_says, normal=True)
            yield comparison.count(found)
