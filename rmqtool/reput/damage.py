"""Bytes that a broker skips or never reaches: their content, and the findings about them."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from rmqtool.findings import Finding, Severity, Structure, code_of, codes, counted
from rmqtool.formats.message import Outcome
from rmqtool.scan.classify import FoundEdge, classified, missing_blank
from rmqtool.scan.gap_walk import GapWalk, gap_of
from rmqtool.scan.log_pass import Split
from rmqtool.scan.records import Gap
from rmqtool.store.segments import Segment, finding_at

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from rmqtool.arrays import Bools, Int64s
    from rmqtool.engine import Engine
    from rmqtool.kernels.rows import MessageBatch
    from rmqtool.releases import RecordRules
    from rmqtool.reput.chain import ReputChain, Skip, SplitReport
    from rmqtool.reput.pipeline import ReputPlan, ReputResult


class InspectTask(NamedTuple):
    """A range of one segment to examine; picklable.

    Attributes:
        split: the range.
        due: physical offset before it, or its own, at which an examiner expects a record; a broker that
            damage led astray is somewhere inside of one.
        records: how records are read.
        stale_from: see ``GapWalk``.
    """

    split: Split
    due: int
    records: RecordRules
    stale_from: int | None = None


class GapContents(NamedTuple):
    """Content of a range.

    Attributes:
        start: physical offset of the range.
        gap: the gap that it begins in, up to the next intact record or the end of the file, even where that
            lies after the range; None if it begins in a record.
        records: intact records in it.
        record_bytes: their size.
    """

    start: int
    gap: Gap | None
    records: int
    record_bytes: int


def inspect_gaps(tasks: Sequence[InspectTask]) -> list[GapContents]:
    """Look for gaps and intact records in ranges."""
    gaps = []
    walk: GapWalk | None = None
    for task in tasks:
        if walk is None or walk.segment is not task.split.segment:  # kept, for ranges lie close together
            walk = GapWalk(task.split.segment, task.records, task.stale_from)
        gaps.append(_contents_of(task.split, task.due, walk))
    return gaps


def true_records(task: InspectTask) -> Iterator[Int64s]:
    """Yield the physical offsets of the intact records in a range."""
    split = task.split
    walk = GapWalk(split.segment, task.records, task.stale_from)
    for part in walk.parts(task.due, split.stop, split.segment.stop):
        if not isinstance(part, Gap):
            yield part.rows["log_offset"][_true(part, split)]


def _true(batch: MessageBatch, split: Split) -> Bools:
    log_offsets = batch.rows["log_offset"]
    return np.asarray((log_offsets == batch.rows["physical_offset"]) & (log_offsets >= split.start))


def _contents_of(split: Split, due: int, walk: GapWalk) -> GapContents:
    first: Gap | None = None
    records = record_bytes = 0
    for part in walk.parts(due, split.stop, split.segment.stop):
        if isinstance(part, Gap):
            gaps = [part]
        else:
            true = _true(part, split)
            records += int(true.sum())
            record_bytes += int(part.rows["total_size"][true].sum())
            gaps = [gap_of(row) for row in part.gaps[part.gaps["stop"] > split.start][:1]]
        for gap in gaps:
            if gap.start <= split.start < gap.stop:
                first = gap
    return GapContents(split.start, first, records, record_bytes)


@dataclass(frozen=True, slots=True)
class UnreachableRange:
    """Bytes of one file that the broker never comes to.

    Attributes:
        start: physical offset of the first of them.
        length: how many.
        segment: the file.
        stalled: whether the broker repeats the record at which its way ends; else files are missing there.
        records: intact records in them.
        record_bytes: their size.
    """

    start: int
    length: int
    segment: Segment
    stalled: bool
    records: int
    record_bytes: int

    @property
    def reason(self) -> str:
        """Say why the broker never comes here."""
        if self.stalled:
            return "after a record that the broker repeats for ever"
        return "after a part of the log that is missing"


def inspect_unreachable(plan: ReputPlan, result: ReputResult, engine: Engine) -> list[UnreachableRange]:
    """Examine the bytes after the end of the broker's walk, by file; none if it read the whole log."""
    tasks = unreachable_tasks(plan, result)
    gaps = engine.map(inspect_gaps, [[task] for task in tasks])
    return [
        UnreachableRange(
            task.split.start,
            task.split.stop - task.split.start,
            task.split.segment,
            result.chain.stalled,
            contents.records,
            contents.record_bytes,
        )
        for task, (contents,) in zip(tasks, gaps, strict=True)
        if contents.records
    ]


