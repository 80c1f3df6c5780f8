"""Records of the log one at a time, in plain Python, the gaps between them, and the next intact record."""

from __future__ import annotations

import heapq
from enum import StrEnum
from typing import TYPE_CHECKING, NamedTuple, Protocol

from rmqtool.formats import message
from rmqtool.formats.framing import END_MARK_BYTES, FrameHead, Framing
from rmqtool.formats.message import Outcome
from rmqtool.javacompat import (
    decode_utf8,
    masked_crc32,
    parse_int,
    parse_long,
    parse_properties,
    parse_short,
    wrap_int,
)
from rmqtool.releases import LENIENT, NEWEST, RecordRules
from rmqtool.store.segments import Segment, Window
from rmqtool.times import EARLIEST_MS, LATEST_MS
from rmqtool.topics import LMQ_PREFIX, SCHEDULE_TOPIC

if TYPE_CHECKING:
    import struct
    from collections.abc import Collection, Iterator

    from rmqtool.store import FileQueue


_STARTS = message.RECORD_STARTS
_PROPERTIES_LENGTH_BYTES = 2
_ZEROS = bytes(4)
_LARGEST_HEAD = max(message.HEAD_SIZES)
_WIDEST_HOSTS = (8, 20, 20, 20)  # bytes of the wider host by variant: it is read through an array, too


class PropertyWitness(StrEnum):
    """Contradictions of a record's properties."""

    FORM = "their form"  # pieces without name or value
    UNIT = "the tags code of its unit"
    ITEM = "an index item"


class ByteSource(Protocol):
    """Bytes of a file: a segment, or a window on one."""

    @property
    def size_bytes(self) -> int:
        """Return the bytes of the whole file."""

    @property
    def framing(self) -> Framing:
        """Return the framing of its records."""

    def read_at(self, position: int, length: int) -> bytes:
        """Return ``length`` bytes from ``position``, fewer at the end of the file."""


class Record(NamedTuple):
    """A message record, decoded; ``physical_offset`` is its place, its PHYSICALOFFSET field is in ``head``.

    ``topic`` and ``properties`` are decoded as Java does, the last of equal names; ``raw`` is all TOTALSIZE
    bytes; ``lead`` is how many bytes of its frame lie before it.
    """

    physical_offset: int
    head: message.MessageHead
    topic: str
    properties: dict[str, str]
    raw: bytes
    lead: int = 0

    @property
    def frame_start(self) -> int:
        """Return the physical offset of its frame."""
        return self.physical_offset - self.lead

    @property
    def frame_stop(self) -> int:
        """Return the physical offset after its frame."""
        return self.physical_offset + len(self.raw)

    @property
    def body_start(self) -> int:
        """Return where the body starts in ``raw``."""
        return message.HEAD_SIZES[message.host_variant(self.head.sys_flag)]

    @property
    def body_length(self) -> int:
        """Return the bytes of the body; a negative length on disk counts as none."""
        return max(self.head.body_length, 0)

    @property
    def body(self) -> bytes:
        """Return the body as stored, possibly compressed."""
        return self.raw[self.body_start : self.body_start + self.body_length]

    @property
    def topic_bytes(self) -> bytes:
        """Return the topic as stored."""
        start = self.body_start + self.body_length
        width = message.TOPIC_LENGTHS[self.head.magic]
        (length,) = width.unpack_from(self.raw, start)
        return self.raw[start + width.size : start + width.size + length]

    @property
    def properties_bytes(self) -> bytes:
        """Return the properties as stored, all that follows the topic and their length."""
        width = message.TOPIC_LENGTHS[self.head.magic].size
        start = self.body_start + self.body_length + width + len(self.topic_bytes)
        return self.raw[start + _PROPERTIES_LENGTH_BYTES :]

    @property
    def has_torn_properties(self) -> bool:
        """Whether zeros stand in the properties, which are text: a page of them never reached the disk."""
        return _ZEROS in self.properties_bytes

    @property
    def light_places(self) -> list[tuple[str, int, int]]:
        """Return topic, queue ID and queue offset in each light queue (multi dispatch), whose ID is 0."""
        names = self.properties.get("INNER_MULTI_DISPATCH", "").split(",")
        offsets = [*map(parse_long, self.properties.get("INNER_MULTI_QUEUE_OFFSET", "").split(","))]
        ids = (0 if name.startswith(LMQ_PREFIX) else self.head.queue_id for name in names)
        places = zip(names, ids, offsets, strict=False)
        whole = [(name, number, offset) for name, number, offset in places if name and offset is not None]
        return whole if len(names) == len(offsets) else []

    def change(self, against: Collection[str]) -> str:
        """Return what shows that the properties changed after the record was stored; empty if nothing does.

        No checksum covers properties by default. A unit has the hash of the tags, index items those of the
        keys; either can rot by itself, and a sender can write odd properties. But two of the three that agree
        against a record are no accident, nor are zeros where text belongs.

        Args:
            against: of ``PropertyWitness``, what contradicts the properties.
        """
        if self.has_torn_properties:
            return "they contain zeros, like a page that was never written"
        return f"{' and '.join(sorted(against))} contradict them" if len(against) > 1 else ""

    @property
    def body_crc_holds(self) -> bool:
        """Whether BODYCRC is the body's checksum; an empty body is never checked."""
        return not self.body_length or masked_crc32(self.body) == self.head.body_crc


