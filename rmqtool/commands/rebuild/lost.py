"""Messages that a result has not: those that consumers see now, those that no rebuild reaches, those lost."""

from __future__ import annotations

from bisect import bisect_right
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from rmqtool.account.log_losses import Account, log_losses
from rmqtool.account.lost import LostMessages, LostReason
from rmqtool.account.model import NO_LOSSES, cut_finding, is_borne_out
from rmqtool.account.survey import survey
from rmqtool.reput.damage import skip_tasks
from rmqtool.reput.gap_contents import true_records
from rmqtool.reput.unreachable import unreachable_tasks

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from rmqtool.account.absent import Absent
    from rmqtool.account.log_losses import QueueKey
    from rmqtool.account.lost import LostMessage, LostTotals, QueuePlace
    from rmqtool.account.model import LogLosses
    from rmqtool.account.survey import Survey
    from rmqtool.arrays import Bools, Int64s
    from rmqtool.derived.live_units import LiveUnits
    from rmqtool.findings import Finding
    from rmqtool.reput.pipeline import ReputPlan, ReputResult
    from rmqtool.scan.log_edge import FoundEdge
    from rmqtool.store import Store
    from rmqtool.store.segments import FileQueue


class LogAccount:
    """The account of the log that a rebuild reads, made when something asks for it: a sound log is read once.

    Args:
        store: whose queues.
        log: as it is read.
    """

    def __init__(self, store: Store, log: FileQueue) -> None:
        self._store, self._log = store, log

    @cached_property
    def looked(self) -> Survey:
        """Return what is in the log."""
        return survey(self._log)

    @cached_property
    def _account(self) -> Account:
        return Account(self._store, self._log.start)

    @cached_property
    def _listed(self) -> dict[QueueKey, Int64s]:
        """Return by queue the places of messages that are lost, and that units lead to."""

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
        return store.abort is None and is_borne_out(store, looked.end, looked.latest_ms)

    def losses(self, *, asked: bool, lost: LostMessages | None = None) -> LogLosses:
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


class RebuildLosses:
    """Tells each lost message once, by its record if that can be read.

    Args:
        plan: what was to be made.
        result: how that went.
        edge: what is known of the log as a whole.
        tell: is told each message.
    """

    def __init__(
        self,
        plan: ReputPlan,
        result: ReputResult,
        edge: FoundEdge,
        tell: Callable[[LostMessage], object],
    ) -> None:
        self.lost = LostMessages(plan.log, tell)
        skipped = [task for tasks in skip_tasks(plan, result, edge) for task in tasks]
        self._tasks = {
            LostReason.SKIPPED: skipped,
            LostReason.UNREACHABLE: unreachable_tasks(plan, result),
        }
        splits = sorted((one.split.start, one.split.stop) for tasks in self._tasks.values() for one in tasks)
        self._starts = [start for start, _ in splits]
        self._stops = [stop for _, stop in splits]

    def tell_records(self) -> None:
        """Tell the true records that were not dispatched.

        Raises:
            EnvironmentFailureError: a file of the log cannot be opened or read.
        """
        for reason, tasks in self._tasks.items():
            for task in tasks:
                for log_offsets in true_records(task):
                    self.lost.records(log_offsets.tolist(), reason)

    def tell_units(self, queue: tuple[str, int], units: LiveUnits, account: LogAccount) -> None:
        """Tell what units lead to that the queue made does not lead to, but for what is told already."""
        there = units.only(~account.looked.without_record(units.physical_offsets))
        self.lost.units(queue, there, self._tell_left_out)

    def totals(self, account: LogAccount) -> LostTotals:
        """Return what was told, and what is missing in the whole log."""
        return self.lost.totals(account.looked.gaps)

    def _tell_left_out(self, place: QueuePlace, log_offset: int) -> None:
        number = bisect_right(self._starts, log_offset) - 1
        if number < 0 or log_offset >= self._stops[number]:
            self.lost.message(place, log_offset, LostReason.LEFT_OUT)
