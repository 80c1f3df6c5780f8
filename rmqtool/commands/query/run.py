"""From a question to messages: which structure answers, and what is said about it."""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING

from rmqtool.commands.messages import MessageRows, offset_id_of
from rmqtool.commands.query.absence import explain_absence, explain_unindexed, index_problem
from rmqtool.commands.query.broker_hits import broker_hits
from rmqtool.commands.query.explain import Explanation, Reason
from rmqtool.commands.query.index import IndexSearch
from rmqtool.commands.query.log_answers import LogAnswers
from rmqtool.commands.query.queue import QueueReader, find_queue, queues_problem
from rmqtool.commands.query.request import KeyQuestion
from rmqtool.commands.query.times import records_by_time
from rmqtool.commands.query.topics import topics_of
from rmqtool.commands.record_at import record_at
from rmqtool.commands.rows import Damage, Message
from rmqtool.findings import FindingLog
from rmqtool.findings.wording import counted
from rmqtool.javacompat.ids import decode_offset_id
from rmqtool.scan.record_walk import Defect, walk

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from rmqtool.commands.progress import Progress
    from rmqtool.commands.query.request import QueryRequest
    from rmqtool.scan.records import Record
    from rmqtool.store import Store

_BROKER_LIMIT = 64  # MessageStoreConfig#maxMsgsNumBatch

Answer = tuple["KeyQuestion | None", "Record"]