class Checked(NamedTuple):
    """Result of ``CommitLog#checkMessageAndReturnSize``, with its reason in one phrase.

    Attributes:
        success: The broker goes on: a message, or an end mark.
        size: Bytes to advance: those of the frame; 0 at an end mark; -1 when the broker cannot know.
        outcome: Content there; None where only the body's checksum is wrong.
    """

    success: bool
    size: int
    record: Record | None = None
    outcome: Outcome | None = Outcome.RECORD
    reason: str = ""


class _Parts(NamedTuple):
    topic: bytes
    properties: bytes
    read_length: int
    crc_differs: bool


def check_record(
    source: ByteSource,
    position: int,
    rules: RecordRules = NEWEST.records,
    *,
    base: int = 0,
    check_crc: bool = False,
    read_body: bool = False,
    kept: int = 0,
) -> Checked:
    """Return a broker's reading of the frame at ``position`` of a file, which ends where its buffer ends.

    Java: ``CommitLog#checkMessageAndReturnSize`` (4.9.8, 5.3.3) without ``checkDupInfo`` and
    ``forceVerifyPropCRC``, both off by default. Recovery reads the body and checks its CRC; reput does
    neither. ``base`` is the physical offset of the file's first byte; ``kept`` the bytes of the array that
    the thread has kept, at most ``RecordRules.kept_array``.
    """
    framing, left = source.framing, source.size_bytes - position
    start = source.read_at(position, framing.head_size)
    place = position if framing.end_size(start) is not None else position + framing.lead
    if source.size_bytes - place < _STARTS.size or len(start) < place - position + _STARTS.size:
        return Checked(
            False, -1, outcome=Outcome.BAD_LENGTH, reason=f"only {left} bytes are left in the file"
        )
    begin, left = framing.head(start), source.size_bytes - place
    fits = not rules.checks_room or left - 4 >= wrap_int(begin.total_size - 4)
    fits = fits and not (rules.refuses_negative_size and begin.total_size < 0)
    if fits and begin.is_end:
        return Checked(True, 0, outcome=Outcome.FILE_END)
    if not fits or not (
        begin.magic == message.MAGIC_V1 or (begin.magic == message.MAGIC_V2 and rules.knows_v2)
    ):
        return _start_failure(begin, left)
    head = message.decode_head(source.read_at(place, _LARGEST_HEAD))
    array = max(begin.total_size, kept)
    parts = None if head is None else _read_parts(source, place, head, array, check_crc, read_body)
    if head is None or parts is None:
        return _start_failure(begin, left)
    if parts.crc_differs:
        return Checked(False, -1, outcome=None, reason="the body's CRC-32 is not BODYCRC")
    return _judge(source, place, base, rules, head, parts)


