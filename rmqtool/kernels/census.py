"""Census of messages by topic and stretch of time, at the speed of the walk."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from rmqtool.kernels.bytes import as_int
from rmqtool.kernels.jit import empty, entry, kernel
from rmqtool.kernels.queues import QueueArrays, find_queue, no_queues, put_slot
from rmqtool.kernels.rows import MessageBatch, no_messages

if TYPE_CHECKING:
    from rmqtool.arrays import Int32s, Int64s, Rows


TOPIC_ROW = np.dtype(
    [
        ("messages", np.int64),
        ("bytes", np.int64),
        ("oldest_ms", np.int64),
        ("oldest_at", np.int64),  # physical offset
        ("newest_ms", np.int64),
        ("newest_at", np.int64),
        ("largest", np.int64),  # bytes of the record
        ("largest_at", np.int64),
    ]
)

CELL_ROW = np.dtype(
    [("topic", np.int64), ("bucket", np.int64), ("messages", np.int64), ("bytes", np.int64)], align=True
)
"""Messages of a topic in a bucket of time; the bucket after the last is of times outside the period."""


ONE_QUEUE = 0
"""The queue id of every topic in the table."""


@kernel
def _hash_cell(topic: int, bucket: int) -> int:
    return topic * 0x9E3779B1 + bucket * 0x85EBCA6B


@kernel
def _find_cell(topic: int, bucket: int, cells: Rows, slots: Int32s, used: Int64s) -> int:
    """Return the row of a cell, which is made if it is not there; there is room."""
    mask = len(slots) - 1
    slot = _hash_cell(topic, bucket) & mask
    while slots[slot] >= 0:
        number = slots[slot]
        if cells[number].topic == topic and cells[number].bucket == bucket:
            return as_int(number)
        slot = (slot + 1) & mask
    number = used[0]
    used[0] = number + 1
    slots[slot] = number
    cell = cells[number]
    cell.topic, cell.bucket, cell.messages, cell.bytes = topic, bucket, 0, 0
    return as_int(number)


@entry(lambda: (*empty(CELL_ROW), np.full(1, -1, np.int32)), rare=True)
@kernel
def place_cells(cells: Rows, slots: Int32s) -> None:
    """Fill the slots, all -1, of a table with more than twice as many as ``cells``, which are all in use."""
    for number in range(len(cells)):
        put_slot(_hash_cell(cells[number].topic, cells[number].bucket), number, slots)


def _example_of_count_messages() -> tuple[object, ...]:
    slots, numbers = np.full(1, -1, np.int32), np.zeros(4, np.int64)
    return (
        *(no_messages(), 0, no_queues(), numbers),
        *(np.empty(0, TOPIC_ROW), np.empty(0, CELL_ROW), slots, numbers),
    )


@entry(_example_of_count_messages, rare=True)
@kernel
def count_messages(
    batch: MessageBatch,
    first: int,
    table: QueueArrays,
    period: Int64s,
    topics: Rows,
    cells: Rows,
    cell_slots: Int32s,
    used: Int64s,
) -> int:
    """Count messages from row ``first`` on.

    Args:
        batch: the messages.
        first: the first row to count.
        table: the topics: a queue table in which each has the one queue ``ONE_QUEUE``.
        period: start in ms, width of a bucket in ms, and how many.
        topics: ``(t,)`` of ``TOPIC_ROW``, one for every topic of the table.
        cells: ``(c,)`` of ``CELL_ROW``, half as many as there are slots.
        cell_slots: ``(2 c,)``, a power of two.
        used: ``(1,)`` number of cells in use.

    Returns:
        The number of rows; or a row whose topic is not in the table, or for which there is no room.
    """
    buffer, rows = batch.buffer, batch.rows
    for number in range(first, len(rows)):
        row = rows[number]
        if used[0] >= len(cells):
            return number
        queue = find_queue(buffer, row.topic_start, row.topic_stop, ONE_QUEUE, table)
        if queue < 0:
            return number
        queue = table.rows[queue].canonical
        stored_ms, size = row.store_timestamp_ms, row.total_size
        topic = topics[queue]
        if topic.messages == 0 or stored_ms < topic.oldest_ms:
            topic.oldest_ms, topic.oldest_at = stored_ms, row.log_offset
        if topic.messages == 0 or stored_ms >= topic.newest_ms:
            topic.newest_ms, topic.newest_at = stored_ms, row.log_offset
        if size > topic.largest:
            topic.largest, topic.largest_at = size, row.log_offset
        topic.messages += 1
        topic.bytes += size
        bucket = period[2]
        if period[0] <= stored_ms < period[0] + period[1] * period[2]:
            bucket = (stored_ms - period[0]) // period[1]
        cell = cells[_find_cell(queue, bucket, cells, cell_slots, used)]
        cell.messages += 1
        cell.bytes += size
    return len(rows)
