"""Kernels that write messages as columns: numbers, texts and lists in Arrow's layout.

Their output equals the rows of ``rmqtool.rows``. They take intact
messages in valid UTF-8 only and stop at any other, which their caller does in plain Python.
"""

from __future__ import annotations

from enum import IntEnum
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from rmqtool.formats import message
from rmqtool.javacompat import PROP_CRC_NAME
from rmqtool.kernels.bytes import copy_bytes, is_word, load_word, put_word
from rmqtool.kernels.filters import (
    MAX_PROPERTIES,
    KernelFilter,
    has_meaning,
    holds_any_checksum,
    is_for_python,
    is_intact,
    is_wanted,
    no_filter,
    split_properties,
)
from rmqtool.kernels.jit import entry, inlined, kernel
from rmqtool.kernels.json import put_message_id
from rmqtool.kernels.properties import decode_character, hash_utf8, next_key, value_of
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
from rmqtool.kernels.walk import head_of, is_schedule_topic, read_i32, read_i64

if TYPE_CHECKING:
    from rmqtool.arrays import Buffer, Int32s, Int64s, Row


class Long(IntEnum):
    """Columns of int64: rows of their matrix."""

    POSITION = 0
    PHYSICAL_OFFSET = 1
    QUEUE_OFFSET = 2
    BORN_TIMESTAMP = 3
    STORE_TIMESTAMP = 4
    PREPARED_OFFSET = 5
    TAGS_CODE = 6


class Number(IntEnum):
    """Columns of int32; a word is its number."""

    TOTAL_SIZE = 0
    BODY_CRC = 1
    QUEUE_ID = 2
    FLAG = 3
    SYS_FLAG = 4
    RECONSUME_TIMES = 5
    BODY_LENGTH = 6
    MAGIC = 7  # 1 is V2
    TOPIC = 8  # this and the next two: a word, by its number
    BORN_HOST = 9
    STORE_HOST = 10


class Text(IntEnum):
    """Texts that follow each other in one array, one per row, or one per key or property."""

    BODY = 0
    TAGS = 1  # empty where there are none, as the unique key
    UNIQ_KEY = 2
    MSG_ID = 3
    KEY = 4
    NAME = 5
    VALUE = 6


class Word(IntEnum):
    """Columns with few values, each of which is kept once."""

    TOPIC = 0
    BORN_HOST = 1  # as stored: address and port
    STORE_HOST = 2


class Take(IntEnum):
    """Columns that can be left out; any other costs next to nothing and is always written."""

    TOPIC = 0
    BORN_HOST = 1
    STORE_HOST = 2
    TAGS_CODE = 3
    BODY = 4
    TAGS = 5
    UNIQ_KEY = 6
    MSG_ID = 7
    KEYS = 8
    PROPERTIES = 9


class ColumnCount(IntEnum):
    """Places in the array of counts so far."""

    ROWS = 0
    KEYS = 1
    PROPERTIES = 2
    WORDS = 3  # and the next two, by `Word`


class Stopped(IntEnum):
    """Reasons why no more messages were taken."""

    DONE = 0
    FULL = 1
    ODD = 2  # the message at hand is for plain Python


class ColumnRoom(NamedTuple):
    """Arrays that `encode_columns` fills, with room for r rows.

    Attributes:
        takes: Columns to write, by ``Take``.
        parts: Scratch, ``(MAX_PROPERTIES, 4)``.
        counts: Rows and pieces written so far, by ``ColumnCount``.
        longs: ``(len(Long), r)``.
        numbers: ``(len(Number), r)``.
        texts: ``(len(Text), b)``, bytes.
        stops: ``(len(Text), p + 1)``, where each text ends; the first begins at 0.
        used: Bytes of ``texts``, by ``Text``.
        list_stops: ``(2, r + 1)``, the number of keys, and of properties, up to the end of each row.
        slots: ``(len(Word), s)``, see ``put_word``.
        word_stops: ``(len(Word), s / 2)``.
        words: ``(len(Word), w)``.
    """

    takes: Int64s
    parts: Int64s
    counts: Int64s
    longs: Int64s
    numbers: Int32s
    texts: Buffer
    stops: Int32s
    used: Int64s
    list_stops: Int32s
    slots: Int32s
    word_stops: Int32s
    words: Buffer


_MAGIC_V2 = message.MAGIC_V2
_REPLACEMENT = 0xFFFD
_NOT_ASCII = np.uint64(0x8080808080808080)
_ONES = np.uint64(0x0101010101010101)
_NUMBER_SIGN = PROP_CRC_NAME[-2]
_NUMBER_SIGNS = _ONES * np.uint64(_NUMBER_SIGN)
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
def _number_word(room: ColumnRoom, column: int, buffer: Buffer, start: int, stop: int) -> bool:
    """Write the number of a word into its column; False if there is no room for it."""
    numbers, words, stops = room.numbers[Number.TOPIC + column], room.words[column], room.word_stops[column]
    row = room.counts[ColumnCount.ROWS]
    if row:
        last = numbers[row - 1]
        if is_word(words, stops, last, buffer, start, stop):
            numbers[row] = last
            return True
    count = room.counts[ColumnCount.WORDS + column]
    number = put_word(buffer, start, stop, room.slots[column], stops, words, count)
    if number < 0:
        return False
    if number == count:
        room.counts[ColumnCount.WORDS + column] = count + 1
    numbers[row] = number
    return True


