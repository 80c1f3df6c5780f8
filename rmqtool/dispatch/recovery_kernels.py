"""What recovery asks of each record beyond its framing, and whose records are lost."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from rmqtool.dispatch.queue_kernels import find_queue
from rmqtool.dispatch.rows import QUEUE_ROW
from rmqtool.javacompat.kernels.checksums import crc32
from rmqtool.jit import entry, kernel
from rmqtool.scan.rows import MESSAGE_ROW

if TYPE_CHECKING:
    import numpy.typing as npt

    Buffer = npt.NDArray[np.uint8]
    Int64s = npt.NDArray[np.int64]
    Rows = npt.NDArray[np.void]

_MASK = 0x7FFFFFFF  # UtilAll#crc32


@entry(lambda: (np.empty(0, np.uint8), np.empty(0, MESSAGE_ROW)))
@kernel
def first_bad_crc(buffer: Buffer, rows: Rows) -> int:
    """Return the first row whose body's checksum is not BODYCRC, the number of rows if there is none.

    Args:
        buffer: the window, ``(n,)`` uint8, with all bodies in it.
        rows: ``(k,)`` of ``MESSAGE_ROW``.
    """
    for number in range(len(rows)):
        row = rows[number]
        if row.body_length > 0:
            value = crc32(buffer, row.body_start, row.body_start + row.body_length, 0)
            if value & _MASK != row.body_crc:
                return number
    return len(rows)


def _example_of_count_by_queue() -> tuple[object, ...]:
    names, queues = np.empty(0, np.uint8), np.empty(0, QUEUE_ROW)
    slots, counts = np.full(1, -1, np.int32), np.empty((0, 2), np.int64)
    return np.empty(0, np.uint8), np.empty(0, MESSAGE_ROW), 0, slots, queues, names, counts


@entry(_example_of_count_by_queue)
@kernel
def count_by_queue(
    buffer: Buffer,
    rows: Rows,
    first: int,
    slots: npt.NDArray[np.int32],
    queues: Rows,
    names: Buffer,
    counts: Int64s,
) -> int:
    """Count messages and their bytes by queue, from row ``first`` on.

    Args:
        buffer: the window that the ranges point into.
        rows: ``(k,)`` of ``MESSAGE_ROW``.
        first: the first row to count.
        slots: the queue table's slots.
        queues: the queue table's rows.
        names: the queue table's names.
        counts: ``(queues, 2)``, messages and bytes; added to.

    Returns:
        The row of a queue that is not in the table, or the number of rows.
    """
    for number in range(first, len(rows)):
        row = rows[number]
        queue = find_queue(buffer, row.topic_start, row.topic_stop, row.queue_id, slots, queues, names)
        if queue < 0:
            return number
        counts[queue, 0] += 1
        counts[queue, 1] += row.total_size
    return len(rows)
