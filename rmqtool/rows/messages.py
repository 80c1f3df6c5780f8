"""Rows of the records of a log, and the filter of messages."""

from __future__ import annotations

import ipaddress
from contextlib import suppress
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from functools import lru_cache
from typing import TYPE_CHECKING

from rmqtool import options, rows
from rmqtool.findings import Finding, Severity, Structure, codes
from rmqtool.formats import message
from rmqtool.formats.message import INNER_BATCH_FLAG
from rmqtool.javacompat import (
    DelayLevels,
    encode_offset_id,
    index_keys,
    parse_int,
    parse_short,
    split_keys,
    string_hash,
    tags_hash,
    wrap_long,
)
from rmqtool.rows.bodies import BodyError, decompress
from rmqtool.rows.meanings import explanation_of
from rmqtool.scan.classify import is_of_record
from rmqtool.scan.record_walk import BlankRecord, LogEvent
from rmqtool.scan.records import Record
from rmqtool.topics import DEAD_LETTER_PREFIX, HALF_TOPIC, SCHEDULE_TOPIC

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from rmqtool.store import FileQueue, Segment

_PORT_BYTES = 4
TRANSACTION_TYPES = {
    message.TRANSACTION_NONE: "none",
    message.TRANSACTION_PREPARED: "prepared",
    message.TRANSACTION_COMMIT: "commit",
    message.TRANSACTION_ROLLBACK: "rollback",
}
_UNKNOWN_LEVEL_DELAY_MS = 1000


def _one_or_all(globs: tuple[str, ...]) -> str | tuple[str, ...] | None:
    return globs if len(globs) > 1 else globs[0] if globs else None


@dataclass(frozen=True)
class MessageFilter:
    """Filter of messages; None admits any.

    Attributes:
        topic: A glob over the stored topic, or several.
        queue_id: The queue.
        tag: The whole TAGS property.
        key: One of KEYS, or the unique key.
        begin_ms: Store time, inclusive.
        end_ms: Store time, inclusive.
        from_queue_offset: Queue offset, inclusive.
        backlog_of: A group; only what it has not consumed.
        in_doubt: Only half messages that no commit or rollback ended, as the messages that they would be.
        dead_letters: Only dead letters, under their original topic.
        contains: A text in the body, unpacked; a body that cannot be unpacked is searched as stored.
        inside_batches: Whether tag and key are also those of messages in an inner batch: then every batch may
            hold a match.
        unread: Next queue offset of the group, by topic and queue; of other queues of these topics, 0.
        places: Physical offsets of the half messages in doubt.
    """

    topic: str | tuple[str, ...] | None = options.names(
        "Only these topics; repeatable.", flags=("-t", "--topic"), convert=_one_or_all
    )
    queue_id: int | None = options.number("Only this queue ID.", name="queue", least=None)
    tag: str | None = options.text("Only this tag.", "TAG")
    key: str | None = options.text("Only messages with this key or unique key.", "KEY", flags=("-k", "--key"))
    begin_ms: int | None = options.begin()
    end_ms: int | None = options.end()
    from_queue_offset: int | None = options.number("From this queue offset on.")
    backlog_of: str | None = options.text("Only what this group has not consumed.", "GROUP")
    in_doubt: bool = options.flag("Only half messages without an end, as what they would be.")
    dead_letters: bool = options.flag("Only dead letters, under their original topics.")
    contains: str | None = options.text("Only bodies with this text; packed ones are unpacked.", "TEXT")
    inside_batches: bool = False
    unread: Mapping[str, Mapping[int, int]] | None = None
    places: frozenset[int] | None = None

    def selected(self, record: Record) -> Record | None:
        """Return a record as it is shown; None for one that the filter does not admit."""
        if self.stored_topic is not None:
            if not fnmatchcase(record.topic, self.stored_topic):
                return None
            record = _as_sent(record)
        return record if self.admits(record) else None

    def admits(self, record: Record) -> bool:
        """Whether the filter admits a record as it is shown."""
        head = record.head
        return (
            self.admits_queue(record.topic, head.queue_id)
            and (self._may_hold(head.sys_flag) or self.admits_names(record.properties))
            and (self.begin_ms is None or head.store_timestamp_ms >= self.begin_ms)
            and (self.end_ms is None or head.store_timestamp_ms <= self.end_ms)
            and (self.from_queue_offset is None or head.queue_offset >= self.from_queue_offset)
            and (self.places is None or record.physical_offset in self.places)
            and (self.unread is None or self._is_unread(record, self.unread))
            and (self.contains is None or self.holds_text(record.body, head.sys_flag))
        )

    @property
    def stored_topic(self) -> str | None:
        """Return the topic, a glob, of messages that are shown under another; None if they are not."""
        return HALF_TOPIC if self.in_doubt else f"{DEAD_LETTER_PREFIX}*" if self.dead_letters else None

    @property
    def as_stored(self) -> MessageFilter:
        """Return a filter of what lies in the log: it may admit more, where messages are shown otherwise."""
        topic = self.stored_topic
        return self if topic is None else replace(self, topic=topic, queue_id=None)

    def holds_text(self, body: bytes, sys_flag: int) -> bool:
        """Whether a body, as stored, has the text."""
        with suppress(BodyError):
            body = decompress(body, sys_flag)
        return self.text in body

    @property
    def text(self) -> bytes:
        """Return the bytes of the text in the body."""
        return (self.contains or "").encode("utf-8", "surrogateescape")

    @staticmethod
    def _is_unread(record: Record, unread: Mapping[str, Mapping[int, int]]) -> bool:
        """Whether the group has still to consume a record; an inner batch takes a queue offset a message."""
        queues, head = unread.get(record.topic), record.head
        if queues is None or not has_unit(record):
            return False
        packed = (
            parse_short(record.properties.get("INNER_NUM", "")) if "INNER_BASE" in record.properties else 1
        )
        return head.queue_offset + max(packed or 1, 1) > queues.get(head.queue_id, 0)

    def admits_names(self, properties: dict[str, str]) -> bool:
        """Whether a message with these properties has the tag and the key."""
        has_tag = self.tag is None or properties.get("TAGS") == self.tag
        return has_tag and (self.key is None or self.key in index_keys(properties))

    @property
    def is_for_kernels(self) -> bool:
        """Whether kernels can filter: they know no classes in globs, and texts as UTF-8 only.

        Bytes of the command line that are not UTF-8 are surrogates in a text.
        """
        texts = (*self.topics, self.tag, self.key, self.contains)
        hashes = {string_hash(topic) for topic in self.unread or ()}
        return (
            all("[" not in topic for topic in self.topics)
            and not any("*" in topic or "?" in topic for topic in self.unread or ())
            and all(map(_is_unicode, texts))
            and len(hashes) == len(self.unread or ())
        )

    @property
    def topics(self) -> tuple[str, ...]:
        """Return the globs over the stored topic; none if any topic will do."""
        return () if self.topic is None else (self.topic,) if isinstance(self.topic, str) else self.topic

    def _may_hold(self, sys_flag: int) -> bool:
        return self.inside_batches and bool(sys_flag & INNER_BATCH_FLAG)

    def admits_queue(self, topic: str | None, queue_id: int | None) -> bool:
        """Whether the filter can admit messages of a queue."""
        if self.queue_id not in {None, queue_id}:
            return False
        return self.topic is None or (
            topic is not None and any(fnmatchcase(topic, glob) for glob in self.topics)
        )


