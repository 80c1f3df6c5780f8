"""Messages to units and index entries, a batch at a time."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from rmqtool.dispatch.kernels import dispatch
from rmqtool.dispatch.queues import QueueTable
from rmqtool.dispatch.rows import ENTRY_ROW, IDLE_ROW, UNIT_ROW, Count, DispatchOutcome
from rmqtool.javacompat import decode_utf8
from rmqtool.store.names import safe_component

if TYPE_CHECKING:
    import numpy.typing as npt

    from rmqtool.dispatch.policy import DispatchPolicy
    from rmqtool.scan.walk import MessageBatch

    Rows = npt.NDArray[Any]

_ROOM = 1 << 16  # a batch has 4096 rows; one message can put as many entries as its property has bytes

QueueKey = tuple[str, int]


class DispatchedBatch(NamedTuple):
    """What a batch puts.

    Attributes:
        messages: how many messages were dispatched.
        units: ``(n,)`` of ``UNIT_ROW``.
        entries: ``(m,)`` of ``ENTRY_ROW``.
        idles: ``(k,)`` of ``IDLE_ROW``, counted from the first of ``entries``.
        stalled_at: place of a record that the dispatch fails at; None if there is none.
    """

    messages: int
    units: Rows
    entries: Rows
    idles: Rows
    stalled_at: int | None


class Dispatcher:
    """Feeds batches to the dispatch kernel.

    Args:
        policy: the broker's switches.
        end_phy_offset: endPhyOffset of the last index file.
    """

    def __init__(self, policy: DispatchPolicy, end_phy_offset: int = 0) -> None:
        self.queues = QueueTable(policy, safe_component)
        self._switches, self._delays = policy.switches(), policy.delay_table()
        self._counts = np.zeros(len(Count), np.int64)
        self._counts[Count.END_PHYSICAL_OFFSET] = end_phy_offset
        self._missing = np.zeros(3, np.int64)
        self._units: Rows = np.empty(_ROOM, UNIT_ROW)
        self._entries: Rows = np.empty(_ROOM, ENTRY_ROW)
        self._idles: Rows = np.empty(_ROOM, IDLE_ROW)

    def key(self, number: int) -> QueueKey:
        """Return topic and queue id of a queue's number in units."""
        raw_topic, queue_id = self.queues.key(number)
        return decode_utf8(raw_topic), queue_id

    def dispatch(self, batch: MessageBatch) -> DispatchedBatch:
        """Dispatch a batch; the result is valid until the next one."""
        for count in (Count.UNITS, Count.ENTRIES, Count.IDLES, Count.MESSAGES):
            self._counts[count] = 0
        row, outcome = 0, DispatchOutcome.FULL
        while outcome in (DispatchOutcome.FULL, DispatchOutcome.NEW_QUEUE):
            answer, row = self._run(batch, row)
            outcome = DispatchOutcome(answer)
            if outcome == DispatchOutcome.NEW_QUEUE:
                start, stop, queue_id = (int(value) for value in self._missing)
                self.queues.add(batch.buffer[start:stop].tobytes(), queue_id)
            elif outcome == DispatchOutcome.FULL:
                self._grow()
        stalled = int(batch.rows["place"][row]) if outcome == DispatchOutcome.STALLED else None
        units, entries, idles, _, messages = (int(count) for count in self._counts)
        return DispatchedBatch(
            messages, self._units[:units], self._entries[:entries], self._idles[:idles], stalled
        )

    def _run(self, batch: MessageBatch, row: int) -> tuple[int, int]:
        queues = self.queues
        return dispatch(
            batch.buffer,
            batch.rows,
            batch.values,
            row,
            self._switches,
            self._delays,
            queues.slots,
            queues.rows,
            queues.names,
            self._units,
            self._entries,
            self._idles,
            self._counts,
            self._missing,
        )

    def _grow(self) -> None:
        self._units = _doubled(self._units)
        self._entries = _doubled(self._entries)
        self._idles = _doubled(self._idles)


def _doubled(rows: Rows) -> Rows:
    return np.concatenate((rows, np.empty_like(rows)))
