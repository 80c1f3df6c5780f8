"""Alignment of two streams of entries: pairs that belong together, and entries that only one side has.

Equal parts run along; from the first difference on, both streams are cut at one place of the order, and the
entries before it are matched by content. So an entry too many is one difference, and the rest of the stream
is compared as before. Memory is that of a few chunks, however long the streams are. Rows match if they are
equal; the order of the matches is checked separately.
"""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from rmqtool.commands.diff import Change, Difference, DifferenceLimiter, StoreComparison, Value, said

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from rmqtool.arrays import Array, Bools, Int64s, Row, Rows


def match_rows(a: Sequence[Array], b: Sequence[Array]) -> tuple[Int64s, Int64s]:
    """Pair equal rows of two tables of columns, in order; return the places of the pairs in A and in B."""
    count_a, total = len(a[0]), len(a[0]) + len(b[0])
    columns = [np.concatenate([one, other]) for one, other in zip(a, b, strict=True)]
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


def misplaced(orders: Int64s, places: Int64s) -> Bools:
    """Return which matched rows, at ``places`` in B, stand in another order; keys of one record have none."""
    records = np.cumsum(np.concatenate([[0], np.diff(orders) != 0])) if len(orders) else orders
    found = records[places]
    moved = np.zeros(len(found), np.bool_)
    if len(found) and (np.diff(found) < 0).any():
        moved[:] = True
        moved[_longest_ascent(found.tolist())] = False
    return moved


def _longest_ascent(values: list[int]) -> list[int]:
    """Return the places of a longest subsequence that never descends."""
    tails: list[int] = []  # the smallest value that ends a subsequence of each length
    ends: list[int] = []  # its place
    before: list[int] = []
    for place, value in enumerate(values):
        length = bisect_right(tails, value)
        before.append(ends[length - 1] if length else -1)
        tails[length : length + 1] = [value]
        ends[length : length + 1] = [place]
    chosen, place = [], ends[-1]
    while place >= 0:
        chosen.append(place)
        place = before[place]
    return chosen


ORDER, NUMBER, TIME = "order", "number", "time_ms"
"""Fields of every row: the sort key of a sound stream, the place in the stream, a store time."""

_LAST = np.iinfo(np.int64).max
_SAMPLE = 129
_MAJORITY = 33
_SYNC_ROWS, _SYNC_RUN = 64, 4
_SMALLEST_WINDOW = 1 << 10
_LARGEST_WINDOW = 1 << 22


class EntryKind(NamedTuple):
    """Kind of entries of two stores: how their rows are compared, and their form in a difference.

    Attributes:
        structure: As for ``--type``.
        plural: Their name in counts.
        identity: Fields that make two rows equal.
        by_order: Whether unmatched rows are paired as two versions of one entry only by the same order; else
            also by the number of equal rows before them.
        place: The field of a difference that shows the place of an entry, and the column of that.
        label: The beginning of a sentence about an entry, with its queue and columns.
        values: Columns of an entry's values, by their names.
        slack_ms: Difference allowed between the times of equal rows.
    """

    structure: str
    plural: str
    identity: tuple[str, ...]
    by_order: bool
    place: tuple[str, str]
    label: str
    values: dict[str, str]
    slack_ms: int = 0