@inlined
def _number_words(room: ColumnRoom, buffer: Buffer, row: Row) -> bool:
    at, variant = head_of(row)
    if room.takes[Take.TOPIC]:
        if not _number_word(room, Word.TOPIC, buffer, row.topic_start, row.topic_stop):
            return False
    if room.takes[Take.BORN_HOST]:
        start, size = at + BORN_HOST_AT, 20 if row.sys_flag & BORN_V6 else 8
        if not _number_word(room, Word.BORN_HOST, buffer, start, start + size):
            return False
    if room.takes[Take.STORE_HOST]:
        start, size = at + STORE_HOST_AT[variant], 20 if row.sys_flag & STORE_V6 else 8
        if not _number_word(room, Word.STORE_HOST, buffer, start, start + size):
            return False
    return True


@inlined
def _put_text(room: ColumnRoom, text: int, n: int, buffer: Buffer, start: int, stop: int) -> None:
    """Write text number ``n`` of a column; a negative ``start`` means that there is none."""
    if start >= 0:
        room.used[text] = copy_bytes(room.texts[text], room.used[text], buffer, start, stop)
    room.stops[text, n + 1] = room.used[text]


@inlined
def _put_keys(room: ColumnRoom, buffer: Buffer, start: int, stop: int) -> None:
    if start < 0:
        return
    at, end = next_key(buffer, start, stop)
    while at < end:
        _put_text(room, Text.KEY, room.counts[ColumnCount.KEYS], buffer, at, end)
        room.counts[ColumnCount.KEYS] += 1
        at, end = next_key(buffer, end, stop)


@inlined
def _put_properties(room: ColumnRoom, buffer: Buffer, count: int) -> None:
    parts = room.parts
    for i in range(count):
        n = room.counts[ColumnCount.PROPERTIES] + i
        _put_text(room, Text.NAME, n, buffer, parts[i, 0], parts[i, 1])
        _put_text(room, Text.VALUE, n, buffer, parts[i, 2], parts[i, 3])
    room.counts[ColumnCount.PROPERTIES] += count


@inlined
def _put_numbers(room: ColumnRoom, n: int, buffer: Buffer, row: Row, segment_start: int) -> None:
    longs, numbers = room.longs, room.numbers
    at, variant = head_of(row)
    longs[Long.POSITION, n] = row.log_offset - segment_start
    longs[Long.PHYSICAL_OFFSET, n] = row.physical_offset
    longs[Long.QUEUE_OFFSET, n] = row.queue_offset
    longs[Long.BORN_TIMESTAMP, n] = read_i64(buffer, at + BORN_TIMESTAMP_AT)
    longs[Long.STORE_TIMESTAMP, n] = row.store_timestamp_ms
    longs[Long.PREPARED_OFFSET, n] = read_i64(buffer, at + PREPARED_OFFSET_AT[variant])
    numbers[Number.TOTAL_SIZE, n] = row.total_size
    numbers[Number.BODY_CRC, n] = row.body_crc
    numbers[Number.QUEUE_ID, n] = row.queue_id
    numbers[Number.FLAG, n] = read_i32(buffer, at + FLAG_AT)
    numbers[Number.SYS_FLAG, n] = row.sys_flag
    numbers[Number.RECONSUME_TIMES, n] = read_i32(buffer, at + RECONSUME_TIMES_AT[variant])
    numbers[Number.BODY_LENGTH, n] = row.body_length
    numbers[Number.MAGIC, n] = read_i32(buffer, at + MAGIC_AT) == _MAGIC_V2


