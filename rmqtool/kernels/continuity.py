"""Continuity of queue offsets along the log: breaks in what the broker counts, runs, and gaps between them.

For runs and gaps every record is followed as it comes, whatever made the broker skip it. A record waits for
the next one of its queue, as that decides what its offset means.
"""

from __future__ import annotations

from enum import IntEnum
from typing import TYPE_CHECKING

import numpy as np

from rmqtool.formats.message import TRANSACTION_COMMIT, TRANSACTION_MASK, TRANSACTION_NONE
from rmqtool.kernels.integers import as_int, parse_short
from rmqtool.kernels.jit import entry, kernel
from rmqtool.kernels.queues import TOTAL_ROW, find_queue
from rmqtool.kernels.rows import MESSAGE_ROW, UNKNOWN_QUEUE_OFFSET, Property
from rmqtool.kernels.units import MAX_QUEUE_OFFSET

if TYPE_CHECKING:
    import numpy.typing as npt

    from rmqtool.arrays import Buffer, Int64s, Rows


class Discontinuity(IntEnum):
    """Break between a queue offset and the one before."""

    GAP = 0
    REPEATED = 1
    RESET = 2  # it falls back to 0
    OUT_OF_RANGE = 3  # no queue has it, or the next one follows as if this were another


class QueueProgress(IntEnum):
    """Places in the array that carries a queue's state from chunk to chunk."""

    STARTED = 0
    NEXT = 1  # the queue offset that should come
    HIGH = 2  # the highest that should have come so far
    RESETS = 3  # falls back to 0 since: such a unit is appended where the queue ends, and moves that end


BREAK_ROW = np.dtype(
    [("kind", np.int64), ("row", np.int64), ("expected", np.int64), ("observed", np.int64)], align=True
)

_GAP, _REPEATED, _RESET, _OUT_OF_RANGE = (kind.value for kind in Discontinuity)
_STARTED, _NEXT, _HIGH, _RESETS = (place.value for place in QueueProgress)
_MAX_QUEUE_OFFSET, _UNKNOWN = MAX_QUEUE_OFFSET, UNKNOWN_QUEUE_OFFSET


def new_progress(first_offset: int | None) -> Int64s:
    """Return the state of a queue before its first record; ``first_offset``: what that must carry."""
    progress = np.zeros(len(QueueProgress), np.int64)
    progress[QueueProgress.STARTED] = first_offset is not None
    progress[QueueProgress.NEXT] = progress[QueueProgress.HIGH] = first_offset or 0
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
        progress: see ``QueueProgress``; carried on.

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
        progress: see ``QueueProgress``; carried on.
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


class RunState(IntEnum):
    """Places in the state of a queue, after those of ``QueueProgress``."""

    WAITS = len(QueueProgress)
    OFFSET = len(QueueProgress) + 1
    COUNT = len(QueueProgress) + 2
    MISSING = len(QueueProgress) + 3
    PLACE = len(QueueProgress) + 4  # of the record that waits
    END = len(QueueProgress) + 5
    OPEN = len(QueueProgress) + 6  # whether there is a run that goes on; the next are its fields
    RUN_FIRST = len(QueueProgress) + 7
    RUN_STOP = len(QueueProgress) + 8
    RUN_PLACE = len(QueueProgress) + 9
    RUN_END = len(QueueProgress) + 10
    RUN_ANEW = len(QueueProgress) + 11


RUN_ROW = np.dtype(
    [
        ("queue", np.int64),  # its number
        ("first", np.int64),  # queue offset
        ("stop", np.int64),  # queue offset after the last
        ("place", np.int64),  # physical offset of the first record
        ("end", np.int64),  # after the last record
        ("anew", np.int64),  # whether the queue offsets begin again here
    ],
    align=True,
)
"""Records of a queue whose queue offsets follow each other."""

