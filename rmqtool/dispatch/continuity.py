"""Continuity of queue offsets along the log, as the broker hands them out, one by one."""

from __future__ import annotations

from enum import IntEnum
from typing import TYPE_CHECKING

import numpy as np

from rmqtool.dispatch.append import MAX_QUEUE_OFFSET
from rmqtool.dispatch.rows import UNKNOWN_QUEUE_OFFSET
from rmqtool.javacompat.kernels.integers import as_int
from rmqtool.jit import entry, kernel

if TYPE_CHECKING:
    from rmqtool.arrays import Int64s, Rows


class Discontinuity(IntEnum):
    """Break between a queue offset and the one before."""

    GAP = 0
    REPEATED = 1
    RESET = 2  # it falls back to 0
    OUT_OF_RANGE = 3  # no queue has it, or the next one follows as if this were another


class Progress(IntEnum):
    """Places in the array that carries a queue's state from chunk to chunk."""

    STARTED = 0
    NEXT = 1  # the queue offset that should come
    HIGH = 2  # the highest that should have come so far
    RESETS = 3  # falls back to 0 since: such a unit is appended where the queue ends, and moves that end


BREAK_ROW = np.dtype(
    [("kind", np.int64), ("row", np.int64), ("expected", np.int64), ("observed", np.int64)], align=True
)

_GAP, _REPEATED, _RESET, _OUT_OF_RANGE = (kind.value for kind in Discontinuity)
_STARTED, _NEXT, _HIGH, _RESETS = (place.value for place in Progress)
_MAX_QUEUE_OFFSET, _UNKNOWN = MAX_QUEUE_OFFSET, UNKNOWN_QUEUE_OFFSET


def new_progress(first_offset: int | None) -> Int64s:
    """Return the state of a queue before its first record; ``first_offset``: what that must carry."""
    progress = np.zeros(len(Progress), np.int64)
    progress[Progress.STARTED] = first_offset is not None
    progress[Progress.NEXT] = progress[Progress.HIGH] = first_offset or 0
    return progress


@kernel
def _kind(offset: int, count: int, following: int, progress: Int64s) -> int:
    """Name a break; -1 for a queue that goes on where it ended before a repetition."""
    expected = progress[_NEXT]
    if offset == 0:
        return _RESET
    if offset < 0 or offset > _MAX_QUEUE_OFFSET or following == expected + count:
        return _OUT_OF_RANGE
    if offset > expected:
        beyond = offset - progress[_HIGH]
        return -1 if beyond == 0 or beyond == progress[_RESETS] else _GAP
    return _REPEATED


@kernel
def follow_offset(offset: int, count: int, following: int, progress: Int64s) -> tuple[int, int, int]:
    """Take the next queue offset of a queue.

    Args:
        offset: what the record carries; `UNKNOWN_QUEUE_OFFSET` is what should come.
        count: how many offsets it takes: more than one in a batch queue.
        following: what the record after it carries, -1 if there is none.
        progress: see ``Progress``; carried on.

    Returns:
        What is wrong, a ``Discontinuity`` or -1; the queue offset that should come; the one that does.
    """
    if not progress[_STARTED]:
        progress[_STARTED] = 1
        progress[_NEXT] = min(max(offset, 0), _MAX_QUEUE_OFFSET)
    expected = as_int(progress[_NEXT])
    if offset == _UNKNOWN:
        offset = expected
    kind = -1 if offset == expected else _kind(offset, count, following, progress)
    alone = kind == _RESET and following == expected + count
    progress[_NEXT] = (expected if kind == _OUT_OF_RANGE or alone else offset) + count
    progress[_RESETS] += kind == _RESET
    if progress[_NEXT] > progress[_HIGH]:
        progress[_HIGH], progress[_RESETS] = progress[_NEXT], 0
    return kind, expected, offset


def _example_of_find_breaks() -> tuple[object, ...]:
    numbers, totals = np.empty(0, np.int64), np.zeros(len(Discontinuity), np.int64)
    return numbers, numbers, 0, new_progress(None), np.empty(0, BREAK_ROW), totals


@entry(_example_of_find_breaks)
@kernel
def find_breaks(
    offsets: Int64s, counts: Int64s, judged: int, progress: Int64s, breaks: Rows, totals: Int64s
) -> int:
    """Find the rows whose queue offset does not follow.

    Args:
        offsets: ``(n,)`` queue offsets of one queue in log order; `UNKNOWN_QUEUE_OFFSET` is what should come.
        counts: ``(n,)``, how many offsets each takes: more than one in a batch queue.
        judged: rows to look at; one more may be there to look ahead at.
        progress: see ``Progress``; carried on.
        breaks: filled, of ``BREAK_ROW``; those that find no room only count.
        totals: breaks by ``Discontinuity``, added to.

    Returns:
        How many breaks were filled in.
    """
    filled = 0
    for row in range(judged):
        following = offsets[row + 1] if row + 1 < len(offsets) else -1
        kind, expected, offset = follow_offset(offsets[row], counts[row], following, progress)
        if kind >= 0:
            totals[kind] += 1
            if filled < len(breaks):
                one = breaks[filled]
                one.kind, one.row, one.expected, one.observed = kind, row, expected, offset
                filled += 1
    return filled
