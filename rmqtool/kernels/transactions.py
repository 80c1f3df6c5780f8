"""Records that wait for others: half messages, op messages and what ends a transaction; delayed messages.

A half message waits in a topic of the broker's own. A commit writes a record for consumers, which names the
half message by physical offset. A commit or rollback also writes an op message into the queue of the same
number, which names it by queue offset: one in 4.x, a comma after each of several in 5.x
(``TransactionalMessageBridge``, ``TransactionalMessageServiceImpl#deletePrepareMessage``,
``EndTransactionProcessor``; 4.9.8, 5.3.3). Before 4.3, a prepared record in the message's own topic took the
place of the half message.

A delayed message waits in the queue of its level. Its delivery writes a copy into its own topic, with all of
its properties, the level's among them (``ScheduleMessageService#messageTimeup``, 4.9.8; ``#messageTimeUp``,
5.3.3); a copy that light queues share lacks the level's (``LmqDispatch#wrapLmqDispatch``).
"""

from __future__ import annotations

from enum import IntEnum
from typing import TYPE_CHECKING

import numpy as np

from rmqtool.formats import message
from rmqtool.kernels.bytes import as_int, equals, parse_int, parse_long
from rmqtool.kernels.checks import names_none
from rmqtool.kernels.jit import empty, entry, kernel
from rmqtool.kernels.properties import find_property, value_of
from rmqtool.kernels.rows import (
    PREPARED_OFFSET_AT,
    TRANSACTION_ROW,
    VARIANT_SHIFT,
    MessageBatch,
    Property,
    no_messages,
)
from rmqtool.kernels.walk import read_i64
from rmqtool.topics import HALF_TOPIC, OP_TOPIC, ROCKSDB_HALF_TOPIC, SCHEDULE_TOPIC

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rmqtool.arrays import Buffer, Int64s, Row, Rows


class Role(IntEnum):
    """Parts that a record can play in a transaction, or in a delay."""

    HALF = 0
    PREPARED = 1  # a half message before 4.3, or with transRocksDBEnable (5.4.0+): no op names it
    OP = 2  # one row for each half message that it names
    ENDING = 3  # a commit or rollback that names the place of its half message
    BAD_HALF = 4  # besides HALF: the broker's check fails on it
    BAD_TAG = 5  # an op message without the tag "d"
    BAD_BODY = 6  # an op message that is not a list of queue offsets
    DELAYED = 7  # a delayed message that its level has passed; ``keys`` is its own topic, as of the next two
    DELIVERED = 8  # a message that may be the copy of a delayed one
    NAMELESS = 9  # a message without unique key: it may stand in the place of a copy


_HALF_TOPIC = np.frombuffer(HALF_TOPIC.encode(), np.uint8)
_ROCKSDB_HALF_TOPIC = np.frombuffer(ROCKSDB_HALF_TOPIC.encode(), np.uint8)
_OP_TOPIC = np.frombuffer(OP_TOPIC.encode(), np.uint8)
_SCHEDULE_TOPIC = np.frombuffer(SCHEDULE_TOPIC.encode(), np.uint8)
_TRANSACTION, _PREPARED_TYPE = message.TRANSACTION_MASK, message.TRANSACTION_PREPARED
_REAL_TOPIC = np.frombuffer(b"REAL_TOPIC", np.uint8)
_REAL_QUEUE_ID = np.frombuffer(b"REAL_QID", np.uint8)
_REMOVE_TAG = ord("d")  # TransactionalMessageUtil.REMOVE_TAG
_COMMA = ord(",")
_ZERO, _NINE = ord("0"), ord("9")
_SMALLEST_PIECE = 2  # bytes of an op's body for each offset: a digit and a comma


@kernel
def _hash(buffer: Buffer, start: int, stop: int) -> int:
    """Hash a value with FNV-1a; 0 if there is none."""
    if start < 0:
        return 0
    value = np.uint64(0xCBF29CE484222325)
    for i in range(start, stop):
        value = (value ^ np.uint64(buffer[i])) * np.uint64(0x100000001B3)
    return as_int(np.int64(value))


@kernel
def _put(row: Row, values: Int64s, buffer: Buffer, role: int, target: int, out: Rows, count: int) -> int:
    put = out[count]
    put.log_offset, put.target, put.queue_id, put.role = row.log_offset, target, row.queue_id, role
    put.store_timestamp_ms = row.store_timestamp_ms
    put.unique_key = put.keys = 0
    if role != Role.OP:
        put.unique_key = _hash(buffer, *value_of(values, Property.UNIQ_KEY))
        put.keys = _hash(buffer, *value_of(values, Property.KEYS))
    return count + 1


@kernel
def _is_checkable(buffer: Buffer, row: Row) -> bool:
    """Whether ``AbstractTransactionalMessageCheckListener#sendCheckMessage`` can check a half message."""
    start = row.topic_stop + 2
    stop = start + row.properties_length
    queue, queue_stop = find_property(buffer, start, stop, _REAL_QUEUE_ID)
    named = queue >= 0 and find_property(buffer, start, stop, _REAL_TOPIC)[0] >= 0
    return named and row.sys_flag & _TRANSACTION == 0 and parse_int(buffer, queue, queue_stop)[0]


@kernel
def _put_half(row: Row, values: Int64s, buffer: Buffer, out: Rows, count: int) -> int:
    if not _is_checkable(buffer, row):
        count = _put(row, values, buffer, Role.BAD_HALF, row.queue_offset, out, count)
    return _put(row, values, buffer, Role.HALF, row.queue_offset, out, count)


