"""Content of a queue once its units are appended, without writing it: its end, and what is left out."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from rmqtool.formats.consumequeue import UNIT_SIZE
from rmqtool.kernels.units import QueueState, append_units, appended_batches, new_state
from rmqtool.reput.units import QueueUnits, by_queue, units_of

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
    """Return where a queue begins and ends; rows are read only where units do not join."""
    if plan.joined and not plan.batch:
        shape = plan.shape
        return QueueEnd(shape.first_queue_offset, shape.last_queue_offset + 1, shape.last_end)
    return kept_units(plan, blocks, file_size).end


def left_out_units(
    plans: Sequence[QueuePlan], blocks: Sequence[Block], file_size: int
) -> dict[tuple[str, int], int]:
    """Return how many units the append rule skips, by topic and queue id."""
    found = {}
    doubtful = [plan for plan in plans if plan.batch or not plan.joined]
    for plan, pieces in by_queue(doubtful, blocks):
        rows = _joined([_raw_units(plan, piece) for piece in pieces])
        if count := len(_kept(plan, rows, file_size).left_out):
            found[plan.topic, plan.queue_id] = count
    return found


def no_units() -> KeptUnits:
    """Return what a queue holds of which the log knows nothing."""
    none = np.empty(0, np.int64)
    return KeptUnits(0, none, none, none, none, none)


def kept_units(plan: QueuePlan, blocks: Sequence[Block], file_size: int) -> KeptUnits:
    """Return all units of a queue."""
    return _kept(plan, raw_units(plan, blocks), file_size)


def _kept(plan: QueuePlan, rows: RawUnits, file_size: int) -> KeptUnits:
    keep, first_number = _appended(plan, rows.physical_offsets, rows.sizes, rows.queue_offsets, file_size)
    return KeptUnits(
        first_number,
        rows.physical_offsets[keep],
        (rows.physical_offsets + rows.sizes)[keep],
        rows.queue_offsets[keep],
        rows.messages[keep],
        rows.physical_offsets[~keep],
    )


def _appended(
    plan: QueuePlan, physical_offsets: Int64s, sizes: Int64s, queue_offsets: Int64s, file_size: int
) -> tuple[Bools, int]:
    """Return which units are kept, and the number of the first: the rules that write the queue."""
    if plan.batch:
        return appended_batches(physical_offsets, -1)[0], 0
    state, keep = new_state(), np.zeros(len(queue_offsets), np.bool_)
    append_units(queue_offsets, physical_offsets, sizes, file_size, state, keep)
    return keep, int(state[QueueState.FIRST_START] + state[QueueState.PREBLANK]) // UNIT_SIZE


def raw_units(plan: QueuePlan, blocks: Sequence[Block]) -> RawUnits:
    """Return all units of a queue in log order, those too that the append rule skips."""
    return _raw_units(plan, units_of(plan, blocks))


def _joined(parts: Sequence[RawUnits]) -> RawUnits:
    return RawUnits(*(np.concatenate(column) for column in zip(*parts, strict=True)))


def _raw_units(plan: QueuePlan, piece: QueueUnits) -> RawUnits:
    units = piece.column("units")
    messages: Int64s = np.ones(len(piece), np.int64)
    if plan.batch:
        messages = piece.column("batch_sizes").astype(np.int64)
    physical_offsets, sizes = units["physicalOffset"].astype(np.int64), units["size"].astype(np.int64)
    return RawUnits(physical_offsets, sizes, piece.column("queue_offsets"), messages)
