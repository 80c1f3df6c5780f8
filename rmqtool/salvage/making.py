"""Records that a salvage makes: tombstones for lost messages, fillers for the rest of a hole, end marks.

A tombstone is an ordinary message at the lost one's queue offset. Topics of the broker's own have services
that read every message, and stop at one they do not understand: theirs carry what lets the service pass.

* SCHEDULE_TOPIC_XXXX: ``ScheduleMessageService`` restores REAL_TOPIC from what it delivers, and leaves out,
  with a line in its log, a message whose REAL_TOPIC is the half topic (4.9.8, 5.3.3, 5.5.1).
* rmq_sys_wheel_timer: ``TimerMessageStore`` needs TIMER_OUT_MS and REAL_QID. With TIMER_DEL_UNIQKEY a
  message is the order to give up the timed message of that key, which there is none of, and is never
  delivered (5.3.3, 5.5.1).
* RMQ_SYS_TRANS_HALF_TOPIC: with TRANSACTION_CHECK_TIMES at the limit ``TransactionalMessageServiceImpl``
  moves the message to TRANS_CHECK_MAX_TIME_TOPIC instead of checking with a producer (4.9.8, 5.3.3, 5.5.1).
* RMQ_SYS_TRANS_OP_HALF_TOPIC: tag ``d`` and a body of queue offsets, here of none; 4.9.8 needs a body.

A filler is a rolled back message: neither a queue nor the index takes it, and every reader passes it.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING

from rmqtool.formats import message
from rmqtool.formats.framing import DLEDGER
from rmqtool.javacompat import PROP_CRC_NAME, PROP_CRC_SIZE, masked_crc32
from rmqtool.topics import HALF_TOPIC, OP_TOPIC, SCHEDULE_TOPIC, TIMER_TOPIC

if TYPE_CHECKING:
    from rmqtool.salvage import Part, RecordForm

LOST_TAG = "rmqtool_lost"
LOST_PROPERTY = message.LOST_PROPERTY
LOST_BODY = message.LOST_BODY
FILLER_TOPIC = "rmqtool-filler"

_DUP_INFO = ("DUP_INFO", "0_0")
_CHECK_TIMES = "99"
"""More than ``transactionCheckMax``, which is 15 if nobody sets it."""
_V1_LARGEST_TOPIC = 127
_NO_OFFSET = "-"
"""No broker takes this for a queue offset: ``TransactionalMessageServiceImpl#getLong`` makes -1 of it."""

_TIME_DIGITS = 13  # of a time in milliseconds, up to the year 2286

Properties = tuple[tuple[str, str], ...]


def tombstone_content(topic: str, queue_id: int, store_timestamp_ms: int) -> tuple[Properties, str]:
    """Return properties and body of a tombstone."""
    real = (("REAL_TOPIC", HALF_TOPIC), ("REAL_QID", "0"))
    mark = (("TAGS", LOST_TAG), (LOST_PROPERTY, "1"))
    if topic == SCHEDULE_TOPIC:
        return (("DELAY", str(queue_id + 1)), *real, *mark), LOST_BODY
    if topic == TIMER_TOPIC:
        return (*_order(store_timestamp_ms), *mark), LOST_BODY
    if topic == HALF_TOPIC:
        return (("TRANSACTION_CHECK_TIMES", _CHECK_TIMES), ("PGROUP", LOST_TAG), *real, *mark), LOST_BODY
    if topic == OP_TOPIC:
        return (("TAGS", "d"),), "-1"
    return mark, LOST_BODY


def _order(store_timestamp_ms: int) -> Properties:
    """Return what makes a message of the timer an order to give up another, due at once."""
    due = f"{store_timestamp_ms:0{_TIME_DIGITS}d}"
    return (("TIMER_OUT_MS", due), ("TIMER_DEL_UNIQKEY", "-"), ("REAL_TOPIC", "-"), ("REAL_QID", "0"))


def short_content(topic: str, queue_id: int, store_timestamp_ms: int) -> tuple[Properties, str]:
    """Return the least that a tombstone should carry: it goes where the mark does not fit.

    Of an ordinary topic, that is a property and a byte of body. Dispatch to tiered storage
    never gets beyond one without any property (``MessageStoreDispatcherImpl#doScheduleDispatch``, 5.5.0); a
    proxy fails to deliver one without a body, and all that a client would receive with it
    (``GrpcConverter#buildSystemProperties``, 5.5.0).
    """
    properties, body = bare_content(topic, queue_id, store_timestamp_ms)
    return (properties, body) if properties else ((("L", "1"),), "-")


