"""Records that a broker writes for a group: copies of messages, check points and acknowledgements of pop.

Copies lie in topics of the group, and on their way there in those of delayed messages. A check point names
messages that a group received by pop and that are invisible until a time; those not acknowledged by then are
written to a pop retry topic. Check points and acks are records of the revive topic. Both are timed: until
they are due they lie in the timer's topic. A broker that has all acks of a check point in memory writes
neither, and commits the offset.

Origin: ``PopMessageProcessor#buildCkMsg``, ``PopBufferMergeService#scanCommitOffset``,
``PopReviveService#consumeReviveMessage``, ``PopCheckPoint``, ``AckMsg``, ``BatchAckMsg`` (5.0.0 to 5.5.1).
"""

from __future__ import annotations

from collections import defaultdict
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

from rmqtool.commands.query.scan import LogScan
from rmqtool.derived.queues import queues_of
from rmqtool.findings import Finding, counted
from rmqtool.javacompat import parse_int, split_keys, string_hash
from rmqtool.lookup.context import KeyQuestion, QueryContext, Reason
from rmqtool.lookup.delivery import SoundIndex
from rmqtool.lookup.queue import QueueConsumer, RecordPlace, queues_problem
from rmqtool.rows.meanings import acknowledged_offsets, java_long, json_body
from rmqtool.rows.messages import offset_id_of
from rmqtool.scan.classify import FoundEdge
from rmqtool.scan.records import Prefilter, Record, record_at
from rmqtool.store.kinds import UNIT_QUEUE_KINDS
from rmqtool.topics import DEAD_LETTER_PREFIX, RETRY_PREFIX, REVIVE_PREFIX, SCHEDULE_TOPIC, TIMER_TOPIC

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator


WAITING_TOPICS = (SCHEDULE_TOPIC, TIMER_TOPIC)
_POP_SEPARATORS = "_+"
"""Between group and topic of a pop retry topic: of 5.0.0 on, and with ``enableRetryTopicV2`` (5.2.0 on)."""

NEWEST_UNITS = 1_000_000
"""Units of a queue that are read where the index does not answer."""

_BITS = 32


def meant_for(record: Record) -> str:
    """Return the topic that a record is meant for: for a waiting one, that of its delivery."""
    if record.topic in WAITING_TOPICS:
        return record.properties.get("REAL_TOPIC", record.topic)
    return record.topic


def queue_meant_for(record: Record) -> int:
    """Return the queue that goes with `meant_for`."""
    real = parse_int(record.properties.get("REAL_QID", "")) if record.topic in WAITING_TOPICS else None
    return record.head.queue_id if real is None else real


class GroupTopics:
    """The topics of a group's retries, and of dead letters, which are not tried again."""

    def __init__(self, group: str) -> None:
        self.group = group
        self.retry, self.dead_letter = RETRY_PREFIX + group, DEAD_LETTER_PREFIX + group

    def pop_retries(self, topic: str) -> tuple[str, ...]:
        """Return the topics of a topic's messages that came back from pop."""
        return tuple(f"{self.retry}{separator}{topic}" for separator in _POP_SEPARATORS)

    def of_topic(self, topic: str) -> tuple[str, ...]:
        """Return all topics to which messages of a topic may be written again."""
        return self.retry, *self.pop_retries(topic), self.dead_letter

    def may_be(self, topic: str) -> bool:
        """Whether a topic is one of these."""
        return topic in {self.retry, self.dead_letter} or self._is_of_pop(topic)

    def _is_of_pop(self, topic: str) -> bool:
        return topic.startswith(tuple(self.retry + separator for separator in _POP_SEPARATORS))

    def origin_topic(self, record: Record) -> str:
        """Return the first topic of a message, which a copy names by property or by its topic."""
        topic = meant_for(record)
        if self.may_be(topic):
            topic = record.properties.get("RETRY_TOPIC", topic)
        return topic[len(self.retry) + 1 :] if self._is_of_pop(topic) else topic