@kernel
def _put_op(row: Row, values: Int64s, buffer: Buffer, cut: int, out: Rows, count: int) -> int:
    """Put a row for each offset that an op message names, or one for the defect that it has."""
    tag, tag_stop = value_of(values, Property.TAGS)
    if tag < 0 or tag_stop - tag != 1 or buffer[tag] != _REMOVE_TAG:
        return _put(row, values, buffer, Role.BAD_TAG, 0, out, count)
    at, stop, first = row.body_start, row.body_start + row.body_length, count
    if not cut and names_none(buffer, at, stop):
        return count
    if cut or at == stop:
        return _put(row, values, buffer, Role.BAD_BODY, 0, out, count)
    while at < stop:
        end = at
        while end < stop and buffer[end] != _COMMA:
            end += 1
        digits = end > at and _ZERO <= buffer[at] <= _NINE  # without a sign
        ok, offset = parse_long(buffer, at, end)
        if not (ok and digits):
            return _put(row, values, buffer, Role.BAD_BODY, 0, out, first)
        count = _put(row, values, buffer, Role.OP, offset, out, count)
        at = end + 1
    return count


@kernel
def _put_delay(row: Row, values: Int64s, buffer: Buffer, passed: Int64s, out: Rows, count: int) -> int:
    """Put a row for a delayed message that was passed, and for all that can be or hide a copy of one."""
    unique_key = _hash(buffer, *value_of(values, Property.UNIQ_KEY))
    topic, role = _hash(buffer, row.topic_start, row.topic_stop), Role.NAMELESS
    if equals(buffer, row.topic_start, row.topic_stop, _SCHEDULE_TOPIC):
        if unique_key == 0 or not 0 <= row.queue_id < len(passed) or row.queue_offset >= passed[row.queue_id]:
            return count
        start = row.topic_stop + 2
        real, stop = find_property(buffer, start, start + row.properties_length, _REAL_TOPIC)
        if real < 0 or equals(buffer, real, stop, _HALF_TOPIC):  # nobody delivers that
            return count
        topic, role = _hash(buffer, real, stop), Role.DELAYED
    elif unique_key != 0:
        if values[Property.DELAY, 0] < 0 and values[Property.INNER_MULTI_DISPATCH, 0] < 0:
            return count
        role = Role.DELIVERED
    count = _put(row, values, buffer, role, row.queue_offset, out, count)
    out[count - 1].keys = topic
    return count


@entry(lambda: (no_messages(), 0, *empty(np.int64), *empty(TRANSACTION_ROW), 0))
@kernel
def collect_transactions(
    batch: MessageBatch, first: int, passed: Int64s, out: Rows, count: int
) -> tuple[int, int]:
    """Collect the records that take part in transactions or delays, from row ``first`` on.

    ``passed`` are the offsets of delay levels, by queue id of their topic; without any, delays do not matter.
    ``out``, of ``TRANSACTION_ROW``, is filled after its first ``count`` rows.

    Returns:
        The row to go on with when ``out`` has more room, or the number of rows; and the rows of ``out`` in
        use.
    """
    buffer, rows, cut = batch.buffer, batch.rows, batch.cut
    for number in range(first, len(rows)):
        row, ranges = rows[number], batch.values[number]
        kind = row.sys_flag & _TRANSACTION
        is_op = equals(buffer, row.topic_start, row.topic_stop, _OP_TOPIC)
        needed = 3 + (row.body_length // _SMALLEST_PIECE if is_op and not cut else 0)
        if count + needed > len(out):
            return number, count
        if is_op:
            count = _put_op(row, ranges, buffer, cut, out, count)
        elif equals(buffer, row.topic_start, row.topic_stop, _HALF_TOPIC):
            count = _put_half(row, ranges, buffer, out, count)
        elif kind == _PREPARED_TYPE or equals(buffer, row.topic_start, row.topic_stop, _ROCKSDB_HALF_TOPIC):
            count = _put(row, ranges, buffer, Role.PREPARED, row.queue_offset, out, count)
        elif kind != 0:
            variant = (row.sys_flag >> VARIANT_SHIFT) & 3
            target = read_i64(buffer, row.log_offset - batch.base + PREPARED_OFFSET_AT[variant])
            if 0 < target < row.log_offset:
                count = _put(row, ranges, buffer, Role.ENDING, target, out, count)
        if len(passed) and not is_op:
            count = _put_delay(row, ranges, buffer, passed, out, count)
    return len(rows), count


_FIRST_ROWS = 1 << 12


class TransactionRows:
    """Collects rows out of batches; ``passed`` are the offsets of delay levels, by queue id."""

    def __init__(self, passed: Sequence[int] = ()) -> None:
        self._passed = np.array(passed, np.int64)
        self._rows: Rows = np.empty(_FIRST_ROWS, TRANSACTION_ROW)
        self._count = 0

    @property
    def rows(self) -> Rows:
        """Return the rows so far, ``(n,)`` of ``TRANSACTION_ROW`` in log order."""
        return self._rows[: self._count]

    def collect(self, batch: MessageBatch) -> None:
        """Take a batch."""
        row = 0
        while True:
            row, self._count = collect_transactions(batch, row, self._passed, self._rows, self._count)
            if row == len(batch.rows):
                return
            self._grow(3 + int(batch.rows["body_length"][row]))

    def _grow(self, needed: int) -> None:
        grown = np.empty(max(2 * len(self._rows), self._count + needed), TRANSACTION_ROW)
        grown[: self._count] = self.rows
        self._rows = grown