def unreachable_tasks(plan: ReputPlan, result: ReputResult) -> list[InspectTask]:
    """Return the tasks for the bytes after the end of the broker's walk, one a file."""
    stop = result.chain.stop
    if stop >= plan.until_offset:
        return []
    tasks = []
    for segment in plan.log:
        if segment.stop > stop and segment.start < plan.until_offset:
            start = max(segment.start, stop)
            split = Split(segment, start, min(segment.stop, plan.until_offset))
            tasks.append(InspectTask(split, start, plan.policy.release.records))
    return tasks


_MOST_ITEMS = 64
"""Groups of ranges that an engine is given."""

_REASONS = {
    Outcome.FILE_END: "a BLANK with good records after it",
    Outcome.BAD_MAGIC: "no record begins here",
    Outcome.BAD_LENGTH: "a length runs past the end of the file or of the record",
    Outcome.MISMATCH: "the lengths do not add up to TOTALSIZE",
    Outcome.BAD_NUMBER: "a property that must be a number is not one",
    Outcome.STOP: "jumped over after a record whose lengths do not add up",
}


@dataclass(frozen=True, slots=True)
class SkippedRange:
    """Bytes that are not dispatched, and their content.

    Attributes:
        skip: the bytes and why.
        segment: the file they lie in.
        gap: the gap that they begin with; None if that is a record, which the broker does not see.
        records: intact records that a salvage would keep.
        record_bytes: their size.
        damage: whether this is damage; False for the zeros and leftovers after the log's last record.
    """

    skip: Skip
    segment: Segment
    gap: Gap | None
    records: int
    record_bytes: int
    damage: bool

    @property
    def reason(self) -> str:
        """Say why the bytes were skipped."""
        return _REASONS[self.skip.reason]


def inspect_skips(
    plan: ReputPlan, result: ReputResult, engine: Engine, edge: FoundEdge
) -> list[SkippedRange]:
    """Examine all skipped bytes.

    A skip is damage if the broker dispatched a record after it, or an intact record lies in it or after it; a
    BLANK of the wrong length only if one lies in what it skips.
    """
    tasks = skip_tasks(plan, result, edge)
    skips = _skips(plan, result)
    contents = _inspect([task for tasks_of_skip in tasks for task in tasks_of_skip], engine)
    ranges: list[SkippedRange] = []
    records_after = 0
    for skip, tasks_of_skip in zip(reversed(skips), reversed(tasks), strict=True):
        gaps = [contents[task.split.start] for task in tasks_of_skip]
        segment = plan.log.segment_at(skip.log_offset)
        if segment is None:
            continue
        records = sum(gap.records for gap in gaps)
        records_after += records
        damage = skip.log_offset < result.chain.end or records_after > 0
        if skip.reason == Outcome.FILE_END:
            damage = records > 0
        record_bytes = sum(gap.record_bytes for gap in gaps)
        ranges.append(SkippedRange(skip, segment, gaps[0].gap, records, record_bytes, damage))
    return ranges[::-1]


def _skips(plan: ReputPlan, result: ReputResult) -> list[Skip]:
    return [skip for skip in result.chain.skips if skip.log_offset < plan.until_offset]


def skip_tasks(plan: ReputPlan, result: ReputResult, edge: FoundEdge) -> list[list[InspectTask]]:
    """Return the tasks for all skipped bytes, in log order."""
    skips = _skips(plan, result)
    before = [skips[0], *skips] if skips else []
    return [_tasks(plan, skip, runs, edge.stale_from) for skip, runs in zip(skips, before, strict=False)]


