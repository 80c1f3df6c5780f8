"""The log walked for answers: a prefilter finds candidates, rules decide."""

from __future__ import annotations

from collections import deque
from contextlib import ExitStack
from functools import partial
from itertools import chain
from typing import TYPE_CHECKING

from rmqtool.findings import Finding
from rmqtool.formats import message
from rmqtool.javacompat import abs_int, id_spellings, string_hash
from rmqtool.lookup.context import KeyQuestion, QueryContext, QueryRequest, Reason
from rmqtool.lookup.queue import places_of
from rmqtool.rows.messages import has_unit, keys_of
from rmqtool.scan.classify import FoundEdge, ends_chain
from rmqtool.scan.record_walk import ChainWalk
from rmqtool.scan.records import Prefilter, Record, record_at
from rmqtool.times import EARLIEST_MS, LATEST_MS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from rmqtool.engine import Engine
    from rmqtool.progress import Progress
    from rmqtool.store import FileQueue


SMALL_LOG_BYTES = 16 << 20
"""Up to this size plain Python is done before the kernels are loaded."""

_SPLIT_BYTES = 64 << 20


class LogScan:
    """A walk over the whole log for the records that answer a question.

    Without ``edge``, facts about the log as a whole, its files alone count.
    """

    def __init__(
        self,
        log: FileQueue,
        progress: Progress,
        note_defect: Callable[[Finding], None],
        small_log_bytes: int = SMALL_LOG_BYTES,
        split_bytes: int = _SPLIT_BYTES,
        *,
        edge: FoundEdge | None = None,
    ) -> None:
        self._log = log
        self._edge = edge or FoundEdge(log.segments)
        self._progress = progress
        self._note_defect = note_defect
        self._split_bytes = split_bytes
        self._is_small = log.size_bytes <= small_log_bytes

    def records(self, prefilter: Prefilter, answers: Callable[[Record], bool]) -> Iterator[Record]:
        """Yield all answers among the records that the prefilter keeps, in the order of the log."""
        return chain.from_iterable(self._by_file(range(len(self._log)), prefilter, answers))

    def newest(self, prefilter: Prefilter, answers: Callable[[Record], bool], wanted: int) -> list[Record]:
        """Return the newest answers, in the order of the log; files older than those are not read."""
        newest: list[Record] = []
        for records in self._by_file(reversed(range(len(self._log))), prefilter, answers):
            newest = [*deque(records, maxlen=wanted - len(newest)), *newest]
            if len(newest) == wanted:
                break
        return newest

    def _by_file(
        self, numbers: Iterable[int], prefilter: Prefilter, answers: Callable[[Record], bool]
    ) -> Iterator[Iterator[Record]]:
        """Yield the answers of one file after the other; each must be used up before the next."""
        self._progress.stage("walking the log", self._log.size_bytes)
        segments, done = self._log.segments, 0
        with ExitStack() as stack:
            engine = None
            if not self._is_small:
                from rmqtool.engine import LocalEngine

                engine = stack.enter_context(LocalEngine())
            for number in numbers:
                gap = self._edge.missing_before(number)
                if gap is not None:
                    self._note_defect(gap)
                if engine is None:
                    yield self._plain(number, answers)
                else:
                    yield self._sifted(number, engine, prefilter, answers)
                done += segments[number].size_bytes
                self._progress.advance(done)

    def _plain(self, number: int, answers: Callable[[Record], bool]) -> Iterator[Record]:
        for event in ChainWalk(number, self._edge).run(self._log.segments[number].start, None):
            if isinstance(event, Finding):
                if ends_chain(event):
                    self._note_defect(event)
            elif isinstance(event, Record) and answers(event):
                yield event

    def _sifted(
        self, number: int, engine: Engine, prefilter: Prefilter, answers: Callable[[Record], bool]
    ) -> Iterator[Record]:
        from rmqtool.scan.file_pass import Candidates, FilePass, GapJob

        job = GapJob(self._edge.stale_from, partial(Candidates, prefilter))
        file_pass = FilePass(number, self._edge, engine, job, self._split_bytes)
        for defect in file_pass.defects():
            if ends_chain(defect):
                self._note_defect(defect)
        if file_pass.more_gaps:
            label = file_pass.segment.label
            self._progress.warn(f"{label}: {file_pass.more_gaps} more damaged places are not listed")
        for part in file_pass.parts:
            for log_offset in part.found:
                record = record_at(self._log, log_offset)
                if record is not None and answers(record):
                    yield record


