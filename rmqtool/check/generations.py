"""Topics that were deleted and created again: their older messages are in the log, but in no queue any more.

A broker deletes a topic's queues at once and its messages never (``DefaultMessageStore#cleanUnusedTopic``,
4.9.8; ``#deleteTopics``, 5.3.3); created again, each queue begins at offset 0. So the log holds two
generations of a queue, and the present queue shows which one lives: it begins with a record of queue offset 0
that is not the log's first of that queue.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from rmqtool.derived.queue_files import QueueFile
from rmqtool.formats.consumequeue import PREBLANK_SIZE, UNITS
from rmqtool.reput.units import QueueUnits, by_queue

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from rmqtool.reput.blocks import Block
    from rmqtool.reput.queues import QueuePlan
    from rmqtool.store.segments import FileQueue


class Older(NamedTuple):
    """The units of a queue that are of an older generation; all of a queue that no longer exists.

    ``physical_offset`` is that of the first message of the topic since it was created again.
    """

    units: int
    physical_offset: int


def _first_of_those_there(files: FileQueue | None) -> tuple[int, int] | None:
    """Return number and physical offset of the first unit in the queue's first file; None without any.

    Those before it are pre-blank, if the queue was deleted while messages of the new generation came.
    """
    if files is None or not files.segments or files.start != 0:
        return None
    file = QueueFile(files.segments[0], UNITS)
    try:
        for number in range(file.room):
            unit = file.unit(number)
            if unit.size <= 0:
                return None
            if unit.size != PREBLANK_SIZE:
                return number, unit.physical_offset
        return None
    finally:
        files.segments[0].close()


def _restart(pieces: Iterable[QueueUnits], number: int, first_there: int) -> Older | None:
    """Return the units before the generation whose ``number`` leads to a place; None without any."""
    row, begin = 0, Older(0, 0)
    for piece in pieces:
        places, queue_offsets = piece.column("units")["physicalOffset"], piece.column("queue_offsets")
        found = np.flatnonzero((places == first_there) & (queue_offsets == number))
        stop = int(found[0]) + 1 if len(found) else len(piece)
        zeros = np.flatnonzero(queue_offsets[:stop] == 0)
        if len(zeros):
            begin = Older(row + int(zeros[-1]), int(places[zeros[-1]]))
        if len(found):
            return begin if begin.units else None
        row += len(piece)
    return None


def last_restarts(plans: Iterable[QueuePlan], blocks: Sequence[Block]) -> dict[tuple[str, int], Older]:
    """Return the units before the last one of queue offset 0, of queues that have some."""
    found: dict[tuple[str, int], Older] = {}
    for plan, pieces in by_queue(_doubtful(plans), blocks):
        row = 0
        for piece in pieces:
            zeros = np.flatnonzero(piece.column("queue_offsets") == 0)
            if len(zeros) and row + zeros[-1] > 0:
                physical_offset = piece.column("units")["physicalOffset"][zeros[-1]]
                found[plan.topic, plan.queue_id] = Older(row + int(zeros[-1]), int(physical_offset))
            row += len(piece)
    return found


def _doubtful(plans: Iterable[QueuePlan]) -> list[QueuePlan]:
    return [plan for plan in plans if not plan.batch and not plan.joined]


def _physical_offset_of(plan: QueuePlan, blocks: Sequence[Block], row: int) -> int:
    runs, before = plan.runs_from(row)
    place = int(runs["first_row"][0]) + before
    return int(blocks[int(runs["block"][0])].read("units", place, 1)["physicalOffset"][0])


def restarts(
    plans: Iterable[QueuePlan],
    blocks: Sequence[Block],
    files_of: Callable[[str, int], FileQueue | None],
) -> dict[tuple[str, int], Older]:
    """Return the older units of the present queues that hold a later generation."""
    found: dict[tuple[str, int], Older] = {}
    for plan, pieces in by_queue(_doubtful(plans), blocks):
        key = plan.topic, plan.queue_id
        first_there = _first_of_those_there(files_of(*key))
        older = None if first_there is None else _restart(pieces, *first_there)
        if older is not None:
            found[key] = older
    return found


def with_queues_gone(
    found: Mapping[tuple[str, int], Older],
    plans: Iterable[QueuePlan],
    blocks: Sequence[Block],
    is_there: Callable[[str, int], bool],
) -> dict[tuple[str, int], Older]:
    """Add the missing queues of those topics that have no message since.

    ``found`` comes from `restarts`; ``is_there`` returns whether a queue has files.
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
