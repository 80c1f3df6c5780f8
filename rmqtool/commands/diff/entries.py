"""Entries of two stores, joined by their places: queue offsets, or physical offsets of an index's entries.

Both streams are cut at one place of the order, and what lies before it is joined: memory is that of a few
chunks, however long the streams are, and an entry too many is one difference.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from rmqtool.commands.diff import Change, Difference, DifferenceLimiter, StoreComparison, Value, said

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from rmqtool.arrays import Array, Bools, Int64s, Row, Rows

ORDER, NUMBER, TIME = "order", "number", "time_ms"
"""Fields of every row: the place by which it is joined, its number in the stream, a store time."""

_LAST = np.iinfo(np.int64).max
_SAMPLE = 129
_LEAST_LOADED, _MOST_WAITING = 1 << 10, 1 << 22


class EntryKind(NamedTuple):
    """Kind of entries of two stores: how their rows are compared, and their form in a difference.

    Attributes:
        structure: As for ``--type``.
        plural: Their name in counts.
        identity: Fields that make two rows equal, but for the time.
        place: The field of a difference that shows the place of an entry, and the column of that.
        label: The beginning of a sentence about an entry, with its queue and columns.
        values: Columns of an entry's values, by their names.
        slack_ms: Difference allowed between the times of equal rows.
    """

    structure: str
    plural: str
    identity: tuple[str, ...]
    place: tuple[str, str]
    label: str
    values: dict[str, str]
    slack_ms: int = 0


class LogBounds(NamedTuple):
    """The physical offsets at which the two logs begin and end; they explain what only one side has."""

    starts: tuple[int, int] = (0, 0)
    ends: tuple[int, int] = (_LAST, _LAST)

    def excuse(self, rows: Rows, side: int) -> Bools:
        """Return which rows of a side the other may lack because its log does not have their records."""
        offsets = rows["physical_offset"]
        expired = (offsets >= 0) & (offsets < max(self.starts))
        later = (offsets >= self.ends[1 - side]) & (offsets < self.ends[side])
        return np.asarray(expired | later)


class DifferenceWindow(NamedTuple):
    """Differences of one stretch of both streams, each in the order of its stream.

    ``changed`` are rows of A and those of B in the same places; ``excused`` counts rows that one side lacks,
    as its log lacks their records.
    """

    compared: int
    changed: tuple[Rows, Rows]
    only_a: Rows
    only_b: Rows
    excused: int = 0


class _Side:
    """A stream and its rows that wait to be joined; most of those not loaded lie at or above the bound."""

    def __init__(self, chunks: Iterator[Rows], log_end: int) -> None:
        self._chunks, self._log_end, self.is_done = chunks, log_end, False
        self.rows: Rows = np.empty(0, [])
        self.bound = -1
        self.fill()

    def fill(self) -> None:
        """Load some chunks; damaged rows set no bound."""
        chunks = [self.rows] if len(self.rows) else []
        loaded = 0
        while loaded < _LEAST_LOADED and not self.is_done:
            chunk = next(self._chunks, None)
            if chunk is None:
                self.is_done, self.bound = True, _LAST
                break
            places = chunk["physical_offset"]
            orders = chunk[ORDER][(places >= 0) & (places < self._log_end)][-_SAMPLE:]
            self.bound = max(self.bound, int(np.median(orders))) if len(orders) else self.bound
            chunks.append(chunk)
            loaded += len(chunk)
        self.rows = np.concatenate(chunks) if chunks else self.rows

    def take(self, cut: int) -> Rows:
        """Remove the rows below ``cut``, all if it is the last place, and return them."""
        if cut == _LAST or not len(self.rows):
            taken, self.rows = self.rows, self.rows[:0]
            return taken
        is_below = self.rows[ORDER] < cut
        taken, self.rows = self.rows[is_below], self.rows[~is_below]
        return taken


def join(
    a: Iterator[Rows], b: Iterator[Rows], kind: EntryKind, reaches: LogBounds
) -> Iterator[DifferenceWindow]:
    """Yield the stretches of two streams of chunks of structured rows, with their differences."""
    sides = [_Side(stream, max(reaches.ends)) for stream in (a, b)]
    while not all(side.is_done for side in sides) or any(len(side.rows) for side in sides):
        cut = min(side.bound for side in sides)
        if max(len(side.rows) for side in sides) > _MOST_WAITING:
            cut = _LAST  # rows in no order
        ours, theirs = (side.take(cut) for side in sides)
        if len(ours) or len(theirs):
            # A stream without rows has none of their fields either.
            pair = (ours, theirs if len(theirs) else ours[:0]) if len(ours) else (theirs[:0], theirs)
            yield _joined(*pair, kind, reaches)
        for side in sides:
            if side.bound <= cut:
                side.fill()


def _joined(a: Rows, b: Rows, kind: EntryKind, reaches: LogBounds) -> DifferenceWindow:
    if len(a) == len(b) and not _differs(a, b, kind).any():
        return DifferenceWindow(len(a), (a[:0], b[:0]), a[:0], b[:0])
    mine, theirs = match_rows([a[name] for name in kind.identity], [b[name] for name in kind.identity])
    late = np.abs(a[TIME][mine] - b[TIME][theirs]) > kind.slack_ms
    lone_a, lone_b = np.delete(a, mine), np.delete(b, theirs)
    twins = match_rows([lone_a[ORDER]], [lone_b[ORDER]])
    changed_a = np.concatenate([a[mine[late]], lone_a[twins[0]]])
    changed_b = np.concatenate([b[theirs[late]], lone_b[twins[1]]])
    is_told = ~(reaches.excuse(changed_a, 0) & reaches.excuse(changed_b, 1))
    changed = changed_a[is_told], changed_b[is_told]
    by_number = np.argsort(changed[0][NUMBER], kind="stable")
    rest = np.delete(lone_a, twins[0]), np.delete(lone_b, twins[1])
    kept = [rows[~reaches.excuse(rows, side)] for side, rows in enumerate(rest)]
    excused = sum(map(len, rest)) - sum(map(len, kept))
    changed = changed[0][by_number], changed[1][by_number]
    return DifferenceWindow(max(len(a), len(b)), changed, kept[0], kept[1], excused)


def _differs(a: Rows, b: Rows, kind: EntryKind) -> Bools:
    unequal: Bools = np.abs(a[TIME] - b[TIME]) > kind.slack_ms
    for name in kind.identity:
        unequal |= a[name] != b[name]
    return unequal


def match_rows(a: Sequence[Array], b: Sequence[Array]) -> tuple[Int64s, Int64s]:
    """Pair equal rows of two tables of columns, in order; return the places of the pairs in A and in B."""
    count_a, total = len(a[0]), len(a[0]) + len(b[0])
    columns = [np.concatenate([ours, theirs]) for ours, theirs in zip(a, b, strict=True)]
    is_b = np.arange(total) >= count_a
    order = np.lexsort((is_b, *reversed(columns)))  # stable: equal rows of a side stay in their order
    begins = np.zeros(total, np.bool_)
    begins[:1] = True
    for column in columns:
        ordered = column[order]
        begins[1:] |= ordered[1:] != ordered[:-1]
    group = np.cumsum(begins) - 1
    from_b = is_b[order]
    counts_a = np.bincount(group[~from_b], minlength=int(begins.sum()))
    counts_b = np.bincount(group[from_b], minlength=int(begins.sum()))
    place = np.arange(total) - np.flatnonzero(begins)[group] - np.where(from_b, counts_a[group], 0)
    paired = place < np.minimum(counts_a, counts_b)[group]
    return order[paired & ~from_b], order[paired & from_b] - count_a


_LONE = (Change.ONLY_A, Change.ONLY_B)


@dataclass
class _Run:
    """Neighbours that only one side has; the next window may bring more of them."""

    first: Row
    count: int
    next_number: int


@dataclass
class Entries:
    """The entries of one queue, or of the index, of two stores."""

    kind: EntryKind
    comparison: StoreComparison
    topic: str | None = None
    queue_id: int | None = None

    def __post_init__(self) -> None:
        self._limiter = DifferenceLimiter(self.comparison, self.kind.structure, self.topic, self.queue_id)
        self._runs: list[_Run | None] = [None, None]
        self.found = 0

    def compare(self, a: Iterator[Rows], b: Iterator[Rows], reaches: LogBounds) -> Iterator[Difference]:
        """Yield the differences of two streams."""
        before = self.comparison.counts[self.kind.structure]
        for window in join(a, b, self.kind, reaches):
            self.comparison.compared[self.kind.plural] += window.compared
            self.comparison.beyond[self.kind.structure] += window.excused
            yield from self._window(window)
        for side in (0, 1):
            yield from self._close(side)
        self.found = self.comparison.counts[self.kind.structure] - before
        yield from self._limiter.finish()

    def _values(self, row: Row) -> dict[str, Value]:
        return {name: int(row[column]) for name, column in self.kind.values.items()}

    def _name(self, row: Row) -> str:
        queue = f"{self.topic}/{self.queue_id}"
        return self.kind.label.format(queue=queue, **dict(zip(row.dtype.names, row.item(), strict=True)))

    def _window(self, window: DifferenceWindow) -> Iterator[Difference]:
        ours, theirs = window.changed
        shown = min(len(ours), max(self._limiter.room, 0))
        for own, other in zip(ours[:shown], theirs[:shown], strict=True):
            yield from self._limiter.add(self._changed(own, other))
        if len(ours) > shown:
            self._limiter.pass_over(len(ours) - shown)
        for side, rows in enumerate((window.only_a, window.only_b)):
            yield from self._lone(side, rows)

    def _changed(self, own: Row, other: Row) -> Difference:
        ours, theirs = self._values(own), self._values(other)
        names = [name for name in ours if ours[name] != theirs[name]]
        texts = (f"{name} {said(name, ours[name])} and {said(name, theirs[name])}" for name in names)
        return self._make(Change.CHANGED, f"{self._name(own)}: {', '.join(texts)}", own, a=ours, b=theirs)

    def _make(self, change: Change, sentence: str, row: Row, **more: Any) -> Difference:  # noqa: ANN401
        name, column = self.kind.place
        place: dict[str, Any] = {name: int(row[column])}
        return Difference(
            self.kind.structure,
            change,
            sentence,
            topic=self.topic,
            queue_id=self.queue_id,
            physical_offset=int(row["physical_offset"]),
            **place,
            **more,
        )

    def _lone(self, side: int, rows: Rows) -> Iterator[Difference]:
        if not len(rows):
            return
        numbers = rows[NUMBER]
        starts = np.concatenate([[0], np.flatnonzero(np.diff(numbers) != 1) + 1])
        for start, stop in zip(starts.tolist(), [*starts[1:].tolist(), len(rows)], strict=True):
            run, after = self._runs[side], int(numbers[stop - 1]) + 1
            if run is not None and run.next_number == numbers[start]:
                run.count, run.next_number = run.count + stop - start, after
                continue
            yield from self._close(side)
            self._runs[side] = _Run(rows[start].copy(), stop - start, after)

    def _close(self, side: int) -> Iterator[Difference]:
        run, self._runs[side] = self._runs[side], None
        if run is None:
            return
        if self._limiter.room <= 0:
            self._limiter.pass_over(run.count)
            return
        what = self._name(run.first)
        if run.count > 1:
            what = f"{run.count} {self.kind.plural}, the first of them {what}"
        values = {"ab"[side]: self._values(run.first)}
        sentence = f"only {'AB'[side]} has {what}"
        yield from self._limiter.add(self._make(_LONE[side], sentence, run.first, count=run.count, **values))