class Query:
    """One question to one store.

    Args:
        store: The store.
        request: The question.
        progress: Told which structure answered, and what is wrong with it.
        explanation: Told every step.

    Attributes:
        findings: Damage of the log that was met on the way.
        unanswered: Why the structure that should answer cannot; None if it could.
    """

    def __init__(
        self,
        store: Store,
        request: QueryRequest,
        progress: Progress,
        explanation: Explanation | None = None,
    ) -> None:
        self._store = store
        self._request = request
        self._progress = progress
        self._explanation = Explanation(wanted=False) if explanation is None else explanation
        self._rows = MessageRows(store.commitlog, store.settings.delay_levels)
        self.findings = FindingLog()
        self.unanswered: str | None = None

    def run(self) -> Iterator[Message]:
        """Yield the messages that answer the question; in log order, or in queue order."""
        for message, _ in self.answers():
            yield message

    def answers(self) -> Iterator[tuple[Message, KeyQuestion | None]]:
        """Yield messages, each with the one of many keys that it answers; by key, in their order."""
        for question, record in self._answers():
            row = self._rows.row(record)
            if isinstance(row, Message):
                yield row, question
        self._store.close()

    def _answers(self) -> Iterable[Answer]:
        request = self._request
        if request.keys is not None:
            return self._by_keys(request.keys)
        return ((None, record) for record in self._records())

    def _records(self) -> Iterable[Record]:
        request = self._request
        if request.offset is not None:
            return self._by_offset(request.offset)
        if request.msg_id is not None:
            return self._by_message_id(request.msg_id)
        if request.scan:
            return self._by_scan()
        question = request.key_question
        if question is not None:
            return self._by_collisions(question) if request.collisions else self._by_key(question)
        if request.queue_offset is not None and request.topic is not None and request.queue_id is not None:
            return self._by_queue_offset(request.topic, request.queue_id, request.queue_offset)
        return self._by_time()

    def _answered_by(self, structure: str) -> None:
        self._progress.note(f"answered by {structure}")

    def _give_up(self, problem: tuple[Reason, str]) -> None:
        """Say that there is nothing to ask, and what would help; the log is walked only when told to."""
        reason, why = problem
        self._explanation.add(reason, why)
        self.unanswered = f"{why}; --scan walks the log itself"

    def _by_scan(self) -> Iterable[Record]:
        self._answered_by("the commit log, walked from its start")
        records = self._log_answers().records(self._request)
        question = self._request.key_question
        if question is None or not self._explanation.wanted:
            return records
        return explain_unindexed(self._store, question, records, self._explanation)

    def _log_answers(self) -> LogAnswers:
        return LogAnswers(self._store, self._progress, self._note_defect, self._explanation)

    def _by_offset(self, offset: int) -> Iterator[Record]:
        self._answered_by("the commit log")
        record = record_at(self._store.commitlog, offset)
        if record is not None:
            if record.head.physical_offset != offset:
                self._progress.warn(f"the record at {offset} says it lies at {record.head.physical_offset}")
            yield record
            return
        self._explain_offset(offset)
        for event in islice(walk(self._store.commitlog.segments, offset, offset + 1), 1):
            if isinstance(event, Defect) and event.physical_offset <= offset:
                self._note_defect(event)

    def _explain_offset(self, offset: int) -> None:
        log = self._store.commitlog
        if offset < log.start:
            message = f"log offset {offset} is expired: the log begins at {log.start}"
            self._explanation.add(Reason.EXPIRED, message, physicalOffset=offset)
        else:
            message = f"no record begins at log offset {offset}"
            self._explanation.add(Reason.NO_RECORD, message, physicalOffset=offset)

    def _note_defect(self, defect: Defect) -> None:
        row = self._rows.row(defect)
        if isinstance(row, Damage):
            self.findings.add(row.finding())
        self._progress.warn(f"{defect.code.code}: {defect.message}")

    def _by_message_id(self, text: str) -> Iterator[Record]:
        """An offset id says where the message lies; anything else can only be a unique key."""
        record = self._by_offset_id(text)
        if record is not None:
            self._answered_by("the commit log: it is an offset id")
            yield record
        elif self._request.scan:
            yield from self._by_scan()
        else:
            topics = [self._request.topic] if self._request.topic else topics_of(self._store, self._progress)
            questions = [KeyQuestion(topic, text, unique=True) for topic in topics]
            yield from self._newest([record for _, record in self._indexed(questions)])

    def _by_offset_id(self, text: str) -> Record | None:
        offset_id = decode_offset_id(text)
        if offset_id is None:
            self._explanation.add(Reason.ID, f"{text} cannot be an offset id: those are 32 or 56 hex digits")
            return None
        offset = offset_id.physical_offset
        record = record_at(self._store.commitlog, offset) if offset >= 0 else None
        if record is not None and offset_id_of(record) == text.upper():
            return record
        there = (
            "no record begins there" if record is None else f"the one there has the id {offset_id_of(record)}"
        )
        message = (
            f"as an offset id, {text} is log offset {offset} of the broker {offset_id.host}:{offset_id.port}:"
            f" {there}; so it is taken for a unique id"
        )
        self._explanation.add(Reason.ID, message, physicalOffset=offset)
        return None

    def _newest(self, records: list[Record]) -> list[Record]:
        """Return the newest records, as many as wanted, in the order of the log."""
        ordered = sorted(records, key=lambda record: record.physical_offset)
        wanted = self._request.max_messages
        return ordered if wanted is None else ordered[-wanted:]

    def _by_key(self, question: KeyQuestion) -> Iterable[Record]:
        return (record for _, record in self._indexed([question]))

    def _by_keys(self, questions: tuple[KeyQuestion, ...]) -> Iterable[Answer]:
        if self._request.scan:
            self._answered_by("the commit log, walked from its start")
            return self._log_answers().by_keys(questions, self._request)
        return self._indexed(questions)

    def _indexed(self, questions: Iterable[KeyQuestion]) -> Iterator[Answer]:
        """Take the newest hits that answer, then show them in the order of the log, as a broker does."""
        asked = list(questions)
        problem = index_problem(self._store)
        if problem is not None:
            self._give_up(problem)
            return
        search = IndexSearch(self._store, self._request, self._progress, self._explanation)
        found = search.answers(asked)
        count = sum(map(len, found))
        missing = [question for question, offsets in zip(asked, found, strict=True) if not offsets]
        if missing and (not count or self._request.keys is not None):
            explain_absence(self._store, missing, self._explanation)
        self._explain_limit(found)
        over = f" for {counted(len(asked), 'key')}" if self._request.keys is not None else ""
        others = f", {search.left_out} left out: of other keys, or gone" if search.left_out else ""
        self._answered_by(f"the index: {counted(count, 'hit')}{over}{others}")
        for question, offsets in zip(asked, found, strict=True):
            for offset in offsets:
                record = record_at(self._store.commitlog, offset)
                if record is not None:
                    yield question, record

    def _explain_limit(self, found: list[list[int]]) -> None:
        most = max(map(len, found), default=0)
        if most > _BROKER_LIMIT:
            message = f"a broker returns at most {_BROKER_LIMIT} hits (maxMsgsNumBatch); here are {most}"
            self._explanation.add(Reason.BROKER_LIMIT, message)

    def _by_collisions(self, question: KeyQuestion) -> Iterator[Record]:
        problem = index_problem(self._store)
        if problem is not None:
            self._give_up(problem)
            return
        offsets = broker_hits(self._store, question, self._request, self._progress, self._explanation)
        self._answered_by(f"the index: {counted(len(offsets), 'hit')} as a broker finds them")
        for offset in offsets:
            record = record_at(self._store.commitlog, offset)
            if record is not None:
                yield record
            else:
                self._explain_offset(offset)

    def _by_queue_offset(self, topic: str, queue_id: int, queue_offset: int) -> Iterator[Record]:
        problem = queues_problem(self._store)
        if problem is not None:
            self._give_up(problem)
            return
        self._answered_by("the consume queue")
        queue = find_queue(self._store, topic, queue_id)
        if queue is None:
            self._explanation.add(Reason.QUEUE_MISSING, f"there is no queue {topic}/{queue_id}")
            return
        reader = QueueReader(self._store, queue, self._progress, self._explanation)
        reader.explain()
        yield from reader.records(queue_offset, self._request.max_messages)

    def _by_time(self) -> Iterator[Record]:
        problem = queues_problem(self._store)
        if problem is not None:
            self._give_up(problem)
            return
        self._answered_by("the consume queues")
        found = records_by_time(self._store, self._request, self._progress, self._explanation)
        yield from islice(found, self._request.max_messages)
