"""Totals of the log by topic and queue, in memory that grows with the queues only."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rmqtool.kernels.continuity import RUN_ROW, STATE_WIDTH, QueueProgress, RunState, follow_rows, judge_last

if TYPE_CHECKING:
    from rmqtool.arrays import Int64s, Rows

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from rmqtool.javacompat import decode_utf8
from rmqtool.kernels.queues import TOTAL_ROW, QueueArrays, add_up, fill_slots

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rmqtool.kernels.rows import MessageBatch

_QUEUES = 64
_NAME_BYTES = 4096


class Total(NamedTuple):
    """Records of one topic, or of one of its queues.

    Attributes:
        messages: how many records.
        bytes: their size.
        oldest_ms: least STORETIMESTAMP.
        newest_ms: greatest STORETIMESTAMP.
        largest: bytes of the largest record.
        largest_at: its physical offset.
    """

    messages: int
    bytes: int
    oldest_ms: int
    newest_ms: int
    largest: int
    largest_at: int

    def plus(self, other: Total | None) -> Total:
        """Return both together; of two records of one size the one further to the front."""
        if other is None:
            return self
        return Total(
            self.messages + other.messages,
            self.bytes + other.bytes,
            min(self.oldest_ms, other.oldest_ms),
            max(self.newest_ms, other.newest_ms),
            *max((self[4:], other[4:]), key=lambda one: (one[0], -one[1])),
        )


class QueueTotals:
    """Totals by topic and queue, filled batch by batch.

    Attributes:
        table: Of ``TOTAL_ROW``, with room for more than are in use.
    """

    def __init__(self) -> None:
        slots, names = np.full(4 * _QUEUES, -1, np.int32), np.empty(_NAME_BYTES, np.uint8)
        self.table = QueueArrays(slots, np.empty(_QUEUES, TOTAL_ROW), names)
        self._used = np.zeros(2, np.int64)

    def add(self, batch: MessageBatch) -> None:
        """Add all messages of a batch."""
        row = 0
        while True:
            row = add_up(batch, row, self.table, self._used)
            if row == len(batch.rows):
                return
            one = batch.rows[row]
            self._make_room(int(one["topic_stop"]) - int(one["topic_start"]))

    def __iter__(self) -> Iterator[tuple[tuple[str, int], Total]]:
        """Yield topic, as Java decodes it, with queue id, and total; malformed names may come twice."""
        for row in self.table.rows[: int(self._used[0])].tolist():
            _, start, length, queue_id, *numbers = row
            yield (decode_utf8(self.table.names[start : start + length].tobytes()), queue_id), Total(*numbers)

    def _make_room(self, name_bytes: int) -> None:
        count, names_used = self._used.tolist()
        slots, rows, names = self.table
        if count == len(rows):
            rows = np.concatenate((rows, np.empty_like(rows)))
            slots = np.full(2 * len(slots), -1, np.int32)
            fill_slots(rows, count, slots)
        while names_used + name_bytes > len(names):
            names = np.concatenate((names, np.empty_like(names)))
        self.table = QueueArrays(slots, rows, names)


class OffsetGaps(NamedTuple):
    """Queue offsets that are missing between those of a log.

    Attributes:
        offsets: how many.
        queues: in how many queues.
    """

    offsets: int
    queues: int


class OffsetWalk:
    """Follows the queue offsets along a log, and adds its records up by queue.

    Attributes:
        queues: the totals.
    """

    def __init__(self, *, from_zero: bool) -> None:
        self._from_zero = from_zero
        self.queues = QueueTotals()
        self._states: Int64s = np.zeros((0, STATE_WIDTH), np.int64)
        self._runs: list[Rows] = []

    def add(self, batch: MessageBatch) -> None:
        """Take messages, in log order."""
        self.queues.add(batch)
        table = self.queues.table
        if len(self._states) < len(table.rows):
            more = np.zeros((len(table.rows) - len(self._states), STATE_WIDTH), np.int64)
            more[:, QueueProgress.STARTED] = self._from_zero
            self._states = np.concatenate((self._states, more))
        runs = np.empty(len(batch.rows), RUN_ROW)  # each record ends one run at most
        filled = follow_rows(batch, table, self._states, runs)
        if filled:
            self._runs.append(runs[:filled].copy())

    def finish(self) -> OffsetGaps:
        """Return what is missing; nothing can be taken after that."""
        runs = np.empty(2 * len(self._states), RUN_ROW)
        self._runs.append(runs[: judge_last(self._states, runs)])
        missing = self._states[:, RunState.MISSING]
        return OffsetGaps(int(missing.sum()), int(np.count_nonzero(missing)))

    def runs(self) -> dict[tuple[str, int], Rows]:
        """Return the runs of each queue in log order, ``(n,)`` of ``RUN_ROW``, once it is finished."""
        runs = np.concatenate([np.empty(0, RUN_ROW), *self._runs])
        runs = runs[np.argsort(runs["queue"], kind="stable")]
        bounds = np.searchsorted(runs["queue"], np.arange(len(self._states) + 1))
        found: dict[tuple[str, int], Rows] = {}
        for number, (key, _) in enumerate(self.queues):
            mine = runs[bounds[number] : bounds[number + 1]]
            if len(mine):
                found[key] = np.concatenate((found[key], mine)) if key in found else mine
        return found
