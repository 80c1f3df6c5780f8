"""The census of one split, taken while its records are checked."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from rmqtool.check.log.census import DELAY_BOUNDS_MS, SplitCensus
from rmqtool.dispatch.census_kernels import (
    CELL_ROW,
    ONE_QUEUE,
    TOPIC_ROW,
    Tally,
    count_messages,
    place_cells,
)
from rmqtool.dispatch.queues import QueueTable
from rmqtool.javacompat import decode_utf8
from rmqtool.store.names import safe_component

if TYPE_CHECKING:
    import numpy.typing as npt

    from rmqtool.arrays import Int64s, Rows
    from rmqtool.check.log.census import Period
    from rmqtool.dispatch.policy import DispatchPolicy
    from rmqtool.scan.walk import MessageBatch


_FIRST_CELLS = 1 << 10
_MINUTE_ROOM = 1 << 12


class CensusTaker:
    """Counts the messages of a split.

    Args:
        period: what is told apart over time.
        policy: of the topic table.
    """

    def __init__(self, period: Period, policy: DispatchPolicy) -> None:
        self._period = np.array([period.start_ms, period.width_ms, period.buckets], np.int64)
        self._topics = QueueTable(policy, safe_component)
        self._figures: Rows = np.zeros(len(self._topics.rows), TOPIC_ROW)
        self._cells: Rows = np.zeros(_FIRST_CELLS, CELL_ROW)
        self._slots = _slots_of(self._cells, 0)
        self._room = np.empty(_MINUTE_ROOM, np.int64)
        self._minutes: list[Int64s] = []
        self._delays = np.zeros(len(DELAY_BOUNDS_MS) + 1, np.int64)
        self._bounds = np.array(DELAY_BOUNDS_MS, np.int64)
        self._tally = np.zeros(len(Tally), np.int64)
        self._tally[Tally.LAST_MINUTE] = -1

    def take(self, batch: MessageBatch) -> None:
        """Count a batch."""
        row = 0
        while (row := self._count(batch, row)) < len(batch.rows):
            if self._tally[Tally.CELLS] >= len(self._cells):
                self._grow()
            elif self._tally[Tally.MINUTES] >= len(self._room):
                self._flush()
            else:
                self._add_topic(batch, row)

    def taken(self) -> SplitCensus:
        """Return what was counted."""
        self._flush()
        table, count = self._topics, len(self._topics)
        names = tuple(decode_utf8(table.key(number)[0]) for number in range(count))
        cells = self._cells[: self._tally[Tally.CELLS]].copy()
        minutes = np.unique(np.concatenate(self._minutes))
        return SplitCensus(names, self._figures[:count].copy(), cells, minutes, self._delays)

    def _count(self, batch: MessageBatch, row: int) -> int:
        table = self._topics
        return int(
            count_messages(
                *(batch.buffer, batch.base, batch.rows, row, table.slots, table.rows, table.names),
                *(self._period, self._bounds, self._figures, self._cells, self._slots),
                *(self._room, self._delays, self._tally),
            )
        )

    def _add_topic(self, batch: MessageBatch, row: int) -> None:
        start, stop = int(batch.rows["topic_start"][row]), int(batch.rows["topic_stop"][row])
        self._topics.add(batch.buffer[start:stop].tobytes(), ONE_QUEUE)
        missing = len(self._topics.rows) - len(self._figures)
        if missing:
            self._figures = np.concatenate([self._figures, np.zeros(missing, TOPIC_ROW)])

    def _grow(self) -> None:
        used = self._cells
        self._cells = np.concatenate([used, np.zeros_like(used)])
        self._slots = _slots_of(self._cells, len(used))

    def _flush(self) -> None:
        self._minutes.append(np.unique(self._room[: self._tally[Tally.MINUTES]]))
        self._tally[Tally.MINUTES] = 0


def _slots_of(cells: Rows, used: int) -> npt.NDArray[np.int32]:
    """Return the slots of a table that has room for ``cells``, the first of which are in use."""
    slots = np.full(2 * len(cells), -1, np.int32)
    place_cells(cells[:used], slots)
    return slots
