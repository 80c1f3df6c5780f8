"""Names of the broker's own topics, and prefixes of topics that have a meaning.

Origin: ``TopicValidator``, ``MixAll``, ``TransactionalMessageUtil``, ``TimerMessageStore``, ``LiteUtil``
(4.9.8 to 5.5.1).
"""

from __future__ import annotations

from enum import StrEnum

RETRY_PREFIX, DEAD_LETTER_PREFIX = "%RETRY%", "%DLQ%"
LMQ_PREFIX = "%LMQ%"
LITE_SEPARATOR = "$"
"""A lite topic is the light queue ``%LMQ%$PARENT$LITE`` (5.5.0+)."""
SYSTEM_PREFIX = "rmq_sys_"

SCHEDULE_TOPIC = "SCHEDULE_TOPIC_XXXX"
TIMER_TOPIC = "rmq_sys_wheel_timer"
REVIVE_PREFIX = "rmq_sys_REVIVE_LOG_"
"""Check points and acknowledgements of pop; the cluster's name follows (5.0.0+)."""
HALF_TOPIC, OP_TOPIC = "RMQ_SYS_TRANS_HALF_TOPIC", "RMQ_SYS_TRANS_OP_HALF_TOPIC"
ROCKSDB_HALF_TOPIC = "RMQ_SYS_ROCKSDB_TRANS_HALF_TOPIC"
ROCKSDB_OP_TOPIC = "RMQ_SYS_ROCKSDB_TRANS_OP_HALF_TOPIC"
"""5.4.0+, with ``transRocksDBEnable``; an op there names the log offset of the half message."""

EXPLAINED_TOPICS = (
    RETRY_PREFIX,
    DEAD_LETTER_PREFIX,
    "RMQ_SYS_TRANS_",
    "RMQ_SYS_ROCKSDB_TRANS_",
    SCHEDULE_TOPIC,
    TIMER_TOPIC,
    REVIVE_PREFIX,
)
"""Prefixes of topics whose messages mean more than was sent."""

BROKERS_OWN = frozenset(
    {
        "TBW102",
        SCHEDULE_TOPIC,
        "BenchmarkTest",
        HALF_TOPIC,
        "RMQ_SYS_TRACE_TOPIC",
        OP_TOPIC,
        ROCKSDB_HALF_TOPIC,
        ROCKSDB_OP_TOPIC,
        "TRANS_CHECK_MAX_TIME_TOPIC",
        "SELF_TEST_TOPIC",
        "OFFSET_MOVED_EVENT",
        "CHECKPOINT_TOPIC",
    }
)
"""TopicValidator's, 5.5.1; older brokers lack some. Topics named after themselves are in topics.json."""


class TopicKind(StrEnum):
    """Owner of a topic."""

    ORDINARY = "ordinary"  # of users
    RETRY = "retry"  # %RETRY%GROUP: to be consumed again
    DEAD_LETTER = "dead-letter"  # %DLQ%GROUP: given up
    BROKER = "broker"  # delayed, transactional and other messages of the broker's own


def kind_of(topic: str) -> TopicKind:
    """Return the owner of a topic, by its name."""
    if topic.startswith(RETRY_PREFIX):
        return TopicKind.RETRY
    if topic.startswith(DEAD_LETTER_PREFIX):
        return TopicKind.DEAD_LETTER
    is_system = topic in BROKERS_OWN or topic.startswith((SYSTEM_PREFIX, SYSTEM_PREFIX.upper()))
    return TopicKind.BROKER if is_system else TopicKind.ORDINARY


def group_of(topic: str) -> str | None:
    """Return the group whose messages a retry or dead letter topic holds; None for any other topic."""
    is_sent_back = kind_of(topic) in {TopicKind.RETRY, TopicKind.DEAD_LETTER}
    return topic.split("%", 2)[2] if is_sent_back else None


def lite_topic_of(name: str) -> tuple[str, str] | None:
    """Return parent and lite topic of the name of a lite topic's queue, None for any other."""
    marker = LMQ_PREFIX + LITE_SEPARATOR
    parent, _, lite = name.removeprefix(marker).partition(LITE_SEPARATOR)
    return (parent, lite) if name.startswith(marker) and parent and lite else None


def is_own_group(group: str) -> bool:
    """Whether a group is one of the broker's own (``SubscriptionGroupManager#init``)."""
    return group.startswith(_OWN_GROUPS)


_OWN_GROUPS = (
    "TOOLS_CONSUMER",
    "FILTERSRV_CONSUMER",
    "SELF_TEST_C_GROUP",
    "CID_ONS",
    "CID_RMQ_SYS_",
    "CID_SYS_RMQ",
)
