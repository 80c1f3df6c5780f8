"""Kernels that select plain messages, which the kernel of lines writes itself, and requested ones.

A plain message is intact, has an ordinary topic, and has text that any format may show as it is.
"""

from __future__ import annotations

from enum import IntEnum
from typing import TYPE_CHECKING

import numpy as np

from rmqtool.javacompat import PROP_CRC_NAME, PROP_CRC_SIZE
from rmqtool.kernels.checks import stored_record_crc
from rmqtool.kernels.checksums import crc32
from rmqtool.kernels.integers import parse_long, parse_short
from rmqtool.kernels.jit import inlined, kernel
from rmqtool.kernels.json import chars, is_harmless
from rmqtool.kernels.properties import next_key, next_property
from rmqtool.kernels.rows import (
    BORN_HOST_AT,
    BORN_V6,
    HEAD_SIZES,
    STORE_HOST_AT,
    STORE_V6,
    VARIANT_SHIFT,
    Property,
)
from rmqtool.topics import EXPLAINED_TOPICS

if TYPE_CHECKING:
    from rmqtool.arrays import Buffer, Int64s, Row


GLOBS_APART = 0xFF
"""Stands between globs over a topic; no byte of UTF-8."""


class RowFilter(IntEnum):
    """Places in the array of numbers that `is_wanted` takes."""

    BEGIN_MS = 0
    END_MS = 1
    QUEUE_OFFSET = 2
    HAS_QUEUE = 3
    QUEUE_ID = 4
    HAS_TOPIC = 5
    HAS_TAG = 6
    HAS_KEY = 7
    BODY = 8
    ODD_FLAGS = 9  # bits of SYSFLAG: a message with one of them is not plain


MAX_PROPERTIES = 64
"""A message with more is not plain."""

_BEGIN_MS, _END_MS, _QUEUE_OFFSET = (
    RowFilter.BEGIN_MS.value,
    RowFilter.END_MS.value,
    RowFilter.QUEUE_OFFSET.value,
)
_HAS_QUEUE, _QUEUE_ID, _HAS_TOPIC = (
    RowFilter.HAS_QUEUE.value,
    RowFilter.QUEUE_ID.value,
    RowFilter.HAS_TOPIC.value,
)
_HAS_TAG, _HAS_KEY, _ODD_FLAGS = RowFilter.HAS_TAG.value, RowFilter.HAS_KEY.value, RowFilter.ODD_FLAGS.value
_KEYS, _UNIQ_KEY, _TAGS = Property.KEYS.value, Property.UNIQ_KEY.value, Property.TAGS.value
_INNER_NUM, _INNER_BASE = Property.INNER_NUM.value, Property.INNER_BASE.value
_MULTI_DISPATCH = Property.INNER_MULTI_DISPATCH.value

_CRC_NAME, _CRC_BYTES = np.frombuffer(PROP_CRC_NAME[:-1], np.uint8), PROP_CRC_SIZE
_CRC_MASK = 0x7FFFFFFF
_MAPPED_ZEROS = 10  # of an IPv4 address in IPv6 form, before two bytes 0xFF
_EXPLAINED = tuple(chars(topic) for topic in EXPLAINED_TOPICS)
_ASTERISK, _QUESTION_MARK = 0x2A, 0x3F


@kernel
def _begins_with(buffer: Buffer, start: int, stop: int, text: Buffer) -> bool:
    if stop - start < len(text):
        return False
    for i in range(len(text)):
        if buffer[start + i] != text[i]:
            return False
    return True


@kernel
def _equals(buffer: Buffer, start: int, stop: int, text: Buffer) -> bool:
    return stop - start == len(text) and _begins_with(buffer, start, stop, text)


@inlined
def _is_repeated(buffer: Buffer, parts: Int64s, count: int) -> bool:
    start, size = parts[count, 0], parts[count, 1] - parts[count, 0]
    for i in range(count):
        if parts[i, 1] - parts[i, 0] == size:
            k = 0
            while k < size and buffer[parts[i, 0] + k] == buffer[start + k]:
                k += 1
            if k == size:
                return True
    return False


