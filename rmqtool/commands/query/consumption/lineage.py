"""Lineage of a message: the copies that a broker writes again for a group, and the topics for them.

Origin: ``AbstractSendMessageProcessor#consumerSendMsgBack``, ``SendMessageProcessor#handleRetryAndDLQ``,
``PopReviveService#reviveRetry``, ``KeyBuilder``, ``DefaultMQPushConsumerImpl#sendMessageBackAsNormalMessage``
(4.9.8, 5.3.3, 5.5.1).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from rmqtool.javacompat import parse_int
from rmqtool.rows.messages import offset_id_of
from rmqtool.topics import DEAD_LETTER_PREFIX, RETRY_PREFIX, SCHEDULE_TOPIC, TIMER_TOPIC

if TYPE_CHECKING:
    from rmqtool.scan.records import Record

WAITING_TOPICS = (SCHEDULE_TOPIC, TIMER_TOPIC)
POP_SEPARATORS = "_+"
"""Between group and topic of a pop retry topic: of 5.0.0 on, and with ``enableRetryTopicV2`` (5.2.0 on)."""


def meant_for(record: Record) -> str:
    """Return the topic that a record is meant for: for a waiting one, that of its delivery."""
    if record.topic in WAITING_TOPICS:
        return record.properties.get("REAL_TOPIC", record.topic)
    return record.topic


def queue_meant_for(record: Record) -> int:
    """Return the queue that goes with `meant_for`."""
    real = parse_int(record.properties.get("REAL_QID", "")) if record.topic in WAITING_TOPICS else None
    return record.head.queue_id if real is None else real


@dataclass(frozen=True)
class GroupTopics:
    """The topics of a group's retries and dead letters."""

    group: str

    @property
    def retry(self) -> str:
        """Return the topic of messages that consumers send back."""
        return RETRY_PREFIX + self.group

    @property
    def dead_letter(self) -> str:
        """Return the topic of messages that are not tried again."""
        return DEAD_LETTER_PREFIX + self.group

    def pop_retries(self, topic: str) -> tuple[str, ...]:
        """Return the topics of a topic's messages that came back from pop."""
        return tuple(f"{self.retry}{separator}{topic}" for separator in POP_SEPARATORS)

    def of_topic(self, topic: str) -> tuple[str, ...]:
        """Return all topics to which messages of a topic may be written again."""
        return self.retry, *self.pop_retries(topic), self.dead_letter

    def may_be(self, topic: str) -> bool:
        """Whether a topic is one of these, for some topic."""
        of_pop = topic.startswith(self.retry) and topic[len(self.retry) :][:1] in {*POP_SEPARATORS}
        return of_pop or topic in {self.retry, self.dead_letter}

    def origin_topic(self, record: Record) -> str:
        """Return the first topic of a message, which a copy names by property or by its topic."""
        topic = meant_for(record)
        if not self.may_be(topic):
            return topic
        if "RETRY_TOPIC" in record.properties:
            found = record.properties["RETRY_TOPIC"]
            return self._unpopped(found)
        return self._unpopped(topic)

    def _unpopped(self, topic: str) -> str:
        return topic[len(self.retry) + 1 :] if topic.startswith(self.retry) and self.may_be(topic) else topic


@dataclass(frozen=True)
class Lineage:
    """Names of a message in all of its copies.

    Attributes:
        topic: The first one.
        unique: UNIQ_KEY; None without.
        ids: Values that ORIGIN_MESSAGE_ID of a copy may have: clients and brokers write different ids there.
        keys: KEYS as stored.
    """

    topic: str
    unique: str | None
    ids: frozenset[str]
    keys: str | None

    @classmethod
    def of(cls, record: Record, topics: GroupTopics) -> Lineage:
        """Return that of a message, or of a copy of it."""
        properties = record.properties
        unique, origin = properties.get("UNIQ_KEY"), properties.get("ORIGIN_MESSAGE_ID")
        own = None if topics.may_be(meant_for(record)) and origin else offset_id_of(record)
        ids = {one.upper() for one in (unique, origin, own) if one}
        return cls(topics.origin_topic(record), unique, frozenset(ids), properties.get("KEYS"))

    def is_copy(self, record: Record, topics: GroupTopics) -> bool:
        """Whether a record of a retry or dead letter topic, or on its way there, is a copy of the message.

        A consumer that sends back names its record in ORIGIN_MESSAGE_ID; a record that comes back from pop
        has only the message's own properties.
        """
        is_written_for = meant_for(record) in topics.of_topic(self.topic)
        if not is_written_for or topics.origin_topic(record) != self.topic:
            return False
        origin = record.properties.get("ORIGIN_MESSAGE_ID")
        if origin:
            return origin.upper() in self.ids
        return self.unique is not None and record.properties.get("UNIQ_KEY") == self.unique
