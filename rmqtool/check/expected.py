"""Units and index entries that the log requires, in windows of bounded size that remember matched rows."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Generic, NamedTuple, TypeVar

import numpy as np

from rmqtool.check.lag import Lag

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from rmqtool.arrays import Array, Bools, Int32s, Int64s
    from rmqtool.reput.blocks import Block
    from rmqtool.reput.indexes import IndexStream
    from rmqtool.reput.queues import QueuePlan
    from rmqtool.store.geometry import Geometry
    from rmqtool.store.segments import FileQueue, StoreFile


WINDOW_ROWS = 1 << 19


@dataclass(frozen=True, slots=True)
class Span:
    """Consecutive rows of one block.

    ``queue_offset`` is that of the first row's record, if it grows by one with every row.
    """

    block: Block
    first: int
    count: int
    queue_offset: int | None = None

    def part(self, start: int, stop: int) -> Span:
        """Return the rows ``[start, stop)`` of it."""
        queue_offset = None if self.queue_offset is None else self.queue_offset + start
        return Span(self.block, self.first + start, stop - start, queue_offset)


class UnitRows(NamedTuple):
    """Expected units of a window; every column ``(n,)``, None for the last two where no queue needs them.

    Physical offsets ascend; tags codes are those of a unit without ext; queue offsets are in units, in a
    batch queue base offsets.
    """

    physical_offsets: Int64s
    sizes: Int64s
    tags_codes: Int64s
    queue_offsets: Int64s
    store_timestamps_ms: Int64s | None
    batch_sizes: Int64s | None


class EntryRows(NamedTuple):
    """Expected index entries of a window; every column ``(n,)``, physical offsets ascending.

    ``of_tags`` is whether it is the entry of TAGS, which a broker before 5.4.0 does not put.
    """

    physical_offsets: Int64s
    key_hashes: Int32s
    store_timestamps_ms: Int64s
    of_tags: Bools


R = TypeVar("R")


class ExpectedRows(Generic[R]):
    """Expected rows in log order, found by physical offset, with those that were matched.

    Rows of one record are never split. A window whose rows were all matched takes no memory any more.
    ``column`` and its ``field`` hold the physical offsets.
    """

    def __init__(self, spans: Sequence[Span], column: str, field: str) -> None:
        self._column, self._field = column, field
        self.spans = [piece for span in spans for piece in self._pieces(span)]
        starts = [int(self._offsets(span, 0, 1)[0]) for span in self.spans]
        self._starts = np.array(starts, np.int64)
        self.firsts = np.cumsum([0, *(span.count for span in self.spans)]).tolist()
        self._seen: dict[int, Bools | None] = {}
        self._loaded: tuple[int, R] | None = None

    def rows(self, number: int) -> R:
        """Return a window; the last one is kept, as chunks of a file are smaller."""
        if self._loaded is None or self._loaded[0] != number:
            self._loaded = number, self._read(number)
        return self._loaded[1]

    def _read(self, number: int) -> R:
        raise NotImplementedError

    @property
    def total(self) -> int:
        """Return how many rows there are."""
        return int(self.firsts[-1])

    def by_window(self, physical_offsets: Int64s) -> Iterator[tuple[int, Array]]:
        """Yield a window's number, and which of the offsets can only lie in it."""
        if not self.spans or not len(physical_offsets):
            return
        numbers = np.maximum(np.searchsorted(self._starts, physical_offsets, side="right") - 1, 0)
        for number in np.flatnonzero(np.bincount(numbers)).tolist():
            yield number, np.flatnonzero(numbers == number)

    def seen(self, number: int) -> Bools:
        """Return which rows of a window were matched; change it in place, then `flush` it."""
        kept = self._seen.get(number, np.zeros(0, np.bool_))
        if kept is None:
            return np.ones(self.spans[number].count, np.bool_)
        if not len(kept):
            kept = self._seen[number] = np.zeros(self.spans[number].count, np.bool_)
        return kept

    def flush(self, number: int) -> None:
        """Drop a window's rows if all of them were matched."""
        kept = self._seen.get(number)
        if kept is not None and kept.all():
            self._seen[number] = None

    def unseen(self, number: int) -> Int64s:
        """Return the rows of a window that were not matched."""
        if number not in self._seen:
            return np.arange(self.spans[number].count)
        kept = self._seen[number]
        return np.flatnonzero(~kept) if kept is not None else np.zeros(0, np.int64)

    def is_unseen(self) -> bool:
        """Whether any row was not matched."""
        return any(len(self.unseen(number)) for number in range(len(self.spans)))

    def _offsets(self, span: Span, first: int, count: int) -> Int64s:
        rows = span.block.read(self._column, span.first + first, count)
        return rows[self._field].astype(np.int64)

    def _pieces(self, span: Span) -> Iterator[Span]:
        start = 0
        while start < span.count:
            stop = self._record_start(span, start, min(start + WINDOW_ROWS, span.count))
            yield span.part(start, stop)
            start = stop

    def _record_start(self, span: Span, start: int, stop: int) -> int:
        """Return ``stop``, or the row before it where its record begins."""
        back = 16
        while stop < span.count and back < 2 * (stop - start):
            low = max(start, stop - back)
            offsets = self._offsets(span, low, stop - low + 1)
            others = np.flatnonzero(offsets != offsets[-1])
            if len(others):
                return low + int(others[-1]) + 1
            back *= 16
        return span.count


