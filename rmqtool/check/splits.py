"""Splits of the log as a check reads them, and the runs of records and gaps of a file, joined from them.

Where a broker's reput gives up, this goes on at the next intact record (``GapWalk``): the units and index
entries in the block of a split are those of every intact record. Bytes between are damage, unless nothing
intact follows in the log: then they are the log's end.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, NamedTuple

from rmqtool.findings import Finding, codes
from rmqtool.formats.message import Outcome
from rmqtool.kernels.checks import measure_times
from rmqtool.kernels.rows import frame_stops
from rmqtool.kernels.transactions import TransactionRows
from rmqtool.reput.dispatcher import DispatchedSplit, DispatchJob, DispatchSink, KnownQueues
from rmqtool.scan.gap_walk import GapWalk, gap_of, joined_gap
from rmqtool.scan.log_pass import Split, SplitRead, stitch
from rmqtool.scan.record_checks import Ahead, RecordChecker
from rmqtool.scan.records import Gap
from rmqtool.store.names import is_illegal
from rmqtool.store.segments import Segment, finding_at

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from rmqtool.arrays import Rows
    from rmqtool.check.census import CensusTaker, Period, SplitCensus
    from rmqtool.kernels.rows import MessageBatch
    from rmqtool.scan.entries import EntrySpan

    Recheck = Callable[[Split, int], "CheckReport"]


MAX_PARTS = 10_000
"""Parts listed per split; those of a log that is torn more often are only counted."""

_NO_TIME = -(1 << 63)


class RecordRun(NamedTuple):
    """Records that follow each other without a gap, their store times never falling."""

    start: int
    stop: int
    records: int
    first_ms: int
    last_ms: int


@dataclass(kw_only=True)
class CheckReport(DispatchedSplit):
    """Results of a split.

    Attributes:
        parts: runs of records and gaps in log order.
        more_gaps: gaps that ``parts`` had no room for.
        more_steps: likewise, records whose store time falls.
        ghosts: bytes that are not zero lie after the end mark.
        ahead: records that were born after they were stored.
        illegal_queues: where queues begin whose name or id no broker would give, by raw topic and queue id.
        census: the counts, if requested.
        entries: those of DLedger, first and last.
    """

    parts: list[RecordRun | Gap] = field(default_factory=list)
    more_gaps: int = 0
    more_steps: int = 0
    ghosts: bool = False
    ahead: Ahead = field(default_factory=Ahead)
    illegal_queues: dict[tuple[bytes, int], int] = field(default_factory=dict)
    census: SplitCensus | None = None
    entries: EntrySpan | None = None


class RunBuilder:
    """Puts runs together out of batches."""

    def __init__(self) -> None:
        self.done: list[RecordRun | Gap] = []
        self.more_gaps = self.more_steps = self.records = 0
        self._open: RecordRun | None = None
        self._latest_ms = _NO_TIME

    def add_batch(self, batch: MessageBatch) -> None:
        """Take the records of a batch, and the gaps between them."""
        row = 0
        for number, gap in enumerate(batch.gaps):
            self.add_records(batch.rows[row : gap["row"]])
            row = int(gap["row"])
            if len(self.done) >= MAX_PARTS:
                self.more_gaps += len(batch.gaps) - number
                break
            self.add_gap(gap_of(gap))
        self.add_records(batch.rows[row:])

    def add_records(self, rows: Rows) -> None:
        """Take records that follow each other, and the open run if there is one."""
        row = 0
        while row < len(rows):
            step, latest_ms = measure_times(rows, row, self._latest_ms)
            if step > row:
                self._extend(rows, row, step, latest_ms)
                self._latest_ms = latest_ms
            row = step
            if row < len(rows):
                self._latest_ms = _NO_TIME
                if len(self.done) >= MAX_PARTS:
                    self.more_steps += 1
                else:
                    self.close()

    def _extend(self, rows: Rows, first: int, stop: int, last_ms: int) -> None:
        end = int(frame_stops(rows[stop - 1]))
        self.records += stop - first
        if self._open is None:
            start, first_ms = int(rows["log_offset"][first]), int(rows["store_timestamp_ms"][first])
            self._open = RecordRun(start, end, stop - first, first_ms, last_ms)
        else:
            before = self._open
            count = before.records + stop - first
            self._open = RecordRun(before.start, end, count, before.first_ms, last_ms)

    def add_gap(self, gap: Gap) -> None:
        """Take a gap; where there is no room it only counts."""
        if len(self.done) >= MAX_PARTS:
            self.more_gaps += 1
            return
        self.close()
        self.done.append(gap)

    def close(self) -> None:
        """End the open run."""
        if self._open is not None:
            self.done.append(self._open)
        self._open, self._latest_ms = None, _NO_TIME

    def finished(self) -> dict[str, Any]:
        """End the open run; return parts and counts, by the fields of a report."""
        self.close()
        counts = {"records": self.records, "more_gaps": self.more_gaps, "more_steps": self.more_steps}
        return {"parts": self.done, **counts}


@dataclass
class SegmentScan:
    """Content of one file of the log.

    Attributes:
        segment: the file.
        reports: the splits that count.
        parts: runs and gaps in log order, without the splits' seams.
        end: STOP: records up to the file's end, or to where reading was to end; FILE_END; else a gap.
        log_offset: physical offset of that end; of an end mark, its own.
    """

    segment: Segment
    reports: list[CheckReport] = field(default_factory=list)
    parts: list[RecordRun | Gap] = field(default_factory=list)
    end: Outcome = Outcome.STOP
    log_offset: int = 0

    @property
    def runs(self) -> list[RecordRun]:
        """Return the runs of records."""
        return [part for part in self.parts if isinstance(part, RecordRun)]

    @property
    def gaps(self) -> list[Gap]:
        """Return the gaps."""
        return [part for part in self.parts if isinstance(part, Gap)]

    @property
    def ghosts(self) -> bool:
        """Whether something lies after the end mark."""
        return self.end == Outcome.FILE_END and self.reports[-1].ghosts

    @property
    def findings(self) -> Iterator[Finding]:
        """Yield what its records say."""
        for report in self.reports:
            yield from report.findings

    @property
    def records_stop(self) -> int | None:
        """Return the physical offset after the last record; None if there is none."""
        runs = self.runs
        return runs[-1].stop if runs else None


def stitch_segment(segment: Segment, reports: Sequence[CheckReport], recheck: Recheck) -> SegmentScan:
    """Put the splits of one file together."""
    scan = SegmentScan(segment, log_offset=segment.start)
    for report in stitch(reports, segment.start, lambda one, log_offset: recheck(one.split, log_offset)):
        if scan.end is not Outcome.STOP:
            _join_gap(scan, report)
        else:
            _take(scan, report)
    return scan


def _take(scan: SegmentScan, report: CheckReport) -> None:
    scan.reports.append(report)
    scan.end, scan.log_offset = report.outcome, report.log_offset
    parts = report.parts
    if parts and scan.parts and (run := _joined(scan.parts[-1], parts[0])) is not None:
        scan.parts[-1] = run
        parts = parts[1:]
    scan.parts += parts


def _joined(before: RecordRun | Gap, after: RecordRun | Gap) -> RecordRun | None:
    """Return two runs as one; None if the second does not continue the first."""
    if not isinstance(before, RecordRun) or not isinstance(after, RecordRun):
        return None
    if before.stop != after.start or before.last_ms > after.first_ms:
        return None
    return RecordRun(before.start, after.stop, before.records + after.records, before.first_ms, after.last_ms)


def _join_gap(scan: SegmentScan, report: CheckReport) -> None:
    """Go on after a gap that reached the split's start: it ends at the split's first intact record."""
    stop = report.split.stop if report.first_log_offset is None else report.first_log_offset
    last = scan.parts[-1] if scan.parts else None
    if isinstance(last, Gap) and last.stop == report.split.start:
        scan.parts[-1] = joined_gap(scan.segment, last, stop)
    scan.log_offset = stop
    if report.first_log_offset is not None:
        _take(scan, report)
    else:
        scan.reports.append(report)  # without records, but with what it could not read


class StaleTail(NamedTuple):
    """Old records after the log's end, which a truncation leaves on disk.

    Recovery cuts a log by moving a position; the bytes after it stay until they are overwritten. New records
    then end somewhere among the old ones, and old ones that begin there, or further on, are intact in every
    field. Two things give them away: they were all stored before the last record of the log, and either bytes
    that are not a record lie before them (the middle of an old record), or queue offsets come again.

    Attributes:
        start: physical offset of the log's end.
        stop: physical offset after the last old record.
        after_gap: whether bytes that are not a record lie between the end and the first of them.
    """

    start: int
    stop: int
    records: int
    after_gap: bool


def stale_candidates(scan: SegmentScan) -> Iterator[StaleTail]:
    """Yield what could be a stale tail in the last file of the log, the longest first.

    Everything in one was stored before the record in front of it.
    """
    latest_after = _latest_after(scan)
    before: RecordRun | None = None
    gap: Gap | None = None
    for number, part in enumerate(scan.parts):
        if isinstance(part, Gap):
            gap = part
            continue
        if before is not None and latest_after[number] < before.last_ms:
            old = [part for part in scan.parts[number:] if isinstance(part, RecordRun)]
            start = part.start if gap is None else gap.start
            yield StaleTail(
                start, old[-1].stop, sum(run_of_records.records for run_of_records in old), gap is not None
            )
        before, gap = part, None


def without_tail(scan: SegmentScan, start: int) -> SegmentScan:
    """Return the parts of a file that lie before ``start``; its reports are left as they are."""
    parts = [part._replace(stop=min(part.stop, start)) for part in scan.parts if part.start < start]
    return replace(scan, parts=parts, end=Outcome.STOP, log_offset=start)


def _latest_after(scan: SegmentScan) -> list[int]:
    """Return for every part the latest store time in it and after it."""
    latest_ms = -(1 << 63)
    latest = []
    for part in reversed(scan.parts):
        if isinstance(part, RecordRun):
            latest_ms = max(latest_ms, part.last_ms)
        latest.append(latest_ms)
    return latest[::-1]


class _Check(DispatchSink):
    known = KnownQueues()

    def __init__(self, job: CheckJob, segment: Segment, walk: GapWalk) -> None:
        super().__init__(job, passes_stalls=True)
        self._segment = segment
        self._walk = walk
        self._runs = RunBuilder()
        self._transactions = TransactionRows(job.passed) if job.transactions else None
        self._checker = RecordChecker(segment, self.findings, with_units=True)
        self._census: CensusTaker | None = None
        if job.period is not None:
            from rmqtool.check.census import CensusTaker

            self._census = CensusTaker(job.period, job.policy)

    def gap(self, gap: Gap) -> None:
        """Take a gap."""
        self._runs.add_gap(gap)

    def batch(self, batch: MessageBatch) -> None:
        """Check records, and dispatch all of them."""
        self._checker.check(batch)
        self._runs.add_batch(batch)
        if self._census is not None:
            self._census.take(batch)
        if self._transactions is not None:
            self._transactions.collect(batch)
        row = self.dispatcher.dispatch(batch)
        while row is not None:
            sentence = "INNER_MULTI_QUEUE_OFFSET is not a number: no dispatch gets past this record"
            self.findings.add(
                finding_at(self._segment, codes.LMQ_STALL, int(batch.rows["log_offset"][row]), sentence)
            )
            row = self.dispatcher.dispatch(batch, row + 1)

    def result(self, read: SplitRead) -> CheckReport:
        """Write the block; return what was found."""
        met = self.dispatcher.first_log_offsets.items()
        illegal = {queue: log_offset for queue, log_offset in met if is_illegal(*queue)}
        return CheckReport(
            **vars(read),
            **self.written(illegal, None if self._transactions is None else self._transactions.rows),
            **self._runs.finished(),
            ghosts=self._walk.ghosts(),
            sound_crcs=self._checker.sound_crcs,
            ahead=self._checker.ahead,
            illegal_queues=illegal,
            census=None if self._census is None else self._census.taken(),
            entries=self._checker.entries,
        )


@dataclass(frozen=True, slots=True)
class CheckJob(DispatchJob[CheckReport]):
    """Check of all splits of a log; picklable.

    Attributes:
        transactions: whether records that take part in transactions or delays are collected.
        passed: offsets of delay levels, by queue id of their topic.
        stale_from: see ``GapWalk``.
        period: of the census, if one is taken.
    """

    transactions: bool = False
    passed: tuple[int, ...] = ()
    stale_from: int | None = None
    period: Period | None = None

    def walk(self, segment: Segment) -> GapWalk:
        """Return a new walk over a file."""
        return GapWalk(segment, self.policy.release.records, self.stale_from)

    def sink(self, split: Split, walk: GapWalk) -> _Check:
        """Return a new sink for a split."""
        return _Check(self, split.segment, walk)
