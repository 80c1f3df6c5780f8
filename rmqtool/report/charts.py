"""Charts of the page: the strip of log files, and charts over time."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple

from rmqtool.check.picture import Content, LogFile, LogPicture, Stretch
from rmqtool.report.output import size_text
from rmqtool.report.terminal import escape_text
from rmqtool.times import time_text

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from datetime import tzinfo

    from rmqtool.check.census import Census, Period, Series

    _Text = Callable[[int], str]


_LONGEST_NAME = 80
LONGEST_SENTENCE = 400


def shown(text: str, limit: int = _LONGEST_NAME) -> str:
    """Return an escaped name; the middle of a long one is left out."""
    return shortened(escape_text(text), limit)


def shortened(harmless: str, limit: int = LONGEST_SENTENCE) -> str:
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
    if not any(any(series.messages) for series in census.series):
        return ()
    frame = _Frame(census.period, tuple(moments), clock)
    counts = [series.messages for series in census.series]
    sizes = [series.bytes for series in census.series]
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
        for number, (line, counts) in enumerate(zip(series, values, strict=True)):
            topic = "all other topics" if line.topic is None else shown(line.topic)
            style = "o" if line.topic is None else f"s{number}"
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


STRIP_WIDTH = 1000
ROW_HEIGHT = 20
_MOST_ROWS = 36
_MOST_BARS = 360
_FEWEST_BARS = 10
_LEAST_WIDTH = 2
_MOST_NOTABLE = 20

MISSING, CUT, UNREAD = "missing", "cut", "unread"
_RANKS = (
    MISSING,
    Content.DAMAGED,
    CUT,
    UNREAD,
    Content.REST,
    Content.RECORDS,
    Content.FILE_END,
    Content.ZEROS,
)
KINDS = {
    Content.RECORDS: "records",
    CUT: "records that the next start cuts off",
    Content.DAMAGED: "damaged",
    MISSING: "no file",
    UNREAD: "could not be read",
    Content.REST: "old bytes after the log's end",
    Content.FILE_END: "BLANK, which closes a file",
    Content.ZEROS: "zeros",
}
NOTABLE = (MISSING, Content.DAMAGED, CUT, UNREAD, Content.REST)


Range = tuple[int, int]
"""Physical offsets of the first byte, and after the last."""


class StripPiece(NamedTuple):
    """A range of the log of one kind; ``stretch`` is the stretch of a file that it is, if it is one."""

    kind: str
    start: int
    stop: int
    stretch: Stretch | None = None


class Laid(NamedTuple):
    """A piece, and its place on its line, in bytes from the line's start."""

    at: int
    until: int
    piece: StripPiece


class StripBar(NamedTuple):
    """Drawing of a piece."""

    x: int
    width: int
    kind: str
    title: str


class Row(NamedTuple):
    """A line of the strip."""

    y: int
    label: str
    bars: tuple[StripBar, ...]


class Strip(NamedTuple):
    """The strip: its height, its lines, its kinds, and the pieces that must not be overlooked."""

    height: int
    rows: tuple[Row, ...]
    kinds: tuple[tuple[str, str], ...]
    notable: tuple[tuple[str, int, int, str], ...]
    files_a_row: int
    more_notable: int


