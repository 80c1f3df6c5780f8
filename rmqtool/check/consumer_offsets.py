"""Check of consumer offsets (of groups, light queues, delay levels, timer) against their queues' bounds."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rmqtool.derived.consumed_offsets import consumed_offsets
from rmqtool.derived.queue_bounds import Bounds, queue_bounds
from rmqtool.errors import DeniedError
from rmqtool.findings import Finding, FindingLog
from rmqtool.findings.places import OF_AHEAD, OF_BEHIND
from rmqtool.store.kinds import UNIT_QUEUE_KINDS

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rmqtool.derived.consumed_offsets import Consumed
    from rmqtool.store import QueueFiles, Store

_DELAY_FILE = "config/delayOffset.json"
_DELAY_REMEDY = (
    "Brokers before 4.9.2 (PR 3358) deliver nothing more of the level. Stop the broker, and set the "
    "level's number in delayOffset.json, and in its .bak, to {}, the queue's end. Later brokers continue "
    "there by themselves."
)


def check_offsets(store: Store, max_findings: int) -> FindingLog:
    """Check the offsets in ``config/``.

    Offsets of queues without a directory are skipped: they outlive a deleted topic. Files that cannot be
    decoded are level 0's.

    Java: ``ConsumerOffsetManager``, ``LmqConsumerOffsetManager``, ``ScheduleMessageService`` (4.9.8, 5.3.3).
    """
    log = FindingLog(max_findings)
    bounds: dict[tuple[str, int], Bounds | None] = {}
    for consumed in consumed_offsets(store):
        key = consumed.topic, consumed.queue_id
        if key not in bounds:
            bounds[key] = _bounds(store, *key)
        found = bounds[key]
        if found is not None:
            log.extend(_finding(consumed, found))
    return log


def _bounds(store: Store, topic: str, queue_id: int) -> Bounds | None:
    queue = _queue(store, topic, queue_id)
    if queue is None or not _has_files(queue):
        return None
    try:
        return queue_bounds(queue, store.log.start)
    except DeniedError:
        return None  # its check says so
    finally:
        queue.files.close()


def _has_files(queue: QueueFiles) -> bool:
    try:
        return bool(len(queue.files))
    except DeniedError:
        return False  # IO-DENIED of level 0 says so


def _queue(store: Store, topic: str, queue_id: int) -> QueueFiles | None:
    queues = (store.queue(topic, queue_id, kind) for kind in UNIT_QUEUE_KINDS)
    return next((queue for queue in queues if queue is not None), None)


def _finding(consumed: Consumed, bounds: Bounds) -> Iterator[Finding]:
    if bounds.min_offset <= consumed.offset <= bounds.max_offset:
        return
    is_ahead = consumed.offset > bounds.max_offset
    limit = bounds.max_offset if is_ahead else bounds.min_offset
    where = "beyond the queue's end" if is_ahead else "below the queue's start"
    queue = f"{consumed.topic}/{consumed.queue_id}"
    yield Finding(
        code=OF_AHEAD if is_ahead else OF_BEHIND,
        file=consumed.file,
        topic=consumed.topic,
        queue_id=consumed.queue_id,
        queue_offset=consumed.offset,
        expected=limit,
        observed=consumed.offset,
        remedy_override=_DELAY_REMEDY.format(limit) if is_ahead and consumed.file == _DELAY_FILE else None,
        message=f"{consumed.reader} stands at {consumed.offset} in {queue}, {where}, {limit}",
    )
