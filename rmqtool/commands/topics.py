"""``topics``: contents of the log by topic, added up at the speed of a scan."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from enum import StrEnum
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, ClassVar, NamedTuple

from rmqtool import options
from rmqtool.account import LogLosses, indexes_beyond, lists_beyond
from rmqtool.engine import Engine, LocalEngine
from rmqtool.findings import Finding, FindingLog, Findings, Severity, codes
from rmqtool.formats.message import Outcome
from rmqtool.kernels.totals import QueueTotals, Total
from rmqtool.scan.classify import FoundEdge, classify, last_used_byte
from rmqtool.scan.file_pass import FilePass, GapJob, GapSink
from rmqtool.scan.record_walk import find_log_end
from rmqtool.store.kinds import PathKind
from rmqtool.times import utc_text
from rmqtool.topics import TopicKind, kind_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from rmqtool.kernels.rows import MessageBatch
    from rmqtool.progress import Progress
    from rmqtool.scan.log_pass import Split
    from rmqtool.scan.records import Gap
    from rmqtool.store import Store


class TopicOrder(StrEnum):
    """Values of ``--sort``: numbers from the greatest down, ``oldest`` and ``name`` from the least up."""

    BYTES = "bytes"
    MESSAGES = "messages"
    NEWEST = "newest"
    OLDEST = "oldest"
    RATE = "rate"
    LARGEST = "largest"
    BACKLOG = "backlog"
    NAME = "name"


class Lag(NamedTuple):
    """Distance of a reader from the end of one queue, in units."""

    topic: str
    queue_id: int
    reader: str
    units: int


@dataclass(frozen=True)
class TopicsRequest:
    """Request of a count.

    Attributes:
        store: The evidence.
        lags: Of all readers, for the backlog.
        max_findings: Findings of one code that are kept; the rest is counted.
        split_bytes: Bytes that one core reads at a time.
    """

    store: Store
    topics: tuple[str, ...] = options.names(
        "Only these topics, such as '%RETRY%*'; repeatable.", name="topic", flags=("-t", "--topic")
    )
    kinds: frozenset[TopicKind] = options.words(
        TopicKind,
        "Only topics of users, of retries, of dead letters, or of the broker itself; repeatable.",
        name="kind",
    )
    by_queue: bool = options.flag("Print a row for each queue instead of each topic.", name="queues")
    order: TopicOrder = options.word(
        TopicOrder,
        TopicOrder.BYTES,
        "Order of the rows: greatest first; oldest and name: least first.",
        name="sort",
    )
    top: int | None = options.number("At most so many rows; default: all.", flags=("-n", "--top"), least=1)
    lags: Iterable[Lag] = ()
    max_findings: int = 100
    split_bytes: int = 64 << 20

    def admits(self, topic: str) -> bool:
        """Whether a topic is requested."""
        named = not self.topics or any(fnmatchcase(topic, glob) for glob in self.topics)
        return named and (not self.kinds or kind_of(topic) in self.kinds)


@dataclass(frozen=True, slots=True)
class TopicTotals:
    """The records of one topic, or of one of its queues, that lie in the log.

    Attributes:
        topic: as stored.
        kind: whose it is: see `rmqtool.topics.TopicKind`.
        queue_id: of the queue; None for a whole topic.
        queues: how many queues the records are of.
        messages: records; an inner batch is one.
        bytes: their size in the log.
        share: of the bytes of all records, 0 to 1.
        oldest: least store time, ISO 8601 in UTC.
        newest: greatest store time, likewise.
        oldest_timestamp_ms: the least in epoch milliseconds.
        newest_timestamp_ms: the greatest, likewise.
        messages_per_second: over the span between these two; None where that is nothing.
        largest_bytes: size of the largest record.
        largest_physical_offset: where that lies in the log.
        lost: messages that the log has lost.
        backlog: units that the slowest reader has before it; None where nobody reads.
        slowest_reader: ``group G``, ``delay level N`` or ``timer``.
    """

    type: ClassVar = "topic"
    topic: str
    kind: TopicKind
    queue_id: int | None
    queues: int
    messages: int
    bytes: int
    share: float
    oldest: str
    newest: str
    oldest_timestamp_ms: int
    newest_timestamp_ms: int
    messages_per_second: float | None
    largest_bytes: int
    largest_physical_offset: int
    lost: int = 0
    backlog: int | None = None
    slowest_reader: str | None = None


@dataclass(frozen=True, slots=True)
class LogParts:
    """Bytes of the log's files by kind; the parts add up to the files.

    Attributes:
        size_bytes: of all files.
        messages: records.
        message_bytes: their size.
        blank_bytes: BLANK records, each to the end of its file.
        zero_bytes: zeros after the last record of the log.
        stale_bytes: other bytes after it that are no damage, as brokers that write whole pages leave them.
        damaged_bytes: all other bytes in which no record can be followed.
    """

    size_bytes: int
    messages: int
    message_bytes: int
    blank_bytes: int
    zero_bytes: int
    stale_bytes: int
    damaged_bytes: int


@dataclass(frozen=True, slots=True)
class TopicsReport:
    """The topics of a log.

    Attributes:
        store: path of the input.
        log: its bytes by kind.
        rows: topics, or queues, in the order that was requested; iteration yields them.
        topics: how many topics fit the filters, shown or not.
        messages: of these topics.
        bytes: of these messages.
        more: how many rows fit the filters and are not shown.
        findings: damage of the log, as far as its framing shows it.
        log_losses: messages that the log has lost, of all topics, where something points to that; else None.
    """

    schema: ClassVar = "rmqtool.topics/1"
    store: str
    log: LogParts
    rows: tuple[TopicTotals, ...]
    topics: int
    messages: int
    bytes: int
    more: int
    findings: Findings
    log_losses: LogLosses | None = None

    @property
    def truncated(self) -> bool:
        """Whether there are more rows than these."""
        return self.more > 0

    def __iter__(self) -> Iterator[TopicTotals]:
        return iter(self.rows)

    def __len__(self) -> int:
        return len(self.rows)


class _TotalsSink(GapSink[QueueTotals]):
    def __init__(self, split: Split) -> None:
        super().__init__(split, QueueTotals())

    def take(self, batch: MessageBatch, totals: QueueTotals) -> None:
        """Add records up."""
        totals.add(batch)


class FileTotals(FilePass[QueueTotals]):
    """Content of one file.

    Attributes:
        bytes: those without messages, by their names in `LogParts`.

    Raises:
        EnvironmentFailureError: the file cannot be opened or read.
    """

    def __init__(self, number: int, edge: FoundEdge, engine: Engine, split_bytes: int) -> None:
        super().__init__(number, edge, engine, GapJob(edge.stale_from, _TotalsSink), split_bytes)
        blanks = (part.log_offset for part in self.parts if part.outcome is Outcome.FILE_END)
        self.bytes = Counter(
            blank_bytes=sum(self.segment.stop - log_offset for log_offset in blanks),
            damaged_bytes=sum(part.more_gap_bytes for part in self.parts),
        )
        for gap in self.gaps:
            self._count(gap)

    def _count(self, gap: Gap) -> None:
        """Count the bytes of a gap by what they are; only zeros that no record follows are the log's end."""
        zeros = 0
        if gap.stop == self.segment.stop and self._number >= self._edge.last:
            zeros = gap.stop - max(gap.start, self.segment.start + last_used_byte(self.segment))
        severity = classify(gap, self.segment, self._number, self._edge).severity
        rest = "stale_bytes" if severity is Severity.INFO else "damaged_bytes"
        self.bytes.update({"zero_bytes": zeros, rest: gap.length - zeros})


