"""Run the stages on an engine: plan, scan, follow the chain, place, emit."""

from __future__ import annotations

import time
from collections import Counter
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Protocol

from rmqtool.dispatch.policy import NEVER
from rmqtool.reput.blocks import write_columns
from rmqtool.reput.chain import Chain, follow
from rmqtool.reput.emit_queues import emit_queues
from rmqtool.reput.indexes import (
    IndexPlan,
    check_geometry,
    emit_index,
    index_stream,
    plan_indexes,
    without_backward_messages,
)
from rmqtool.reput.queues import QueueBundle, QueueTotals, bundle_queues, plan_queues
from rmqtool.reput.scan import ScanTask, SplitReport, scan_split
from rmqtool.scan.splits import SPLIT_BYTES, plan_splits

if TYPE_CHECKING:
    from collections.abc import Iterator
    from datetime import tzinfo

    from rmqtool.dispatch.policy import DispatchPolicy
    from rmqtool.engine import Engine
    from rmqtool.reput.blocks import Block
    from rmqtool.reput.queues import QueueGeometry
    from rmqtool.scan.splits import Split
    from rmqtool.store.geometry import Geometry
    from rmqtool.store.segments import FileQueue
    from rmqtool.store.staging import StagingHandle

_EMIT_TASKS = 16


class Watcher(Protocol):
    """Who is told how far a run has come."""

    def stage(self, name: str, total_bytes: int | None) -> None:
        """Begin a stage."""

    def advance(self, done_bytes: int) -> None:
        """Tell how many bytes of the stage are done."""


@dataclass(frozen=True)
class ReputPlan:
    """What is to be made of what.

    Attributes:
        log: the commit log.
        file_size: ``mappedFileSizeCommitLog``.
        policy: the broker's switches.
        staging: where output and blocks are written.
        parts: ``consumequeue`` (with ext and batch queues) and ``index``, or one of them.
        queue_geometry: sizes of the queues' files.
        index_geometry: slots and items.
        zone: in which index files are named.
        until_offset: physical offset at which to stop.
        split_bytes: greatest size of a split.
    """

    log: FileQueue
    file_size: int
    policy: DispatchPolicy
    staging: StagingHandle
    parts: frozenset[str]
    queue_geometry: QueueGeometry
    index_geometry: Geometry
    zone: tzinfo
    until_offset: int = NEVER
    split_bytes: int = SPLIT_BYTES

    @property
    def makes_index(self) -> bool:
        """Return whether index files are to be made."""
        return "index" in self.parts and self.policy.index_enabled


@dataclass
class ReputResult:
    """What was made.

    Attributes:
        chain: the way through the log, with what was skipped.
        messages: records dispatched.
        units: units written, pre-blank ones not counted.
        entries: index entries written.
        queues: queues written.
        files: files written, by directory.
        skipped_units: units that the append rule skipped, by queue.
        absurd_units: units whose queue offset has no byte address, by queue.
        seconds: wall time of each stage.
    """

    chain: Chain
    messages: int = 0
    units: int = 0
    entries: int = 0
    queues: int = 0
    files: Counter[str] = field(default_factory=Counter)
    skipped_units: dict[tuple[str, int], int] = field(default_factory=dict)
    absurd_units: dict[tuple[str, int], int] = field(default_factory=dict)
    seconds: dict[str, float] = field(default_factory=dict)


@contextmanager
def _timed(seconds: dict[str, float], stage: str) -> Iterator[None]:
    start = time.perf_counter()
    yield
    seconds[stage] = round(time.perf_counter() - start, 3)


