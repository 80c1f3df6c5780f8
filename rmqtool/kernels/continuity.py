"""Continuity of queue offsets along the log: breaks in what the broker counts, runs, and gaps between them.

For runs and gaps every record is followed as it comes, whatever made the broker skip it. A record waits for
the next one of its queue, as that decides what its offset means.
"""

from __future__ import annotations

from enum import IntEnum
from typing import TYPE_CHECKING

import numpy as np

from rmqtool.kernels.bytes import as_int
from rmqtool.kernels.jit import empty, entry, kernel
from rmqtool.kernels.properties import offsets_taken
from rmqtool.kernels.rows import UNKNOWN_QUEUE_OFFSET, MessageBatch, no_messages
from rmqtool.kernels.units import MAX_QUEUE_OFFSET
from rmqtool.kernels.walk import frame_stop

if TYPE_CHECKING:
    from rmqtool.arrays import Int64s, Rows


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


def new_progress(first_offset: int | None) -> Int64s:
    """Return the state of a queue before its first record; ``first_offset``: what that must carry."""
    progress = np.zeros(len(QueueProgress), np.int64)
    progress[QueueProgress.STARTED] = first_offset is not None
    progress[QueueProgress.NEXT] = progress[QueueProgress.HIGH] = first_offset or 0
    return progress


@kernel
def _kind(offset: int, count: int, following: int, progress: Int64s) -> int:
    """Name a break; -1 for a queue that goes on where it ended before a repetition."""
    expected = progress[QueueProgress.NEXT]
    if offset == 0:
        return Discontinuity.RESET
    if offset < 0 or offset > MAX_QUEUE_OFFSET or following == expected + count:
        return Discontinuity.OUT_OF_RANGE
    if offset > expected:
        beyond = offset - progress[QueueProgress.HIGH]
        return -1 if beyond == 0 or beyond == progress[QueueProgress.RESETS] else Discontinuity.GAP
    return Discontinuity.REPEATED


@kernel
def follow_offset(offset: int, count: int, following: int, progress: Int64s) -> tuple[int, int, int]:
    """Take the next queue offset of a queue.

    Args:
        offset: what the record carries; `UNKNOWN_QUEUE_OFFSET` is what should come.
        count: how many offsets it takes: more than one in a batch queue.
        following: what the record after it carries, -1 if there is none.
        progress: see ``QueueProgress``; carried on.

    Returns:
        A ``Discontinuity`` or -1; the queue offset that should come; the one that does.
    """
    if not progress[QueueProgress.STARTED]:
        progress[QueueProgress.STARTED] = 1
        progress[QueueProgress.NEXT] = min(max(offset, 0), MAX_QUEUE_OFFSET)
    expected = as_int(progress[QueueProgress.NEXT])
    if offset == UNKNOWN_QUEUE_OFFSET:
        offset = expected
    kind = -1 if offset == expected else _kind(offset, count, following, progress)
    alone = kind == Discontinuity.RESET and following == expected + count
    progress[QueueProgress.NEXT] = (
        expected if kind == Discontinuity.OUT_OF_RANGE or alone else offset
    ) + count
    progress[QueueProgress.RESETS] += kind == Discontinuity.RESET
    if progress[QueueProgress.NEXT] > progress[QueueProgress.HIGH]:
        progress[QueueProgress.HIGH], progress[QueueProgress.RESETS] = progress[QueueProgress.NEXT], 0
    return kind, expected, offset


@entry(lambda: (*empty(np.int64, np.int64), 0, new_progress(None), *empty(BREAK_ROW, np.int64)), rare=True)
@kernel
def find_breaks(
    offsets: Int64s, counts: Int64s, judged: int, progress: Int64s, breaks: Rows, totals: Int64s
) -> int:
    """Find the rows whose queue offset does not follow.

    Args:
        offsets: ``(n,)`` queue offsets of one queue in log order; `UNKNOWN_QUEUE_OFFSET` is what should come.
        counts: ``(n,)``, how many offsets each takes: more than one in a batch queue.
        judged: rows to examine; one more may follow, to look ahead.
        progress: see ``QueueProgress``; carried on.
        breaks: filled, of ``BREAK_ROW``; those that find no room only count.
        totals: breaks by ``Discontinuity``, added to.

    Returns:
        Number of breaks filled in.
    """
    filled = 0
    for row in range(judged):
        following = offsets[row + 1] if row + 1 < len(offsets) else -1
        kind, expected, offset = follow_offset(offsets[row], counts[row], following, progress)
        if kind >= 0:
            totals[kind] += 1
            if filled < len(breaks):
                fault = breaks[filled]
                fault.kind, fault.row, fault.expected, fault.observed = kind, row, expected, offset
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
_NONE = -1