def bare_content(topic: str, queue_id: int, store_timestamp_ms: int) -> tuple[Properties, str]:
    """Return the least that a tombstone must carry: it takes no more room than any message of its topic."""
    properties, _ = tombstone_content(topic, queue_id, store_timestamp_ms)
    needed = tuple(pair for pair in properties if pair[0] != LOST_PROPERTY and pair[1] != LOST_TAG)
    return needed, _NO_OFFSET if topic == OP_TOPIC else ""


def record_size(form: RecordForm, topic: str, properties: Properties, body: str = "") -> int:
    """Return the bytes of a record as ``encode_record`` makes it; where some have a lead, with one."""
    encoded = topic.encode()
    wide = len(encoded) > _V1_LARGEST_TOPIC
    lead = 0 if form.entries_from is None else DLEDGER.lead
    size = lead + message.SMALLEST_RECORD + len(encoded) + wide
    return size + len(_property_bytes(form, properties)) + _sum_bytes(form) + len(body.encode())


def smallest_filler(form: RecordForm) -> int:
    """Return the bytes of the smallest filler, whose topic is a letter: of none, no path can be made."""
    return record_size(form, FILLER_TOPIC[:1], ())


def _sum_bytes(form: RecordForm) -> int:
    return PROP_CRC_SIZE if form.appends_crc else 0


def _property_bytes(form: RecordForm, properties: Properties) -> bytes:
    pairs = (*properties, _DUP_INFO) if form.dup_info else properties
    joined = "\x02".join(f"{name}\x01{value}" for name, value in pairs)
    return (f"{joined}\x02" if joined and form.appends_crc else joined).encode()


def _body(part: Part, length: int) -> bytes:
    """Return a body of so many bytes; that of an op message stays the number -1."""
    if part.topic == OP_TOPIC and length > 1:
        return b"-" + b"1".rjust(length - 1, b"0")
    return part.body.encode().ljust(length)


def encode_record(
    form: RecordForm,
    part: Part,
    *,
    at: int,
    size: int,
    queue_offset: int,
    sys_flag: int = message.TRANSACTION_NONE,
) -> bytes:
    """Return a record whose frame lies at ``at`` and has ``size`` bytes, its lead zeros.

    Its body takes up what is left.
    """
    lead = form.framing_at(at).lead
    at, size = at + lead, size - lead
    topic = (part.topic or "").encode()
    wide = len(topic) > _V1_LARGEST_TOPIC
    properties = _property_bytes(form, part.properties)
    properties_length = len(properties) + _sum_bytes(form)
    body_length = size - message.SMALLEST_RECORD - len(topic) - wide - properties_length
    body = _body(part, body_length)
    magic = message.MAGIC_V2 if wide else message.MAGIC_V1
    time_ms, host = part.store_timestamp_ms, form.store_host
    head = message.HEAD_STRUCTS[0].pack(
        size, magic, masked_crc32(body) if body else 0, part.queue_id or 0, 0, queue_offset, at, sys_flag,
        time_ms, host, time_ms, host, 0, 0, body_length,
    )  # fmt: skip
    record = b"".join(
        (
            head,
            body,
            message.TOPIC_LENGTHS[magic].pack(len(topic)),
            topic,
            message.PROPERTIES_LENGTH.pack(properties_length),
            properties,
        )
    )
    return bytes(lead) + record + (record_crc(record) if form.appends_crc else b"")


def record_crc(record: bytes) -> bytes:
    """Return the property ``__CRC32#`` of what comes before it (``MessageDecoder#createCrc32``, 5.2.0+)."""
    digits = str(masked_crc32(record))[::-1].ljust(10, "0")
    return PROP_CRC_NAME + digits.encode() + b"\x02"


def encode_tombstones(form: RecordForm, part: Part) -> bytes:
    """Return the tombstones of a part, one after the other."""
    size = part.length // part.records
    first = part.queue_offset or 0
    tombstone = encode_record(form, part, at=part.start, size=size, queue_offset=first)
    if part.records == 1:
        return tombstone
    if form.appends_crc:
        return b"".join(
            encode_record(form, part, at=part.start + size * number, size=size, queue_offset=first + number)
            for number in range(part.records)
        )
    many = bytearray(tombstone * part.records)
    places = struct.Struct(">qq")
    lead = form.framing_at(part.start).lead
    at, start = lead + message.HEAD_OFFSETS[0]["queueOffset"], lead + part.start
    for number in range(part.records):
        places.pack_into(many, number * size + at, first + number, start + number * size)
    return bytes(many)
