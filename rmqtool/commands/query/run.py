"""Way from a question to messages: the structure that answers, and damage on the way."""

from __future__ import annotations

from functools import cached_property
from itertools import islice
from typing import TYPE_CHECKING

from rmqtool.commands.query.index import INDEX, QUEUES, IndexSearch, broker_hits, index_problem, part_problem
from rmqtool.errors import EnvironmentFailureError
from rmqtool.findings import Finding, FindingLog, Severity, counted
from rmqtool.findings.codes import CL_GAP, CL_LOST, CL_PROPERTIES
from rmqtool.lookup.context import Explanation, KeyQuestion, Limit, QueryContext, QueryRequest, Reason
from rmqtool.progress import LimitedProgress, Progress
from rmqtool.rows import Damage, Message
from rmqtool.rows.messages import MessageRows
from rmqtool.scan.classify import FoundEdge, ends_chain
from rmqtool.scan.record_walk import LogExtent, record_defects, record_finding, walk_log
from rmqtool.scan.records import record_at

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from rmqtool.commands.query.consumption.judge import ConsumptionJudge
    from rmqtool.commands.query.scan import LogAnswers
    from rmqtool.scan.records import Record
    from rmqtool.store import Store


_MOST_COMPARED = 100
"""Messages shown that are compared with unit and index."""
_EXAMINED = 20
"""Places at which the log is examined for damage."""


Match = tuple["KeyQuestion | None", "Record"]


def indexed(context: QueryContext, questions: Sequence[KeyQuestion]) -> Iterator[Match]:
    """Yield the newest hits that answer each question, in the order of the log, as a broker does.

    With ``collisions`` every hit as a broker finds it, whatever its key and topic.
    """
    request = context.request
    is_of_many = request.keys is not None
    if request.collisions:
        found = broker_hits(context, questions)
        how = " as a broker finds them"
    else:
        found = IndexSearch(context).answers(questions)
        missing = [question for question, offsets in zip(questions, found, strict=True) if not offsets]
        if missing and (is_of_many or not any(found)):
            _explain_absence(context, missing)
        _explain_limit(context, max(map(len, found), default=0))
        left_out = str(context.left_out)
        how = f" for {counted(len(questions), 'key')}" if is_of_many else ""
        how += f"; left out: {left_out}" if left_out else ""
    context.progress.note(f"answered by the index: {counted(sum(map(len, found)), 'hit')}{how}")
    for question, offsets in zip(questions, found, strict=True):
        for offset in offsets:
            record = record_at(context.store.commitlog, offset)
            if record is not None:
                yield question, record
            elif request.collisions:
                context.explain_nothing_at(offset)


def _explain_absence(context: QueryContext, missing: list[KeyQuestion]) -> None:
    if context.explanation.wanted:
        from rmqtool.commands.query.miss_reasons import explain_absence

        explain_absence(context, missing)


def _explain_limit(context: QueryContext, most: int) -> None:
    limit = context.store.settings.max_msgs_num_batch
    if most > limit:
        message = f"a broker returns at most {limit} hits (maxMsgsNumBatch); here are {most}"
        context.explanation.add(Reason.BROKER_LIMIT, message)


class MetDefects:
    """Findings of defects that were met, each with a warning."""

    def __init__(self, rows: MessageRows, progress: Progress) -> None:
        self._rows = rows
        self._progress = progress
        self.findings = FindingLog()

    def note(self, defect: Finding) -> None:
        """Add a defect, and warn."""
        row = self._rows.row(defect)
        if isinstance(row, Damage):
            self.findings.add(row.finding())
        self._progress.warn(f"{defect.code.code}: {defect.message}")

    def of_record(self, record: Record, *more: Finding) -> Iterator[Damage]:
        """Yield the damage of a record that is shown; its row names it, so there is no warning."""
        for defect in (*record_defects(record), *_torn_properties(record), *more):
            row = self._rows.row(defect)
            if isinstance(row, Damage):
                self.findings.add(row.finding())
                yield row


def _torn_properties(record: Record) -> Iterator[Finding]:
    if record.has_torn_properties:
        sentence = f"zeros stand in the properties of the record at {record.physical_offset}: they are torn"
        yield record_finding(CL_PROPERTIES, record, sentence, Severity.ERROR)


