"""Why the index has nothing: what can be told without reading the whole log."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rmqtool.commands.index_files import IndexFile
from rmqtool.commands.query.explain import Explanation, Reason
from rmqtool.commands.query.index import IndexSearch
from rmqtool.commands.query.request import KeyQuestion, QueryRequest
from rmqtool.commands.query.topics import topics_of
from rmqtool.formats.message import TRANSACTION_MASK, TRANSACTION_ROLLBACK
from rmqtool.javacompat import split_keys
from rmqtool.scan.log_end import find_log_end, first_record
from rmqtool.store.features import is_rocksdb

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from rmqtool.commands.index_files import Header
    from rmqtool.scan.records import Record
    from rmqtool.store import Store

_SOUGHT_ELSEWHERE = 20  # keys that are looked up under every topic
_HALF_TOPIC = "RMQ_SYS_TRANS_HALF_TOPIC"
_SYSTEM_TOPICS = {
    _HALF_TOPIC: "as a half message: its transaction was not committed when it was written",
    "SCHEDULE_TOPIC_XXXX": "as a delayed message, before its delivery",
    "rmq_sys_wheel_timer": "as a timer message, before its delivery",
}
_PREFIXES = {"%RETRY%": "as a message to be consumed again", "%DLQ%": "as a dead letter"}


class _Silent:
    """A progress that says nothing: what the index lacks was said in the search before."""

    def stage(self, name: str, total_bytes: int | None) -> None:
        pass

    def advance(self, done_bytes: int) -> None:
        pass

    def note(self, sentence: str) -> None:
        pass

    def warn(self, sentence: str) -> None:
        pass


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


def explain_absence(store: Store, questions: Sequence[KeyQuestion], explanation: Explanation) -> None:
    """Tell what may be the reason that questions have no answer in the index."""
    if not explanation.wanted:
        return
    for question in questions:
        _explain_pieces(question, explanation)
    _explain_reach(store, explanation)
    for question in questions[:_SOUGHT_ELSEWHERE]:
        _explain_other_topics(store, question, explanation)


def explain_unindexed(
    store: Store, question: KeyQuestion, records: Iterable[Record], explanation: Explanation
) -> Iterator[Record]:
    """Pass on what the log has for a key; tell why the index does not lead to it, where it does not."""
    indexed: set[int] = set()
    problem = index_problem(store)
    if problem is None:
        search = IndexSearch(store, QueryRequest(), _Silent(), Explanation(wanted=False))
        indexed.update(search.answers([question])[0])
    covered = _coverage(store)
    for record in records:
        offset = record.physical_offset
        if offset not in indexed and not _is_rolled_back(record):
            reason, why = problem or _why_unindexed(offset, covered)
            message = f"the message at log offset {offset} is not in the index: {why}"
            explanation.add(reason, message, physicalOffset=offset)
        yield record


def _is_rolled_back(record: Record) -> bool:
    return record.head.sys_flag & TRANSACTION_MASK == TRANSACTION_ROLLBACK


def _why_unindexed(offset: int, covered: tuple[int, int] | None) -> tuple[Reason, str]:
    if covered is None:
        return Reason.INDEX_BEHIND, "the index files hold nothing"
    begin, end = covered
    if offset > end:
        return Reason.INDEX_BEHIND, f"the index goes up to log offset {end}"
    if offset < begin:
        return Reason.INDEX_BEGINS_LATER, f"the index begins with log offset {begin}"
    return Reason.NOT_INDEXED, "its place lies within what the index covers; rebuild-index makes a new one"


def _explain_pieces(question: KeyQuestion, explanation: Explanation) -> None:
    if question.unique or " " not in question.key:
        return
    pieces = ", ".join(split_keys(question.key)) or "none"
    message = f"KEYS is cut at every space, so {question.key!r} is never indexed as a whole; ask for {pieces}"
    explanation.add(Reason.KEYS_SPLIT, message)


def _explain_reach(store: Store, explanation: Explanation) -> None:
    """Compare what the index covers with what the log holds."""
    if not store.settings.message_index_enable:
        explanation.add(
            Reason.INDEX_DISABLED, "messageIndexEnable is false: nothing is added to the index any more"
        )
    covered = _coverage(store)
    log_end = find_log_end(store.commitlog.segments)
    if covered is None or log_end.last is None:
        return
    begin, end = covered
    last = log_end.last.physical_offset
    if last > end:
        message = (
            f"the index goes up to the message at log offset {end}, the log's last one is at {last}:"
            " what lies behind is not indexed, or has no keys"
        )
        explanation.add(Reason.INDEX_BEHIND, message, physicalOffset=end, lastRecord=last)
    first = first_record(store.commitlog.segments)
    if first is not None and first.physical_offset < begin:
        message = (
            f"the index begins with the message at log offset {begin}, the log with the one at"
            f" {first.physical_offset}: what lies before is not indexed, or has no keys"
        )
        explanation.add(
            Reason.INDEX_BEGINS_LATER, message, physicalOffset=begin, firstRecord=first.physical_offset
        )


def _coverage(store: Store) -> tuple[int, int] | None:
    """Return physical offsets of the first and the last indexed message; None without items."""
    headers: list[Header] = []
    for file in store.index_files:
        header = IndexFile(file, store.settings.index_geometry).header
        file.close()
        if header is not None and header.index_count > 1:
            headers.append(header)
    if not headers:
        return None
    return min(one.begin_phy_offset for one in headers), max(one.end_phy_offset for one in headers)


def _explain_other_topics(store: Store, question: KeyQuestion, explanation: Explanation) -> None:
    """Look the key up under every other topic: a half or delayed message is indexed under the system's."""
    silent = _Silent()
    topics = [topic for topic in (*topics_of(store, silent), *_SYSTEM_TOPICS) if topic != question.topic]
    others = [
        KeyQuestion(topic, question.key, unique)
        for topic in dict.fromkeys(topics)
        for unique in (question.unique, not question.unique)
    ]
    if not question.unique:
        others.append(KeyQuestion(question.topic, question.key, unique=True))
    search = IndexSearch(store, QueryRequest(max_messages=1), silent, Explanation(wanted=False))
    for other, found in zip(others, search.answers(others), strict=True):
        if found:
            _explain_other(question, other, found[0], explanation)


def _explain_other(question: KeyQuestion, other: KeyQuestion, offset: int, explanation: Explanation) -> None:
    what = "unique key" if other.unique else "key"
    reason = Reason.PREPARED if other.topic == _HALF_TOPIC else Reason.OTHER_TOPIC
    message = f"{question.key} is a {what} of topic {other.topic} (log offset {offset}){_role(other.topic)}"
    explanation.add(reason, message, topic=other.topic, physicalOffset=offset)


def _role(topic: str) -> str:
    roles = [role for prefix, role in _PREFIXES.items() if topic.startswith(prefix)]
    role = _SYSTEM_TOPICS.get(topic, roles[0] if roles else "")
    return f", {role}" if role else ""
