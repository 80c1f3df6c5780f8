"""Messages that wait for their time: by delay level and in the timer, and the state of a single one."""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import chain
from typing import TYPE_CHECKING, ClassVar

from rmqtool.derived.positions import delay_offsets
from rmqtool.derived.queues import find_queue
from rmqtool.derived.timer import timer_checkpoint, timer_slots
from rmqtool.findings import counted
from rmqtool.javacompat import parse_long
from rmqtool.lookup.delivery import SoundIndex, count_deliveries, never_delivered
from rmqtool.rows.messages import tags_code
from rmqtool.scan.records import record_at
from rmqtool.times import utc_text
from rmqtool.topics import SCHEDULE_TOPIC, TIMER_TOPIC

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rmqtool.scan.records import Record
    from rmqtool.store import Store

_OLDEST = 10


@dataclass(frozen=True, slots=True)
class WaitingMessage:
    """One message that waits.

    Attributes:
        queue_offset: In the queue of its level.
        physical_offset: Place in the log.
        topic: Of its delivery; None where the log does not have it.
        uniq_key: Its unique key; None without one.
        store_timestamp_ms: When it was stored to wait; None where the log does not have it.
        due_ms: When it is delivered.
    """

    queue_offset: int
    physical_offset: int
    topic: str | None
    uniq_key: str | None
    store_timestamp_ms: int | None
    due_ms: int


@dataclass(frozen=True, slots=True)
class DelayedMessages:
    """The messages of one delay level, or of the timer.

    Attributes:
        reader: ``delay level N`` or ``timer``.
        delay_ms: Delay of the level; None of the timer.
        offset: Next queue offset that the level delivers, or that the timer reads.
        max_offset: End of its queue.
        waiting: Messages that were not delivered.
        overdue: Those of them whose time has come.
        since_ms: Time of the first of these; None without one.
        next_ms: Time of the first of the others; None without one.
        passed_over: Messages below the offset that were never delivered, and never are; of a long queue,
            among the newest. None of the timer, and where the index does not show it.
        twice: Messages below the offset with more than one copy in the log, likewise.
        oldest: The 10 messages that are due first; none of the timer.
    """

    type: ClassVar = "delayed"
    reader: str
    delay_ms: int | None
    offset: int
    max_offset: int
    waiting: int
    overdue: int
    since_ms: int | None
    next_ms: int | None
    passed_over: int | None = None
    twice: int | None = None
    oldest: list[WaitingMessage] = field(default_factory=list)


def delayed_messages(store: Store, now_ms: int) -> Iterator[DelayedMessages]:
    """Yield the levels that have a queue, then the timer, if it has progress or a wheel.

    Raises:
        EnvironmentFailureError: A file cannot be read.
    """
    offsets, index = delay_offsets(store), SoundIndex(store)
    for level, delay_ms in store.settings.delay_levels.delay_ms.items():
        queue_id = level - 1
        offset = offsets.get(queue_id, 0)
        waiting = _waiting(store, queue_id, offset)
        if waiting is None:
            continue
        end, messages = waiting
        copies = count_deliveries(index, queue_id, offset)
        yield DelayedMessages(
            f"delay level {level}",
            delay_ms,
            offset,
            end,
            *_times([(due_ms, 1) for due_ms, _, _ in messages], now_ms),
            None if copies is None else copies.count(0),
            None if copies is None else sum(number > 1 for number in copies),
            [_message(store, *message) for message in messages[:_OLDEST]],
        )
    yield from _of_timer(store, now_ms)


