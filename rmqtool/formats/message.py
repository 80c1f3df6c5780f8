"""Message record, BLANK record at the end of every full file, and inner batch.

Sources: ``CommitLog.MessageExtEncoder`` (4.9.8), ``MessageExtEncoder``, ``MessageVersion`` and
``CommitLog#checkMessageAndReturnSize`` (5.3.3), ``DefaultAppendMessageCallback#doAppend`` for BLANK.

::

    Message => TOTALSIZE MAGICCODE BODYCRC QUEUEID FLAG QUEUEOFFSET PHYSICALOFFSET SYSFLAG
               BORNTIMESTAMP BORNHOST STORETIMESTAMP STOREHOST RECONSUMETIMES PREPAREDTRANSACTIONOFFSET
               BODYLENGTH BODY TOPICLENGTH TOPIC PROPERTIESLENGTH PROPERTIES
      MAGICCODE => 0xDAA320A7 (V1, topic length one byte) | 0xDAA320AB (V2, 5.1.0+, topic length two bytes)
      BORNHOST, STOREHOST => address port; the address is 4 bytes, or 16 where SYSFLAG says so
    Blank => TOTALSIZE (bytes left in the file) MAGICCODE (0xCBD43194) undefined bytes

BODYCRC is CRC-32 of the stored body, masked to 31 bits; the header is under no checksum, unless the
properties end in ``__CRC32#`` (5.2.0+), which covers the record but for itself.

The body of an inner batch (5.x, topics of queue type BatchCQ) holds messages as clients encode them
(``MessageDecoder#encodeMessage``, ``MessageDecoder#decodeMessage``, 5.3.3)::

    Body => InnerMessage …
    InnerMessage => TOTALSIZE MAGICCODE BODYCRC FLAG BODYLENGTH BODY PROPERTIESLENGTH PROPERTIES

The sender leaves MAGICCODE and BODYCRC 0. The reader skips the first three fields and relies on the two
lengths; brokers count the messages of a batch by TOTALSIZE (``MessageDecoder#countInnerMsgNum``).
"""

from __future__ import annotations

import struct
from enum import IntEnum
from typing import NamedTuple

from construct import Bytes, IfThenElse, Int8sb, Int16sb, Int32sb, Int64sb, Rebuild, Struct, len_, this

from rmqtool.formats.fields import Decoder, fixed_size, offsets, struct_of

MAGIC_V1 = -626843481
MAGIC_V2 = -626843477
RECORD_MAGICS = frozenset({MAGIC_V1, MAGIC_V2})
BLANK_MAGIC = -875286124
END_FILE_MIN_BLANK_LENGTH = 8

BORN_HOST_V6 = 0x10
STORE_HOST_V6 = 0x20
TRANSACTION_MASK = 0xC
TRANSACTION_NONE = 0x0
TRANSACTION_PREPARED = 0x4
TRANSACTION_COMMIT = 0x8
TRANSACTION_ROLLBACK = 0xC


_HOST_V4 = Struct("address" / Bytes(4), "port" / Int32sb)
_HOST_V6 = Struct("address" / Bytes(16), "port" / Int32sb)
_BORN_HOST = IfThenElse(this.sysFlag & BORN_HOST_V6, _HOST_V6, _HOST_V4)
_STORE_HOST = IfThenElse(this.sysFlag & STORE_HOST_V6, _HOST_V6, _HOST_V4)


