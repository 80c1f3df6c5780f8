"""Records of the log without what was sent, byte for byte of the same shape."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

from rmqtool.commands.metadump.words import PROPERTY_NAMES, byte_words
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
    from collections.abc import Sequence

    from rmqtool.arrays import Rows
    from rmqtool.commands.metadump.disguise import Disguise

_BODY_CRC_AT, _BODY_CRC_STOP = HEAD_OFFSETS[0]["bodyCrc"], HEAD_OFFSETS[0]["queueId"]
_PORT_BYTES = 4
_HOSTS = [
    [
        (at["bornHost"], at["storeTimestamp"] - _PORT_BYTES),
        (at["storeHost"], at["reconsumeTimes"] - _PORT_BYTES),
    ]
    for at in HEAD_OFFSETS
]
_COMPRESSED = 0x1
_OP_TOPIC = OP_TOPIC.encode()
_OP_BODY = re.compile(rb"[0-9,]*")
_NUMBERS = re.compile(rb"[-+]?[0-9][0-9,]*|true|false")
_BROKER_TAGS = frozenset({b"d", b"ck", b"ack", b"bAck"})
_BROKER_TOPICS = (b"RMQ_SYS_TRANS_OP", b"RMQ_SYS_ROCKSDB_TRANS_OP", REVIVE_PREFIX.encode())
_COMPRESSION_MAGICS = (b"\x04\x22\x4d\x18", b"\x28\xb5\x2f\xfd")
_NAMES_BETWEEN = {b"INNER_MULTI_DISPATCH": b",", b"KEYS": b" "}
_NUMERIC = byte_words(
    "WAIT DELAY REAL_QID TRAN_MSG MIN_OFFSET MAX_OFFSET RECONSUME_TIME TRACE_ON MAX_RECONSUME_TIMES"
    " CONSUME_START_TIME INNER_NUM INNER_BASE CHECK_IMMUNITY_TIME_IN_SECONDS"
    " TRANSACTION_PREPARED_QUEUE_OFFSET TRANSACTION_CHECK_TIMES TTL ARRIVE_TIME PUSH_REPLY_TIME"
    " 1ST_POP_TIME INNER_MULTI_QUEUE_OFFSET TIMER_DELAY_SEC TIMER_DELIVER_MS TIMER_IN_MS TIMER_OUT_MS"
    " TIMER_ENQUEUE_MS TIMER_DEQUEUE_MS TIMER_ROLL_TIMES TIMER_DELAY_LEVEL TIMER_DELAY_MS"
    " _SYS_MSG_PRIORITY_ TRANS_OFFSET __CRC32#"
)
"""Those whose values the broker reads or writes as numbers."""


class Frame(NamedTuple):
    """Where the parts of a record lie in bytes at hand.

    Attributes:
        start: Of its first byte.
        stop: After its last part, the properties.
        sys_flag: SYSFLAG.
        body_crc: BODYCRC.
        body: Of the body.
        body_stop: After it.
        topic: Of the topic.
        topic_stop: After it.
        properties: Of the properties.
    """

    start: int
    stop: int
    sys_flag: int
    body_crc: int
    body: int
    body_stop: int
    topic: int
    topic_stop: int
    properties: int

    @property
    def hosts(self) -> list[slice]:
        """Return where the addresses lie, without ports."""
        places = _HOSTS[host_variant(self.sys_flag)]
        return [slice(self.start + start, self.start + stop) for start, stop in places]


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
    body_at = HEAD_SIZES[host_variant(head.sys_flag)]
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
        0, stop, head.sys_flag, head.body_crc, body_at, body_stop, topic_at, topic_stop, properties_at
    )


def frames_of(rows: Rows, base: int) -> list[Frame]:
    """Return the frames of a batch's records, none of them cut.

    Args:
        rows: ``(n,)`` of ``MESSAGE_ROW``.
        base: Physical offset of the first byte at hand.
    """
    starts = rows["log_offset"] - base
    stops = starts + rows["total_size"]
    columns = (
        starts,
        stops,
        rows["sys_flag"],
        rows["body_crc"],
        rows["body_start"],
        rows["body_start"] + rows["body_length"],
        rows["topic_start"],
        rows["topic_stop"],
        stops - rows["properties_length"],
    )
    return list(map(Frame._make, zip(*(column.tolist() for column in columns), strict=True)))


class Records:
    """Makes records of records.

    Args:
        disguise: Replaces names.
    """

    def __init__(self, disguise: Disguise) -> None:
        self._disguise = disguise

    def rewrite(self, data: bytearray, frames: Sequence[Frame]) -> None:
        """Replace records, in their place, by others of the same shape.

        Args:
            data: Bytes that hold them.
            frames: Of each.
        """
        old = bytes(data)
        topics = [old[frame.topic : frame.topic_stop] for frame in frames]
        names = self._disguise.names(topics)
        properties = self._properties(topics, [old[frame.properties : frame.stop] for frame in frames])
        for frame, topic, new in zip(frames, topics, properties, strict=True):
            for host in frame.hosts:
                data[host] = self._disguise.host(old[host])
            data[frame.topic : frame.topic_stop] = names[topic]
            data[frame.properties : frame.stop] = new
            self._put_body(old, data, frame, topic)
            self._put_record_crc(old, data, frame)

    def _properties(self, topics: list[bytes], found: list[bytes]) -> list[bytes]:
        """Return properties of the same sizes, every separator at its place."""
        pieces = [
            (topic.startswith(_BROKER_TOPICS), whole.split(b"\x02"))
            for topic, whole in zip(topics, found, strict=True)
        ]
        made: dict[bool, dict[bytes, bytes]] = {}
        for own in {own for own, _ in pieces}:
            wanted = {piece for one, some in pieces if one is own for piece in some}
            cuts = {piece: _cut(piece, own=own) for piece in wanted}
            names = self._disguise.names(name for parts in cuts.values() for name in parts[1::2])
            for parts in cuts.values():
                parts[1::2] = [names[name] for name in parts[1::2]]
            made[own] = {piece: b"".join(parts) for piece, parts in cuts.items()}
        return [b"\x02".join([made[own][piece] for piece in some]) for own, some in pieces]

    def _put_body(self, old: bytes, data: bytearray, frame: Frame, topic: bytes) -> None:
        """Put a body, and the checksum that fits it, or is wrong by as much as it was."""
        body = old[frame.body : frame.body_stop]
        if not body:
            return
        wrong_by = frame.body_crc ^ masked_crc32(body)
        new = self._body(body, frame.sys_flag, topic, fits=wrong_by == 0)
        data[frame.body : frame.body_stop] = new
        crc = (masked_crc32(new) ^ wrong_by).to_bytes(4, "big", signed=True)
        data[frame.start + _BODY_CRC_AT : frame.start + _BODY_CRC_STOP] = crc

    def _body(self, body: bytes, sys_flag: int, topic: bytes, *, fits: bool) -> bytes:
        """Return a body: zeros; where the checksum is wrong, noise that shows lost pages as they were."""
        if topic == _OP_TOPIC and _OP_BODY.fullmatch(body):
            return body  # queue offsets, which the broker wrote
        new = bytes(len(body)) if fits else self._disguise.noise(body, "body", len(body))
        if not sys_flag & _COMPRESSED:
            return new
        is_zlib = len(body) >= 2 and body[0] & 0xF == 8 and (body[0] << 8 | body[1]) % 31 == 0
        kept = 4 if body.startswith(_COMPRESSION_MAGICS) else 2 if is_zlib else 0
        return body[:kept] + new[kept:]

    def _put_record_crc(self, old: bytes, data: bytearray, frame: Frame) -> None:
        """Renew ``__CRC32#`` so that it fits, or is wrong by as much as it was."""
        at, stop = frame.stop - PROP_CRC_SIZE, frame.stop - 1
        if at < frame.properties or not old.startswith(PROP_CRC_NAME, at):
            return
        first = at + len(PROP_CRC_NAME)
        wrong_by = parse_prop_crc_digits(old[first:stop]) ^ masked_crc32(old[frame.start : at])
        crc = masked_crc32(data[frame.start : at]) ^ wrong_by
        data[first:stop] = prop_crc_digits(crc & 0x7FFFFFFF)[: stop - first]


def _cut(piece: bytes, *, own: bool) -> list[bytes]:
    """Cut a property into what stays and, at odd places, names.

    Args:
        piece: The property, without the separator after it.
        own: Whether its message is one of the broker's own.
    """
    name, separator, value = piece.partition(b"\x01")
    is_known = name in PROPERTY_NAMES
    if is_known and (not separator or _stays(name, value, own=own)):
        return [piece]
    if not separator:
        return [b"", name]
    parts = [name + separator] if is_known else [b"", name, separator]
    between = _NAMES_BETWEEN.get(name)
    for word in [value] if between is None else value.split(between):
        parts += [word, between or b""]
    return parts[:-1]


def _stays(name: bytes, value: bytes, *, own: bool) -> bool:
    if name == b"TAGS":
        return own and value in _BROKER_TAGS
    return name in _NUMERIC and _NUMBERS.fullmatch(value) is not None
