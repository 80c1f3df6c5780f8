"""Kernels that select messages: those that kernels write themselves, and those of a filter or query."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from rmqtool.formats.message import COMPRESSED_FLAG, LOST_PROPERTY
from rmqtool.javacompat import PROP_CRC_NAME
from rmqtool.kernels.bytes import begins_with, equals, first_at_least, same_bytes
from rmqtool.kernels.checks import record_crcs
from rmqtool.kernels.checksums import masked_crc32
from rmqtool.kernels.jit import empty, entry, inlined, kernel
from rmqtool.kernels.json import chars
from rmqtool.kernels.properties import (
    abs_int,
    find_property,
    has_inner_batch,
    hash_utf8,
    inner_batch,
    next_key,
    next_property,
    offsets_taken,
    value_of,
)
from rmqtool.kernels.rows import (
    MessageBatch,
    Property,
    no_messages,
)
from rmqtool.kernels.walk import head_of
from rmqtool.topics import EXPLAINED_TOPICS

if TYPE_CHECKING:
    from rmqtool.arrays import Buffer, Int64s, Row


GLOBS_APART = 0xFF
"""Separator of globs over a topic; never a byte of UTF-8."""


class KernelFilter(NamedTuple):
    """A ``MessageFilter`` in the form that kernels take; a part that is not given has a 0 in ``has_…``.

    Attributes:
        topic: Globs of ``*`` and ``?``, ``GLOBS_APART`` between them.
        key: A key or a unique key.
        odd_flags: Bits of SYSFLAG: a message with one of them is odd.
        no_meaning: Whether a message that means more than was sent is odd.
        queues: Ascending keys of queues (``queue_key``) of which a part is wanted.
        least: The first queue offset that is wanted of each.
        has_unread: Whether only messages that take queue offsets are wanted, of these queues such a part.
        places: Ascending physical offsets.
        text: Bytes in the body; whether a compressed one has them is for plain Python.
        is_shown_otherwise: Whether all that is wanted is odd.
    """

    begin_ms: int
    end_ms: int
    queue_offset: int
    has_queue: int
    queue_id: int
    has_topic: int
    topic: Buffer
    has_tag: int
    tag: Buffer
    has_key: int
    key: Buffer
    odd_flags: int
    no_meaning: int
    has_unread: int
    queues: Int64s
    least: Int64s
    has_places: int
    places: Int64s
    has_text: int
    text: Buffer
    is_shown_otherwise: int


def no_filter() -> KernelFilter:
    """Return a filter for examples of arguments."""
    text, (numbers,) = np.frombuffer(b"", np.uint8), empty(np.int64)
    return KernelFilter(
        0, 0, 0, 0, 0, 0, text, 0, text, 0, text, 0, 0, 0, numbers, numbers, 0, numbers, 0, text, 0
    )


MAX_PROPERTIES = 64
"""A message with more is odd."""


_CRC_NAME = np.frombuffer(PROP_CRC_NAME[:-1], np.uint8)
_LOST_NAME = chars(LOST_PROPERTY)
_EXPLAINED = tuple(chars(topic) for topic in EXPLAINED_TOPICS)
_QUEUE_ID_BITS = 32
_ASTERISK, _QUESTION_MARK = 0x2A, 0x3F


@inlined
def _is_repeated(buffer: Buffer, parts: Int64s, count: int) -> bool:
    start, stop = parts[count, 0], parts[count, 1]
    for i in range(count):
        same_size = parts[i, 1] - parts[i, 0] == stop - start
        if same_size and same_bytes(buffer, parts[i, 0], buffer, start, stop):
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
def holds_any_checksum(buffer: Buffer, row: Row) -> bool:
    """Whether the record agrees with its property ``__CRC32#``, if it has one."""
    start = row.topic_stop + 2
    crc_at = find_property(buffer, start, start + row.properties_length, _CRC_NAME)[0]
    return crc_at < 0 or _agrees_with_checksum(buffer, row)


