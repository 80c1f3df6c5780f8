"""Records of the log without what was sent, byte for byte of the same shape."""

from __future__ import annotations

import re
import zlib
from dataclasses import dataclass
from struct import Struct
from typing import TYPE_CHECKING

from rmqtool.commands.metadump.words import byte_words
from rmqtool.formats.message import MAGIC_V1, MAGIC_V2
from rmqtool.javacompat import masked_crc32, parse_prop_crc_digits, prop_crc_digits
from rmqtool.topics import OP_TOPIC, REVIVE_PREFIX

if TYPE_CHECKING:
    from rmqtool.commands.metadump.disguise import Disguise

_START = Struct(">iI")
_INT, _SHORT = Struct(">i"), Struct(">h")
_CRC_AT, _SYS_FLAG_AT, _BORN_AT = 8, 36, 48
_BORN_IPV6, _STORE_IPV6, _COMPRESSED = 0x10, 0x20, 0x1
HEAD_BYTES, LONGEST_HEAD_BYTES = 88, 112
"""Up to the body, with two addresses of IPv4, and of IPv6."""

MAGICS = {MAGIC_V1 & 0xFFFFFFFF: 1, MAGIC_V2 & 0xFFFFFFFF: 2}
_CRC_PROPERTY = b"__CRC32#\x01"
_CRC_PROPERTY_BYTES = 20
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
        size: TOTALSIZE.
        hosts: Addresses without ports, ``(start, stop)``.
        body: Of the body.
        topic: Of the topic.
        properties: Of the properties.
    """

    size: int
    hosts: tuple[tuple[int, int], tuple[int, int]]
    body: tuple[int, int]
    topic: tuple[int, int]
    properties: tuple[int, int]


def _head_shape(data: bytes) -> tuple[int, int, int]:
    """Return the bytes of both addresses, and where the body's length is."""
    flag = _INT.unpack_from(data, _SYS_FLAG_AT)[0]
    born, stored = (16 if flag & bit else 4 for bit in (_BORN_IPV6, _STORE_IPV6))
    return born, stored, HEAD_BYTES - 4 + born - 4 + stored - 4


def may_be_framed(head: bytes, size: int) -> bool:
    """Tell by its head whether a record's body fits into its TOTALSIZE, before all of it is read."""
    length_at = _head_shape(head)[2]
    return length_at + 4 <= len(head) and _INT.unpack_from(head, length_at)[0] <= size - length_at - 4


def frame_of(data: bytes, *, strict: bool = True) -> Frame | None:
    """Return the frame of the record that some bytes begin with; None if that is no record.

    Args:
        data: From its first byte on, at least to its end.
        strict: Whether its lengths must add up to TOTALSIZE; else parts may run as far as ``data`` goes.
    """
    if len(data) < HEAD_BYTES:
        return None
    size, magic = _START.unpack_from(data)
    width = MAGICS.get(magic)
    born, stored, length_at = _head_shape(data)
    store_at, body_at = length_at - 12 - 4 - stored, length_at + 4
    if width is None or len(data) < body_at:
        return None
    hosts = ((_BORN_AT, _BORN_AT + born), (store_at, store_at + stored))
    body_stop = body_at + max(_INT.unpack_from(data, length_at)[0], 0)
    if len(data) < body_stop + width:
        return None
    length = int.from_bytes(data[body_stop : body_stop + width], "big", signed=True)
    topic_at = body_stop + width
    topic_stop = topic_at + length
    if length < 0 or len(data) < topic_stop + 2:
        return None
    properties_at = topic_stop + 2
    stop = properties_at + max(_SHORT.unpack_from(data, topic_stop)[0], 0)
    if (strict and stop != size) or stop > len(data):
        return None
    return Frame(size, hosts, (body_at, body_stop), (topic_at, topic_stop), (properties_at, stop))


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
        self._put_body(raw, found, frame, topic)
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

    def _put_body(self, raw: bytes, found: bytearray, frame: Frame, topic: bytes) -> None:
        start, stop = frame.body
        body = raw[start:stop]
        if not body:
            return
        crc = zlib.crc32(body) & 0x7FFFFFFF
        stored = int.from_bytes(raw[_CRC_AT : _CRC_AT + 4], "big")
        new = self._body(body, raw, topic, fits=crc == stored)
        found[start:stop] = new
        wrong_by = stored ^ crc
        found[_CRC_AT : _CRC_AT + 4] = ((zlib.crc32(new) & 0x7FFFFFFF) ^ wrong_by).to_bytes(4, "big")

    def _body(self, body: bytes, raw: bytes, topic: bytes, *, fits: bool) -> bytes:
        """Return a body: zeros; where the checksum is wrong, noise that shows lost pages as they were."""
        if topic == OP_TOPIC.encode() and _OP_BODY.fullmatch(body):
            return body  # queue offsets, which the broker wrote
        new = bytes(len(body)) if fits else self._disguise.noise(body, "body", len(body))
        if not _INT.unpack_from(raw, _SYS_FLAG_AT)[0] & _COMPRESSED:
            return new
        is_zlib = len(body) >= 2 and body[0] & 0xF == 8 and (body[0] << 8 | body[1]) % 31 == 0
        kept = 4 if body.startswith(_COMPRESSION_MAGICS) else 2 if is_zlib else 0
        return body[:kept] + new[kept:]

    def _put_record_crc(self, raw: bytes, found: bytearray, frame: Frame) -> None:
        """Renew ``__CRC32#`` so that it fits, or is wrong by as much as it was."""
        stop = frame.properties[1]
        at = stop - _CRC_PROPERTY_BYTES
        if at < frame.properties[0] or raw[at : at + len(_CRC_PROPERTY)] != _CRC_PROPERTY:
            return
        digits = raw[at + len(_CRC_PROPERTY) : stop - 1]
        wrong_by = parse_prop_crc_digits(digits) ^ masked_crc32(raw[:at])
        crc = masked_crc32(bytes(found[:at])) ^ wrong_by
        found[at + len(_CRC_PROPERTY) : stop - 1] = prop_crc_digits(crc & 0x7FFFFFFF)[: len(digits)]
