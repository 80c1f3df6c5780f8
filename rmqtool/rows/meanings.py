"""Meaning of the broker's own messages, as fields.

Origin: ``TransactionalMessageUtil``, ``TransactionalMessageServiceImpl``, ``TopicValidator``, ``MixAll``,
``MessageConst`` (4.9.8, 5.3.3), ``TimerMessageStore`` (5.0.0+), ``PopCheckPoint``, ``AckMsg`` (5.5.1).
"""

from __future__ import annotations

import json
from itertools import zip_longest
from typing import TYPE_CHECKING

from rmqtool.formats.message import LOST_PROPERTY
from rmqtool.javacompat import parse_int, parse_long, wrap_long
from rmqtool.topics import (
    DEAD_LETTER_PREFIX,
    EXPLAINED_TOPICS,
    HALF_TOPIC,
    OP_TOPIC,
    RETRY_PREFIX,
    REVIVE_PREFIX,
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
    """Return the meaning of a message of the broker's own, or of one in light queues; None for any other.

    ``half`` and ``delay`` name the topic and queue that a message is meant for, ``timer`` also; ``op`` the
    half messages that it ends, by queue offset or by log offset; ``retry`` and ``dead-letter`` the group;
    ``pop-check-point`` and ``pop-ack`` the messages that a group received and has acknowledged;
    ``multi-dispatch`` the other queues; ``placeholder`` stands for a lost message.
    For a delayed message ``tags_code`` is the time of delivery in ms.
    """
    topic = record.topic
    if LOST_PROPERTY in record.properties:
        return {"kind": "placeholder"}
    if not topic.startswith(EXPLAINED_TOPICS):
        return _multi_dispatch(record.properties) if "INNER_MULTI_DISPATCH" in record.properties else None
    if topic.startswith((RETRY_PREFIX, DEAD_LETTER_PREFIX)):
        return _group(record)
    if topic.startswith(REVIVE_PREFIX):
        return _pop(record)
    explain = _EXPLAINED.get(topic)
    return None if explain is None else explain(record, tags_code)


def _meant_for(record: Record) -> Explanation:
    properties = record.properties
    return {"topic": properties.get("REAL_TOPIC"), "queueId": parse_int(properties.get("REAL_QID", ""))}


def _half(record: Record, _: int) -> Explanation:
    return {"kind": "half", **_meant_for(record)}


def _op(record: Record, _: int) -> Explanation:
    """Read the queue offsets in the body: one (4.x), or many with commas (5.x); a salvage's names none."""
    if record.body.startswith(b"-"):
        return {"kind": "placeholder"}
    pieces = record.body.decode("ascii", "replace").split(",")
    offsets = [offset for offset in map(parse_long, pieces) if offset is not None]
    return {"kind": "op", "queueOffsets": offsets}


def _rocksdb_op(record: Record, _: int) -> Explanation:
    """Name the one half message that it ends, by its log offset (``TransMessageRocksDBStore``, 5.4.0+)."""
    offset = parse_long(record.properties.get("TRANS_OFFSET", ""))
    return {"kind": "op", "topic": record.properties.get("REAL_TOPIC"), "physicalOffset": offset}


def _delay(record: Record, tags_code: int) -> Explanation | None:
    level = parse_int(record.properties.get("DELAY", ""))
    if level is None:
        return None
    due = tags_code if level > 0 else None
    return {"kind": "delay", "level": level, **_meant_for(record), "deliverTimestamp": due}


def _timer(record: Record, _: int) -> Explanation:
    """A message that waits longer than the wheel reaches is rolled; RocksDB's timer labels it so (5.4.0+)."""
    due = parse_long(record.properties.get("TIMER_OUT_MS", ""))
    label = record.properties.get("TIMER_ROLL_LABEL")
    extra = {} if label is None else {"rollLabel": label}
    return {"kind": "timer", **_meant_for(record), "deliverTimestamp": due, **extra}


def _group(record: Record) -> Explanation:
    """Name the group; one that got a message by pop names itself in ORIGIN_GROUP, too (5.4.0+)."""
    is_retry = record.topic.startswith(RETRY_PREFIX)
    origin = record.properties.get("ORIGIN_GROUP")
    extra = {} if origin is None else {"originGroup": origin}
    return {
        "kind": "retry" if is_retry else "dead-letter",
        "group": record.topic.removeprefix(RETRY_PREFIX if is_retry else DEAD_LETTER_PREFIX),
        "topic": record.properties.get("RETRY_TOPIC"),
        "reconsumeTimes": record.head.reconsume_times,
        **extra,
    }


def _pop(record: Record) -> Explanation | None:
    """Read a check point of pop, by its tag ``ck``, or the acknowledgement of one: ``ack``, ``bAck``.

    ``sp`` of a check point, 5.5.0+, is whether it is suspended.
    """
    read = _POP.get(record.properties.get("TAGS", ""))
    body = None if read is None else json_body(record)
    return None if read is None or body is None else read(body)


def json_body(record: Record) -> dict[str, object] | None:
    """Return the object in a body; None if it holds none."""
    try:
        document = json.loads(record.body)
    except (ValueError, RecursionError):
        return None
    return document if isinstance(document, dict) else None


def _popped(body: dict[str, object]) -> Explanation:
    return {
        "group": _text(body.get("c")),
        "topic": _text(body.get("t")),
        "queueId": java_long(body.get("q")),
    }


def _check_point(body: dict[str, object]) -> Explanation:
    suspended = {"suspended": body["sp"]} if isinstance(body.get("sp"), bool) else {}
    popped, invisible = java_long(body.get("pt")), java_long(body.get("it"))
    due = None if popped is None or invisible is None else wrap_long(popped + invisible)
    return {
        "kind": "pop-check-point",
        **_popped(body),
        "queueOffset": java_long(body.get("so")),
        "count": java_long(body.get("n")),
        "reviveTimestamp": due,
        **suspended,
    }


def _acknowledged(body: dict[str, object]) -> Explanation:
    return {"kind": "pop-ack", **_popped(body), "queueOffsets": acknowledged_offsets(body)}


def acknowledged_offsets(body: dict[str, object]) -> list[int]:
    """Return the queue offsets in an acknowledgement of pop: one, or many."""
    many = body.get("aol")
    offsets = map(java_long, many if isinstance(many, list) else [body.get("ao")])
    return [offset for offset in offsets if offset is not None]


def _text(value: object) -> str | None:
    return value if isinstance(value, str) else None


def java_long(value: object) -> int | None:
    """Return a number that a Java long can hold, None for anything else."""
    if not isinstance(value, int) or isinstance(value, bool):
        return None
    return value if wrap_long(value) == value else None


def _multi_dispatch(properties: dict[str, str]) -> Explanation:
    names = properties["INNER_MULTI_DISPATCH"].split(",")
    offsets = properties.get("INNER_MULTI_QUEUE_OFFSET", "").split(",")[: len(names)]
    pairs = zip_longest(names, map(parse_long, offsets))
    return {"kind": "multi-dispatch", "queues": [_queue(name, offset) for name, offset in pairs]}


def _queue(name: str, offset: int | None) -> Explanation:
    """Name a further queue; of a lite topic's, also whose and which it is (``LiteUtil``, 5.5.0+)."""
    lite = lite_topic_of(name)
    extra = {} if lite is None else {"parentTopic": lite[0], "liteTopic": lite[1]}
    return {"topic": name, "queueOffset": offset, **extra}


_POP: dict[str, Callable[[dict[str, object]], Explanation]] = {
    "ck": _check_point,
    "ack": _acknowledged,
    "bAck": _acknowledged,
}

_EXPLAINED: dict[str, Callable[[Record, int], Explanation | None]] = {
    HALF_TOPIC: _half,
    OP_TOPIC: _op,
    ROCKSDB_HALF_TOPIC: _half,
    ROCKSDB_OP_TOPIC: _rocksdb_op,
    SCHEDULE_TOPIC: _delay,
    TIMER_TOPIC: _timer,
}
