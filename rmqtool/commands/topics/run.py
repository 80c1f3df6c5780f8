"""From the splits of the log to rows: totals of all files, the slowest reader of each, order and cut."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from rmqtool.account.model import indexes_beyond, lists_beyond
from rmqtool.commands.topics.model import LogParts, TopicOrder, TopicsReport, TopicTotals
from rmqtool.commands.topics.scan import FileTotals
from rmqtool.engine import LocalEngine
from rmqtool.findings import Finding, FindingLog, Severity
from rmqtool.findings.commitlog import CL_HALF_RECORD
from rmqtool.scan.log_edge import FoundEdge
from rmqtool.scan.log_end import find_log_end
from rmqtool.store.kinds import PathKind
from rmqtool.times import utc_text
from rmqtool.topics import kind_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from rmqtool.account.model import LogLosses
    from rmqtool.commands.topics.model import TopicsRequest
    from rmqtool.dispatch.totals import Total
    from rmqtool.progress import Progress

_MS = 1000
_Key = tuple[str, int | None]


def topics_of(request: TopicsRequest, progress: Progress) -> TopicsReport:
    """Add up the log by topic.

    Raises:
        EnvironmentFailureError: a file of the log cannot be opened or read.
    """
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
        more=len(rows) - len(shown),
        findings=scan.findings,
        log_losses=losses,
    )


@dataclass
class _LogTotals:
    """The log, file after file."""

    request: TopicsRequest
    totals: dict[tuple[str, int], Total] = field(default_factory=dict)
    blank_bytes: int = 0
    zero_bytes: int = 0
    stale_bytes: int = 0
    damaged_bytes: int = 0
    has_strangers: bool = False

    def __post_init__(self) -> None:
        self.findings = FindingLog(self.request.max_findings)

    @property
    def parts(self) -> LogParts:
        """Return what the bytes are."""
        return LogParts(
            size_bytes=self.request.store.commitlog.size_bytes,
            messages=sum(one.messages for one in self.totals.values()),
            message_bytes=sum(one.bytes for one in self.totals.values()),
            blank_bytes=self.blank_bytes,
            zero_bytes=self.zero_bytes,
            stale_bytes=self.stale_bytes,
            damaged_bytes=self.damaged_bytes,
        )

    def run(self, progress: Progress) -> None:
        store, done = self.request.store, 0
        edge = FoundEdge.of(store)
        progress.stage("commitlog", store.commitlog.size_bytes)
        with LocalEngine() as engine:
            for number, segment in enumerate(edge.segments):
                if (missing := edge.missing_before(number)) is not None:
                    self.findings.add(missing.finding(segment))
                self._add(FileTotals(number, edge, engine, self.request.split_bytes))
                segment.close()
                done += segment.size_bytes
                progress.advance(done)

    def losses(self) -> LogLosses | None:
        """Return what the log has lost; None where nothing points to that.

        Raises:
            EnvironmentFailureError: a file of the log or of a queue cannot be opened or read.
        """
        store = self.request.store
        if store.kind is not PathKind.STORE or not len(store.commitlog):
            return None
        is_suspect = self.damaged_bytes or self.stale_bytes or self.has_strangers or len(self.findings)
        if not is_suspect:
            start, end = store.commitlog.start, find_log_end(FoundEdge.of(store)).end
            is_suspect = lists_beyond(store, start, end) or indexes_beyond(store, end)
        if not is_suspect:
            return None
        from rmqtool.account.store_account import StoreAccount  # a sound log needs none

        account = StoreAccount(store)
        if not account.can_tell:
            return None
        losses = account.losses()
        self.findings.extend(account.findings(losses))
        return losses

    def _add(self, segment: FileTotals) -> None:
        for part in segment.parts:
            self.has_strangers |= part.found.has_strangers
            for key, total in part.found.queues:
                self.totals[key] = total.plus(self.totals.get(key))
        for defect in segment.defects():
            if defect.severity is not Severity.INFO:
                self.findings.add(defect.finding(segment.segment))
        self.blank_bytes += segment.blank_bytes
        self.zero_bytes += segment.zero_bytes
        self.stale_bytes += segment.stale_bytes
        self.damaged_bytes += segment.damaged_bytes
        if segment.more_gaps:
            finding = Finding(
                code=CL_HALF_RECORD,
                file=segment.segment.label,
                message="more damage, only counted",
                severity_override=Severity.ERROR,
            )
            self.findings.add(finding, count=segment.more_gaps)


def _rows(
    request: TopicsRequest, totals: dict[tuple[str, int], Total], losses: LogLosses | None
) -> list[TopicTotals]:
    lost = Counter[_Key]()
    for one in () if losses is None else losses.queues:
        lost[one.topic, one.queue_id if request.by_queue else None] += one.messages
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
        replace(_row(key, total, queues[key], all_bytes, backlogs.get(key)), lost=lost[key])
        for key, total in grouped.items()
    ]


def _row(
    key: _Key, total: Total, queues: int, all_bytes: int, backlog: tuple[int, str] | None
) -> TopicTotals:
    topic, queue_id = key
    span_ms = total.newest_ms - total.oldest_ms
    units, reader = (None, None) if backlog is None else backlog
    return TopicTotals(
        topic=topic,
        kind=kind_of(topic),
        queue_id=queue_id,
        queues=queues,
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
        backlog=units,
        slowest_reader=reader,
    )


def _backlogs(request: TopicsRequest) -> dict[_Key, tuple[int, str]]:
    """Return what the slowest reader has before it, by topic or queue; of equals the first by name."""
    by_reader: dict[tuple[_Key, str], int] = {}
    for lag in request.lags:
        place = (lag.topic, lag.queue_id if request.by_queue else None), lag.reader
        by_reader[place] = by_reader.get(place, 0) + lag.units
    found: dict[_Key, tuple[int, str]] = {}
    for (key, reader), units in sorted(by_reader.items(), key=lambda one: one[0][1]):
        if key not in found or units > found[key][0]:
            found[key] = units, reader
    return found


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
