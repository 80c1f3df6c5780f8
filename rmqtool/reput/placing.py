"""Place the consume queues: the runs of all blocks, sorted by queue, become one file.

Every block has its runs in the order of their queues' keys. Where they are too many for the memory they are
merged by ranges of keys, each of which is a piece of every block: what is held at a time is one range.
"""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING

import numpy as np

from rmqtool.javacompat import decode_utf8
from rmqtool.kernels.rows import KEY_ROW
from rmqtool.kernels.units import shapes_of
from rmqtool.reput.blocks import Block, BlockColumn
from rmqtool.reput.queues import PLACED_RUN, QueuePlan

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from rmqtool.arrays import Int64s, Rows
    from rmqtool.dispatch.policy import DispatchPolicy
    from rmqtool.store.staging import StagingHandle

RANGE_RUNS = 1 << 19
"""Runs that are sorted at a time: about 100 MiB."""


def plan_queues(
    blocks: Sequence[Block], policy: DispatchPolicy, staging: StagingHandle, range_runs: int = RANGE_RUNS
) -> list[QueuePlan]:
    """Collect the runs of every queue over all blocks, in log order.

    Returns:
        The queues by topic and id.
    """
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
    """Return the topics of queues.

    Args:
        blocks: where they were met.
        numbers: ``(q,)``, the block of each key.
        keys: ``(q,)`` of ``KEY_ROW``.
    """
    names = [b""] * len(keys)
    starts = keys["name_start"].tolist()
    stops = (keys["name_start"] + keys["name_length"]).tolist()
    order = np.argsort(numbers, kind="stable")
    for queues in np.split(order, np.flatnonzero(np.diff(numbers[order])) + 1):
        first = min(starts[queue] for queue in queues.tolist())
        last = max(stops[queue] for queue in queues.tolist())
        found = blocks[int(numbers[queues[0]])].read("names", first, last - first).tobytes()
        for queue in queues.tolist():
            names[queue] = found[starts[queue] - first : stops[queue] - first]
    return names
