"""Queues that this process has met before: most splits of a log have the same ones.

To meet one costs some ten microseconds of Python; a log of thousands of files has thousands in each.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rmqtool.dispatch.policy import DispatchPolicy
    from rmqtool.dispatch.queues import QueueTable

_MOST_QUEUES = 1 << 16
"""Of a larger table the copy would cost more than it saves where a split has few."""


class KnownQueues:
    """The largest table of queues so far. Threads may share it: each gets and gives whole tables."""

    def __init__(self) -> None:
        self._last: tuple[DispatchPolicy, QueueTable] | None = None

    def of(self, policy: DispatchPolicy) -> QueueTable | None:
        """Return the queues known under a policy, in a table that the caller may change; None for none."""
        last = self._last
        return last[1].copy() if last is not None and last[0] == policy else None

    def keep(self, policy: DispatchPolicy, queues: QueueTable) -> None:
        """Remember queues, of which the caller changes nothing any more."""
        last = self._last
        most = len(last[1]) if last is not None and last[0] == policy else 0
        if most < len(queues) <= _MOST_QUEUES:
            self._last = policy, queues