_MS = 1000
_OTHER_BYTES = ("blank_bytes", "zero_bytes", "stale_bytes", "damaged_bytes")
_Key = tuple[str, int | None]


def topics_of(request: TopicsRequest, progress: Progress) -> TopicsReport:
    """Add up the log by topic."""
    scan = _LogTotals(request)
    scan.run(progress)
    losses = scan.losses()
    rows = _rows(request, scan.totals, losses)
    rows.sort(key=_ORDERS[request.order])
    shown = rows if request.top is None else rows[: request.top]
    return TopicsReport(
        store=str(request.store.place.path),
        log=scan.parts,
        rows=tuple(shown),
        topics=len({row.topic for row in rows}),
        messages=sum(row.messages for row in rows),
        bytes=sum(row.bytes for row in rows),
        more=len(rows) - len(shown),
        findings=scan.findings,
        log_losses=losses,
    )


@dataclass
class _LogTotals:
    """The log, file after file."""

    request: TopicsRequest
    totals: dict[tuple[str, int], Total] = field(default_factory=dict)
    bytes: Counter[str] = field(default_factory=Counter)

    def __post_init__(self) -> None:
        self.findings = FindingLog(self.request.max_findings)

    @property
    def parts(self) -> LogParts:
        """Return the bytes by kind."""
        return LogParts(
            size_bytes=self.request.store.own_log.size_bytes,
            messages=sum(total.messages for total in self.totals.values()),
            message_bytes=sum(total.bytes for total in self.totals.values()),
            **{name: self.bytes[name] for name in _OTHER_BYTES},
        )

    def run(self, progress: Progress) -> None:
        store, done = self.request.store, 0
        edge = FoundEdge.of(store)
        progress.stage("commitlog", store.own_log.size_bytes)
        with LocalEngine() as engine:
            for number, segment in enumerate(edge.segments):
                if (missing := edge.missing_before(number)) is not None:
                    self.findings.add(missing)
                self._add(FileTotals(number, edge, engine, self.request.split_bytes))
                segment.close()
                done += segment.size_bytes
                progress.advance(done)

    def losses(self) -> LogLosses | None:
        """Return the log's losses, and report what lay before it; None where nothing points to losses."""
        store = self.request.store
        if store.kind is not PathKind.STORE or not len(store.commitlog):
            return None
        is_suspect = any(self.bytes[name] for name in ("damaged_bytes", "stale_bytes"))
        start, queues = store.commitlog.start, self.totals.values()
        is_suspect |= bool(len(self.findings)) or any(queue.breaks or queue.displaced for queue in queues)
        is_suspect |= not start and any(queue.first > 0 for queue in queues)
        log_end = find_log_end(FoundEdge.of(store))
        if not is_suspect:
            ends, end = {key: total.stop for key, total in self.totals.items()}, log_end.end
            is_suspect = lists_beyond(store, start, end, ends) or indexes_beyond(store, end)
        if store.commitlog.start > 0:
            from rmqtool.retention.expiry import check_expiry, of_queues

            self.findings.extend(check_expiry(store, of_queues(store, log_end.last_ms)))
        if not is_suspect and store.commitlog.start <= 0:
            return None
        from rmqtool.account.log_losses import losses_of  # few logs have lost anything

        return losses_of(store, self.findings, is_suspect=is_suspect)

    def _add(self, segment: FileTotals) -> None:
        for part in segment.parts:
            for key, total in part.found:
                self.totals[key] = total.plus(self.totals.get(key))
        for defect in segment.defects():
            if defect.severity is not Severity.INFO:
                self.findings.add(defect)
        self.bytes.update(segment.bytes)
        if segment.more_gaps:
            finding = Finding(
                code=codes.CL_HALF_RECORD,
                file=segment.segment.label,
                message="more damage, only counted",
                severity_override=Severity.ERROR,
            )
            self.findings.add(finding, count=segment.more_gaps)


