"""Consumer offsets, those of light queues, of delay levels and of the timer, against their queues' bounds."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, NamedTuple

from rmqtool.derived.queue_bounds import Bounds, queue_bounds
from rmqtool.errors import DeniedError
from rmqtool.findings import Finding, FindingLog
from rmqtool.findings.places import OF_AHEAD, OF_BEHIND
from rmqtool.formats.timer import TIMER_CHECKPOINTS
from rmqtool.store.broker_json import ConfigFileError, load_broker_json
from rmqtool.store.kinds import UNIT_QUEUE_KINDS
from rmqtool.topics import HALF_TOPIC, SCHEDULE_TOPIC, TIMER_TOPIC

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rmqtool.store import QueueFiles, Store

_SEPARATOR = "@"
_TABLES = ("offsetTable", "lmqOffsetTable")
_CONSUMERS = ("consumerOffset.json", "lmqConsumerOffset.json")
_DELAYS = "delayOffset.json"
_CHECKER_GROUP = "CID_RMQ_SYS_TRANS"  # MixAll.CID_SYS_RMQ_TRANS
_DELAY_FILE = f"config/{_DELAYS}"
_DELAY_REMEDY = (
    "Brokers before 4.9.2 (PR 3358) deliver nothing more of the level: with the broker stopped, set the"
    " level's number in delayOffset.json, and in its .bak, to {}, the queue's end. Later ones go on there by"
    " themselves."
)
TIMER_CHECKPOINT = "timercheck"


class Consumed(NamedTuple):
    """How far somebody has come in a queue.

    Attributes:
        file: that says so, relative to the store.
        topic: of the queue.
        queue_id: of the queue.
        reader: group, or delay level, as a sentence begins.
        offset: next queue offset to be read.
    """

    file: str
    topic: str
    queue_id: int
    reader: str
    offset: int


def check_offsets(store: Store, max_findings: int) -> FindingLog:
    """Check the offsets in ``config/``.

    Offsets of queues that have no directory are passed over: a deleted topic's outlive it. Files that cannot
    be decoded are level 0's.

    Java: ``ConsumerOffsetManager``, ``LmqConsumerOffsetManager``, ``ScheduleMessageService`` (4.9.8, 5.3.3).

    Raises:
        EnvironmentFailureError: a queue's directory or file cannot be read.
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


def consumed_offsets(store: Store) -> Iterator[Consumed]:
    """Yield the offsets of all groups, delay levels and the timer that are there; negative ones mean none.

    What has not the shape that a broker writes is passed over.
    """
    for name in _CONSUMERS:
        yield from offsets_in(f"config/{name}", _document(store, name))
    for table in _tables(_document(store, _DELAYS)):
        for level, offset in table.items():
            if level.isdecimal() and int(level) > 0 and isinstance(offset, int) and offset >= 0:
                place = f"config/{_DELAYS}", SCHEDULE_TOPIC, int(level) - 1
                yield Consumed(*place, f"delay level {level}", offset)
    yield from _of_timer(store)


def _of_timer(store: Store) -> Iterator[Consumed]:
    """Yield how far the timer has read its topic (``TimerMessageStore#enqueue``, 5.0.0+)."""
    path = None if store.config is None else store.config / TIMER_CHECKPOINT
    if path is None or not path.is_regular():
        return
    found = TIMER_CHECKPOINTS.decode(path.read_head(TIMER_CHECKPOINTS.size, []))
    if found is not None and found.last_timer_queue_offset >= 0:
        yield Consumed(f"config/{TIMER_CHECKPOINT}", TIMER_TOPIC, 0, "timer", found.last_timer_queue_offset)


def checked_half_offsets(store: Store) -> dict[int, int]:
    """Return by half queue how far ``TransactionalMessageServiceImpl#check`` has come (4.9.8, 5.3.3)."""
    reader = f"group {_CHECKER_GROUP}"
    consumed = (one for one in consumed_offsets(store) if one.topic == HALF_TOPIC and one.reader == reader)
    return {one.queue_id: one.offset for one in consumed}


def offsets_in(file: str, document: object) -> Iterator[Consumed]:
    """Yield the offsets of groups in what was read of a file of them."""
    for table in _tables(document):
        for key, value in table.items():
            yield from _of_group(file, key, value)


def _document(store: Store, name: str) -> object:
    if store.config is not None:
        with suppress(ConfigFileError):
            return load_broker_json(store.config / name)
    return None


def _tables(document: object) -> Iterator[dict[str, object]]:
    for table in _TABLES:
        content = document.get(table) if isinstance(document, dict) else None
        if isinstance(content, dict):
            yield content


def _of_group(file: str, key: str, value: object) -> Iterator[Consumed]:
    """Yield the offsets of a ``topic@group``: by queue, or one number for a light queue's only queue."""
    topic, separator, group = key.rpartition(_SEPARATOR)
    if not separator:
        return
    offsets = value if isinstance(value, dict) else {"0": value}
    for queue_id, offset in offsets.items():
        if queue_id.isdecimal() and isinstance(offset, int) and offset >= 0:
            yield Consumed(file, topic, int(queue_id), f"group {group}", offset)


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
