"""Look up a queue in the table of those met so far, and put a unit for it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from rmqtool.dispatch.rows import QUEUE_ROW
from rmqtool.javacompat.kernels.jit import as_int
from rmqtool.jit import entry, kernel
from rmqtool.scan.word_kernels import hash_bytes, same_bytes

if TYPE_CHECKING:
    from rmqtool.arrays import Buffer, Int32s, Row, Rows


_MIX = np.uint64(0x9E3779B97F4A7C15)


@entry(lambda: (np.empty(0, np.uint8), 0, 0, 0))
@kernel
def hash_queue(names: Buffer, start: int, stop: int, queue_id: int) -> int:
    """Hash a queue for the table: the topic's bytes, mixed with the queue id."""
    value = (hash_bytes(names, start, stop) ^ np.uint64(queue_id)) * _MIX
    return value ^ (value >> np.uint64(32))  # type: ignore[return-value] # an unsigned hash


@entry(
    lambda: (
        np.empty(0, np.uint8),
        0,
        0,
        0,
        np.full(1, -1, np.int32),
        np.empty(0, QUEUE_ROW),
        np.empty(0, np.uint8),
    )
)
@kernel
def find_queue(
    buffer: Buffer,
    start: int,
    stop: int,
    queue_id: int,
    slots: Int32s,
    queues: Rows,
    names: Buffer,
) -> int:
    """Return the number of a queue, -1 if it is not in the table."""
    value = hash_queue(buffer, start, stop, queue_id)
    mask = np.uint64(len(slots) - 1)
    slot = value & mask
    while slots[slot] >= 0:
        number = slots[slot]
        row = queues[number]
        fits = row.hash == value and row.queue_id == queue_id and row.name_length == stop - start
        if fits and same_bytes(names, row.name_start, buffer, start, stop):
            return as_int(number)
        slot = (slot + np.uint64(1)) & mask
    return -1


@kernel
def put_slot(hashed: int, number: int, slots: Int32s) -> None:
    """Let the table of slots, ``(2^k,)`` with -1 for an empty one, lead to a row."""
    mask = np.uint64(len(slots) - 1)
    slot = np.uint64(hashed) & mask
    while slots[slot] >= 0:
        slot = (slot + np.uint64(1)) & mask
    slots[slot] = number


@kernel
def put_unit(
    units: Rows,
    count: int,
    queue: int,
    queue_offset: int,
    row: Row,
    tags_code: int,
    store_timestamp_ms: int,
    batch_size: int,
) -> None:
    """Fill row ``count`` of ``units`` (``UNIT_ROW``) for a message of ``MESSAGE_ROW``."""
    unit = units[count]
    unit.queue = queue
    unit.queue_offset = queue_offset
    unit.physical_offset = row.physical_offset
    unit.size = row.total_size
    unit.tags_code = tags_code
    unit.store_timestamp_ms = store_timestamp_ms
    unit.batch_size = batch_size