_HEAD = (
    "totalSize" / Int32sb * "TOTALSIZE; bytes; length of the whole record",
    "magic" / Int32sb * "MAGICCODE; -; V1 or V2, decides the width of the topic length",
    "bodyCrc" / Int32sb * "BODYCRC; -; CRC-32 of the body & 0x7FFFFFFF",
    "queueId" / Int32sb * "QUEUEID; -; queue of the stored topic",
    "flag" / Int32sb * "FLAG; -; the user's own",
    "queueOffset" / Int64sb * "QUEUEOFFSET; units; place in the queue, 0 for prepared and rollback records",
    "physicalOffset" / Int64sb * "PHYSICALOFFSET; bytes in the log; the record's own address",
    "sysFlag" / Int32sb * "SYSFLAG; bits; compression, transaction type, IPv6 hosts, inner batch",
    "bornTimestamp" / Int64sb * "BORNTIMESTAMP; ms; the producer's clock",
    "bornHost" / _BORN_HOST * "BORNHOST; -; the producer's address and port",
    "storeTimestamp" / Int64sb * "STORETIMESTAMP; ms; the broker's clock at append",
    "storeHost" / _STORE_HOST * "STOREHOSTADDRESS; -; the broker's address and port",
    "reconsumeTimes" / Int32sb * "RECONSUMETIMES; -; deliveries that failed before",
    "preparedTransactionOffset"
    / Int64sb
    * "PREPAREDTRANSACTIONOFFSET; bytes in the log; the half message of a commit",
)

HEAD = Struct(*_HEAD, "bodyLength" / Int32sb * "BODY length; bytes; negative counts as none")
"""Everything before the body: of fixed width once SYSFLAG is known."""

MESSAGE = Struct(
    *_HEAD,
    "bodyLength" / Rebuild(Int32sb, len_(this.body)) * "BODY length; bytes; negative counts as none",
    "body" / Bytes(this.bodyLength) * "BODY; bytes; as the client sent it, possibly compressed",
    "topicLength"
    / Rebuild(IfThenElse(this.magic == MAGIC_V2, Int16sb, Int8sb), len_(this.topic))
    * "TOPIC length; bytes; one byte in V1, two in V2, signed",
    "topic" / Bytes(this.topicLength) * "TOPIC; UTF-8; the stored topic",
    "propertiesLength"
    / Rebuild(Int16sb, len_(this.properties))
    * "PROPERTIES length; bytes; negative counts as none",
    "properties" / Bytes(this.propertiesLength) * "PROPERTIES; UTF-8; name 0x01 value 0x02 …",
)
"""The whole record, V1 and V2; builds as well as parses."""

END_MARK = Struct(
    "totalSize" / Int32sb * "TOTALSIZE; bytes; what was left of the file",
    "magic" / Int32sb * "MAGICCODE; -; BLANK_MAGIC_CODE",
)


class RecordStart(NamedTuple):
    """Fields of a BLANK, and the first ones of every message."""

    total_size: int
    magic: int


RECORD_STARTS = Decoder(END_MARK, RecordStart._make)


class PlacedStart(NamedTuple):
    """A message's start, up to its own physical offset."""

    total_size: int
    magic: int
    body_crc: int
    queue_id: int
    flag: int
    queue_offset: int
    physical_offset: int


PLACED_STARTS = Decoder(Struct(*_HEAD[: len(PlacedStart._fields)]), PlacedStart._make)

VARIANT_SHIFT = 4
VARIANTS = (0, BORN_HOST_V6, STORE_HOST_V6, BORN_HOST_V6 | STORE_HOST_V6)
"""SYSFLAG bits of the four host variants; ``(sysFlag >> VARIANT_SHIFT) & 3`` is the index."""

HEAD_OFFSETS: tuple[dict[str, int], ...] = tuple(offsets(HEAD, sysFlag=bits) for bits in VARIANTS)
HEAD_SIZES: tuple[int, ...] = tuple(fixed_size(HEAD, sysFlag=bits) for bits in VARIANTS)
HEAD_STRUCTS: tuple[struct.Struct, ...] = tuple(struct_of(HEAD, sysFlag=bits) for bits in VARIANTS)
TOPIC_LENGTHS: dict[int, struct.Struct] = {MAGIC_V1: struct.Struct(">b"), MAGIC_V2: struct.Struct(">h")}
PROPERTIES_LENGTH: struct.Struct = struct.Struct(">h")
SMALLEST_RECORD: int = HEAD_SIZES[0] + TOPIC_LENGTHS[MAGIC_V1].size + PROPERTIES_LENGTH.size
"""Bytes of a record without body, topic and properties, hosts IPv4."""


