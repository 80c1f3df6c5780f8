"""The pass of a check over a log: its splits put together file by file, and read again where that is needed.

Of an interrupted pass only that is said which the whole log would not take back: what looks like damage may
lie after the end of the log, and the last records may be torn ones, or old ones that a truncation left.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from rmqtool.check.log.census import period_of
from rmqtool.check.log.check_split import CheckJob, CheckReport
from rmqtool.check.log.findings import JudgedEnd, damage_findings, record_findings, torn_record
from rmqtool.check.log.segment_scan import (
    SegmentScan,
    stale_candidates,
    stitch_segment,
    without_tail,
)
from rmqtool.check.model import CheckInterruptedError, Examined, run_guarded
from rmqtool.dispatch.policy import NEVER
from rmqtool.findings import Finding, FindingLog, Severity, Structure
from rmqtool.findings.codes import IO_CHANGED
from rmqtool.scan.classify import FoundEdge
from rmqtool.scan.log_pass import LogPass, Split, SplitTask, plan_splits, read_split
from rmqtool.scan.record_walk import find_log_end

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from rmqtool.check.log.checks import LogCheck
    from rmqtool.check.log.segment_scan import Recheck
    from rmqtool.engine import Engine
    from rmqtool.progress import Progress
    from rmqtool.store.segments import StoreFile

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


class LogReader:
    """Reads the splits of one log.

    Attributes:
        edge: of the log.
        period: of the census, if a picture is asked.
    """

    def __init__(self, check: LogCheck, engine: Engine) -> None:
        self._check = check
        # A file of which there are two counts once: reads are answered from the first.
        segments = [one for one in check.log if check.log.segment_at(one.start) is one]
        self.edge = FoundEdge(segments, check.unclean, page_writer=check.page_writer)
        self.period = period_of(segments, self.edge) if check.pictured else None
        job = CheckJob(
            check.policy,
            check.staging,
            check.max_findings,
            transactions=check.half_offsets is not None,
            stale_from=self.edge.stale_from,
            period=self.period,
        )
        until = find_log_end(self.edge).end if check.live else NEVER
        splits = plan_splits(segments, until, check.split_bytes)
        guarded = partial(run_guarded, read_split, _evidence, Structure.COMMITLOG)
        self._pass: LogPass[CheckJob, SplitOutcome] = LogPass(engine, job, splits, guarded)

    @property
    def bytes_read(self) -> int:
        """Return the bytes of the splits that were read."""
        return self._pass.bytes_read

    def read(self, progress: Progress) -> LogCheck:
        """Read all splits; return the check with the policy that the records show to be right."""
        self._pass.run(progress, "commit log")
        return replace(self._check, policy=self._pass.job.policy)

    def scans(self, findings: FindingLog, recheck: Recheck | None = None) -> Iterator[SegmentScan]:
        """Put the splits together, file by file; a file that cannot be read has no records.

        Args:
            findings: get those about such files.
            recheck: reads a split again from a given physical offset on; the engine does it when None.
        """
        for segment, outcomes in self._pass.by_file():
            try:
                reports = [_required(one) for one in outcomes]
                yield stitch_segment(segment, reports, recheck or self._recheck)
            except _SegmentFailedError as failure:
                found = failure.finding
                if self._check.live and found.code is IO_CHANGED:  # retention is at work
                    found = replace(found, severity_override=Severity.WARNING)
                findings.add(found)
                yield SegmentScan(segment, log_offset=segment.start)

    def cut(self, scan: SegmentScan, log_offset: int) -> SegmentScan:
        """Return a file's scan with reports of records from ``log_offset`` on read anew, without those."""
        reports = []
        for report in scan.reports:
            if report.first_log_offset is not None and report.first_log_offset < log_offset:
                stop = min(report.split.stop, log_offset)
                whole = stop == report.split.stop
                split = replace(report.split, stop=stop)
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
            findings.merge(record_findings(reports, most))
        if not self._check.live:
            findings.extend(
                damage_findings(scans[: max(last, 0)], JudgedEnd(last, stale=None, unclean=False))
            )
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
    torn = torn_record(scan.findings, scan.records_stop)
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
