"""Messages as lines of JSON, straight from the window: for dumps of whole logs.

What is written here must be, byte for byte, what the rows of ``rmqtool.commands`` look like as ndjson. So
only plain messages are taken: printable ASCII, IPv4 hosts, nothing wrong with them. At anything else the
kernel stops, and its caller does that message in plain Python.
"""

from __future__ import annotations

from enum import IntEnum
from typing import TYPE_CHECKING

import numpy as np

from rmqtool.formats import message
from rmqtool.javacompat.kernels import crc32, hash_utf8, next_key
from rmqtool.javacompat.kernels.jit import as_int
from rmqtool.jit import kernel
from rmqtool.scan.kernels import is_schedule_topic, read_i32, read_i64
from rmqtool.scan.rows import Property

if TYPE_CHECKING:
    from typing import Any

    import numpy.typing as npt

    Row = Any  # one MESSAGE_ROW: in a kernel its fields are attributes
    Buffer = npt.NDArray[np.uint8]
    Int64s = npt.NDArray[np.int64]
    Rows = npt.NDArray[np.void]


class Ended(IntEnum):
    """Why no more lines were written."""

    DONE = 0
    FULL = 1
    ODD = 2  # the message at hand is not plain


class Wanted(IntEnum):
    """Places in the array of numbers that the kernel takes."""

    BEGIN_MS = 0
    END_MS = 1
    QUEUE_OFFSET = 2
    HAS_QUEUE = 3
    QUEUE_ID = 4
    HAS_TOPIC = 5
    HAS_TAG = 6
    BODY = 7


class BodyForm(IntEnum):
    """How bodies are written."""

    NONE = 0
    TEXT = 1
    HEX = 2


MAX_PROPERTIES = 64
"""Messages with more are not plain."""

_DONE, _FULL, _ODD = Ended.DONE.value, Ended.FULL.value, Ended.ODD.value
_BEGIN_MS, _END_MS, _QUEUE_OFFSET = Wanted.BEGIN_MS.value, Wanted.END_MS.value, Wanted.QUEUE_OFFSET.value
_HAS_QUEUE, _QUEUE_ID = Wanted.HAS_QUEUE.value, Wanted.QUEUE_ID.value
_HAS_TOPIC, _HAS_TAG, _BODY = Wanted.HAS_TOPIC.value, Wanted.HAS_TAG.value, Wanted.BODY.value
_TEXT, _HEX = BodyForm.TEXT.value, BodyForm.HEX.value
_KEYS, _UNIQ_KEY, _TAGS = Property.KEYS.value, Property.UNIQ_KEY.value, Property.TAGS.value
_DELAY, _INNER_NUM, _INNER_BASE = Property.DELAY.value, Property.INNER_NUM.value, Property.INNER_BASE.value

_AT = message.HEAD_OFFSETS[0]
_HEAD_SIZE = message.HEAD_SIZES[0]
_MAGIC_AT, _FLAG_AT, _OFFSET_AT = _AT["magic"], _AT["flag"], _AT["physicalOffset"]
_BORN_AT, _BORN_HOST_AT, _STORE_HOST_AT = _AT["bornTimestamp"], _AT["bornHost"], _AT["storeHost"]
_RECONSUMED_AT, _PREPARED_AT = _AT["reconsumeTimes"], _AT["preparedTransactionOffset"]
_MAGIC_V2 = message.MAGIC_V2
_HOSTS_V6 = message.BORN_HOST_V6 | message.STORE_HOST_V6
_TRANSACTION_SHIFT = 2


def _chars(text: str) -> Buffer:
    return np.frombuffer(text.encode("ascii"), np.uint8)


_LOWER, _UPPER = _chars("0123456789abcdef"), _chars("0123456789ABCDEF")
_START = _chars('{"type": "message", "file": ')
_POSITION, _PHYSICAL_OFFSET = _chars(', "position": '), _chars(', "physicalOffset": ')
_TOTAL_SIZE, _V1, _V2 = _chars(', "totalSize": '), _chars(', "magic": "V1"'), _chars(', "magic": "V2"')
_BODY_CRC, _QUEUE, _FLAG = _chars(', "bodyCrc": '), _chars(', "queueId": '), _chars(', "flag": ')
_QUEUE_PLACE, _SYS_FLAG = _chars(', "queueOffset": '), _chars(', "sysFlag": ')
_NO_TRANSACTION = _chars(', "transactionType": "none"')
_IS_PREPARED = _chars(', "transactionType": "prepared"')
_IS_COMMIT = _chars(', "transactionType": "commit"')
_IS_ROLLBACK = _chars(', "transactionType": "rollback"')
_BORN, _BORN_HOST = _chars(', "bornTimestamp": '), _chars(', "bornHost": "')
_STORED, _STORE_HOST = _chars('", "storeTimestamp": '), _chars(', "storeHost": "')
_RECONSUMED, _PREPARED = _chars('", "reconsumeTimes": '), _chars(', "preparedTransactionOffset": ')
_TOPIC, _BODY_LENGTH = _chars(', "topic": '), _chars(', "bodyLength": ')
_BODY_IS, _PROPERTIES, _NULL = _chars(', "body": '), _chars(', "properties": {'), _chars("null")
_TAGS_ARE, _KEYS_ARE, _UNIQ_IS = _chars('}, "tags": '), _chars(', "keys": ['), _chars('], "uniqKey": ')
_TAGS_CODE, _MSG_ID, _END = _chars(', "tagsCode": '), _chars(', "msgId": "'), _chars('"}\n')
_COMMA, _COLON = _chars(", "), _chars(": ")
_HIDDEN_BYTE = _chars("\\\\x")
_FIXED_ROOM = 1200  # the longest line without file, topic, properties and body is below 900 bytes
_CRC_NAME_LENGTH = 8  # __CRC32#


