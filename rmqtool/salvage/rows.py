"""Rows of a survey: intact records, where each stands in a queue, and why one is left out."""

from __future__ import annotations

from enum import IntEnum, IntFlag, StrEnum
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from rmqtool.arrays import Bools, Int64s, Rows


_SMALL = np.iinfo(np.int16)


class Mark(IntFlag):
    """What is known of a record."""

    BODY_CRC = 1  # the body is not what BODYCRC says
    RECORD_CRC = 2  # the record is not what its property __CRC32# says
    STALLS = 4  # a number of a multi dispatch is none: a broker gets no further
    PLAIN = 8  # of a type that is put into queues: neither prepared nor rolled back
    TORN = 16  # beside a hole, and its text is none: what no checksum protects is damaged


DAMAGED = Mark.BODY_CRC | Mark.RECORD_CRC | Mark.STALLS | Mark.TORN

RECORD_ROW = np.dtype(
    [
        ("log_offset", np.int64),
        ("store_timestamp_ms", np.int64),
        ("queue_offset", np.int64),
        ("total_size", np.int32),
        ("queue_id", np.int32),
        ("fingerprint", np.uint32),  # CRC-32 of all bytes; 0 where copies are not compared
        ("marks", np.uint8),  # of Mark
        ("source", np.uint8),  # number of the copy it was read from
    ]
)

"""A true record."""

UNIT_ROW = np.dtype(
    [
        ("log_offset", np.int64),  # of its record
        ("queue_offset", np.int64),
        ("count", np.int32),  # queue offsets it takes: 1, of an inner batch more
        ("queue", np.int32),  # number in ``Survey.queues``
        ("light", np.bool_),  # by a multi dispatch: the record stands in another queue, too
    ]
)

"""Where a record would stand in a queue."""


def in_queue_order(units: Rows) -> Int64s:
    """Return numbers of units sorted by queue, those of a queue in log order, ``(m,)``."""
    queues = units["queue"]
    if len(queues) and queues.min() >= 0 and queues.max() <= _SMALL.max:
        queues = queues.astype(_SMALL.dtype)  # numpy sorts such by counting
    order: Int64s = np.argsort(queues, kind="stable")
    return order


def by_queue(units: Rows, queues: int, among: Bools | None = None) -> list[Int64s]:
    """Return the numbers of each queue's units in log order.

    Args:
        units: ``(m,)`` of ``UNIT_ROW``.
        queues: how many there are.
        among: which units count, ``(m,)``; all by default.
    """
    order = in_queue_order(units)
    if among is not None:
        order = order[among[order]]
    bounds = np.searchsorted(units["queue"][order], np.arange(queues + 1))
    return [order[start:stop] for start, stop in pairwise(bounds.tolist())]


class Holes(StrEnum):
    """Values of ``--holes``: what takes the place of lost messages."""

    TOMBSTONE = "tombstone"  # a message that says so, at the lost one's queue offset
    REPEAT = "repeat"  # nothing in the log; the queue's unit repeats the one before it
    FILLER = "filler"  # nothing: queue offsets after them shift
    CUT = "cut"  # the log ends at the first of them


class Cause(IntEnum):
    """Why a true record is not recovered."""

    NONE = 0
    BODY = 1  # its body is not what its checksum says
    STALE = 2  # older bytes behind a rewritten tail, or of another life of the file
    FIELDS = 3  # what it says of its queue is contradicted
    CHOICE = 4  # the user's choice: topic, time or offset
    ROOM = 5  # it leaves no room for what must stand beside it
    PROPERTIES = 6  # its properties are torn, or its own __CRC32# fails though the body holds


DAMAGED_CAUSES = (Cause.BODY, Cause.PROPERTIES)
