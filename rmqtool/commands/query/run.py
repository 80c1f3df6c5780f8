"""Way from a question to messages: the structure that answers, and damage on the way."""

from __future__ import annotations

from contextlib import suppress
from functools import cached_property
from itertools import islice
from typing import TYPE_CHECKING

from rmqtool.errors import EnvironmentFailureError
from rmqtool.findings import Finding, FindingLog, Severity, codes, counted
from rmqtool.javacompat import decode_offset_id, id_spellings
from rmqtool.lookup.context import Explanation, KeyQuestion, Limit, QueryContext, QueryRequest, Reason
from rmqtool.lookup.index import (
    INDEX,
    QUEUES,
    IndexSearch,
    broker_hits,
    contradiction,
    index_problem,
    item_at,
    part_problem,
)
from rmqtool.progress import LimitedProgress, Progress
from rmqtool.rows import Damage, Message
from rmqtool.rows.messages import MessageRows, host_text, offset_id_of
from rmqtool.scan.classify import FoundEdge, ends_chain
from rmqtool.scan.record_walk import find_log_end, first_record, record_defects, record_finding, walk_log
from rmqtool.scan.records import Record, record_at
from rmqtool.times import present_ms
from rmqtool.topics import SCHEDULE_TOPIC, TIMER_TOPIC

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from rmqtool.commands.query.consumption import ConsumptionJudge
    from rmqtool.commands.query.scan import LogAnswers
    from rmqtool.store import Store


_MOST_COMPARED = 100
"""Messages shown that are compared with unit and index."""
_EXAMINED = 20
"""Places at which the log is examined for damage."""


Match = tuple["KeyQuestion | None", "Record"]


