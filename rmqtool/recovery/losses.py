"""What a start costs: records after the cut, and records that stay without units or index entries."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from rmqtool.dispatch.grouping import order_by_queue
from rmqtool.dispatch.queues import QueueTable
from rmqtool.dispatch.recovery_kernels import count_by_queue
from rmqtool.javacompat import decode_utf8
from rmqtool.recovery.log_walk import true_batches
from rmqtool.recovery.model import Loss
from rmqtool.releases import NEWEST
from rmqtool.reput.dispatcher import Dispatcher
from rmqtool.store.names import safe_component

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import numpy.typing as npt

    from rmqtool.dispatch.policy import DispatchPolicy
    from rmqtool.recovery.derived import Derived
    from rmqtool.scan.walk import MessageBatch
    from rmqtool.store.segments import Segment

    Int64s = npt.NDArray[np.int64]


_COUNTED_ROWS = 1 << 19
"""Units and index entries that are gathered before they are counted by queue."""


def lost_records(segments: Sequence[Segment], cut: int, policy: DispatchPolicy) -> list[Loss]:
    """Count the true records from ``cut`` on, by topic; records that this broker cannot read count, too.

    Raises:
        EnvironmentFailureError: a file cannot be opened or read.
    """
    queues = QueueTable(policy, safe_component)
    counts: Int64s = np.zeros((64, 2), np.int64)
    for batch in _range(segments, cut, None):
        row = 0
        while (row := _count(queues, batch, row, counts)) < len(batch.rows):
            start, stop = int(batch.rows["topic_start"][row]), int(batch.rows["topic_stop"][row])
            queues.add(batch.buffer[start:stop].tobytes(), int(batch.rows["queue_id"][row]))
            if len(queues) >= len(counts):
                counts = np.concatenate((counts, np.zeros_like(counts)))
    by_topic: dict[str, tuple[int, int]] = {}
    for number in range(len(queues)):
        topic = decode_utf8(queues.key(number)[0])
        messages, size = by_topic.get(topic, (0, 0))
        by_topic[topic] = messages + int(counts[number, 0]), size + int(counts[number, 1])
    return [Loss(topic, *both) for topic, both in sorted(by_topic.items()) if both[0]]


def _count(queues: QueueTable, batch: MessageBatch, row: int, counts: Int64s) -> int:
    rows = batch.rows
    return int(count_by_queue(batch.buffer, rows, row, queues.slots, queues.rows, queues.names, counts))


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
    order, starts = order_by_queue(put, len(dispatcher.queues))
    units = 0
    for number in np.flatnonzero(np.diff(starts)):
        mine = put[order[starts[number] : starts[number + 1]]]
        key = dispatcher.key(int(number))
        absent = derived.queue(key).absent(mine["physical_offset"], mine["size"])
        missing = int(np.count_nonzero(absent))
        derived.tally(key).missing += missing
        units += missing
    return units
