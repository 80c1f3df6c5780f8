"""What a start costs: records after the cut, and records that stay without units or index entries."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from rmqtool.derived.live_units import live_units
from rmqtool.dispatch.grouping import order_by_queue
from rmqtool.dispatch.totals import QueueTotals
from rmqtool.recovery.log_walk import true_batches
from rmqtool.recovery.lost import LostReason
from rmqtool.recovery.model import Loss
from rmqtool.releases import NEWEST
from rmqtool.reput.dispatcher import Dispatcher
from rmqtool.store.kinds import UNIT_QUEUE_KINDS

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from rmqtool.dispatch.policy import DispatchPolicy
    from rmqtool.dispatch.totals import Total
    from rmqtool.recovery.derived import Derived
    from rmqtool.recovery.lost import LostMessages
    from rmqtool.recovery.survey import Survey
    from rmqtool.scan.walk import MessageBatch
    from rmqtool.store import Store
    from rmqtool.store.segments import Segment

_COUNTED_ROWS = 1 << 19
"""Units and index entries that are gathered before they are counted by queue."""


def lost_records(segments: Sequence[Segment], cut: int, lost: LostMessages | None = None) -> list[Loss]:
    """Count the true records from ``cut`` on, by topic; records that this broker cannot read count, too.

    Args:
        segments: the log's files.
        cut: physical offset of the log's end from then on.
        lost: is told each of them; None if nobody asks.

    Raises:
        EnvironmentFailureError: a file cannot be opened or read.
    """
    queues = QueueTotals()
    for batch in _range(segments, cut, None):
        queues.add(batch)
        if lost is not None:
            lost.records(batch.rows["log_offset"].tolist(), LostReason.CUT)
    by_topic: dict[str, Total] = {}
    for (topic, _), total in queues:
        by_topic[topic] = total.plus(by_topic.get(topic))
    return [Loss(topic, total.messages, total.bytes) for topic, total in sorted(by_topic.items())]


def lost_units(store: Store, looked: Survey, lost: LostMessages) -> None:
    """Tell messages whose record the log has no more, or this broker cannot read, though a unit leads there.

    Raises:
        EnvironmentFailureError: a file of the log or of a queue cannot be opened or read.
    """
    log_start = store.commitlog.start
    for kind in UNIT_QUEUE_KINDS:
        for queue in store.queues(kind):
            key = queue.topic or "", queue.queue_id or 0
            for units in live_units(queue):
                offsets = units.physical_offsets
                units_lost = units.only((offsets >= log_start) & looked.without_record(offsets))
                lost.units(key, units_lost, lost.unreadable)


def _range(segments: Sequence[Segment], start: int, stop: int | None) -> Iterator[MessageBatch]:
    for segment in segments:
        segment_stop = segment.stop if stop is None else min(segment.stop, stop)
        if segment.stop > start and segment.start < segment_stop:
            yield from true_batches(segment, max(start, segment.start), segment_stop, NEWEST.records)
            segment.close()


def count_missing(
    segments: Sequence[Segment], cut: int, policy: DispatchPolicy, derived: Derived
) -> tuple[int, int]:
    """Count, before the cut, what was neither dispatched by the start nor was there before.

    A unit was there if its record lies between the first and the last one that the queue's files hold;
    whether the units between are right is for ``verify`` to say.

    Returns:
        Units, which are also counted in the tallies of ``derived``, and index entries.

    Raises:
        EnvironmentFailureError: a file cannot be opened or read.
    """
    dispatcher = Dispatcher(policy)
    units = entries = 0
    for batch in _range(segments, 0, cut):
        left = ~derived.is_dispatched(batch.rows["log_offset"])
        if not left.any():
            continue
        dispatcher.dispatch(replace(batch, rows=batch.rows[left], values=batch.values[left]))
        put = dispatcher.taken()
        if len(put.units) + len(put.entries) + len(put.keyless) >= _COUNTED_ROWS:
            entries += _missing_entries(dispatcher, derived)
            units += _missing_units(dispatcher, derived)
            dispatcher.clear()
    entries += _missing_entries(dispatcher, derived)
    return units + _missing_units(dispatcher, derived), entries


def _missing_entries(dispatcher: Dispatcher, derived: Derived) -> int:
    put = dispatcher.taken().entries
    return int(np.count_nonzero(~derived.index.covers(put["physical_offset"])))


def _missing_units(dispatcher: Dispatcher, derived: Derived) -> int:
    """Count by queue, with many units at a time: a batch of messages has few of each queue."""
    put = dispatcher.taken().units
    order, starts = order_by_queue(put, np.arange(len(dispatcher.queues)))
    units = 0
    for number in np.flatnonzero(np.diff(starts)):
        mine = put[order[starts[number] : starts[number + 1]]]
        key = dispatcher.key(int(number))
        absent = derived.queue(key).absent(mine["physical_offset"], mine["size"])
        missing = int(np.count_nonzero(absent))
        derived.tally(key).missing += missing
        derived.tell_without_unit(key, mine[absent])
        units += missing
    return units