def _start_failure(begin: FrameHead, left: int) -> Checked:
    """Name a failure for which the broker returns -1 by the first eight bytes."""
    total_size = begin.total_size
    if begin.magic not in message.TOPIC_LENGTHS and not begin.is_end:
        reason = f"0x{begin.magic & 0xFFFFFFFF:08X} is not the magic of a record"
        return Checked(False, -1, outcome=Outcome.BAD_MAGIC, reason=reason)
    if total_size < message.SMALLEST_RECORD or total_size > left:
        reason = f"TOTALSIZE {total_size}, {left} bytes left in the file"
    else:
        reason = f"a part runs past TOTALSIZE {total_size}"
    return Checked(False, -1, outcome=Outcome.BAD_LENGTH, reason=reason)


def _read_parts(
    source: ByteSource,
    position: int,
    head: message.MessageHead,
    array: int,
    check_crc: bool,
    read_body: bool,
) -> _Parts | None:
    """Read the bytes after the fixed part; None where Java throws an exception."""
    variant = message.host_variant(head.sys_flag)
    body_length = max(head.body_length, 0)
    if array < _WIDEST_HOSTS[variant] or (read_body and body_length > array):
        return None
    body_at = position + message.HEAD_SIZES[variant]
    at = body_at + body_length
    if at > source.size_bytes:
        return None
    crc_differs = check_crc and read_body and body_length > 0
    if crc_differs and masked_crc32(source.read_at(body_at, body_length)) == head.body_crc:
        crc_differs = False
    topic = _read_sized(source, at, message.TOPIC_LENGTHS[head.magic], array, negative_fails=True)
    if topic is None:
        return None
    at += message.TOPIC_LENGTHS[head.magic].size + len(topic)
    properties = _read_sized(source, at, message.PROPERTIES_LENGTH, array, negative_fails=False)
    if properties is None:
        return None
    at += message.PROPERTIES_LENGTH.size + len(properties)
    return _Parts(topic, properties, at - position, crc_differs)


def _read_sized(
    source: ByteSource, at: int, width: struct.Struct, array: int, *, negative_fails: bool
) -> bytes | None:
    """Read bytes after their length; Java reads them into an array of ``array`` bytes."""
    prefix = source.read_at(at, width.size)
    if len(prefix) < width.size:
        return None
    (length,) = width.unpack(prefix)
    if length > array or (length < 0 and negative_fails):
        return None
    data = source.read_at(at + width.size, max(length, 0))
    return data if len(data) == max(length, 0) else None


def _judge(
    source: ByteSource,
    position: int,
    base: int,
    rules: RecordRules,
    head: message.MessageHead,
    parts: _Parts,
) -> Checked:
    """Parse the numbers among the properties and compare the lengths, in the broker's order."""
    topic = decode_utf8(parts.topic)
    properties = parse_properties(parts.properties)
    if rules.requires_numbers and not _delay_parses(topic, properties):
        return Checked(False, -1, outcome=Outcome.BAD_NUMBER, reason="DELAY is not a number")
    if parts.read_length != head.total_size:
        reason = f"TOTALSIZE {head.total_size}, but the parts make {parts.read_length} bytes"
        outcome = Outcome.MISMATCH if head.total_size else Outcome.BAD_LENGTH
        return Checked(False, source.framing.frame_stop(0, head.total_size), outcome=outcome, reason=reason)
    if rules.requires_numbers and rules.knows_inner_batch and not _inner_batch_parses(properties):
        return Checked(
            False, -1, outcome=Outcome.BAD_NUMBER, reason="INNER_NUM or INNER_BASE is not a number"
        )
    raw = source.read_at(position, head.total_size)
    if len(raw) < head.total_size:  # the file shrinks while we read
        return Checked(False, -1, outcome=Outcome.STOP, reason="the file ends inside the record")
    lead = source.framing.lead
    return Checked(True, lead + len(raw), Record(base + position, head, topic, properties, raw, lead))


