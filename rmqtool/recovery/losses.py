"""Losses of a start: records after the cut, and records that stay without units or index entries."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from rmqtool.account.lost import LostReason
from rmqtool.dispatch.grouping import order_by_queue
from rmqtool.dispatch.totals import QueueTotals
from rmqtool.recovery.log_walk import true_batches
from rmqtool.recovery.model import Loss
from rmqtool.releases import NEWEST
from rmqtool.reput.dispatcher import Dispatcher

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import numpy.typing as npt

    from rmqtool.account.log_losses import LogAccount
    from rmqtool.account.lost import LossReporter
    from rmqtool.account.survey import LogSurvey
    from rmqtool.dispatch.policy import DispatchPolicy
    from rmqtool.dispatch.totals import Total
    from rmqtool.recovery.derived import Derived
    from rmqtool.recovery.units import QueueKey
    from rmqtool.scan.walk import MessageBatch
    from rmqtool.store.segments import Segment

_COUNTED_ROWS = 1 << 19
"""Units and index entries that are gathered before they are counted by queue."""


def lost_records(segments: Sequence[Segment], cut: int, lost: LossReporter | None = None) -> list[Loss]:
    """Count the intact records from ``cut`` on, by topic, also those that this broker cannot read.

    Each of them is passed to ``lost``, if given.
    """
    queues = QueueTotals()
    for batch in _after(segments, cut):
        queues.add(batch)
        if lost is not None:
            lost.records(batch.rows["log_offset"].tolist(), LostReason.CUT)
    by_topic: dict[str, Total] = {}
    for (topic, _), total in queues:
        by_topic[topic] = total.plus(by_topic.get(topic))
    return [Loss(topic, total.messages, total.bytes) for topic, total in sorted(by_topic.items())]


def _after(segments: Sequence[Segment], start: int) -> Iterator[MessageBatch]:
    for segment in segments:
        if segment.stop > start:
            yield from true_batches(segment, max(start, segment.start), segment.stop, NEWEST.records)
            segment.close()


def count_missing(
    looking: LogSurvey, cut: int, policy: DispatchPolicy, derived: Derived, account: LogAccount
) -> tuple[int, int]:
    """Count units and index entries, before the cut, that the start did not dispatch and that did not exist.

    A unit existed if one leads to its record, in files that the start keeps. The units are also counted in
    the tallies of ``derived``.
    """
    counting = _Counting(Dispatcher(policy), derived, account)
    for segment in looking.log:
        if segment.start < cut:
            for batch in looking.batches(segment, segment.start, min(segment.stop, cut)):
                counting.take(batch)
            segment.close()
    counting.count()
    return counting.units, counting.entries


@dataclass
class _Counting:
    """Counts missing units and entries, many units at a time: a batch has few of each queue."""

    dispatcher: Dispatcher
    derived: Derived
    account: LogAccount
    units: int = 0
    entries: int = 0

    def take(self, batch: MessageBatch) -> None:
        left = ~self.derived.is_dispatched(batch.rows["log_offset"])
        if not left.any():
            return
        self.dispatcher.dispatch(replace(batch, rows=batch.rows[left], values=batch.values[left]))
        put = self.dispatcher.taken()
        if len(put.units) + len(put.entries) + len(put.keyless) >= _COUNTED_ROWS:
            self.count()
            self.dispatcher.clear()

    def count(self) -> None:
        put = self.dispatcher.taken()
        self.entries += int(np.count_nonzero(~self.derived.index.covers(put.entries["physical_offset"])))
        order, starts = order_by_queue(put.units, np.arange(len(self.dispatcher.queues)))
        for number in np.flatnonzero(np.diff(starts)):
            key = self.dispatcher.key(int(number))
            self._count_queue(key, put.units[order[starts[number] : starts[number + 1]]])

    def _count_queue(self, key: QueueKey, units: npt.NDArray[np.void]) -> None:
        places = np.ascontiguousarray(units["physical_offset"])
        absent = self.derived.queue(key).absent(places, units["size"]) | ~self.account.lists(key, places)
        missing = int(np.count_nonzero(absent))
        self.derived.tally(key).missing += missing
        self.derived.tell_without_unit(key, units[absent])
        self.units += missing