def _as_sent(record: Record) -> Record:
    """Return a half message as its commit would store it, a dead letter under the topic that it was sent to.

    Java: ``EndTransactionProcessor#endMessageTransaction`` (4.9.8, 5.5.1); RETRY_TOPIC is the consumer's.
    """
    properties, head = record.properties, record.head
    if record.topic == HALF_TOPIC:
        topic, queue_id = properties.get("REAL_TOPIC"), parse_int(properties.get("REAL_QID", ""))
        real = {"REAL_TOPIC", "REAL_QID"}
        properties = {name: value for name, value in properties.items() if name not in real}
        if queue_id is not None:
            head = head._replace(queue_id=queue_id)
    else:
        topic = properties.get("RETRY_TOPIC") or properties.get("DLQ_ORIGIN_TOPIC")
    return record._replace(topic=topic or record.topic, properties=properties, head=head)


def _is_unicode(text: str | None) -> bool:
    return text is None or not any("\ud800" <= character <= "\udfff" for character in text)


def keys_of(record: Record) -> list[str]:
    """Return the keys by which a record is indexed, in the order of the index."""
    return index_keys(record.properties)


def has_unit(record: Record) -> bool:
    """Whether a record is put into its consume queue: prepared and rolled back ones are not.

    Java: ``CommitLogDispatcherBuildConsumeQueue#dispatch`` (4.9.8, 5.3.3).
    """
    kind = record.head.sys_flag & message.TRANSACTION_MASK
    return kind in {message.TRANSACTION_NONE, message.TRANSACTION_COMMIT}