@kernel
def _put(out: Buffer, n: int, text: Buffer) -> int:
    for i in range(len(text)):
        out[n + i] = text[i]
    return n + len(text)


@kernel
def _put_number(out: Buffer, n: int, value: int) -> int:
    """Write a decimal number; the least i64 has no positive twin, so the digits are those of a u64."""
    rest = np.uint64(value)
    if value < 0:
        out[n] = 0x2D
        n += 1
        rest = np.uint64(0) - rest
    size, power = 1, rest
    while power >= np.uint64(10):
        power //= np.uint64(10)
        size += 1
    for i in range(size):
        out[n + size - 1 - i] = np.uint8(np.uint64(0x30) + rest % np.uint64(10))
        rest //= np.uint64(10)
    return n + size


@kernel
def _put_string(out: Buffer, n: int, buffer: Buffer, start: int, stop: int) -> int:
    """Write printable ASCII as a JSON string."""
    out[n] = 0x22
    n += 1
    for i in range(start, stop):
        byte = buffer[i]
        if byte in (0x22, 0x5C):
            out[n] = 0x5C
            n += 1
        out[n] = byte
        n += 1
    out[n] = 0x22
    return n + 1


@kernel
def _put_hex(out: Buffer, n: int, buffer: Buffer, start: int, stop: int, digits: Buffer) -> int:
    for i in range(start, stop):
        out[n] = digits[buffer[i] >> 4]
        out[n + 1] = digits[buffer[i] & 0xF]
        n += 2
    return n


@kernel
def _put_host(out: Buffer, n: int, buffer: Buffer, at: int) -> int:
    for i in range(4):
        n = _put_number(out, n, as_int(buffer[at + i]))
        out[n] = 0x2E if i < 3 else 0x3A
        n += 1
    return _put_number(out, n, read_i32(buffer, at + 4))


@kernel
def _put_body(out: Buffer, n: int, buffer: Buffer, start: int, stop: int, form: int) -> int:
    r"""Write a body; in text a backslash is doubled a control is ``\xNN``; JSON doubles both again."""
    if form == _HEX:
        out[n] = 0x22
        n = _put_hex(out, n + 1, buffer, start, stop, _LOWER)
        out[n] = 0x22
        return n + 1
    if form != _TEXT:
        return _put(out, n, _NULL)
    out[n] = 0x22
    n += 1
    for i in range(start, stop):
        byte = buffer[i]
        if byte < 0x20 or byte == 0x7F:
            n = _put(out, n, _HIDDEN_BYTE)
            n = _put_hex(out, n, buffer, i, i + 1, _LOWER)
            continue
        for _ in range(3 if byte == 0x5C else 1 if byte == 0x22 else 0):
            out[n] = 0x5C
            n += 1
        out[n] = byte
        n += 1
    out[n] = 0x22
    return n + 1


@kernel
def _is_printable(buffer: Buffer, start: int, stop: int) -> bool:
    for i in range(start, stop):
        if buffer[i] < 0x20 or buffer[i] > 0x7E:
            return False
    return True


@kernel
def _equals(buffer: Buffer, start: int, stop: int, text: Buffer) -> bool:
    if stop - start != len(text):
        return False
    for i in range(len(text)):
        if buffer[start + i] != text[i]:
            return False
    return True


@kernel
def _is_repeated(buffer: Buffer, parts: Int64s, count: int) -> bool:
    """Whether the name of property ``count`` was there before."""
    start, size = parts[count, 0], parts[count, 1] - parts[count, 0]
    for i in range(count):
        if parts[i, 1] - parts[i, 0] == size:
            same = True
            for k in range(size):
                same = same and buffer[parts[i, 0] + k] == buffer[start + k]
            if same:
                return True
    return False