@inlined
def _put_texts(room: ColumnRoom, n: int, buffer: Buffer, row: Row, values: Int64s, count: int) -> None:
    takes = room.takes
    if takes[Take.TAGS_CODE]:
        code = 0
        if values[Property.TAGS, 0] >= 0:
            code = hash_utf8(buffer, *value_of(values, Property.TAGS), 0)
        room.longs[Long.TAGS_CODE, n] = code
    if takes[Take.BODY]:
        _put_text(room, Text.BODY, n, buffer, row.body_start, row.body_start + row.body_length)
    if takes[Take.TAGS]:
        _put_text(room, Text.TAGS, n, buffer, *value_of(values, Property.TAGS))
    if takes[Take.UNIQ_KEY]:
        _put_text(room, Text.UNIQ_KEY, n, buffer, *value_of(values, Property.UNIQ_KEY))
    if takes[Take.MSG_ID]:
        end = put_message_id(room.texts[Text.MSG_ID], room.used[Text.MSG_ID], buffer, row)
        room.used[Text.MSG_ID] = room.stops[Text.MSG_ID, n + 1] = end
    if takes[Take.KEYS]:
        _put_keys(room, buffer, *value_of(values, Property.KEYS))
    if takes[Take.PROPERTIES]:
        _put_properties(room, buffer, count)
    room.list_stops[0, n + 1] = room.counts[ColumnCount.KEYS]
    room.list_stops[1, n + 1] = room.counts[ColumnCount.PROPERTIES]


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
            signs |= np.uint64(buffer[at] == _NUMBER_SIGN) << _7
    else:
        for at in range(start, stop - 8, 8):
            high, signs = _look_at_word(buffer, at, high, signs)
        high, signs = _look_at_word(buffer, stop - 8, high, signs)
    return high & _NOT_ASCII != 0, signs & _NOT_ASCII != 0


@inlined
def _has_room(room: ColumnRoom, row: Row) -> bool:
    size, used, counts = room.texts.shape[1], room.used, room.counts
    if counts[ColumnCount.ROWS] == room.longs.shape[1] or used[Text.BODY] + row.body_length > size:
        return False
    for text in range(Text.TAGS, len(used)):
        if used[text] + max(row.properties_length, _LONGEST_ID) > size:
            return False
    left = room.stops.shape[1] - 1 - row.properties_length
    return bool(counts[ColumnCount.KEYS] <= left and counts[ColumnCount.PROPERTIES] <= left)


def _example_of_encode_columns() -> tuple[object, ...]:
    def matrix(rows: type[IntEnum], kind: type[np.generic]) -> np.ndarray[tuple[int, int], np.dtype[Any]]:
        return np.empty((len(rows), 1), kind)

    room = ColumnRoom(
        takes=np.zeros(len(Take), np.int64),
        parts=np.empty((MAX_PROPERTIES, 4), np.int64),
        counts=np.zeros(len(ColumnCount) - 1 + len(Word), np.int64),
        longs=matrix(Long, np.int64),
        numbers=matrix(Number, np.int32),
        texts=matrix(Text, np.uint8),
        stops=matrix(Text, np.int32),
        used=np.zeros(len(Text), np.int64),
        list_stops=np.empty((2, 1), np.int32),
        slots=matrix(Word, np.int32),
        word_stops=matrix(Word, np.int32),
        words=matrix(Word, np.uint8),
    )
    return no_messages(), 0, 0, no_filter(), room


@entry(_example_of_encode_columns)
@kernel
def encode_columns(
    batch: MessageBatch, first: int, segment_start: int, wanted: KernelFilter, room: ColumnRoom
) -> tuple[int, int]:
    """Write the columns of messages, up to the first that is for plain Python.

    Args:
        batch: The messages.
        first: Index of the first row.
        segment_start: Physical offset of the file's first byte.
        wanted: The messages to write.
        room: The columns to fill.

    Returns:
        A ``Stopped``, and the index of the first row that was not written.
    """
    buffer, rows = batch.buffer, batch.rows
    for i in range(first, len(rows)):
        row, values = rows[i], batch.values[i]
        start = row.topic_stop + 2
        stop = start + row.properties_length
        if not is_intact(buffer, row, values, wanted.odd_flags):
            return Stopped.ODD, i
        if wanted.no_meaning and has_meaning(buffer, row, values):
            return Stopped.ODD, i
        is_topic_odd, _ = _look_at(buffer, row.topic_start, row.topic_stop)
        is_odd, has_sign = _look_at(buffer, start, stop)
        if has_sign and not holds_any_checksum(buffer, row):
            return Stopped.ODD, i
        if values[Property.DELAY, 0] >= 0 and is_schedule_topic(buffer, row.topic_start, row.topic_stop):
            return Stopped.ODD, i
        if is_topic_odd and not is_utf8(buffer, row.topic_start, row.topic_stop):
            return Stopped.ODD, i
        if is_odd and not is_utf8(buffer, start, stop):
            return Stopped.ODD, i
        if not is_wanted(buffer, row, values, wanted):
            continue
        if is_for_python(row, wanted):
            return Stopped.ODD, i
        count = 0
        if room.takes[Take.PROPERTIES]:
            count = split_properties(buffer, start, stop, room.parts)
            if count < 0:
                return Stopped.ODD, i
        if not _has_room(room, row) or not _number_words(room, buffer, row):
            return Stopped.FULL, i
        n = room.counts[ColumnCount.ROWS]
        _put_numbers(room, n, buffer, row, segment_start)
        _put_texts(room, n, buffer, row, values, count)
        room.counts[ColumnCount.ROWS] = n + 1
    return Stopped.DONE, len(rows)
