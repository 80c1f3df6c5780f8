"""Reasons for an empty answer, and other traces of a message in the store."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from rmqtool.derived.queues import find_queue, queue_ids_of
from rmqtool.errors import EnvironmentFailureError, RmqtoolError
from rmqtool.findings import Finding, Severity, codes, some
from rmqtool.javacompat import id_spellings, split_keys
from rmqtool.lookup.context import KeyQuestion, QueryContext, QueryRequest, Reason
from rmqtool.lookup.index import IndexSearch, coverage, index_problem, is_rolled_back
from rmqtool.lookup.queue import queues_problem
from rmqtool.lookup.topic_names import topics_of, unknown_topic
from rmqtool.scan.classify import FoundEdge
from rmqtool.scan.record_walk import find_log_end
from rmqtool.scan.records import Record, record_at
from rmqtool.store.kinds import PathKind
from rmqtool.times import present_ms
from rmqtool.topics import DEAD_LETTER_PREFIX, HALF_TOPIC, RETRY_PREFIX, SCHEDULE_TOPIC, TIMER_TOPIC

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

    from rmqtool.account.lost import Absent
    from rmqtool.derived.queues import LiveUnits


_ALL = 1 << 62
_CAUSES = {
    "listed": "a unit leads to log offset {0.log_offset}, where {0.size} bytes of it were, with tags code"
    " {0.tags_code}",
    "consumed": "a consumer has read it, and the log was longer once",
    "hole": "the log has messages of the queue before and after it, and lacks bytes between them",
}


@dataclass
class _LossesOfPlaces:
    """Collects the account's losses at some places in a queue."""

    queue: tuple[str, int]
    wanted: range
    found: list[tuple[int, Absent]] = field(default_factory=list)

    def absent(self, queue: tuple[str, int], absent: Iterable[Absent]) -> None:
        """Take those of a queue."""
        for gone in absent if queue == self.queue else ():
            last = min(gone.queue_offset + gone.messages, self.wanted.stop)
            self.found += (
                (number, gone) for number in range(max(gone.queue_offset, self.wanted.start), last)
            )

    def indexed(self, places: Iterable[int]) -> None:
        """Skip them: nothing names their queues."""

    def before(self, queue: tuple[str, int] | None, units: LiveUnits) -> None:
        """Skip those before the log."""


def lost_by_units(context: QueryContext, places: Mapping[int, int]) -> Iterator[Finding]:
    """Yield findings of lost messages, by queue offset the places that their units lead to."""
    for number, place in sorted(places.items()):
        unit = context.rejected.proofs.get(place, "a unit")
        yield _lost(context, number, place, f"{unit}, which leads to log offset {place}")


def lost_of_places(context: QueryContext, known: Collection[int]) -> Iterator[Finding]:
    """Yield findings of lost messages among those that a question by places in a queue did not find.

    ``known`` are queue offsets of messages that are certainly lost, which are left out.
    """
    from rmqtool.account.log_losses import account_of  # numpy comes with it

    request, account = context.request, account_of(context.store)
    topic, queue_id, first = request.topic, request.queue_id, request.queue_offset
    if topic is None or queue_id is None or first is None or not account.can_tell:
        return
    losses = _LossesOfPlaces((topic, queue_id), range(first, first + (request.max_messages or _ALL)))
    context.progress.note("nothing lies there: the log is read to say whether the message is lost")
    account.losses(lost=losses)
    for number, absent in losses.found:
        if number not in known:
            place = absent.start if absent.log_offset is None else absent.log_offset
            yield _lost(context, number, place, _CAUSES.get(absent.cause, _CAUSES["hole"]).format(absent))
    settled = {*known, *(number for number, _ in losses.found)}
    for number, at in context.rejected.places.items():
        if number in settled:
            continue
        hint = "--scan looks for it in the log"
        if at is not None and record_at(context.store.commitlog, at):
            hint = f"--offset {at} shows the record that its unit leads to"
        context.progress.warn(f"nothing shows that {topic}/{queue_id} #{number} is lost: {hint}")