def _inspect(tasks: list[InspectTask], engine: Engine) -> dict[int, GapContents]:
    """Examine ranges by the group: a torn log has hundreds of thousands, too many for an engine's items."""
    size = -(-len(tasks) // _MOST_ITEMS) or 1
    groups = [tasks[first : first + size] for first in range(0, len(tasks), size)]
    return {gap.start: gap for group in engine.map(inspect_gaps, groups) for gap in group}


def _tasks(plan: ReputPlan, skip: Skip, before: Skip, stale_from: int | None) -> list[InspectTask]:
    """Cut a skip at the segments' ends; from the skip before it in the same file, the walk leads there."""
    tasks, stop = [], skip.log_offset + skip.length
    for segment in plan.log.between(skip.log_offset, stop):
        start = max(skip.log_offset, segment.start)
        leads = segment.start < before.log_offset + before.length
        due = min(start, max(before.log_offset, segment.start)) if leads else start
        if stale_from is not None and segment.start <= stale_from < due:
            due = stale_from
        split = Split(segment, start, min(stop, segment.stop))
        tasks.append(InspectTask(split, due, plan.policy.release.records, stale_from))
    return tasks


def log_findings(
    plan: ReputPlan, result: ReputResult, ranges: Iterable[SkippedRange], edge: FoundEdge
) -> Iterator[Finding]:
    """Yield the findings of the walk through the log, without those of the judge."""
    for skips in _by_gap(ranges):
        yield from _skip_findings(skips, edge)
    if result.chain.stalled:
        stop, what = result.chain.stop, "the broker repeats this record for ever"
        code, segment = code_of("LMQ-STALL"), plan.log.segment_at(stop)
        yield finding_at(segment, code, stop, what, structure_override=Structure.COMMITLOG)
    yield from _gap_finding(plan, result.chain)
    for report in result.chain.reports:
        segment = report.split.segment
        if report.outcome is Outcome.STOP and report.log_offset == segment.stop and report.records:
            yield missing_blank(segment)
    for report in result.chain.reports:
        yield from _report_findings(report)
    for (topic, queue_id), count in result.absurd_units.items():
        message = (
            f"{counted(count, 'record has', 'records have')} a queueOffset that is negative or has no byte"
            " address: units lie where the broker's arithmetic puts them, if anywhere"
        )
        yield Finding(code=code_of("CL-QOFF-RANGE"), topic=topic, queue_id=queue_id, message=message)


def counted_skips(chain: ReputChain) -> tuple[Finding, int]:
    """Return a finding for the skips that the chain only counted, and their number."""
    finding = Finding(
        code=codes.CL_HALF_RECORD,
        message="more damage, only counted",
        severity_override=Severity.ERROR,
    )
    return finding, chain.more_skips


def _by_gap(ranges: Iterable[SkippedRange]) -> Iterator[list[SkippedRange]]:
    """Add up the bytes that one gap made the broker skip, in it and in records after it."""
    skips: list[SkippedRange] = []
    for skipped in ranges:
        gap = skips[0].gap if skips else None
        if gap is not None and (skipped.gap is None or skipped.skip.log_offset < gap.stop):
            skips.append(skipped)
            continue
        if skips:
            yield skips
        skips = [skipped]
    if skips:
        yield skips


def _skip_findings(skips: list[SkippedRange], edge: FoundEdge) -> Iterator[Finding]:
    """Yield the findings at one place, each with the broker's reaction."""
    first = skips[0]
    segment, beside = first.segment, _beside(skips)
    if first.gap is None:  # led astray by damage that was only counted
        length = first.skip.length or None
        defects = [
            finding_at(segment, codes.CL_HALF_RECORD, first.skip.log_offset, first.reason, length=length)
        ]
    else:
        number = edge.segments.index(segment)
        defects = list(classified(first.gap, segment, number, edge))
    damage = any(skipped.damage for skipped in skips)
    for defect in defects:
        severity = Severity.ERROR if damage else defect.severity  # a broker's loss is an error
        text = f"{defect.message}; {beside}" if beside and defect is defects[0] else defect.message
        yield replace(defect, message=text, severity_override=severity)


def _beside(skips: list[SkippedRange]) -> str:
    """Return a sentence on the skipped bytes, and on their records that a salvage would keep."""
    if not any(skipped.damage for skipped in skips):
        return ""
    text = f"the broker skips {counted(sum(skipped.skip.length for skipped in skips), 'byte')}"
    if records := sum(skipped.records for skipped in skips):
        record_bytes = sum(skipped.record_bytes for skipped in skips)
        text += f", with {counted(records, 'good record')} ({record_bytes} bytes) in them"
    return text


def _gap_finding(plan: ReputPlan, chain: ReputChain) -> Iterator[Finding]:
    """Yield the gap at which the broker stops for good."""
    after = [segment for segment in plan.log if segment.start > chain.stop]
    if chain.stalled or not after or chain.stop >= plan.until_offset:
        return
    number = plan.log.segments.index(after[0])
    gap = FoundEdge(plan.log.segments, file_size=plan.file_size).missing_before(number)
    if gap is None:  # the file in front of it is shorter than it should be: a finding of its own
        return
    message = f"{counted(gap.length or 0, 'byte')} of the log missing: nothing after them is dispatched"
    expected, observed = gap.physical_offset, after[0].start
    yield replace(gap, position=None, expected=expected, observed=observed, message=message)


def _report_findings(report: SplitReport) -> Iterator[Finding]:
    segment = report.split.segment
    for bad in report.unreadable:
        yield Finding(
            code=code_of("IO-UNREADABLE"),
            file=segment.label,
            position=bad.position,
            length=bad.length,
            physical_offset=segment.start + bad.position,
            structure_override=Structure.COMMITLOG,
        )
    for topic, queue_id in report.unsafe:
        message = "the topic's name cannot be a directory: no consume queue for it"
        yield Finding(
            code=code_of("CL-TOPIC-NAME"), file=segment.label, topic=topic, queue_id=queue_id, message=message
        )
