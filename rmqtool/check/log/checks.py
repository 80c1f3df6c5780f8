"""The commit log: every record, what breaks the chain of them, and what they say of each other.

The pass over the log (``reader``) reads its splits into sinks (``check_split``) and stitches them; only then
is it clear what is damage and what is the log's end.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from rmqtool.check.log.findings import (
    JudgedEnd,
    as_torn,
    changed_findings,
    clocks_apart,
    damage_findings,
    illegal_queue_findings,
    joined,
    record_findings,
    steps_back,
    torn_record,
)
from rmqtool.check.log.picture import LogPicture, PictureFrame, picture_of
from rmqtool.check.log.queue_offsets import (
    Breaks,
    add_breaks,
    breaks_of,
    repeats_from,
)
from rmqtool.check.log.reader import LogReader
from rmqtool.check.log.segment_scan import SegmentScan, StaleTail, stale_candidates
from rmqtool.check.log.transaction_checks import check_transactions, transaction_task
from rmqtool.check.model import Examined
from rmqtool.findings import Finding, FindingLog, Structure
from rmqtool.findings.codes import CL_BAD_MAGIC, CL_TS_BACK
from rmqtool.reput.queues import QueuePlan, plan_queues
from rmqtool.scan.log_pass import SPLIT_BYTES
from rmqtool.store.unread import unreadable_findings

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from rmqtool.check.log.check_split import CheckReport
    from rmqtool.dispatch.policy import DispatchPolicy
    from rmqtool.engine import Engine
    from rmqtool.progress import Progress
    from rmqtool.reput.blocks import Block
    from rmqtool.store.segments import FileQueue
    from rmqtool.store.staging import StagingHandle


@dataclass(frozen=True)
class LogCheck:
    """What to check.

    Attributes:
        log: the commit log.
        policy: the broker's switches; without an index the checks are faster.
        staging: where blocks are written.
        max_findings: findings of one code that are kept.
        live: a broker appends meanwhile: the log ends where it ends now; what lies after it is left alone.
        unclean: ``abort`` is there: a torn record at the end is what the next start expects.
        split_bytes: greatest size of a split.
        half_offsets: by half queue, how far the broker's own check of half messages has come; None if what
            transactions say of each other is not asked.
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
    is_whole: bool = True
    page_writer: str = ""
    pictured: bool = False


@dataclass(frozen=True)
class LogResult:
    """What the log holds, and what is wrong with it.

    Attributes:
        findings: what is wrong.
        examined: how much was looked at.
        blocks: units and index entries of every true record, in log order.
        plans: runs of every queue.
        log_start: physical offset of the log's first byte.
        log_end: physical offset after the last record.
        stale_stop: physical offset after old records that a truncation left there; ``log_end`` without any.
        latest_ms: highest STORETIMESTAMP; None without records.
        skipped: by queue, how far its offsets run ahead of its units at most, where messages name it twice.
        picture: of the log, if that was asked.
    """

    findings: FindingLog
    examined: Examined
    blocks: tuple[Block, ...]
    plans: tuple[QueuePlan, ...]
    log_start: int
    log_end: int
    stale_stop: int
    latest_ms: int | None = None
    skipped: Mapping[tuple[str, int], int] = field(default_factory=dict)
    picture: LogPicture | None = None


def check_log(check: LogCheck, engine: Engine, progress: Progress) -> LogResult:
    """Check the whole log."""
    reader = LogReader(check, engine)
    try:
        check = reader.read(progress)
        return _LogChecker(check, engine, reader).run()
    except KeyboardInterrupt:
        raise reader.so_far() from None


class _LogChecker:
    """What is to be said of a log that has been read, step by step."""

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
            end = JudgedEnd(last, stale, check.unclean, check.page_writer, self._reader.edge.stale_from)
            self._findings.extend(damage_findings(scans, end))
        self._count_the_rest(scans)
        if check.is_whole:
            add_breaks(self._findings, check.log, breaks, _lost(scans))
        if check.half_offsets is not None:
            task = transaction_task(check.log, scans, check.half_offsets, check.max_findings)
            self._findings.merge(self._engine.map(check_transactions, [task])[0])
        stops = [scan.records_stop for scan in scans]
        log_end = max((stop for stop in stops if stop is not None), default=check.log.start)
        stale_stop = log_end if stale is None else stale.stop
        period = self._reader.period
        frame = None if period is None else PictureFrame(period, log_end, stale_stop)
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
            latest_ms=max((one.last_ms for scan in scans for one in scan.runs), default=None),
            skipped=breaks.skipped,
            picture=None if frame is None else picture_of(scans, breaks, frame),
        )

    def _without_torn_record(self, scan: SegmentScan) -> SegmentScan:
        """Leave out the log's last record if its body never reached the disk: the next start cuts it."""
        found = torn_record(scan.findings, scan.records_stop)
        if found is None or found.physical_offset is None:
            return scan
        self._findings.add(as_torn(found))
        return self._reader.cut(scan, found.physical_offset)

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
            self._findings.merge(record_findings(scan.reports, self._check.max_findings))
        for report in _reports(scans):
            for queue, log_offset in report.illegal_queues.items():
                illegal_queues.setdefault(queue, log_offset)
        for scan in scans:
            bad = joined(one for report in scan.reports for one in report.unreadable)
            self._findings.extend(unreadable_findings(scan.segment, bad, Structure.COMMITLOG))
            if scan.reports:
                self._findings.extend(changed_findings(scan.segment))
        self._findings.extend(illegal_queue_findings(self._check.log, illegal_queues))
        self._findings.extend(steps_back(scans))
        self._findings.extend(clocks_apart([report.ahead for report in _reports(scans)]))

    def _count_the_rest(self, scans: Sequence[SegmentScan]) -> None:
        """Count what the splits had no room to tell apart."""
        for report in _reports(scans):
            file = report.split.segment.label
            damage = Finding(code=CL_BAD_MAGIC, file=file, message="more damage, only counted")
            self._findings.add(damage, count=report.more_gaps)
            self._findings.add(Finding(code=CL_TS_BACK, file=file), count=report.more_steps)


def _reports(scans: Iterable[SegmentScan]) -> Iterator[CheckReport]:
    for scan in scans:
        yield from scan.reports


def _blocks(scans: Iterable[SegmentScan]) -> tuple[Block, ...]:
    return tuple(report.block for report in _reports(scans))


def _lost(scans: Iterable[SegmentScan]) -> list[tuple[int, int]]:
    return [(damage.start, damage.stop) for scan in scans for damage in scan.gaps]
