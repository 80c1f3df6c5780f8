"""Messages that are lost: told one by one, as they are found, and added up.

Nothing of them is kept but totals by topic. What can be read of a message is told from its record; where that
cannot be read, what the unit that led to it says.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, ClassVar, NamedTuple

from rmqtool.javacompat import split_keys
from rmqtool.scan.record_at import holds_bytes, record_at
from rmqtool.times import utc_text
from rmqtool.topics import TopicKind, kind_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from rmqtool.account.absent import Absent
    from rmqtool.derived.queue_files import LiveUnits
    from rmqtool.dispatch.continuity import OffsetGaps
    from rmqtool.scan.records import Record
    from rmqtool.store.segments import FileQueue


class LostReason(StrEnum):
    """Why nobody will see a message."""

    CUT = "cut"  # the next start ends the log before it
    NO_UNIT = "no-unit"  # it stays in the log, and no unit of its queue leads to it
    SKIPPED = "skipped"  # a broker's dispatch jumps over it because of damage
    UNREACHABLE = "unreachable"  # it lies after the last record that a broker reaches through the log
    LEFT_OUT = "left-out"  # its queue has it now, and the one made has not
    DAMAGED = "damaged"  # its record cannot be read; a unit leads there
    GONE = "gone"  # the log has nothing at the place that a unit leads to
    MISSING = "missing"  # the log has its neighbours in the queue, and nothing names its place
    CONSUMED = "consumed"  # a consumer has read it, and nothing else of the store names it
    INDEXED = "indexed"  # an index item leads to its place, and nothing names its queue


class QueuePlace(NamedTuple):
    """A place in a queue."""

    topic: str
    queue_id: int
    queue_offset: int


@dataclass(frozen=True, slots=True)
class LostMessage:
    """A message that is lost, in one queue.

    Attributes:
        topic: of the queue; None where nothing names that, as for the next three.
        kind: whose topic it is.
        queue_id: of the queue.
        queue_offset: in it.
        keys: of its record; None where that cannot be read, as for the next three.
        uniq_key: likewise.
        tags: likewise.
        store_timestamp: ISO 8601 in UTC.
        physical_offset: where it lies, or lay, in the log; None where nothing names its place.
        size: bytes of the record; likewise.
        tags_code: of the unit, where only that is known.
        reason: why it is lost.
    """

    type: ClassVar = "lost"
    topic: str | None
    kind: TopicKind | None
    queue_id: int | None
    queue_offset: int | None
    keys: list[str] | None
    uniq_key: str | None
    tags: str | None
    store_timestamp: str | None
    physical_offset: int | None
    size: int | None
    tags_code: int | None
    reason: LostReason


@dataclass(frozen=True, slots=True)
class LostTopic:
    """Lost messages of one topic.

    Attributes:
        topic: its name.
        kind: whose it is.
        messages: how many.
        bytes: their size.
    """

    topic: str
    kind: TopicKind
    messages: int
    bytes: int


@dataclass(frozen=True, slots=True)
class LostTotals:
    """Lost messages, added up.

    Attributes:
        messages: those that were told.
        bytes: their size.
        reasons: messages by reason.
        topics: messages by topic, as far as that is known.
        unnamed: units that are lost, too, and lead to nothing that could be told.
        missing_queue_offsets: between those of the records in the log: messages whose record is nowhere.
        queues_with_missing: queues that these are of.
    """

    messages: int
    bytes: int
    reasons: Mapping[str, int]
    topics: tuple[LostTopic, ...]
    unnamed: int
    missing_queue_offsets: int
    queues_with_missing: int


@dataclass
class LossReporter:
    """Tells lost messages as they are found.

    Attributes:
        log: where records are read from.
        tell: is told each message.
    """

    log: FileQueue
    tell: Callable[[LostMessage], object]
    _topics: dict[str, list[int]] = field(default_factory=dict)
    _reasons: Counter[LostReason] = field(default_factory=Counter)

    @property
    def reasons(self) -> Mapping[LostReason, int]:
        """Return how many were told, by reason."""
        return self._reasons

    def records(self, log_offsets: Iterable[int], reason: LostReason) -> None:
        """Tell records that lie at some places, each in its own queue."""
        for log_offset in log_offsets:
            record = record_at(self.log, log_offset)
            if record is not None:
                head = record.head
                place = QueuePlace(record.topic, head.queue_id, head.queue_offset)
                self._tell(_of_record(place, record, reason))

    def message(self, place: QueuePlace, log_offset: int, reason: LostReason) -> None:
        """Tell the message of a queue whose record can be read."""
        record = record_at(self.log, log_offset)
        if record is not None:
            self._tell(_of_record(place, record, reason))

    def units(
        self, queue: tuple[str, int], units: LiveUnits, else_: Callable[[QueuePlace, int], None] | None = None
    ) -> None:
        """Tell messages whose record cannot be read where a unit of a queue leads to.

        Args:
            queue: topic and queue id.
            units: those that are to be looked at.
            else_: is told place and physical offset of those whose record can be read; None: nobody is.
        """
        columns = (units.keys, units.physical_offsets, units.sizes, units.tags_codes)
        for number, offset, size, tags_code in zip(*(one.tolist() for one in columns), strict=True):
            place = QueuePlace(*queue, number)
            record = record_at(self.log, offset)
            if record is None or record.head.physical_offset != offset:
                self._tell(self._of_unit(place, offset, size, tags_code))
            elif else_ is not None:
                else_(place, offset)

    def absent(self, queue: tuple[str, int], absent: Iterable[Absent]) -> None:
        """Tell messages of a queue that the log has no record of, each by itself."""
        for one in absent:
            for number in range(one.queue_offset, one.queue_offset + one.messages):
                place = QueuePlace(*queue, number)
                if one.log_offset is None or one.size is None:
                    reason = LostReason.CONSUMED if one.cause == "consumed" else LostReason.MISSING
                    self._tell(_unreadable(place, None, None, None, reason))
                else:
                    self._tell(self._of_unit(place, one.log_offset, one.size, one.tags_code))

    def indexed(self, places: Iterable[int]) -> None:
        """Tell messages to whose places index items alone lead."""
        for place in places:
            self._tell(_unreadable(None, place, None, None, LostReason.INDEXED))

    def totals(self, gaps: OffsetGaps, unnamed: int = 0) -> LostTotals:
        """Return what was told, and what is missing in the whole log."""
        topics = tuple(
            LostTopic(topic, kind_of(topic), *both) for topic, both in sorted(self._topics.items())
        )
        return LostTotals(
            messages=sum(self._reasons.values()),
            bytes=sum(one.bytes for one in topics),
            reasons={reason.value: count for reason, count in sorted(self._reasons.items())},
            topics=topics,
            unnamed=unnamed,
            missing_queue_offsets=gaps.offsets,
            queues_with_missing=gaps.queues,
        )

    def _tell(self, message: LostMessage) -> None:
        if message.topic is not None:
            total = self._topics.setdefault(message.topic, [0, 0])
            total[0] += 1
            total[1] += message.size or 0
        self._reasons[message.reason] += 1
        self.tell(message)

    def _of_unit(
        self, place: QueuePlace, physical_offset: int, size: int, tags_code: int | None
    ) -> LostMessage:
        reason = LostReason.DAMAGED if holds_bytes(self.log, physical_offset) else LostReason.GONE
        return _unreadable(place, physical_offset, size, tags_code, reason)


def _unreadable(
    place: QueuePlace | None,
    physical_offset: int | None,
    size: int | None,
    tags_code: int | None,
    reason: LostReason,
) -> LostMessage:
    return LostMessage(
        topic=None if place is None else place.topic,
        kind=None if place is None else kind_of(place.topic),
        queue_id=None if place is None else place.queue_id,
        queue_offset=None if place is None else place.queue_offset,
        keys=None,
        uniq_key=None,
        tags=None,
        store_timestamp=None,
        physical_offset=physical_offset,
        size=size,
        tags_code=tags_code,
        reason=reason,
    )


def _of_record(place: QueuePlace, record: Record, reason: LostReason) -> LostMessage:
    properties = record.properties
    return LostMessage(
        topic=place.topic,
        kind=kind_of(place.topic),
        queue_id=place.queue_id,
        queue_offset=place.queue_offset,
        keys=split_keys(properties.get("KEYS", "")),
        uniq_key=properties.get("UNIQ_KEY"),
        tags=properties.get("TAGS"),
        store_timestamp=utc_text(record.head.store_timestamp_ms),
        physical_offset=record.physical_offset,
        size=len(record.raw),
        tags_code=None,
        reason=reason,
    )
