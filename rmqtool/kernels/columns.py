"""Kernels that write messages as columns: numbers, texts and lists in Arrow's layout.

Their output equals the rows of ``rmqtool.rows``, as that of ``ndjson_kernels`` does. They take intact
messages in valid UTF-8 only and stop at any other, which their caller does in plain Python.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from rmqtool.formats import message
from rmqtool.javacompat import PROP_CRC_NAME, PROP_CRC_SIZE
from rmqtool.kernels.checks import stored_record_crc
from rmqtool.kernels.checksums import crc32
from rmqtool.kernels.column_layout import ColumnCount, Long, Number, Stopped, Take, Text, Word
from rmqtool.kernels.integers import load_word
from rmqtool.kernels.jit import entry, inlined, kernel
from rmqtool.kernels.json import UPPER, put_hex
from rmqtool.kernels.plain import MAX_PROPERTIES, RowFilter, is_intact, is_wanted, split_properties
from rmqtool.kernels.properties import decode_character, find_property, hash_utf8, next_key
from rmqtool.kernels.rows import (
    BORN_HOST_AT,
    BORN_TIMESTAMP_AT,
    BORN_V6,
    FLAG_AT,
    HEAD_SIZES,
    MAGIC_AT,
    MESSAGE_ROW,
    PHYSICAL_OFFSET_AT,
    PREPARED_OFFSET_AT,
    RECONSUME_TIMES_AT,
    STORE_HOST_AT,
    STORE_V6,
    VARIANT_SHIFT,
    Property,
)
from rmqtool.kernels.walk import is_schedule_topic, read_i32, read_i64
from rmqtool.kernels.words import copy_bytes, is_word, put_word

if TYPE_CHECKING:
    from rmqtool.arrays import Buffer, Int32s, Int64s, Row, Rows


_DONE, _FULL, _ODD = Stopped.DONE.value, Stopped.FULL.value, Stopped.ODD.value
_POSITION, _PHYSICAL_OFFSET = Long.POSITION.value, Long.PHYSICAL_OFFSET.value
_QUEUE_OFFSET, _BORN, _STORED = (
    Long.QUEUE_OFFSET.value,
    Long.BORN_TIMESTAMP.value,
    Long.STORE_TIMESTAMP.value,
)
_PREPARED, _TAGS_CODE = Long.PREPARED_OFFSET.value, Long.TAGS_CODE.value
_TOTAL_SIZE, _BODY_CRC, _QUEUE_ID = Number.TOTAL_SIZE.value, Number.BODY_CRC.value, Number.QUEUE_ID.value
_FLAG, _SYS_FLAG, _MAGIC = Number.FLAG.value, Number.SYS_FLAG.value, Number.MAGIC.value
_RECONSUMED, _BODY_LENGTH = Number.RECONSUME_TIMES.value, Number.BODY_LENGTH.value
_WORD_NUMBERS = Number.TOPIC.value
_BODY, _TAGS, _UNIQ_KEY = Text.BODY.value, Text.TAGS.value, Text.UNIQ_KEY.value
_MSG_ID, _KEY, _NAME, _VALUE = Text.MSG_ID.value, Text.KEY.value, Text.NAME.value, Text.VALUE.value
_TOPIC, _BORN_HOST, _STORE_HOST = Word.TOPIC.value, Word.BORN_HOST.value, Word.STORE_HOST.value
_TAKES_CODE, _TAKES_BODY, _TAKES_TAGS = Take.TAGS_CODE.value, Take.BODY.value, Take.TAGS.value
_TAKES_UNIQ, _TAKES_ID = Take.UNIQ_KEY.value, Take.MSG_ID.value
_TAKES_KEYS, _TAKES_PROPERTIES = Take.KEYS.value, Take.PROPERTIES.value
_ROWS, _KEYS, _PROPERTIES, _WORDS = (
    ColumnCount.ROWS.value,
    ColumnCount.KEYS.value,
    ColumnCount.PROPERTIES.value,
    ColumnCount.WORDS.value,
)
_ODD_FLAGS = RowFilter.ODD_FLAGS.value
_OF_KEYS, _OF_UNIQ, _OF_TAGS = Property.KEYS.value, Property.UNIQ_KEY.value, Property.TAGS.value
_OF_DELAY = Property.DELAY.value

_MAGIC_V2 = message.MAGIC_V2
_CRC_NAME, _CRC_BYTES, _CRC_MASK = (
    np.frombuffer(PROP_CRC_NAME[:-1], np.uint8),
    PROP_CRC_SIZE,
    0x7FFFFFFF,
)
_REPLACEMENT = 0xFFFD
_NOT_ASCII = np.uint64(0x8080808080808080)
_ONES = np.uint64(0x0101010101010101)
_NUMBER_SIGNS = _ONES * np.uint64(PROP_CRC_NAME[-2])
_7 = np.uint64(7)
_LONGEST_ID = 56


@kernel
def is_utf8(buffer: Buffer, start: int, stop: int) -> bool:
    """Whether bytes are UTF-8 that every decoder reads alike: no surrogates, no U+FFFD."""
    at = start
    while at < stop:
        while at + 8 <= stop and not load_word(buffer, at) & _NOT_ASCII:
            at += 8
        if at >= stop:
            return True
        if buffer[at] < 0x80:
            at += 1
            continue
        character, size = decode_character(buffer, at, stop)
        if character == _REPLACEMENT:
            return False
        at += size
    return True


@inlined
def _number_word(
    buffer: Buffer,
    start: int,
    stop: int,
    column: int,
    numbers: Int32s,
    counts: Int64s,
    slots: Int32s,
    stops: Int32s,
    words: Buffer,
) -> bool:
    """Write the number of a word into its column; False if there is no room for it."""
    row = counts[_ROWS]
    if row:
        last = numbers[_WORD_NUMBERS + column, row - 1]
        if is_word(words[column], stops[column], last, buffer, start, stop):
            numbers[_WORD_NUMBERS + column, row] = last
            return True
    count = counts[_WORDS + column]
    number = put_word(buffer, start, stop, slots[column], stops[column], words[column], count)
    if number < 0:
        return False
    if number == count:
        counts[_WORDS + column] = count + 1
    numbers[_WORD_NUMBERS + column, row] = number
    return True


@inlined
def _number_words(
    buffer: Buffer,
    row: Row,
    takes: Int64s,
    numbers: Int32s,
    counts: Int64s,
    slots: Int32s,
    stops: Int32s,
    words: Buffer,
) -> bool:
    variant = (row.sys_flag >> VARIANT_SHIFT) & 3
    at = row.body_start - HEAD_SIZES[variant]
    if takes[_TOPIC]:
        start, stop = row.topic_start, row.topic_stop
        if not _number_word(buffer, start, stop, _TOPIC, numbers, counts, slots, stops, words):
            return False
    if takes[_BORN_HOST]:
        start = at + BORN_HOST_AT
        stop = start + (20 if row.sys_flag & BORN_V6 else 8)
        if not _number_word(buffer, start, stop, _BORN_HOST, numbers, counts, slots, stops, words):
            return False
    if takes[_STORE_HOST]:
        start = at + STORE_HOST_AT[variant]
        stop = start + (20 if row.sys_flag & STORE_V6 else 8)
        if not _number_word(buffer, start, stop, _STORE_HOST, numbers, counts, slots, stops, words):
            return False
    return True


@inlined
def _put_text(
    texts: Buffer, stops: Int32s, used: Int64s, text: int, n: int, buffer: Buffer, start: int, stop: int
) -> None:
    """Write text number ``n`` of a column; a negative ``start`` means that there is none."""
    if start >= 0:
        used[text] = copy_bytes(texts[text], used[text], buffer, start, stop)
    stops[text, n + 1] = used[text]


@inlined
def _put_keys(
    buffer: Buffer, start: int, stop: int, counts: Int64s, texts: Buffer, stops: Int32s, used: Int64s
) -> None:
    if start < 0:
        return
    at, end = next_key(buffer, start, stop)
    while at < end:
        _put_text(texts, stops, used, _KEY, counts[_KEYS], buffer, at, end)
        counts[_KEYS] += 1
        at, end = next_key(buffer, end, stop)


@inlined
def _put_properties(
    buffer: Buffer, parts: Int64s, count: int, counts: Int64s, texts: Buffer, stops: Int32s, used: Int64s
) -> None:
    for i in range(count):
        n = counts[_PROPERTIES] + i
        _put_text(texts, stops, used, _NAME, n, buffer, parts[i, 0], parts[i, 1])
        _put_text(texts, stops, used, _VALUE, n, buffer, parts[i, 2], parts[i, 3])
    counts[_PROPERTIES] += count


@inlined
def _put_numbers(
    buffer: Buffer, row: Row, n: int, segment_start: int, longs: Int64s, numbers: Int32s
) -> None:
    variant = (row.sys_flag >> VARIANT_SHIFT) & 3
    at = row.body_start - HEAD_SIZES[variant]
    longs[_POSITION, n] = row.log_offset - segment_start
    longs[_PHYSICAL_OFFSET, n] = row.physical_offset
    longs[_QUEUE_OFFSET, n] = row.queue_offset
    longs[_BORN, n] = read_i64(buffer, at + BORN_TIMESTAMP_AT)
    longs[_STORED, n] = row.store_timestamp_ms
    longs[_PREPARED, n] = read_i64(buffer, at + PREPARED_OFFSET_AT[variant])
    numbers[_TOTAL_SIZE, n] = row.total_size
    numbers[_BODY_CRC, n] = row.body_crc
    numbers[_QUEUE_ID, n] = row.queue_id
    numbers[_FLAG, n] = read_i32(buffer, at + FLAG_AT)
    numbers[_SYS_FLAG, n] = row.sys_flag
    numbers[_RECONSUMED, n] = read_i32(buffer, at + RECONSUME_TIMES_AT[variant])
    numbers[_BODY_LENGTH, n] = row.body_length
    numbers[_MAGIC, n] = read_i32(buffer, at + MAGIC_AT) == _MAGIC_V2


@inlined
def _put_texts(
    buffer: Buffer,
    row: Row,
    values: Int64s,
    n: int,
    takes: Int64s,
    parts: Int64s,
    count: int,
    longs: Int64s,
    counts: Int64s,
    texts: Buffer,
    stops: Int32s,
    used: Int64s,
    list_stops: Int32s,
) -> None:
    if takes[_TAKES_CODE]:
        code = 0
        if values[_OF_TAGS, 0] >= 0:
            code = hash_utf8(buffer, values[_OF_TAGS, 0], values[_OF_TAGS, 1], 0)
        longs[_TAGS_CODE, n] = code
    if takes[_TAKES_BODY]:
        _put_text(texts, stops, used, _BODY, n, buffer, row.body_start, row.body_start + row.body_length)
    if takes[_TAKES_TAGS]:
        _put_text(texts, stops, used, _TAGS, n, buffer, values[_OF_TAGS, 0], values[_OF_TAGS, 1])
    if takes[_TAKES_UNIQ]:
        _put_text(texts, stops, used, _UNIQ_KEY, n, buffer, values[_OF_UNIQ, 0], values[_OF_UNIQ, 1])
    if takes[_TAKES_ID]:
        variant = (row.sys_flag >> VARIANT_SHIFT) & 3
        at = row.body_start - HEAD_SIZES[variant]
        host, host_size = at + STORE_HOST_AT[variant], 20 if row.sys_flag & STORE_V6 else 8
        end = put_hex(texts[_MSG_ID], used[_MSG_ID], buffer, host, host + host_size, UPPER)
        end = put_hex(
            texts[_MSG_ID], end, buffer, at + PHYSICAL_OFFSET_AT, at + PHYSICAL_OFFSET_AT + 8, UPPER
        )
        used[_MSG_ID] = end
        stops[_MSG_ID, n + 1] = end
    if takes[_TAKES_KEYS]:
        _put_keys(buffer, values[_OF_KEYS, 0], values[_OF_KEYS, 1], counts, texts, stops, used)
    if takes[_TAKES_PROPERTIES]:
        _put_properties(buffer, parts, count, counts, texts, stops, used)
    list_stops[0, n + 1] = counts[_KEYS]
    list_stops[1, n + 1] = counts[_PROPERTIES]


@inlined
def _look_at_word(buffer: Buffer, at: int, high: np.uint64, signs: np.uint64) -> tuple[np.uint64, np.uint64]:
    word = load_word(buffer, at)
    other = word ^ _NUMBER_SIGNS
    return high | word, signs | ((other - _ONES) & ~other)


@inlined
def _look_at(buffer: Buffer, start: int, stop: int) -> tuple[bool, bool]:
    """Whether any byte is not ASCII, and whether any is ``#``, the last of the name ``__CRC32#``.

    Most texts have neither, so nothing is decided before the end.
    """
    high = signs = np.uint64(0)
    if stop - start < 8:
        for at in range(start, stop):
            high |= np.uint64(buffer[at])
            signs |= np.uint64(buffer[at] == _CRC_NAME[-1]) << _7
    else:
        for at in range(start, stop - 8, 8):
            high, signs = _look_at_word(buffer, at, high, signs)
        high, signs = _look_at_word(buffer, stop - 8, high, signs)
    return high & _NOT_ASCII != 0, signs & _NOT_ASCII != 0


@kernel
def _holds_checksum(buffer: Buffer, row: Row) -> bool:
    start = row.topic_stop + 2
    stop = start + row.properties_length
    if find_property(buffer, start, stop, _CRC_NAME)[0] < 0:
        return True
    stored = stored_record_crc(buffer, start, stop)
    first = row.body_start - HEAD_SIZES[(row.sys_flag >> VARIANT_SHIFT) & 3]
    return stored == crc32(buffer, first, stop - _CRC_BYTES, 0) & _CRC_MASK


@inlined
def _has_room(row: Row, counts: Int64s, texts: Buffer, stops: Int32s, used: Int64s, longs: Int64s) -> bool:
    size = texts.shape[1]
    if counts[_ROWS] == longs.shape[1] or used[_BODY] + row.body_length > size:
        return False
    for text in range(_TAGS, len(used)):
        if used[text] + max(row.properties_length, _LONGEST_ID) > size:
            return False
    room = stops.shape[1] - 1 - row.properties_length
    return bool(counts[_KEYS] <= room and counts[_PROPERTIES] <= room)


def _example_of_encode_columns() -> tuple[object, ...]:
    rows, values = np.empty(0, MESSAGE_ROW), np.empty((0, len(Property), 2), np.int64)
    text, wanted = np.frombuffer(b"", np.uint8), np.zeros(len(RowFilter), np.int64)
    parts, buffer = np.empty((MAX_PROPERTIES, 4), np.int64), np.empty(1, np.uint8)
    takes, counts = np.zeros(len(Take), np.int64), np.zeros(len(ColumnCount) - 1 + len(Word), np.int64)
    longs, numbers = np.empty((len(Long), 1), np.int64), np.empty((len(Number), 1), np.int32)
    texts, stops = np.empty((len(Text), 1), np.uint8), np.empty((len(Text), 1), np.int32)
    used, list_stops = np.zeros(len(Text), np.int64), np.empty((2, 1), np.int32)
    words, slots = np.empty((len(Word), 1), np.uint8), np.empty((len(Word), 1), np.int32)
    found = (takes, parts, counts, longs, numbers, texts, stops, used, list_stops, slots, slots, words)
    return buffer, rows, values, 0, 0, wanted, text, text, text, *found


@entry(_example_of_encode_columns)
@kernel
def encode_columns(
    buffer: Buffer,
    rows: Rows,
    values: Int64s,
    first: int,
    segment_start: int,
    wanted: Int64s,
    topic: Buffer,
    tag: Buffer,
    key: Buffer,
    takes: Int64s,
    parts: Int64s,
    counts: Int64s,
    longs: Int64s,
    numbers: Int32s,
    texts: Buffer,
    stops: Int32s,
    used: Int64s,
    list_stops: Int32s,
    slots: Int32s,
    word_stops: Int32s,
    words: Buffer,
) -> tuple[int, int]:
    """Write the columns of messages, up to the first that is for plain Python.

    Args:
        buffer: the window.
        rows: ``(k,)`` of ``MESSAGE_ROW``.
        values: ``(k, 8, 2)``, ranges of the values of ``Property``.
        first: index of the first row.
        segment_start: physical offset of the file's first byte.
        wanted: see ``RowFilter``.
        topic: globs of ``*`` and ``?`` with ``GLOBS_APART`` between them.
        tag: read if ``wanted`` has ``HAS_TAG``.
        key: a key or a unique key; read if ``wanted`` has ``HAS_KEY``.
        takes: columns to write, by ``Take``.
        parts: scratch, ``(MAX_PROPERTIES, 4)``.
        counts: rows and pieces written so far, by ``ColumnCount``.
        longs: ``(len(Long), r)``, room for r rows.
        numbers: ``(len(Number), r)``.
        texts: ``(len(Text), b)``, bytes.
        stops: ``(len(Text), p + 1)``, where each text ends; the first begins at 0.
        used: bytes of ``texts``, by ``Text``.
        list_stops: ``(2, r + 1)``, the number of keys, and of properties, up to the end of each row.
        slots: ``(len(Word), s)``, see ``put_word``.
        word_stops: ``(len(Word), s / 2)``.
        words: ``(len(Word), w)``.

    Returns:
        A ``Stopped``, and the index of the first row that was not written.
    """
    for i in range(first, len(rows)):
        row, found = rows[i], values[i]
        start = row.topic_stop + 2
        stop = start + row.properties_length
        if not is_intact(buffer, row, found, wanted[_ODD_FLAGS]):
            return _ODD, i
        is_topic_odd, _ = _look_at(buffer, row.topic_start, row.topic_stop)
        is_odd, has_sign = _look_at(buffer, start, stop)
        if has_sign and not _holds_checksum(buffer, row):
            return _ODD, i
        if found[_OF_DELAY, 0] >= 0 and is_schedule_topic(buffer, row.topic_start, row.topic_stop):
            return _ODD, i
        if is_topic_odd and not is_utf8(buffer, row.topic_start, row.topic_stop):
            return _ODD, i
        if is_odd and not is_utf8(buffer, start, stop):
            return _ODD, i
        if not is_wanted(buffer, row, found, wanted, topic, tag, key):
            continue
        count = 0
        if takes[_TAKES_PROPERTIES]:
            count = split_properties(buffer, start, stop, parts)
            if count < 0:
                return _ODD, i
        if not _has_room(row, counts, texts, stops, used, longs):
            return _FULL, i
        if not _number_words(buffer, row, takes, numbers, counts, slots, word_stops, words):
            return _FULL, i
        n = counts[_ROWS]
        _put_numbers(buffer, row, n, segment_start, longs, numbers)
        _put_texts(buffer, row, found, n, takes, parts, count, longs, counts, texts, stops, used, list_stops)
        counts[_ROWS] = n + 1
    return _DONE, len(rows)