@kernel
def _agrees_with_checksum(buffer: Buffer, row: Row) -> bool:
    stored, crc = record_crcs(buffer, head_of(row)[0], row)
    return stored == crc


@inlined
def is_intact(buffer: Buffer, row: Row, values: Int64s, odd_flags: int) -> bool:
    """Whether a message has no odd flag, and only its properties can be wrong."""
    if row.physical_offset != row.log_offset or row.sys_flag & odd_flags:
        return False
    if has_inner_batch(values) and not inner_batch(buffer, values)[0]:
        return False
    body_stop = row.body_start + row.body_length
    return not row.body_length or masked_crc32(buffer, row.body_start, body_stop) == row.body_crc


@kernel
def has_meaning(buffer: Buffer, row: Row, values: Int64s) -> bool:
    """Whether a message means more than was sent: see `rmqtool.rows.meanings.explanation_of`."""
    if values[Property.INNER_MULTI_DISPATCH, 0] >= 0 or _is_system_topic(buffer, row):
        return True
    start = row.topic_stop + 2
    return find_property(buffer, start, start + row.properties_length, _LOST_NAME)[0] >= 0


@kernel
def _is_system_topic(buffer: Buffer, row: Row) -> bool:
    for topic in _EXPLAINED:
        if begins_with(buffer, row.topic_start, row.topic_stop, topic):
            return True
    return False


@inlined
def is_wanted(buffer: Buffer, row: Row, values: Int64s, wanted: KernelFilter) -> bool:
    """Whether a message is one that was requested."""
    if not wanted.begin_ms <= row.store_timestamp_ms <= wanted.end_ms:
        return False
    if row.queue_offset < wanted.queue_offset or (wanted.has_queue and row.queue_id != wanted.queue_id):
        return False
    if wanted.has_topic and not _matches_any(buffer, row.topic_start, row.topic_stop, wanted.topic):
        return False
    start, stop = value_of(values, Property.TAGS)
    if wanted.has_tag and (start < 0 or not equals(buffer, start, stop, wanted.tag)):
        return False
    if wanted.has_key and not _has_key(buffer, values, wanted.key):
        return False
    if wanted.has_unread and not _is_unread(buffer, row, values, wanted):
        return False
    if wanted.has_places and not _contains(wanted.places, row.log_offset):
        return False
    if not wanted.has_text or row.sys_flag & COMPRESSED_FLAG:
        return True
    return _has_text(buffer, row.body_start, row.body_start + row.body_length, wanted.text)


@inlined
def is_for_python(row: Row, wanted: KernelFilter) -> bool:
    """Whether a message that is wanted has to be looked into, or to be shown otherwise than it lies there."""
    return bool(wanted.is_shown_otherwise or (wanted.has_text and row.sys_flag & COMPRESSED_FLAG))


def queue_key(topic_hash: int, queue_id: int) -> int:
    """Return one number for a queue, by the hash code of its topic."""
    return (topic_hash << _QUEUE_ID_BITS) + queue_id


@kernel
def _is_unread(buffer: Buffer, row: Row, values: Int64s, wanted: KernelFilter) -> bool:
    taken = offsets_taken(buffer, row, values)
    topic_hash = hash_utf8(buffer, row.topic_start, row.topic_stop, 0)
    key = (topic_hash << _QUEUE_ID_BITS) + row.queue_id
    place = first_at_least(wanted.queues, key)
    is_begun = place < len(wanted.queues) and wanted.queues[place] == key
    return taken > 0 and row.queue_offset + taken > (wanted.least[place] if is_begun else 0)


@kernel
def _has_text(buffer: Buffer, start: int, stop: int, text: Buffer) -> bool:
    for at in range(start, stop - len(text) + 1):
        if buffer[at] == text[0] and begins_with(buffer, at, stop, text):
            return True
    return False


@kernel
def _contains(hashes: Int64s, wanted: int) -> bool:
    place = first_at_least(hashes, wanted)
    return place < len(hashes) and hashes[place] == wanted


