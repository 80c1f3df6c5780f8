"""Queues to build: their runs, collected from all blocks, and their shares of the emit stage.

Every block has its runs in the order of their queues' keys. Too many runs for the memory are merged by ranges
of keys, each a piece of every block: one range is held at a time.
"""

from __future__ import annotations

import uuid
from collections import Counter
from dataclasses import dataclass, field
from operator import attrgetter
from typing import TYPE_CHECKING, NamedTuple, Self

import numpy as np

from rmqtool.engine import together
from rmqtool.errors import UsageError
from rmqtool.formats import consumequeue as formats
from rmqtool.javacompat import decode_utf8
from rmqtool.kernels.rows import KEY_ROW
from rmqtool.kernels.units import RUN_ROW, QueueShape, shapes_of
from rmqtool.reput.blocks import UNIT_COLUMNS, Block, BlockColumn

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from rmqtool.arrays import Int64s, Rows
    from rmqtool.dispatch.policy import DispatchPolicy
    from rmqtool.store import Settings
    from rmqtool.store.staging import StagingHandle


PLACED_RUN = np.dtype([("block" if name == "queue" else name, RUN_ROW[name]) for name in RUN_ROW.names or ()])
"""A run, and in place of its queue the number of its block, in log order."""

_QUEUE_WEIGHT = 1000
"""Units that take as long to write as the files of a queue to be made."""
_LEAST_WEIGHT = 1 << 16

PLACE = attrgetter("place.position")
"""Sort key of plans, in the order of their queues in every block."""


class QueueGeometry(NamedTuple):
    """File sizes in bytes: ``mappedFileSizeConsumeQueue``, ``…Ext``, ``mapperFileSizeBatchConsumeQueue``."""

    consumequeue: int
    consumequeue_ext: int
    batchconsumequeue: int

    @classmethod
    def of(cls, settings: Settings) -> Self:
        """Return the sizes of a broker's settings."""
        return cls(
            settings.consumequeue_file_size,
            settings.consumequeue_ext_file_size,
            settings.batchconsumequeue_file_size,
        )

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


class QueuePlan(NamedTuple):
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
        return self._replace(shape=shapes_of(runs, np.zeros(1, np.int64))[0], chosen=runs)


class QueueBundle(NamedTuple):
    """One task of the emit stage: some queues, whole; ``ext`` is ``enableConsumeQueueExt``."""

    staging: StagingHandle
    blocks: tuple[Block, ...]
    plans: tuple[QueuePlan, ...]
    geometry: QueueGeometry
    ext: bool


@dataclass
class EmittedFiles:
    """Files of queues and index that were written.

    Attributes:
        units: pre-blank ones not counted.
        files: how many, by directory.
        skipped_units: units that the append rule skipped, by queue.
        absurd_units: units whose queue offset has no byte address, by queue.
    """

    units: int = 0
    files: Counter[str] = field(default_factory=Counter)
    skipped_units: dict[tuple[str, int], int] = field(default_factory=dict)
    absurd_units: dict[tuple[str, int], int] = field(default_factory=dict)

    def add(self, other: EmittedFiles) -> None:
        """Add what another task wrote."""
        self.units += other.units
        self.files.update(other.files)
        self.skipped_units.update(other.skipped_units)
        self.absurd_units.update(other.absurd_units)


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


RANGE_RUNS = 1 << 19
"""Runs that are sorted at a time: about 100 MiB."""


def plan_queues(
    blocks: Sequence[Block], policy: DispatchPolicy, staging: StagingHandle, range_runs: int = RANGE_RUNS
) -> list[QueuePlan]:
    """Collect the runs of every queue over all blocks, in log order; return the queues by topic and id."""
    plans: list[tuple[tuple[bytes, int], QueuePlan]] = []
    with staging.create_block(uuid.uuid4().hex) as file:
        position = 0
        for cuts in _ranges(blocks, range_runs):
            runs, keys, firsts = _sorted_range(blocks, cuts)
            file.write_at(position, runs.view(np.uint8).data)
            counts = np.diff(firsts, append=len(runs)).tolist()
            names = _names(blocks, runs["block"][firsts], keys)
            shapes = shapes_of(runs, firsts)
            for raw_topic, queue_id, shape, count in zip(
                names, keys["queue_id"].tolist(), shapes, counts, strict=True
            ):
                topic = decode_utf8(raw_topic)
                place = BlockColumn(file.name, position, count)
                plan = QueuePlan(topic, queue_id, topic in policy.batch_topics, shape, place)
                plans.append(((raw_topic, queue_id), plan))
                position += count * runs.itemsize
    return [plan for _, plan in sorted(plans, key=lambda pair: pair[0])]


