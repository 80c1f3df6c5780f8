"""What an interrupted check of a log can say for sure.

Nothing may be said here that the whole log would take back: what looks like damage may lie after the end of
the log, and the last records that were met may be torn ones, or old ones that a truncation left.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from rmqtool.check.log.damage import LogEnd, damage_findings
from rmqtool.check.log.findings import record_findings
from rmqtool.check.log.segment_scan import torn_record
from rmqtool.check.log.stale_tail import stale_candidates
from rmqtool.check.model import CheckInterruptedError, Examined
from rmqtool.dispatch.policy import NEVER
from rmqtool.findings import FindingLog

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rmqtool.check.log.check_split import CheckReport
    from rmqtool.check.log.model import LogCheck
    from rmqtool.check.log.reader import LogReader
    from rmqtool.check.log.segment_scan import SegmentScan
    from rmqtool.scan.splits import Split


def log_so_far(reader: LogReader, check: LogCheck) -> CheckInterruptedError:
    """Return what is known of the log, as the error that carries it.

    Args:
        reader: has the splits that were read.
        check: what was asked.
    """
    findings = FindingLog(check.max_findings)
    scans = list(_scans(reader, findings))
    last = max((number for number, scan in enumerate(scans) if scan.runs), default=-1)
    for number, scan in enumerate(scans[: last + 1]):
        reports = scan.reports if number < last else list(_sure_reports(scan))
        findings.merge(record_findings(reports, check.max_findings))
    if not check.live:
        findings.extend(damage_findings(scans[: max(last, 0)], LogEnd(last, stale=None, unclean=False)))
    records = sum(report.records for scan in scans for report in scan.reports)
    examined = Examined(commitlog_files=len(scans), records=records, bytes=reader.bytes_read)
    return CheckInterruptedError(findings, examined)


class _RereadError(Exception):
    """A split would have to be read again, for which there is no time now."""


def _no_reread(split: Split, _log_offset: int) -> CheckReport:
    raise _RereadError(f"{split.segment.label} from {split.start} on")


def _scans(reader: LogReader, findings: FindingLog) -> Iterator[SegmentScan]:
    """Yield the scans of the files whose splits fit, up to the first file where they do not."""
    scans = reader.follow(findings, _no_reread)
    while True:
        try:
            yield next(scans)
        except (StopIteration, _RereadError):
            return


def _sure_reports(scan: SegmentScan) -> Iterator[CheckReport]:
    """Yield the reports of a file after which nothing is known, as far as no end of the log can be."""
    sure = min((stale.start for stale in stale_candidates(scan)), default=NEVER)
    torn = torn_record(scan)
    if torn is not None and torn.physical_offset is not None:
        sure = min(sure, torn.physical_offset)
    for report in scan.reports:
        if report.split.stop > sure:
            return
        yield report
