"""Rows that kernels read and write, as numpy dtypes, and the numbers that they share with Python."""

from __future__ import annotations

from enum import IntEnum
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from rmqtool.formats import message
from rmqtool.formats.framing import PLAIN

if TYPE_CHECKING:
    from rmqtool.arrays import Bools, Buffer, Int64s, Rows
    from rmqtool.formats.framing import Framing
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
        ("lead", np.int32),  # bytes of its frame before it
    ],
    align=True,
)


def frame_starts(rows: Rows) -> Int64s:
    """Return where the frames of records begin, ``(n,)``: of ``MESSAGE_ROW``, or rows with those columns."""
    starts: Int64s = rows["log_offset"] - rows["lead"]
    return starts


def frame_stops(rows: Rows, place: str = "log_offset") -> Int64s:
    """Return where the frames of records end, ``(n,)``, by the column that has their places."""
    stops: Int64s = rows[place] + rows["total_size"]
    return stops


def frame_sizes(rows: Rows) -> Int64s:
    """Return the bytes of the frames of records, ``(n,)``."""
    return frame_stops(rows) - frame_starts(rows)


MISMATCH_ROW = np.dtype([("log_offset", np.int64), ("total_size", np.int64), ("read_length", np.int64)])
"""A record whose lengths do not add up to its TOTALSIZE: the broker reads one and skips by the other.

All three take in what its frame has before it."""

GAP_ROW = np.dtype(
    [
        ("row", np.int64),  # messages of the batch before it
        ("start", np.int64),  # physical offset
        ("stop", np.int64),  # physical offset of the next intact frame or end mark
        ("data_start", np.int64),  # physical offset of the first byte that is not zero
        ("reason", np.int64),  # an Outcome
        ("total_size", np.int64),
        ("magic", np.int64),
        ("own", np.int64),  # whether PHYSICALOFFSET is that of a record in a frame at ``start``
        ("is_end", np.int64),  # whether an end mark lies at ``start``
    ]
)
"""A ``Gap`` inside a window: the record after it is in the window, too."""


TRANSACTION_ROW = np.dtype(
    [
        ("log_offset", np.int64),
        ("target", np.int64),  # own queue offset (HALF), that named (OP), physical offset named (ENDING)
        ("unique_key", np.int64),  # hashes, 0 if there is none
        ("keys", np.int64),
        ("store_timestamp_ms", np.int64),
        ("queue_id", np.int32),
        ("role", np.int32),
    ],
    align=True,
)
"""A record that takes part in a transaction or delay; `rmqtool.kernels.transactions.Role` is its part."""


class MessageBatch(NamedTuple):
    """Messages of one window, in log order, as a walk yields and kernels take them.

    Valid until the walk goes on.

    Attributes:
        buffer: the window, ``(n,)`` uint8; ranges of ``rows`` and ``values`` are positions in it.
        rows: ``(k,)`` of ``MESSAGE_ROW``.
        values: ``(k, 8, 2)`` int64, ranges of the values of ``Property``; -1 where there is none.
        base: physical offset of the window's first byte.
        cut: body bytes that the window leaves out of its only record; 0 otherwise.
        gaps: ``(d,)`` of ``GAP_ROW``, damage that the walk passed; none unless requested.
    """

    buffer: Buffer
    rows: Rows
    values: Int64s
    base: int = 0
    cut: int = 0
    gaps: Rows = np.empty(0, GAP_ROW)

    def only(self, wanted: Bools | slice) -> MessageBatch:
        """Return some of the messages; the gaps stay."""
        return self._replace(rows=self.rows[wanted], values=self.values[wanted])


def no_messages(count: int = 0) -> MessageBatch:
    """Return a batch for examples of arguments."""
    values = np.empty((count, len(Property), 2), np.int64)
    return MessageBatch(np.empty(1, np.uint8), np.empty(count, MESSAGE_ROW), values)


class Rules(IntEnum):
    """Places in the array of version-dependent rules that kernels take."""

    CHECKS_ROOM = 0  # 5.3.2+: TOTALSIZE is compared with the bytes left before the magic is read
    KNOWS_V2 = 1  # 5.1.0+
    KNOWS_INNER_BATCH = 2  # 5.0.0+: INNER_NUM and INNER_BASE are parsed
    REFUSES_NEGATIVE_SIZE = 3  # 5.5.1+: a negative TOTALSIZE fails, whatever the magic
    REQUIRES_NUMBERS = 4  # every broker: text in place of a number makes the record fail
    KEPT_ARRAY = 5  # 5.5.1+: up to so many bytes a thread keeps the array that it reads parts into
    LEAD = 6  # of the file's framing, from here on: see ``rmqtool.formats.framing.Framing``
    END_MAGIC = 7
    END_MAGIC_AT = 8
    END_SIZE_AT = 9


def rules_of(records: RecordRules, framing: Framing = PLAIN) -> Int64s:
    """Return rules of reading as the kernels take them, by ``Rules``."""
    rules = np.zeros(len(Rules), np.int64)
    for rule in Rules:
        rules[rule] = getattr(records if rule < Rules.LEAD else framing, rule.name.lower())
    return rules


def framed(rules: Int64s, framing: Framing) -> Int64s:
    """Return rules of reading for a file of another framing."""
    rules = rules.copy()
    for rule in (Rules.LEAD, Rules.END_MAGIC, Rules.END_MAGIC_AT, Rules.END_SIZE_AT):
        rules[rule] = getattr(framing, rule.name.lower())
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
"""Of a unit that a record names without a number: at any place, or missing, it is no damage."""


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


class Trait(IntEnum):
    """Bits of the class of a queue's topic in the dispatch."""

    SCHEDULE = 1  # tagsCode is the deliver time
    BATCH = 2  # queue.type=BatchCQ: units go to batchconsumequeue/
    NO_MULTI_DISPATCH = 4  # 5.1.1+: retry, system and schedule topics
    EXCLUDED = 8  # by the user's choice: as if the message were not there
    UNSAFE = 16  # the topic's name cannot be a directory: no units, index entries only
    INNER_BATCHES = 32  # set by the dispatch: a record carries an inner batch, as only BatchCQ topics take


class Switch(IntEnum):
    """Places in the array of switches that the dispatch kernel takes."""

    INDEX = 0  # messageIndexEnable
    MULTI_DISPATCH = 1  # enableMultiDispatch
    LMQ = 2  # enableLmq: %LMQ% names have queue 0
    SKIPS_SLASH = 3  # 5.1.2+: multi-dispatch names with a path separator are skipped
    MAX_DELAY_LEVEL = 4
    UNTIL_TIMESTAMP = 5
    PASSES_STALLS = 6  # what is put, not how far a broker gets: see `rmqtool.kernels.dispatch.dispatch`
