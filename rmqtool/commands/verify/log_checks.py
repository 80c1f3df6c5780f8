"""The commit log: every record, what breaks the chain of them, and what they say of each other.

The log is cut into splits that an engine checks (``rmqtool.reput.resync``); their reports are put together
(``rmqtool.reput.trail``), and only then is it clear what is damage and what is the log's end.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING

from rmqtool.commands.verify.damage_checks import LogEnd, damage_findings
from rmqtool.commands.verify.guard import run_guarded
from rmqtool.commands.verify.log_findings import changed_findings, joined, steps_back
from rmqtool.commands.verify.model import Examined
from rmqtool.commands.verify.offset_checks import (
    Breaks,
    add_breaks,
    check_offsets,
    merge_breaks,
    offset_tasks,
    repeats_from,
)
from rmqtool.commands.verify.stale_tail import StaleTail, stale_candidates, without_tail
from rmqtool.dispatch.policy import NEVER
from rmqtool.findings import Finding, FindingLog, Severity, Structure
from rmqtool.findings.commitlog import CL_BAD_MAGIC, CL_CRC, CL_PROP_CRC
from rmqtool.findings.places import IO_CHANGED
from rmqtool.findings.records import CL_TS_BACK
from rmqtool.reput.queues import QueuePlan, plan_queues
from rmqtool.reput.resync import CheckReport, CheckTask, check_split
from rmqtool.reput.splits import SPLIT_BYTES, Split, plan_splits
from rmqtool.reput.suspects import suspect_findings
from rmqtool.reput.trail import SegmentTrail, follow_segment
from rmqtool.scan.log_end import find_log_end
from rmqtool.store.unreadable import unreadable_findings

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from rmqtool.dispatch.policy import DispatchPolicy
    from rmqtool.engine import Engine
    from rmqtool.reput.blocks import Block
    from rmqtool.reput.pipeline import Watcher
    from rmqtool.store.segments import FileQueue, Segment, StoreFile
    from rmqtool.store.staging import StagingHandle

_OFFSET_TASKS = 16


@dataclass(frozen=True)
class LogCheck:
    """What to check.

    Attributes:
        log: the commit log.
        policy: the broker's switches; without an index the checks are faster.
        staging: where blocks are written.
        max_findings: findings of one code that are kept.
        live: a broker appends meanwhile: the log ends where it ends now, and what lies behind is left alone.
        unclean: ``abort`` is there: a torn record at the end is what the next start expects.
        split_bytes: greatest size of a split.
    """

    log: FileQueue
    policy: DispatchPolicy
    staging: StagingHandle
    max_findings: int = 100
    live: bool = False
    unclean: bool = False
    split_bytes: int = SPLIT_BYTES


@dataclass(frozen=True)
class LogResult:
    """What the log holds, and what is wrong with it.

    Attributes:
        findings: what is wrong.
        examined: how much was looked at.
        blocks: units and index entries of every true record, in log order.
        plans: runs of every queue.
        log_start: physical offset of the log's first byte.
        log_end: physical offset behind the last record.
        latest_ms: highest STORETIMESTAMP; None without records.
    """

    findings: FindingLog
    examined: Examined
    blocks: tuple[Block, ...]
    plans: tuple[QueuePlan, ...]
    log_start: int
    log_end: int
    latest_ms: int | None = None


def check_log(check: LogCheck, engine: Engine, watcher: Watcher) -> LogResult:
    """Check the whole log.

    Raises:
        RmqtoolError: the engine or the scratch files failed; trouble with the log itself is a finding.
    """
    return _LogChecker(check, engine, watcher).run()


def _evidence(task: CheckTask) -> Sequence[StoreFile]:
    return (task.split.segment,)


_guarded_check = partial(run_guarded, check_split, _evidence, Structure.COMMITLOG)


class _LogChecker:
    """One check of a log, step by step."""

    def __init__(self, check: LogCheck, engine: Engine, watcher: Watcher) -> None:
        self._check = check
        self._engine = engine
        self._watcher = watcher
        self._findings = FindingLog(check.max_findings)
        # A file of which there are two counts once: reads are answered from the first.
        self._segments = [one for one in check.log if check.log.segment_at(one.start) is one]

    def run(self) -> LogResult:
        check = self._check
        until = find_log_end(self._segments).end if check.live else NEVER
        splits = plan_splits(self._segments, until, check.split_bytes)
        trails = self._follow(splits, self._scan(splits))
        last = max((number for number, trail in enumerate(trails) if trail.stretches), default=-1)
        if check.unclean and not check.live and last >= 0:
            trails[last] = self._without_torn_record(trails[last])
        stale, trails, plans, breaks = self._without_stale_tail(trails, last)
        self._report_records(trails)
        if not check.live:
            end = LogEnd(last, stale, check.unclean)
            self._findings.extend(damage_findings(trails, end))
        self._count_the_rest(trails)
        add_breaks(self._findings, check.log, breaks, _lost(trails))
        stops = [trail.records_stop for trail in trails]
        return LogResult(
            findings=self._findings,
            examined=Examined(
                commitlog_files=len(trails),
                records=sum(report.records for report in _reports(trails)),
                bytes=sum(split.stop - split.start for split in splits),
            ),
            blocks=_blocks(trails),
            plans=tuple(plans),
            log_start=check.log.start,
            log_end=max((stop for stop in stops if stop is not None), default=check.log.start),
            latest_ms=max((one.last_ms for trail in trails for one in trail.stretches), default=None),
        )

    def _task(self, split: Split, first_place: int | None = None) -> CheckTask:
        check = self._check
        return CheckTask(split, check.policy, check.staging, check.max_findings, first_place)

    def _scan(self, splits: Sequence[Split]) -> list[CheckReport | Finding]:
        done_bytes = [0]
        for split in splits:
            done_bytes.append(done_bytes[-1] + split.stop - split.start)
        self._watcher.stage("commit log", done_bytes[-1])
        tasks = [self._task(split) for split in splits]
        return self._engine.map(_guarded_check, tasks, lambda done: self._watcher.advance(done_bytes[done]))

    def _recheck(self, split: Split, place: int | None) -> CheckReport:
        return _required(self._engine.map(_guarded_check, [self._task(split, place)])[0])

    def _follow(
        self, splits: Sequence[Split], reports: Sequence[CheckReport | Finding]
    ) -> list[SegmentTrail]:
        """Put the splits together, file by file; a file that cannot be read has no records."""
        by_segment: dict[int, list[CheckReport | Finding]] = {one.start: [] for one in self._segments}
        for split, report in zip(splits, reports, strict=True):
            by_segment[split.segment.start].append(report)
        return [
            self._follow_segment(one, by_segment[one.start])
            for one in self._segments
            if by_segment[one.start]
        ]

    def _follow_segment(self, segment: Segment, reports: Iterable[CheckReport | Finding]) -> SegmentTrail:
        try:
            return follow_segment(segment, [_required(one) for one in reports], self._recheck)
        except _SegmentFailedError as failure:
            gone = self._check.live and failure.finding.code is IO_CHANGED  # retention is at work
            self._findings.add(
                replace(failure.finding, severity_override=Severity.WARNING) if gone else failure.finding
            )
            return SegmentTrail(segment, place=segment.start)

    def _without_torn_record(self, trail: SegmentTrail) -> SegmentTrail:
        """Leave out the log's last record if its body never reached the disk: the next start cuts it."""
        found = [
            finding
            for report in trail.reports
            for finding in report.findings
            if finding.code is CL_CRC and _stop_of(finding) == trail.records_stop
        ]
        if not found or found[0].physical_offset is None:
            return trail
        message = f"the log's last record is torn: {found[0].message}"
        self._findings.add(replace(found[0], severity_override=Severity.WARNING, message=message))
        return self._cut(trail, found[0].physical_offset)

    def _without_stale_tail(
        self, trails: list[SegmentTrail], last: int
    ) -> tuple[StaleTail | None, list[SegmentTrail], list[QueuePlan], Breaks]:
        """Leave out old records behind the log's end; return them, and what is left."""
        plans, breaks = self._continuity(trails)
        if last < 0 or self._check.live:
            return None, trails, plans, breaks
        for stale in stale_candidates(trails[last]):
            if stale.behind_damage or repeats_from(breaks, stale.start):
                kept = [*trails[:last], self._cut(trails[last], stale.start), *trails[last + 1 :]]
                return stale, kept, *self._continuity(kept)
        return None, trails, plans, breaks

    def _cut(self, trail: SegmentTrail, place: int) -> SegmentTrail:
        """Return a file's trail with the reports of records from ``place`` on read anew, without those."""
        reports = []
        for report in trail.reports:
            if report.first_place is not None and report.first_place < place:
                stop = min(report.split.stop, place)
                whole = stop == report.split.stop
                split = replace(report.split, stop=stop)
                reports.append(report if whole else self._recheck(split, report.first_place))
        return replace(without_tail(trail, place), reports=reports)

    def _continuity(self, trails: Sequence[SegmentTrail]) -> tuple[list[QueuePlan], Breaks]:
        check = self._check
        blocks = _blocks(trails)
        plans = plan_queues(blocks, check.policy)
        tasks = offset_tasks(
            plans,
            blocks,
            from_zero=check.log.start == 0,
            max_breaks=check.max_findings,
            tasks=_OFFSET_TASKS,
        )
        return plans, merge_breaks(self._engine.map(check_offsets, tasks) if tasks else [])

    def _report_records(self, trails: Sequence[SegmentTrail]) -> None:
        suspects: dict[tuple[bytes, int], int] = {}
        for trail in trails:
            self._findings.merge(_record_findings(trail, self._check.max_findings))
        for report in _reports(trails):
            for queue, place in report.suspects.items():
                suspects.setdefault(queue, place)
        for trail in trails:
            bad = joined(one for report in trail.reports for one in report.unreadable)
            self._findings.extend(unreadable_findings(trail.segment, bad, Structure.COMMITLOG))
            if trail.reports:
                self._findings.extend(changed_findings(trail.segment))
        self._findings.extend(suspect_findings(self._check.log, suspects))
        self._findings.extend(steps_back(trails))

    def _count_the_rest(self, trails: Sequence[SegmentTrail]) -> None:
        """Count what the splits had no room to tell apart."""
        for report in _reports(trails):
            file = report.split.segment.label
            damage = Finding(code=CL_BAD_MAGIC, file=file, message="more damage, only counted")
            self._findings.add(damage, count=report.more_damage)
            self._findings.add(Finding(code=CL_TS_BACK, file=file), count=report.more_steps)


