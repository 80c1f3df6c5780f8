"""``query``: the messages that answer a question, each read and compared before it is shown."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING

from rmqtool.commands.messages import MessageFilter, MessageRows, has_unit, offset_id_of
from rmqtool.commands.query_index import index_hits
from rmqtool.commands.query_queue import queue_records
from rmqtool.commands.record_at import record_at
from rmqtool.findings import FindingLog
from rmqtool.javacompat import split_keys
from rmqtool.javacompat.ids import decode_offset_id
from rmqtool.scan.record_walk import Defect, walk
from rmqtool.scan.records import Record
from rmqtool.store import PathKind

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from rmqtool.commands.progress import Progress
    from rmqtool.commands.rows import Blank, Damage, Message
    from rmqtool.store import Store


@dataclass(frozen=True)
class QueryRequest:
    """A question; exactly one of key, unique_key, msg_id, offset, queue_offset, or times.

    Attributes:
        topic: The stored topic, exactly.
        key: One of KEYS.
        unique_key: UNIQ_KEY.
        msg_id: An offset message id, or a unique key of any topic.
        offset: A physical offset.
        queue_id: A queue of the topic.
        queue_offset: The first queue offset.
        begin_ms: Store time, inclusive.
        end_ms: Store time, inclusive.
        max_messages: At most so many; None is all. By key, the newest.
        scan: Walk the log instead of trusting index and queues.
        collisions: Show every hit of the index, as a broker does.
    """

    topic: str | None = None
    key: str | None = None
    unique_key: str | None = None
    msg_id: str | None = None
    offset: int | None = None
    queue_id: int | None = None
    queue_offset: int | None = None
    begin_ms: int | None = None
    end_ms: int | None = None
    max_messages: int | None = None
    scan: bool = False
    collisions: bool = False

    def admits_time(self, record: Record) -> bool:
        """Whether a record was stored between the times."""
        time_ms = record.head.store_timestamp_ms
        return (self.begin_ms is None or time_ms >= self.begin_ms) and (
            self.end_ms is None or time_ms <= self.end_ms
        )


class Query:
    """One question to one store.

    Args:
        store: The store.
        request: The question.
        progress: Told which structure answered, and what is wrong with it.

    Attributes:
        findings: Damage of the log that was met on the way.
    """

    def __init__(self, store: Store, request: QueryRequest, progress: Progress) -> None:
        self._store = store
        self._request = request
        self._progress = progress
        self._rows = MessageRows(store.commitlog, store.settings.delay_levels)
        self.findings = FindingLog()

    def run(self) -> Iterator[Message | Blank | Damage]:
        """Yield the messages that answer the question; in log order, or in queue order."""
        for record in self._records():
            yield self._rows.row(record)
        self._store.close()

    def _records(self) -> Iterable[Record]:
        request = self._request
        if request.offset is not None:
            return self._by_offset(request.offset)
        if request.msg_id is not None:
            return self._by_message_id(request.msg_id)
        if request.key is not None or request.unique_key is not None:
            return self._by_key()
        if request.queue_offset is not None and request.topic is not None and request.queue_id is not None:
            return self._by_queue_offset(request.topic, request.queue_id, request.queue_offset)
        return self._by_time()

    def _answered_by(self, structure: str) -> None:
        self._progress.note(f"answered by {structure}")

    def _by_offset(self, offset: int) -> Iterator[Record]:
        self._answered_by("the commit log")
        record = record_at(self._store.commitlog, offset)
        if record is not None:
            if record.head.physical_offset != offset:
                self._progress.warn(f"the record at {offset} says it lies at {record.head.physical_offset}")
            yield record
            return
        for event in islice(walk(self._store.commitlog.segments, offset, offset + 1), 1):
            if isinstance(event, Defect) and event.physical_offset <= offset:
                self._note_defect(event)

    def _note_defect(self, defect: Defect) -> None:
        row = self._rows.row(defect)
        if hasattr(row, "finding"):
            self.findings.add(row.finding())
        self._progress.warn(f"{defect.code.code}: {defect.message}")

    def _by_message_id(self, text: str) -> Iterator[Record]:
        """An offset id says where the message lies; anything else can only be a unique key."""
        offset_id = decode_offset_id(text)
        record = None
        if offset_id is not None and offset_id.physical_offset >= 0:
            record = record_at(self._store.commitlog, offset_id.physical_offset)
        if record is not None and offset_id_of(record) == text.upper():
            self._answered_by("the commit log: it is an offset id")
            yield record
            return
        topics = [self._request.topic] if self._request.topic is not None else self._topics()
        found: list[Record] = []
        if not self._request.scan:
            for topic in topics:
                found += self._matching(index_hits(self._store, topic, text, self._progress), text, topic)
            self._answered_by(f"the index, as a unique key, over {len(topics)} topics")
        else:
            found = list(self._scan(lambda record: record.properties.get("UNIQ_KEY") == text))
        yield from self._newest(found)

    def _topics(self) -> list[str]:
        kinds = (PathKind.CONSUMEQUEUE, PathKind.BATCHCONSUMEQUEUE)
        return sorted({topic for kind in kinds for topic in self._store.topics(kind)})

    def _matching(self, offsets: Iterable[int], unique_key: str, topic: str) -> list[Record]:
        records = (record_at(self._store.commitlog, offset) for offset in offsets)
        return [
            record
            for record in records
            if record is not None
            and record.topic == topic
            and record.properties.get("UNIQ_KEY") == unique_key
            and self._request.admits_time(record)
        ]

    def _newest(self, records: list[Record]) -> list[Record]:
        """Return the newest records, as many as wanted, each once, in the order of the log."""
        unique = {record.physical_offset: record for record in records}
        ordered = [unique[offset] for offset in sorted(unique)]
        wanted = self._request.max_messages
        return ordered if wanted is None else ordered[-wanted:]

    def _by_key(self) -> Iterable[Record]:
        if self._request.scan:
            return self._scan(self._answers_key)
        if not self._store.index_files:
            self._progress.note("there is no index file: the log itself is walked")
            return self._scan(self._answers_key)
        return self._by_index()

    def _answers_key(self, record: Record) -> bool:
        """Compare topic and key as a client does with what a broker returns.

        Java: ``MQAdminImpl#queryMessage`` (4.9.8, 5.3.3), where the message id is the unique key, or the
        offset id of a message without one.
        """
        request = self._request
        if record.topic != request.topic or not request.admits_time(record):
            return False
        if request.unique_key is not None:
            return record.properties.get("UNIQ_KEY", offset_id_of(record)) == request.unique_key
        return request.key in split_keys(record.properties.get("KEYS", ""))

    def _by_index(self) -> Iterator[Record]:
        """Take the newest hits that answer, then show them in the order of the log, as a broker does."""
        request = self._request
        topic, key = request.topic or "", request.key if request.key is not None else request.unique_key or ""
        offsets: list[int] = []
        seen: set[int] = set()  # a repeated key or a repeated dispatch makes several entries of one message
        left_out = 0
        for offset in index_hits(self._store, topic, key, self._progress):
            if offset in seen and not request.collisions:
                continue
            seen.add(offset)
            record = record_at(self._store.commitlog, offset)
            if record is not None and (request.collisions or self._answers_key(record)):
                offsets.append(offset)
            else:
                left_out += 1
            if len(offsets) == request.max_messages:
                break
        self._answered_by(f"the index: {len(offsets)} hits, {left_out} of other keys or gone")
        for offset in sorted(offsets):
            record = record_at(self._store.commitlog, offset)
            if record is not None:
                yield record

    def _by_queue_offset(self, topic: str, queue_id: int, queue_offset: int) -> Iterable[Record]:
        wanted = self._request.max_messages
        if self._request.scan:
            places = MessageFilter(queue_id=queue_id, from_queue_offset=queue_offset)

            def answers(record: Record) -> bool:
                return record.topic == topic and places.admits(record) and has_unit(record)

            return self._scan(answers, newest=False)
        self._answered_by("the consume queue")
        return queue_records(self._store, topic, queue_id, queue_offset, wanted, self._progress)

    def _by_time(self) -> Iterable[Record]:
        request = self._request

        def answers(record: Record) -> bool:
            of_queue = request.queue_id in {None, record.head.queue_id}
            return record.topic == request.topic and of_queue and request.admits_time(record)

        return self._scan(answers, newest=False)

    def _scan(self, answers: Callable[[Record], bool], *, newest: bool = True) -> Iterator[Record]:
        """Walk the whole log; yield the newest answers, or the first ones."""
        self._answered_by("the commit log, walked from its start")
        wanted = self._request.max_messages
        found = self._walk_for(answers)
        if newest and wanted is not None:
            yield from deque(found, maxlen=wanted)
        else:
            yield from islice(found, wanted)

    def _walk_for(self, answers: Callable[[Record], bool]) -> Iterator[Record]:
        log = self._store.commitlog
        self._progress.stage("walking the log", log.size_bytes)
        for event in walk(log.segments):
            self._progress.advance(event.physical_offset - log.start)
            if isinstance(event, Defect):
                if event.ends_chain:
                    self._note_defect(event)
            elif isinstance(event, Record) and answers(event):
                yield event
