"""Checks whether a file belongs to the log beside it, before settings are inferred from it.

A damaged file, or one of another store, may lie among intact ones. A few short reads of each compare it with
the log.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from rmqtool.formats.consumequeue import PREBLANK_SIZE, UNITS
from rmqtool.formats.index import HEADER_SIZE, HEADERS
from rmqtool.formats.message import HEAD_SIZES, MAGIC_V1, MAGIC_V2, decode_head

if TYPE_CHECKING:
    from rmqtool.formats.message import MessageHead
    from rmqtool.store.segments import FileQueue, Segment, StoreFile

_MAGICS = frozenset({MAGIC_V1, MAGIC_V2})
_LOOK_BYTES = 1 << 20


def is_of_log(segment: Segment) -> bool | None:
    """Return whether a log file begins with a record of its own offset; None if with zeros."""
    data = segment.read_at(0, max(HEAD_SIZES), [])
    if not any(data[:8]):
        return None
    head = decode_head(data)
    return head is not None and head.magic in _MAGICS and head.physical_offset == segment.start


def is_of_queue(segment: Segment, log: FileQueue) -> bool | None:
    """Return whether a queue file's first unit leads to a record of its size; None if unknown."""
    unit = UNITS.padded(segment.read_at(0, UNITS.size, []))
    if unit.size <= 0 or unit.size == PREBLANK_SIZE:
        return None
    found = _head_at(log, unit.physical_offset)
    return found if isinstance(found, bool | None) else found.total_size == unit.size


def is_of_index(file: StoreFile, log: FileQueue) -> bool | None:
    """Return whether the header of an index file fits records of the log; None if the log cannot say."""
    header = HEADERS.padded(file.read_at(0, HEADERS.size, []))
    if header.index_count <= 1:
        return None
    answers = [
        found if isinstance(found, bool | None) else found.store_timestamp_ms == timestamp_ms
        for found, timestamp_ms in (
            (_head_at(log, header.begin_phy_offset), header.begin_timestamp_ms),
            (_head_at(log, header.end_phy_offset), header.end_timestamp_ms),
        )
    ]
    return True if True in answers else False if False in answers else None


def holds_bytes(file: StoreFile) -> bool:
    """Return whether an index file has bytes after its header, as far as one short read shows."""
    start = file.next_data(HEADER_SIZE)
    return any(file.read_at(start, _LOOK_BYTES, []))


def _head_at(log: FileQueue, physical_offset: int) -> MessageHead | bool | None:
    """Return the head of a record; False without one, None where the log has nothing any more, or yet."""
    if not len(log) or physical_offset < log.start:
        return None
    segment = log.segment_at(physical_offset)
    if segment is None:
        return False if physical_offset >= log.stop else None
    head = decode_head(segment.read_at(physical_offset - segment.start, max(HEAD_SIZES), []))
    if head is None or head.magic not in _MAGICS or head.physical_offset != physical_offset:
        return False
    return head