class ExpectedUnits(ExpectedRows[UnitRows]):
    """The units that the log requires of one queue; without a plan the log knows nothing of the queue."""

    def __init__(self, plan: QueuePlan | None, blocks: Sequence[Block]) -> None:
        super().__init__(() if plan is None else list(_spans(plan, blocks)), "units", "physicalOffset")

    def _read(self, number: int) -> UnitRows:
        span = self.spans[number]
        units = span.block.read("units", span.first, span.count)
        return UnitRows(
            units["physicalOffset"].astype(np.int64),
            units["size"].astype(np.int64),
            units["tagsCode"].astype(np.int64),
            self.queue_offsets(number),
            _optional(span, "store_timestamps"),
            _optional(span, "batch_sizes"),
        )

    def queue_offsets(self, number: int) -> Int64s:
        """Return the queue offsets of a window, read only where they do not follow from the run."""
        span = self.spans[number]
        if span.queue_offset is not None:
            return np.arange(span.queue_offset, span.queue_offset + span.count)
        return np.asarray(span.block.read("queue_offsets", span.first, span.count), np.int64)


class ExpectedEntries(ExpectedRows[EntryRows]):
    """The index entries that the log requires, in log order; None if there are none."""

    def __init__(self, stream: IndexStream | None) -> None:
        blocks = () if stream is None else stream.blocks
        spans = [Span(block, 0, block.count("entries")) for block in blocks if block.count("entries")]
        super().__init__(spans, "entries", "physical_offset")
        self._without_tags: set[int] = set()

    def seen(self, number: int) -> Bools:
        """Return which rows of a window were matched; change it in place, then `flush` it."""
        if number in self._without_tags:
            self._without_tags.remove(number)
            self._seen[number] = ~self.rows(number).of_tags
        return super().seen(number)

    def without_end(self, physical_offset: int) -> int:
        """Require no item from a place on, up to a record with one; return how many are left."""
        for number in reversed(range(len(self.spans))):
            offsets, matched = self.rows(number).physical_offsets, np.ones(self.spans[number].count, np.bool_)
            matched[self.unseen(number)] = False
            last = int(np.flatnonzero(matched)[-1]) + 1 if matched.any() else 0
            start = max(last, int(np.searchsorted(offsets, physical_offset)))
            self.seen(number)[start:] = True
            self.flush(number)
            if start:
                return int(self.firsts[number]) + start
        return 0

    def flush(self, number: int) -> None:
        """Drop a window's rows if all of them were matched, or all but those of tags."""
        super().flush(number)
        kept = self._seen.get(number)
        if kept is not None and np.array_equal(kept, ~self.rows(number).of_tags):
            del self._seen[number]
            self._without_tags.add(number)

    def unseen(self, number: int) -> Int64s:
        """Return the rows of a window that were not matched."""
        if number in self._without_tags:
            return np.flatnonzero(self.rows(number).of_tags)
        return super().unseen(number)

    def _read(self, number: int) -> EntryRows:
        span = self.spans[number]
        entries = span.block.read("entries", span.first, span.count)
        names = ("physical_offset", "key_hash", "store_timestamp_ms", "of_tags")
        return EntryRows(*(np.ascontiguousarray(entries[name]) for name in names))


def _spans(plan: QueuePlan, blocks: Sequence[Block]) -> Iterator[Span]:
    names = ["block", "first_row", "count", "first_queue_offset", "orderly"]
    for block, first, count, queue_offset, orderly in plan.runs()[names].tolist():
        yield Span(blocks[block], first, count, queue_offset if orderly else None)


def _optional(span: Span, column: str) -> Int64s | None:
    if not span.block.count(column):
        return None
    return span.block.read(column, span.first, span.count).astype(np.int64)


_NONE = np.iinfo(np.int64).max


class MissingRanges(NamedTuple):
    """Ranges of rows without items, in log order, each with ``keys`` entries of keys; columns ``(n,)``.

    The entry of TAGS is never missed: a broker before 5.4.0 puts none, so a message is whole with and
    without.
    """

    starts: Int64s
    stops: Int64s
    keys: Int64s
    first_keys: Int64s