STATE_WIDTH = len(QueueProgress) + len(RunState)
_WAITS, _OFFSET, _COUNT, _MISSING, _PLACE, _END = (place.value for place in list(RunState)[:6])
_OPEN, _RUN_FIRST, _RUN_STOP, _RUN_PLACE, _RUN_END, _RUN_ANEW = (place.value for place in list(RunState)[6:])
_NUM, _BASE = Property.INNER_NUM.value, Property.INNER_BASE.value
_NONE = -1


@kernel
def _close(number: int, state: Int64s, runs: Rows, filled: int) -> int:
    """Put the run that is open, if one is, among the others."""
    if state[_OPEN]:
        one = runs[filled]
        one.queue, one.first, one.stop = number, state[_RUN_FIRST], state[_RUN_STOP]
        one.place, one.end, one.anew = state[_RUN_PLACE], state[_RUN_END], state[_RUN_ANEW]
        state[_OPEN] = 0
        return filled + 1
    return filled


@kernel
def _judge(number: int, state: Int64s, following: int, runs: Rows, filled: int) -> int:
    """Judge the record that waits, if one does; return how many runs there are then."""
    if not state[_WAITS]:
        return filled
    kind, expected, observed = follow_offset(state[_OFFSET], state[_COUNT], following, state)
    if kind == _GAP:
        state[_MISSING] += observed - expected
    if kind >= 0 and state[_NEXT] == expected + state[_COUNT]:
        observed = expected  # it says something else, and the queue goes on as if it did not
    if not state[_OPEN] or observed != state[_RUN_STOP]:
        filled = _close(number, state, runs, filled)
        state[_OPEN], state[_RUN_FIRST], state[_RUN_PLACE] = 1, observed, state[_PLACE]
        state[_RUN_ANEW] = kind == _RESET
    state[_RUN_STOP], state[_RUN_END] = observed + state[_COUNT], state[_END]
    return filled


def _example_of_follow_rows() -> tuple[object, ...]:
    rows, values = np.empty(0, MESSAGE_ROW), np.empty((0, len(Property), 2), np.int64)
    slots, totals, names = np.full(1, -1, np.int32), np.empty(0, TOTAL_ROW), np.empty(0, np.uint8)
    states, runs = np.empty((0, STATE_WIDTH), np.int64), np.empty(0, RUN_ROW)
    return np.empty(1, np.uint8), rows, values, slots, totals, names, states, runs


@entry(_example_of_follow_rows)
@kernel
def follow_rows(
    buffer: Buffer,
    rows: Rows,
    values: Int64s,
    slots: npt.NDArray[np.int32],
    totals: Rows,
    names: Buffer,
    states: Int64s,
    runs: Rows,
) -> int:
    """Follow the queue offsets of a batch whose queues are all in the table; half messages have none.

    Returns:
        How many runs ended, which are in ``runs``.
    """
    filled = 0
    for i in range(len(rows)):
        row = rows[i]
        kind = row.sys_flag & TRANSACTION_MASK
        if kind != TRANSACTION_NONE and kind != TRANSACTION_COMMIT:  # noqa: PLR1714 - a kernel
            continue
        number = find_queue(buffer, row.topic_start, row.topic_stop, row.queue_id, slots, totals, names)
        state, count = states[number], 1
        if values[i, _NUM, 0] >= 0 and values[i, _BASE, 0] >= 0:
            count = max(parse_short(buffer, values[i, _NUM, 0], values[i, _NUM, 1])[1], 1)
        filled = _judge(number, state, row.queue_offset, runs, filled)
        state[_WAITS], state[_OFFSET], state[_COUNT] = 1, row.queue_offset, count
        state[_PLACE], state[_END] = row.log_offset, row.log_offset + row.total_size
    return filled


@entry(lambda: (np.empty((0, STATE_WIDTH), np.int64), np.empty(0, RUN_ROW)))
@kernel
def judge_last(states: Int64s, runs: Rows) -> int:
    """Judge what waits still; there is room for two runs of each queue."""
    filled = 0
    for number in range(len(states)):
        filled = _judge(number, states[number], _NONE, runs, filled)
        filled = _close(number, states[number], runs, filled)
    return filled
