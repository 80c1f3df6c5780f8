"""What a queue holds once its units are appended, without writing it: where it ends, and what is left out."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from rmqtool.dispatch.append import State, append_units, appended_batches, new_state
from rmqtool.formats.consumequeue import UNIT_SIZE

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rmqtool.arrays import Bools, Int64s
    from rmqtool.reput.blocks import Block
    from rmqtool.reput.queues import QueuePlan


class QueueEnd(NamedTuple):
    """Where a queue begins and ends.

    Attributes:
        first: number of its first unit, pre-blank ones not counted.
        number: of the unit that would come next; of a batch queue, how many units there are.
        last_end: end in the log of the last unit's record.
    """

    first: int
    number: int
    last_end: int


class RawUnits(NamedTuple):
    """Units as records ask for them, ``(n,)`` each.

    Attributes:
        physical_offsets: of the records.
        sizes: of the records, in bytes.
        queue_offsets: what the records carry; the first of a batch.
        messages: more than one in a batch queue.
    """

    physical_offsets: Int64s
    sizes: Int64s
    queue_offsets: Int64s
    messages: Int64s


@dataclass(frozen=True)
class KeptUnits:
    """The units of one queue, those that the append rule keeps and those that it skips.

    Attributes:
        first_number: of the first unit that is kept, pre-blank ones not counted.
        physical_offsets: ``(n,)`` of the units that are kept.
        ends: ``(n,)``, ends of their records in the log.
        queue_offsets: ``(n,)``, what their records carry; the first of a batch.
        messages: ``(n,)``: more than one in a batch queue.
        left_out: ``(m,)``, physical offsets of the units that are skipped.
    """

    first_number: int
    physical_offsets: Int64s
    ends: Int64s
    queue_offsets: Int64s
    messages: Int64s
    left_out: Int64s

    def __len__(self) -> int:
        return len(self.physical_offsets)

    @property
    def end(self) -> QueueEnd:
        """Return where the queue begins and ends."""
        last_end = int(self.ends[-1]) if len(self) else 0
        return QueueEnd(self.first_number, self.first_number + len(self), last_end)


def end_of(plan: QueuePlan, blocks: Sequence[Block], file_size: int) -> QueueEnd:
    """Return where a queue begins and ends; rows are read only where units do not join.

    Args:
        plan: the queue.
        blocks: where its units lie.
        file_size: ``mappedFileSizeConsumeQueue``.

    Raises:
        EnvironmentFailureError: a block file cannot be read.
    """
    if plan.joined and not plan.batch:
        first, last = plan.runs[0].run, plan.runs[-1].run
        return QueueEnd(first.first_queue_offset, last.last_queue_offset + 1, last.last_end)
    return kept_units(plan, blocks, file_size).end


def left_out_units(
    plans: Sequence[QueuePlan], blocks: Sequence[Block], file_size: int
) -> dict[tuple[str, int], int]:
    """Return how many units the append rule skips, by topic and queue id.

    Raises:
        EnvironmentFailureError: a block file cannot be read.
    """
    found = {}
    for plan in plans:
        if plan.batch or not plan.joined:
            count = len(kept_units(plan, blocks, file_size).left_out)
            if count:
                found[plan.topic, plan.queue_id] = count
    return found


def no_units() -> KeptUnits:
    """Return what a queue holds of which the log knows nothing."""
    none = np.empty(0, np.int64)
    return KeptUnits(0, none, none, none, none, none)


def kept_units(plan: QueuePlan, blocks: Sequence[Block], file_size: int) -> KeptUnits:
    """Return all units of a queue.

    Raises:
        EnvironmentFailureError: a block file cannot be read.
    """
    physical_offsets, sizes, queue_offsets, messages = raw_units(plan, blocks)
    ends = physical_offsets + sizes
    keep, first_number = _appended(plan, physical_offsets, sizes, queue_offsets, file_size)
    return KeptUnits(
        first_number,
        physical_offsets[keep],
        ends[keep],
        queue_offsets[keep],
        messages[keep],
        physical_offsets[~keep],
    )


def _appended(
    plan: QueuePlan, physical_offsets: Int64s, sizes: Int64s, queue_offsets: Int64s, file_size: int
) -> tuple[Bools, int]:
    """Return which units are kept, and the number of the first: the rules that write the queue."""
    if plan.batch:
        return appended_batches(physical_offsets, -1)[0], 0
    state, keep = new_state(), np.zeros(len(queue_offsets), np.bool_)
    append_units(queue_offsets, physical_offsets, sizes, file_size, state, keep)
    return keep, int(state[State.FIRST_START] + state[State.PREBLANK]) // UNIT_SIZE


def raw_units(plan: QueuePlan, blocks: Sequence[Block]) -> RawUnits:
    """Return all units of a queue in log order, those too that the append rule skips.

    Raises:
        EnvironmentFailureError: a block file cannot be read.
    """
    parts = [_read(plan, blocks, number) for number in range(len(plan.runs))]
    return RawUnits(*(np.concatenate(column) for column in zip(*parts, strict=True)))


def _read(plan: QueuePlan, blocks: Sequence[Block], number: int) -> RawUnits:
    """Return the units of one run."""
    where = plan.runs[number]
    run, block = where.run, blocks[where.block]
    units = block.read("units", where.first_row, run.count)
    queue_offsets = where.queue_offsets(block, 0, run.count)
    messages = np.ones(run.count, np.int64)
    if plan.batch:
        messages = block.read("batch_sizes", where.first_row, run.count).astype(np.int64)
    physical_offsets, sizes = units["physicalOffset"].astype(np.int64), units["size"].astype(np.int64)
    return RawUnits(physical_offsets, sizes, queue_offsets, messages)
