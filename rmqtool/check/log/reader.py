"""The scans of a log: its splits read by an engine, put together, read again where that is needed."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from rmqtool.check.guard import run_guarded
from rmqtool.check.log.census import period_of
from rmqtool.check.log.check_split import CheckReport, CheckTask, check_split
from rmqtool.check.log.segment_scan import SegmentScan, stitch_segment
from rmqtool.check.log.stale_tail import without_tail
from rmqtool.dispatch.policy import NEVER
from rmqtool.engine import MapInterruptedError
from rmqtool.findings import Finding, Severity, Structure
from rmqtool.findings.places import IO_CHANGED
from rmqtool.scan.log_edge import FoundEdge
from rmqtool.scan.log_end import find_log_end
from rmqtool.scan.splits import Split, plan_splits

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from rmqtool.check.log.model import LogCheck
    from rmqtool.check.log.segment_scan import Recheck
    from rmqtool.engine import Engine
    from rmqtool.findings import FindingLog
    from rmqtool.reput.pipeline import Watcher
    from rmqtool.store.segments import Segment, StoreFile

SplitOutcome = CheckReport | Finding
"""Of a split: what is in it, or why that cannot be read."""


def _evidence(task: CheckTask) -> Sequence[StoreFile]:
    return (task.split.segment,)


_guarded_check = partial(run_guarded, check_split, _evidence, Structure.COMMITLOG)


class _SegmentFailedError(Exception):
    """A file of the log cannot be read; carries the finding that says so."""

    def __init__(self, finding: Finding) -> None:
        super().__init__(finding.message)
        self.finding = finding


class LogReader:
    """Reads the splits of one log.

    Args:
        check: what to check.
        engine: runs the tasks.

    Attributes:
        period: of the census, if a picture is asked.
        splits: of the log, in its order.
        outcomes: of the first splits, in their order: of all of them, unless reading was interrupted.
    """

    def __init__(self, check: LogCheck, engine: Engine) -> None:
        self._check = check
        self._engine = engine
        # A file of which there are two counts once: reads are answered from the first.
        self._segments = [one for one in check.log if check.log.segment_at(one.start) is one]
        self._edge = FoundEdge(self._segments, check.unclean, page_writer=check.page_writer)
        self.period = period_of(self._segments, self._edge) if check.pictured else None
        until = find_log_end(self._edge).end if check.live else NEVER
        self.splits = plan_splits(self._segments, until, check.split_bytes)
        self.outcomes: list[SplitOutcome] = []

    def read(self, watcher: Watcher) -> None:
        """Read all splits.

        Raises:
            MapInterruptedError: Ctrl-C; ``outcomes`` has what was read in front of the first gap.
        """
        done_bytes = [0]
        for split in self.splits:
            done_bytes.append(done_bytes[-1] + split.stop - split.start)
        watcher.stage("commit log", done_bytes[-1])
        tasks = [self._task(split) for split in self.splits]
        try:
            self.outcomes = self._engine.map(
                _guarded_check, tasks, lambda done: watcher.advance(done_bytes[done])
            )
        except MapInterruptedError as stop:
            while len(self.outcomes) in stop.results:
                self.outcomes.append(stop.results[len(self.outcomes)])
            raise

    @property
    def unknown_batch_topics(self) -> frozenset[str]:
        """Return topics that records prove to have batch queues though the policy does not know it."""
        found = (one.batch_topics for one in self.outcomes if isinstance(one, CheckReport))
        return frozenset().union(*found)

    @property
    def stale_from(self) -> int | None:
        """Return where copies of older records begin after the log's end; None if none do."""
        return self._edge.stale_from

    @property
    def bytes_read(self) -> int:
        """Return the bytes of the splits that were read."""
        return sum(split.stop - split.start for split in self.splits[: len(self.outcomes)])

    def follow(self, findings: FindingLog, reread: Recheck | None = None) -> Iterator[SegmentScan]:
        """Put the splits together, file by file; a file that cannot be read has no records.

        Args:
            findings: are told of such files.
            reread: reads a split again from a given physical offset on; the engine does it when None.
        """
        outcomes: dict[int, list[SplitOutcome]] = {one.start: [] for one in self._segments}
        for split, outcome in zip(self.splits, self.outcomes, strict=False):
            outcomes[split.segment.start].append(outcome)
        for segment in self._segments:
            if outcomes[segment.start]:
                yield self._follow(segment, outcomes[segment.start], findings, reread or self._reread)

    def _follow(
        self, segment: Segment, outcomes: Sequence[SplitOutcome], findings: FindingLog, reread: Recheck
    ) -> SegmentScan:
        try:
            return stitch_segment(segment, [_required(one) for one in outcomes], reread)
        except _SegmentFailedError as failure:
            gone = self._check.live and failure.finding.code is IO_CHANGED  # retention is at work
            findings.add(
                replace(failure.finding, severity_override=Severity.WARNING) if gone else failure.finding
            )
            return SegmentScan(segment, log_offset=segment.start)

    def cut(self, scan: SegmentScan, log_offset: int) -> SegmentScan:
        """Return a file's scan with reports of records from ``log_offset`` on read anew, without those."""
        reports = []
        for report in scan.reports:
            if report.first_log_offset is not None and report.first_log_offset < log_offset:
                stop = min(report.split.stop, log_offset)
                whole = stop == report.split.stop
                split = replace(report.split, stop=stop)
                reports.append(report if whole else self._reread(split, report.first_log_offset))
        return replace(without_tail(scan, log_offset), reports=reports)

    def _task(self, split: Split, first_log_offset: int | None = None) -> CheckTask:
        check = self._check
        transactions = check.half_offsets is not None
        kept = check.max_findings
        return CheckTask(
            *(split, check.policy, check.staging, kept, first_log_offset, transactions),
            *(self.stale_from, self.period),
        )

    def _reread(self, split: Split, log_offset: int | None) -> CheckReport:
        return _required(self._engine.map(_guarded_check, [self._task(split, log_offset)])[0])


def _required(outcome: SplitOutcome) -> CheckReport:
    """Return the report of a split.

    Raises:
        _SegmentFailedError: there is none.
    """
    if isinstance(outcome, Finding):
        raise _SegmentFailedError(outcome)
    return outcome