@kernel
def _close(number: int, state: Int64s, runs: Rows, filled: int) -> int:
    """Put the run that is open, if one is, among the others."""
    if state[RunState.OPEN]:
        run = runs[filled]
        run.queue, run.first, run.stop = number, state[RunState.RUN_FIRST], state[RunState.RUN_STOP]
        run.place, run.end, run.anew = (
            state[RunState.RUN_PLACE],
            state[RunState.RUN_END],
            state[RunState.RUN_ANEW],
        )
        state[RunState.OPEN] = 0
        return filled + 1
    return filled


@kernel
def _judge(number: int, state: Int64s, following: int, runs: Rows, filled: int) -> int:
    """Judge the record that waits, if one does; return how many runs there are then."""
    if not state[RunState.WAITS]:
        return filled
    kind, expected, observed = follow_offset(state[RunState.OFFSET], state[RunState.COUNT], following, state)
    if kind == Discontinuity.GAP:
        state[RunState.MISSING] += observed - expected
    if kind >= 0 and state[QueueProgress.NEXT] == expected + state[RunState.COUNT]:
        observed = expected  # it says something else, and the queue goes on as if it did not
    if not state[RunState.OPEN] or observed != state[RunState.RUN_STOP]:
        filled = _close(number, state, runs, filled)
        state[RunState.OPEN], state[RunState.RUN_FIRST], state[RunState.RUN_PLACE] = (
            1,
            observed,
            state[RunState.PLACE],
        )
        state[RunState.RUN_ANEW] = kind == Discontinuity.RESET
    state[RunState.RUN_STOP], state[RunState.RUN_END] = observed + state[RunState.COUNT], state[RunState.END]
    return filled


@kernel
def _follow(
    number: int, offset: int, count: int, place: int, stop: int, state: Int64s, runs: Rows, filled: int
) -> int:
    """Let the next record of a queue wait, once the one that waits is judged."""
    filled = _judge(number, state, offset, runs, filled)
    state[RunState.WAITS], state[RunState.OFFSET], state[RunState.COUNT] = 1, offset, count
    state[RunState.PLACE], state[RunState.END] = place, stop
    return filled


@entry(
    lambda: (no_messages(), *empty(np.int64), np.empty((0, STATE_WIDTH), np.int64), *empty(RUN_ROW)),
    rare=True,
)
@kernel
def follow_rows(batch: MessageBatch, numbers: Int64s, states: Int64s, runs: Rows) -> int:
    """Follow the queue offsets of a batch, with the numbers of their queues; half messages have none.

    Returns:
        Number of ended runs, which are in ``runs``.
    """
    buffer, rows, values = batch.buffer, batch.rows, batch.values
    filled = 0
    for i in range(len(rows)):
        row = rows[i]
        number, count = as_int(numbers[i]), offsets_taken(buffer, row, values[i])
        if count:
            stop = frame_stop(row)
            filled = _follow(
                number, row.queue_offset, count, row.log_offset, stop, states[number], runs, filled
            )
    return filled


@entry(lambda: (np.empty((0, 5), np.int64), np.empty((0, STATE_WIDTH), np.int64), *empty(RUN_ROW)), rare=True)
@kernel
def follow_places(places: Int64s, states: Int64s, runs: Rows) -> int:
    """Do the same for records that were read before.

    ``places`` are ``(n, 5)``: number of the queue, queue offset, offsets taken, start and stop in the log.
    """
    filled = 0
    for i in range(len(places)):
        number = as_int(places[i, 0])
        filled = _follow(
            number,
            as_int(places[i, 1]),
            as_int(places[i, 2]),
            as_int(places[i, 3]),
            as_int(places[i, 4]),
            states[number],
            runs,
            filled,
        )
    return filled


@entry(lambda: (np.empty((0, STATE_WIDTH), np.int64), *empty(RUN_ROW)), rare=True)
@kernel
def judge_last(states: Int64s, runs: Rows) -> int:
    """Judge what waits still; there is room for two runs of each queue."""
    filled = 0
    for number in range(len(states)):
        filled = _judge(number, states[number], _NONE, runs, filled)
        filled = _close(number, states[number], runs, filled)
    return filled
