"""Feed batches of messages to the dispatch kernel: what they put, and the queues they were put into."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from rmqtool.dispatch.kernels import dispatch
from rmqtool.dispatch.policy import Switch, Trait
from rmqtool.dispatch.queues import QueueTable
from rmqtool.dispatch.rows import ENTRY_ROW, KEYLESS_ROW, UNIT_ROW, Count, DispatchOutcome
from rmqtool.javacompat import decode_utf8
from rmqtool.store.names import safe_component

if TYPE_CHECKING:
    import numpy.typing as npt

    from rmqtool.dispatch.policy import DispatchPolicy
    from rmqtool.scan.walk import MessageBatch

    Rows = npt.NDArray[Any]

# Enough for a split of records of 128 bytes: rows never written take no memory, rows never grown no copying.
_FIRST_ROWS = 1 << 21
_FIRST_KEYLESS = 1 << 14
_LONGEST_VALUE = 0x8000  # the most that one message can put: a property value's bytes


class Taken(NamedTuple):
    """What was put; views that the next dispatch may overwrite.

    Attributes:
        units: ``(n,)`` of ``UNIT_ROW`` in log order.
        entries: ``(m,)`` of ``ENTRY_ROW`` in log order.
        keyless: ``(k,)`` of ``KEYLESS_ROW``.
        messages: how many messages were dispatched.
        end_phy_offset: endPhyOffset of the last index file after them.
        unindexed: messages that lie below the index's endPhyOffset when they come.
    """

    units: Rows
    entries: Rows
    keyless: Rows
    messages: int
    end_phy_offset: int
    unindexed: int


class Dispatcher:
    """Feeds batches to the kernel and answers what it cannot know.

    Args:
        policy: the broker's switches.
        end_phy_offset: endPhyOffset of the last index file: messages below it are not indexed.
        passes_stalls: put all of a record that stalls the broker, too.
        queues: queues that are known; None: none is.

    Attributes:
        queues: the queues known before, and those met since.
        first_log_offsets: physical offset of the record where each of the latter was met, by raw topic and
            queue id.
    """

    def __init__(
        self,
        policy: DispatchPolicy,
        *,
        end_phy_offset: int = 0,
        passes_stalls: bool = False,
        queues: QueueTable | None = None,
    ) -> None:
        self.queues = QueueTable(policy, safe_component) if queues is None else queues
        self.first_log_offsets: dict[tuple[bytes, int], int] = {}
        self._units: Rows = np.empty(_FIRST_ROWS, UNIT_ROW)
        self._entries: Rows = np.empty(_FIRST_ROWS, ENTRY_ROW)
        self._keyless: Rows = np.empty(_FIRST_KEYLESS, KEYLESS_ROW)
        self._counts = np.zeros(len(Count), np.int64)
        self._counts[Count.END_PHYSICAL_OFFSET] = end_phy_offset
        self._switches, self._delays = policy.switches(), policy.delay_table()
        self._tag_turns = policy.tag_turns()
        self._switches[Switch.PASSES_STALLS] = passes_stalls
        self._missing = np.zeros(3, np.int64)

    def dispatch(self, batch: MessageBatch, first: int = 0) -> int | None:
        """Dispatch a batch from row ``first`` on; return the row of a record that stalls the broker.

        Of that record the units up to the number that is none are put, and no index entries: the index comes
        after the queues (``DefaultMessageStore#doDispatch``). With ``passes_stalls`` all of it is put.
        """
        row, outcome = first, DispatchOutcome.FULL
        while outcome in (DispatchOutcome.FULL, DispatchOutcome.NEW_QUEUE):
            answer, row = self._run(batch, row)
            outcome = DispatchOutcome(answer)
            if outcome == DispatchOutcome.NEW_QUEUE:
                start, stop, queue_id = (int(value) for value in self._missing)
                raw_topic = batch.buffer[start:stop].tobytes()
                self.queues.add(raw_topic, queue_id)
                self.first_log_offsets[raw_topic, queue_id] = int(batch.rows["log_offset"][row])
            elif outcome == DispatchOutcome.FULL:
                self._grow()
        return row if outcome == DispatchOutcome.STALLED else None

    def taken(self) -> Taken:
        """Return what was put since the beginning, or since `clear`."""
        units, entries, keyless, end_phy_offset, messages, unindexed = (int(count) for count in self._counts)
        return Taken(
            self._units[:units],
            self._entries[:entries],
            self._keyless[:keyless],
            messages,
            end_phy_offset,
            unindexed,
        )

    def clear(self) -> None:
        """Forget what was put; queues and endPhyOffset stay."""
        for count in (Count.UNITS, Count.ENTRIES, Count.KEYLESS, Count.MESSAGES, Count.UNINDEXED):
            self._counts[count] = 0

    def key(self, number: int) -> tuple[str, int]:
        """Return topic, as Java decodes it, and queue id of a queue's number in units."""
        raw_topic, queue_id = self.queues.key(number)
        return decode_utf8(raw_topic), queue_id

    def unsafe(self) -> list[tuple[str, int]]:
        """Return name and queue id of the queues whose units were left out."""
        is_unsafe = self.queues.rows["traits"][: len(self.queues)] & Trait.UNSAFE
        return [self.key(number) for number in np.flatnonzero(is_unsafe).tolist()]

    def unknown_batch_topics(self) -> frozenset[str]:
        """Return topics whose records carry inner batches though the policy gives them plain queues.

        What was put for these is wrong: dispatch anew with `DispatchPolicy.with_batch_topics`. Settings that
        are not there (config/topics.json, the queues' own files) leave the records as the only evidence.
        """
        traits = self.queues.rows["traits"][: len(self.queues)]
        is_unknown = (traits & (Trait.INNER_BATCHES | Trait.BATCH)) == Trait.INNER_BATCHES
        return frozenset(self.key(number)[0] for number in np.flatnonzero(is_unknown).tolist())

    def _run(self, batch: MessageBatch, row: int) -> tuple[int, int]:
        queues = self.queues
        return dispatch(
            batch.buffer,
            batch.rows,
            batch.values,
            row,
            self._switches,
            self._delays,
            self._tag_turns,
            queues.slots,
            queues.rows,
            queues.names,
            self._units,
            self._entries,
            self._keyless,
            self._counts,
            self._missing,
        )

    def _grow(self) -> None:
        """Double every array that is more than half full, or that a long message could overflow."""
        self._units = _doubled(self._units, int(self._counts[Count.UNITS]))
        self._entries = _doubled(self._entries, int(self._counts[Count.ENTRIES]))
        self._keyless = _doubled(self._keyless, int(self._counts[Count.KEYLESS]))


def _doubled(rows: Rows, used: int) -> Rows:
    if len(rows) - used > max(used, _LONGEST_VALUE):
        return rows
    grown = np.empty(2 * len(rows) + _LONGEST_VALUE, rows.dtype)
    grown[:used] = rows[:used]
    return grown
