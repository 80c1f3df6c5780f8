"""The commit log: every record, what breaks the chain of them, and how they fit together.

The pass over the log reads its splits into sinks (``splits``) and stitches them: only then is it clear what
is damage and what is the log's end. Of an interrupted pass, only what the whole log would not take back is
reported: what looks like damage may lie after the end of the log, and the last records may be torn ones, or
old ones that a truncation left.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from rmqtool.check import CheckInterruptedError, Examined, log_findings, run_guarded
from rmqtool.check.entries import seam_findings
from rmqtool.check.queue_offsets import Breaks, add_breaks, breaks_of, repeats_from
from rmqtool.check.splits import (
    CheckJob,
    CheckReport,
    SegmentScan,
    StaleTail,
    stale_candidates,
    stitch_segment,
    without_tail,
)
from rmqtool.check.transactions import COLUMN, TransactionBalance
from rmqtool.dispatch.policy import NEVER, DispatchPolicy
from rmqtool.findings import Finding, FindingLog, Severity, Structure, codes
from rmqtool.reput.queues import QueuePlan, plan_queues
from rmqtool.scan.classify import FoundEdge
from rmqtool.scan.log_pass import SPLIT_BYTES, LogPass, Split, SplitTask, plan_splits, read_split
from rmqtool.scan.record_walk import find_log_end
from rmqtool.store.segments import FileQueue, StoreFile, unreadable_findings

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from rmqtool.check.census import Period
    from rmqtool.check.picture import LogPicture
    from rmqtool.check.splits import Recheck
    from rmqtool.engine import Engine
    from rmqtool.progress import Progress
    from rmqtool.reput.blocks import Block
    from rmqtool.scan.entries import EntrySpan
    from rmqtool.store.staging import StagingHandle


class LogCheck(NamedTuple):
    """Scope of a check.

    Attributes:
        log: the commit log.
        policy: the broker's switches; without an index the checks are faster.
        staging: where blocks are written.
        max_findings: findings of one code that are kept.
        live: a broker appends meanwhile: the log ends where it ends now; what lies after it is left alone.
        unclean: ``abort`` is there: a torn record at the end is what the next start expects.
        split_bytes: greatest size of a split.
        half_offsets: by half queue, how far the broker's own check of half messages has come; None if what
            transactions say of each other is not checked.
        passed: offsets of delay levels, by queue id of their topic.
        is_whole: no file was left out: so records of a queue follow each other, and zeros are the log's end.
        page_writer: see ``LogEdge``.
        pictured: a picture is made of what is read.
    """

    log: FileQueue
    policy: DispatchPolicy
    staging: StagingHandle
    max_findings: int = 100
    live: bool = False
    unclean: bool = False
    split_bytes: int = SPLIT_BYTES
    half_offsets: Mapping[int, int] | None = None
    passed: tuple[int, ...] = ()
    is_whole: bool = True
    page_writer: str = ""
    pictured: bool = False


SplitOutcome = CheckReport | Finding
"""Of a split: what is in it, or why that cannot be read."""


def _evidence(task: SplitTask[CheckReport]) -> Sequence[StoreFile]:
    return (task.split.segment,)


class _SegmentFailedError(Exception):
    """A file of the log cannot be read; carries the finding that says so."""

    def __init__(self, finding: Finding) -> None:
        super().__init__(finding.message)
        self.finding = finding


class _RereadError(Exception):
    """A split would have to be read again, for which there is no time now."""


_TASK_BYTES = 1 << 20
"""Of a task, if there is so much: threads with less wait for each other, not for the log."""


class LogReader:
    """Reads the splits of one log; ``period`` is that of the census, if a picture is requested."""

    def __init__(self, check: LogCheck, engine: Engine) -> None:
        self._check = check
        # A file of which there are two counts once: reads are answered from the first.
        segments = [segment for segment in check.log if check.log.segment_at(segment.start) is segment]
        self.edge = FoundEdge(segments, check.unclean, page_writer=check.page_writer)
        self.period: Period | None = None
        if check.pictured:
            from rmqtool.check.census import period_of  # which `report` alone shows

            self.period = period_of(segments, self.edge)
        job = CheckJob(
            check.policy,
            check.staging,
            check.max_findings,
            transactions=check.half_offsets is not None,
            passed=check.passed,
            stale_from=self.edge.stale_from,
            period=self.period,
        )
        until = find_log_end(self.edge).end if check.live else NEVER
        splits = plan_splits(segments, until, check.split_bytes)
        guarded = partial(run_guarded, read_split, _evidence, Structure.COMMITLOG)
        self._pass: LogPass[CheckJob, SplitOutcome] = LogPass(engine, job, splits, guarded, _TASK_BYTES)

    @property
    def bytes_read(self) -> int:
        """Return the bytes of the splits that were read."""
        return self._pass.bytes_read

    def read(self, progress: Progress) -> LogCheck:
        """Read all splits; return the check with the policy that the records show to be right."""
        self._pass.run(progress, "commit log")
        return self._check._replace(policy=self._pass.job.policy)

    def scans(self, findings: FindingLog, recheck: Recheck | None = None) -> Iterator[SegmentScan]:
        """Put the splits together, file by file; a file that cannot be read has no records."""
        for segment, outcomes in self._pass.by_file():
            try:
                reports = [_required(outcome) for outcome in outcomes]
                yield stitch_segment(segment, reports, recheck or self._recheck)
            except _SegmentFailedError as failure:
                finding = failure.finding
                if self._check.live and finding.code is codes.IO_CHANGED:  # retention is at work
                    finding = replace(finding, severity_override=Severity.WARNING)
                findings.add(finding)
                yield SegmentScan(segment, log_offset=segment.start)

    def cut(self, scan: SegmentScan, log_offset: int) -> SegmentScan:
        """Return a file's scan without reports of records from ``log_offset`` on, which are read again."""
        reports = []
        for report in scan.reports:
            if report.first_log_offset is not None and report.first_log_offset < log_offset:
                stop = min(report.split.stop, log_offset)
                whole = stop == report.split.stop
                split = report.split._replace(stop=stop)
                reports.append(report if whole else self._recheck(split, report.first_log_offset))
        return replace(without_tail(scan, log_offset), reports=reports)

    def _recheck(self, split: Split, log_offset: int) -> CheckReport:
        return _required(self._pass.reread(split, log_offset))

    def so_far(self) -> CheckInterruptedError:
        """Return what is known of a log that was not read to its end, as the error that carries it."""
        most = self._check.max_findings
        findings = FindingLog(most)
        scans = list(self._sure_scans(findings))
        last = max((number for number, scan in enumerate(scans) if scan.runs), default=-1)
        for number, scan in enumerate(scans[: last + 1]):
            reports = scan.reports if number < last else list(_sure_reports(scan))
            findings.merge(log_findings.record_findings(reports, most))
        if not self._check.live:
            end = log_findings.JudgedEnd(last, stale=None, unclean=False)
            findings.extend(log_findings.damage_findings(scans[: max(last, 0)], end))
        records = sum(report.records for scan in scans for report in scan.reports)
        examined = Examined(commitlog_files=len(scans), records=records, bytes=self.bytes_read)
        return CheckInterruptedError(findings, examined)

    def _sure_scans(self, findings: FindingLog) -> Iterator[SegmentScan]:
        """Yield the scans of the files whose splits fit, up to the first file where they do not."""
        scans = self.scans(findings, _no_recheck)
        while True:
            try:
                yield next(scans)
            except (StopIteration, _RereadError):
                return