def _tell_lost(context: QueryContext, defects: MetDefects, progress: Progress) -> set[int]:
    """Report the damage of the log where index or queue promise a record; return the places it has lost.

    A wrong item or unit leads to a place where the log is sound, which is not reported here.
    """
    lost = {*context.left_out.lost, *_in_damage(context, defects), *_beyond(context, defects)}
    _tell_missing(context, defects, progress)
    for offset, proof in islice(sorted(context.left_out.proofs.items()), _EXAMINED):
        if offset in lost:
            progress.warn(f"lost from the log at physical offset {offset}: {proof}; a replica may have it")
    return lost


def _in_damage(context: QueryContext, defects: MetDefects) -> Iterator[int]:
    """Yield the promised places that lie in damage, which is noted."""
    edge = FoundEdge.of(context.store)
    noted: set[int | None] = set()
    for offset in sorted(set(context.left_out.absent))[:_EXAMINED]:
        for event in islice(walk_log(edge, offset, offset + 1), 1):
            if isinstance(event, Finding) and ends_chain(event):
                yield offset
                if event.physical_offset not in noted:
                    noted.add(event.physical_offset)
                    defects.note(event)


def _beyond(context: QueryContext, defects: MetDefects) -> list[int]:
    """Return the promised places after the log's last record; there must have been records once."""
    places = [offset for offset in context.left_out.proofs if offset >= context.store.commitlog.start]
    if not places:
        return []
    end = LogExtent.of(context.store).end
    beyond = [offset for offset in places if offset >= end]
    if beyond:
        message = f"the log ends at {end}, and was longer once"
        severity = Severity.WARNING if context.store.is_end_torn_by_kill else None
        defects.findings.add(
            Finding(code=CL_LOST, physical_offset=end, message=message, severity_override=severity)
        )
    return beyond


def _tell_missing(context: QueryContext, defects: MetDefects, progress: Progress) -> None:
    """Report how many hits lie where files of the log are missing, as damage of the log."""
    lost = context.left_out.lost
    if not lost:
        return
    parts = {context.left_out.missing_part(offset): offset for offset in lost}
    for part, offset in parts.items():
        defects.findings.add(Finding(code=CL_GAP, physical_offset=offset, message=part or ""))
    hits = counted(len(lost), "hit lies", "hits lie")
    where = "; ".join(part for part in parts if part)
    progress.warn(f"{hits} where a file of the log is missing ({where}): the answer is incomplete")


