"""The hashes that queues and index have of messages, whatever a broker dispatches of them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from rmqtool.dispatch.index_keys import INDEX_TYPE_TAG
from rmqtool.javacompat.kernels import abs_int, hash_utf8, next_key
from rmqtool.jit import entry, kernel
from rmqtool.scan.rows import MESSAGE_ROW, Property

if TYPE_CHECKING:
    from rmqtool.arrays import Buffer, Int64s, Row, Rows

HASH_ROW = np.dtype([("log_offset", np.int64), ("code", np.int64), ("of_queue", np.bool_)], align=True)
"""A hash of a message: the tags code of its unit, or the key hash of an item that it can have in an index."""

_UNIQ_KEY, _KEYS, _TAGS = Property.UNIQ_KEY.value, Property.KEYS.value, Property.TAGS.value
_KEY_SIGN = np.frombuffer(b"#", np.uint8).copy()
_TAG_SIGN = np.frombuffer(f"{INDEX_TYPE_TAG}#".encode(), np.uint8).copy()


@kernel
def _put(hashes: Rows, count: int, row: Row, code: int, of_queue: bool) -> int:
    hashes[count].log_offset, hashes[count].code, hashes[count].of_queue = row.log_offset, code, of_queue
    return count + 1


def _example_of_hash_messages() -> tuple[object, ...]:
    rows, values = np.empty(0, MESSAGE_ROW), np.empty((0, len(Property), 2), np.int64)
    return np.empty(1, np.uint8), rows, values, np.empty(0, HASH_ROW)


@entry(_example_of_hash_messages)
@kernel
def _hash_messages(buffer: Buffer, rows: Rows, values: Int64s, hashes: Rows) -> int:
    count = 0
    for number in range(len(rows)):
        row = rows[number]
        tags, tags_stop = values[number, _TAGS]
        unique, unique_stop = values[number, _UNIQ_KEY]
        keys, keys_stop = values[number, _KEYS]
        seed = hash_utf8(_KEY_SIGN, 0, 1, hash_utf8(buffer, row.topic_start, row.topic_stop, 0))
        if tags >= 0:
            count = _put(hashes, count, row, hash_utf8(buffer, tags, tags_stop, 0), True)
        if unique >= 0:
            code = abs_int(hash_utf8(buffer, unique, unique_stop, seed))
            count = _put(hashes, count, row, code, False)
        if keys >= 0:
            start, stop = next_key(buffer, keys, keys_stop)
            while start >= 0:
                count = _put(hashes, count, row, abs_int(hash_utf8(buffer, start, stop, seed)), False)
                start, stop = next_key(buffer, stop, keys_stop)
        if tags >= 0:
            tag_seed = hash_utf8(_TAG_SIGN, 0, len(_TAG_SIGN), seed)
            code = abs_int(hash_utf8(buffer, tags, tags_stop, tag_seed))
            count = _put(hashes, count, row, code, False)
    return count


def hash_messages(buffer: Buffer, rows: Rows, values: Int64s) -> Rows:
    """Return the hashes of a batch's messages: of TAGS for queues, then those of ``index_keys.item_keys``.

    Args:
        buffer: the bytes that the ranges point into, ``(n,)`` uint8.
        rows: ``(k,)`` of ``MESSAGE_ROW``.
        values: ``(k, 8, 2)``, ranges of the values of ``Property``.

    Returns:
        ``(m,)`` of ``HASH_ROW``, by message.
    """
    lengths = values[:, _KEYS, 1] - values[:, _KEYS, 0]
    hashes = np.empty(3 * len(rows) + int(((lengths + 1) // 2).sum()), HASH_ROW)
    return hashes[: _hash_messages(buffer, rows, values, hashes)]