def explain_cut(context: QueryContext, places: Iterable[int]) -> None:
    """Add a step for each message shown, by physical offset, that the next start of a broker cuts off."""
    from rmqtool.recovery.predict import predict_recovery  # reads the whole log

    store, said = context.store, set[int]()
    for release in store.settings.candidates if store.kind is PathKind.STORE else ():
        try:
            prediction = predict_recovery(store, release)
        except RmqtoolError:
            continue  # a start that is not foreseen cuts nothing for certain
        cut = prediction.cut
        for place in places if cut is not None and prediction.loads else ():
            if cut is not None and place >= cut.physical_offset and place not in said:
                said.add(place)
                sentence = (
                    f"the next start of a {release.name} broker cuts this message, at log offset {place}: it"
                    f" lies after {cut.physical_offset}, where recovery ends the log: {cut.reason}"
                )
                context.explanation.add(Reason.CUT, sentence, cut.file, physicalOffset=place)


def _lost(context: QueryContext, number: int, place: int, why: str) -> Finding:
    """Return the finding of a lost message; after the log's last record, with the severity of verify."""
    topic, queue_id = context.request.topic, context.request.queue_id
    store = context.store
    from rmqtool.account import is_end_borne_out  # few queries meet a lost message

    end = find_log_end(FoundEdge.of(store))
    is_open = place >= end.end and not is_end_borne_out(store, end)
    return Finding(
        code=codes.CL_LOST,
        topic=topic,
        queue_id=queue_id,
        queue_offset=number,
        physical_offset=place,
        message=f"{topic}/{queue_id} #{number} is lost from the log: {why}",
        severity_override=Severity.WARNING if is_open else None,
    )


_SOUGHT_ELSEWHERE = 20  # keys that are looked up under every topic
_SYSTEM_TOPICS = {
    HALF_TOPIC: "as a half message: its transaction was not committed when it was written",
    SCHEDULE_TOPIC: "as a delayed message",
    TIMER_TOPIC: "as a timer message",
}
_PREFIXES = {RETRY_PREFIX: "as a message to be consumed again", DEAD_LETTER_PREFIX: "as a dead letter"}


def explain_absence(context: QueryContext, questions: Sequence[KeyQuestion]) -> None:
    """Explain why questions may have no answer in the index."""
    if not context.store.settings.message_index_enable:
        message = "messageIndexEnable is false: nothing is added to the index any more"
        context.explanation.add(Reason.INDEX_DISABLED, message)
    for question in questions[:_SOUGHT_ELSEWHERE]:
        _explain_other_topics(context, question)


def explain_unindexed(
    context: QueryContext, question: KeyQuestion, records: Iterable[Record]
) -> Iterator[Record]:
    """Pass on the log's records of a key; explain why the index does not lead to those that it lacks."""
    indexed: set[int] = set()
    problem = index_problem(context.store)
    if problem is None:
        search = IndexSearch(context.beside(QueryRequest()))
        indexed.update(search.answers([question])[0])
    covered = coverage(context.store)
    for record in records:
        offset = record.physical_offset
        if offset not in indexed and not is_rolled_back(record):
            reason, why = problem or _why_unindexed(offset, covered)
            message = f"the message at log offset {offset} is not in the index: {why}"
            context.explanation.add(reason, message, physicalOffset=offset)
        yield record


def _why_unindexed(offset: int, covered: tuple[int, int] | None) -> tuple[Reason, str]:
    if covered is None:
        return Reason.INDEX_BEHIND, "the index files hold nothing"
    begin, end = covered
    if offset > end:
        return Reason.INDEX_BEHIND, f"the index goes up to log offset {end}"
    if offset < begin:
        return Reason.INDEX_BEGINS_LATER, f"the index begins with log offset {begin}"
    return Reason.NOT_INDEXED, "its place lies within what the index covers; rebuild-index makes a new one"