class Lineage:
    """Names of a message in all of its copies for a group.

    Attributes:
        topic: The first one.
        unique: UNIQ_KEY; None without.
        ids: Values that ORIGIN_MESSAGE_ID of a copy may have: clients and brokers write different ids there.
        keys: KEYS, cut at blanks.
    """

    def __init__(self, record: Record, topics: GroupTopics) -> None:
        properties = record.properties
        origin = properties.get("ORIGIN_MESSAGE_ID")
        own = None if topics.may_be(meant_for(record)) and origin else offset_id_of(record)
        self._topics = topics
        self.topic = topics.origin_topic(record)
        self.unique = properties.get("UNIQ_KEY")
        self.ids = {unique_id.upper() for unique_id in (self.unique, origin, own) if unique_id}
        self.keys = split_keys(properties.get("KEYS", ""))

    def is_copy(self, record: Record) -> bool:
        """Whether a record of a retry or dead letter topic, or on its way there, is a copy of the message.

        A consumer that sends back names its record in ORIGIN_MESSAGE_ID; a record that comes back from pop
        has only the message's own properties.
        """
        topics = self._topics
        if meant_for(record) not in topics.of_topic(self.topic) or topics.origin_topic(record) != self.topic:
            return False
        origin = record.properties.get("ORIGIN_MESSAGE_ID")
        if origin:
            return origin.upper() in self.ids
        return self.unique is not None and record.properties.get("UNIQ_KEY") == self.unique


class TopicRecords:
    """The records of topics, read without the index; ``--scan`` walks the log."""

    def __init__(self, context: QueryContext, note_defect: Callable[[Finding], None]) -> None:
        self._context = context
        self._note_defect = note_defect

    @cached_property
    def is_log_walked(self) -> bool:
        """Whether the log is read, not the consume queues."""
        store = self._context.store
        has_none = not any(store.topics(kind) for kind in UNIT_QUEUE_KINDS)
        return self._context.request.scan or has_none or queues_problem(store) is not None

    def of(self, topics: Iterable[str]) -> Iterator[Record]:
        """Yield the records of topics, topic by topic."""
        for topic in topics:
            yield from self._of_log(topic) if self.is_log_walked else self._of_queues(topic)

    def _of_log(self, topic: str) -> Iterator[Record]:
        store, progress = self._context.store, self._context.progress
        scan = LogScan(store.own_log, progress, self._note_defect, edge=FoundEdge.of(store))
        return scan.records(Prefilter(topic_hash=string_hash(topic)), lambda record: record.topic == topic)

    def _of_queues(self, topic: str) -> Iterator[Record]:
        context = self._context
        for queue in (
            listed for kind in UNIT_QUEUE_KINDS for listed in queues_of(context.store, kind, topic)
        ):
            reader = QueueConsumer(context, queue)
            low, high = reader.bounds
            if high - low > NEWEST_UNITS:
                left = counted(high - low - NEWEST_UNITS, "older message", spec=",")
                context.progress.warn(f"{reader.name}: {left} of it were not searched for copies")
                low = high - NEWEST_UNITS
            for entry in reader.entries(low):
                record = record_at(context.store.commitlog, entry.physical_offset)
                if record is not None and record.topic == topic:
                    yield record
            queue.close()


class MessageCopies:
    """The copies that a broker wrote of messages for one group, by ``index`` where that is sound."""

    def __init__(
        self, context: QueryContext, topics: GroupTopics, known: Iterable[str], records: TopicRecords
    ) -> None:
        self._context = context
        self._topics = topics
        self._known = known
        self._records = records
        self.index = SoundIndex(context.store, "--scan was given" if context.request.scan else None)

    def of(self, lineage: Lineage) -> list[Record]:
        """Return the copies of a message, in the order of the log."""
        places = self._of_index(lineage)
        if places is None:
            where = "the commit log" if self._records.is_log_walked else "the consume queues of these topics"
            why = self.index.doubts or "the message has neither unique key nor key"
            self._explain(f"in {where}: {why}")
            names = {lineage.unique, *lineage.ids}
            places = {place for name in names if name is not None for place in self._table.get(name, ())}
        return [record for record in self._read(places) if lineage.is_copy(record)]

    def _read(self, places: Iterable[int]) -> Iterator[Record]:
        for place in sorted(places):
            record = record_at(self._context.store.commitlog, place)
            if record is not None:
                yield record

    def _explain(self, how: str) -> None:
        message = f"copies for group {self._topics.group} were looked for {how}"
        self._context.explanation.add(Reason.CONSUMPTION, message)

    def _of_index(self, lineage: Lineage) -> set[int] | None:
        is_unique = lineage.unique is not None
        sought = lineage.unique or next(iter(lineage.keys), None)
        if sought is None:
            return None
        names = (*self._topics.of_topic(lineage.topic), *WAITING_TOPICS)
        places = self.index.places([KeyQuestion(topic, sought, unique=is_unique) for topic in names])
        if places is not None:
            self._explain(f"by {'unique key' if is_unique else 'key'} in the index: {sought}")
        return places

    @cached_property
    def _table(self) -> dict[str, list[int]]:
        """Return all copies for the group by the names of their originals; made once."""
        of_group = [topic for topic in self._known if self._topics.may_be(topic)]
        table: dict[str, list[int]] = defaultdict(list)
        for record in self._records.of([*of_group, *WAITING_TOPICS]):
            if self._topics.may_be(meant_for(record)):
                for name in ("UNIQ_KEY", "ORIGIN_MESSAGE_ID"):
                    value = record.properties.get(name, "")
                    for key in {value, value.upper()} if value else ():
                        table[key].append(record.physical_offset)
        return table


