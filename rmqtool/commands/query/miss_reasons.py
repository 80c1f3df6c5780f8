"""Why the index has nothing: what can be told without reading the whole log."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from rmqtool.commands.query.index import IndexSearch
from rmqtool.commands.query.index_coverage import coverage, is_rolled_back
from rmqtool.lookup.explain import Reason
from rmqtool.lookup.request import QueryRequest
from rmqtool.store import PathKind
from rmqtool.store.features import is_rocksdb
from rmqtool.topics import DEAD_LETTER_PREFIX, HALF_TOPIC, RETRY_PREFIX, SCHEDULE_TOPIC, TIMER_TOPIC

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from rmqtool.lookup.context import QueryContext
    from rmqtool.lookup.request import KeyQuestion
    from rmqtool.scan.records import Record
    from rmqtool.store import Store

_SOUGHT_ELSEWHERE = 20  # keys that are looked up under every topic
_SYSTEM_TOPICS = {
    HALF_TOPIC: "as a half message: its transaction was not committed when it was written",
    SCHEDULE_TOPIC: "as a delayed message, before its delivery",
    TIMER_TOPIC: "as a timer message, before its delivery",
}
_PREFIXES = {RETRY_PREFIX: "as a message to be consumed again", DEAD_LETTER_PREFIX: "as a dead letter"}


INDEX = {PathKind.INDEX: "an index"}
QUEUES = {PathKind.CONSUMEQUEUE: "consume queues", PathKind.BATCHCONSUMEQUEUE: "consume queues"}


def part_problem(store: Store, needed: Mapping[PathKind, str]) -> tuple[Reason, str] | None:
    """Say that only a part of a store was given, and none of what is needed to answer."""
    if store.kind is PathKind.STORE or any(kind in store.roots for kind in needed):
        return None
    what = next(iter(needed.values()))
    return (
        Reason.PART,
        f"{store.place.path}: is only the {store.kind.value} of a store, without {what} to ask",
    )


def index_problem(store: Store) -> tuple[Reason, str] | None:
    """Say why no index can answer; None if there are index files."""
    if store.index_files:
        return None
    directory = store.root / "index" if store.root is not None else None
    if directory is not None and is_rocksdb(directory):
        return Reason.INDEX_ROCKSDB, f"{directory} is a RocksDB database, which is not read"
    if not store.settings.message_index_enable:
        return Reason.INDEX_DISABLED, "messageIndexEnable is false: this broker builds no index"
    return Reason.INDEX_MISSING, f"there are no index files in {directory or store.place.path}"


def explain_absence(context: QueryContext, questions: Sequence[KeyQuestion]) -> None:
    """Tell what may be the reason that questions have no answer in the index."""
    if not context.explanation.wanted:
        return
    if not context.store.settings.message_index_enable:
        message = "messageIndexEnable is false: nothing is added to the index any more"
        context.explanation.add(Reason.INDEX_DISABLED, message)
    for question in questions[:_SOUGHT_ELSEWHERE]:
        _explain_other_topics(context, question)


def explain_unindexed(
    context: QueryContext, question: KeyQuestion, records: Iterable[Record]
) -> Iterator[Record]:
    """Pass on what the log has for a key; tell why the index does not lead to it, where it does not."""
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
    from rmqtool.lookup.topic_names import topics_of

    beside = context.beside(QueryRequest(max_messages=1))
    names = dict.fromkeys((*topics_of(beside.store, beside.progress), *_SYSTEM_TOPICS))
    others = [
        replace(question, topic=topic, unique=unique)
        for topic in names
        if topic != question.topic
        for unique in ((False,) if question.is_tag else (question.unique, not question.unique))
    ]
    for other, found in zip(others, IndexSearch(beside).answers(others), strict=True):
        if found:
            _explain_other(context, question, other, found[0])


def _explain_other(context: QueryContext, question: KeyQuestion, other: KeyQuestion, offset: int) -> None:
    what = "unique key" if other.unique else "tag" if other.is_tag else "key"
    reason = Reason.PREPARED if other.topic == HALF_TOPIC else Reason.OTHER_TOPIC
    message = f"{question.key} is a {what} of topic {other.topic} (log offset {offset}){_role(other.topic)}"
    context.explanation.add(reason, message, topic=other.topic, physicalOffset=offset)


def _role(topic: str) -> str:
    roles = [role for prefix, role in _PREFIXES.items() if topic.startswith(prefix)]
    role = _SYSTEM_TOPICS.get(topic, roles[0] if roles else "")
    return f", {role}" if role else ""