def _explain_other_topics(context: QueryContext, question: KeyQuestion) -> None:
    """Look the key up under every other topic: a half or delayed message is indexed under the system's."""
    beside = context.beside(QueryRequest(max_messages=1))
    names = dict.fromkeys((*topics_of(beside.store, beside.progress), *_SYSTEM_TOPICS))
    others = [
        replace(question, topic=topic, unique=unique)
        for topic in names
        if topic != question.topic
        for unique in ((False,) if question.is_tag or question.either else (True, False))
    ]
    for other, offsets in zip(others, IndexSearch(beside).answers(others), strict=True):
        if offsets:
            what = "unique key" if other.unique else "tag" if other.is_tag else "key"
            reason = Reason.PREPARED if other.topic == HALF_TOPIC else Reason.OTHER_TOPIC
            where = f"topic {other.topic} (log offset {offsets[0]}){_role(other.topic)}"
            if other.topic in {SCHEDULE_TOPIC, TIMER_TOPIC}:
                where += _state(beside, offsets[0])
            message = f"{question.key} is a {what} of {where}"
            context.explanation.add(reason, message, topic=other.topic, physicalOffset=offsets[0])


def _state(context: QueryContext, physical_offset: int) -> str:
    """Return whether a message that was stored to wait is due, overdue, delivered or passed over."""
    from rmqtool.lookup.delayed import state_of  # few queries meet a delayed message
    from rmqtool.lookup.delivery import SoundIndex

    record = record_at(context.store.commitlog, physical_offset)
    with suppress(EnvironmentFailureError):
        now_ms = present_ms()
        state = None if record is None else state_of(SoundIndex(context.store), record, now_ms)
        return "" if state is None else f": {state}"
    return ""


def _role(topic: str) -> str:
    roles = [role for prefix, role in _PREFIXES.items() if topic.startswith(prefix)]
    role = _SYSTEM_TOPICS.get(topic) or next(iter(roles), "")
    return f", {role}" if role else ""


def advise(context: QueryContext) -> None:
    """Advise on what else the user may have meant."""
    topic, queue_id = context.request.topic, context.request.queue_id
    if topic is not None and not _advise_topic(context, topic) and queue_id is not None:
        _advise_queue(context, topic, queue_id)
    outside = context.rejected.outside
    if outside is not None:
        context.explanation.advise(Reason.RECORD_OUT_OF_TIME, outside)
    question = context.request.key_question_of(topic or "")
    if question is not None:
        _advise_key(context, question)


def _advise_topic(context: QueryContext, topic: str) -> bool:
    """Advise on an unknown topic, with names near it; return whether it is unknown."""
    known = topics_of(context.store, context.progress)
    if not known or topic in known:
        return False
    context.explanation.advise(Reason.TOPIC_UNKNOWN, unknown_topic(topic, known), topic=topic)
    return True


def _advise_queue(context: QueryContext, topic: str, queue_id: int) -> None:
    store = context.store
    if queues_problem(store) is not None or find_queue(store, topic, queue_id) is not None:
        return
    ids = queue_ids_of(store, topic)
    has = f"the topic has the queues {some(map(str, ids))}" if ids else "the topic has none"
    message = f"no queue {topic}/{queue_id}; {has}"
    context.explanation.advise(Reason.QUEUE_MISSING, message, topic=topic, queueId=queue_id)


def _advise_key(context: QueryContext, question: KeyQuestion) -> None:
    key, prefix = question.key, f"{question.topic}#"
    if key.startswith(prefix):
        message = f"the index joins topic and key by itself: query {key.removeprefix(prefix)!r} alone"
        context.explanation.advise(Reason.KEY_FORM, message)
    if question.unique and len(id_spellings(key)) > 1:
        message = f"clients write unique keys in upper case: query {key.upper()}"
        context.explanation.advise(Reason.KEY_FORM, message)
    if not question.unique and not question.is_tag and " " in key:
        pieces = ", ".join(split_keys(key)) or "none"
        message = f"KEYS is cut at every space, so {key!r} is never indexed as a whole; query {pieces}"
        context.explanation.advise(Reason.KEYS_SPLIT, message)
