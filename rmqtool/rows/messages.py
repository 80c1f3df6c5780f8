"""Rows of the records of a log, and the filter of messages."""

from __future__ import annotations

import ipaddress
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import lru_cache
from typing import TYPE_CHECKING

from rmqtool import options, rows
from rmqtool.dispatch.index_keys import index_keys
from rmqtool.findings import Finding, Severity, Structure
from rmqtool.findings.codes import CL_PROP_CRC
from rmqtool.formats import message
from rmqtool.formats.message import INNER_BATCH_FLAG
from rmqtool.javacompat import DelayLevels, encode_offset_id, parse_int, split_keys, tags_hash, wrap_long
from rmqtool.rows.system_messages import explanation_of
from rmqtool.scan.classify import is_of_record
from rmqtool.scan.record_walk import Blank, LogEvent
from rmqtool.scan.records import Record
from rmqtool.topics import SCHEDULE_TOPIC

if TYPE_CHECKING:
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
        inside_batches: Whether tag and key are also those of messages in an inner batch: then every batch may
            hold a match.
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
    inside_batches: bool = False

    def admits(self, record: Record) -> bool:
        """Whether the filter admits a record."""
        head = record.head
        return (
            self.admits_queue(record.topic, head.queue_id)
            and (self._may_hold(head.sys_flag) or self.admits_names(record.properties))
            and (self.begin_ms is None or head.store_timestamp_ms >= self.begin_ms)
            and (self.end_ms is None or head.store_timestamp_ms <= self.end_ms)
            and (self.from_queue_offset is None or head.queue_offset >= self.from_queue_offset)
        )

    def admits_names(self, properties: dict[str, str]) -> bool:
        """Whether a message with these properties has the tag and the key."""
        has_tag = self.tag is None or properties.get("TAGS") == self.tag
        return has_tag and (self.key is None or self.key in index_keys(properties))

    @property
    def is_for_kernels(self) -> bool:
        """Whether kernels can filter: they know no classes in globs, and texts as UTF-8 only.

        Bytes of the command line that are not UTF-8 are surrogates in a text.
        """
        texts = (*self.topics, self.tag, self.key)
        return all("[" not in topic for topic in self.topics) and all(map(_is_unicode, texts))

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
            topic is not None and any(fnmatchcase(topic, one) for one in self.topics)
        )


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
        if isinstance(event, Blank):
            return rows.Blank(file, position, event.physical_offset, event.total_size)
        return self._damage(event, file, position)

    def _damage(self, defect: Finding, file: str, position: int) -> rows.Damage:
        if is_of_record(defect):
            self._met = [one for one in self._met if one.physical_offset == defect.physical_offset]
            self._met.append(defect)
        return rows.Damage(
            file,
            position,
            defect.physical_offset,
            defect.length or 0,
            defect.code,
            defect.message,
            Structure.COMMITLOG,
            Severity.WARNING if self._may_be_foreign(defect) else defect.severity_override,
        )

    def _may_be_foreign(self, defect: Finding) -> bool:
        """Return whether a wrong ``__CRC32#`` came with the message, which ``verify`` finds, too."""
        segment = self._log.segment_at(defect.physical_offset or 0) if defect.code is CL_PROP_CRC else None
        if segment is None:
            return False
        from rmqtool.scan.record_checks import file_has_none

        return file_has_none(segment)

    def _message(self, record: Record, file: str, position: int) -> rows.Message:
        head, properties = record.head, record.properties
        code = tags_code(record, self._delay_levels)
        return rows.Message(
            file=file,
            position=position,
            physical_offset=head.physical_offset,
            total_size=head.total_size,
            magic="V2" if head.magic == message.MAGIC_V2 else "V1",
            body_crc=head.body_crc,
            queue_id=head.queue_id,
            flag=head.flag,
            queue_offset=head.queue_offset,
            sys_flag=head.sys_flag,
            transaction_type=TRANSACTION_TYPES[head.sys_flag & message.TRANSACTION_MASK],
            born_timestamp_ms=head.born_timestamp_ms,
            born_host=host_text(head.born_host),
            store_timestamp_ms=head.store_timestamp_ms,
            store_host=host_text(head.store_host),
            reconsume_times=head.reconsume_times,
            prepared_transaction_offset=head.prepared_transaction_offset,
            topic=record.topic,
            body_length=record.body_length,
            body=record.body,
            properties=properties,
            tags=properties.get("TAGS"),
            keys=split_keys(properties.get("KEYS", "")),
            uniq_key=properties.get("UNIQ_KEY"),
            tags_code=code,
            msg_id=offset_id_of(record),
            explanation=explanation_of(record, code),
            damage=self._damage_of(record),
        )

    def _damage_of(self, record: Record) -> list[str]:
        met, self._met = self._met, []
        return [one.code.code for one in met if one.physical_offset == record.physical_offset]

    def _place(self, physical_offset: int) -> tuple[str, int]:
        """Return file and position of an offset; one after the last byte of a file counts as in it."""
        segment = self._segment
        if segment is None or not segment.start <= physical_offset < segment.stop:
            segment = self._log.segment_at(physical_offset) or self._log.segment_at(physical_offset - 1)
            self._segment = segment
        if segment is None:
            return "", 0
        return segment.label, physical_offset - segment.start