@kernel
def _has_key(buffer: Buffer, values: Int64s, key: Buffer) -> bool:
    start, stop = value_of(values, Property.UNIQ_KEY)
    if start >= 0 and equals(buffer, start, stop, key):
        return True
    at, stop = value_of(values, Property.KEYS)
    if at < 0:
        return False
    at, end = next_key(buffer, at, stop)
    while at < end:
        if equals(buffer, at, end, key):
            return True
        at, end = next_key(buffer, end, stop)
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


class KernelPrefilter(NamedTuple):
    """A ``Prefilter`` in the form that kernels take; a part that is not given has a 0 in ``has_…``.

    ``keys`` are key hashes, ``unique`` hash codes of unique keys, both ascending.
    """

    begin_ms: int
    end_ms: int
    queue_offset: int
    has_topic: int
    topic_hash: int
    has_queue: int
    queue_id: int
    has_keys: int
    keys: Int64s
    of_any_topic: int
    has_unique: int
    unique: Int64s


_HASH_SIGN = np.frombuffer(b"#", np.uint8).copy()


@kernel
def _has_hash(buffer: Buffer, row: Row, values: Int64s, hashes: Int64s, of_any_topic: int) -> bool:
    """Whether the index would hold one of the key hashes for a message (``IndexService#buildIndex``)."""
    seed = 0
    if not of_any_topic:
        seed = hash_utf8(_HASH_SIGN, 0, 1, hash_utf8(buffer, row.topic_start, row.topic_stop, 0))
    if values[Property.UNIQ_KEY, 0] >= 0:
        code = hash_utf8(buffer, *value_of(values, Property.UNIQ_KEY), seed)
        if _contains(hashes, abs_int(code)):
            return True
    if values[Property.KEYS, 0] < 0:
        return False
    start, stop = next_key(buffer, *value_of(values, Property.KEYS))
    while start >= 0:
        if _contains(hashes, abs_int(hash_utf8(buffer, start, stop, seed))):
            return True
        start, stop = next_key(buffer, stop, values[Property.KEYS, 1])
    return False


@kernel
def _is_of_queue(buffer: Buffer, row: Row, wanted: KernelPrefilter) -> bool:
    if row.queue_offset < wanted.queue_offset or (wanted.has_queue and row.queue_id != wanted.queue_id):
        return False
    topic_hash = wanted.topic_hash
    return not wanted.has_topic or hash_utf8(buffer, row.topic_start, row.topic_stop, 0) == topic_hash


@kernel
def _stays(buffer: Buffer, row: Row, values: Int64s, wanted: KernelPrefilter) -> bool:
    if row.store_timestamp_ms < wanted.begin_ms or row.store_timestamp_ms > wanted.end_ms:
        return False
    if values[Property.INNER_MULTI_DISPATCH, 0] < 0 and not _is_of_queue(buffer, row, wanted):
        return False
    if wanted.has_unique:
        start, stop = value_of(values, Property.UNIQ_KEY)
        return start >= 0 and _contains(wanted.unique, hash_utf8(buffer, start, stop, 0))
    return not wanted.has_keys or _has_hash(buffer, row, values, wanted.keys, wanted.of_any_topic)


def _example_of_find_candidates() -> tuple[object, ...]:
    (none,) = empty(np.int64)
    return no_messages(), KernelPrefilter(0, 0, 0, 0, 0, 0, 0, 0, none, 0, 0, none), none


@entry(_example_of_find_candidates)
@kernel
def find_candidates(batch: MessageBatch, wanted: KernelPrefilter, log_offsets: Int64s) -> int:
    """Write the physical offsets of the messages that may match into ``log_offsets``; return how many."""
    rows, count = batch.rows, 0
    for number in range(len(rows)):
        if _stays(batch.buffer, rows[number], batch.values[number], wanted):
            log_offsets[count] = rows[number].log_offset
            count += 1
    return count
