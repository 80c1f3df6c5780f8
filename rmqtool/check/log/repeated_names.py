"""Messages that name one light queue more than once in INNER_MULTI_DISPATCH.

A broker gives all of these names the same queue offset, and the queue one unit: dispatch passes over the
others as repetitions. 4.9 counts the queue up by one, 5.x by one for each name, so that queue offsets in the
log run ahead of the queue until a restart counts it anew (``LmqDispatch#updateLmqOffsets`` and
``QueueOffsetOperator#increaseLmqOffset``, 5.3.3; ``MultiDispatch#updateMultiQueueOffset``, 4.9.8).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from rmqtool.arrays import Bools, Int64s


class RepeatedName(NamedTuple):
    """A message that names a queue more than once.

    Attributes:
        log_offset: of the message.
        queue_offset: that all the names have.
        times: how often it is named.
    """

    log_offset: int
    queue_offset: int
    times: int


class RepeatedNames:
    """Goes through the units of one queue in log order, chunk by chunk.

    Args:
        max_kept: messages that are kept.

    Attributes:
        kept: the first messages that name the queue more than once.
        count: how many there are.
        skipped: how far the queue offsets of the log ran ahead of the queue at most.
    """

    def __init__(self, max_kept: int) -> None:
        self._max_kept = max_kept
        self._log_offset = self._queue_offset = -1
        self._times, self._ahead = 1, 0
        self.kept: list[RepeatedName] = []
        self.count = 0
        self.skipped = 0

    def take(self, queue_offsets: Int64s, log_offsets: Int64s) -> tuple[Int64s, Bools | None]:
        """Look at consecutive units.

        Returns:
            Queue offsets as they would be had every message named the queue once, and which units to keep;
            None for all of them.
        """
        again = (log_offsets == np.concatenate([[self._log_offset], log_offsets[:-1]])) & (
            queue_offsets == np.concatenate([[self._queue_offset], queue_offsets[:-1]])
        )
        if self._times == 1 and not self._ahead and not again.any():
            self._log_offset, self._queue_offset = int(log_offsets[-1]), int(queue_offsets[-1])
            return queue_offsets, None
        places = queue_offsets.copy()
        for row, (queue_offset, log_offset) in enumerate(
            zip(queue_offsets.tolist(), log_offsets.tolist(), strict=True)
        ):
            if again[row]:
                self._repeat()
            else:
                self._next(queue_offset, log_offset)
            places[row] -= self._ahead if queue_offset >= 0 else 0
        return places, ~again

    def _repeat(self) -> None:
        self._times += 1
        if self._times == 2:
            self.count += 1
            if len(self.kept) < self._max_kept:
                self.kept.append(RepeatedName(self._log_offset, self._queue_offset, self._times))
        elif self.kept and self.kept[-1].log_offset == self._log_offset:
            self.kept[-1] = self.kept[-1]._replace(times=self._times)

    def _next(self, queue_offset: int, log_offset: int) -> None:
        if self._times > 1 and queue_offset == self._queue_offset + self._times:
            self._ahead += self._times - 1
            self.skipped = max(self.skipped, self._ahead)
        elif self._ahead and queue_offset == self._queue_offset - self._ahead + 1:
            self._ahead = 0
        self._log_offset, self._queue_offset, self._times = log_offset, queue_offset, 1