@kernel
def split_properties(buffer: Buffer, start: int, stop: int, parts: Int64s) -> int:
    """Find the properties of a message; return their number, -1 if they are too many or a name is repeated.

    ``parts`` is filled with start and stop of each name and of its value, ``(MAX_PROPERTIES, 4)``.
    """
    count, at = 0, start
    while at < stop:
        middle, end = next_property(buffer, at, stop)
        if middle > at and middle + 1 < end:  # the reader drops any other piece
            if count == MAX_PROPERTIES:
                return -1
            parts[count, 0], parts[count, 1], parts[count, 2], parts[count, 3] = at, middle, middle + 1, end
            if _is_repeated(buffer, parts, count):
                return -1
            count += 1
        at = end + 1
    return count


@kernel
def cut_properties(buffer: Buffer, start: int, stop: int, parts: Int64s) -> int:
    """Find properties as `split_properties` does; -1 also if one is not harmless."""
    count = split_properties(buffer, start, stop, parts)
    for i in range(count):
        if not is_harmless(buffer, parts[i, 0], parts[i, 1], False):
            return -1
        if not is_harmless(buffer, parts[i, 2], parts[i, 3], False):
            return -1
    return count


@kernel
def holds_checksum(buffer: Buffer, row: Row, parts: Int64s, count: int) -> bool:
    """Whether the record agrees with its property ``__CRC32#``, if it has one; it must be the last."""
    for i in range(count - 1):
        if _equals(buffer, parts[i, 0], parts[i, 1], _CRC_NAME):
            return False
    if not count or not _equals(buffer, parts[count - 1, 0], parts[count - 1, 1], _CRC_NAME):
        return True
    start = row.body_start - HEAD_SIZES[(row.sys_flag >> VARIANT_SHIFT) & 3]
    stop = row.topic_stop + 2 + row.properties_length
    stored = stored_record_crc(buffer, row.topic_stop + 2, stop)
    return stored == crc32(buffer, start, stop - _CRC_BYTES, 0) & _CRC_MASK


@inlined
def is_intact(buffer: Buffer, row: Row, values: Int64s, odd_flags: int) -> bool:
    """Whether a message has no odd flag, and nothing but its properties can be wrong."""
    if row.physical_offset != row.log_offset or row.sys_flag & odd_flags:
        return False
    if row.sys_flag & (BORN_V6 | STORE_V6) and _has_mapped_host(buffer, row):
        return False
    if not _is_inner_batch_sound(buffer, values):
        return False
    body_stop = row.body_start + row.body_length
    return not row.body_length or crc32(buffer, row.body_start, body_stop, 0) & _CRC_MASK == row.body_crc


@kernel
def is_sound(buffer: Buffer, row: Row, values: Int64s, odd_flags: int) -> bool:
    """Whether nothing is wrong with a message, and no part but the properties is odd."""
    if values[_MULTI_DISPATCH, 0] >= 0 or _is_system_topic(buffer, row):
        return False
    if not is_intact(buffer, row, values, odd_flags):
        return False
    return is_harmless(buffer, row.topic_start, row.topic_stop, False)


@inlined
def _is_inner_batch_sound(buffer: Buffer, values: Int64s) -> bool:
    if values[_INNER_NUM, 0] < 0 or values[_INNER_BASE, 0] < 0:
        return True
    base = parse_long(buffer, values[_INNER_BASE, 0], values[_INNER_BASE, 1])[0]
    return base and parse_short(buffer, values[_INNER_NUM, 0], values[_INNER_NUM, 1])[0]


@kernel
def _is_system_topic(buffer: Buffer, row: Row) -> bool:
    start, stop = row.topic_start, row.topic_stop
    return (
        _begins_with(buffer, start, stop, _EXPLAINED[0])
        or _begins_with(buffer, start, stop, _EXPLAINED[1])
        or _begins_with(buffer, start, stop, _EXPLAINED[2])
        or _begins_with(buffer, start, stop, _EXPLAINED[3])
        or _begins_with(buffer, start, stop, _EXPLAINED[4])
        or _begins_with(buffer, start, stop, _EXPLAINED[5])
        or _begins_with(buffer, start, stop, _EXPLAINED[6])
    )


