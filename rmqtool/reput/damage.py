"""From the chain's skips to findings: what was damage, and what is just the log's end."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from rmqtool.findings import Finding, Severity, Structure, code_of
from rmqtool.findings.wording import counted
from rmqtool.reput.survey import Survey, SurveyTask, survey_ranges
from rmqtool.scan.rows import Outcome

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from rmqtool.engine import Engine
    from rmqtool.reput.chain import Chain, Skip
    from rmqtool.reput.pipeline import ReputPlan, ReputResult
    from rmqtool.reput.scan import SplitReport
    from rmqtool.store.segments import FileQueue, Segment

_MOST_ITEMS = 64
"""Groups of ranges that an engine is given."""

_CODES = {
    Outcome.BLANK: "CL-BLANK-LEN",
    Outcome.BAD_MAGIC: "CL-BAD-MAGIC",
    Outcome.BAD_LENGTH: "CL-HALF-RECORD",
    Outcome.MISMATCH: "CL-HALF-RECORD",
    Outcome.BAD_NUMBER: "CL-NUMBER",
    Outcome.STOP: "CL-HALF-RECORD",
}
_REASONS = {
    Outcome.BLANK: "a BLANK with good records behind it",
    Outcome.BAD_MAGIC: "no record begins here",
    Outcome.BAD_LENGTH: "a length runs past the end of the file or of the record",
    Outcome.MISMATCH: "the lengths do not add up to TOTALSIZE",
    Outcome.BAD_NUMBER: "a property that must be a number is not one",
    Outcome.STOP: "jumped over after a record whose lengths do not add up",
}


@dataclass(frozen=True, slots=True)
class SkippedRange:
    """Bytes that are not dispatched, and what is in them.

    Attributes:
        skip: the bytes and why.
        segment: the file they lie in.
        records: true records that a salvage would keep.
        record_bytes: their size.
        damage: whether this is damage; False for the zeros and leftovers behind the log's last record.
        zero: whether the range begins with zeros (damage) or is nothing else (the log's end).
    """

    skip: Skip
    segment: Segment
    records: int
    record_bytes: int
    damage: bool
    zero: bool

    @property
    def reason(self) -> str:
        """Say why the bytes were skipped."""
        return _REASONS[self.skip.reason]


def survey_skips(plan: ReputPlan, result: ReputResult, engine: Engine) -> list[SkippedRange]:
    """Look at everything that was skipped.

    A skip is damage if the broker dispatched a record behind it, or a true record lies in it or behind it; a
    BLANK of the wrong length only if one lies in what it skips.
    """
    skips = [skip for skip in result.chain.skips if skip.place < plan.until_offset]
    tasks = [_tasks(plan, skip) for skip in skips]
    surveys = _survey([task for tasks_of_skip in tasks for task in tasks_of_skip], engine)
    ranges: list[SkippedRange] = []
    records_behind = 0
    for skip, tasks_of_skip in zip(reversed(skips), reversed(tasks), strict=True):
        found = [surveys[task.start] for task in tasks_of_skip]
        segment = plan.log.segment_at(skip.place)
        if segment is None:
            continue
        records = sum(survey.records for survey in found)
        records_behind += records
        damage = skip.place < result.chain.end or records_behind > 0
        if skip.reason == Outcome.BLANK:
            damage = records > 0
        ranges.append(_range(skip, segment, found, damage=damage))
    return ranges[::-1]


def _survey(tasks: list[SurveyTask], engine: Engine) -> dict[int, Survey]:
    """Look at ranges by the group: a torn log has hundreds of thousands, too many for an engine's items."""
    size = -(-len(tasks) // _MOST_ITEMS) or 1
    groups = [tasks[first : first + size] for first in range(0, len(tasks), size)]
    return {survey.start: survey for group in engine.map(survey_ranges, groups) for survey in group}


def _tasks(plan: ReputPlan, skip: Skip) -> list[SurveyTask]:
    """Cut a skip at the segments' ends."""
    stop = skip.place + skip.length
    return [
        SurveyTask(
            segment, max(skip.place, segment.start), min(stop, segment.stop), plan.policy.release.records
        )
        for segment in plan.log.between(skip.place, stop)
    ]


def _range(skip: Skip, segment: Segment, found: list[Survey], *, damage: bool) -> SkippedRange:
    zero = found[0].zero_start if damage else all(survey.zero for survey in found)
    records = sum(survey.records for survey in found)
    return SkippedRange(skip, segment, records, sum(survey.record_bytes for survey in found), damage, zero)


def log_findings(plan: ReputPlan, result: ReputResult, ranges: Iterable[SkippedRange]) -> Iterator[Finding]:
    """Yield what the way through the log found wrong with it."""
    for skipped in ranges:
        yield _skip_finding(skipped, stalled=result.chain.stalled)
    if result.chain.stalled:
        yield _log_finding(
            plan.log, result.chain.stop, "LMQ-STALL", "the broker repeats this record for ever"
        )
    yield from _gap_finding(plan, result.chain)
    for report in result.chain.reports:
        yield from _report_findings(report)
    for (topic, queue_id), count in result.absurd_units.items():
        message = (
            f"{counted(count, 'record has', 'records have')} a queueOffset that is negative or has no byte"
            " address: units lie where the broker's arithmetic puts them, if anywhere"
        )
        yield Finding(code=code_of("CL-QOFF-RANGE"), topic=topic, queue_id=queue_id, message=message)


def counted_skips(chain: Chain) -> tuple[Finding, int]:
    """Return a finding that stands for the skips which the chain only counted, and how many they are."""
    finding = Finding(
        code=code_of(_CODES[Outcome.MISMATCH]),
        message="more damage, only counted",
        severity_override=Severity.ERROR,
    )
    return finding, chain.more_skips


def _skip_finding(skipped: SkippedRange, *, stalled: bool) -> Finding:
    skip, segment = skipped.skip, skipped.segment
    if skip.reason == Outcome.BLANK and not skipped.damage:
        code, message = "CL-BLANK-LEN", ""
    elif not skipped.damage and not stalled:
        code = "CL-TAIL-ZERO" if skipped.zero else "CL-TAIL-DIRTY"
        if skipped.zero and skip.place == segment.start:
            code = "CL-PREALLOC"
        message = ""
    else:
        code = _CODES[skip.reason]
        if skipped.zero and skip.reason == Outcome.BAD_MAGIC:
            code = "CL-HOLE"
        message = f"{skipped.reason}: the broker skips {counted(skip.length, 'byte')}"
        if skipped.records:
            message += (
                f", with {counted(skipped.records, 'good record')} ({skipped.record_bytes} bytes) in them"
            )
    return Finding(
        code=code_of(code),
        file=segment.label,
        position=skip.place - segment.start,
        length=skip.length,
        physical_offset=skip.place,
        message=message,
        # whatever else it says of the record: what a broker loses is an error
        severity_override=Severity.ERROR if skipped.damage else None,
    )


def _log_finding(log: FileQueue, place: int, code: str, message: str) -> Finding:
    segment = log.segment_at(place)
    return Finding(
        code=code_of(code),
        file=segment.label if segment else None,
        position=place - segment.start if segment else None,
        physical_offset=place,
        message=message,
        structure_override=Structure.COMMITLOG,
    )


def _gap_finding(plan: ReputPlan, chain: Chain) -> Iterator[Finding]:
    """Yield the gap at which the broker stops for good."""
    behind = [segment for segment in plan.log if segment.start > chain.stop]
    if chain.stalled or not behind or chain.stop >= plan.until_offset:
        return
    missing = behind[0].start - chain.stop
    message = f"{counted(missing, 'byte')} of the log missing: nothing behind them is dispatched"
    yield Finding(
        code=code_of("CL-GAP"),
        file=behind[0].label,
        physical_offset=chain.stop,
        length=missing,
        expected=chain.stop,
        observed=behind[0].start,
        message=message,
    )


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
    for place, physical_offset in report.misplaced:
        yield Finding(
            code=code_of("CL-PHY-MISMATCH"),
            file=segment.label,
            position=place - segment.start,
            physical_offset=place,
            expected=place,
            observed=physical_offset,
            message=f"PHYSICALOFFSET {physical_offset}, but the record lies at {place}",
        )
    for topic, queue_id in report.unsafe:
        message = "the topic's name can be no directory: no consume queue for it"
        yield Finding(
            code=code_of("CL-TOPIC-NAME"), file=segment.label, topic=topic, queue_id=queue_id, message=message
        )
