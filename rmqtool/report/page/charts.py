"""Charts over time as numbers, which the template draws as SVG."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from rmqtool.report.formats import size_text
from rmqtool.report.terminal import escape_text
from rmqtool.times import time_text

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from datetime import tzinfo

    from rmqtool.check.census import (
        Census,
        Period,
        Series,
    )

    _Text = Callable[[int], str]


_LONGEST_NAME = 80
_LONGEST_SENTENCE = 400


def shown(text: str, limit: int = _LONGEST_NAME) -> str:
    """Return an escaped name; the middle of a long one is left out."""
    return shortened(escape_text(text), limit)


def shortened(harmless: str, limit: int = _LONGEST_SENTENCE) -> str:
    """Return text that is escaped already; the middle of a long one is left out."""
    if len(harmless) <= limit:
        return harmless
    return f"{harmless[: limit * 2 // 3]} … {harmless[-(limit // 4) :]}"


class Clock(NamedTuple):
    """Times as the page shows them; ``zone`` None is this machine's."""

    zone: tzinfo | None

    def __call__(self, moment_ms: int | None) -> str:
        """Return a time to the second; nothing for None."""
        if moment_ms is None:
            return ""
        text = time_text(moment_ms, self.zone)
        date, point, rest = text.partition(".")
        return f"{date}{rest[3:]}" if point else text

    def exact(self, moment_ms: int) -> str:
        """Return a time to the millisecond."""
        return time_text(moment_ms, self.zone)


def span(duration_ms: int) -> str:
    """Return a length of time in its two largest units."""
    if duration_ms < 1000:
        return f"{duration_ms} ms"
    parts = []
    left = duration_ms // 1000
    for unit, seconds in (("d", 86_400), ("h", 3_600), ("min", 60), ("s", 1)):
        count, left = divmod(left, seconds)
        if count:
            parts.append(f"{count} {unit}")
    return " ".join(parts[:2])


def share(part: float, whole: float) -> str:
    """Return a share in percent."""
    return f"{100 * part / whole:.1f} %" if whole else ""


WIDTH, HEIGHT = 960, 170
_LABELS = 6
_LEFT = 4
_NAMED, _SHORT = 3, 30


class Layer(NamedTuple):
    """One topic in a chart: its CSS class, its SVG path, and its legend."""

    style: str
    path: str
    name: str
    total: str


class ChartColumn(NamedTuple):
    """Position of a bucket, and its tooltip."""

    x: int
    width: int
    title: str


class ChartMark(NamedTuple):
    """A moment: position, name, text anchor and CSS class."""

    x: int
    name: str
    anchor: str
    style: str


class Chart(NamedTuple):
    """Messages or bytes over time.

    ``top`` is the highest column, as text; ``layers`` have the lowest first; ``columns`` are of the buckets
    that are not empty; ``ticks`` are x, anchor and text of the axis of time.
    """

    name: str
    top: str
    layers: tuple[Layer, ...]
    columns: tuple[ChartColumn, ...]
    marks: tuple[ChartMark, ...]
    ticks: tuple[tuple[int, str, str], ...]


class Moment(NamedTuple):
    """A moment to be marked."""

    at_ms: int
    name: str
    style: str


def charts_of(census: Census, moments: Sequence[Moment], clock: Clock) -> tuple[Chart, ...]:
    """Return messages and bytes over time; none without messages."""
    if not any(any(one.messages) for one in census.series):
        return ()
    frame = _Frame(census.period, tuple(moments), clock)
    counts = [one.messages for one in census.series]
    sizes = [one.bytes for one in census.series]
    return (
        frame.chart("Messages", census.series, counts, "{:,}".format),
        frame.chart("Bytes", census.series, sizes, size_text),
    )


class _Frame:
    def __init__(self, period: Period, moments: tuple[Moment, ...], clock: Clock) -> None:
        self._period, self._moments, self._clock = period, moments, clock

    def chart(
        self, name: str, series: Sequence[Series], values: Sequence[Sequence[int]], text: _Text
    ) -> Chart:
        sums = [sum(column) for column in zip(*values, strict=True)]
        top = max(*sums, 1)
        base = [0] * self._period.buckets
        layers = []
        for number, (one, counts) in enumerate(zip(series, values, strict=True)):
            topic = "all other topics" if one.topic is None else shown(one.topic)
            style = "o" if one.topic is None else f"s{number}"
            layers.append(Layer(style, self._path(base, counts, top), topic, text(sum(counts))))
            base = [low + count for low, count in zip(base, counts, strict=True)]
        return Chart(
            name=name,
            top=text(top),
            layers=tuple(layers),
            columns=tuple(self._columns(layers, values, sums, text)),
            marks=tuple(self._marks()),
            ticks=tuple(self._ticks()),
        )

    def _x(self, bucket: int) -> int:
        return bucket * WIDTH // self._period.buckets

    def _path(self, base: Sequence[int], counts: Sequence[int], top: int) -> str:
        """Return a column for every bucket; one that is not empty is at least one pixel high."""
        parts = []
        for bucket, (low, count) in enumerate(zip(base, counts, strict=True)):
            if count:
                foot, head = HEIGHT - low * HEIGHT // top, HEIGHT - (low + count) * HEIGHT // top
                x, stop = self._x(bucket), self._x(bucket + 1)
                width = max(stop - x - (1 if stop - x > 3 else 0), 1)
                parts.append(f"M{x} {foot}h{width}V{min(head, foot - 1)}h-{width}z")
        return "".join(parts)

    def _columns(
        self, layers: Sequence[Layer], values: Sequence[Sequence[int]], sums: Sequence[int], text: _Text
    ) -> Iterator[ChartColumn]:
        width_ms = self._period.width_ms
        for bucket, total in enumerate(sums):
            if not total:
                continue
            start = self._clock(self._period.start_ms + bucket * width_ms)
            inside = [(counts[bucket], layer.name) for counts, layer in zip(values, layers, strict=True)]
            most = sorted(inside, reverse=True)[:_NAMED]
            largest = "".join(f"\n{shortened(name, _SHORT)} {text(count)}" for count, name in most if count)
            title = f"{start}: {text(total)}{largest}"
            yield ChartColumn(self._x(bucket), self._x(bucket + 1) - self._x(bucket), title)

    def _marks(self) -> Iterator[ChartMark]:
        period = self._period
        length = period.width_ms * period.buckets
        for moment in self._moments:
            x = (moment.at_ms - period.start_ms) * WIDTH // length
            if -1 <= x <= WIDTH + 1:
                anchor = "end" if x > WIDTH // 2 else "start"
                yield ChartMark(min(max(x, 1), WIDTH - 1), moment.name, anchor, moment.style)

    def _ticks(self) -> Iterable[tuple[int, str, str]]:
        period = self._period
        step = max(-(-period.buckets // _LABELS), 1)
        for bucket in range(0, period.buckets, step):
            date, _, clock = self._clock.exact(period.start_ms + bucket * period.width_ms).partition(" ")
            fine = clock[:12] if period.width_ms < 1000 else clock[:8]
            same_day = bucket and period.width_ms * period.buckets < 86_400_000
            yield max(self._x(bucket), _LEFT), "start", fine if same_day else f"{date} {fine}"
