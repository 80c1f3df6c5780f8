"""Queues that no broker would have: what is wrong with a topic's name or a queue id in a record."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rmqtool.findings import Finding, Severity
from rmqtool.findings.records import CL_QUEUE_ID, CL_TOPIC_NAME
from rmqtool.javacompat import decode_utf8
from rmqtool.store.names import component_problem
from rmqtool.topics import DEAD_LETTER_PREFIX, LMQ_PREFIX, RETRY_PREFIX

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from rmqtool.store.segments import FileQueue

_LEGAL = frozenset(b"%|-_0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ")
"""``TopicValidator#isTopicOrGroupIllegal`` (4.9.8, 5.3.3)."""

_LONGEST_TOPIC = 127
_LONGEST_RETRY_TOPIC = 255
_LONG_PREFIXES = (RETRY_PREFIX, DEAD_LETTER_PREFIX)
_HIGHEST_QUEUE_ID = 0xFFFF  # far more queues than any topic has


def is_illegal(raw_topic: bytes, queue_id: int) -> bool:
    """Whether something is wrong with a queue."""
    return _topic_problem(raw_topic) is not None or not 0 <= queue_id <= _HIGHEST_QUEUE_ID


def illegal_queue_findings(
    log: FileQueue, illegal_queues: Mapping[tuple[bytes, int], int]
) -> Iterator[Finding]:
    """Yield a finding for each such topic, and for each such queue id of a topic.

    Args:
        log: the commit log.
        illegal_queues: physical offset of the first record of each queue, in log order.
    """
    told: set[bytes] = set()
    for (raw_topic, queue_id), log_offset in illegal_queues.items():
        problem = _topic_problem(raw_topic)
        if problem is not None and raw_topic not in told:
            told.add(raw_topic)
            message, severity = problem
            yield _finding(log, log_offset, raw_topic, queue_id, message, severity)
        if not 0 <= queue_id <= _HIGHEST_QUEUE_ID:
            yield _finding(log, log_offset, raw_topic, queue_id, f"queue id {queue_id}", None)


def _topic_problem(raw_topic: bytes) -> tuple[str, Severity] | None:
    topic = decode_utf8(raw_topic)
    unsafe = component_problem(topic)
    if unsafe is not None:
        return f"the topic's name cannot be a directory: {unsafe}", Severity.ERROR
    if topic.startswith(LMQ_PREFIX):
        return None
    if not _LEGAL.issuperset(raw_topic):
        return "no broker lets a client create a topic of that name", Severity.WARNING
    longest = _LONGEST_RETRY_TOPIC if topic.startswith(_LONG_PREFIXES) else _LONGEST_TOPIC
    if len(raw_topic) > longest:
        return f"the topic has {len(raw_topic)} bytes, more than a broker allows", Severity.WARNING
    return None


def _finding(
    log: FileQueue, log_offset: int, raw_topic: bytes, queue_id: int, message: str, severity: Severity | None
) -> Finding:
    segment = log.segment_at(log_offset)
    return Finding(
        code=CL_QUEUE_ID if severity is None else CL_TOPIC_NAME,
        file=None if segment is None else segment.label,
        position=None if segment is None else log_offset - segment.start,
        topic=decode_utf8(raw_topic),
        queue_id=queue_id,
        physical_offset=log_offset,
        message=message,
        severity_override=severity,
    )
