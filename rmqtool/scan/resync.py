"""Search for the record at which the chain continues after damage.

A record counts as intact only if the magic is right, PHYSICALOFFSET is its place and the lengths add up (a
BLANK: TOTALSIZE is the rest of the file). Stale but valid bytes are normal in a store: after a BLANK, in
dirty tails, in pooled buffers.
"""

from __future__ import annotations

import heapq
from typing import TYPE_CHECKING

from rmqtool.formats import message
from rmqtool.releases import LENIENT
from rmqtool.scan.records import check_record
from rmqtool.scan.window import Window

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rmqtool.store.segments import Segment

_STARTS = message.RECORD_STARTS
_MAGIC_AT = message.HEAD_OFFSETS[0]["magic"]
_MAGICS = tuple(
    magic.to_bytes(4, "big", signed=True)
    for magic in (message.MAGIC_V1, message.MAGIC_V2, message.BLANK_MAGIC)
)
_FIRST_SPAN_BYTES = 4096
_LARGEST_SPAN_BYTES = 1 << 19


def find_true(window: Window, position: int, base: int, stop: int | None = None) -> int | None:
    """Return the position of the first intact record or BLANK from ``position`` on, before ``stop``.

    ``base`` is the physical offset of the file's first byte; without ``stop`` the file's end is the limit.
    """
    stop = window.size_bytes if stop is None else stop
    span = _FIRST_SPAN_BYTES  # grows: damage is mostly short, and every look-up of a hostile file must be
    while position < stop:
        window.focus(position)
        chunk = window.read_at(position + _MAGIC_AT, span)
        for at in heapq.merge(*(occurrences(chunk, magic) for magic in _MAGICS)):
            if position + at >= stop:
                return None
            if is_true(window, position + at, base):
                return position + at
        if len(chunk) < span:
            return None
        position += span - (_MAGIC_AT - 1)  # a magic may straddle two chunks
        span = min(2 * span, _LARGEST_SPAN_BYTES)
    return None


def occurrences(data: bytes, wanted: bytes) -> Iterator[int]:
    """Yield the positions of some bytes in others."""
    at = data.find(wanted)
    while at >= 0:
        yield at
        at = data.find(wanted, at + 1)


def is_true(window: Window, position: int, base: int) -> bool:
    """Whether a record or BLANK at ``position`` is intact, and lies at the place that it names."""
    start = _STARTS.decode(window.read_at(position, _STARTS.size))
    if start is None:
        return False
    total_size, magic = start
    left = window.size_bytes - position
    if magic == message.BLANK_MAGIC:
        return bool(total_size == left)
    if not message.SMALLEST_RECORD <= total_size <= left:
        return False
    head = message.decode_head(window.read_at(position, max(message.HEAD_SIZES)))
    if head is None or head.physical_offset != base + position:
        return False
    return check_record(window, position, LENIENT, base=base).record is not None


def holds_record(segment: Segment) -> bool:
    """Whether a file of the log holds a record: the one it begins with, or else an intact one."""
    window, base = Window(segment), segment.start
    if check_record(window, 0, LENIENT, base=base).record is not None:
        return True
    # TOTALSIZE, a record's first bytes, may begin with zeros.
    found = find_true(window, max(0, window.skip_zeros(0) - 3), base)
    return found is not None and check_record(window, found, LENIENT, base=base).record is not None
