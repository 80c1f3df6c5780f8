"""The question of a query, and what a record must be like to answer it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from rmqtool.dispatch.index_keys import tag_key
from rmqtool.javacompat import index_key_hash, split_keys

if TYPE_CHECKING:
    from rmqtool.scan.records import Record


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


@dataclass(frozen=True)
class QueryRequest:
    """A question; exactly one of key, unique_key, tag, keys, msg_id, offset, queue_offset, or times.

    Attributes:
        topic: The stored topic, exactly; None with a key: every topic.
        key: One of KEYS.
        unique_key: UNIQ_KEY.
        tag: All of TAGS.
        keys: Many questions in one pass.
        msg_id: An offset message id, or a unique key of any topic.
        offset: A physical offset.
        queue_id: A queue of the topic.
        queue_offset: The first queue offset.
        begin_ms: Store time, inclusive.
        end_ms: Store time, inclusive.
        max_messages: At most so many, of each key; None is all. By key, the newest.
        scan: Walk the log instead of trusting index and queues.
        collisions: Show every hit of the index, as a broker does.
        consumed_by: A group: say of each message whether it has consumed it.
    """

    topic: str | None = None
    key: str | None = None
    unique_key: str | None = None
    tag: str | None = None
    keys: tuple[KeyQuestion, ...] | None = None
    msg_id: str | None = None
    offset: int | None = None
    queue_id: int | None = None
    queue_offset: int | None = None
    begin_ms: int | None = None
    end_ms: int | None = None
    max_messages: int | None = None
    scan: bool = False
    collisions: bool = False
    consumed_by: str | None = None

    @property
    def key_question(self) -> KeyQuestion | None:
        """Return the one key, or tag, of the one topic of the question."""
        return None if self.topic is None else self.key_question_of(self.topic)

    @property
    def is_of_any_topic(self) -> bool:
        """Whether the question has a key and no topic."""
        return self.topic is None and (self.key is not None or self.unique_key is not None)

    def key_question_of(self, topic: str) -> KeyQuestion | None:
        """Return the one key, or tag, of the question, of some topic."""
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
