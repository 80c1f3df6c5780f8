"""Records of the log without what was sent, byte for byte of the same shape."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from rmqtool.commands.metadump.words import byte_words
from rmqtool.formats.message import (
    HEAD_OFFSETS,
    HEAD_SIZES,
    PROPERTIES_LENGTH,
    TOPIC_LENGTHS,
    decode_head,
    host_variant,
)
from rmqtool.javacompat import masked_crc32, parse_prop_crc_digits, prop_crc_digits
from rmqtool.javacompat.checksums import PROP_CRC_NAME, PROP_CRC_SIZE
from rmqtool.topics import OP_TOPIC, REVIVE_PREFIX

if TYPE_CHECKING:
    from rmqtool.commands.metadump.disguise import Disguise
    from rmqtool.formats.message import MessageHead

_BODY_CRC = slice(HEAD_OFFSETS[0]["bodyCrc"], HEAD_OFFSETS[0]["queueId"])
_PORT_BYTES = 4
_COMPRESSED = 0x1
_OP_BODY = re.compile(rb"[0-9,]*")
_NUMBERS = re.compile(rb"[-+]?[0-9][0-9,]*|true|false")
_BROKER_TAGS = frozenset({b"d", b"ck", b"ack", b"bAck"})
_COMPRESSION_MAGICS = (b"\x04\x22\x4d\x18", b"\x28\xb5\x2f\xfd")
_NAMES_BY_COMMA = frozenset({b"INNER_MULTI_DISPATCH"})
_NAMES_BY_BLANK = frozenset({b"KEYS"})
PROPERTY_NAMES = byte_words(
    "KEYS TAGS WAIT DELAY RETRY_TOPIC REAL_TOPIC REAL_QID TRAN_MSG PGROUP MIN_OFFSET MAX_OFFSET"
    " BUYER_ID ORIGIN_MESSAGE_ID TRANSFER_FLAG CORRECTION_FLAG MQ2_FLAG RECONSUME_TIME MSG_REGION"
    " TRACE_ON UNIQ_KEY EXTEND_UNIQ_INFO MAX_RECONSUME_TIMES CONSUME_START_TIME INNER_NUM INNER_BASE"
    " DUP_INFO CHECK_IMMUNITY_TIME CHECK_IMMUNITY_TIME_IN_SECONDS TRANSACTION_PREPARED_QUEUE_OFFSET"
    " TRANSACTION_ID TRANSACTION_CHECK_TIMES INSTANCE_ID CORRELATION_ID REPLY_TO_CLIENT TTL"
    " ARRIVE_TIME PUSH_REPLY_TIME CLUSTER MSG_TYPE POP_CK POP_CK_OFFSET 1ST_POP_TIME __SHARDINGKEY"
    " __transactionId__ INNER_MULTI_DISPATCH INNER_MULTI_QUEUE_OFFSET TRACE_CONTEXT TIMER_DELAY_SEC"
    " TIMER_DELIVER_MS TIMER_IN_MS TIMER_OUT_MS TIMER_ENQUEUE_MS TIMER_DEQUEUE_MS TIMER_ROLL_TIMES"
    " TIMER_DEL_UNIQKEY TIMER_DELAY_LEVEL TIMER_DELAY_MS __CRC32# __LITE_TOPIC _SYS_MSG_PRIORITY_"
    " TRANS_OFFSET ORIGIN_GROUP TIMER_ROLL_LABEL DLQ_ORIGIN_TOPIC DLQ_ORIGIN_MESSAGE_ID"
    " TRANSIENT_GROUPS"
)
"""``MessageConst``, 5.5.1: names that mean something to a broker."""

_NUMERIC = byte_words(
    "WAIT DELAY REAL_QID TRAN_MSG MIN_OFFSET MAX_OFFSET RECONSUME_TIME TRACE_ON MAX_RECONSUME_TIMES"
    " CONSUME_START_TIME INNER_NUM INNER_BASE CHECK_IMMUNITY_TIME_IN_SECONDS"
    " TRANSACTION_PREPARED_QUEUE_OFFSET TRANSACTION_CHECK_TIMES TTL ARRIVE_TIME PUSH_REPLY_TIME"
    " 1ST_POP_TIME INNER_MULTI_QUEUE_OFFSET TIMER_DELAY_SEC TIMER_DELIVER_MS TIMER_IN_MS TIMER_OUT_MS"
    " TIMER_ENQUEUE_MS TIMER_DEQUEUE_MS TIMER_ROLL_TIMES TIMER_DELAY_LEVEL TIMER_DELAY_MS"
    " _SYS_MSG_PRIORITY_ TRANS_OFFSET __CRC32#"
)
"""Those whose values the broker reads or writes as numbers."""


@dataclass(frozen=True, slots=True)
class Frame:
    """Where the parts of a record lie, in bytes from its start; its lengths add up.

    Attributes:
        head: Its numbers.
        hosts: Addresses without ports, ``(start, stop)``.
        body: Of the body.
        topic: Of the topic.
        properties: Of the properties.
    """

    head: MessageHead
    hosts: tuple[tuple[int, int], tuple[int, int]]
    body: tuple[int, int]
    topic: tuple[int, int]
    properties: tuple[int, int]

    @property
    def size(self) -> int:
        """Return TOTALSIZE."""
        return self.head.total_size


def may_be_framed(data: bytes, size: int) -> bool:
    """Tell by its head whether a record's body fits into its TOTALSIZE, before all of it is read."""
    head = decode_head(data)
    return head is not None and head.body_length <= size - HEAD_SIZES[host_variant(head.sys_flag)]