def missing_entries(expected: ExpectedEntries) -> MissingRanges:
    """Return the ranges of entries without item."""
    parts = [_of_window(expected, window) for window in range(len(expected.spans))]
    starts, stops, keys, first_keys = np.concatenate([np.zeros((4, 0), np.int64), *parts], axis=1)
    begins = np.flatnonzero(np.concatenate([[True], starts[1:] != stops[:-1]])[: len(starts)])
    if not len(begins):
        return MissingRanges(starts, stops, keys, first_keys)
    ends = np.append(begins[1:], len(starts)) - 1
    keys, first_keys = np.add.reduceat(keys, begins), np.minimum.reduceat(first_keys, begins)
    has_keys = keys > 0
    return MissingRanges(
        starts[begins][has_keys], stops[ends][has_keys], keys[has_keys], first_keys[has_keys]
    )


def _of_window(expected: ExpectedEntries, window: int) -> Int64s:
    """Return starts, stops, keys and first keys of a window's ranges, ``(4, n)``.

    One without keys counts only at the window's edge, where it may go on.
    """
    unseen = expected.unseen(window)
    if not len(unseen):
        return np.zeros((4, 0), np.int64)
    is_key = ~expected.rows(window).of_tags[unseen]
    firsts = np.concatenate([[0], np.flatnonzero(np.diff(unseen) != 1) + 1])
    lasts = np.append(firsts[1:], len(unseen)) - 1
    starts, stops = unseen[firsts], unseen[lasts] + 1
    first_keys = np.minimum.reduceat(np.where(is_key, unseen, _NONE), firsts)
    keys = np.add.reduceat(is_key.astype(np.int64), firsts)
    counts = (keys > 0) | (starts == 0) | (stops == expected.spans[window].count)
    base = expected.firsts[window]
    first_keys = np.where(keys > 0, first_keys + base, _NONE)
    return np.stack([starts + base, stops + base, keys, first_keys])[:, counts]


class QueueCheck(NamedTuple):
    """One queue; ``topic`` is as Java decodes it.

    Attributes:
        expected: runs of the units that the log requires; None if it requires none, and below level 2.
        deleted: its topic was deleted: a broker has deleted the queue, and an unclean start since then has
            put the log's last records back.
        skipped: how far queue offsets run ahead of the units at most: messages name the queue twice.
        since: physical offset of the first message since the topic was deleted and created again; None if
            that does not show. Messages before it have no queue any more.
    """

    topic: str
    queue_id: int
    batch: bool
    files: FileQueue | None
    ext_files: FileQueue | None
    expected: QueuePlan | None
    deleted: bool = False
    skipped: int = 0
    since: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class DerivedTask:
    """Derived files to check, and what is known of log and store.

    Attributes:
        log_start: physical offset of the log's first byte.
        log_end: physical offset after the last intact record of the log.
        level: 1 each file on its own, 2 against the log, 3 completeness.
        unclean: ``abort`` exists (or the store is live): the next start repairs lag at the log's end.
        max_findings: findings of one code that are kept.
        live: a broker appends meanwhile: what points at ``log_end`` or after it came later, no damage.
        lag: what of the log a kill leaves without units and entries.
        log_cut: the log has lost its end for certain (the checkpoint is later): units beyond it are errors.
    """

    log_start: int
    log_end: int
    level: int
    unclean: bool
    max_findings: int = 100
    live: bool = False
    lag: Lag = field(default_factory=Lag)
    log_cut: bool = False


@dataclass(frozen=True, slots=True)
class QueueCheckTask(DerivedTask):
    """Some queues, whole.

    Attributes:
        blocks: they hold the expected runs.
        ext: ``enableConsumeQueueExt``.
        is_log_sound: the log has no errors, so no damage of it explains a unit that leads nowhere.
    """

    queues: tuple[QueueCheck, ...]
    blocks: tuple[Block, ...]
    ext: bool
    is_log_sound: bool = False

    @property
    def files(self) -> tuple[StoreFile, ...]:
        """Return the files that are read."""
        queues = (files for check in self.queues for files in (check.files, check.ext_files))
        return tuple(file for files in queues if files is not None for file in files)


@dataclass(frozen=True, slots=True)
class IndexCheckTask(DerivedTask):
    """The whole index: its files are one stream, by name.

    Attributes:
        expected: entries that the log requires, in log order; None below level 2.
        stale_stop: physical offset after the old records that a truncation left after ``log_end``, if any.
        geometry_known: ``geometry`` was given or proven; otherwise files of another size cannot be read.
    """

    files: tuple[StoreFile, ...]
    geometry: Geometry
    expected: IndexStream | None
    index_enabled: bool
    stale_stop: int = 0
    geometry_known: bool = True