@kernel
def _has_mapped_host(buffer: Buffer, row: Row) -> bool:
    """Whether a host is an IPv4 address in IPv6 form, for which there are several spellings."""
    variant = (row.sys_flag >> VARIANT_SHIFT) & 3
    at = row.body_start - HEAD_SIZES[variant]
    born = row.sys_flag & BORN_V6 and _is_mapped(buffer, at + BORN_HOST_AT)
    return born or (row.sys_flag & STORE_V6 and _is_mapped(buffer, at + STORE_HOST_AT[variant]))


@kernel
def _is_mapped(buffer: Buffer, at: int) -> bool:
    for i in range(_MAPPED_ZEROS):
        if buffer[at + i]:
            return False
    return bool(buffer[at + _MAPPED_ZEROS] == 0xFF and buffer[at + _MAPPED_ZEROS + 1] == 0xFF)


@inlined
def is_wanted(
    buffer: Buffer, row: Row, values: Int64s, wanted: Int64s, topic: Buffer, tag: Buffer, key: Buffer
) -> bool:
    """Whether a plain message is one that was requested; see ``encode_ndjson`` for the arguments."""
    if not wanted[_BEGIN_MS] <= row.store_timestamp_ms <= wanted[_END_MS]:
        return False
    if row.queue_offset < wanted[_QUEUE_OFFSET] or (wanted[_HAS_QUEUE] and row.queue_id != wanted[_QUEUE_ID]):
        return False
    if wanted[_HAS_TOPIC] and not _matches_any(buffer, row.topic_start, row.topic_stop, topic):
        return False
    tag_start, tag_stop = values[_TAGS, 0], values[_TAGS, 1]
    if wanted[_HAS_TAG] and (tag_start < 0 or not _equals(buffer, tag_start, tag_stop, tag)):
        return False
    return not wanted[_HAS_KEY] or _has_key(buffer, values, key)


@kernel
def _has_key(buffer: Buffer, values: Int64s, key: Buffer) -> bool:
    start, stop = values[_UNIQ_KEY, 0], values[_UNIQ_KEY, 1]
    if start >= 0 and _equals(buffer, start, stop, key):
        return True
    if values[_KEYS, 0] < 0:
        return False
    at, end = next_key(buffer, values[_KEYS, 0], values[_KEYS, 1])
    while at < end:
        if _equals(buffer, at, end, key):
            return True
        at, end = next_key(buffer, end, values[_KEYS, 1])
    return False


@kernel
def _matches_any(buffer: Buffer, start: int, stop: int, globs: Buffer) -> bool:
    first = 0
    for place in range(len(globs) + 1):
        if place == len(globs) or globs[place] == GLOBS_APART:
            if matches(buffer, start, stop, globs[first:place]):
                return True
            first = place + 1
    return False


@kernel
def matches(buffer: Buffer, start: int, stop: int, glob: Buffer) -> bool:
    """Whether UTF-8 matches a glob of ``*`` and ``?``; ``?`` is one character.

    On a mismatch the last ``*`` takes one byte more, which may be a part of a character. A ``?`` after it
    takes the rest, which is the match that it would have made with the whole.
    """
    at, place, star, resume = start, 0, -1, start
    while at < stop:
        if place < len(glob) and glob[place] == _ASTERISK:
            star, resume = place, at
            place += 1
        elif place < len(glob) and glob[place] == _QUESTION_MARK:
            at = _after_character(buffer, at, stop)
            place += 1
        elif place < len(glob) and glob[place] == buffer[at]:
            at += 1
            place += 1
        elif star >= 0:
            resume += 1
            at, place = resume, star + 1
        else:
            return False
    while place < len(glob) and glob[place] == _ASTERISK:
        place += 1
    return place == len(glob)


@kernel
def _after_character(buffer: Buffer, at: int, stop: int) -> int:
    at += 1
    while at < stop and buffer[at] & 0xC0 == 0x80:
        at += 1
    return at
