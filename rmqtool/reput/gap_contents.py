"""Contents of bytes that a broker skips or never reaches: gaps, and good records for a salvage."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from rmqtool.scan.gap_walk import GapWalk, gap_of
from rmqtool.scan.gaps import Gap
from rmqtool.scan.log_pass import Split

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import numpy.typing as npt

    from rmqtool.engine import Engine
    from rmqtool.releases import RecordRules
    from rmqtool.reput.pipeline import ReputPlan, ReputResult
    from rmqtool.scan.walk import MessageBatch
    from rmqtool.store.segments import Segment


@dataclass(frozen=True, slots=True)
class InspectTask:
    """A range of one segment to look at; picklable.

    Attributes:
        split: the range.
        due: physical offset in front of it, or its own, at which one who examines expects a record: a broker
            that damage led astray stands somewhere inside of one.
        records: how records are read.
        stale_from: see ``GapWalk``.
    """

    split: Split
    due: int
    records: RecordRules
    stale_from: int | None = None


@dataclass(frozen=True, slots=True)
class GapContents:
    """What a range holds.

    Attributes:
        start: physical offset of the range.
        gap: the gap that it begins in, up to the next true record or the end of the file, even where that
            lies after the range; None if it begins in a record.
        records: true records in it.
        record_bytes: their size.
    """

    start: int
    gap: Gap | None
    records: int
    record_bytes: int


def inspect_gaps(tasks: Sequence[InspectTask]) -> list[GapContents]:
    """Look for gaps and true records in ranges."""
    found = []
    walk: GapWalk | None = None
    for task in tasks:
        if walk is None or walk.segment is not task.split.segment:  # kept, for ranges lie close together
            walk = GapWalk(task.split.segment, task.records, task.stale_from)
        found.append(_inspect(task.split, task.due, walk))
    return found


def true_records(task: InspectTask) -> Iterator[npt.NDArray[np.int64]]:
    """Yield the physical offsets of the true records in a range."""
    split = task.split
    walk = GapWalk(split.segment, task.records, task.stale_from)
    for part in walk.parts(task.due, split.stop, split.segment.stop):
        if not isinstance(part, Gap):
            yield part.rows["log_offset"][_true(part, split)]


def _true(batch: MessageBatch, split: Split) -> npt.NDArray[np.bool_]:
    log_offsets = batch.rows["log_offset"]
    return np.asarray((log_offsets == batch.rows["physical_offset"]) & (log_offsets >= split.start))


def _inspect(split: Split, due: int, walk: GapWalk) -> GapContents:
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
        records: true records in them.
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
    """Look at what lies after the end of the broker's way, file by file; nothing if it saw the whole log."""
    tasks = unreachable_tasks(plan, result)
    found = engine.map(inspect_gaps, [[task] for task in tasks])
    return [
        UnreachableRange(
            task.split.start,
            task.split.stop - task.split.start,
            task.split.segment,
            result.chain.stalled,
            contents.records,
            contents.record_bytes,
        )
        for task, (contents,) in zip(tasks, found, strict=True)
        if contents.records
    ]


def unreachable_tasks(plan: ReputPlan, result: ReputResult) -> list[InspectTask]:
    """Return how to look at what lies after the end of the broker's way; one task a file."""
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
