"""Findings that more than one split shows: store times across them, ranges that windows met twice."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from rmqtool.check.log.record_crcs import most_have_none
from rmqtool.errors import EnvironmentFailureError
from rmqtool.findings import Finding, FindingLog, Severity, Structure
from rmqtool.findings.commitlog import CL_PROP_CRC
from rmqtool.findings.consumequeue import CQ_TYPE
from rmqtool.findings.places import IO_CHANGED
from rmqtool.findings.records import CL_TIME, CL_TS_BACK
from rmqtool.times import utc_text

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from rmqtool.check.log.check_split import CheckReport
    from rmqtool.check.log.record_checks import Ahead
    from rmqtool.check.log.record_runs import RecordRun
    from rmqtool.check.log.segment_scan import SegmentScan
    from rmqtool.io.reading import UnreadableRange
    from rmqtool.reput.queues import QueuePlan
    from rmqtool.reput.scan import SplitReport
    from rmqtool.store import Store
    from rmqtool.store.segments import Segment


def unlisted_batch_topics(store: Store, plans: Iterable[QueuePlan]) -> Iterator[Finding]:
    """Yield the topics whose records carry inner batches while no setting gives them batch queues.

    A 5.x broker goes by config/topics.json alone (``ConsumeQueueStore#findOrCreateConsumeQueue``).
    """
    known = store.settings.batch_topics
    for topic in sorted({plan.topic for plan in plans if plan.batch} - known if store.root else ()):
        entry = f'"{topic}" with the attribute queue.type=BatchCQ'
        yield Finding(
            code=CQ_TYPE,
            file="config/topics.json",
            topic=topic,
            expected="BatchCQ",
            message=f"topic {topic} has batch queues, as its records carry inner batches, and"
            " config/topics.json does not say so: a broker writes simple queues for it",
            remedy_override=f"Before the next start, put {entry} into config/topics.json; then rebuild the"
            " consume queues (rmqtool rebuild).",
        )


def record_findings(reports: Sequence[CheckReport | SplitReport], max_findings: int) -> FindingLog:
    """Return what the records of a file, or of a part of it, say."""
    findings = FindingLog(max_findings)
    for report in reports:
        findings.merge(report.findings)
    sound = sum(report.sound_crcs for report in reports)
    records = sum(report.records for report in reports)
    if most_have_none(records, sound, findings.counts.get(CL_PROP_CRC.code, 0)):
        findings.soften(CL_PROP_CRC, Severity.WARNING)
    return findings


def joined(ranges: Iterable[UnreadableRange]) -> list[UnreadableRange]:
    """Sort ranges and join those that touch or overlap: windows overlap, so they were met twice."""
    joined: list[UnreadableRange] = []
    for one in sorted(ranges):
        if joined and one.position <= joined[-1].stop:
            stop = max(one.stop, joined[-1].stop)
            joined[-1] = replace(joined[-1], length=stop - joined[-1].position)
        else:
            joined.append(one)
    return joined


def changed_findings(segment: Segment) -> Iterator[Finding]:
    """Yield a finding if a file has another size than when it was listed, or is gone."""
    try:
        size_bytes = segment.reader.size_bytes()
    except EnvironmentFailureError as failure:
        yield Finding(
            code=IO_CHANGED,
            file=segment.label,
            message=str(failure),
            structure_override=Structure.COMMITLOG,
        )
        return
    if size_bytes != segment.size_bytes:
        yield Finding(code=IO_CHANGED, file=segment.label, expected=segment.size_bytes, observed=size_bytes)


def steps_back(scans: Iterable[SegmentScan]) -> Iterator[Finding]:
    """Yield a finding wherever a record was stored before the one in front of it."""
    before: RecordRun | None = None
    for scan in scans:
        for run in scan.runs:
            if before is not None and run.first_ms < before.last_ms:
                yield _step_back(scan.segment, before, run)
            before = run


_SOME = 3
"""So many records and more are a clock's; one alone is rather damaged."""


def clocks_apart(found: Sequence[Ahead]) -> Iterator[Finding]:
    """Yield a finding if messages were born after they were stored."""
    records = sum(one.records for one in found)
    if records >= _SOME:
        most = max(one.most_ms for one in found)
        yield Finding(
            code=CL_TIME,
            message=f"{records:,} messages were born up to {most / 1000:,.0f} s after they were stored:"
            " clocks of senders are ahead of the broker's, or its own was set back",
            remedy_override="Set the clocks of senders and broker by NTP.",
        )


def _step_back(segment: Segment, before: RecordRun, run: RecordRun) -> Finding:
    return Finding(
        code=CL_TS_BACK,
        file=segment.label,
        position=run.start - segment.start,
        physical_offset=run.start,
        expected=before.last_ms,
        observed=run.first_ms,
        message=f"stored at {utc_text(run.first_ms)}, {before.last_ms - run.first_ms} ms before the last",
    )