class Query:
    """One question to one store.

    Only the structure that answers is imported: a look-up by key costs no more than what it reads.
    ``unanswered`` is why that structure cannot answer; ``lost`` are physical offsets of requested messages
    that were lost, with the keys that led there.
    """

    def __init__(
        self,
        store: Store,
        request: QueryRequest,
        progress: Progress,
        explanation: Explanation | None = None,
    ) -> None:
        explanation = Explanation(wanted=False) if explanation is None else explanation
        self._progress = progress
        self._remarks = LimitedProgress(progress)
        self._context = QueryContext(store, request, self._remarks, explanation)
        self._rows = MessageRows(store.commitlog, store.settings.delay_levels)
        self._defects = MetDefects(self._rows, self._remarks)
        self.unanswered: str | None = None
        self.lost: dict[int, list[KeyQuestion]] = {}

    @property
    def findings(self) -> FindingLog:
        """Return the damage of the log that was met."""
        return self._defects.findings

    @property
    def limit(self) -> Limit:
        """Return the limit; once the messages are drawn it knows whether there are more."""
        return self._context.limit

    def run(self) -> Iterator[Message]:
        """Yield the messages that answer the question; in log order, or in queue order."""
        for row, _ in self.answers():
            if isinstance(row, Message):
                yield row

    def answers(self) -> Iterator[tuple[Message | Damage, KeyQuestion | None]]:
        """Yield messages, each with the one of many keys that it answers; by key, in their order.

        Damage of a message comes before it, and is among the findings.
        """
        shown, damaged, places = 0, 0, list[int]()
        of_many = self._context.request.keys is not None
        for answered, record in self._answers():
            question = answered if of_many else None
            against = self._against(record) if shown < _MOST_COMPARED else None
            for damage in self._defects.of_record(record, *([] if against is None else [against])):
                yield damage, question
            row = self._rows.row(record)
            if isinstance(row, Message):
                shown += 1
                damaged += bool(row.damage)
                places.append(record.physical_offset)
                yield row, question
        self._tell(shown, damaged)
        if places and self._context.explanation.wanted:
            from rmqtool.commands.query.miss_reasons import explain_cut

            explain_cut(self._context, places)
        self._remarks.finish()
        self._context.store.close()

    def _against(self, record: Record) -> Finding | None:
        """Return the contradiction of unit and index to a record that is shown."""
        from rmqtool.commands.query.miss_reasons import contradiction

        try:
            return contradiction(self._context, record)
        except EnvironmentFailureError:
            return None  # look-ups in queues or index report that

    @cached_property
    def judge(self) -> ConsumptionJudge | None:
        """Return the judge of whether the group has consumed a message; None if no group was named."""
        group = self._context.request.consumed_by
        if group is None:
            return None
        from rmqtool.commands.query.consumption.judge import ConsumptionJudge

        return ConsumptionJudge(self._context, group, self._defects.note)

    def _tell(self, shown: int, damaged: int) -> None:
        """Report what the rows alone do not show: damage, losses, how many more there are."""
        if damaged:
            what = counted(damaged, "message shown is", "messages shown are")
            self._progress.warn(f"{what} damaged: compare with a replica")
        lost = _tell_lost(self._context, self._defects, self._progress)
        left_out = self._context.left_out
        self.lost = {place: left_out.keys.get(place, []) for place in sorted(lost & left_out.proofs.keys())}
        if self._context.request.queue_offset is not None:
            self._tell_lost_of_places(lost, found_any=bool(shown))
        if not shown:
            self._tell_damaged()
            from rmqtool.commands.query.miss_reasons import advise

            advise(self._context)
        if self.limit.words is not None:
            of_each = " of a key" if self._context.request.keys is not None else ""
            self._progress.warn(
                f"only the {self.limit.words} {self.limit.wanted}{of_each} are shown: -m 0 for all"
            )

    def _tell_damaged(self) -> None:
        """Report the hits whose records lack the key because their properties are damaged."""
        for place in self._context.left_out.other[:_EXAMINED]:
            record = record_at(self._context.store.commitlog, place)
            if record is None:
                continue
            defects = [*_torn_properties(record), *filter(None, [self._against(record)])]
            for defect in defects[:1]:
                self._defects.note(defect)
                self._progress.warn(f"the message at {place} may be the one: show it with --offset {place}")

    def _tell_lost_of_places(self, lost: set[int], *, found_any: bool) -> None:
        """Report the lost messages among those requested by their places in a queue, with the proof."""
        left_out = self._context.left_out
        if found_any and not left_out.places:
            return
        from rmqtool.commands.query.miss_reasons import lost_by_units, lost_of_places

        units = left_out.places.items()
        proven = {number: place for number, place in units if place is not None and place in lost}
        self._defects.findings.extend(lost_by_units(self._context, proven))
        if proven and proven.keys() == left_out.places.keys():
            return
        for finding in lost_of_places(self._context, proven.keys()):
            self._defects.findings.add(finding)
            self._progress.warn(f"{finding.message}; a replica may have it")
            self.lost[finding.physical_offset or 0] = []

    def _answers(self) -> Iterable[Match]:
        request, question = self._context.request, self._context.request.key_question
        if request.keys is not None:
            if request.scan:
                return self._log_answers().by_keys(request.keys)
            return self._by_index(request.keys)
        if request.msg_id is not None:
            return self._by_message_id(request.msg_id)
        if request.is_of_any_topic and not request.scan:
            return self._by_key_of_any_topic()
        is_of_place = request.offset is not None or request.scan
        if question is not None and not is_of_place and self._is_indexed(question):
            return self._by_index([question])
        return ((None, record) for record in self._records(question))

    def _records(self, question: KeyQuestion | None) -> Iterable[Record]:
        request = self._context.request
        if request.offset is not None:
            return self._by_offset(request.offset)
        return self._by_scan() if request.scan else self._by_queues(question)

    def _by_queues(self, question: KeyQuestion | None) -> Iterable[Record]:
        from rmqtool.lookup.queue import queues_problem

        request = self._context.request
        problem = part_problem(self._context.store, QUEUES) or queues_problem(self._context.store)
        if problem is not None:
            self._give_up(*problem)
            return ()
        if question is not None:
            from rmqtool.commands.query.by_tag import by_tags_code

            return by_tags_code(self._context, question)
        if request.queue_offset is not None and request.topic is not None and request.queue_id is not None:
            return self._by_queue_offset(request.topic, request.queue_id, request.queue_offset)
        return self._by_time()

    def _answered_by(self, structure: str) -> None:
        self._remarks.note(f"answered by {structure}")

    def _give_up(self, reason: Reason, why: str) -> None:
        """Explain that no structure can answer, and what would help; the log is walked only on request."""
        self._context.explanation.add(reason, why)
        self.unanswered = why

    def _by_index(self, questions: Sequence[KeyQuestion]) -> Iterable[Match]:
        problem = part_problem(self._context.store, INDEX) or index_problem(self._context.store)
        if problem is None:
            return indexed(self._context, questions)
        self._give_up(*problem)
        return ()

    def _is_indexed(self, question: KeyQuestion) -> bool:
        if not question.is_tag or self._context.request.collisions:
            return True
        from rmqtool.commands.query.by_tag import has_all_tag_items

        return index_problem(self._context.store) is None and has_all_tag_items(self._context)

    def _by_scan(self) -> Iterable[Record]:
        records, question = self._log_answers().records(), self._context.request.key_question
        if question is None or question.is_tag or not self._context.explanation.wanted:
            return records
        from rmqtool.commands.query.miss_reasons import explain_unindexed

        return explain_unindexed(self._context, question, records)

    def _log_answers(self) -> LogAnswers:
        from rmqtool.commands.query.scan import LogAnswers

        self._answered_by("the commit log itself")
        return LogAnswers(self._context, self._defects.note)

    def _by_offset(self, offset: int) -> Iterator[Record]:
        from rmqtool.commands.query.by_id import by_offset

        self._answered_by("the commit log")
        record = by_offset(self._context, offset)
        if record is not None:
            yield record
            return
        if self._context.left_out.proofs:
            return  # the damage there is reported with the lost message
        events = walk_log(FoundEdge.of(self._context.store), offset, offset + 1)
        for event in islice(events, 1):
            if isinstance(event, Finding) and (event.physical_offset or 0) <= offset:
                self._defects.note(event)

    def _by_message_id(self, text: str) -> Iterator[Match]:
        """An offset id names the place of the message; anything else can only be a unique key."""
        from rmqtool.commands.query.by_id import by_offset_id, id_questions

        record = by_offset_id(self._context, text)
        if record is not None:
            self._answered_by("the commit log: it is an offset id")
            yield None, record
        elif self._context.request.scan:
            yield from ((None, record) for record in self._by_scan())
        else:
            found = self._by_index(id_questions(self._context, text))
            yield from self._newest([record for _, record in found])

    def _by_key_of_any_topic(self) -> Iterator[Match]:
        """Look the key up under every known topic: the index has no key without its topic."""
        from rmqtool.lookup.topic_names import known_topics

        known = known_topics(self._context)
        self._remarks.note(f"no --topic: the key is looked up under {known}; --scan finds it under any")
        questions = [self._context.request.key_question_of(topic) for topic in known.names]
        found = self._by_index([one for one in questions if one is not None])
        yield from self._newest([record for _, record in found])

    def _newest(self, records: list[Record]) -> Iterator[Match]:
        ordered = sorted(records, key=lambda record: record.physical_offset)
        yield from ((None, record) for record in self._context.limit.newest(ordered))

    def _by_queue_offset(self, topic: str, queue_id: int, queue_offset: int) -> Iterator[Record]:
        from rmqtool.lookup.queue import QueueConsumer, find_queue

        self._answered_by("the consume queue")
        queue = find_queue(self._context.store, topic, queue_id)
        if queue is not None:
            reader = QueueConsumer(self._context, queue)
            reader.explain(queue_offset)
            yield from reader.records(queue_offset, self._context.request.max_messages)

    def _by_time(self) -> Iterator[Record]:
        from rmqtool.lookup.times import records_by_time

        self._answered_by("the consume queues")
        yield from self._context.limit.first(records_by_time(self._context))