def _rows(
    request: TopicsRequest, totals: dict[tuple[str, int], Total], losses: LogLosses | None
) -> list[TopicTotals]:
    lost = Counter[_Key]()
    for queue in () if losses is None else losses.queues:
        lost[queue.topic, queue.queue_id if request.by_queue else None] += queue.messages
    grouped: dict[_Key, Total] = {}
    queues: dict[_Key, int] = {}
    for (topic, queue_id), total in totals.items():
        if request.admits(topic):
            key = topic, queue_id if request.by_queue else None
            grouped[key] = total.plus(grouped.get(key))
            queues[key] = queues.get(key, 0) + 1
    backlogs = _backlogs(request)
    all_bytes = sum(total.bytes for total in totals.values())
    return [
        _row(key, total, queues[key], all_bytes, lost[key], backlogs.get(key))
        for key, total in grouped.items()
    ]


def _row(
    key: _Key, total: Total, queues: int, all_bytes: int, lost: int, backlog: tuple[int, str] | None
) -> TopicTotals:
    topic, queue_id = key
    span_ms = total.newest_ms - total.oldest_ms
    units, reader = (None, None) if backlog is None else backlog
    return TopicTotals(
        topic,
        kind_of(topic),
        queue_id,
        queues,
        messages=total.messages,
        bytes=total.bytes,
        share=round(total.bytes / all_bytes, 6),
        oldest=utc_text(total.oldest_ms),
        newest=utc_text(total.newest_ms),
        oldest_timestamp_ms=total.oldest_ms,
        newest_timestamp_ms=total.newest_ms,
        messages_per_second=round(total.messages * _MS / span_ms, 6) if span_ms else None,
        largest_bytes=total.largest,
        largest_physical_offset=total.largest_at,
        lost=lost,
        backlog=units,
        slowest_reader=reader,
    )


def _backlogs(request: TopicsRequest) -> dict[_Key, tuple[int, str]]:
    """Return the backlog of the slowest reader, by topic or queue; of equals the first by name."""
    by_reader: dict[tuple[_Key, str], int] = {}
    for lag in request.lags:
        place = (lag.topic, lag.queue_id if request.by_queue else None), lag.reader
        by_reader[place] = by_reader.get(place, 0) + lag.units
    backlogs: dict[_Key, tuple[int, str]] = {}
    for (key, reader), units in sorted(by_reader.items(), key=lambda entry: entry[0][1]):
        if key not in backlogs or units > backlogs[key][0]:
            backlogs[key] = units, reader
    return backlogs


def _falling(value: float | None) -> float:
    return float("inf") if value is None else -value


def _name(row: TopicTotals) -> tuple[str, int]:
    return row.topic, row.queue_id or 0


_ORDERS: dict[TopicOrder, Callable[[TopicTotals], tuple[object, ...]]] = {
    TopicOrder.BYTES: lambda row: (-row.bytes, _name(row)),
    TopicOrder.MESSAGES: lambda row: (-row.messages, _name(row)),
    TopicOrder.NEWEST: lambda row: (-row.newest_timestamp_ms, _name(row)),
    TopicOrder.OLDEST: lambda row: (row.oldest_timestamp_ms, _name(row)),
    TopicOrder.RATE: lambda row: (_falling(row.messages_per_second), _name(row)),
    TopicOrder.LARGEST: lambda row: (-row.largest_bytes, _name(row)),
    TopicOrder.BACKLOG: lambda row: (_falling(row.backlog), _name(row)),
    TopicOrder.NAME: _name,
}