def strip_of(picture: LogPicture, cut: int | None, clock: Clock, hurt: Iterable[Range] = ()) -> Strip:
    """Return the strip of a log.

    ``cut`` is the physical offset from which on the next start drops records, None if it keeps them; ``hurt``
    are ranges of damaged records of known length.
    """
    files = picture.files
    ranges = sorted(hurt)
    a_row = max(-(-len(files) // _MOST_ROWS), 1)
    named = list(_lines(files, a_row, cut, ranges))
    pieces = [strip for _, strip in named]
    room = max(_MOST_BARS // max(len(pieces), 1), _FEWEST_BARS)
    lines = [_thinned(_laid(strip), room) for strip in pieces]
    scale = max((line[-1].until for line in lines if line and line[0].piece.kind != MISSING), default=1)
    rows = tuple(
        Row(number * ROW_HEIGHT, label, tuple(_bars(line, scale, clock)))
        for number, ((label, _), line) in enumerate(zip(named, lines, strict=True))
    )
    notable = [piece for strip in pieces for piece in strip if piece.kind in NOTABLE]
    met = {piece.kind for strip in pieces for piece in strip}
    return Strip(
        height=len(rows) * ROW_HEIGHT,
        rows=rows,
        kinds=tuple((kind, name) for kind, name in KINDS.items() if kind in met),
        notable=tuple(
            (KINDS[piece.kind], piece.start, piece.stop, size_text(piece.stop - piece.start))
            for piece in notable[:_MOST_NOTABLE]
        ),
        files_a_row=a_row,
        more_notable=max(0, len(notable) - _MOST_NOTABLE),
    )


def _lines(
    files: Sequence[LogFile], a_row: int, cut: int | None, hurt: Sequence[Range]
) -> Iterator[tuple[str, list[StripPiece]]]:
    """Yield the lines and their labels; missing files have a line of their own where each file has one."""
    for first in range(0, len(files), a_row):
        pieces = list(_pieces(files[max(first - 1, 0) : first + a_row], first > 0, cut, hurt))
        if a_row == 1 and pieces and pieces[0].kind == MISSING:
            gap = pieces.pop(0)
            yield f"{gap.start:020d}", [gap]
        yield shown(files[first].file.rpartition("/")[2], 24), pieces


def _pieces(
    files: Sequence[LogFile], follows: bool, cut: int | None, hurt: Sequence[Range]
) -> Iterator[StripPiece]:
    """Yield the content of some files, and the gaps between them.

    With ``follows``, only the end of the first file counts.
    """
    end = files[0].stop if follows else files[0].start
    for file in files[follows:]:
        if file.start > end:
            yield StripPiece(MISSING, end, file.start)
        end = max(end, file.stop)
        if not file.stretches:
            yield StripPiece(UNREAD, file.start, file.stop)
        for stretch in file.stretches:
            yield from _divided(stretch, cut, hurt)


def _divided(stretch: Stretch, cut: int | None, hurt: Sequence[Range]) -> Iterator[StripPiece]:
    """Yield a stretch; records are divided into damaged ones, those after the cut, and the rest."""
    if stretch.what is not Content.RECORDS:
        yield StripPiece(stretch.what, stretch.start, stretch.stop, stretch)
        return
    inside = [place for place in hurt if stretch.start < place[1] and place[0] < stretch.stop]
    bounds = {
        stretch.start,
        stretch.stop,
        *(min(max(at, stretch.start), stretch.stop) for place in inside for at in place),
    }
    if cut is not None and stretch.start < cut < stretch.stop:
        bounds.add(cut)
    for start, stop in pairwise(sorted(bounds)):
        kind: str = Content.RECORDS if cut is None or start < cut else CUT
        if any(low <= start < high for low, high in inside):
            kind = Content.DAMAGED
        yield StripPiece(kind, start, stop, stretch if len(bounds) == 2 and kind != Content.DAMAGED else None)


def _laid(pieces: Sequence[StripPiece]) -> list[Laid]:
    """Lay out pieces one after the other; missing files take no more room than the present ones."""
    there = sum(piece.stop - piece.start for piece in pieces if piece.kind != MISSING)
    laid, at = [], 0
    for piece in pieces:
        length = max(piece.stop - piece.start, 0)
        length = min(length, there) if piece.kind == MISSING and there else length
        laid.append(Laid(at, at + length, piece))
        at += length
    return laid


def _thinned(line: Sequence[Laid], room: int) -> Sequence[Laid]:
    """Return as many pieces as have room: if there are more, the gravest kind in equal cells."""
    if len(line) <= room:
        return line
    size = max(-(-line[-1].until // room), 1)
    cells: dict[int, Laid] = {}
    for box in line:
        for cell in range(box.at // size, max(box.until - 1, box.at) // size + 1):
            before = cells.get(cell)
            if before is None or _RANKS.index(box.piece.kind) < _RANKS.index(before.piece.kind):
                cells[cell] = Laid(cell * size, (cell + 1) * size, box.piece)
    joined: list[Laid] = []
    for _, box in sorted(cells.items()):
        last = joined[-1] if joined else None
        if last is not None and last.piece.kind == box.piece.kind:
            piece = StripPiece(box.piece.kind, last.piece.start, box.piece.stop)
            joined[-1] = Laid(last.at, box.until, piece)
        else:
            joined.append(box)
    return joined


def _bars(line: Sequence[Laid], scale: int, clock: Clock) -> Iterator[StripBar]:
    for box in line:
        x = box.at * STRIP_WIDTH // max(scale, 1)
        width = min(box.until * STRIP_WIDTH // max(scale, 1), STRIP_WIDTH) - x
        if box.piece.kind in NOTABLE:
            width = max(width, _LEAST_WIDTH)
        if width > 0:
            yield StripBar(
                min(x, STRIP_WIDTH - _LEAST_WIDTH), width, box.piece.kind, _title(box.piece, clock)
            )


def _title(piece: StripPiece, clock: Clock) -> str:
    stretch = piece.stretch
    text = f"{KINDS[piece.kind]}: physical offsets {piece.start} to {piece.stop}"
    if stretch is not None and stretch.records:
        text += f", {stretch.records:,} stored {clock(stretch.first_ms)} to {clock(stretch.last_ms)}"
    return text
