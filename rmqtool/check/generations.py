"""Topics that were deleted and created again: older messages of theirs lie in the log, of no queue any more.

A broker deletes a topic's queues at once and its messages never (``DefaultMessageStore#cleanUnusedTopic``,
4.9.8; ``#deleteTopics``, 5.3.3); created again, each queue begins at offset 0. So the log holds two
generations of a queue, and the queue that is there tells which one lives: it begins with a record of queue
offset 0 that is not the log's first of that queue.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from rmqtool.derived.queue_files import QueueFile
from rmqtool.formats.consumequeue import PREBLANK_SIZE, UNITS
from rmqtool.reput.kept import raw_units

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from rmqtool.reput.blocks import Block
    from rmqtool.reput.queues import QueuePlan
    from rmqtool.store.segments import FileQueue


class Older(NamedTuple):
    """The units of a queue that are of an older generation.

    Attributes:
        units: how many, from the queue's first on; all of a queue that is not there any more.
        physical_offset: of the first message of the topic since it was created again.
    """

    units: int
    physical_offset: int


def _restart_row(plan: QueuePlan, blocks: Sequence[Block], files: FileQueue | None) -> int | None:
    """Return the number of the unit at which the queue that is there begins, if older ones lie before it.

    Args:
        plan: all units that the log asks for, of every generation.
        blocks: where they lie.
        files: of the queue; None if it is not there.

    Raises:
        EnvironmentFailureError: a file of the queue, or a block file, cannot be read.
    """
    if files is None or not files.segments or files.start != 0 or plan.batch or plan.joined:
        return None
    first = QueueFile(files.segments[0], UNITS).unit(0)
    files.segments[0].close()
    if first.size <= 0 or first.size == PREBLANK_SIZE:
        return None
    rows = raw_units(plan, blocks)
    begins = (rows.physical_offsets == first.physical_offset) & (rows.queue_offsets == 0)
    found = np.flatnonzero(begins)
    return int(found[0]) if len(found) and found[0] > 0 else None


def last_restart(plan: QueuePlan, blocks: Sequence[Block]) -> Older | None:
    """Return what comes before the last unit of queue offset 0; None where nothing does.

    Raises:
        EnvironmentFailureError: a block file cannot be read.
    """
    if plan.batch or plan.joined:
        return None
    found = np.flatnonzero(raw_units(plan, blocks).queue_offsets == 0)
    return _before(plan, blocks, int(found[-1])) if len(found) and found[-1] > 0 else None


def _before(plan: QueuePlan, blocks: Sequence[Block], row: int) -> Older:
    return Older(row, _physical_offset_of(plan, blocks, row))


def _physical_offset_of(plan: QueuePlan, blocks: Sequence[Block], row: int) -> int:
    """Return the physical offset of a unit by its number."""
    for where in plan.runs:
        if row < where.run.count:
            return int(blocks[where.block].read("units", where.first_row + row, 1)["physicalOffset"][0])
        row -= where.run.count
    raise IndexError(row)


def restarts(
    plans: Iterable[QueuePlan],
    blocks: Sequence[Block],
    files_of: Callable[[str, int], FileQueue | None],
) -> dict[tuple[str, int], Older]:
    """Return what is older of the queues that are there and hold a later generation.

    Raises:
        EnvironmentFailureError: a file of a queue, or a block file, cannot be read.
    """
    found: dict[tuple[str, int], Older] = {}
    for plan in plans:
        if plan.batch or plan.joined:
            continue
        row = _restart_row(plan, blocks, files_of(plan.topic, plan.queue_id))
        if row is not None:
            found[plan.topic, plan.queue_id] = _before(plan, blocks, row)
    return found


def with_queues_gone(
    found: Mapping[tuple[str, int], Older],
    plans: Iterable[QueuePlan],
    blocks: Sequence[Block],
    is_there: Callable[[str, int], bool],
) -> dict[tuple[str, int], Older]:
    """Add the queues of those topics that are not there and have no message since.

    Args:
        found: what `restarts` found.
        plans: of all queues.
        blocks: where their units lie.
        is_there: tells whether a queue has files.

    Raises:
        EnvironmentFailureError: a block file cannot be read.
    """
    topics: dict[str, int] = {}
    for (topic, _), older in found.items():
        topics[topic] = min(older.physical_offset, topics.get(topic, older.physical_offset))
    gone = {
        (plan.topic, plan.queue_id): Older(plan.units, topics[plan.topic])
        for plan in plans
        if plan.topic in topics
        and not is_there(plan.topic, plan.queue_id)
        and _physical_offset_of(plan, blocks, plan.units - 1) < topics[plan.topic]
    }
    return {**found, **gone}