def tags_code(record: Record, delay_levels: DelayLevels) -> int:
    """Return the tags code of a record in its consume queue: hash of the tags, or the time of delivery.

    Java: ``CommitLog#checkMessageAndReturnSize``, ``ScheduleMessageService#computeDeliverTimestamp`` (4.9.8),
    ``DefaultMessageStore#computeDeliverTimestamp`` (5.3.3).
    """
    level = parse_int(record.properties.get("DELAY", "")) if record.topic == SCHEDULE_TOPIC else None
    if level is not None and (level := min(level, delay_levels.max_level)) > 0:
        delay_ms = delay_levels.delay_ms.get(level, _UNKNOWN_LEVEL_DELAY_MS)
        return wrap_long(record.head.store_timestamp_ms + delay_ms)
    return tags_hash(record.properties.get("TAGS", ""))


@lru_cache(maxsize=1024)
def host_text(raw: bytes) -> str:
    """Return a stored host, address bytes and an i32 port, as ``ip:port`` or ``[ip6]:port``."""
    address = ipaddress.ip_address(raw[:-_PORT_BYTES])
    port = int.from_bytes(raw[-_PORT_BYTES:], "big", signed=True)
    return f"[{address}]:{port}" if address.version == 6 else f"{address}:{port}"


def offset_id_of(record: Record) -> str:
    """Return the offset message id, made of the store host and the PHYSICALOFFSET field."""
    raw = record.head.store_host
    port = int.from_bytes(raw[-_PORT_BYTES:], "big", signed=True)
    return encode_offset_id(raw[:-_PORT_BYTES], port, record.head.physical_offset)


class MessageRows:
    """Makes rows of what a walk over a log yields; a record's damage comes before it."""

    def __init__(self, log: FileQueue, delay_levels: DelayLevels) -> None:
        self._log = log
        self._delay_levels = delay_levels
        self._segment: Segment | None = None
        self._met: list[Finding] = []

    def row(self, event: LogEvent) -> rows.Message | rows.Blank | rows.Damage:
        """Return the row of one event."""
        file, position = self._place(event.physical_offset or 0)
        if isinstance(event, Record):
            return self._message(event, file, position)
        if isinstance(event, BlankRecord):
            return rows.Blank(file, position, event.physical_offset, event.total_size)
        return self.damage(event)

    def selected(
        self, event: LogEvent, wanted: MessageFilter
    ) -> Iterator[rows.Message | rows.Blank | rows.Damage]:
        """Yield the row of one event, none of a record that is not wanted."""
        shown = wanted.selected(event) if isinstance(event, Record) else event
        if shown is not None:
            yield self.row(shown)

    def damage(self, defect: Finding) -> rows.Damage:
        """Return the row of a defect."""
        if is_of_record(defect):
            self._met = [
                finding for finding in self._met if finding.physical_offset == defect.physical_offset
            ]
            self._met.append(defect)
        return rows.Damage(
            *self._place(defect.physical_offset or 0),
            defect.physical_offset,
            defect.length or 0,
            defect.code,
            defect.message,
            Structure.COMMITLOG,
            Severity.WARNING if self._may_be_foreign(defect) else defect.severity_override,
        )

    def _may_be_foreign(self, defect: Finding) -> bool:
        """Return whether a wrong ``__CRC32#`` came with the message, which ``verify`` finds, too."""
        segment = (
            self._log.segment_at(defect.physical_offset or 0) if defect.code is codes.CL_PROP_CRC else None
        )
        if segment is None:
            return False
        from rmqtool.scan.record_checks import file_has_none

        return file_has_none(segment)

    def _message(self, record: Record, file: str, position: int) -> rows.Message:
        head, properties = record.head, record.properties
        code = tags_code(record, self._delay_levels)
        fields = head._asdict() | {
            "magic": "V2" if head.magic == message.MAGIC_V2 else "V1",
            "transaction_type": TRANSACTION_TYPES[head.sys_flag & message.TRANSACTION_MASK],
            "born_host": host_text(head.born_host),
            "store_host": host_text(head.store_host),
            "topic": record.topic,
            "body_length": record.body_length,
            "body": record.body,
            "properties": properties,
            "tags": properties.get("TAGS"),
            "keys": split_keys(properties.get("KEYS", "")),
            "uniq_key": properties.get("UNIQ_KEY"),
            "tags_code": code,
            "msg_id": offset_id_of(record),
            "explanation": explanation_of(record, code),
            "damage": self._damage_of(record),
        }
        return rows.Message(file, position, **fields)

    def _damage_of(self, record: Record) -> list[str]:
        met, self._met = self._met, []
        return [finding.code.code for finding in met if finding.physical_offset == record.physical_offset]

    def _place(self, physical_offset: int) -> tuple[str, int]:
        """Return file and position of an offset; one after the last byte of a file counts as in it."""
        segment = self._segment
        if segment is None or not segment.start <= physical_offset < segment.stop:
            segment = self._log.segment_at(physical_offset) or self._log.segment_at(physical_offset - 1)
            self._segment = segment
        if segment is None:
            return "", 0
        return segment.label, physical_offset - segment.start