def number_problem(record: Record) -> str | None:
    """Return which property a broker fails to parse, so that it takes the record for damaged; or None."""
    if not _delay_parses(record.topic, record.properties):
        return "DELAY is not a number"
    return None if _inner_batch_parses(record.properties) else "INNER_NUM or INNER_BASE is not a number"


def _delay_parses(topic: str, properties: dict[str, str]) -> bool:
    delay = properties.get("DELAY")
    return topic != SCHEDULE_TOPIC or delay is None or parse_int(delay) is not None


def _inner_batch_parses(properties: dict[str, str]) -> bool:
    """Java: ``CommitLog#setBatchSizeIfNeeded`` (5.3.3) parses both only if both are there."""
    number, base = properties.get("INNER_NUM"), properties.get("INNER_BASE")
    if number is None or base is None:
        return True
    return parse_long(base) is not None and parse_short(number) is not None


_WINDOW_BYTES = 4096


_HEAD_BYTES = 8


def holds_bytes(log: FileQueue, physical_offset: int) -> bool:
    """Return whether anything was ever written at an offset, where a record's length is zero otherwise."""
    segment = log.segment_at(physical_offset)
    return segment is not None and any(segment.read_at(physical_offset - segment.start, _HEAD_BYTES, []))


def record_at(log: FileQueue, physical_offset: int) -> Record | None:
    """Return the record that lies at an offset; None if nothing does, or it cannot be read.

    A damaged queue or index may point anywhere: only bytes that are a record count, and nothing is read
    before its length is known to be present.
    """
    segment = log.segment_at(physical_offset)
    if segment is None:
        return None
    window = Window(segment, _WINDOW_BYTES)
    position = segment.frame_position(physical_offset)
    window.focus(position)
    return check_record(window, position, LENIENT, base=segment.start).record


_MAGIC_AT = message.HEAD_OFFSETS[0]["magic"]
_MAGIC_BYTES = 4
_FIRST_SPAN_BYTES = 4096
_LARGEST_SPAN_BYTES = 1 << 19
_EMPTY_SPAN = bytes(_LARGEST_SPAN_BYTES + _FIRST_SPAN_BYTES)


def find_true(window: Window, position: int, base: int, stop: int | None = None) -> int | None:
    """Return the position of the first intact frame or end mark from ``position`` on, before ``stop``.

    ``base`` is the physical offset of the file's first byte; without ``stop`` the file's end is the limit.
    """
    stop, framing = window.size_bytes if stop is None else stop, window.framing
    magics = {
        message.MAGIC_V1: framing.lead + _MAGIC_AT,
        message.MAGIC_V2: framing.lead + _MAGIC_AT,
        framing.end_magic: framing.end_magic_at,
    }
    first, last = min(magics.values()), max(magics.values()) + _MAGIC_BYTES - 1
    span = _FIRST_SPAN_BYTES  # grows: damage is mostly short, and every look-up of a hostile file must be
    while position < stop:
        window.focus(position)
        chunk = window.read_at(position + first, span + last - first)
        is_empty = chunk == _EMPTY_SPAN[: len(chunk)]  # a search for magics takes ten times as long
        places = (_places(chunk, magic, at - first, span) for magic, at in magics.items() if not is_empty)
        for at in heapq.merge(*places):
            if position + at >= stop:
                return None
            if is_true(window, position + at, base):
                return position + at
        if len(chunk) < span:
            return None
        position += span
        if is_empty and stop >= window.size_bytes:  # what follows may be a hole, which is not read
            position = max(position, window.skip_zeros(position) - last)
        span = min(2 * span, _LARGEST_SPAN_BYTES)
    return None


