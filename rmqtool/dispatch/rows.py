"""Rows that dispatch kernels read and write, and their outcomes."""

from __future__ import annotations

from enum import IntEnum

import numpy as np

QUEUE_ROW = np.dtype(
    [
        ("hash", np.uint64),
        ("name_start", np.int64),
        ("name_length", np.int32),
        ("queue_id", np.int32),
        ("topic_seed", np.int64),  # hash of "topic#"
        ("tag_seed", np.int64),  # hash of "topic#T#"
        ("traits", np.int32),
        ("canonical", np.int32),  # the queue of the same name in valid UTF-8: where the units go
    ],
    align=True,
)

UNIT_ROW = np.dtype(
    [
        ("queue_offset", np.int64),
        ("physical_offset", np.int64),
        ("tags_code", np.int64),
        ("store_timestamp_ms", np.int64),  # NO_EXT_UNIT: the unit has no ext unit (multi dispatch)
        ("queue", np.int32),  # number in the queue table
        ("size", np.int32),
        ("batch_size", np.int32),
    ],
    align=True,
)

ENTRY_ROW = np.dtype(
    [
        ("physical_offset", np.int64),
        ("store_timestamp_ms", np.int64),
        ("key_hash", np.int32),
        ("of_tags", np.bool_),  # the entry of TAGS (5.4.0+), the last one of its message
    ],
    align=True,
)

KEYLESS_ROW = np.dtype([("entries_before", np.int64), ("store_timestamp_ms", np.int64)])
"""A message that was dispatched but put no entry: with a full last index file it makes the broker create the
next one. Only the first such message after each entry is kept."""

KEY_ROW = np.dtype(
    [
        ("high", np.uint64),  # digest of topic and queue id: the same in every split
        ("low", np.uint64),
        ("name_start", np.int64),  # of the topic, among the bytes of all names
        ("name_length", np.int32),
        ("queue_id", np.int32),
    ],
    align=True,
)

NO_EXT_UNIT = -(1 << 63)
UNKNOWN_QUEUE_OFFSET = -(1 << 63)
"""Of a unit that a record names without a number: wherever it stands, if anywhere, it is no damage."""


class Count(IntEnum):
    """Places in the array of running counts."""

    UNITS = 0
    ENTRIES = 1
    KEYLESS = 2
    END_PHYSICAL_OFFSET = 3  # endPhyOffset of the last index file: messages below it are not indexed
    MESSAGES = 4
    UNINDEXED = 5  # messages that lie below it


class DispatchOutcome(IntEnum):
    """Reason why a dispatch stopped."""

    DONE = 0
    NEW_QUEUE = 1  # a queue that is not in the table
    FULL = 2  # one of the output arrays has too little room
    STALLED = 3  # an offset of a multi dispatch is not a number: the broker repeats this record for ever