@kernel
def _cut_properties(buffer: Buffer, start: int, stop: int, parts: Int64s) -> int:
    """Fill in where names and values lie; return their number, -1 if they are not plain."""
    count, at = 0, start
    while at < stop:
        if count == MAX_PROPERTIES:
            return -1
        middle = at
        while middle < stop and 0x20 <= buffer[middle] <= 0x7E:
            middle += 1
        if middle in (at, stop) or buffer[middle] != 1:
            return -1
        end = middle + 1
        while end < stop and 0x20 <= buffer[end] <= 0x7E:
            end += 1
        if end == middle + 1 or (end < stop and buffer[end] != 2):
            return -1
        parts[count, 0], parts[count, 1], parts[count, 2], parts[count, 3] = at, middle, middle + 1, end
        is_checksum = middle - at == _CRC_NAME_LENGTH and buffer[at] == 0x5F and buffer[at + 1] == 0x5F
        if is_checksum or _is_repeated(buffer, parts, count):
            return -1
        count += 1
        at = end + 1
    return count


@kernel
def _is_sound(buffer: Buffer, row: Row, values: Int64s) -> bool:
    """Whether nothing is wrong with a message, and none of its parts asks for more than these kernels do."""
    if row.physical_offset != row.place or row.sys_flag & _HOSTS_V6:
        return False
    if values[_INNER_NUM, 0] >= 0 or values[_INNER_BASE, 0] >= 0:
        return False
    if values[_DELAY, 0] >= 0 and is_schedule_topic(buffer, row.topic_start, row.topic_stop):
        return False
    body_stop = row.body_start + row.body_length
    if row.body_length and crc32(buffer, row.body_start, body_stop, 0) & 0x7FFFFFFF != row.body_crc:
        return False
    return _is_printable(buffer, row.topic_start, row.topic_stop)


@kernel
def _is_wanted(buffer: Buffer, row: Row, values: Int64s, wanted: Int64s, topic: Buffer, tag: Buffer) -> bool:
    if not wanted[_BEGIN_MS] <= row.store_timestamp_ms <= wanted[_END_MS]:
        return False
    if row.queue_offset < wanted[_QUEUE_OFFSET] or (wanted[_HAS_QUEUE] and row.queue_id != wanted[_QUEUE_ID]):
        return False
    if wanted[_HAS_TOPIC] and not _equals(buffer, row.topic_start, row.topic_stop, topic):
        return False
    tag_start, tag_stop = values[_TAGS, 0], values[_TAGS, 1]
    return not wanted[_HAS_TAG] or (tag_start >= 0 and _equals(buffer, tag_start, tag_stop, tag))


@kernel
def _put_head(out: Buffer, n: int, buffer: Buffer, row: Row, label: Buffer, segment_start: int) -> int:
    at = row.body_start - _HEAD_SIZE
    n = _put(out, _put(out, n, _START), label)
    n = _put_number(out, _put(out, n, _POSITION), row.place - segment_start)
    n = _put_number(out, _put(out, n, _PHYSICAL_OFFSET), row.physical_offset)
    n = _put_number(out, _put(out, n, _TOTAL_SIZE), as_int(row.total_size))
    n = _put(out, n, _V2) if read_i32(buffer, at + _MAGIC_AT) == _MAGIC_V2 else _put(out, n, _V1)
    n = _put_number(out, _put(out, n, _BODY_CRC), as_int(row.body_crc))
    n = _put_number(out, _put(out, n, _QUEUE), as_int(row.queue_id))
    n = _put_number(out, _put(out, n, _FLAG), read_i32(buffer, at + _FLAG_AT))
    n = _put_number(out, _put(out, n, _QUEUE_PLACE), row.queue_offset)
    n = _put_number(out, _put(out, n, _SYS_FLAG), as_int(row.sys_flag))
    kind = (row.sys_flag >> _TRANSACTION_SHIFT) & 3
    if kind == 0:
        n = _put(out, n, _NO_TRANSACTION)
    elif kind == 1:
        n = _put(out, n, _IS_PREPARED)
    else:
        n = _put(out, n, _IS_COMMIT) if kind == 2 else _put(out, n, _IS_ROLLBACK)
    n = _put_number(out, _put(out, n, _BORN), read_i64(buffer, at + _BORN_AT))
    n = _put_host(out, _put(out, n, _BORN_HOST), buffer, at + _BORN_HOST_AT)
    n = _put_number(out, _put(out, n, _STORED), row.store_timestamp_ms)
    n = _put_host(out, _put(out, n, _STORE_HOST), buffer, at + _STORE_HOST_AT)
    n = _put_number(out, _put(out, n, _RECONSUMED), read_i32(buffer, at + _RECONSUMED_AT))
    return _put_number(out, _put(out, n, _PREPARED), read_i64(buffer, at + _PREPARED_AT))


