"""What the kernels say of a message: one row each, with the ranges of its parts in the window."""

from __future__ import annotations

from enum import IntEnum
from typing import TYPE_CHECKING

import numpy as np

from rmqtool.javacompat.kernels import pack_names

if TYPE_CHECKING:
    from rmqtool.releases import RecordRules


class Property(IntEnum):
    """The properties that the broker's dispatch reads, as columns of the ranges a walk fills in."""

    KEYS = 0
    UNIQ_KEY = 1
    TAGS = 2
    DELAY = 3
    INNER_MULTI_DISPATCH = 4
    INNER_MULTI_QUEUE_OFFSET = 5
    INNER_NUM = 6
    INNER_BASE = 7


PROPERTY_NAMES, PROPERTY_BOUNDS = pack_names([name.name for name in Property])

MESSAGE_ROW = np.dtype(
    [
        ("place", np.int64),  # physical offset of the first byte, where the record lies
        ("physical_offset", np.int64),  # the record's own PHYSICALOFFSET field
        ("queue_offset", np.int64),
        ("store_timestamp_ms", np.int64),
        ("body_start", np.int64),  # ranges are positions in the window
        ("topic_start", np.int64),
        ("topic_stop", np.int64),
        ("read_length", np.int64),  # bytes the broker read, other than total_size in a mismatch
        ("total_size", np.int32),
        ("body_length", np.int32),
        ("body_crc", np.int32),
        ("queue_id", np.int32),
        ("sys_flag", np.int32),
        ("properties_length", np.int32),
    ],
    align=True,
)

MISMATCH_ROW = np.dtype([("place", np.int64), ("total_size", np.int64), ("read_length", np.int64)])
"""A record whose lengths do not add up to its TOTALSIZE: the broker reads one and skips by the other."""

DAMAGE_ROW = np.dtype(
    [
        ("row", np.int64),  # messages of the batch in front of it
        ("start", np.int64),  # physical offset
        ("stop", np.int64),  # physical offset of the next true record or BLANK
        ("data_start", np.int64),  # physical offset of the first byte that is not zero
        ("reason", np.int64),  # an Outcome
        ("total_size", np.int64),
        ("magic", np.int64),
        ("own", np.int64),  # whether PHYSICALOFFSET is ``start``
    ]
)
"""Bytes of a window in which no record can be followed, with the record behind them in it, too."""


class Outcome(IntEnum):
    """What lies at a position: ``CommitLog#checkMessageAndReturnSize``, its failures told apart."""

    NEED = 0  # the window ends before the record does
    RECORD = 1
    BLANK = 2  # success, size 0: roll to the next file
    MISMATCH = 3  # failure, size > 0: the lengths do not add up to TOTALSIZE
    BAD_MAGIC = 4  # from here on: failure, size -1
    BAD_LENGTH = 5  # a part runs past the end of the file or past TOTALSIZE, or is negative
    BAD_NUMBER = 6  # DELAY, INNER_NUM or INNER_BASE is no number
    STOP = 7  # the walk came to the end it was given
    FULL = 8  # no room for another row


class Rules(IntEnum):
    """Places in the array of version-dependent rules that kernels take."""

    CHECKS_ROOM = 0  # 5.3.2+: TOTALSIZE is held against the bytes left before the magic is looked at
    KNOWS_V2 = 1  # 5.1.0+
    KNOWS_INNER_BATCH = 2  # 5.0.0+: INNER_NUM and INNER_BASE are parsed
    REFUSES_NEGATIVE_SIZE = 3  # 5.5.1+: a negative TOTALSIZE fails, whatever the magic


def rules_of(records: RecordRules) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    """Return rules of reading as the kernels take them, by ``Rules``."""
    rules = np.zeros(len(Rules), np.int64)
    rules[Rules.CHECKS_ROOM] = records.checks_room
    rules[Rules.KNOWS_V2] = records.knows_v2
    rules[Rules.KNOWS_INNER_BATCH] = records.knows_inner_batch
    rules[Rules.REFUSES_NEGATIVE_SIZE] = records.refuses_negative_size
    return rules
