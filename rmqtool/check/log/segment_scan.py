"""Put the checked splits of a file together: its records and gaps, the same however the log was cut."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from rmqtool.check.log.record_runs import RecordRun
from rmqtool.findings import Severity
from rmqtool.findings.commitlog import CL_CRC
from rmqtool.scan.classify import TORN, TORN_REMEDY
from rmqtool.scan.gap_walk import joined_gap
from rmqtool.scan.gaps import Gap, Outcome
from rmqtool.scan.log_pass import stitch

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from rmqtool.check.log.check_split import CheckReport
    from rmqtool.findings import Finding
    from rmqtool.scan.log_pass import Split
    from rmqtool.store.segments import Segment

    Recheck = Callable[[Split, int], CheckReport]


@dataclass
class SegmentScan:
    """What is in one file of the log.

    Attributes:
        segment: the file.
        reports: the splits that count.
        parts: runs and gaps in log order, without the splits' seams.
        end: STOP: records up to the file's end, or to where reading was to end; BLANK; else a gap.
        log_offset: physical offset of that end; of a BLANK, its own.
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
        """Whether something lies after the BLANK."""
        return self.end == Outcome.BLANK and self.reports[-1].ghosts

    @property
    def records_stop(self) -> int | None:
        """Return the physical offset after the last record; None if there is none."""
        runs = self.runs
        return runs[-1].stop if runs else None


def stitch_segment(segment: Segment, reports: Sequence[CheckReport], recheck: Recheck) -> SegmentScan:
    """Put the splits of one file together.

    Args:
        segment: the file.
        reports: of its splits, in log order.
        recheck: reads a split again from a given physical offset on.
    """
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
    if parts and scan.parts and _continues(scan.parts[-1], parts[0]):
        scan.parts[-1] = _joined(scan.parts[-1], parts[0])
        parts = parts[1:]
    scan.parts += parts


def _continues(before: RecordRun | Gap, after: RecordRun | Gap) -> bool:
    return (
        isinstance(before, RecordRun)
        and isinstance(after, RecordRun)
        and before.stop == after.start
        and before.last_ms <= after.first_ms
    )


def _joined(before: RecordRun | Gap, after: RecordRun | Gap) -> RecordRun:
    if not isinstance(before, RecordRun) or not isinstance(after, RecordRun):
        raise TypeError("only runs are joined")
    return RecordRun(before.start, after.stop, before.records + after.records, before.first_ms, after.last_ms)


def _join_gap(scan: SegmentScan, report: CheckReport) -> None:
    """Go on after a gap that reached the split's start: it ends at the split's first true record."""
    stop = report.split.stop if report.first_log_offset is None else report.first_log_offset
    last = scan.parts[-1] if scan.parts else None
    if isinstance(last, Gap) and last.stop == report.split.start:
        scan.parts[-1] = joined_gap(scan.segment, last, stop)
    scan.log_offset = stop
    if report.first_log_offset is not None:
        _take(scan, report)
    else:
        scan.reports.append(report)  # without records, but with what it could not read


def torn_record(scan: SegmentScan) -> Finding | None:
    """Return the finding about the last record of a file, if its body is not what its checksum says."""
    found = (
        finding
        for report in scan.reports
        for finding in report.findings
        if finding.code is CL_CRC and stop_of(finding) == scan.records_stop
    )
    return next(found, None)


def as_torn(finding: Finding) -> Finding:
    """Return the finding about the log's last record, whose body never reached the disk, as a warning."""
    message = f"{TORN}: {finding.message}"
    return replace(finding, severity_override=Severity.WARNING, remedy_override=TORN_REMEDY, message=message)


def stop_of(finding: Finding) -> int:
    """Return the physical offset after the record that a finding is about."""
    return (finding.physical_offset or 0) + (finding.length or 0)