class LogAnswers:
    """Answers from the log alone."""

    def __init__(self, context: QueryContext, note_defect: Callable[[Finding], None]) -> None:
        store = context.store
        self._scan = LogScan(store.own_log, context.progress, note_defect, edge=FoundEdge.of(store))
        self._request = context.request
        self._limit = context.limit
        self._rejected = context.rejected
        self._explanation = context.explanation
        self._ids = id_spellings(context.request.msg_id or "")
        self._queue_offsets = _queue_offsets(context.request)

    def records(self) -> Iterable[Record]:
        """Return the records that answer one question."""
        request, question = self._request, self._request.key_question
        if question is not None:
            prefilter = _prefilter_of_keys([question], request)
        elif request.is_of_any_topic:
            key = request.key if request.key is not None else request.unique_key
            code = abs_int(string_hash(key or ""))
            prefilter = Prefilter(EARLIEST_MS, LATEST_MS, key_hashes=(code,), of_any_topic=True)
        elif request.msg_id is not None:
            hashes = tuple(sorted(map(string_hash, self._ids)))
            prefilter = Prefilter(EARLIEST_MS, LATEST_MS, unique_hashes=hashes)
        else:
            place = string_hash(request.topic or ""), request.queue_id, request.queue_offset
            records = self._scan.records(Prefilter(*_times(request), *place), self._lies_in_place)
            return self._explained(self._limit.first(records))
        sought = self._limit.sought
        if sought is None:
            return self._explained(self._scan.records(prefilter, self._is_meant))
        return self._explained(self._limit.newest(self._scan.newest(prefilter, self._is_meant, sought)))

    def by_keys(self, questions: Sequence[KeyQuestion]) -> Iterator[tuple[KeyQuestion, Record]]:
        """Yield the answers of many questions in one walk, question by question."""
        request = self._request
        by_question: dict[KeyQuestion, deque[Record]] = {
            question: deque(maxlen=self._limit.sought) for question in questions
        }
        for record in self._scan.records(_prefilter_of_keys(questions, request), lambda _: True):
            answered = [one for one in _questions_of(record) if one in by_question]
            for question in answered if answered and self._is_in_time(record) else ():
                by_question[question].append(record)
        for question, records in by_question.items():
            for record in self._explained(self._limit.newest(list(records))):
                yield question, record

    def _is_meant(self, record: Record) -> bool:
        """Whether a record has the key or ID of the question, and its times."""
        topic = self._request.topic
        question = self._request.key_question_of(record.topic if topic is None else topic)
        if question is not None:
            return question.answered_by(record) and self._is_in_time(record)
        has_id = record.properties.get("UNIQ_KEY") in self._ids and topic in {None, record.topic}
        return has_id and self._is_in_time(record)

    def _is_in_time(self, record: Record) -> bool:
        """Whether a record that answers was stored between the times; counts it if not."""
        time_ms = record.head.store_timestamp_ms
        if self._request.admits_time(time_ms):
            return True
        self._rejected.add_time(time_ms)
        return False

    def _lies_in_place(self, record: Record) -> bool:
        """Whether a record has a wanted place in a queue; by time, messages without a place count, too."""
        request = self._request
        if not request.admits_time(record.head.store_timestamp_ms):
            return False
        if request.queue_offset is None and not has_unit(record):
            return record.topic == request.topic and request.queue_id in {None, record.head.queue_id}
        return any(
            place.topic == request.topic
            and request.queue_id in {None, place.queue_id}
            and place.queue_offset in self._queue_offsets
            for place in places_of(record)
        )

    def _explained(self, records: Iterable[Record]) -> Iterator[Record]:
        for record in records:
            self._explain(record)
            yield record

    def _explain(self, record: Record) -> None:
        offset = record.physical_offset
        kind = record.head.sys_flag & message.TRANSACTION_MASK
        where = f"the message at log offset {offset}"
        if kind == message.TRANSACTION_ROLLBACK:
            text = f"{where} was rolled back: a broker neither indexes it nor puts it into a queue"
            self._explanation.add(Reason.ROLLED_BACK, text, physicalOffset=offset)
        elif kind == message.TRANSACTION_PREPARED:
            text = f"{where} is prepared: a broker indexes it and puts it into no queue"
            self._explanation.add(Reason.PREPARED, text, physicalOffset=offset)
        else:
            self._explanation.add(Reason.SCAN, f"{where}: found in the log", physicalOffset=offset)


def _questions_of(record: Record) -> Iterable[KeyQuestion]:
    """Return the questions that a record answers, each once."""
    unique = record.properties.get("UNIQ_KEY")
    questions: dict[KeyQuestion, None] = {}
    for number, key in enumerate(keys_of(record)):
        is_unique = unique is not None and number == 0
        questions[KeyQuestion(record.topic, key, is_unique)] = None
        questions[KeyQuestion(record.topic, key, either=True)] = None
    return questions


def _queue_offsets(request: QueryRequest) -> range:
    """Return the requested queue offsets: as many units from the first on as messages are wanted."""
    first, wanted = request.queue_offset, request.max_messages
    if first is None or wanted is None:
        return range(first or 0, LATEST_MS)
    return range(first, first + wanted)


def _times(request: QueryRequest) -> tuple[int, int]:
    begin, end = request.begin_ms, request.end_ms
    return EARLIEST_MS if begin is None else begin, LATEST_MS if end is None else end


def _prefilter_of_keys(questions: Sequence[KeyQuestion], request: QueryRequest) -> Prefilter:
    """Keep messages with one of the keys, of any time, which is explained; of a tag only those in time."""
    if any(question.is_tag for question in questions):
        return Prefilter(*_times(request), topic_hash=string_hash(questions[0].topic))
    key_hashes = tuple(sorted({question.key_hash for question in questions}))
    return Prefilter(EARLIEST_MS, LATEST_MS, key_hashes=key_hashes)
