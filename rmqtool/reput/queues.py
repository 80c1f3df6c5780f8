"""Place the consume queues: the runs of every queue over all blocks, shared out to tasks."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np

from rmqtool.dispatch.append import Run
from rmqtool.errors import UsageError
from rmqtool.formats import consumequeue as formats
from rmqtool.javacompat import decode_utf8
from rmqtool.reput.blocks import UNIT_COLUMNS

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy.typing as npt

    from rmqtool.dispatch.policy import DispatchPolicy
    from rmqtool.reput.blocks import Block
    from rmqtool.store.staging import StagingHandle


@dataclass(frozen=True, slots=True)
class QueueGeometry:
    """File sizes in bytes: ``mappedFileSizeConsumeQueue``, ``…Ext``, ``mapperFileSizeBatchConsumeQueue``."""

    consumequeue: int
    consumequeue_ext: int
    batchconsumequeue: int

    def check(self, *, ext: bool, batch: bool) -> None:
        """Refuse sizes with which a broker would create files for ever, or put no unit any more."""
        smallest = formats.EXT_HEAD_SIZE + formats.EXT_END_ROOM
        if ext and self.consumequeue_ext < smallest:
            size = self.consumequeue_ext
            raise UsageError(f"mappedFileSizeConsumeQueueExt={size}: an ext unit needs {smallest} bytes")
        if batch and self.batchconsumequeue % formats.BATCH_UNIT_SIZE:
            size = self.batchconsumequeue
            raise UsageError(
                f"mapperFileSizeBatchConsumeQueue={size}: must be a multiple of the unit's 46 bytes"
            )


@dataclass(frozen=True, slots=True)
class BlockRun:
    """A run and where its units lie.

    Attributes:
        block: index into the bundle's blocks.
        first_row: of the run, among the block's units.
        run: what the run looks like.
    """

    block: int
    first_row: int
    run: Run

    def queue_offsets(self, block: Block, start: int, count: int) -> npt.NDArray[np.int64]:
        """Return what the records of some units carry, ``(count,)``; read only where the run does not tell.

        Args:
            block: the run's.
            start: the first unit's number in the run.
            count: how many.

        Raises:
            EnvironmentFailureError: the block file cannot be read.
        """
        if self.run.orderly:
            first = self.run.first_queue_offset + start
            return np.arange(first, first + count)
        return np.asarray(block.read("queue_offsets", self.first_row + start, count), np.int64)


@dataclass(frozen=True, slots=True)
class QueuePlan:
    """All runs of one queue in log order.

    Attributes:
        topic: as Java decodes it.
        queue_id: the queue.
        batch: whether it is a batch consume queue.
        runs: its units.
    """

    topic: str
    queue_id: int
    batch: bool
    runs: tuple[BlockRun, ...]

    @property
    def units(self) -> int:
        """Return how many units its runs have."""
        return sum(run.run.count for run in self.runs)

    @property
    def joined(self) -> bool:
        """Whether all units are appended, one after the other."""
        runs = [run.run for run in self.runs]
        return runs[0].orderly and all(after.continues(before) for before, after in pairwise(runs))


@dataclass(frozen=True, slots=True)
class QueueBundle:
    """One task of the emit stage: some queues, whole.

    Attributes:
        staging: where files are written.
        blocks: the block files.
        plans: the queues.
        geometry: file sizes.
        ext: ``enableConsumeQueueExt``.
    """

    staging: StagingHandle
    blocks: tuple[Block, ...]
    plans: tuple[QueuePlan, ...]
    geometry: QueueGeometry
    ext: bool


@dataclass
class QueueTotals:
    """What a bundle wrote.

    Attributes:
        units: units appended, pre-blank ones not counted.
        files: files by directory (``consumequeue``, …).
        skipped: units that the append rule skipped, by queue.
        absurd: units whose queue offset has no byte address, by queue.
    """

    units: int = 0
    files: dict[str, int] = field(default_factory=lambda: defaultdict(int))
    skipped: dict[tuple[str, int], int] = field(default_factory=dict)
    absurd: dict[tuple[str, int], int] = field(default_factory=dict)


def plan_queues(blocks: Sequence[Block], policy: DispatchPolicy) -> list[QueuePlan]:
    """Collect the runs of every queue over all blocks, in log order; queues by topic and id."""
    runs: defaultdict[tuple[bytes, int], list[BlockRun]] = defaultdict(list)
    for number, block in enumerate(blocks):
        for row in block.runs.tolist():
            first_row, count, first, last, first_end, last_end, queue, orderly = row
            run = Run(count, first, last, first_end, last_end, bool(orderly))
            runs[block.queues[queue]].append(BlockRun(number, first_row, run))
    plans = []
    for (raw_topic, queue_id), queue_runs in sorted(runs.items()):
        topic = decode_utf8(raw_topic)
        plans.append(QueuePlan(topic, queue_id, topic in policy.batch_topics, tuple(queue_runs)))
    return plans


def bundle_queues(
    plans: Sequence[QueuePlan],
    blocks: Sequence[Block],
    staging: StagingHandle,
    geometry: QueueGeometry,
    *,
    ext: bool,
    tasks: int,
) -> list[QueueBundle]:
    """Share the queues out to about ``tasks`` tasks of equal work.

    Raises:
        UsageError: a file size is too small for a unit, or leaves a part of one at the end.
    """
    geometry.check(ext=ext, batch=any(plan.batch for plan in plans))
    target = sum(plan.units + 1000 for plan in plans) // max(tasks, 1) + 1
    bundles: list[QueueBundle] = []
    pending: list[QueuePlan] = []
    weight = 0
    for plan in plans:
        pending.append(plan)
        weight += plan.units + 1000
        if weight >= target or plan is plans[-1]:
            bundles.append(_bundle(pending, blocks, staging, geometry, ext=ext))
            pending, weight = [], 0
    return bundles


def _bundle(
    plans: Sequence[QueuePlan],
    blocks: Sequence[Block],
    staging: StagingHandle,
    geometry: QueueGeometry,
    *,
    ext: bool,
) -> QueueBundle:
    slim = tuple(block.slim(*UNIT_COLUMNS) for block in blocks)
    return QueueBundle(staging, slim, tuple(plans), geometry, ext)