@kernel
def _put_value(out: Buffer, n: int, buffer: Buffer, start: int, stop: int) -> int:
    return _put(out, n, _NULL) if start < 0 else _put_string(out, n, buffer, start, stop)


@kernel
def _put_keys(out: Buffer, n: int, buffer: Buffer, start: int, stop: int) -> int:
    if start < 0:
        return n
    first = True
    at, end = next_key(buffer, start, stop)
    while at < end:
        if not first:
            n = _put(out, n, _COMMA)
        n = _put_string(out, n, buffer, at, end)
        first = False
        at, end = next_key(buffer, end, stop)
    return n


@kernel
def _put_properties(out: Buffer, n: int, buffer: Buffer, parts: Int64s, count: int) -> int:
    for i in range(count):
        if i:
            n = _put(out, n, _COMMA)
        n = _put_string(out, n, buffer, parts[i, 0], parts[i, 1])
        n = _put_string(out, _put(out, n, _COLON), buffer, parts[i, 2], parts[i, 3])
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
    at = row.body_start - _HEAD_SIZE
    body_stop = row.body_start + row.body_length
    n = _put_head(out, n, buffer, row, label, segment_start)
    n = _put_string(out, _put(out, n, _TOPIC), buffer, row.topic_start, row.topic_stop)
    n = _put_number(out, _put(out, n, _BODY_LENGTH), as_int(row.body_length))
    n = _put_body(out, _put(out, n, _BODY_IS), buffer, row.body_start, body_stop, form)
    n = _put_properties(out, _put(out, n, _PROPERTIES), buffer, parts, count)
    n = _put_value(out, _put(out, n, _TAGS_ARE), buffer, values[_TAGS, 0], values[_TAGS, 1])
    n = _put_keys(out, _put(out, n, _KEYS_ARE), buffer, values[_KEYS, 0], values[_KEYS, 1])
    n = _put_value(out, _put(out, n, _UNIQ_IS), buffer, values[_UNIQ_KEY, 0], values[_UNIQ_KEY, 1])
    code = 0
    if values[_TAGS, 0] >= 0:
        code = hash_utf8(buffer, values[_TAGS, 0], values[_TAGS, 1], 0)
    n = _put_number(out, _put(out, n, _TAGS_CODE), code)
    n = _put_hex(out, _put(out, n, _MSG_ID), buffer, at + _STORE_HOST_AT, at + _STORE_HOST_AT + 8, _UPPER)
    n = _put_hex(out, n, buffer, at + _OFFSET_AT, at + _OFFSET_AT + 8, _UPPER)
    return _put(out, n, _END)


@kernel
def write_lines(
    buffer: Buffer,
    rows: Rows,
    values: Int64s,
    first: int,
    segment_start: int,
    label: Buffer,
    wanted: Int64s,
    topic: Buffer,
    tag: Buffer,
    parts: Int64s,
    out: Buffer,
) -> tuple[int, int, int]:
    """Write the lines of plain messages, up to the first that is not.

    Args:
        buffer: the window, ``(n,)`` uint8.
        rows: ``(k,)`` of ``MESSAGE_ROW``.
        values: ``(k, 8, 2)``, ranges of the values of ``Property``.
        first: index of the first row.
        segment_start: physical offset of the file's first byte.
        label: the file's name as a JSON string.
        wanted: see ``Wanted``.
        topic: the topic that is wanted, if one is.
        tag: the tag that is wanted, if one is.
        parts: room for the places of properties, ``(MAX_PROPERTIES, 4)``.
        out: receives the lines.

    Returns:
        An ``Ended``, the index of the first row that was not written, and the bytes written.
    """
    n, form = 0, wanted[_BODY]
    body_width = 2 if form == _HEX else 5 if form == _TEXT else 0
    for i in range(first, len(rows)):
        row, found = rows[i], values[i]
        start = row.topic_stop + 2
        if not _is_sound(buffer, row, found):
            return _ODD, i, n
        count = _cut_properties(buffer, start, start + row.properties_length, parts)
        if count < 0:
            return _ODD, i, n
        if not _is_wanted(buffer, row, found, wanted, topic, tag):
            continue
        body_stop = row.body_start + row.body_length
        if form == _TEXT:
            for k in range(row.body_start, body_stop):
                if buffer[k] >= 0x80:
                    return _ODD, i, n
        room = _FIXED_ROOM + len(label) + 2 * (row.topic_stop - row.topic_start) + 8 * row.properties_length
        if room + body_width * row.body_length > len(out) - n:
            return _FULL, i, n
        n = _put_message(out, n, buffer, row, found, label, segment_start, parts, count, form)
    return _DONE, len(rows), n