def _no_recheck(split: Split, _log_offset: int) -> CheckReport:
    raise _RereadError(f"{split.segment.label} from {split.start} on")


def _sure_reports(scan: SegmentScan) -> Iterator[CheckReport]:
    """Yield the reports of a file after which nothing is known, as far as no end of the log can be."""
    sure = min((stale.start for stale in stale_candidates(scan)), default=NEVER)
    torn = log_findings.torn_record(scan.findings, scan.records_stop)
    if torn is not None and torn.physical_offset is not None:
        sure = min(sure, torn.physical_offset)
    for report in scan.reports:
        if report.split.stop > sure:
            return
        yield report


def _required(outcome: SplitOutcome) -> CheckReport:
    """Return the report of a split."""
    if isinstance(outcome, Finding):
        raise _SegmentFailedError(outcome)
    return outcome


class LogResult(NamedTuple):
    """Content of the log, and its damage.

    Attributes:
        findings: what is wrong.
        examined: how much was read.
        blocks: units and index entries of every intact record, in log order.
        plans: runs of every queue.
        log_start: physical offset of the log's first byte.
        log_end: physical offset after the last record.
        stale_stop: physical offset after old records that a truncation left there; ``log_end`` without any.
        latest_ms: highest STORETIMESTAMP; None without records.
        passed: offsets of delay levels that were examined, by queue id of their topic.
        skipped: by queue, how far its offsets run ahead of its units at most, where messages name it twice.
        picture: of the log, if requested.
        last_entries: those of DLedger at the end of the log; None without any.
    """

    findings: FindingLog
    examined: Examined
    blocks: tuple[Block, ...]
    plans: tuple[QueuePlan, ...]
    log_start: int
    log_end: int
    stale_stop: int
    latest_ms: int | None = None
    passed: tuple[int, ...] = ()
    skipped: Mapping[tuple[str, int], int] = {}
    picture: LogPicture | None = None
    last_entries: EntrySpan | None = None