def run_reput(plan: ReputPlan, engine: Engine, watcher: Watcher, *, emit: bool = True) -> ReputResult:
    """Regenerate the derived files of a commit log into the staging area.

    Args:
        plan: what to make.
        engine: runs the tasks.
        watcher: is told of the progress.
        emit: False stops after the chain: counts only, and nothing of the output is written.

    Raises:
        UsageError: the plan's sizes are none that a broker can have.
        RmqtoolError: reading the log or writing the staging area failed.
    """
    if plan.makes_index:
        check_geometry(plan.index_geometry)
    seconds: dict[str, float] = {}
    with _timed(seconds, "scan"):
        reports = _scan(plan, engine, watcher)
    with _timed(seconds, "place"):
        chain = _follow(plan, engine, reports)
        result = ReputResult(chain, seconds=seconds)
        result.messages = sum(report.messages for report in chain.reports)
        blocks = _blocks(chain, plan)
        bundles = _place_queues(plan, blocks, result)
        indexes = _place_indexes(plan, blocks, result)
    if emit:
        with _timed(seconds, "emit"):
            _emit(engine, watcher, bundles, indexes, result)
    return result


def _scan(plan: ReputPlan, engine: Engine, watcher: Watcher) -> list[SplitReport]:
    splits = plan_splits(plan.log, plan.until_offset, plan.split_bytes)
    tasks = [ScanTask(split, plan.policy, plan.staging) for split in splits]
    done_bytes = [0]
    for split in splits:
        done_bytes.append(done_bytes[-1] + split.stop - split.start)
    watcher.stage("scan", done_bytes[-1])
    return engine.map(scan_split, tasks, lambda done: watcher.advance(done_bytes[done]))


def _follow(plan: ReputPlan, engine: Engine, reports: list[SplitReport]) -> Chain:
    def rescan(split: Split, log_offset: int, kept: int) -> SplitReport:
        task = ScanTask(split, plan.policy, plan.staging, first_log_offset=log_offset, kept=kept)
        return engine.map(scan_split, [task])[0]

    return follow(plan.log, plan.file_size, plan.until_offset, reports, rescan)


def _blocks(chain: Chain, plan: ReputPlan) -> list[Block]:
    """Return the blocks that count, their index entries filtered as the index's endPhyOffset demands."""
    blocks: list[Block] = []
    end_phy_offset = 0
    for report in chain.reports:
        block = report.block
        if report.start_phy_offset < end_phy_offset:
            entries, idles = without_backward_messages(
                block.read("entries"), block.read("idles"), end_phy_offset
            )
            columns = write_columns(plan.staging, {"entries": entries, "idles": idles})
            block = replace(block, columns=block.columns | columns)
        end_phy_offset = max(end_phy_offset, report.end_phy_offset)
        blocks.append(block)
    return blocks


def _place_queues(plan: ReputPlan, blocks: list[Block], result: ReputResult) -> list[QueueBundle]:
    if "consumequeue" not in plan.parts:
        return []
    plans = plan_queues(blocks, plan.policy)
    result.queues = len(plans)
    result.units = sum(queue.units for queue in plans)
    return bundle_queues(
        plans, blocks, plan.staging, plan.queue_geometry, ext=plan.policy.ext, tasks=_EMIT_TASKS
    )


def _place_indexes(plan: ReputPlan, blocks: list[Block], result: ReputResult) -> list[IndexPlan]:
    if not plan.makes_index:
        return []
    stream = index_stream(blocks)
    result.entries = stream.total
    empty_count = plan.policy.release.new_index_count
    return plan_indexes(stream, plan.index_geometry, plan.staging, plan.zone, empty_count=empty_count)


def _emit(
    engine: Engine,
    watcher: Watcher,
    bundles: list[QueueBundle],
    indexes: list[IndexPlan],
    result: ReputResult,
) -> None:
    """Write all output files; index files first, for they are the largest tasks."""
    watcher.stage("emit", None)
    tasks: list[QueueBundle | IndexPlan] = [*indexes, *bundles]
    written = engine.map(emit_task, tasks)
    result.files["index"] = len(indexes)
    result.units = 0
    for totals in written[len(indexes) :]:
        if isinstance(totals, QueueTotals):
            result.units += totals.units
            result.files.update(totals.files)
            result.skipped_units.update(totals.skipped)
            result.absurd_units.update(totals.absurd)


def emit_task(task: QueueBundle | IndexPlan) -> QueueTotals | int:
    """Do one task of the emit stage."""
    return emit_index(task) if isinstance(task, IndexPlan) else emit_queues(task)
