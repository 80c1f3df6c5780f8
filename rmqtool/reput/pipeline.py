"""Run the stages on an engine: plan, scan, follow the chain, place, emit."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple, Self

from rmqtool.dispatch.policy import NEVER, DispatchPolicy
from rmqtool.formats.consumequeue import UNIT_SIZE
from rmqtool.progress import Progress, stage_of, timed
from rmqtool.reput.blocks import Block, write_columns
from rmqtool.reput.chain import ReputChain, ScanJob, follow
from rmqtool.reput.emit_queues import emit_queues
from rmqtool.reput.indexes import (
    IndexPlan,
    bundle_indexes,
    check_geometry,
    emit_index,
    index_stream,
    passed_over,
    plan_indexes,
    without_backward_messages,
)
from rmqtool.reput.queues import (
    EmittedFiles,
    QueueBundle,
    QueueGeometry,
    QueuePlan,
    bundle_queues,
    plan_queues,
)
from rmqtool.reput.units import left_out_units
from rmqtool.scan.log_pass import SPLIT_BYTES, LogPass, plan_splits, read_split

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from datetime import tzinfo

    from rmqtool.engine import Engine
    from rmqtool.reput.chain import RecordJudge
    from rmqtool.store import Settings
    from rmqtool.store.geometry import Geometry
    from rmqtool.store.segments import FileQueue
    from rmqtool.store.staging import StagingHandle

_EMIT_TASKS = 16
_TASK_BYTES = 16 << 20
"""Least bytes that a task reads, if there are so many: a Spark task costs as much as a few MiB of log."""


class ReputPlan(NamedTuple):
    """Plan of a rebuild: its inputs and outputs.

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
        judge: checks the records themselves, which no reput does; None leaves them alone.
        max_findings: findings of one code that it keeps in a split.
        choose: leaves units out of the queues, given these and the blocks; None keeps all.
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
    judge: RecordJudge | None = None
    max_findings: int = 10
    choose: Callable[[Sequence[QueuePlan], Sequence[Block]], list[QueuePlan]] | None = None

    @classmethod
    def of(
        cls, settings: Settings, log: FileQueue, policy: DispatchPolicy, staging: StagingHandle, *parts: str
    ) -> Self:
        """Return a plan for files as a broker's settings have them."""
        return cls(
            log,
            settings.commitlog_file_size,
            policy,
            staging,
            frozenset(parts),
            QueueGeometry.of(settings),
            settings.index_geometry,
            settings.index_timezone,
        )

    @property
    def is_partial(self) -> bool:
        """Whether the user left something out."""
        return self.policy.partial or self.until_offset != NEVER

    @property
    def makes_index(self) -> bool:
        """Return whether index files are to be made."""
        return "index" in self.parts and self.policy.index_enabled


@dataclass(kw_only=True)
class ReputResult(EmittedFiles):
    """Result of a rebuild.

    Attributes:
        chain: the way through the log, with what was skipped.
        records: records that the chain met.
        messages: records dispatched.
        unindexed: of them, how many an index passes over: they lie before what it holds.
        entries: index entries written.
        queues: queues written.
        blocks: units and index entries, in log order.
        plans: the queues.
        batch_topics: topics with batch queues, those among them that records alone prove.
        seconds: wall time of each stage.
    """

    chain: ReputChain
    records: int = 0
    messages: int = 0
    unindexed: int = 0
    entries: int = 0
    queues: int = 0
    blocks: list[Block] = field(default_factory=list, repr=False)
    plans: list[QueuePlan] = field(default_factory=list, repr=False)
    batch_topics: frozenset[str] = frozenset()
    seconds: dict[str, float] = field(default_factory=dict)


def run_reput(plan: ReputPlan, engine: Engine, progress: Progress, *, emit: bool = True) -> ReputResult:
    """Regenerate the derived files of a commit log into the staging area; without ``emit``, only count."""
    if plan.makes_index:
        check_geometry(plan.index_geometry)
    seconds: dict[str, float] = {}
    with timed(seconds, "scan"):
        job = ScanJob(plan.policy, plan.staging, plan.max_findings, judge=plan.judge)
        splits = plan_splits(plan.log, plan.until_offset, plan.split_bytes)
        scan = LogPass(engine, job, splits, read_split, _TASK_BYTES)
        scan.run(progress, "scan")
        plan = plan._replace(policy=scan.job.policy)
    with timed(seconds, "place"):
        chain = follow(plan.log, plan.file_size, plan.until_offset, scan)
        result = ReputResult(chain=chain, batch_topics=plan.policy.batch_topics, seconds=seconds)
        for report in chain.reports:
            result.records += report.records
            result.messages += report.messages
            result.unindexed += report.unindexed
        result.blocks = blocks = _blocks(plan, result)
        bundles = _place_queues(plan, blocks, result)
        indexes = _place_indexes(plan, blocks, result)
        if not emit:
            size = plan.queue_geometry.consumequeue
            result.skipped_units = left_out_units(result.plans, blocks, size)
            result.units -= sum(result.skipped_units.values())
    if emit:
        with timed(seconds, "emit"):
            _emit(engine, progress, bundles, indexes, result)
    return result


def _blocks(plan: ReputPlan, result: ReputResult) -> list[Block]:
    """Return the blocks that count, their index entries filtered as the index's endPhyOffset demands."""
    blocks: list[Block] = []
    end_phy_offset = 0
    for report in result.chain.reports:
        block = report.block
        if report.start_phy_offset < end_phy_offset:
            entries, keyless = without_backward_messages(
                block.read("entries"), block.read("keyless"), end_phy_offset
            )
            result.unindexed += passed_over(block.read("entries"), end_phy_offset)
            columns = write_columns(plan.staging, {"entries": entries, "keyless": keyless})
            block = block._replace(columns=block.columns | columns)
        end_phy_offset = max(end_phy_offset, report.end_phy_offset)
        blocks.append(block)
    return blocks


def _place_queues(plan: ReputPlan, blocks: list[Block], result: ReputResult) -> list[QueueBundle]:
    if "consumequeue" not in plan.parts:
        return []
    plans = plan_queues(blocks, plan.policy, plan.staging)
    result.plans = plans = plans if plan.choose is None else plan.choose(plans, blocks)
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
    progress: Progress,
    bundles: list[QueueBundle],
    indexes: list[IndexPlan],
    result: ReputResult,
) -> None:
    """Write all output files; index files first, for they are the largest tasks."""
    tasks: list[QueueBundle | tuple[IndexPlan, ...]] = [*bundle_indexes(indexes), *bundles]
    written = engine.map(emit_task, tasks, stage_of(progress, "emit", map(_size_of, tasks)))
    result.files["index"] = len(indexes)
    result.units = 0
    for totals in written:
        if totals is not None:
            result.add(totals)


def _size_of(task: QueueBundle | tuple[IndexPlan, ...]) -> int:
    """Return about how many bytes a task writes."""
    if isinstance(task, QueueBundle):
        return sum(plan.units for plan in task.plans) * UNIT_SIZE
    return sum(plan.geometry.size_bytes for plan in task)


def emit_task(task: QueueBundle | tuple[IndexPlan, ...]) -> EmittedFiles | None:
    """Do one task of the emit stage."""
    if isinstance(task, QueueBundle):
        return emit_queues(task)
    for plan in task:
        emit_index(plan)
    return None
