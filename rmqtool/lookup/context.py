"""Context of a query: the question, the steps on the way, the limit of messages, hits that do not count."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from enum import StrEnum
from itertools import islice
from typing import TYPE_CHECKING, ClassVar, TypeVar

from rmqtool import options
from rmqtool.errors import UsageError
from rmqtool.findings import counted
from rmqtool.javacompat import index_key_hash, split_keys, tag_key
from rmqtool.progress import NullProgress, Progress
from rmqtool.store.names import digits_of
from rmqtool.store.segments import NAME_DIGITS
from rmqtool.times import time_text

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from rmqtool.scan.records import Record
    from rmqtool.store import Store, Stray


@dataclass(frozen=True, slots=True)
class KeyQuestion:
    """A key of a topic.

    Attributes:
        topic: The stored topic, exactly.
        key: One of KEYS, or the unique key, or all of TAGS.
        unique: Whether it is the unique key.
        is_tag: Whether it is TAGS.
        either: Whether it is one of KEYS or the unique key.
    """

    topic: str
    key: str
    unique: bool = False
    is_tag: bool = False
    either: bool = False

    @property
    def key_hash(self) -> int:
        """Return the hash by which the index knows the key."""
        return index_key_hash(self.topic, tag_key(self.key) if self.is_tag else self.key)

    def answered_by(self, record: Record) -> bool:
        """Compare topic and key as a client does with what a broker returns.

        Java: ``MQAdminImpl#queryMessage`` (4.9.8, 5.3.3). Of several messages with one unique key it keeps
        the one that was stored first; here all are shown.
        """
        if record.topic != self.topic:
            return False
        if self.is_tag:
            return record.properties.get("TAGS") == self.key
        if self.unique or (self.either and record.properties.get("UNIQ_KEY") == self.key):
            return record.properties.get("UNIQ_KEY") == self.key
        return self.key in split_keys(record.properties.get("KEYS", ""))


_HASHED = ("key", "unique_key", "tag", "keys")
_QUESTIONS = (*_HASHED, "msg_id", "offset", "queue_offset")
_WITHOUT_TOPIC = {"key", "unique_key", "keys", "msg_id", "offset"}
_OF_ONE_PLACE = {"offset", "queue_offset"}


def _flags(*questions: str) -> list[str]:
    """Return options of the command line; many keys come as a file there."""
    return [f"--{name.replace('_', '-')}" + "-file" * (name == "keys") for name in questions]


@dataclass(frozen=True)
class QueryRequest:
    """A question; exactly one of key, unique_key, tag, keys, msg_id, offset, queue_offset, or times.

    ``keys`` are many questions in one pass; without ``max_messages`` all answers are wanted.
    """

    topic: str | None = options.text("The stored topic.", "T", flags=("-t", "--topic"))
    key: str | None = options.text(
        "Messages with this key or unique key, of --topic or of any topic.", "K", flags=("-k", "--key")
    )
    unique_key: str | None = options.text("Messages with this unique key, of --topic or of any topic.", "U")
    tag: str | None = options.text("Messages of the topic whose property TAGS is this tag.", "TAG")
    keys: tuple[KeyQuestion, ...] | None = None
    msg_id: str | None = options.text(
        "The message of an offset ID or a unique ID.", "ID", flags=("-i", "--msg-id")
    )
    offset: int | None = options.number("The message at a physical offset.", metavar="PHY")
    queue_id: int | None = options.number("A queue of the topic.", name="queue", metavar="Q", least=None)
    queue_offset: int | None = options.number("The message at a queue offset.")
    begin_ms: int | None = options.begin()
    end_ms: int | None = options.end()
    max_messages: int | None = options.number(
        "At most N messages for each key; 0: all; default: 64, 1 with --queue-offset.",
        name="max",
        flags=("-m", "--max"),
        convert=lambda number: number or None,
    )
    scan: bool = options.flag("Walk the log instead of trusting index or queues.")
    collisions: bool = options.flag("Also show hash hits of other keys, as the broker's own answer does.")
    consumed_by: str | None = options.text(
        "Show whether this consumer group has consumed each message, and the evidence.", "GROUP"
    )

    def check(self) -> None:
        """Check that there is one question, with the options that it needs, and none that it cannot use."""
        asked = [name for name in _QUESTIONS if getattr(self, name) is not None]
        flags = _flags(*asked)
        if len(asked) > 1:
            raise UsageError(f"{' and '.join(flags)} are {len(asked)} queries; run one at a time")
        question, flag = (asked[0], flags[0]) if asked else (None, "--begin")
        has_time = self.begin_ms is not None or self.end_ms is not None
        if question is None and not has_time:
            raise UsageError(f"nothing to find: pass {', '.join(_flags(*_QUESTIONS))} or --begin")
        if self.topic is None and question not in _WITHOUT_TOPIC:
            raise UsageError(f"{flag} needs --topic")
        if question == "queue_offset" and self.queue_id is None:
            raise UsageError("--queue-offset needs --queue")
        if self.queue_id is not None and question not in {"queue_offset", None}:
            raise UsageError(f"--queue does not apply to {flag}")
        if has_time and question in _OF_ONE_PLACE:
            raise UsageError(f"--begin and --end do not apply to {flag}")
        if self.collisions and (question not in _HASHED or self.scan):
            *some, last = _flags(*_HASHED)
            raise UsageError(f"--collisions needs {', '.join(some)} or {last}, and the index")
        if self.collisions and self.topic is None and self.keys is None:
            raise UsageError("--collisions needs --topic: the index has no key without its topic")

    @property
    def key_question(self) -> KeyQuestion | None:
        """Return the one key, or tag, of the question, if it has one topic."""
        return None if self.topic is None else self.key_question_of(self.topic)

    @property
    def is_of_any_topic(self) -> bool:
        """Whether the question has a key and no topic."""
        return self.topic is None and (self.key is not None or self.unique_key is not None)

    def key_question_of(self, topic: str) -> KeyQuestion | None:
        """Return the one key, or tag, of the question, for some topic."""
        if self.key is not None:
            return KeyQuestion(topic, self.key, either=True)
        if self.unique_key is not None:
            return KeyQuestion(topic, self.unique_key, unique=True)
        return None if self.tag is None else KeyQuestion(topic, self.tag, is_tag=True)

    def admits_time(self, time_ms: int) -> bool:
        """Whether a time lies between the two."""
        return (self.begin_ms is None or time_ms >= self.begin_ms) and (
            self.end_ms is None or time_ms <= self.end_ms
        )


_KEPT = 100


class Reason(StrEnum):
    """Subject of a step; the values are stable."""

    FILE_WALKED = "file-walked"
    FILE_OUT_OF_TIME = "file-out-of-time"
    FILE_NOT_NEEDED = "file-not-needed"
    SLOT_EMPTY = "slot-empty"
    SLOT_STALE = "slot-stale"
    CHAIN_BROKEN = "chain-broken"
    COLLISION = "collision"
    WRONG_SLOT = "wrong-slot"
    WRONG_RECORD = "wrong-record"
    ITEM_OUT_OF_TIME = "item-out-of-time"
    RECORD_OUT_OF_TIME = "record-out-of-time"
    EXPIRED = "expired"
    PART = "part"
    NO_RECORD = "no-record"
    LOG_MISSING = "log-missing"
    CUT = "cut"
    REPEATED = "repeated"
    FOUND = "found"
    INDEX_BEHIND = "index-behind"
    INDEX_BEGINS_LATER = "index-begins-later"
    INDEX_GAP = "index-gap"
    INDEX_DAMAGED = "index-damaged"
    NOT_INDEXED = "not-indexed"
    INDEX_MISSING = "index-missing"
    INDEX_ROCKSDB = "index-rocksdb"
    INDEX_DISABLED = "index-disabled"
    TAG_ITEMS = "tag-items"
    KEYS_SPLIT = "keys-split"
    KEY_FORM = "key-form"
    OTHER_KIND = "other-kind"
    TOPIC_UNKNOWN = "topic-unknown"
    OTHER_TOPIC = "other-topic"
    ROLLED_BACK = "rolled-back"
    PREPARED = "prepared"
    BROKER_LIMIT = "broker-limit"
    ID = "id"
    QUEUE = "queue"
    QUEUE_MISSING = "queue-missing"
    QUEUE_BEHIND = "queue-behind"
    QUEUE_BEGINS_LATER = "queue-begins-later"
    QUEUE_DAMAGED = "queue-damaged"
    UNIT = "unit"
    MODIFICATION_TIMES = "modification-times"
    BATCH_QUEUE = "batch-queue"
    SCAN = "scan"
    CONSUMPTION = "consumption"
    WAITS = "waits"


_ON_THE_WAY = frozenset(
    {
        Reason.FILE_WALKED,
        Reason.FILE_OUT_OF_TIME,
        Reason.FILE_NOT_NEEDED,
        Reason.SLOT_EMPTY,
        Reason.SLOT_STALE,
        Reason.COLLISION,
        Reason.REPEATED,
        Reason.ITEM_OUT_OF_TIME,
        Reason.MODIFICATION_TIMES,
        Reason.BROKER_LIMIT,
        Reason.QUEUE,
        Reason.UNIT,
        Reason.ID,
    }
)
"""Steps that decide nothing by themselves."""


@dataclass(frozen=True, slots=True)
class Step:
    """One step of a look-up.

    Attributes:
        reason: Its subject.
        message: One sentence.
        file: Of the store, where it happened.
        facts: Numbers of the sentence: item, slot, physicalOffset and the like.
        is_advice: Whether it is shown to a user who found nothing, even without ``--explain``.
    """

    type: ClassVar = "explain"
    reason: Reason
    message: str
    file: str | None = None
    facts: dict[str, int | str | None] = field(default_factory=dict)
    is_advice: bool = False


class Explanation:
    """The steps of one query, in order; of each reason at most so many that a person can read them."""

    def __init__(self, *, wanted: bool = True) -> None:
        self.wanted = wanted
        self.steps: list[Step] = []
        self._met: Counter[Reason] = Counter()

    def add(
        self,
        reason: Reason,
        message: str,
        file: str | None = None,
        before: int | None = None,
        /,
        **facts: int | str | None,
    ) -> None:
        """Add a step, at the end or ``before`` those from a place in ``steps`` on."""
        if self.wanted:
            self._add(len(self.steps) if before is None else before, Step(reason, message, file, facts))

    def advise(
        self, reason: Reason, message: str, file: str | None = None, **facts: int | str | None
    ) -> None:
        """Add a step that shows what to do next; once of each reason."""
        if any(step.is_advice and step.reason is reason for step in self.steps):
            self.add(reason, message, file, **facts)
        else:
            self._add(len(self.steps), Step(reason, message, file, facts, is_advice=True))

    @property
    def by_weight(self) -> list[Step]:
        """Return the steps, first those that decide, or show what to do next."""
        return sorted(self.steps, key=lambda step: not step.is_advice and step.reason in _ON_THE_WAY)

    @property
    def advice(self) -> list[str]:
        """Return the sentences that show what to do next."""
        return [step.message for step in self.steps if step.is_advice]

    def _add(self, place: int, step: Step) -> None:
        self._met[step.reason] += 1
        if self._met[step.reason] <= _KEPT:
            self.steps.insert(place, step)

    @property
    def left_out(self) -> dict[Reason, int]:
        """Return how many steps of each reason were dropped."""
        return {reason: count - _KEPT for reason, count in self._met.items() if count > _KEPT}


_WORDS = {
    Reason.COLLISION: "of other keys with the same hash",
    Reason.OTHER_KIND: "by another kind of key",
    Reason.WRONG_RECORD: "where another message lies",
    Reason.NO_RECORD: "where no record lies",
    Reason.EXPIRED: "expired",
    Reason.LOG_MISSING: "where a file of the log is missing",
    Reason.RECORD_OUT_OF_TIME: "stored outside of --begin and --end",
}


class RejectedHits:
    """Hits that are no answer.

    Attributes:
        lost: Physical offsets of hits whose file of the log is missing.
        absent: Physical offsets of hits in files of the log at which no record lies.
        other: Physical offsets of hits at which a record lies that has no key of the hash.
        keys: Of physical offsets without a record, the keys whose items lead there.
        proofs: Of physical offsets without a record, the unit or the index item that leads there.
    """

    def __init__(self, store: Store) -> None:
        self._store = store
        self._counts: Counter[Reason] = Counter()
        self._times_ms: tuple[int, int] | None = None
        self.lost: list[int] = []
        self.absent: list[int] = []
        self.other: list[int] = []
        self.proofs: dict[int, str] = {}
        self.keys: dict[int, list[KeyQuestion]] = {}
        self.places: dict[int, int | None] = {}

    def add(self, reason: Reason, physical_offset: int) -> None:
        """Count a hit."""
        if reason in _WORDS:
            self._counts[reason] += 1
        if reason is Reason.WRONG_RECORD:
            self.other.append(physical_offset)
        elif reason is Reason.LOG_MISSING:
            self.lost.append(physical_offset)
        elif reason is Reason.NO_RECORD and self._store.commitlog.segment_at(physical_offset) is not None:
            self.absent.append(physical_offset)

    def prove(self, physical_offset: int, proof: str) -> None:
        """Keep the first proof that a message was stored where no record lies."""
        self.proofs.setdefault(physical_offset, proof)

    def add_time(self, time_ms: int) -> None:
        """Count a message that would answer, had it been stored between the times."""
        first, last = self._times_ms or (time_ms, time_ms)
        self._times_ms = min(first, time_ms), max(last, time_ms)
        self._counts[Reason.RECORD_OUT_OF_TIME] += 1

    def __str__(self) -> str:
        return ", ".join(f"{count} {_WORDS[reason]}" for reason, count in self._counts.items())

    @property
    def outside(self) -> str | None:
        """Return a sentence on when messages were stored that answer but for their time; None without any."""
        if self._times_ms is None:
            return None
        count = self._counts[Reason.RECORD_OUT_OF_TIME]
        first, last = map(time_text, self._times_ms)
        when = f"at {first}" if first == last else f"from {first} to {last}"
        number = counted(count, "matching message was", "matching messages were")
        return f"{number} stored outside of --begin and --end: {when}"

    def absence(self, physical_offset: int) -> tuple[Reason, str]:
        """Return why there is no record at an offset."""
        log = self._store.commitlog
        if self.missing_part(physical_offset) is not None:
            return Reason.LOG_MISSING, "the file of the log that held it is missing"
        if 0 <= physical_offset < log.start:
            return Reason.EXPIRED, f"expired, the log begins at {log.start}"
        why = "the log ends before" if physical_offset >= log.stop else "no record lies there"
        return Reason.NO_RECORD, why

    def missing_part(self, physical_offset: int) -> str | None:
        """Return which part of the log is missing around an offset; None if it exists, or has expired."""
        log = self._store.commitlog
        if physical_offset < 0 or physical_offset >= log.stop or log.segment_at(physical_offset) is not None:
            return None
        strays = [stray for stray in log.strays if self._may_hold(stray, physical_offset)]
        if strays:
            return "; ".join(f"{stray.label} {stray.reason}" for stray in strays)
        return None if physical_offset < log.start else f"no file holds log offset {physical_offset}"

    def _may_hold(self, stray: Stray, physical_offset: int) -> bool:
        """Whether an entry that is not a file of the log was one, by its name or by its size."""
        if not stray.size_bytes:
            start = digits_of(stray.label.rpartition("/")[2], NAME_DIGITS)
            size = self._store.settings.commitlog_file_size
            return start is not None and start <= physical_offset < start + size
        return stray.size_bytes == self._store.settings.commitlog_file_size


_Found = TypeVar("_Found")


class Limit:
    """The ``--max`` of a question, for each key; None is all.

    If it is ``of_place``, it counts from one place on, so that what follows is not left out. ``words`` is
    which of the messages are shown, once it is known that there are more.
    """

    def __init__(self, wanted: int | None, *, of_place: bool = False) -> None:
        self.wanted = wanted
        self._of_place = of_place
        self.words: str | None = None

    @property
    def sought(self) -> int | None:
        """Return how many to search for, one more than wanted; None is all."""
        return None if self.wanted is None else self.wanted + 1

    def newest(self, hits: Sequence[_Found]) -> Sequence[_Found]:
        """Return the last messages within the limit."""
        if self.wanted is None or len(hits) <= self.wanted:
            return hits
        self.words = "newest"
        return hits[len(hits) - self.wanted :]

    def first(self, hits: Iterable[_Found]) -> Iterator[_Found]:
        """Yield the first messages within the limit; check whether one more follows."""
        if self.wanted is None:
            yield from hits
            return
        rest = iter(hits)
        yield from islice(rest, self.wanted)
        if not self._of_place and next(rest, None) is not None:
            self.words = "first"


class QueryContext:
    """One question to one store; ``remedy`` is the user's way to a complete answer."""

    def __init__(
        self,
        store: Store,
        request: QueryRequest,
        progress: Progress,
        explanation: Explanation | None = None,
        remedy: str = "--scan reads the log itself",
    ) -> None:
        self.store, self.request, self.progress, self.remedy = store, request, progress, remedy
        self.explanation = explanation or Explanation(wanted=False)
        self.limit = Limit(request.max_messages, of_place=request.queue_offset is not None)
        self.rejected = RejectedHits(store)

    def beside(self, request: QueryRequest) -> QueryContext:
        """Return another question to the store, without an explanation."""
        return QueryContext(self.store, request, NullProgress())

    def doubt(self, sentence: str) -> None:
        """Warn that messages may be missing from the answer."""
        self.progress.warn(f"{sentence}; the answer may be incomplete, {self.remedy}")

    def explain_doubt(
        self, reason: Reason, sentence: str, file: str | None = None, **facts: int | str | None
    ) -> None:
        """Warn, and keep the sentence as a step."""
        self.doubt(sentence)
        self.explanation.add(reason, sentence, file, **facts)

    def explain_nothing_at(self, offset: int) -> None:
        """Explain why there is no record at a physical offset."""
        log = self.store.commitlog
        missing = self.rejected.missing_part(offset)
        if missing is not None:
            self.rejected.add(Reason.LOG_MISSING, offset)
            self.explanation.add(Reason.LOG_MISSING, missing, physicalOffset=offset)
        elif offset < log.start:
            message = f"log offset {offset} is expired: the log begins at {log.start}"
            self.explanation.advise(Reason.EXPIRED, message, physicalOffset=offset)
        elif offset >= log.stop:
            message = f"log offset {offset} lies after the log's files, which end at {log.stop}"
            self.explanation.advise(Reason.NO_RECORD, message, physicalOffset=offset)
        else:
            message = f"no record begins at log offset {offset}"
            self.explanation.add(Reason.NO_RECORD, message, physicalOffset=offset)