def _ranges(blocks: Sequence[Block], range_runs: int) -> Iterator[Int64s]:
    """Yield ranges of keys: of every block the first run and the one after the last, ``(blocks, 2)``."""
    counts = np.array([block.count("runs") for block in blocks], np.int64)
    ranges = int(-(-counts.sum() // range_runs))
    if ranges <= 1:
        if ranges:
            yield np.stack([np.zeros_like(counts), counts], axis=1)
        return
    # Digests are spread evenly over all numbers.
    limits = np.array([(number << 64) // ranges for number in range(1, ranges)], np.uint64)
    cuts = np.zeros((len(blocks), ranges + 1), np.int32)  # a split has fewer runs than bytes
    for row, block in zip(cuts, blocks, strict=True):
        row[1:-1] = np.searchsorted(block.read("keys")["high"], limits)
        row[-1] = block.count("runs")
    for number in np.flatnonzero(np.diff(cuts.sum(axis=0, dtype=np.int64))).tolist():
        yield cuts[:, number : number + 2].astype(np.int64)


def _sorted_range(blocks: Sequence[Block], cuts: Int64s) -> tuple[Rows, Rows, Int64s]:
    """Read and sort the runs of a range of keys.

    Returns:
        The runs by key and block, ``(n,)`` of ``PLACED_RUN``; each queue's key as its first block has it,
        ``(q,)`` of ``KEY_ROW``; and the number of each queue's first run, ``(q,)``.
    """
    starts = np.concatenate([[0], np.cumsum(cuts[:, 1] - cuts[:, 0])])
    runs, keys = np.empty(starts[-1], PLACED_RUN), np.empty(starts[-1], KEY_ROW)
    for number in np.flatnonzero(np.diff(starts)).tolist():
        block, first = blocks[number], int(cuts[number, 0])
        place = slice(*starts[number : number + 2].tolist())
        block.rows("runs", first, len(runs[place])).read_into(runs[place])
        block.rows("keys", first, len(runs[place])).read_into(keys[place])
        runs["block"][place] = number
    order = _order(keys)
    # numpy takes rows without fields five times faster.
    runs = runs.view(f"V{runs.itemsize}").take(order).view(PLACED_RUN)
    high, low = keys["high"][order], keys["low"][order]
    is_first = np.ones(len(order), np.bool_)
    is_first[1:] = (high[1:] != high[:-1]) | (low[1:] != low[:-1])
    firsts = np.flatnonzero(is_first)
    return runs, keys[order[firsts]], firsts


def _order(keys: Rows) -> Int64s:
    """Return the order by key; what has the same key stays in the order of its blocks."""
    high, low = keys["high"].copy(), keys["low"]
    order = np.argsort(high, kind="stable")
    same = high[order[1:]] == high[order[:-1]]
    if (low[order[1:]] != low[order[:-1]])[same].any():  # half a digest alike: made on purpose, if ever
        order = np.lexsort((low, high))
    return order


def _names(blocks: Sequence[Block], numbers: Int64s, keys: Rows) -> list[bytes]:
    """Return the topics of ``keys``, ``(q,)`` of ``KEY_ROW``, each from the block of its number."""
    names = [b""] * len(keys)
    starts = keys["name_start"].tolist()
    stops = (keys["name_start"] + keys["name_length"]).tolist()
    order = np.argsort(numbers, kind="stable")
    for queues in np.split(order, np.flatnonzero(np.diff(numbers[order])) + 1):
        first = min(starts[queue] for queue in queues.tolist())
        last = max(stops[queue] for queue in queues.tolist())
        text = blocks[int(numbers[queues[0]])].read("names", first, last - first).tobytes()
        for queue in queues.tolist():
            names[queue] = text[starts[queue] - first : stops[queue] - first]
    return names
