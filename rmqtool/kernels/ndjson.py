"""Kernels that write messages as lines of JSON, for dumps of whole logs.

Their lines equal, byte for byte, the rows of ``rmqtool.rows`` as ndjson. So they take plain messages only
(``rmqtool.kernels.filters``) and stop at any other, which their caller does in plain Python.
"""

from __future__ import annotations

from enum import IntEnum
from typing import TYPE_CHECKING

import numpy as np

from rmqtool.formats import message
from rmqtool.kernels.bytes import as_int
from rmqtool.kernels.filters import (
    KernelFilter,
    RowFilter,
    cut_properties,
    holds_checksum,
    is_sound,
    is_wanted,
    no_filter,
)
from rmqtool.kernels.jit import empty, entry, kernel
from rmqtool.kernels.json import (
    BodyForm,
    chars,
    is_harmless,
    put,
    put_body,
    put_host,
    put_message_id,
    put_number,
    put_string,
    put_value,
)
from rmqtool.kernels.properties import hash_utf8, next_key, value_of
from rmqtool.kernels.rows import (
    BORN_HOST_AT,
    BORN_TIMESTAMP_AT,
    BORN_V6,
    FLAG_AT,
    MAGIC_AT,
    PREPARED_OFFSET_AT,
    RECONSUME_TIMES_AT,
    STORE_HOST_AT,
    STORE_V6,
    MessageBatch,
    Property,
    no_messages,
)
from rmqtool.kernels.walk import head_of, read_i32, read_i64

if TYPE_CHECKING:
    from rmqtool.arrays import Buffer, Int64s, Row


class Ended(IntEnum):
    """Reasons why no more lines were written."""

    DONE = 0
    FULL = 1
    ODD = 2  # the message at hand is not plain


_MAGIC_V2 = message.MAGIC_V2
_TRANSACTION_SHIFT = 2

_START = chars('{"type": "message", "file": ')
_POSITION, _PHYSICAL_OFFSET = chars(', "position": '), chars(', "physicalOffset": ')
_TOTAL_SIZE, _V1, _V2 = chars(', "totalSize": '), chars(', "magic": "V1"'), chars(', "magic": "V2"')
_BODY_CRC, _QUEUE, _FLAG = chars(', "bodyCrc": '), chars(', "queueId": '), chars(', "flag": ')
_QUEUE_PLACE, _SYS_FLAG = chars(', "queueOffset": '), chars(', "sysFlag": ')
_NO_TRANSACTION = chars(', "transactionType": "none"')
_IS_PREPARED = chars(', "transactionType": "prepared"')
_IS_COMMIT = chars(', "transactionType": "commit"')
_IS_ROLLBACK = chars(', "transactionType": "rollback"')
_BORN, _BORN_HOST = chars(', "bornTimestamp": '), chars(', "bornHost": "')
_STORED, _STORE_HOST = chars('", "storeTimestamp": '), chars(', "storeHost": "')
_RECONSUMED, _PREPARED = chars('", "reconsumeTimes": '), chars(', "preparedTransactionOffset": ')
_TOPIC, _BODY_LENGTH = chars(', "topic": '), chars(', "bodyLength": ')
_BODY_IS, _PROPERTIES, _NULL = chars(', "body": '), chars(', "properties": {'), chars("null")
_TAGS_ARE, _KEYS_ARE, _UNIQ_IS = chars('}, "tags": '), chars(', "keys": ['), chars('], "uniqKey": ')
_TAGS_CODE, _MSG_ID = chars(', "tagsCode": '), chars(', "msgId": "')
_END = chars('", "explanation": null, "damage": []}\n')
_COMMA, _COLON = chars(", "), chars(": ")
_FIXED_ROOM = 1200  # the longest line without file, topic, properties and body is below 900 bytes


@kernel
def _put_head(out: Buffer, n: int, buffer: Buffer, row: Row, label: Buffer, segment_start: int) -> int:
    at, variant = head_of(row)
    n = put(out, put(out, n, _START), label)
    n = put_number(out, put(out, n, _POSITION), row.log_offset - segment_start)
    n = put_number(out, put(out, n, _PHYSICAL_OFFSET), row.physical_offset)
    n = put_number(out, put(out, n, _TOTAL_SIZE), as_int(row.total_size))
    n = put(out, n, _V2) if read_i32(buffer, at + MAGIC_AT) == _MAGIC_V2 else put(out, n, _V1)
    n = put_number(out, put(out, n, _BODY_CRC), as_int(row.body_crc))
    n = put_number(out, put(out, n, _QUEUE), as_int(row.queue_id))
    n = put_number(out, put(out, n, _FLAG), read_i32(buffer, at + FLAG_AT))
    n = put_number(out, put(out, n, _QUEUE_PLACE), row.queue_offset)
    n = put_number(out, put(out, n, _SYS_FLAG), as_int(row.sys_flag))
    kind = (row.sys_flag >> _TRANSACTION_SHIFT) & 3
    if kind == 0:
        n = put(out, n, _NO_TRANSACTION)
    elif kind == 1:
        n = put(out, n, _IS_PREPARED)
    else:
        n = put(out, n, _IS_COMMIT) if kind == 2 else put(out, n, _IS_ROLLBACK)
    n = put_number(out, put(out, n, _BORN), read_i64(buffer, at + BORN_TIMESTAMP_AT))
    n = put_host(out, put(out, n, _BORN_HOST), buffer, at + BORN_HOST_AT, row.sys_flag & BORN_V6 != 0)
    n = put_number(out, put(out, n, _STORED), row.store_timestamp_ms)
    n = put_host(
        out, put(out, n, _STORE_HOST), buffer, at + STORE_HOST_AT[variant], row.sys_flag & STORE_V6 != 0
    )
    n = put_number(out, put(out, n, _RECONSUMED), read_i32(buffer, at + RECONSUME_TIMES_AT[variant]))
    return put_number(out, put(out, n, _PREPARED), read_i64(buffer, at + PREPARED_OFFSET_AT[variant]))


