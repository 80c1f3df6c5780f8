"""The account of one store, which every command reads that says how many messages are lost.

It is made when something points to a loss: a sound log is read once.
"""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from rmqtool.account.log_losses import LogAccount, log_losses
from rmqtool.account.model import NO_LOSSES, cut_finding, is_borne_out
from rmqtool.account.survey import survey
from rmqtool.store.kinds import UNIT_QUEUE_KINDS, PathKind

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rmqtool.account.absent import Absent
    from rmqtool.account.log_losses import LossListener, QueueKey
    from rmqtool.account.model import LogLosses
    from rmqtool.account.survey import SurveyedLog
    from rmqtool.arrays import Bools, Int64s
    from rmqtool.findings import Finding
    from rmqtool.store import Store
    from rmqtool.store.segments import FileQueue


class StoreAccount:
    """The account of a store.

    Args:
        store: whose queues, index and consumer offsets.
        log: as it is read; None is the store's, or that beside the part that is shown.
    """

    def __init__(self, store: Store, log: FileQueue | None = None) -> None:
        self._store, self._log = store, store.log if log is None else log

    @cached_property
    def looked(self) -> SurveyedLog:
        """Return what is in the log; records that replicas have not confirmed are marked."""
        return survey(self._log, self._store.confirm_offset)

    @cached_property
    def _account(self) -> LogAccount:
        return LogAccount(self._store, self._log.start)

    @cached_property
    def _listed(self) -> dict[QueueKey, Int64s]:
        """Return by queue the places of messages that are lost, and that units point to."""

        def places(absent: list[Absent]) -> Int64s:
            return np.array([one.log_offset for one in absent if one.log_offset is not None], np.int64)

        return {key: places(absent) for key, absent, _ in self._account.losses(self.looked)}

    def proves(self, key: QueueKey, physical_offsets: Int64s) -> Bools:
        """Tell which units of a queue, by where they lead to, ``(n,)``, prove a message: there, or lost."""
        return self.lists_lost(key, physical_offsets) | ~self.looked.without_record(physical_offsets)

    def lists_lost(self, key: QueueKey, physical_offsets: Int64s) -> Bools:
        """Tell which units of a queue, by where they lead to, ``(n,)``, prove a message that is lost."""
        return np.isin(physical_offsets, self._listed.get(key, ()))

    @cached_property
    def is_log_cut(self) -> bool:
        """Whether units list what is gone from the log's end, and no kill and no truncation explains that."""
        store, looked = self._store, self.looked
        return not store.is_end_torn_by_kill and is_borne_out(store, looked.end, looked.latest_ms)

    @property
    def can_tell(self) -> bool:
        """Whether the store has what proves lost messages, and its log is all read."""
        if not len(self._log) or self._store.is_log_unread:
            return False
        return not self._store.roots.keys().isdisjoint((*UNIT_QUEUE_KINDS, PathKind.INDEX))

    def losses(self, *, asked: bool = True, lost: LossListener | None = None) -> LogLosses:
        """Return what the log has lost.

        Args:
            asked: whether something speaks for it, beside what asked this before.
            lost: is told each of the messages; None if nobody asks.

        Raises:
            EnvironmentFailureError: a file of the log or of a queue cannot be opened or read.
        """
        if not asked and "looked" not in self.__dict__:
            return NO_LOSSES
        return log_losses(self._account, self.looked, lost)

    def findings(self, losses: LogLosses) -> Iterator[Finding]:
        """Yield that the log was longer once."""
        if losses.beyond:
            yield cut_finding(losses, self.looked.end, sure=self.is_log_cut)