def _places(chunk: bytes, magic: int, magic_at: int, span: int) -> Iterator[int]:
    """Yield where frames or marks can begin that have a magic ``magic_at`` bytes later."""
    places = occurrences(chunk, magic.to_bytes(_MAGIC_BYTES, "big", signed=True))
    return (at - magic_at for at in places if 0 <= at - magic_at < span)


def occurrences(data: bytes, wanted: bytes) -> Iterator[int]:
    """Yield the positions of some bytes in others."""
    at = data.find(wanted)
    while at >= 0:
        yield at
        at = data.find(wanted, at + 1)


def is_true(window: Window, position: int, base: int) -> bool:
    """Whether a frame or end mark at ``position`` is intact, its record at the place that it names."""
    framing = window.framing
    head, place = framing.head(window.read_at(position, framing.head_size)), position + framing.lead
    if head.is_end:
        return is_file_end(window, position)
    if not message.SMALLEST_RECORD <= head.total_size <= window.size_bytes - place:
        return False
    if head.physical_offset != base + place:
        return False
    return check_record(window, position, LENIENT, base=base).record is not None


def is_file_end(source: ByteSource, position: int) -> bool:
    """Whether the mark that ends a file lies at a position."""
    mark = source.read_at(position, END_MARK_BYTES)
    return source.framing.end_size(mark) == source.size_bytes - position


def holds_record(segment: Segment) -> bool:
    """Whether a file of the log holds a record: the one it begins with, or else an intact one."""
    window, base = Window(segment, _WINDOW_BYTES), segment.start
    window.focus(0)
    if check_record(window, 0, LENIENT, base=base).record is not None:
        return True
    window = Window(segment)
    place = find_true(window, max(0, window.skip_zeros(0) - window.framing.most_zeros), base)
    return place is not None and check_record(window, place, LENIENT, base=base).record is not None


class Gap(NamedTuple):
    """Bytes in which no record can be followed.

    Attributes:
        start: physical offset.
        stop: physical offset of the next intact frame or end mark, or where the search ended.
        reason: what the bytes at ``start`` are instead of a frame.
        total_size: see ``rmqtool.formats.framing.FrameHead``, also of the next one.
        magic: of a record, or an end mark.
        own: whether they carry the PHYSICALOFFSET of a record in a frame at ``start``: it was written here.
        data_start: physical offset of the first byte that is not zero, at most ``stop``.
        is_end: whether they are an end mark, which does not state what is left of the file.
    """

    start: int
    stop: int
    reason: Outcome
    total_size: int
    magic: int
    own: bool
    data_start: int
    is_end: bool = False

    @property
    def length(self) -> int:
        """Return how many bytes they are."""
        return self.stop - self.start

    @property
    def zero(self) -> bool:
        """Whether all bytes are zero."""
        return self.data_start >= self.stop

    @property
    def begins_with_zeros(self) -> bool:
        """Whether there is nothing where a record should begin: no TOTALSIZE, and no MAGICCODE."""
        return self.data_start >= min(self.start + _START_BYTES, self.stop)


_START_BYTES = 8


class Prefilter(NamedTuple):
    """A coarse filter: what falls through is no answer, what stays may be one.

    Attributes:
        begin_ms: STORETIMESTAMP, inclusive.
        end_ms: STORETIMESTAMP, inclusive.
        topic_hash: hash code of the topic; None for any. A message of light queues, too, stays whatever
            its own topic, queue and offset are.
        queue_id: QUEUEID; None for any.
        queue_offset: least QUEUEOFFSET; None for any.
        key_hashes: ascending; a key hash of the index, of UNIQ_KEY or one of KEYS. None for any.
        of_any_topic: whether those are the hashes of keys alone, without their topic.
        unique_hashes: ascending; hash codes of UNIQ_KEY, whatever the topic. None for any.
    """

    begin_ms: int = EARLIEST_MS
    end_ms: int = LATEST_MS
    topic_hash: int | None = None
    queue_id: int | None = None
    queue_offset: int | None = None
    key_hashes: tuple[int, ...] | None = None
    of_any_topic: bool = False
    unique_hashes: tuple[int, ...] | None = None
