"""Totals of messages by topic and queue."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from rmqtool.javacompat import decode_utf8
from rmqtool.kernels.bytes import as_int
from rmqtool.kernels.jit import empty, entry, kernel
from rmqtool.kernels.properties import offsets_taken
from rmqtool.kernels.queues import QueueArrays, find_queue, hash_queue, no_queues, put_slot
from rmqtool.kernels.rows import MessageBatch, no_messages

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rmqtool.arrays import Buffer, Int32s, Int64s, Row, Rows


TOTAL_ROW = np.dtype(
    [
        ("hash", np.uint64),  # this and the next three are what find_queue compares
        ("name_start", np.int64),
        ("name_length", np.int32),
        ("queue_id", np.int32),
        ("messages", np.int64),
        ("bytes", np.int64),
        ("oldest_ms", np.int64),
        ("newest_ms", np.int64),
        ("largest", np.int64),  # bytes of the largest record, the first of equals
        ("largest_at", np.int64),  # physical offset of that
        ("first", np.int64),  # queue offset of the first record that has one, -1 without
        ("stop", np.int64),  # queue offset after the last one
        ("breaks", np.int64),  # records whose queue offset does not follow the one before
        ("displaced", np.int64),  # records that claim another place
    ],
    align=True,
)


@kernel
def _begin(buffer: Buffer, row: Row, table: QueueArrays, used: Int64s) -> int:
    """Give a queue its row; return the row's number."""
    number, start = as_int(used[0]), used[1]
    total = table.rows[number]
    total.hash = hash_queue(buffer, row.topic_start, row.topic_stop, row.queue_id)
    total.name_start, total.name_length = start, row.topic_stop - row.topic_start
    total.queue_id = row.queue_id
    total.messages = total.bytes = total.largest = total.breaks = total.displaced = 0
    total.first = total.stop = -1
    total.oldest_ms = total.newest_ms = row.store_timestamp_ms
    for i in range(row.topic_start, row.topic_stop):
        table.names[start + i - row.topic_start] = buffer[i]
    put_slot(total.hash, number, table.slots)
    used[0] += 1
    used[1] += row.topic_stop - row.topic_start
    return number


@entry(lambda: (*empty(TOTAL_ROW), 0, np.full(1, -1, np.int32)))
@kernel
def fill_slots(totals: Rows, count: int, slots: Int32s) -> None:
    """Fill an empty table of slots for the first ``count`` rows of ``TOTAL_ROW``."""
    for number in range(count):
        put_slot(totals[number].hash, number, slots)


@entry(lambda: (no_messages(), 0, no_queues(TOTAL_ROW), np.zeros(2, np.int64), *empty(np.int64)))
@kernel
def add_up(batch: MessageBatch, first: int, table: QueueArrays, used: Int64s, numbers: Int64s) -> int:
    """Add up messages by topic and queue, from row ``first`` on.

    Args:
        batch: the messages.
        first: the first row to add.
        table: of ``TOTAL_ROW``, with at least twice as many slots; added to.
        used: rows and bytes of names of the table in use.
        numbers: ``(n,)``; receives the number of each message's queue.

    Returns:
        The row for whose queue there is no room, or the number of rows.
    """
    buffer, rows = batch.buffer, batch.rows
    for i in range(first, len(rows)):
        row = rows[i]
        number = find_queue(buffer, row.topic_start, row.topic_stop, row.queue_id, table)
        if number < 0:
            names_stop = used[1] + row.topic_stop - row.topic_start
            has_room = used[0] < len(table.rows) and names_stop <= len(table.names)
            if not has_room:
                return i
            number = _begin(buffer, row, table, used)
        numbers[i] = number
        total = table.rows[number]
        total.messages += 1
        total.bytes += row.total_size
        total.oldest_ms = min(total.oldest_ms, row.store_timestamp_ms)
        total.newest_ms = max(total.newest_ms, row.store_timestamp_ms)
        if row.total_size > total.largest:
            total.largest, total.largest_at = row.total_size, row.log_offset
        total.displaced += row.log_offset != row.physical_offset
        taken = offsets_taken(buffer, row, batch.values[i])
        if taken:
            if total.first < 0:
                total.first = row.queue_offset
            else:
                total.breaks += row.queue_offset != total.stop
            total.stop = row.queue_offset + taken
    return len(rows)


_QUEUES = 64
_NAME_BYTES = 4096


class Total(NamedTuple):
    """Records of one topic, or of one of its queues.

    Attributes:
        messages: how many records.
        bytes: their size.
        oldest_ms: least STORETIMESTAMP.
        newest_ms: greatest STORETIMESTAMP.
        largest: bytes of the largest record.
        largest_at: its physical offset.
        first: queue offset of the first record that has one; -1 without, as half messages.
        stop: queue offset after the last one.
        breaks: records whose queue offset does not follow the one before; of one queue only.
        displaced: records that claim another place, and hide what was there.
    """

    messages: int
    bytes: int
    oldest_ms: int
    newest_ms: int
    largest: int
    largest_at: int
    first: int
    stop: int
    breaks: int
    displaced: int

    def plus(self, other: Total | None) -> Total:
        """Return both together, ``other`` being in front; of two records of one size the first one."""
        if other is None:
            return self
        breaks = self.breaks + other.breaks + (-1 < self.first != other.stop > -1)
        return Total(
            self.messages + other.messages,
            self.bytes + other.bytes,
            min(self.oldest_ms, other.oldest_ms),
            max(self.newest_ms, other.newest_ms),
            *max((self[4:6], other[4:6]), key=lambda largest: (largest[0], -largest[1])),
            other.first if other.first > -1 else self.first,
            self.stop if self.stop > -1 else other.stop,
            breaks,
            self.displaced + other.displaced,
        )


class QueueTotals:
    """Totals by topic and queue, filled batch by batch; ``table``, of ``TOTAL_ROW``, has room for more."""

    def __init__(self) -> None:
        slots, names = np.full(4 * _QUEUES, -1, np.int32), np.empty(_NAME_BYTES, np.uint8)
        self.table = QueueArrays(slots, np.empty(_QUEUES, TOTAL_ROW), names)
        self._used = np.zeros(2, np.int64)

    def add(self, batch: MessageBatch) -> Int64s:
        """Add all messages of a batch; return the number of each one's queue, ``(n,)``."""
        row, numbers = 0, np.empty(len(batch.rows), np.int64)
        while True:
            row = add_up(batch, row, self.table, self._used, numbers)
            if row == len(batch.rows):
                return numbers
            record = batch.rows[row]
            self._make_room(int(record["topic_stop"]) - int(record["topic_start"]))

    def __iter__(self) -> Iterator[tuple[tuple[str, int], Total]]:
        """Yield topic, as Java decodes it, with queue id, and total; malformed names may come twice."""
        for row in self.table.rows[: int(self._used[0])].tolist():
            _, start, length, queue_id, *numbers = row
            yield (decode_utf8(self.table.names[start : start + length].tobytes()), queue_id), Total(*numbers)

    def _make_room(self, name_bytes: int) -> None:
        count, names_used = self._used.tolist()
        slots, rows, names = self.table
        if count == len(rows):
            rows = np.concatenate((rows, np.empty_like(rows)))
            slots = np.full(2 * len(slots), -1, np.int32)
            fill_slots(rows, count, slots)
        while names_used + name_bytes > len(names):
            names = np.concatenate((names, np.empty_like(names)))
        self.table = QueueArrays(slots, rows, names)
