"""Queue offsets that no record of the log carries: messages whose record is nowhere.

Every record is followed as it comes, whatever made the broker skip it; the judge of what is missing is that
of ``continuity``. A record waits for the next one of its queue, as that decides what its offset means.
"""

from __future__ import annotations

from enum import IntEnum
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from rmqtool.dispatch.continuity import Discontinuity, Progress, follow_offset
from rmqtool.dispatch.queue_kernels import find_queue
from rmqtool.dispatch.totals import QueueTotals
from rmqtool.dispatch.totals_kernels import TOTAL_ROW
from rmqtool.formats.message import TRANSACTION_COMMIT, TRANSACTION_MASK, TRANSACTION_NONE
from rmqtool.javacompat.kernels import parse_short
from rmqtool.jit import entry, kernel
from rmqtool.scan.rows import MESSAGE_ROW, Property

if TYPE_CHECKING:
    import numpy.typing as npt

    from rmqtool.arrays import Buffer, Int64s, Rows
    from rmqtool.scan.walk import MessageBatch


class _State(IntEnum):
    """Places in the state of a queue, after those of ``Progress``."""

    WAITS = len(Progress)
    OFFSET = len(Progress) + 1
    COUNT = len(Progress) + 2
    MISSING = len(Progress) + 3


_WIDTH = len(Progress) + len(_State)
_WAITS, _OFFSET, _COUNT, _MISSING = (place.value for place in _State)
_GAP, _STARTED = Discontinuity.GAP.value, Progress.STARTED.value
_NUM, _BASE = Property.INNER_NUM.value, Property.INNER_BASE.value
_NONE = -1


class OffsetGaps(NamedTuple):
    """Queue offsets that are missing between those of a log.

    Attributes:
        offsets: how many.
        queues: in how many queues.
    """

    offsets: int
    queues: int


@kernel
def _judge(state: Int64s, following: int) -> None:
    """Judge the record that waits, if one does."""
    if state[_WAITS]:
        kind, expected, observed = follow_offset(state[_OFFSET], state[_COUNT], following, state)
        if kind == _GAP:
            state[_MISSING] += observed - expected


def _example_of_follow_rows() -> tuple[object, ...]:
    rows, values = np.empty(0, MESSAGE_ROW), np.empty((0, len(Property), 2), np.int64)
    slots, totals, names = np.full(1, -1, np.int32), np.empty(0, TOTAL_ROW), np.empty(0, np.uint8)
    return np.empty(1, np.uint8), rows, values, slots, totals, names, np.empty((0, _WIDTH), np.int64)


@entry(_example_of_follow_rows)
@kernel
def _follow_rows(
    buffer: Buffer,
    rows: Rows,
    values: Int64s,
    slots: npt.NDArray[np.int32],
    totals: Rows,
    names: Buffer,
    states: Int64s,
) -> None:
    """Follow the queue offsets of a batch whose queues are all in the table; half messages have none."""
    for i in range(len(rows)):
        row = rows[i]
        kind = row.sys_flag & TRANSACTION_MASK
        if kind != TRANSACTION_NONE and kind != TRANSACTION_COMMIT:  # noqa: PLR1714 - a kernel
            continue
        number = find_queue(buffer, row.topic_start, row.topic_stop, row.queue_id, slots, totals, names)
        state, count = states[number], 1
        if values[i, _NUM, 0] >= 0 and values[i, _BASE, 0] >= 0:
            count = max(parse_short(buffer, values[i, _NUM, 0], values[i, _NUM, 1])[1], 1)
        _judge(state, row.queue_offset)
        state[_WAITS], state[_OFFSET], state[_COUNT] = 1, row.queue_offset, count


@entry(lambda: (np.empty((0, _WIDTH), np.int64),))
@kernel
def _judge_last(states: Int64s) -> None:
    for number in range(len(states)):
        _judge(states[number], _NONE)


class OffsetWalk:
    """Follows the queue offsets along a log.

    Args:
        from_zero: the log begins at 0, so every queue must begin at offset 0.
    """

    def __init__(self, *, from_zero: bool) -> None:
        self._from_zero = from_zero
        self._queues = QueueTotals()
        self._states: Int64s = np.zeros((0, _WIDTH), np.int64)

    def add(self, batch: MessageBatch) -> None:
        """Take messages, in log order."""
        queues = self._queues
        queues.add(batch)
        if len(self._states) < len(queues.rows):
            more = np.zeros((len(queues.rows) - len(self._states), _WIDTH), np.int64)
            more[:, _STARTED] = self._from_zero
            self._states = np.concatenate((self._states, more))
        _follow_rows(
            batch.buffer, batch.rows, batch.values, queues.slots, queues.rows, queues.names, self._states
        )

    def finish(self) -> OffsetGaps:
        """Return what is missing; nothing can be taken after that."""
        _judge_last(self._states)
        missing = self._states[:, _MISSING]
        return OffsetGaps(int(missing.sum()), int(np.count_nonzero(missing)))