@kernel
def _put_keys(out: Buffer, n: int, buffer: Buffer, start: int, stop: int) -> int:
    if start < 0:
        return n
    first = True
    at, end = next_key(buffer, start, stop)
    while at < end:
        if not first:
            n = put(out, n, _COMMA)
        n = put_string(out, n, buffer, at, end)
        first = False
        at, end = next_key(buffer, end, stop)
    return n


@kernel
def _put_properties(out: Buffer, n: int, buffer: Buffer, parts: Int64s, count: int) -> int:
    for i in range(count):
        if i:
            n = put(out, n, _COMMA)
        n = put_string(out, n, buffer, parts[i, 0], parts[i, 1])
        n = put_string(out, put(out, n, _COLON), buffer, parts[i, 2], parts[i, 3])
    return n


@kernel
def _put_message(
    out: Buffer,
    n: int,
    buffer: Buffer,
    row: Row,
    values: Int64s,
    label: Buffer,
    segment_start: int,
    parts: Int64s,
    count: int,
    form: int,
) -> int:
    body_stop = row.body_start + row.body_length
    n = _put_head(out, n, buffer, row, label, segment_start)
    n = put_string(out, put(out, n, _TOPIC), buffer, row.topic_start, row.topic_stop)
    n = put_number(out, put(out, n, _BODY_LENGTH), as_int(row.body_length))
    n = put_body(out, put(out, n, _BODY_IS), buffer, row.body_start, body_stop, form)
    n = _put_properties(out, put(out, n, _PROPERTIES), buffer, parts, count)
    tags, tags_stop = value_of(values, Property.TAGS)
    n = put_value(out, put(out, n, _TAGS_ARE), buffer, tags, tags_stop)
    n = _put_keys(out, put(out, n, _KEYS_ARE), buffer, *value_of(values, Property.KEYS))
    n = put_value(out, put(out, n, _UNIQ_IS), buffer, *value_of(values, Property.UNIQ_KEY))
    code = hash_utf8(buffer, tags, tags_stop, 0) if tags >= 0 else 0
    n = put_number(out, put(out, n, _TAGS_CODE), code)
    return put(out, put_message_id(out, put(out, n, _MSG_ID), buffer, row), _END)


@entry(lambda: (no_messages(), 0, 0, chars(""), no_filter(), np.empty((0, 4), np.int64), *empty(np.uint8)))
@kernel
def encode_ndjson(
    batch: MessageBatch,
    first: int,
    segment_start: int,
    label: Buffer,
    wanted: KernelFilter,
    parts: Int64s,
    out: Buffer,
) -> tuple[int, int, int]:
    """Write the lines of plain messages into ``out``, up to the first that is not.

    ``label`` is the file's name as a JSON string; the other arguments are those of ``encode_columns``.

    Returns:
        An ``Ended``, the index of the first row that was not written, and the bytes written.
    """
    buffer, rows = batch.buffer, batch.rows
    n, form = 0, wanted.numbers[RowFilter.BODY]
    body_width = 2 if form == BodyForm.HEX else 6 if form == BodyForm.TEXT else 0
    for i in range(first, len(rows)):
        row, found = rows[i], batch.values[i]
        start = row.topic_stop + 2
        if not is_sound(buffer, row, found, wanted.numbers[RowFilter.ODD_FLAGS]):
            return Ended.ODD, i, n
        count = cut_properties(buffer, start, start + row.properties_length, parts)
        if count < 0 or not holds_checksum(buffer, row, parts, count):
            return Ended.ODD, i, n
        if not is_wanted(buffer, row, found, wanted):
            continue
        body_stop = row.body_start + row.body_length
        if form == BodyForm.TEXT and not is_harmless(buffer, row.body_start, body_stop, True):
            return Ended.ODD, i, n
        room = _FIXED_ROOM + len(label) + 2 * (row.topic_stop - row.topic_start) + 8 * row.properties_length
        if room + body_width * row.body_length > len(out) - n:
            return Ended.FULL, i, n
        n = _put_message(out, n, buffer, row, found, label, segment_start, parts, count, form)
    return Ended.DONE, len(rows), n