class _SegmentFailedError(Exception):
    """A file of the log cannot be read; carries the finding that says so."""

    def __init__(self, finding: Finding) -> None:
        super().__init__(finding.message)
        self.finding = finding


def _required(report: CheckReport | Finding) -> CheckReport:
    if isinstance(report, Finding):
        raise _SegmentFailedError(report)
    return report


def _stop_of(finding: Finding) -> int:
    return (finding.physical_offset or 0) + (finding.length or 0)


def _reports(trails: Iterable[SegmentTrail]) -> Iterator[CheckReport]:
    for trail in trails:
        yield from trail.reports


def _blocks(trails: Iterable[SegmentTrail]) -> tuple[Block, ...]:
    return tuple(report.block for report in _reports(trails))


def _record_findings(trail: SegmentTrail, max_findings: int) -> FindingLog:
    """Return what the records of a file say.

    A broker deletes a property __CRC32# that a message brings along only if it appends its own
    (``CommitLog#asyncPutMessage``, 5.3.3): where most records have none, a wrong one may come from elsewhere.
    """
    findings = FindingLog(max_findings)
    for report in trail.reports:
        findings.merge(report.findings)
    sound = sum(report.sound_crcs for report in trail.reports)
    others = sum(report.records for report in trail.reports) - findings.counts.get(CL_PROP_CRC.code, 0)
    if 2 * sound < others:
        findings.soften(CL_PROP_CRC, Severity.WARNING)
    return findings


def _lost(trails: Iterable[SegmentTrail]) -> list[tuple[int, int]]:
    return [(damage.start, damage.stop) for trail in trails for damage in trail.damages]
