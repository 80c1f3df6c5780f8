"""A record at the log's end whose body never reached the disk."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rmqtool.findings.commitlog import CL_CRC

if TYPE_CHECKING:
    from rmqtool.check.log.segment_scan import SegmentTrail
    from rmqtool.findings import Finding


def torn_record(trail: SegmentTrail) -> Finding | None:
    """Return the finding about the last record of a file, if its body is not what its checksum says."""
    found = (
        finding
        for report in trail.reports
        for finding in report.findings
        if finding.code is CL_CRC and _stop_of(finding) == trail.records_stop
    )
    return next(found, None)


def _stop_of(finding: Finding) -> int:
    return (finding.physical_offset or 0) + (finding.length or 0)
