"""Copies of a message that a broker wrote again for a group: where it writes them, and how they are found."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from rmqtool.commands.query.index import IndexSearch, index_problem
from rmqtool.commands.query.scan import LogScan
from rmqtool.findings import counted
from rmqtool.javacompat import parse_int, split_keys, string_hash
from rmqtool.lookup.context import KeyQuestion, QueryContext, QueryRequest, Reason
from rmqtool.lookup.queue import QueueConsumer, queues_problem
from rmqtool.progress import RecordingProgress
from rmqtool.rows.messages import offset_id_of
from rmqtool.scan.classify import FoundEdge
from rmqtool.scan.prefilter import Prefilter
from rmqtool.scan.records import Record, record_at
from rmqtool.store.kinds import UNIT_QUEUE_KINDS
from rmqtool.topics import DEAD_LETTER_PREFIX, RETRY_PREFIX, SCHEDULE_TOPIC, TIMER_TOPIC

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from rmqtool.findings import Finding


WAITING_TOPICS = (SCHEDULE_TOPIC, TIMER_TOPIC)
POP_SEPARATORS = "_+"

"""Between group and topic of a pop retry topic: of 5.0.0 on, and with ``enableRetryTopicV2`` (5.2.0 on)."""


def meant_for(record: Record) -> str:
    """Return the topic that a record is meant for: for a waiting one, that of its delivery."""
    if record.topic in WAITING_TOPICS:
        return record.properties.get("REAL_TOPIC", record.topic)
    return record.topic


def queue_meant_for(record: Record) -> int:
    """Return the queue that goes with `meant_for`."""
    real = parse_int(record.properties.get("REAL_QID", "")) if record.topic in WAITING_TOPICS else None
    return record.head.queue_id if real is None else real


@dataclass(frozen=True)
class GroupTopics:
    """The topics of a group's retries and dead letters."""

    group: str

    @property
    def retry(self) -> str:
        """Return the topic of messages that consumers send back."""
        return RETRY_PREFIX + self.group

    @property
    def dead_letter(self) -> str:
        """Return the topic of messages that are not tried again."""
        return DEAD_LETTER_PREFIX + self.group

    def pop_retries(self, topic: str) -> tuple[str, ...]:
        """Return the topics of a topic's messages that came back from pop."""
        return tuple(f"{self.retry}{separator}{topic}" for separator in POP_SEPARATORS)

    def of_topic(self, topic: str) -> tuple[str, ...]:
        """Return all topics to which messages of a topic may be written again."""
        return self.retry, *self.pop_retries(topic), self.dead_letter

    def may_be(self, topic: str) -> bool:
        """Whether a topic is one of these, for some topic."""
        of_pop = topic.startswith(self.retry) and topic[len(self.retry) :][:1] in {*POP_SEPARATORS}
        return of_pop or topic in {self.retry, self.dead_letter}

    def origin_topic(self, record: Record) -> str:
        """Return the first topic of a message, which a copy names by property or by its topic."""
        topic = meant_for(record)
        if not self.may_be(topic):
            return topic
        if "RETRY_TOPIC" in record.properties:
            found = record.properties["RETRY_TOPIC"]
            return self._unpopped(found)
        return self._unpopped(topic)

    def _unpopped(self, topic: str) -> str:
        return topic[len(self.retry) + 1 :] if topic.startswith(self.retry) and self.may_be(topic) else topic


@dataclass(frozen=True)
class Lineage:
    """Names of a message in all of its copies.

    Attributes:
        topic: The first one.
        unique: UNIQ_KEY; None without.
        ids: Values that ORIGIN_MESSAGE_ID of a copy may have: clients and brokers write different ids there.
        keys: KEYS as stored.
    """

    topic: str
    unique: str | None
    ids: frozenset[str]
    keys: str | None

    @classmethod
    def of(cls, record: Record, topics: GroupTopics) -> Lineage:
        """Return that of a message, or of a copy of it."""
        properties = record.properties
        unique, origin = properties.get("UNIQ_KEY"), properties.get("ORIGIN_MESSAGE_ID")
        own = None if topics.may_be(meant_for(record)) and origin else offset_id_of(record)
        ids = {one.upper() for one in (unique, origin, own) if one}
        return cls(topics.origin_topic(record), unique, frozenset(ids), properties.get("KEYS"))

    def is_copy(self, record: Record, topics: GroupTopics) -> bool:
        """Whether a record of a retry or dead letter topic, or on its way there, is a copy of the message.

        A consumer that sends back names its record in ORIGIN_MESSAGE_ID; a record that comes back from pop
        has only the message's own properties.
        """
        is_written_for = meant_for(record) in topics.of_topic(self.topic)
        if not is_written_for or topics.origin_topic(record) != self.topic:
            return False
        origin = record.properties.get("ORIGIN_MESSAGE_ID")
        if origin:
            return origin.upper() in self.ids
        return self.unique is not None and record.properties.get("UNIQ_KEY") == self.unique


NEWEST_UNITS = 1_000_000

