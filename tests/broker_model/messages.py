"""``CommitLog#checkMessageAndReturnSize`` as a reput calls it: no body read, no checksum (4.9.8, 5.3.3)."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from rmqtool.javacompat import (
    decode_utf8,
    parse_int,
    parse_long,
    parse_properties,
    parse_short,
    string_hash,
    wrap_int,
    wrap_long,
)

if TYPE_CHECKING:
    from rmqtool.dispatch.policy import DispatchPolicy

MESSAGE_MAGIC_CODE = -626843481
MESSAGE_MAGIC_CODE_V2 = -626843477
BLANK_MAGIC_CODE = -875286124


class JavaError(Exception):
    """Any exception that Java catches around the whole method: the answer is size -1."""


class ByteBuffer:
    """A big-endian ``java.nio.ByteBuffer`` over bytes."""

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.position = 0

    @property
    def remaining(self) -> int:
        return len(self.data) - self.position

    def integer(self, width: int) -> int:
        return int.from_bytes(self._take(width), "big", signed=True)

    def get(self, length: int, array_length: int) -> bytes:
        """Read through an array of ``array_length`` bytes, as ``get(array, 0, length)``."""
        if not 0 <= length <= array_length:
            raise JavaError("IndexOutOfBounds")
        return self._take(length)

    def skip(self, length: int) -> None:
        if length > self.remaining:
            raise JavaError("IllegalArgument")
        self.position += length

    def _take(self, length: int) -> bytes:
        if length > self.remaining:
            raise JavaError("BufferUnderflow")
        self.position += length
        return self.data[self.position - length : self.position]


@dataclass
class CheckMessageBuffer:
    """The array of one thread, ``CommitLog#borrowCheckMessageBuffer`` (5.5.1); older: one of each size."""

    kept: int = 0

    def borrow(self, size: int, policy: DispatchPolicy) -> int:
        """Return the length of the array that a record of ``size`` bytes is read into."""
        if not _is_5_5_1(policy) or size > 1048576:
            return size
        self.kept = max(self.kept, size)
        return self.kept


@dataclass
class Request:
    """``DispatchRequest``: what the dispatchers see of a message."""

    topic: str
    raw_topic: bytes
    queue_id: int
    physical_offset: int
    size: int
    tags_code: int
    store_timestamp_ms: int
    queue_offset: int
    sys_flag: int
    properties: dict[str, str] = field(default_factory=dict)
    base_offset: int = 0
    batch_size: int = 1


class Answer(NamedTuple):
    success: bool
    size: int
    request: Request | None = None


FAILURE = Answer(success=False, size=-1)


def check_message(
    buffer: ByteBuffer, policy: DispatchPolicy, thread: CheckMessageBuffer | None = None
) -> Answer:
    """Read the record at the buffer's position; the position moves as far as Java's does."""
    try:
        return _check(buffer, policy, thread or CheckMessageBuffer(), is_5=policy.release.line != "4.9")
    except JavaError:
        return FAILURE


def _check(buffer: ByteBuffer, policy: DispatchPolicy, thread: CheckMessageBuffer, *, is_5: bool) -> Answer:
    if is_5 and buffer.remaining <= 4:
        return FAILURE
    total_size = buffer.integer(4)
    if is_5 and (buffer.remaining < wrap_int(total_size - 4) or (total_size < 0 and _is_5_5_1(policy))):
        return FAILURE
    magic = buffer.integer(4)
    if magic == BLANK_MAGIC_CODE:
        return Answer(success=True, size=0)
    if magic != MESSAGE_MAGIC_CODE and not (is_5 and magic == MESSAGE_MAGIC_CODE_V2):
        return FAILURE
    if total_size < 0:
        raise JavaError("NegativeArraySize")
    array_length = thread.borrow(total_size, policy)
    buffer.integer(4)  # BODYCRC
    queue_id = buffer.integer(4)
    buffer.integer(4)  # FLAG
    queue_offset = buffer.integer(8)
    physical_offset = buffer.integer(8)
    sys_flag = buffer.integer(4)
    buffer.integer(8)  # BORNTIMESTAMP
    born_host = buffer.get(20 if sys_flag & 0x10 else 8, array_length)
    store_timestamp_ms = buffer.integer(8)
    store_host = buffer.get(20 if sys_flag & 0x20 else 8, array_length)
    buffer.integer(4)  # RECONSUMETIMES
    buffer.integer(8)  # PREPAREDTRANSACTIONOFFSET
    body_length = max(buffer.integer(4), 0)
    buffer.skip(body_length)
    width = 2 if magic == MESSAGE_MAGIC_CODE_V2 else 1
    raw_topic = buffer.get(buffer.integer(width), array_length)
    topic = decode_utf8(raw_topic)
    properties_length = max(buffer.integer(2), 0)
    properties = parse_properties(buffer.get(properties_length, array_length))
    tags_code = _tags_code(topic, properties, store_timestamp_ms, policy)
    hosts = len(born_host) + len(store_host)
    if total_size != 72 + hosts + body_length + width + len(raw_topic) + 2 + properties_length:
        return Answer(success=False, size=total_size)
    request = Request(
        topic,
        raw_topic,
        queue_id,
        physical_offset,
        total_size,
        tags_code,
        store_timestamp_ms,
        queue_offset,
        sys_flag,
        properties,
        base_offset=queue_offset,
    )
    if is_5 and "INNER_NUM" in properties and "INNER_BASE" in properties:
        request.base_offset = _number(parse_long(properties["INNER_BASE"]))
        request.batch_size = _number(parse_short(properties["INNER_NUM"]))
    return Answer(success=True, size=total_size, request=request)


def _is_5_5_1(policy: DispatchPolicy) -> bool:
    return policy.release.name >= "5.5.1"


def _tags_code(
    topic: str, properties: dict[str, str], store_timestamp_ms: int, policy: DispatchPolicy
) -> int:
    tags_code = string_hash(properties["TAGS"]) if "TAGS" in properties else 0
    if topic == "SCHEDULE_TOPIC_XXXX" and "DELAY" in properties:
        level = min(_number(parse_int(properties["DELAY"])), max(policy.delay_levels_ms, default=0))
        if level > 0:
            tags_code = wrap_long(store_timestamp_ms + policy.delay_levels_ms.get(level, 1000))
    return tags_code


def _number(value: int | None) -> int:
    if value is None:
        raise JavaError("NumberFormat")
    return value
