"""A record at the log's end whose body never reached the disk."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rmqtool.findings.commitlog import CL_CRC

if TYPE_CHECKING:
    from rmqtool.check.log.segment_scan import SegmentScan
    from rmqtool.findings import Finding


def torn_record(scan: SegmentScan) -> Finding | None:
    """Return the finding about the last record of a file, if its body is not what its checksum says."""
    found = (
        finding
        for report in scan.reports
        for finding in report.findings
        if finding.code is CL_CRC and _stop_of(finding) == scan.records_stop
    )
    return next(found, None)


def _stop_of(finding: Finding) -> int:
    return (finding.physical_offset or 0) + (finding.length or 0)
