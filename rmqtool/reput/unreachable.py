"""Records that lie after the place at which a broker's way through the log ends for good."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from rmqtool.reput.gap_contents import InspectTask, inspect_gaps
from rmqtool.scan.log_pass import Split

if TYPE_CHECKING:
    from rmqtool.engine import Engine
    from rmqtool.reput.pipeline import ReputPlan, ReputResult
    from rmqtool.store.segments import Segment


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
    """Look at what lies after the end of the broker's way, file by file; nothing where it saw the whole log.

    Raises:
        EnvironmentFailureError: a file of the log cannot be opened or read.
    """
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
