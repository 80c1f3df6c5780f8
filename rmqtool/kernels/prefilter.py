"""Kernel that selects the messages of a batch that a query may mean."""

from __future__ import annotations

from enum import IntEnum
from typing import TYPE_CHECKING

import numpy as np

from rmqtool.kernels.jit import entry, kernel
from rmqtool.kernels.properties import abs_int, hash_utf8, next_key
from rmqtool.kernels.rows import MESSAGE_ROW, Property

if TYPE_CHECKING:
    from rmqtool.arrays import Buffer, Int64s, Row, Rows


class PrefilterField(IntEnum):
    """Places in the array of numbers that the kernel takes; see ``Prefilter``."""

    BEGIN_MS = 0
    END_MS = 1
    HAS_TOPIC = 2
    TOPIC_HASH = 3
    HAS_QUEUE = 4
    QUEUE_ID = 5
    QUEUE_OFFSET = 6
    HAS_KEYS = 7
    HAS_UNIQUE = 8
    OF_ANY_TOPIC = 9


_BEGIN_MS, _END_MS = PrefilterField.BEGIN_MS.value, PrefilterField.END_MS.value
_HAS_TOPIC, _TOPIC_HASH = PrefilterField.HAS_TOPIC.value, PrefilterField.TOPIC_HASH.value
_HAS_QUEUE, _QUEUE_ID, _QUEUE_OFFSET = (
    PrefilterField.HAS_QUEUE.value,
    PrefilterField.QUEUE_ID.value,
    PrefilterField.QUEUE_OFFSET.value,
)
_HAS_KEYS, _HAS_UNIQUE = PrefilterField.HAS_KEYS.value, PrefilterField.HAS_UNIQUE.value
_OF_ANY_TOPIC = PrefilterField.OF_ANY_TOPIC.value
_KEYS, _UNIQ_KEY, _LIGHT = (
    Property.KEYS.value,
    Property.UNIQ_KEY.value,
    Property.INNER_MULTI_DISPATCH.value,
)
_HASH_SIGN = np.frombuffer(b"#", np.uint8).copy()


@kernel
def _contains(hashes: Int64s, wanted: int) -> bool:
    low, high = 0, len(hashes)
    while low < high:
        middle = (low + high) >> 1
        if hashes[middle] < wanted:
            low = middle + 1
        else:
            high = middle
    return low < len(hashes) and hashes[low] == wanted


@kernel
def _has_key(buffer: Buffer, row: Row, values: Int64s, hashes: Int64s, of_any_topic: int) -> bool:
    """Whether the index would hold one of the key hashes for a message (``IndexService#buildIndex``)."""
    seed = 0
    if not of_any_topic:
        seed = hash_utf8(_HASH_SIGN, 0, 1, hash_utf8(buffer, row.topic_start, row.topic_stop, 0))
    if values[_UNIQ_KEY, 0] >= 0:
        code = hash_utf8(buffer, values[_UNIQ_KEY, 0], values[_UNIQ_KEY, 1], seed)
        if _contains(hashes, abs_int(code)):
            return True
    if values[_KEYS, 0] < 0:
        return False
    start, stop = next_key(buffer, values[_KEYS, 0], values[_KEYS, 1])
    while start >= 0:
        if _contains(hashes, abs_int(hash_utf8(buffer, start, stop, seed))):
            return True
        start, stop = next_key(buffer, stop, values[_KEYS, 1])
    return False


@kernel
def _is_of_queue(buffer: Buffer, row: Row, fields: Int64s) -> bool:
    if row.queue_offset < fields[_QUEUE_OFFSET] or (fields[_HAS_QUEUE] and row.queue_id != fields[_QUEUE_ID]):
        return False
    return (
        not fields[_HAS_TOPIC] or hash_utf8(buffer, row.topic_start, row.topic_stop, 0) == fields[_TOPIC_HASH]
    )


@kernel
def _stays(buffer: Buffer, row: Row, values: Int64s, fields: Int64s, keys: Int64s, unique: Int64s) -> bool:
    if row.store_timestamp_ms < fields[_BEGIN_MS] or row.store_timestamp_ms > fields[_END_MS]:
        return False
    if values[_LIGHT, 0] < 0 and not _is_of_queue(buffer, row, fields):
        return False
    if fields[_HAS_UNIQUE]:
        start, stop = values[_UNIQ_KEY, 0], values[_UNIQ_KEY, 1]
        return start >= 0 and _contains(unique, hash_utf8(buffer, start, stop, 0))
    return not fields[_HAS_KEYS] or _has_key(buffer, row, values, keys, fields[_OF_ANY_TOPIC])


def _example_of_find_candidates() -> tuple[object, ...]:
    rows, values = np.empty(0, MESSAGE_ROW), np.empty((0, len(Property), 2), np.int64)
    fields, none = np.zeros(len(PrefilterField), np.int64), np.empty(0, np.int64)
    return np.empty(1, np.uint8), rows, values, fields, none, none, none


@entry(_example_of_find_candidates)
@kernel
def find_candidates(
    buffer: Buffer,
    rows: Rows,
    values: Int64s,
    fields: Int64s,
    keys: Int64s,
    unique: Int64s,
    log_offsets: Int64s,
) -> int:
    """Write the physical offsets of the messages that may match into ``log_offsets``; return how many.

    ``fields`` are a ``Prefilter``'s, by ``PrefilterField``; ``keys`` are key hashes, ``unique`` hash codes of
    unique keys, both ascending.
    """
    count = 0
    for number in range(len(rows)):
        if _stays(buffer, rows[number], values[number], fields, keys, unique):
            log_offsets[count] = rows[number].log_offset
            count += 1
    return count