class Query:
    """One question to one store.

    Only the structure that answers is imported: a look-up by key costs no more than what it reads.

    Attributes:
        unanswered: Why that structure cannot answer, and the log neither; None if one can.
        lost: Physical offsets of requested messages that were lost, with the keys that led there.
        findings: Damage of the log that was met.
    """

    def __init__(
        self,
        store: Store,
        request: QueryRequest,
        progress: Progress,
        explanation: Explanation | None = None,
    ) -> None:
        self._store, self._request, self._progress = store, request, progress
        self._remarks = LimitedProgress(progress)
        self._context = QueryContext(store, request, self._remarks, explanation)
        self._explanation, self._rejected = self._context.explanation, self._context.rejected
        self._rows = MessageRows(store.commitlog, store.settings.delay_levels)
        self.findings = FindingLog()
        self.unanswered: str | None = None
        self.lost: dict[int, list[KeyQuestion]] = {}

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
        damaged, places = 0, list[int]()
        for answered, record in self._answers():
            question = answered if self._request.keys is not None else None
            against = self._contradiction(record) if len(places) < _MOST_COMPARED else None
            for defect in (*record_defects(record), *_torn_properties(record), *filter(None, [against])):
                yield self._damage(defect), question  # the row names the record, so there is no warning
            row = self._rows.row(record)
            if isinstance(row, Message):
                damaged += bool(row.damage)
                places.append(record.physical_offset)
                if len(places) <= _EXAMINED and record.topic in {SCHEDULE_TOPIC, TIMER_TOPIC}:
                    self._tell_waiting(record)
                yield row, question
        if damaged:
            what = counted(damaged, "message shown is", "messages shown are")
            self._progress.warn(f"{what} damaged: compare with a replica")
        self._report_losses(found_any=bool(places))
        self._report_changed()
        if not places:
            from rmqtool.commands.query.miss_reasons import advise

            advise(self._context)
        if self.limit.words is not None:
            of_each = " of a key" if self._request.keys is not None else ""
            which = f"{self.limit.words} {self.limit.wanted}{of_each}"
            self._progress.warn(f"only the {which} are shown: -m 0 for all")
        if places and self._explanation.wanted:
            from rmqtool.commands.query.miss_reasons import explain_cut

            explain_cut(self._context, places)
        self._remarks.finish()
        self._store.close()

    def _tell_waiting(self, record: Record) -> None:
        """Say whether a message that was stored to wait is due, overdue, delivered or passed over."""
        from rmqtool.lookup.delayed import state_of  # few queries meet one
        from rmqtool.lookup.delivery import SoundIndex

        doubts = "--scan was given" if self._request.scan else None
        with suppress(EnvironmentFailureError):  # of the timer's checkpoint, which IO-DENIED reports
            state = state_of(SoundIndex(self._store, doubts), record, present_ms())
            if state is not None:
                place = record.physical_offset
                self._progress.note(f"log offset {place}: {state}")
                self._explanation.add(Reason.WAITS, state, physicalOffset=place)

    @cached_property
    def judge(self) -> ConsumptionJudge | None:
        """Return the judge of whether the group has consumed a message; None if no group was named."""
        group = self._request.consumed_by
        if group is None:
            return None
        from rmqtool.commands.query.consumption import ConsumptionJudge

        return ConsumptionJudge(self._context, group, self._note)

    # --- damage

    def _damage(self, defect: Finding) -> Damage:
        """Add a defect to the findings."""
        row = self._rows.damage(defect)
        self.findings.add(row.finding())
        return row

    def _note(self, defect: Finding) -> None:
        self._damage(defect)
        self._remarks.warn(f"{defect.code.code}: {defect.message}")

    def _contradiction(self, record: Record) -> Finding | None:
        """Return the contradiction of unit and index to a record that is shown."""
        try:
            return contradiction(self._context, record)
        except EnvironmentFailureError:
            return None  # look-ups in queues or index report that

    def _report_losses(self, *, found_any: bool) -> None:
        """Report the damage of the log where index or queue promise a record.

        A wrong item or unit leads to a place where the log is sound, which is not reported here.
        """
        proofs = self._rejected.proofs
        lost = {*self._rejected.lost, *self._in_damage(), *self._after_the_end()}
        lost -= self._under_other_names(lost & proofs.keys())
        self._report_missing_files()
        for offset in sorted(proofs)[:_EXAMINED]:
            if offset in lost:
                sentence = f"lost from the log at physical offset {offset}: {proofs[offset]}"
                self._progress.warn(f"{sentence}; a replica may have it")
        self.lost = {place: self._rejected.keys.get(place, []) for place in sorted(lost & proofs.keys())}
        if self._request.queue_offset is not None and (self._rejected.places or not found_any):
            self._report_lost_of_places(lost)

    def _under_other_names(self, places: Iterable[int]) -> set[int]:
        """Return the places whose records lie in a file under another's name, and report these."""
        wanted = sorted(places)[:_EXAMINED]
        if not wanted:
            return set()
        from rmqtool.genuine.reading import under_own_names  # numpy comes with it

        log, _ = under_own_names(self._store.commitlog, self._store.settings.commitlog_file_size)
        found = {place for place in wanted if record_at(log, place) is not None}
        for place in sorted(found):
            segment = log.segment_at(place)
            where = "" if segment is None else segment.label
            self._progress.warn(
                f"the record of log offset {place} lies in {where}, which has the name of another file of the"
                " log: no broker reads it there; rmqtool salvage puts it into its place"
            )
        return found

    def _in_damage(self) -> Iterator[int]:
        """Yield the promised places that lie in damage, which is noted."""
        edge = FoundEdge.of(self._store)
        noted: set[int | None] = set()
        for offset in sorted(set(self._rejected.absent))[:_EXAMINED]:
            for event in islice(walk_log(edge, offset, offset + 1), 1):
                if isinstance(event, Finding) and ends_chain(event):
                    yield offset
                    if event.physical_offset not in noted:
                        noted.add(event.physical_offset)
                        self._note(event)

    def _after_the_end(self) -> list[int]:
        """Return the promised places after the log's last record; there must have been records once."""
        places = [offset for offset in self._rejected.proofs if offset >= self._store.commitlog.start]
        if not places:
            return []
        from rmqtool.account import is_end_borne_out  # few queries meet a lost message

        end = find_log_end(FoundEdge.of(self._store))
        beyond = [offset for offset in places if offset >= end.end]
        if beyond:
            is_sure = is_end_borne_out(self._store, end)
            if not is_sure and self._request.queue_offset is not None:
                return []  # the unit may be damaged: the account of the log decides
            message = f"the log ends at {end.end}, and was longer once"
            severity = None if is_sure else Severity.WARNING
            self.findings.add(
                Finding(
                    code=codes.CL_LOST, physical_offset=end.end, message=message, severity_override=severity
                )
            )
        return beyond

    def _report_missing_files(self) -> None:
        """Report how many hits lie where files of the log are missing, as damage of the log."""
        lost = self._rejected.lost
        if not lost:
            return
        parts = {self._rejected.missing_part(offset) or "": offset for offset in lost}
        for part, offset in parts.items():
            self.findings.add(Finding(code=codes.CL_GAP, physical_offset=offset, message=part))
        hits = counted(len(lost), "hit lies", "hits lie")
        where = "; ".join(filter(None, parts))
        self._progress.warn(f"{hits} where a file of the log is missing ({where}): the answer is incomplete")

    def _report_lost_of_places(self, lost: set[int]) -> None:
        """Report the lost messages among those requested by their places in a queue, with the proof."""
        from rmqtool.commands.query.miss_reasons import lost_by_units, lost_of_places

        units = self._rejected.places
        proven = {number: place for number, place in units.items() if place is not None and place in lost}
        self.findings.extend(lost_by_units(self._context, proven))
        if proven and proven.keys() == units.keys():
            return
        for finding in lost_of_places(self._context, proven.keys()):
            self.findings.add(finding)
            self._progress.warn(f"{finding.message}; a replica may have it")
            self.lost[finding.physical_offset or 0] = []

    def _report_changed(self) -> None:
        """Report the hits whose records lack the key because of damage."""
        for place in [*dict.fromkeys(self._rejected.other)][:_EXAMINED]:
            record = record_at(self._store.commitlog, place)
            defects = () if record is None else (*_torn_properties(record), self._contradiction(record))
            for defect in list(filter(None, defects))[:1]:
                self._note(defect)
                self._progress.warn(f"the message at {place} may be the one: show it with --offset {place}")

    # --- ways to an answer

    @cached_property
    def scans(self) -> bool:
        """Whether the log itself is walked: on request, or as the store has nothing else for the question."""
        if not self._request.scan and self._lack is not None:
            self._explanation.add(*self._lack)
        return self._request.scan or self._lack is not None

    @cached_property
    def _lack(self) -> tuple[Reason, str] | None:
        """Why neither index nor queues can answer, and the log can; None where one of them can."""
        request, store = self._request, self._store
        if request.collisions or request.offset is not None or not len(store.commitlog):
            return None
        if {request.keys, request.msg_id, request.key, request.unique_key} != {None}:
            return None if part_problem(store, INDEX) else index_problem(store)
        from rmqtool.lookup.queue import no_queues

        lack = None
        if part_problem(store, QUEUES) is None:
            lack = no_queues(store, request.topic or "", request.queue_id)
        question = request.key_question
        return None if lack is None or (question is not None and self._is_indexed(question)) else lack

    def _answers(self) -> Iterable[Match]:
        request, question = self._request, self._request.key_question
        if request.keys is not None:
            return self._log_answers().by_keys(request.keys) if self.scans else self._by_index(request.keys)
        if request.msg_id is not None:
            return self._by_message_id(request.msg_id)
        if request.is_of_any_topic and not self.scans:
            return self._by_key_of_any_topic()
        is_of_place = request.offset is not None or self.scans
        if question is not None and not is_of_place and self._is_indexed(question):
            return self._by_index([question])
        return ((None, record) for record in self._records(question))

    def _records(self, question: KeyQuestion | None) -> Iterable[Record]:
        if self._request.offset is not None:
            return self._by_offset(self._request.offset)
        return self._by_scan() if self.scans else self._by_queues(question)

    def _answered_by(self, structure: str) -> None:
        self._remarks.note(f"answered by {structure}")

    def _give_up(self, reason: Reason, why: str) -> None:
        """Explain that no structure can answer."""
        self._explanation.add(reason, why)
        self.unanswered = why

    def _by_index(self, questions: Sequence[KeyQuestion]) -> Iterable[Match]:
        problem = part_problem(self._store, INDEX) or index_problem(self._store)
        if problem is None:
            return self._indexed(questions)
        self._give_up(*problem)
        return ()

    def _indexed(self, questions: Sequence[KeyQuestion]) -> Iterator[Match]:
        """Yield the newest hits that answer each question, in the order of the log, as a broker does.

        With ``collisions`` every hit as a broker finds it, whatever its key and topic.
        """
        is_of_many = self._request.keys is not None
        if self._request.collisions:
            hits, how = broker_hits(self._context, questions), " as a broker finds them"
        else:
            hits = IndexSearch(self._context).answers(questions)
            missing = [question for question, offsets in zip(questions, hits, strict=True) if not offsets]
            if missing and (is_of_many or not any(hits)) and self._explanation.wanted:
                from rmqtool.commands.query.miss_reasons import explain_absence

                explain_absence(self._context, missing)
            most = max(map(len, hits), default=0)
            limit = self._store.settings.max_msgs_num_batch
            if most > limit:
                message = f"a broker returns at most {limit} hits (maxMsgsNumBatch); here are {most}"
                self._explanation.add(Reason.BROKER_LIMIT, message)
            how = f" for {counted(len(questions), 'key')}" if is_of_many else ""
            how += f"; left out: {self._rejected}" if str(self._rejected) else ""
        self._answered_by(f"the index: {counted(sum(map(len, hits)), 'hit')}{how}")
        for question, offsets in zip(questions, hits, strict=True):
            for offset in offsets:
                record = record_at(self._store.commitlog, offset)
                if record is not None:
                    yield question, record
                elif self._request.collisions:
                    self._context.explain_nothing_at(offset)

    def _is_indexed(self, question: KeyQuestion) -> bool:
        if not question.is_tag or self._request.collisions:
            return True
        from rmqtool.lookup.searches import has_all_tag_items

        return index_problem(self._store) is None and has_all_tag_items(self._context)

    def _by_queues(self, question: KeyQuestion | None) -> Iterable[Record]:
        from rmqtool.lookup.queue import queues_problem
        from rmqtool.lookup.searches import records_by_tag, records_by_time

        request = self._request
        problem = part_problem(self._store, QUEUES) or queues_problem(self._store)
        if problem is not None:
            self._give_up(*problem)
            return ()
        if question is not None:
            return records_by_tag(self._context, question)
        if request.queue_offset is not None and request.topic is not None and request.queue_id is not None:
            return self._by_queue_offset(request.topic, request.queue_id, request.queue_offset)
        self._answered_by("the consume queues")
        return self.limit.first(records_by_time(self._context))

    def _by_queue_offset(self, topic: str, queue_id: int, queue_offset: int) -> Iterator[Record]:
        from rmqtool.derived.queues import find_queue
        from rmqtool.lookup.queue import QueueConsumer

        self._answered_by("the consume queue")
        queue = find_queue(self._store, topic, queue_id)
        if queue is not None:
            reader = QueueConsumer(self._context, queue)
            reader.explain(queue_offset)
            yield from reader.records(queue_offset, self._request.max_messages)

    def _by_scan(self) -> Iterable[Record]:
        records, question = self._log_answers().records(), self._request.key_question
        is_requested = self._request.scan  # else each message lacks an item for the same reason
        if question is None or question.is_tag or not (is_requested and self._explanation.wanted):
            return records
        from rmqtool.commands.query.miss_reasons import explain_unindexed

        return explain_unindexed(self._context, question, records)

    def _log_answers(self) -> LogAnswers:
        from rmqtool.commands.query.scan import LogAnswers

        lack = "" if self._request.scan or self._lack is None else f", as {self._lack[1]}"
        self._answered_by(f"the commit log itself{lack}")
        return LogAnswers(self._context, self._note)

    def _by_offset(self, offset: int) -> Iterator[Record]:
        self._answered_by("the commit log")
        record = record_at(self._store.commitlog, offset)
        if record is not None:
            yield record
            return
        if self._proves_lost(offset):
            return  # the damage there is reported with the lost message
        self._context.explain_nothing_at(offset)
        for event in islice(walk_log(FoundEdge.of(self._store), offset, offset + 1), 1):
            if isinstance(event, Finding) and (event.physical_offset or 0) <= offset:
                self._note(event)

    def _proves_lost(self, offset: int) -> bool:
        """Keep the unit or index item that leads to a physical offset; return whether one does."""
        from rmqtool.derived.queues import queues_of
        from rmqtool.lookup.queue import unit_at

        log, rejected = self._store.commitlog, self._rejected
        for queue in queues_of(self._store):
            start, facts = unit_at(queue, offset, log) or (-1, "")
            if start >= log.start and record_at(log, start) is None:
                rejected.add(rejected.absence(start)[0], start)
                rejected.prove(start, facts)
        by_item = None if rejected.proofs or offset < log.start else item_at(self._store, offset)
        if by_item is not None:
            rejected.add(rejected.absence(offset)[0], offset)
            rejected.prove(offset, by_item)
        return bool(rejected.proofs)

    def _by_message_id(self, text: str) -> Iterator[Match]:
        """An offset id names the place of the message; anything else can only be a unique key."""
        record = self._of_offset_id(text)
        if record is not None:
            self._answered_by("the commit log: it is an offset id")
            yield None, record
        elif self.scans:
            yield from ((None, record) for record in self._by_scan())
        else:
            from rmqtool.lookup.topic_names import topics_of

            topic = self._request.topic
            topics = [topic] if topic else topics_of(self._store, self._remarks)
            ids = id_spellings(text)
            yield from self._newest([KeyQuestion(topic, id_, unique=True) for topic in topics for id_ in ids])

    def _of_offset_id(self, text: str) -> Record | None:
        """Return the message that an offset id names; explain why if this store has none."""
        offset_id = decode_offset_id(text)
        if offset_id is None:
            message = f"{text} cannot be an offset id: those are 32 or 56 hex digits"
            self._explanation.add(Reason.ID, message)
            return None
        offset = offset_id.physical_offset
        record = record_at(self._store.commitlog, offset) if offset >= 0 else None
        if record is not None and offset_id_of(record) == text.upper():
            return record
        is_listed = record is None and offset_id.doubt is None and self._proves_lost(offset)
        what = f"{self._what_lies_at(offset, record)}; so it is taken for a unique id"
        listed = "a unit or an index item leads there, and no record begins there"
        message = (
            f"as an offset id, {text} is log offset {offset} of the broker {offset_id.host}:{offset_id.port}:"
            f" {listed if is_listed else what}"
        )
        add = self._explanation.advise if offset_id.doubt is None else self._explanation.add
        add(Reason.ID, message, physicalOffset=offset)
        return None

    def _what_lies_at(self, offset: int, record: Record | None) -> str:
        log = self._store.commitlog
        if record is not None:
            return f"the one there has the id {offset_id_of(record)}"
        if offset < log.start:
            return f"the log begins at {log.start}"
        first = first_record(log.segments)
        host = (
            "" if first is None else f"; the log begins with a message of {host_text(first.head.store_host)}"
        )
        return f"no record begins there{host}"

    def _by_key_of_any_topic(self) -> Iterator[Match]:
        """Look the key up under every known topic: the index has no key without its topic."""
        from rmqtool.lookup.topic_names import known_topics

        known = known_topics(self._context)
        self._remarks.note(f"no --topic: the key is looked up under {known}; --scan finds it under any")
        questions = map(self._request.key_question_of, known.names)
        yield from self._newest([question for question in questions if question is not None])

    def _newest(self, questions: Sequence[KeyQuestion]) -> Iterator[Match]:
        records = sorted(
            (record for _, record in self._by_index(questions)), key=lambda one: one.physical_offset
        )
        yield from ((None, record) for record in self.limit.newest(records))


def _torn_properties(record: Record) -> Iterator[Finding]:
    if record.has_torn_properties:
        sentence = f"zeros stand in the properties of the record at {record.physical_offset}: they are torn"
        yield record_finding(codes.CL_PROPERTIES, record, sentence, Severity.ERROR)