def frame_of(data: bytes, *, strict: bool = True) -> Frame | None:
    """Return the frame of the record that some bytes begin with; None if that is no record.

    Args:
        data: From its first byte on, at least to its end.
        strict: Whether its lengths must add up to TOTALSIZE; else parts may run as far as ``data`` goes.
    """
    head = decode_head(data)
    width = TOPIC_LENGTHS.get(head.magic) if head is not None else None
    if head is None or width is None:
        return None
    variant = host_variant(head.sys_flag)
    born_at, store_at = HEAD_OFFSETS[variant]["bornHost"], HEAD_OFFSETS[variant]["storeHost"]
    body_at = HEAD_SIZES[variant]
    body_stop = body_at + max(head.body_length, 0)
    topic_at = body_stop + width.size
    if len(data) < topic_at:
        return None
    length = width.unpack_from(data, body_stop)[0]
    topic_stop = topic_at + length
    properties_at = topic_stop + PROPERTIES_LENGTH.size
    if length < 0 or len(data) < properties_at:
        return None
    stop = properties_at + max(PROPERTIES_LENGTH.unpack_from(data, topic_stop)[0], 0)
    if (strict and stop != head.total_size) or stop > len(data):
        return None
    return Frame(
        head=head,
        hosts=(
            (born_at, born_at + len(head.born_host) - _PORT_BYTES),
            (store_at, store_at + len(head.store_host) - _PORT_BYTES),
        ),
        body=(body_at, body_stop),
        topic=(topic_at, topic_stop),
        properties=(properties_at, stop),
    )


class Records:
    """Makes records of records.

    Args:
        disguise: Replaces names.
    """

    def __init__(self, disguise: Disguise) -> None:
        self._disguise = disguise

    def record(self, raw: bytes, frame: Frame, place: str, position: int) -> bytes:
        """Return a record of the same size in another's place.

        Args:
            raw: The record.
            frame: Of it.
            place: The file it lies in.
            position: Where in the file.
        """
        found = bytearray(raw)
        for start, stop in frame.hosts:
            found[start:stop] = self._disguise.host(raw[start:stop])
        topic = raw[slice(*frame.topic)]
        found[slice(*frame.topic)] = self._disguise.name(topic)
        found[slice(*frame.properties)] = self.properties(raw[slice(*frame.properties)], topic)
        self._put_body(found, frame, raw[slice(*frame.body)], topic)
        self._put_record_crc(raw, found, frame)
        return bytes(found)

    def properties(self, data: bytes, topic: bytes) -> bytes:
        """Return properties of the same size, every separator at its place."""
        return b"\x02".join(self._property(piece, topic) for piece in data.split(b"\x02"))

    def _property(self, piece: bytes, topic: bytes) -> bytes:
        name, separator, value = piece.partition(b"\x01")
        is_known = name in PROPERTY_NAMES
        new_name = name if is_known else self._disguise.name(name)
        if not separator or (is_known and self._stays(name, value, topic)):
            return new_name + separator + value
        between = b"," if name in _NAMES_BY_COMMA else b" " if name in _NAMES_BY_BLANK else None
        pieces = [value] if between is None else value.split(between)
        return new_name + separator + (between or b"").join(map(self._disguise.name, pieces))

    def _stays(self, name: bytes, value: bytes, topic: bytes) -> bool:
        if name == b"TAGS":
            own = topic.startswith((b"RMQ_SYS_TRANS_OP", b"RMQ_SYS_ROCKSDB_TRANS_OP", REVIVE_PREFIX.encode()))
            return own and value in _BROKER_TAGS
        return name in _NUMERIC and _NUMBERS.fullmatch(value) is not None

    def _put_body(self, found: bytearray, frame: Frame, body: bytes, topic: bytes) -> None:
        """Put a body, and the checksum that fits it, or is wrong by as much as it was."""
        if not body:
            return
        wrong_by = frame.head.body_crc ^ masked_crc32(body)
        new = self._body(body, frame.head.sys_flag, topic, fits=wrong_by == 0)
        found[slice(*frame.body)] = new
        found[_BODY_CRC] = (masked_crc32(new) ^ wrong_by).to_bytes(4, "big", signed=True)

    def _body(self, body: bytes, sys_flag: int, topic: bytes, *, fits: bool) -> bytes:
        """Return a body: zeros; where the checksum is wrong, noise that shows lost pages as they were."""
        if topic == OP_TOPIC.encode() and _OP_BODY.fullmatch(body):
            return body  # queue offsets, which the broker wrote
        new = bytes(len(body)) if fits else self._disguise.noise(body, "body", len(body))
        if not sys_flag & _COMPRESSED:
            return new
        is_zlib = len(body) >= 2 and body[0] & 0xF == 8 and (body[0] << 8 | body[1]) % 31 == 0
        kept = 4 if body.startswith(_COMPRESSION_MAGICS) else 2 if is_zlib else 0
        return body[:kept] + new[kept:]

    def _put_record_crc(self, raw: bytes, found: bytearray, frame: Frame) -> None:
        """Renew ``__CRC32#`` so that it fits, or is wrong by as much as it was."""
        stop = frame.properties[1]
        at = stop - PROP_CRC_SIZE
        if at < frame.properties[0] or not raw.startswith(PROP_CRC_NAME, at):
            return
        digits = raw[at + len(PROP_CRC_NAME) : stop - 1]
        wrong_by = parse_prop_crc_digits(digits) ^ masked_crc32(raw[:at])
        crc = masked_crc32(bytes(found[:at])) ^ wrong_by
        found[at + len(PROP_CRC_NAME) : stop - 1] = prop_crc_digits(crc & 0x7FFFFFFF)[: len(digits)]
