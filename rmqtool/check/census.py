"""Census of a log, taken while it is checked: messages by topic and time.

A split counts for itself (`CensusTaker`); `census_of` adds up what the splits that count have found.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from rmqtool.dispatch.policy import QueueTable
from rmqtool.errors import EnvironmentFailureError
from rmqtool.javacompat import decode_utf8
from rmqtool.kernels.census import CELL_ROW, ONE_QUEUE, TOPIC_ROW, count_messages, place_cells
from rmqtool.releases import LENIENT
from rmqtool.scan.record_walk import find_log_end
from rmqtool.scan.records import check_record, find_true
from rmqtool.store.names import safe_component
from rmqtool.store.segments import Segment, Window

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from rmqtool.arrays import Int32s, Int64s, Rows
    from rmqtool.dispatch.policy import DispatchPolicy
    from rmqtool.kernels.rows import MessageBatch
    from rmqtool.scan.classify import FoundEdge

SERIES = 7
"""Topics that are listed over time; the others are added up."""

_BUCKETS = 72
_SECOND, _HOUR, _DAY = 1_000, 3_600_000, 86_400_000
_WIDTHS_MS = (
    *(10, 20, 50, 100, 200, 500),
    *(seconds * _SECOND for seconds in (1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800)),
    *(hours * _HOUR for hours in (1, 2, 3, 6, 12)),
    *(days * _DAY for days in (1, 2, 7, 14, 28, 91, 364)),
)
_REASONABLE_MS = (946_684_800_000, 4_102_444_800_000)  # 2000 to 2100


@dataclass(frozen=True, slots=True)
class Period:
    """The time of the census, in buckets.

    Attributes:
        start_ms: epoch ms, a multiple of the width.
        width_ms: of a bucket.
        buckets: how many.
    """

    start_ms: int
    width_ms: int
    buckets: int


@dataclass(frozen=True, slots=True)
class TopicFigures:
    """A topic in the log.

    Attributes:
        topic: as Java decodes it.
        messages: its records, those without a unit included.
        bytes: their size.
        oldest_ms: lowest STORETIMESTAMP.
        oldest_offset: physical offset of that record.
        newest_ms: highest STORETIMESTAMP.
        newest_offset: physical offset of that record.
        largest: size of the largest record, bytes.
        largest_offset: physical offset of that record.
    """

    topic: str
    messages: int
    bytes: int
    oldest_ms: int
    oldest_offset: int
    newest_ms: int
    newest_offset: int
    largest: int
    largest_offset: int


@dataclass(frozen=True, slots=True)
class Series:
    """Messages stored over time, of one topic or of all others.

    Attributes:
        topic: None for the others.
        messages: by bucket.
        bytes: by bucket.
    """

    topic: str | None
    messages: tuple[int, ...]
    bytes: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Census:
    """Contents of a log, counted.

    Attributes:
        period: from the first record to the last one.
        topics: those with most bytes first.
        series: the first of these over time, and the others.
        outside: messages whose store time is outside of the period.
    """

    period: Period
    topics: tuple[TopicFigures, ...] = ()
    series: tuple[Series, ...] = ()
    outside: int = 0


class SplitCensus(NamedTuple):
    """Counts of a split.

    Attributes:
        names: of the topics.
        figures: ``(t,)`` of ``TOPIC_ROW``.
        cells: ``(c,)`` of ``CELL_ROW``, topics by their number here.
    """

    names: tuple[str, ...]
    figures: Rows
    cells: Rows


def period_of(segments: Sequence[Segment], edge: FoundEdge) -> Period:
    """Return the time from the first record of a log to its last one; a moment in 1970 without records.

    Wild times of single records do not count: what lies outside of the period is only counted.
    """
    times = [moment for segment in segments if (moment := _first_ms(segment)) is not None]
    with suppress(EnvironmentFailureError):
        last = find_log_end(edge).last
        times += [] if last is None else [last.head.store_timestamp_ms]
    times = [moment for moment in times if _REASONABLE_MS[0] <= moment < _REASONABLE_MS[1]]
    if not times:
        return Period(0, 1, 1)
    first, last_ms = min(times), max(times)
    fitting = (width for width in _WIDTHS_MS if last_ms // width - first // width < _BUCKETS)
    width = next(fitting, _WIDTHS_MS[-1])
    return Period(first // width * width, width, last_ms // width - first // width + 1)


def _first_ms(segment: Segment) -> int | None:
    """Return STORETIMESTAMP of the first intact record of a file; None without one."""
    with suppress(EnvironmentFailureError):
        window = Window(segment)
        record = check_record(window, 0, LENIENT, base=segment.start).record
        if record is None:
            at = find_true(window, max(0, window.skip_zeros(0) - segment.framing.most_zeros), segment.start)
            record = None if at is None else check_record(window, at, LENIENT, base=segment.start).record
        return None if record is None else record.head.store_timestamp_ms
    return None


def census_of(period: Period, splits: Iterable[SplitCensus]) -> Census:
    """Add up what was counted in splits, in log order."""
    parts = list(splits)
    numbers: dict[str, int] = {}
    for part in parts:
        for name in part.names:
            numbers.setdefault(name, len(numbers))
    figures: Rows = np.zeros(len(numbers), TOPIC_ROW)
    for part in parts:
        _add_figures(figures, part.figures, np.array([numbers[name] for name in part.names], np.int64))
    names = list(numbers)
    order = [number for number in np.argsort(-figures["bytes"], kind="stable") if figures["messages"][number]]
    topics = tuple(TopicFigures(names[number], *map(int, figures[number].tolist())) for number in order)
    series, outside = _series(period, parts, [topic.topic for topic in topics[:SERIES]])
    return Census(period, topics, series, outside)


def _add_figures(total: Rows, part: Rows, where: Int64s) -> None:
    """Add the figures of a split, whose topics have the numbers ``where``; those are distinct or empty."""
    met = part["messages"] > 0
    part, where = part[met], where[met]
    mine = total[where]
    fresh = mine["messages"] == 0
    for better, value, offset in (
        (fresh | (part["oldest_ms"] < mine["oldest_ms"]), "oldest_ms", "oldest_at"),
        (fresh | (part["newest_ms"] >= mine["newest_ms"]), "newest_ms", "newest_at"),
        (part["largest"] > mine["largest"], "largest", "largest_at"),
    ):
        mine[value][better], mine[offset][better] = part[value][better], part[offset][better]
    mine["messages"] += part["messages"]
    mine["bytes"] += part["bytes"]
    total[where] = mine


def _series(
    period: Period, parts: Sequence[SplitCensus], shown: Sequence[str]
) -> tuple[tuple[Series, ...], int]:
    """Return topics over time, the others last if there are any, and the messages outside of the period."""
    sums = np.zeros((2, len(shown) + 1, period.buckets + 1), np.int64)
    for part in parts:
        lines = {name: number for number, name in enumerate(shown)}
        line_of = np.array([lines.get(name, len(shown)) for name in part.names], np.int64)
        if len(part.cells):
            place = line_of[part.cells["topic"]], part.cells["bucket"]
            np.add.at(sums[0], place, part.cells["messages"])
            np.add.at(sums[1], place, part.cells["bytes"])
    names = [*shown, None] if sums[0, -1].any() else list(shown)
    inside = sums[:, :, :-1]
    series = tuple(
        Series(name, tuple(map(int, inside[0, line])), tuple(map(int, inside[1, line])))
        for line, name in enumerate(names)
    )
    return series, int(sums[0, :, -1].sum())


_FIRST_CELLS = 1 << 10


class CensusTaker:
    """Counts the messages of a split."""

    def __init__(self, period: Period, policy: DispatchPolicy) -> None:
        self._period = np.array([period.start_ms, period.width_ms, period.buckets], np.int64)
        self._topics = QueueTable(policy, safe_component)
        self._figures: Rows = np.zeros(len(self._topics.rows), TOPIC_ROW)
        self._cells: Rows = np.zeros(_FIRST_CELLS, CELL_ROW)
        self._slots = _slots_of(self._cells, 0)
        self._used = np.zeros(1, np.int64)

    def take(self, batch: MessageBatch) -> None:
        """Count a batch."""
        row = 0
        while (row := self._count(batch, row)) < len(batch.rows):
            if self._used[0] >= len(self._cells):
                self._grow()
            else:
                start, stop = int(batch.rows["topic_start"][row]), int(batch.rows["topic_stop"][row])
                self._topics.add(batch.buffer[start:stop].tobytes(), ONE_QUEUE)
                missing = len(self._topics.rows) - len(self._figures)
                if missing:
                    self._figures = np.concatenate([self._figures, np.zeros(missing, TOPIC_ROW)])

    def taken(self) -> SplitCensus:
        """Return what was counted."""
        table, count = self._topics, len(self._topics)
        names = tuple(decode_utf8(table.key(number)[0]) for number in range(count))
        cells = self._cells[: self._used[0]].copy()
        return SplitCensus(names, self._figures[:count].copy(), cells)

    def _count(self, batch: MessageBatch, row: int) -> int:
        room = self._figures, self._cells, self._slots, self._used
        return count_messages(batch, row, self._topics.arrays, self._period, *room)

    def _grow(self) -> None:
        used = self._cells
        self._cells = np.concatenate([used, np.zeros_like(used)])
        self._slots = _slots_of(self._cells, len(used))


def _slots_of(cells: Rows, used: int) -> Int32s:
    """Return the slots of a table that has room for ``cells``, the first of which are in use."""
    slots = np.full(2 * len(cells), -1, np.int32)
    place_cells(cells[:used], slots)
    return slots