def state_of(index: SoundIndex, record: Record, now_ms: int) -> str | None:
    """Return whether a message that waits is due, overdue, delivered or passed over; None for any other."""
    store, properties = index.store, record.properties
    if record.topic == SCHEDULE_TOPIC:
        due_ms, number = tags_code(record, store.settings.delay_levels), record.head.queue_offset
        has_come = number < delay_offsets(store).get(record.head.queue_id, 0)
    elif record.topic == TIMER_TOPIC and (due := parse_long(properties.get("TIMER_OUT_MS", ""))) is not None:
        progress = timer_checkpoint(store.config)
        due_ms, has_come = due, progress is not None and progress.last_read_time_ms >= due
    else:
        return None
    topic = properties.get("REAL_TOPIC", "its topic")
    copies = index.delivered([record])
    if has_come and copies is None:
        return f"due {utc_text(due_ms)}, and its level or the timer is past it; delivered or not is unknown"
    if has_come and (never := never_delivered(index, record)) is not None:
        return never
    if copies is not None and copies[0]:
        times = counted(len(copies[0]), "copy", "copies")
        return f"delivered: {times} in {topic}, the first at log offset {copies[0][0].physical_offset}"
    late = f"overdue since {utc_text(due_ms)}" if due_ms <= now_ms else f"due {utc_text(due_ms)}"
    return f"not delivered to {topic} yet, {late}"


def _times(due: list[tuple[int, int]], now_ms: int) -> tuple[int, int, int | None, int | None]:
    """Return the messages of some times, those overdue, and the first time of these and of the others."""
    overdue = [(due_ms, messages) for due_ms, messages in due if due_ms <= now_ms]
    since_ms = min((due_ms for due_ms, _ in overdue), default=None)
    next_ms = min((due_ms for due_ms, _ in due if due_ms > now_ms), default=None)
    return sum(number for _, number in due), sum(number for _, number in overdue), since_ms, next_ms


def _waiting(store: Store, queue_id: int, offset: int) -> tuple[int, list[tuple[int, int, int]]] | None:
    """Return a level's end and its waiting messages by due time: that, queue offset and physical offset.

    The tags code of a unit is the time of the delivery (``ConsumeQueue#putMessagePositionInfoWrapper``,
    ``ScheduleMessageService#computeDeliverTimestamp``; 4.9.8, 5.3.3, 5.5.1).
    """
    queue = find_queue(store, SCHEDULE_TOPIC, queue_id)
    if queue is None or not queue.file_count:
        return None
    low, end = queue.bounds(store.commitlog.start)
    chunks = list(queue.units(max(offset, low), end)) if end > max(offset, low) else []
    queue.close()
    columns = (
        zip(units.tags_codes.tolist(), units.keys.tolist(), units.physical_offsets.tolist(), strict=True)
        for units in chunks
    )
    return end, sorted(chain.from_iterable(columns))


def _message(store: Store, due_ms: int, queue_offset: int, physical_offset: int) -> WaitingMessage:
    record = record_at(store.commitlog, physical_offset)
    if record is None:
        return WaitingMessage(queue_offset, physical_offset, None, None, None, due_ms)
    names = record.properties.get("REAL_TOPIC"), record.properties.get("UNIQ_KEY")
    return WaitingMessage(queue_offset, physical_offset, *names, record.head.store_timestamp_ms, due_ms)


def _of_timer(store: Store, now_ms: int) -> Iterator[DelayedMessages]:
    """Yield what the wheel holds beyond the last delivery; what the timer has not read counts as waiting."""
    if store.root is None:
        return
    progress, slots = timer_checkpoint(store.config), timer_slots(store.root)
    if progress is None and not slots:
        return
    queue = find_queue(store, TIMER_TOPIC, 0)
    end = 0 if queue is None else queue.bounds(store.commitlog.start).max_offset
    if queue is not None:
        queue.close()
    done_ms = 0 if progress is None else progress.last_read_time_ms
    offset = 0 if progress is None else progress.last_timer_queue_offset
    precision = int(str(store.settings["timerPrecisionMs"].value))
    due = [(time * precision, messages) for time, _, messages in slots if time * precision > done_ms]
    waiting, overdue, since_ms, next_ms = _times(due, now_ms)
    waiting += max(end - offset, 0)
    yield DelayedMessages("timer", None, offset, end, waiting, overdue, since_ms, next_ms)
