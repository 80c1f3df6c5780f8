"""Units of a split by queue: a stable counting sort, and the shape of a run of units."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from rmqtool.dispatch.append import MAX_QUEUE_OFFSET
from rmqtool.dispatch.rows import UNIT_ROW
from rmqtool.jit import entry, kernel

if TYPE_CHECKING:
    from rmqtool.arrays import Int64s, Rows


RUN_ROW = np.dtype(
    [
        ("first_row", np.int64),  # among the block's units, which are sorted by queue
        ("count", np.int64),
        ("first_queue_offset", np.int64),
        ("last_queue_offset", np.int64),
        ("first_end", np.int64),
        ("last_end", np.int64),
        ("queue", np.int32),  # place in the order of queues
        ("orderly", np.int32),
    ],
    align=True,
)
_MAX_QUEUE_OFFSET = MAX_QUEUE_OFFSET


def order_by_queue(units: Rows, queues: Int64s) -> tuple[Int64s, Int64s]:
    """Sort rows by queue, those of a queue in log order.

    Args:
        units: ``(n,)`` of ``UNIT_ROW``.
        queues: ``(q,)``, the queue numbers in the order that is wanted; those of all rows.

    Returns:
        The rows' numbers in order, ``(n,)``, and the place in it of each queue's first row, ``(q + 1,)``.
    """
    highest = int(queues.max(initial=-1)) + 1
    starts = np.zeros(len(queues) + 1, np.int64)
    np.cumsum(np.bincount(units["queue"], minlength=highest)[queues], out=starts[1:])
    cursor = np.zeros(highest, np.int64)
    cursor[queues] = starts[:-1]
    order = np.empty(len(units), np.int64)
    _scatter(units, cursor, order)
    return order, starts


@entry(lambda: (np.empty(0, UNIT_ROW), *[np.empty(0, np.int64)] * 2))
@kernel
def _scatter(units: Rows, cursor: Int64s, order: Int64s) -> None:
    for i in range(len(units)):
        queue = units[i].queue
        order[cursor[queue]] = i
        cursor[queue] += 1


@entry(lambda: (np.empty(0, UNIT_ROW), *[np.empty(0, np.int64)] * 2, np.empty(0, RUN_ROW)))
@kernel
def measure_runs(units: Rows, order: Int64s, starts: Int64s, runs: Rows) -> int:
    """Describe the run of every queue that has units; return how many have.

    Args:
        units: ``(n,)`` of ``UNIT_ROW``.
        order: ``(n,)``, from ``order_by_queue``.
        starts: ``(queues + 1,)``, likewise.
        runs: filled, of ``RUN_ROW``.
    """
    count = 0
    for queue in range(len(starts) - 1):
        first, stop = starts[queue], starts[queue + 1]
        if first == stop:
            continue
        unit = units[order[first]]
        end = unit.physical_offset + unit.size
        run = runs[count]
        run.queue, run.first_row, run.count = queue, first, stop - first
        run.first_queue_offset, run.first_end = unit.queue_offset, end
        orderly = unit.queue_offset >= 0 and end > -1
        queue_offset = unit.queue_offset
        for i in range(first + 1, stop):
            unit = units[order[i]]
            next_end = unit.physical_offset + unit.size
            if unit.queue_offset != queue_offset + 1 or next_end <= end:
                orderly = False
            queue_offset, end = unit.queue_offset, next_end
        run.last_queue_offset, run.last_end = queue_offset, end
        run.orderly = orderly and queue_offset <= _MAX_QUEUE_OFFSET
        count += 1
    return count


class QueueShape(NamedTuple):
    """Shape of all runs of one queue.

    Attributes:
        units: how many they have.
        first_queue_offset: of the first unit.
        last_queue_offset: of the last unit.
        last_end: end of the last record in the log.
        in_order: queue offsets go up by one.
        joined: record ends ascend, too: every unit is appended right after the one before.
    """

    units: int
    first_queue_offset: int
    last_queue_offset: int
    last_end: int
    in_order: bool
    joined: bool


def shapes_of(runs: Rows, firsts: Int64s) -> list[QueueShape]:
    """Say what queues look like whose runs are known.

    Args:
        runs: ``(n,)`` with the fields of ``RUN_ROW``, by queue, those of a queue in log order.
        firsts: ``(q,)``, each queue's first run, ascending.
    """
    lasts = np.append(firsts[1:], len(runs)) - 1
    follows = np.ones(len(runs), np.bool_)
    follows[1:] = runs["first_queue_offset"][1:] == runs["last_queue_offset"][:-1] + 1
    follows[firsts] = True
    follows &= runs["orderly"] != 0
    ascends = np.ones(len(runs), np.bool_)
    ascends[1:] = runs["first_end"][1:] > runs["last_end"][:-1]
    ascends[firsts] = True
    columns = (
        np.add.reduceat(runs["count"], firsts),
        runs["first_queue_offset"][firsts],
        runs["last_queue_offset"][lasts],
        runs["last_end"][lasts],
        np.logical_and.reduceat(follows, firsts),
        np.logical_and.reduceat(follows & ascends, firsts),
    )
    return [QueueShape(*row) for row in zip(*(column.tolist() for column in columns), strict=True)]
