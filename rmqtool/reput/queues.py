"""The queues that are to be made, and how they are shared out to tasks."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field, replace
from operator import attrgetter
from typing import TYPE_CHECKING

import numpy as np

from rmqtool.engine.local import together
from rmqtool.errors import UsageError
from rmqtool.formats import consumequeue as formats
from rmqtool.kernels.units import RUN_ROW, QueueShape, shapes_of
from rmqtool.reput.blocks import UNIT_COLUMNS, Block, BlockColumn

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rmqtool.arrays import Rows
    from rmqtool.store.staging import StagingHandle

PLACED_RUN = np.dtype([("block" if name == "queue" else name, RUN_ROW[name]) for name in RUN_ROW.names or ()])
"""A run, and in place of its queue the number of its block, in log order."""

_QUEUE_WEIGHT = 1000
"""Units that take as long to write as the files of a queue to be made."""
_LEAST_WEIGHT = 1 << 16

PLACE = attrgetter("place.position")
"""What orders plans as their queues lie in every block."""


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
class QueuePlan:
    """One queue. Its runs, one in each block, are in a file: all queues' can be more than a memory holds.

    Attributes:
        topic: as Java decodes it.
        queue_id: the queue.
        batch: whether it is a batch consume queue.
        shape: what its runs look like together.
        place: where its runs lie; in the order of such places queues lie side by side in every block.
        chosen: the runs themselves, where they are not all of those.
    """

    topic: str
    queue_id: int
    batch: bool
    shape: QueueShape
    place: BlockColumn
    chosen: Rows | None = None

    @property
    def units(self) -> int:
        """Return how many units its runs have."""
        return self.shape.units

    @property
    def joined(self) -> bool:
        """Whether all units are appended, one after the other."""
        return self.shape.joined

    @property
    def run_count(self) -> int:
        """Return how many runs it has."""
        return self.place.count if self.chosen is None else len(self.chosen)

    def runs(self) -> Rows:
        """Return its runs in log order, ``(n,)`` of ``PLACED_RUN``."""
        return self.place.read(PLACED_RUN) if self.chosen is None else self.chosen

    def runs_from(self, row: int) -> tuple[Rows, int]:
        """Return its runs from that of a unit on, and how many units of that run come before it."""
        runs = self.runs()
        stops = np.cumsum(runs["count"])
        number = int(np.searchsorted(stops, row, "right"))
        return runs[number:], row - int(stops[number] - runs["count"][number])

    def with_runs(self, runs: Rows) -> QueuePlan:
        """Return the queue with other runs, at least one."""
        return replace(self, shape=shapes_of(runs, np.zeros(1, np.int64))[0], chosen=runs)


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
class BundleTotals:
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


def bundle_queues(
    plans: Sequence[QueuePlan],
    blocks: Sequence[Block],
    staging: StagingHandle,
    geometry: QueueGeometry,
    *,
    ext: bool,
    tasks: int,
) -> list[QueueBundle]:
    """Share the queues out to about ``tasks`` tasks of equal work, or fewer where there is little."""
    geometry.check(ext=ext, batch=any(plan.batch for plan in plans))
    target = max(sum(plan.units + _QUEUE_WEIGHT for plan in plans) // tasks + 1, _LEAST_WEIGHT)
    slim = tuple(block.slim(*UNIT_COLUMNS) for block in blocks)
    groups = together(sorted(plans, key=PLACE), lambda plan: plan.units + _QUEUE_WEIGHT, target)
    return [QueueBundle(staging, slim, tuple(group), geometry, ext) for group in groups]
