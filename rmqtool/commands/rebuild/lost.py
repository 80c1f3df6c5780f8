"""Messages that a result lacks: those that consumers see now, those that no rebuild reaches, those lost."""

from __future__ import annotations

from bisect import bisect_right
from typing import TYPE_CHECKING

from rmqtool.account.lost import LossReporter, LostReason
from rmqtool.reput.damage import skip_tasks
from rmqtool.reput.gap_contents import true_records, unreachable_tasks

if TYPE_CHECKING:
    from collections.abc import Callable

    from rmqtool.account.lost import LostMessage, LostTotals, QueuePlace
    from rmqtool.account.store_account import StoreAccount
    from rmqtool.derived.queue_files import LiveUnits
    from rmqtool.reput.pipeline import ReputPlan, ReputResult
    from rmqtool.scan.log_edge import FoundEdge


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
        self.lost = LossReporter(plan.log, tell)
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

    def tell_units(self, queue: tuple[str, int], units: LiveUnits, account: StoreAccount) -> None:
        """Tell what units lead to that the queue made does not lead to, but for what is told already."""
        there = units.only(~account.looked.without_record(units.physical_offsets))
        self.lost.units(queue, there, self._tell_left_out)

    def totals(self, account: StoreAccount) -> LostTotals:
        """Return what was told, and what is missing in the whole log."""
        return self.lost.totals(account.looked.gaps)

    def _tell_left_out(self, place: QueuePlace, log_offset: int) -> None:
        number = bisect_right(self._starts, log_offset) - 1
        if number < 0 or log_offset >= self._stops[number]:
            self.lost.message(place, log_offset, LostReason.LEFT_OUT)
