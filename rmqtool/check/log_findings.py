"""Findings about the log: its framing, store times, names and ids of queues, records that units contradict.

A record's properties may have changed since its dispatch: unit and index item still have the old ones. Then
the log is damaged, not its derived files (``Record.change``).
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import replace
from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple

from rmqtool.errors import EnvironmentFailureError
from rmqtool.findings import Finding, FindingCode, FindingLog, Severity, Structure, codes, counted
from rmqtool.formats.message import Outcome
from rmqtool.javacompat import decode_utf8
from rmqtool.scan.classify import TORN, TORN_REMEDY, classified, ghosts, missing_blank, stop_of
from rmqtool.scan.record_checks import Ahead, most_have_none
from rmqtool.scan.records import PropertyWitness, Record, record_at
from rmqtool.store.broker_json import ConfigSource
from rmqtool.store.names import HIGHEST_QUEUE_ID, topic_problem
from rmqtool.store.segments import FileQueue, Segment, finding_at
from rmqtool.times import utc_text
from rmqtool.topics import SCHEDULE_TOPIC

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

    from rmqtool.check.splits import CheckReport, RecordRun, SegmentScan, StaleTail
    from rmqtool.io.location import UnreadableRange
    from rmqtool.reput.chain import SplitReport
    from rmqtool.reput.queues import QueuePlan
    from rmqtool.store import Store
    from rmqtool.store.settings import Settings


def illegal_queue_findings(
    log: FileQueue, illegal_queues: Mapping[tuple[bytes, int], int]
) -> Iterator[Finding]:
    """Yield a finding for each illegal topic, and for each illegal queue id of a topic."""
    reported: set[bytes] = set()
    for (raw_topic, queue_id), log_offset in illegal_queues.items():
        problems: list[tuple[FindingCode, str, Severity | None]] = []
        problem = topic_problem(raw_topic)
        if problem is not None and raw_topic not in reported:
            reported.add(raw_topic)
            problems.append((codes.CL_TOPIC_NAME, *problem))
        if not 0 <= queue_id <= HIGHEST_QUEUE_ID:
            problems.append((codes.CL_QUEUE_ID, f"queue id {queue_id}", None))
        for code, message, severity in problems:
            yield finding_at(
                log.segment_at(log_offset),
                code,
                log_offset,
                message,
                topic=decode_utf8(raw_topic),
                queue_id=queue_id,
                severity_override=severity,
            )


def unlisted_batch_topics(store: Store, plans: Iterable[QueuePlan]) -> Iterator[Finding]:
    """Yield the topics whose records carry inner batches while no setting gives them batch queues.

    A 5.x broker goes by config/topics.json alone (``ConsumeQueueStore#findOrCreateConsumeQueue``).
    """
    unlisted = {plan.topic for plan in plans if plan.batch} - store.settings.batch_topics
    if not unlisted or store.root is None or ConfigSource(store.root).why_denied("topics.json"):
        return
    for topic in sorted(unlisted):
        entry = f'"{topic}" with the attribute queue.type=BatchCQ'
        yield Finding(
            code=codes.CQ_TYPE,
            file="config/topics.json",
            topic=topic,
            expected="BatchCQ",
            message=f"topic {topic} has batch queues, as its records hold inner batches, and"
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
    if most_have_none(records, sound, findings.counts.get(codes.CL_PROP_CRC.code, 0)):
        findings.soften(codes.CL_PROP_CRC, Severity.WARNING)
    return findings


def fold_without_sum(findings: FindingLog, settings: Settings) -> None:
    """Make one finding of all records without checksum: a note where no recovery checks it."""
    code = codes.CL_NO_CRC
    first = next((finding for finding in findings if finding.code is code), None)
    if first is not None:
        number = findings.counts[code.code]
        records = counted(number, "record has", "records have")
        message = f"{records} BODYCRC 0 with a body, from here on; all else holds"
        is_read = settings["checkCRCOnRecover"].value is not False
        severity = None if is_read else Severity.INFO
        finding = replace(first, message=message, expected=None, observed=number, severity_override=severity)
        findings.fold(code.code, finding)


def torn_record(findings: Iterable[Finding], stop: int | None) -> Finding | None:
    """Return the finding that the record which ends at ``stop`` has another body than its checksum says."""
    return next(
        (finding for finding in findings if finding.code is codes.CL_CRC and stop_of(finding) == stop), None
    )


def as_torn(finding: Finding) -> Finding:
    """Return the finding about the log's last record, whose body never reached the disk, as a warning."""
    message = f"{TORN}: {finding.message}"
    return replace(finding, severity_override=Severity.WARNING, remedy_override=TORN_REMEDY, message=message)


def joined(ranges: Iterable[UnreadableRange]) -> list[UnreadableRange]:
    """Sort ranges and join those that touch or overlap: windows overlap, so they were met twice."""
    joined: list[UnreadableRange] = []
    for range_ in sorted(ranges):
        if joined and range_.position <= joined[-1].stop:
            stop = max(range_.stop, joined[-1].stop)
            joined[-1] = joined[-1]._replace(length=stop - joined[-1].position)
        else:
            joined.append(range_)
    return joined


def changed_findings(segment: Segment) -> Iterator[Finding]:
    """Yield a finding if a file has another size than when it was listed, or is missing."""
    try:
        size_bytes = segment.current_size() - segment.excess_bytes
    except EnvironmentFailureError as failure:
        yield Finding(
            code=codes.IO_CHANGED,
            file=segment.label,
            message=str(failure),
            structure_override=Structure.COMMITLOG,
        )
        return
    if size_bytes != segment.size_bytes:
        yield Finding(
            code=codes.IO_CHANGED, file=segment.label, expected=segment.size_bytes, observed=size_bytes
        )


def steps_back(scans: Iterable[SegmentScan]) -> Iterator[tuple[Segment, RecordRun, RecordRun]]:
    """Yield the run that begins before the one in front of it ends in time, after that one, with its file."""
    before: RecordRun | None = None
    for scan in scans:
        for run in scan.runs:
            if before is not None and run.first_ms < before.last_ms:
                yield scan.segment, before, run
            before = run


def clock_findings(scans: Iterable[SegmentScan]) -> Iterator[Finding]:
    """Yield a finding wherever a record was stored before the one in front of it."""
    for segment, before, run in steps_back(scans):
        back_ms = before.last_ms - run.first_ms
        message = f"stored at {utc_text(run.first_ms)}, {back_ms} ms before the last"
        times = {"expected": before.last_ms, "observed": run.first_ms}
        yield finding_at(segment, codes.CL_TS_BACK, run.start, message, **times)


_SOME = 3
"""So many records and more are a clock's; one alone is rather damaged."""


def clocks_apart(ahead: Sequence[Ahead]) -> Iterator[Finding]:
    """Yield a finding if messages were born after they were stored."""
    records = sum(group.records for group in ahead)
    if records >= _SOME:
        most = max(group.most_ms for group in ahead)
        yield Finding(
            code=codes.CL_TIME,
            message=f"{records:,} messages were born up to {most / 1000:,.0f} s after they were stored:"
            " clocks of senders are ahead of the broker's, or its own was set back",
            remedy_override="Set the clocks of senders and broker by NTP.",
        )


class JudgedEnd(NamedTuple):
    """End of the log, and its certainty: a ``LogEdge`` of a log that was read.

    Attributes:
        last: number of the last file with records; -1 if there is none.
        stale: old records after the end, which are in no scan; None if there are none.
        unclean: whether a torn record at the end is what the next start expects: ``abort`` is there.
        page_writer: see ``LogEdge``.
        stale_from: see ``LogEdge``.
    """

    last: int
    stale: StaleTail | None
    unclean: bool
    page_writer: str = ""
    stale_from: int | None = None


def damage_findings(scans: Sequence[SegmentScan], end: JudgedEnd) -> Iterator[Finding]:
    """Yield the findings with the framing of the log, in log order."""
    for number, scan in enumerate(scans):
        yield from _damage_of(scan, number, end)
    if end.stale is not None:
        start, length = end.stale.start, end.stale.stop - end.stale.start
        message = (
            f"{counted(end.stale.records, 'record')} after the log's end, older than its last one: left by a"
            " truncation, and a start that reaches them accepts them again"
        )
        yield finding_at(scans[end.last].segment, codes.CL_TAIL_DIRTY, start, message, length=length)


def _damage_of(scan: SegmentScan, number: int, end: JudgedEnd) -> Iterator[Finding]:
    segment = scan.segment
    for gap in scan.gaps:
        yield from classified(gap, segment, number, end)
    if number > end.last:
        return
    if scan.ghosts:
        yield ghosts(segment, scan.log_offset)
    if scan.end is Outcome.STOP and scan.log_offset == segment.stop and scan.parts:
        yield missing_blank(segment)


def tell_contradicted(
    log: FileQueue,
    findings: FindingLog,
    known: Mapping[int, Collection[PropertyWitness]] = MappingProxyType({}),
) -> None:
    """Add an error of the log for each of those records.

    ``findings`` are those of queues, index and records; ``known`` are further witnesses by physical offset.
    """
    odd = {finding.physical_offset: finding for finding in findings if finding.code is codes.CL_PROPERTIES}
    witnesses = defaultdict(set, {place: set(against) for place, against in known.items()})
    for finding in findings:
        witness = _witness(finding)
        if witness is not None and finding.physical_offset is not None:
            witnesses[finding.physical_offset].add(witness)
    for place, against in sorted(witnesses.items()):
        record = record_at(log, place)
        if record is None:
            continue
        reason = record.change(against)
        if not reason:
            continue
        message = f"the record's properties changed after it was stored: {reason}"
        told = odd.get(place)
        if told is not None:
            error = replace(told, message=message, severity_override=Severity.ERROR, remedy_override=_REMEDY)
            findings.exchange(told, error)
        else:
            findings.add(_error(log, record, message))
        for item in [finding for finding in findings if finding.physical_offset == place]:
            if item.message.endswith(LEFT_OVER):  # it is the same record, changed
                findings.exchange(item, replace(item, message=item.message.removesuffix(LEFT_OVER)))


OTHER_KEY = "has a hash that no key of its record has"
NO_KEYS = "points at an offset where no record with keys begins"
OTHER_TAGS = "has tagsCode"
LEFT_OVER = ": the log had another record there, which a start or damage has cut"
"""Parts of findings about items and units that contradict the properties of their record."""

_REMEDY = (
    "Compare with a replica. Keep the present queue and index: only they still show the record's tags and "
    "keys, and a rebuild would use the damaged properties."
)


def _witness(finding: Finding) -> PropertyWitness | None:
    if finding.code is codes.CL_PROPERTIES:
        return PropertyWitness.FORM
    if finding.code is codes.IX_WRONG and OTHER_KEY in finding.message:
        return PropertyWitness.ITEM
    if finding.code is codes.IX_DANGLING and NO_KEYS in finding.message:
        return PropertyWitness.ITEM  # a record may lie there all the same, without a key
    if (
        finding.code is codes.CQ_SIZE_TAG
        and OTHER_TAGS in finding.message
        and finding.topic != SCHEDULE_TOPIC
    ):
        return PropertyWitness.UNIT
    return None


def _error(log: FileQueue, record: Record, message: str) -> Finding:
    return finding_at(
        log.segment_at(record.physical_offset),
        codes.CL_PROPERTIES,
        record.physical_offset,
        message,
        length=len(record.raw),
        topic=record.topic,
        queue_id=record.head.queue_id,
        queue_offset=record.head.queue_offset,
        severity_override=Severity.ERROR,
        remedy_override=_REMEDY,
    )
