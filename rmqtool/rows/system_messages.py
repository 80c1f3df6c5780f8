"""What messages of the broker's own topics are about: what their raw fields mean, said in fields.

Source: ``TransactionalMessageUtil``, ``TransactionalMessageServiceImpl``, ``TopicValidator``, ``MixAll``,
``MessageConst`` (4.9.8, 5.3.3), ``TimerMessageStore`` (5.0.0+).
"""

from __future__ import annotations

from itertools import zip_longest
from typing import TYPE_CHECKING

from rmqtool.javacompat import parse_int, parse_long
from rmqtool.topics import (
    DEAD_LETTER_PREFIX,
    EXPLAINED_TOPICS,
    HALF_TOPIC,
    OP_TOPIC,
    RETRY_PREFIX,
    ROCKSDB_HALF_TOPIC,
    ROCKSDB_OP_TOPIC,
    SCHEDULE_TOPIC,
    TIMER_TOPIC,
    lite_topic_of,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from rmqtool.scan.records import Record

Explanation = dict[str, object]
"""A JSON object; its ``kind`` says which other members it has."""


def explanation_of(record: Record, tags_code: int) -> Explanation | None:
    """Say what a message of the broker's own is about, or one that lies in light queues, too.

    ``half`` and ``delay`` name the topic and queue that a message is meant for, ``timer`` also; ``op`` the
    half messages that it ends, by queue offset or by log offset; ``retry`` and ``dead-letter`` the group;
    ``multi-dispatch`` the other queues.

    Args:
        record: The message.
        tags_code: What its consume queue holds, for a delayed message the time of delivery in ms.

    Returns:
        None for an ordinary message.
    """
    topic = record.topic
    if not topic.startswith(EXPLAINED_TOPICS):
        return _multi_dispatch(record.properties) if "INNER_MULTI_DISPATCH" in record.properties else None
    if topic.startswith((RETRY_PREFIX, DEAD_LETTER_PREFIX)):
        return _group(record)
    explain = _EXPLAINED.get(topic)
    return None if explain is None else explain(record, tags_code)


def _meant_for(record: Record) -> Explanation:
    properties = record.properties
    return {"topic": properties.get("REAL_TOPIC"), "queueId": parse_int(properties.get("REAL_QID", ""))}


def _half(record: Record, _: int) -> Explanation:
    return {"kind": "half", **_meant_for(record)}


def _op(record: Record, _: int) -> Explanation:
    """Read the queue offsets in the body: one (4.x), or many with commas (5.x)."""
    pieces = record.body.decode("ascii", "replace").split(",")
    offsets = [offset for offset in map(parse_long, pieces) if offset is not None]
    return {"kind": "op", "queueOffsets": offsets}


def _rocksdb_op(record: Record, _: int) -> Explanation:
    """Name the one half message that ends, by its log offset (``TransMessageRocksDBStore``, 5.4.0+)."""
    offset = parse_long(record.properties.get("TRANS_OFFSET", ""))
    return {"kind": "op", "topic": record.properties.get("REAL_TOPIC"), "physicalOffset": offset}


def _delay(record: Record, tags_code: int) -> Explanation | None:
    level = parse_int(record.properties.get("DELAY", ""))
    if level is None:
        return None
    due = tags_code if level > 0 else None
    return {"kind": "delay", "level": level, **_meant_for(record), "deliverTimestamp": due}


def _timer(record: Record, _: int) -> Explanation:
    due = parse_long(record.properties.get("TIMER_OUT_MS", ""))
    return {"kind": "timer", **_meant_for(record), "deliverTimestamp": due}


def _group(record: Record) -> Explanation:
    is_retry = record.topic.startswith(RETRY_PREFIX)
    return {
        "kind": "retry" if is_retry else "dead-letter",
        "group": record.topic.removeprefix(RETRY_PREFIX if is_retry else DEAD_LETTER_PREFIX),
        "topic": record.properties.get("RETRY_TOPIC"),
        "reconsumeTimes": record.head.reconsume_times,
    }


def _multi_dispatch(properties: dict[str, str]) -> Explanation:
    names = properties["INNER_MULTI_DISPATCH"].split(",")
    offsets = properties.get("INNER_MULTI_QUEUE_OFFSET", "").split(",")[: len(names)]
    pairs = zip_longest(names, map(parse_long, offsets))
    return {"kind": "multi-dispatch", "queues": [_queue(one, two) for one, two in pairs]}


def _queue(name: str, offset: int | None) -> Explanation:
    """Name a further queue; of a lite topic's, also whose and which it is (``LiteUtil``, 5.5.0+)."""
    lite = lite_topic_of(name)
    told = {} if lite is None else {"parentTopic": lite[0], "liteTopic": lite[1]}
    return {"topic": name, "queueOffset": offset, **told}


_EXPLAINED: dict[str, Callable[[Record, int], Explanation | None]] = {
    HALF_TOPIC: _half,
    OP_TOPIC: _op,
    ROCKSDB_HALF_TOPIC: _half,
    ROCKSDB_OP_TOPIC: _rocksdb_op,
    SCHEDULE_TOPIC: _delay,
    TIMER_TOPIC: _timer,
}