"""Units of a queue that are read where the index does not answer."""


class TopicRecords:
    """The records of topics, read without the index; ``--scan`` walks the log."""

    def __init__(self, context: QueryContext, note_defect: Callable[[Finding], None]) -> None:
        self._context = context
        self._note_defect = note_defect

    @property
    def words(self) -> str:
        """Return the structure that is read, in words."""
        return "the commit log" if self._is_log_walked else "the consume queues of these topics"

    @property
    def _is_log_walked(self) -> bool:
        store = self._context.store
        has_none = not any(store.topics(kind) for kind in UNIT_QUEUE_KINDS)
        return self._context.request.scan or has_none or queues_problem(store) is not None

    def of(self, topics: Iterable[str]) -> Iterator[Record]:
        """Yield the records of topics, topic by topic."""
        for topic in topics:
            yield from self._of_log(topic) if self._is_log_walked else self._of_queues(topic)

    def _of_log(self, topic: str) -> Iterator[Record]:
        context = self._context
        scan = LogScan(
            context.store.commitlog, context.progress, self._note_defect, edge=FoundEdge.of(context.store)
        )
        yield from scan.records(Prefilter(topic_hash=string_hash(topic)), lambda one: one.topic == topic)

    def _of_queues(self, topic: str) -> Iterator[Record]:
        context = self._context
        for queue in (one for kind in UNIT_QUEUE_KINDS for one in context.store.queues(kind, topic)):
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
            queue.files.close()


class MessageCopies:
    """The copies that a broker wrote of messages for one group."""

    def __init__(
        self, context: QueryContext, topics: GroupTopics, known: Iterable[str], records: TopicRecords
    ) -> None:
        self._context = context
        self._topics = topics
        self._known = list(known)
        self._records = records
        self._doubts = self._why_no_index()

    def _why_no_index(self) -> str | None:
        if self._context.request.scan:
            return "--scan was given"
        problem = index_problem(self._context.store)
        return None if problem is None else problem[1]

    def of(self, lineage: Lineage) -> list[Record]:
        """Return the copies of a message, in the order of the log."""
        sought = lineage.unique or next(iter(split_keys(lineage.keys or "")), None)
        found = None if self._doubts else self._of_index(lineage, sought)
        if found is None:
            self._tell_way()
            named = {lineage.unique, *lineage.ids}
            of_names = (record for name in named if name is not None for record in self._table.get(name, ()))
            found = list(dict.fromkeys(of_names))
        records = (record_at(self._context.store.commitlog, offset) for offset in sorted(set(found)))
        return [one for one in records if one is not None and lineage.is_copy(one, self._topics)]

    def delivered(self, record: Record, topic: str) -> list[Record] | None:
        """Return the records of a topic with the unique key of one that waited; None if that is unknown."""
        unique = record.properties.get("UNIQ_KEY")
        if self._doubts or unique is None:
            return None
        found = self._search([KeyQuestion(topic, unique, unique=True)])
        if found is None:
            return None
        records = (record_at(self._context.store.commitlog, one) for one in found)
        return [one for one in records if one is not None and one.physical_offset > record.physical_offset]

    def _of_index(self, lineage: Lineage, sought: str | None) -> list[int] | None:
        if sought is None:
            return None
        is_unique = lineage.unique is not None
        names = (*self._topics.of_topic(lineage.topic), *WAITING_TOPICS)
        found = self._search([KeyQuestion(topic, sought, unique=is_unique) for topic in names])
        if found is not None:
            kind = "unique key" if is_unique else "key"
            message = (
                f"copies for group {self._topics.group} were looked for by {kind} in the index: {sought}"
            )
            self._context.explanation.add(Reason.CONSUMPTION, message)
        return found

    def _search(self, questions: list[KeyQuestion]) -> list[int] | None:
        """Return the index's hits; None, from then on, if it is damaged or not complete."""
        remarks = RecordingProgress()
        beside = QueryContext(self._context.store, QueryRequest(), remarks)
        found = [offset for offsets in IndexSearch(beside).answers(questions) for offset in offsets]
        if remarks.warnings:
            self._doubts = remarks.warnings[0].partition(";")[0]
            return None
        return found

    def _tell_way(self) -> None:
        why = self._doubts or "the message has neither unique key nor key"
        message = f"copies for group {self._topics.group} were looked for in {self._records.words}: {why}"
        self._context.explanation.add(Reason.CONSUMPTION, message)

    @cached_property
    def _table(self) -> dict[str, list[int]]:
        """Return all copies for the group by the names of their originals; made once."""
        of_group = [topic for topic in self._known if self._topics.may_be(topic)]
        table: dict[str, list[int]] = defaultdict(list)
        for record in self._records.of([*of_group, *WAITING_TOPICS]):
            if self._topics.may_be(meant_for(record)):
                for name in ("UNIQ_KEY", "ORIGIN_MESSAGE_ID"):
                    value = record.properties.get(name, "")
                    for one in {value, value.upper()} if value else ():
                        table[one].append(record.physical_offset)
        return table
