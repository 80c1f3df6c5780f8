"""Rows of messages that kernels fill, with the ranges of their parts in the window; places in a head."""

from __future__ import annotations

from enum import IntEnum
from typing import TYPE_CHECKING

import numpy as np

from rmqtool.formats import message
from rmqtool.javacompat.kernels import pack_names

if TYPE_CHECKING:
    from rmqtool.releases import RecordRules


class Property(IntEnum):
    """Properties that the broker's dispatch reads, as columns of the ranges a walk fills in."""

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
        ("log_offset", np.int64),  # physical offset of the first byte, where the record lies
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
        ("stray_pieces", np.int32),  # of the properties: pieces without a name and a value
    ],
    align=True,
)

MISMATCH_ROW = np.dtype([("log_offset", np.int64), ("total_size", np.int64), ("read_length", np.int64)])
"""A record whose lengths do not add up to its TOTALSIZE: the broker reads one and skips by the other."""

GAP_ROW = np.dtype(
    [
        ("row", np.int64),  # messages of the batch before it
        ("start", np.int64),  # physical offset
        ("stop", np.int64),  # physical offset of the next intact record or BLANK
        ("data_start", np.int64),  # physical offset of the first byte that is not zero
        ("reason", np.int64),  # an Outcome
        ("total_size", np.int64),
        ("magic", np.int64),
        ("own", np.int64),  # whether PHYSICALOFFSET is ``start``
    ]
)
"""A ``Gap`` inside a window: the record after it is in the window, too."""


class Rules(IntEnum):
    """Places in the array of version-dependent rules that kernels take."""

    CHECKS_ROOM = 0  # 5.3.2+: TOTALSIZE is compared with the bytes left before the magic is read
    KNOWS_V2 = 1  # 5.1.0+
    KNOWS_INNER_BATCH = 2  # 5.0.0+: INNER_NUM and INNER_BASE are parsed
    REFUSES_NEGATIVE_SIZE = 3  # 5.5.1+: a negative TOTALSIZE fails, whatever the magic
    REQUIRES_NUMBERS = 4  # every broker: text in place of a number makes the record fail
    KEPT_ARRAY = 5  # 5.5.1+: up to so many bytes a thread keeps the array that it reads parts into


def rules_of(records: RecordRules) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    """Return rules of reading as the kernels take them, by ``Rules``."""
    rules = np.zeros(len(Rules), np.int64)
    rules[Rules.CHECKS_ROOM] = records.checks_room
    rules[Rules.KNOWS_V2] = records.knows_v2
    rules[Rules.KNOWS_INNER_BATCH] = records.knows_inner_batch
    rules[Rules.REFUSES_NEGATIVE_SIZE] = records.refuses_negative_size
    rules[Rules.REQUIRES_NUMBERS] = records.requires_numbers
    rules[Rules.KEPT_ARRAY] = records.kept_array
    return rules


# Arrays are by host variant: the rest of the head moves with the length of the hosts.
_AT = message.HEAD_OFFSETS
_PORT_BYTES = 4

MAGIC_AT, BODY_CRC_AT, QUEUE_ID_AT, FLAG_AT, QUEUE_OFFSET_AT, PHYSICAL_OFFSET_AT, SYS_FLAG_AT = (
    _AT[0][name]
    for name in ("magic", "bodyCrc", "queueId", "flag", "queueOffset", "physicalOffset", "sysFlag")
)
BORN_TIMESTAMP_AT, BORN_HOST_AT = _AT[0]["bornTimestamp"], _AT[0]["bornHost"]
STORE_TIMESTAMP_AT = np.array([at["storeTimestamp"] for at in _AT])
STORE_HOST_AT = np.array([at["storeHost"] for at in _AT])
RECONSUME_TIMES_AT = np.array([at["reconsumeTimes"] for at in _AT])
PREPARED_OFFSET_AT = np.array([at["preparedTransactionOffset"] for at in _AT])
BODY_LENGTH_AT = np.array([at["bodyLength"] for at in _AT])
# A port ends its host.
BORN_PORT_AT, STORE_PORT_AT = STORE_TIMESTAMP_AT - _PORT_BYTES, RECONSUME_TIMES_AT - _PORT_BYTES
HEAD_SIZES = np.array(message.HEAD_SIZES)
BORN_V6, STORE_V6, VARIANT_SHIFT = message.BORN_HOST_V6, message.STORE_HOST_V6, message.VARIANT_SHIFT
"""SYSFLAG says which variant it is: ``(sysFlag >> VARIANT_SHIFT) & 3``."""
