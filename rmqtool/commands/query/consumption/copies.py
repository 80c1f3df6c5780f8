"""Search for the copies of a message: by the index, else in the queues of their topics, else in the log."""

from __future__ import annotations

from collections import defaultdict
from functools import cached_property
from typing import TYPE_CHECKING

from rmqtool.commands.query.consumption.lineage import WAITING_TOPICS, meant_for
from rmqtool.commands.query.index import IndexSearch
from rmqtool.commands.query.miss_reasons import index_problem
from rmqtool.commands.query.scan import LogScan
from rmqtool.findings.wording import counted
from rmqtool.javacompat import split_keys, string_hash
from rmqtool.lookup.context import KeyQuestion, QueryContext, QueryRequest
from rmqtool.lookup.explain import Reason
from rmqtool.lookup.queue import QueueConsumer, queues_problem
from rmqtool.progress import RecordingProgress
from rmqtool.scan.log_edge import FoundEdge
from rmqtool.scan.prefilter import Prefilter
from rmqtool.scan.record_at import record_at
from rmqtool.store.kinds import UNIT_QUEUE_KINDS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from rmqtool.commands.query.consumption.lineage import GroupTopics, Lineage
    from rmqtool.scan.classify import Defect
    from rmqtool.scan.records import Record

NEWEST_UNITS = 1_000_000
"""Units of a queue that are read where the index does not answer."""


class TopicRecords:
    """The records of topics, read without the index; ``--scan`` walks the log."""

    def __init__(self, context: QueryContext, note_defect: Callable[[Defect], None]) -> None:
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