class MessageHead(NamedTuple):
    """The decoded fixed part of a record; hosts are address bytes followed by an i32 port."""

    total_size: int
    magic: int
    body_crc: int
    queue_id: int
    flag: int
    queue_offset: int
    physical_offset: int
    sys_flag: int
    born_timestamp_ms: int
    born_host: bytes
    store_timestamp_ms: int
    store_host: bytes
    reconsume_times: int
    prepared_transaction_offset: int
    body_length: int


_SYS_FLAG = struct.Struct(">i")
_SYS_FLAG_AT = HEAD_OFFSETS[0]["sysFlag"]


def decode_head(data: bytes, at: int = 0) -> MessageHead | None:
    """Decode the fixed part of the record at ``at``; None if ``data`` ends before it does."""
    if len(data) < at + _SYS_FLAG_AT + _SYS_FLAG.size:
        return None
    variant = host_variant(_SYS_FLAG.unpack_from(data, at + _SYS_FLAG_AT)[0])
    if len(data) < at + HEAD_SIZES[variant]:
        return None
    return MessageHead._make(HEAD_STRUCTS[variant].unpack_from(data, at))


def host_variant(sys_flag: int) -> int:
    """Return the index into ``VARIANTS`` of a record with this SYSFLAG."""
    return (sys_flag >> VARIANT_SHIFT) & 3


COMPRESSED_FLAG = 0x1
"""Bit of SYSFLAG: the body is compressed (``MessageSysFlag.COMPRESSED_FLAG``)."""
LOST_PROPERTY, LOST_BODY = "RMQTOOL_LOST", "lost"
"""Property and body of a message that a salvage puts in the place of a lost one."""

INNER_BATCH_FLAG = 0x80
"""Bit of SYSFLAG: the body is a batch (``MessageSysFlag.INNER_BATCH_FLAG``, 4.9.4+, 5.0.0+)."""

_INNER_HEAD = (
    "totalSize" / Int32sb * "TOTALSIZE; bytes; length of the whole inner message",
    "magic" / Int32sb * "MAGICCODE; -; 0",
    "bodyCrc" / Int32sb * "BODYCRC; -; 0",
    "flag" / Int32sb * "FLAG; -; the user's own",
)

INNER_HEAD = Struct(*_INNER_HEAD, "bodyLength" / Int32sb * "BODY length; bytes; -")
"""Everything before the body."""

INNER_MESSAGE = Struct(
    *_INNER_HEAD,
    "bodyLength" / Rebuild(Int32sb, len_(this.body)) * "BODY length; bytes; -",
    "body" / Bytes(this.bodyLength) * "BODY; bytes; as the application sent it",
    "propertiesLength" / Rebuild(Int16sb, len_(this.properties)) * "PROPERTIES length; bytes; -",
    "properties" / Bytes(this.propertiesLength) * "PROPERTIES; UTF-8; name 0x01 value 0x02 …",
)

INNER_HEAD_SIZE: int = fixed_size(INNER_HEAD)
INNER_HEAD_STRUCT: struct.Struct = struct_of(INNER_HEAD)
INNER_PROPERTIES_LENGTH: struct.Struct = struct.Struct(">h")


class Outcome(IntEnum):
    """Content at a position: ``CommitLog#checkMessageAndReturnSize``, with its failures by kind."""

    NEED = 0  # the window ends before the record does
    RECORD = 1
    FILE_END = 2  # success, size 0: roll to the next file
    MISMATCH = 3  # failure, size > 0: the lengths do not add up to TOTALSIZE
    BAD_MAGIC = 4  # from here on: failure, size -1
    BAD_LENGTH = 5  # a part runs past the end of the file or past TOTALSIZE, or is negative
    BAD_NUMBER = 6  # DELAY, INNER_NUM or INNER_BASE is not a number
    STOP = 7  # the walk came to the end it was given
    FULL = 8  # no room for another row
    FOREIGN = 9  # a frame of another place, and below it an intact record, which a broker steps over