@dataclass(frozen=True)
class LogBounds:
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

    ``changed`` are rows of A and their other versions in B; ``moved`` rows of A that B has in another order;
    ``excused`` counts rows that one side lacks, as its log lacks their records.
    """

    compared: int
    changed: tuple[Rows, Rows]
    moved: Rows
    only_a: Rows
    only_b: Rows
    excused: int = 0


class _Side:
    def __init__(self, chunks: Iterator[Rows]) -> None:
        self._chunks = chunks
        self.is_done = False
        first = next(chunks, None)
        self.is_done = first is None
        self.rows: Rows = np.empty(0, []) if first is None else first

    def fill(self) -> bool:
        """Load one more chunk; return whether there was one."""
        more = None if self.is_done else next(self._chunks, None)
        if more is None:
            self.is_done = True
            return False
        self.rows = more if not len(self.rows) else np.concatenate([self.rows, more])
        return True

    def take(self, count: int) -> Rows:
        taken, self.rows = self.rows[:count], self.rows[count:]
        return taken

    def bound(self) -> int:
        """Return an order that most rows not yet loaded lie above; single wrong rows do not count."""
        return _LAST if self.is_done else int(np.median(self.rows[ORDER][-_SAMPLE:]))

    def count_below(self, cut: int) -> int:
        """Return how many rows lie before ``cut``: up to where most of the next ones lie above it."""
        if cut == _LAST or not len(self.rows):
            return len(self.rows)
        above = self.rows[ORDER] >= cut
        places = np.arange(len(above))
        total = np.concatenate([[0], np.cumsum(above)])
        ahead = total[np.minimum(places + _MAJORITY, len(above))] - total[:-1]
        mostly = above & (2 * ahead > np.minimum(_MAJORITY, len(above) - places))
        return int(np.argmax(mostly)) if mostly.any() else len(above)


def align(
    a: Iterator[Rows], b: Iterator[Rows], kind: EntryKind, reaches: LogBounds
) -> Iterator[DifferenceWindow]:
    """Yield the stretches of two streams of chunks of structured rows, with their differences."""
    side, other = _Side(a), _Side(b)
    while (len(side.rows) or side.fill()) | (len(other.rows) or other.fill()):
        count = min(len(side.rows), len(other.rows))
        same = _equal_prefix(side.rows[:count], other.rows[:count], kind)
        if same:
            side.take(same)
            other.take(same)
            empty = side.rows[:0]
            yield DifferenceWindow(same, (empty, empty), empty, empty, empty)
        if same < count or not count:
            yield _match(*_cut(side, other, kind), kind, reaches)


def _equal_prefix(a: Rows, b: Rows, kind: EntryKind) -> int:
    unequal = np.abs(a[TIME] - b[TIME]) > kind.slack_ms if len(a) else np.empty(0, np.bool_)
    for name in kind.identity if len(a) else ():
        unequal |= a[name] != b[name]
    return int(np.argmax(unequal)) if unequal.any() else len(a)


def _cut(one: _Side, other: _Side, kind: EntryKind) -> tuple[Rows, Rows]:
    """Take the rows of both sides up to a common place; load more where none lie before it."""
    wanted = _SMALLEST_WINDOW
    while True:
        for side in (one, other):
            while len(side.rows) < wanted and side.fill():
                pass
        cut = min(one.bound(), other.bound())
        counts = one.count_below(cut), other.count_below(cut)
        if any(counts):
            counts = _sync(one.rows, other.rows, counts, kind)
            break
        # All loaded rows lie above the cut: a record of very many keys, or rows in no order.
        if wanted > _LARGEST_WINDOW or (one.is_done and other.is_done):
            counts = len(one.rows), len(other.rows)
            break
        wanted = 2 * max(len(one.rows), len(other.rows))
    taken = one.take(counts[0]), other.take(counts[1])
    if not len(taken[0]):
        return taken[1][:0], taken[1]
    return (taken[0], taken[1]) if len(taken[1]) else (taken[0], taken[0][:0])


def _sync(a: Rows, b: Rows, counts: tuple[int, int], kind: EntryKind) -> tuple[int, int]:
    """Return the next place from a cut on where both sides go on alike; the cut itself without one near.

    A wrong row at the cut may lie before it on one side only.
    """
    ours, theirs = a[counts[0] : counts[0] + _SYNC_ROWS], b[counts[1] : counts[1] + _SYNC_ROWS]
    if min(len(ours), len(theirs)) < _SYNC_RUN:
        return counts
    equal = np.ones((len(ours), len(theirs)), np.bool_)
    for name in kind.identity:
        equal &= ours[name][:, None] == theirs[name][None, :]
    rows, columns = len(ours) - _SYNC_RUN + 1, len(theirs) - _SYNC_RUN + 1
    runs = np.ones((rows, columns), np.bool_)
    for step in range(_SYNC_RUN):
        runs &= equal[step : step + rows, step : step + columns]
    found = np.argwhere(runs)
    if not len(found):
        return counts
    first = found[np.argmin(found.sum(axis=1))]
    return counts[0] + int(first[0]), counts[1] + int(first[1])


def _match(a: Rows, b: Rows, kind: EntryKind, reaches: LogBounds) -> DifferenceWindow:
    mine, theirs = match_rows([a[name] for name in kind.identity], [b[name] for name in kind.identity])
    late = np.abs(a[TIME][mine] - b[TIME][theirs]) > kind.slack_ms
    in_order = np.argsort(mine, kind="stable")
    moved = a[mine[in_order][misplaced(b[ORDER], theirs[in_order])]]
    lone: list[Rows] = []
    ranks: list[Int64s] = []
    excused = 0
    for side, (rows, places) in enumerate(((a, mine), (b, theirs))):
        is_met = np.zeros(len(rows), np.bool_)
        is_met[places] = True
        is_lone = ~is_met if kind.by_order else ~is_met & ~reaches.excuse(rows, side)
        excused += len(rows) - len(places) - int(is_lone.sum())
        lone.append(rows[is_lone])
        ranks.append(np.cumsum(is_met, dtype=np.int64)[is_lone])
    twins, rest = _twins(lone, ranks, kind)
    differs = ~(reaches.excuse(twins[0], 0) & reaches.excuse(twins[1], 1))
    kept = [rows[~reaches.excuse(rows, side)] for side, rows in enumerate(rest)]
    changed_a = np.concatenate([a[mine[late]], twins[0][differs]])
    changed_b = np.concatenate([b[theirs[late]], twins[1][differs]])
    by_number = np.argsort(changed_a[NUMBER], kind="stable")
    excused += sum(map(len, rest)) - sum(map(len, kept))
    changed = changed_a[by_number], changed_b[by_number]
    return DifferenceWindow(max(len(a), len(b)), changed, moved, kept[0], kept[1], excused)


def _twins(
    lone: list[Rows], ranks: list[Int64s], kind: EntryKind
) -> tuple[tuple[Rows, Rows], tuple[Rows, Rows]]:
    """Pair unmatched rows as two versions of one entry; return the pairs, and the rest.

    ``ranks`` is how many equal ones precede each.
    """
    pairs = match_rows([lone[0][ORDER]], [lone[1][ORDER]])
    if not kind.by_order:
        left = [np.delete(np.arange(len(rows)), paired) for rows, paired in zip(lone, pairs, strict=True)]
        more = match_rows([ranks[0][left[0]]], [ranks[1][left[1]]])
        pairs = np.concatenate([pairs[0], left[0][more[0]]]), np.concatenate([pairs[1], left[1][more[1]]])
    rest = np.delete(lone[0], pairs[0]), np.delete(lone[1], pairs[1])
    return (lone[0][pairs[0]], lone[1][pairs[1]]), rest


_LONE = (Change.ONLY_A, Change.ONLY_B)


@dataclass
class _Run:
    """Neighbours that only one side has; the next window may bring more of them."""

    first: Row
    count: int
    next_number: int


class Entries:
    """The entries of one queue, or of the index, of two stores."""

    def __init__(
        self,
        kind: EntryKind,
        comparison: StoreComparison,
        topic: str | None = None,
        queue_id: int | None = None,
    ) -> None:
        self._kind = kind
        self._comparison = comparison
        self._limiter = DifferenceLimiter(comparison, kind.structure, topic, queue_id)
        self._runs: list[_Run | None] = [None, None]
        self._topic, self._queue_id = topic, queue_id
        self.found = 0

    def compare(self, a: Iterator[Rows], b: Iterator[Rows], reaches: LogBounds) -> Iterator[Difference]:
        """Yield the differences of two streams."""
        before = self._comparison.counts[self._kind.structure]
        for window in align(a, b, self._kind, reaches):
            self._comparison.compared[self._kind.plural] += window.compared
            self._comparison.beyond[self._kind.structure] += window.excused
            yield from self._window(window)
        for side in (0, 1):
            yield from self._close(side)
        self.found = self._comparison.counts[self._kind.structure] - before
        yield from self._limiter.finish()

    def _values(self, row: Row) -> dict[str, Value]:
        return {name: int(row[column]) for name, column in self._kind.values.items()}

    def _name(self, row: Row) -> str:
        queue = f"{self._topic}/{self._queue_id}"
        return self._kind.label.format(queue=queue, **dict(zip(row.dtype.names, row.item(), strict=True)))

    def _window(self, window: DifferenceWindow) -> Iterator[Difference]:
        changed = zip(*window.changed, strict=True)
        for one, other in self._shown(changed, len(window.changed[0])):
            yield from self._limiter.add(self._changed(one, other))
        for row in self._shown(iter(window.moved), len(window.moved)):
            sentence = f"{self._name(row)} stands in another order"
            difference = self._make(Change.MOVED, sentence, row, a=self._values(row))
            yield from self._limiter.add(difference)
        for side, rows in enumerate((window.only_a, window.only_b)):
            yield from self._lone(side, rows)

    def _shown(self, rows: Iterator[Any], count: int) -> Iterator[Any]:
        """Yield rows within the limit, and count the others."""
        shown = min(count, max(self._limiter.room, 0))
        for _ in range(shown):
            yield next(rows)
        if count > shown:
            self._limiter.pass_over(count - shown)

    def _changed(self, one: Row, other: Row) -> Difference:
        ours, theirs = self._values(one), self._values(other)
        names = [name for name in ours if ours[name] != theirs[name]]
        texts = (f"{name} {said(name, ours[name])} and {said(name, theirs[name])}" for name in names)
        return self._make(Change.CHANGED, f"{self._name(one)}: {', '.join(texts)}", one, a=ours, b=theirs)

    def _make(self, change: Change, sentence: str, row: Row, **more: Any) -> Difference:  # noqa: ANN401
        name, column = self._kind.place
        place: dict[str, Any] = {name: int(row[column])}
        return Difference(
            self._kind.structure,
            change,
            sentence,
            topic=self._topic,
            queue_id=self._queue_id,
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
            what = f"{run.count} {self._kind.plural}, the first of them {what}"
        values = {"ab"[side]: self._values(run.first)}
        sentence = f"only {'AB'[side]} has {what}"
        yield from self._limiter.add(self._make(_LONE[side], sentence, run.first, count=run.count, **values))