class CheckPoint(NamedTuple):
    """Messages that a group received at once.

    Attributes:
        record_offset: Physical offset of the record.
        start: Queue offset of the first one.
        offsets: Queue offsets of all, in the order of the bits.
        bits: Those that were acknowledged when it was written.
        pop_ms: When they were received.
        due_ms: Until when they are invisible.
    """

    record_offset: int
    start: int
    offsets: tuple[int, ...]
    bits: int
    pop_ms: int
    due_ms: int


class Ack(NamedTuple):
    """An acknowledgement of messages, by queue offsets; ``start`` and ``pop_ms`` name its check point."""

    record_offset: int
    start: int | None
    pop_ms: int | None
    offsets: list[int]


class PopLog:
    """Check points and acks of one group, read once, on first use."""

    def __init__(self, group: str, topics: Iterable[str], records: TopicRecords) -> None:
        self._group = group
        self._topics = [topic for topic in topics if topic == TIMER_TOPIC or topic.startswith(REVIVE_PREFIX)]
        self._records = records

    def of(self, place: RecordPlace) -> tuple[CheckPoint, int | None] | None:
        """Return the last check point of a message, and where its acknowledgement lies; None without one.

        Only an acknowledgement of that one counts: to make a message invisible for longer, a broker writes a
        further check point and acknowledges the one before (``ChangeInvisibleTimeProcessor``).
        """
        points, acks = self._found.get((place.topic, place.queue_id), ([], []))
        own = [point for point in points if place.queue_offset in point.offsets]
        if not own:
            return None
        last = max(own, key=lambda checkpoint: (checkpoint.pop_ms, checkpoint.record_offset))
        if last.bits >> last.offsets.index(place.queue_offset) & 1:
            return last, last.record_offset
        of_last = (ack for ack in acks if (ack.start, ack.pop_ms) == (last.start, last.pop_ms))
        return last, next((ack.record_offset for ack in of_last if place.queue_offset in ack.offsets), None)

    @property
    def is_popping(self) -> bool:
        """Whether the group received anything by pop."""
        return bool(self._found)

    @cached_property
    def _found(self) -> dict[tuple[str, int], tuple[list[CheckPoint], list[Ack]]]:
        by_queue: dict[tuple[str, int], tuple[list[CheckPoint], list[Ack]]] = {}
        for record in self._records.of(self._topics):
            body = json_body(record) if meant_for(record).startswith(REVIVE_PREFIX) else None
            if body is None or body.get("c") != self._group:
                continue
            topic, queue_id, start, pop_ms = (
                body.get("t"),
                *(java_long(body.get(name)) for name in ("q", "so", "pt")),
            )
            if not isinstance(topic, str) or queue_id is None:
                continue
            points, acks = by_queue.setdefault((topic, queue_id), ([], []))
            if record.properties.get("TAGS") != "ck":
                acks.append(Ack(record.physical_offset, start, pop_ms, acknowledged_offsets(body)))
            elif (point := _check_point(record, body)) is not None:
                points.append(point)
        return by_queue


def _check_point(record: Record, body: dict[str, object]) -> CheckPoint | None:
    """Java: ``PopCheckPoint#ackOffsetByIndex``; without differences the messages follow one another."""
    start, count, bits, pop_ms, invisible_ms = (
        java_long(body.get(name)) for name in ("so", "n", "bm", "pt", "it")
    )
    if start is None or count is None or pop_ms is None or invisible_ms is None:
        return None
    given = body.get("d")
    differences = [one for one in given if isinstance(one, int)] if isinstance(given, list) else []
    offsets = tuple(start + difference for difference in (differences or range(min(max(count, 0), _BITS))))
    return CheckPoint(record.physical_offset, start, offsets, bits or 0, pop_ms, pop_ms + invisible_ms)