def check_log(check: LogCheck, engine: Engine, progress: Progress) -> LogResult:
    """Check the whole log."""
    reader = LogReader(check, engine)
    try:
        check = reader.read(progress)
        return _LogChecker(check, engine, reader).run()
    except KeyboardInterrupt:
        raise reader.so_far() from None


class _LogChecker:
    """Findings about a log that has been read, step by step."""

    def __init__(self, check: LogCheck, engine: Engine, reader: LogReader) -> None:
        self._check = check
        self._engine = engine
        self._reader = reader
        self._findings = FindingLog(check.max_findings)

    def run(self) -> LogResult:
        check = self._check
        scans = list(self._reader.scans(self._findings))
        last = max((number for number, scan in enumerate(scans) if scan.runs), default=-1)
        if check.unclean and not check.live and last >= 0:
            scans[last] = self._without_torn_record(scans[last])
        stale, scans, plans, breaks = self._without_stale_tail(scans, last)
        self._report_records(scans)
        if not check.live:
            end = log_findings.JudgedEnd(
                last, stale, check.unclean, check.page_writer, self._reader.edge.stale_from
            )
            self._findings.extend(log_findings.damage_findings(scans, end))
        self._count_the_rest(scans)
        if check.is_whole:
            lost = [(damage.start, damage.stop) for scan in scans for damage in scan.gaps]
            add_breaks(self._findings, check.log, breaks, lost)
        if check.half_offsets is not None:
            slim = [block.slim(COLUMN) for block in _blocks(scans)]
            sound = [(run.start, run.stop) for scan in scans for run in scan.runs]
            balance = TransactionBalance(check.log, slim, sound, check.half_offsets, check.max_findings)
            self._findings.merge(self._engine.map(TransactionBalance.check, [balance])[0])
        stops = [scan.records_stop for scan in scans]
        log_end = max((stop for stop in stops if stop is not None), default=check.log.start)
        stale_stop = log_end if stale is None else stale.stop
        picture = None
        if self._reader.period is not None:
            from rmqtool.check.picture import PictureFrame, picture_of

            picture = picture_of(scans, breaks, PictureFrame(self._reader.period, log_end, stale_stop))
        return LogResult(
            findings=self._findings,
            examined=Examined(
                commitlog_files=len(scans),
                records=sum(report.records for report in _reports(scans)),
                bytes=self._reader.bytes_read,
            ),
            blocks=_blocks(scans),
            plans=tuple(plans),
            log_start=check.log.start,
            log_end=log_end,
            stale_stop=stale_stop,
            latest_ms=max((run.last_ms for scan in scans for run in scan.runs), default=None),
            passed=check.passed,
            skipped=breaks.skipped,
            picture=picture,
            last_entries=next(
                (report.entries for report in reversed([*_reports(scans)]) if report.entries), None
            ),
        )

    def _without_torn_record(self, scan: SegmentScan) -> SegmentScan:
        """Leave out the log's last record if its body never reached the disk: the next start cuts it."""
        finding = log_findings.torn_record(scan.findings, scan.records_stop)
        if finding is None or finding.physical_offset is None:
            return scan
        self._findings.add(log_findings.as_torn(finding))
        return self._reader.cut(scan, finding.physical_offset)

    def _without_stale_tail(
        self, scans: list[SegmentScan], last: int
    ) -> tuple[StaleTail | None, list[SegmentScan], list[QueuePlan], Breaks]:
        """Leave out old records after the log's end; return them, and what is left."""
        plans, breaks = self._continuity(scans)
        if last < 0 or self._check.live or not self._check.is_whole:
            return None, scans, plans, breaks
        for stale in stale_candidates(scans[last]):
            if stale.after_gap or repeats_from(breaks, stale.start):
                kept = [*scans[:last], self._reader.cut(scans[last], stale.start), *scans[last + 1 :]]
                return stale, kept, *self._continuity(kept)
        return None, scans, plans, breaks

    def _continuity(self, scans: Sequence[SegmentScan]) -> tuple[list[QueuePlan], Breaks]:
        check = self._check
        blocks = _blocks(scans)
        plans = plan_queues(blocks, check.policy, check.staging)
        from_zero = check.log.start == 0
        return plans, breaks_of(
            plans, blocks, self._engine, from_zero=from_zero, max_breaks=check.max_findings
        )

    def _report_records(self, scans: Sequence[SegmentScan]) -> None:
        illegal_queues: dict[tuple[bytes, int], int] = {}
        for scan in scans:
            self._findings.merge(log_findings.record_findings(scan.reports, self._check.max_findings))
        for report in _reports(scans):
            for queue, log_offset in report.illegal_queues.items():
                illegal_queues.setdefault(queue, log_offset)
        for scan in scans:
            bad = log_findings.joined(
                unreadable for report in scan.reports for unreadable in report.unreadable
            )
            self._findings.extend(unreadable_findings(scan.segment, bad, Structure.COMMITLOG))
            if scan.reports:
                self._findings.extend(log_findings.changed_findings(scan.segment))
        self._findings.extend(log_findings.illegal_queue_findings(self._check.log, illegal_queues))
        self._findings.extend(log_findings.clock_findings(scans))
        self._findings.extend(seam_findings(scans))
        self._findings.extend(log_findings.clocks_apart([report.ahead for report in _reports(scans)]))

    def _count_the_rest(self, scans: Sequence[SegmentScan]) -> None:
        """Count those that the splits had no room to list."""
        for report in _reports(scans):
            file = report.split.segment.label
            damage = Finding(code=codes.CL_BAD_MAGIC, file=file, message="more damage, only counted")
            self._findings.add(damage, count=report.more_gaps)
            self._findings.add(Finding(code=codes.CL_TS_BACK, file=file), count=report.more_steps)


def _reports(scans: Iterable[SegmentScan]) -> Iterator[CheckReport]:
    for scan in scans:
        yield from scan.reports


def _blocks(scans: Iterable[SegmentScan]) -> tuple[Block, ...]:
    return tuple(report.block for report in _reports(scans))
