"""Search for records in raw bytes of any size, through a window."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from rmqtool.formats import message
from rmqtool.formats.message import Outcome
from rmqtool.kernels.loose import FOUND_ROW, LOOK_BYTES, find_loose_records
from rmqtool.kernels.rows import no_messages, rules_of
from rmqtool.releases import LENIENT

if TYPE_CHECKING:
    from rmqtool.arrays import Buffer, Rows


WINDOW_BYTES = 4 << 20
_ROWS = 4096
_MAGIC_AT = message.HEAD_OFFSETS[0]["magic"]
LARGEST_RECORD = 64 << 20
"""Longer ones count as damaged: a client sends 16 MiB at most (``com.rocketmq.remoting.frameMaxLength``)."""


class RawBytes(Protocol):
    """An image as the search reads it."""

    @property
    def size_bytes(self) -> int:
        """Return how long it is."""

    def read_into(self, position: int, view: memoryview[Any]) -> int:
        """Fill a view from a position on; return how many bytes came, fewer at the end only."""

    def next_written(self, position: int) -> int:
        """Return the position of the next bytes outside a hole."""


def find_loose(image: RawBytes, start: int, stop: int, window_bytes: int = WINDOW_BYTES) -> Rows:
    """Return the records that begin in a range of an image, also those inside others, by position.

    ``(n,)`` of ``FOUND_ROW``, also of records that fail checks. An image that cannot be read raises
    EnvironmentFailureError.
    """
    taken: list[Rows] = [np.empty(0, FOUND_ROW)]
    buffer = np.empty(max(window_bytes, *message.HEAD_SIZES), np.uint8)
    scratch = rules_of(LENIENT), *no_messages(1)[1:3], np.empty(_ROWS, FOUND_ROW)
    size, at = image.size_bytes, start
    while at < stop:
        # A record's TOTALSIZE may begin with zeros that end a hole.
        at = max(at, image.next_written(at) - _MAGIC_AT)
        have, index = image.read_into(at, buffer.data), 0
        outcome = Outcome.FULL
        while outcome == Outcome.FULL:
            number, index, count = find_loose_records(buffer, index, stop - at, have, size - at, at, *scratch)
            outcome = Outcome(number)
            taken.append(scratch[-1][:count].copy())
        if outcome == Outcome.NEED and index == 0:
            whole = _whole(image, at, buffer)
            end = have if whole is buffer else size - at
            _, index, count = find_loose_records(whole, 0, 1, min(len(whole), end), end, at, *scratch)
            taken.append(scratch[-1][:count].copy())
        if have == 0:
            break  # it is shorter than it was
        at += max(index, int(outcome == Outcome.NEED))
    return np.concatenate(taken)


def _whole(image: RawBytes, at: int, window: Buffer) -> Buffer:
    """Return a record longer than a window, with what follows; the window where its lengths are wrong."""
    head = message.decode_head(window[: max(message.HEAD_SIZES)].tobytes())
    if head is None or head.total_size > LARGEST_RECORD:
        return window
    body_stop = message.HEAD_SIZES[message.host_variant(head.sys_flag)] + max(head.body_length, 0)
    tail = _read(image, at + body_stop, head.total_size - body_stop)
    topic = message.TOPIC_LENGTHS[head.magic]
    properties_at = topic.size + topic.unpack_from(tail.data)[0]
    if not topic.size <= properties_at <= len(tail) - message.PROPERTIES_LENGTH.size:
        return window
    properties = max(message.PROPERTIES_LENGTH.unpack_from(tail.data, properties_at)[0], 0)
    adds_up = properties_at + message.PROPERTIES_LENGTH.size + properties == len(tail)
    return _read(image, at, head.total_size + LOOK_BYTES) if adds_up else window


def _read(image: RawBytes, position: int, length: int) -> Buffer:
    data = np.empty(max(min(length, image.size_bytes - position), 0), np.uint8)
    return data[: image.read_into(position, data.data)]
