"""Expiry of messages before a log's first byte, by what is left of them.

A store shows the clock by the last sign of its broker, and the deletions by messages that lay before the
log's first byte: units and queue offsets are left of them.
"""

from __future__ import annotations

from bisect import bisect_left
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from rmqtool.derived.index_files import index_headers
from rmqtool.derived.queues import queues_of
from rmqtool.errors import DeniedError
from rmqtool.findings import Finding, FindingLog, Severity, codes, counted
from rmqtool.formats.consumequeue import PREBLANK
from rmqtool.retention.deletion import HOUR_MS
from rmqtool.scan.record_walk import first_record
from rmqtool.store.broker_conf import Origin
from rmqtool.times import utc_text
from rmqtool.topics import LMQ_PREFIX

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from rmqtool.derived.queues import Queue
    from rmqtool.reput.queues import QueuePlan
    from rmqtool.store import Store


_NS_PER_MS = 1_000_000
_WRITTEN_WHILE_RUNNING = ("checkpoint", "abort", "config/consumerOffset.json", "config/delayOffset.json")


class HeadOfLog(NamedTuple):
    """Facts about a log's beginning: ``units`` that lead to messages before it, ``queue_files`` before it.

    ``messages`` are those before it of each queue that had some, by the queue offset of its first record.
    """

    start: int
    latest_ms: int | None
    messages: Sequence[int]
    units: int
    queue_files: int


def of_findings(
    start: int, latest_ms: int | None, plans: Sequence[QueuePlan], findings: FindingLog
) -> HeadOfLog:
    """Return the facts that the checks of queues found."""
    counts = findings.counts
    left = counts.get(codes.CQ_EXPIRED.code, 0), counts.get(codes.CQ_MIN_WRONG.code, 0)
    return HeadOfLog(start, latest_ms, _of_plans(plans), *left)


def _of_plans(plans: Sequence[QueuePlan]) -> list[int]:
    """Return how many messages of each queue lay before its first record; light queues have no own ones."""
    own = (plan.shape.first_queue_offset for plan in plans if not plan.topic.startswith(LMQ_PREFIX))
    return [first for first in own if first > 0]


def of_queues(store: Store, latest_ms: int | None, plans: Sequence[QueuePlan] | None = None) -> HeadOfLog:
    """Return the facts that the bounds of the present queues show, also about messages where plans do not."""
    start, units, files, firsts = store.commitlog.start, 0, 0, list[int]()
    for queue in queues_of(store) if start > 0 else ():
        low, high = queue.bounds(start)
        if queue.file_count:
            numbers = range(queue.first_number, low)
            units += len(numbers) - bisect_left(numbers, True, key=partial(_is_written, queue))
            places = [queue.place(number) for number in (queue.first_number, low)]
            files += high > low and len({place and place.label for place in places}) > 1
            if low > 0 and not (queue.topic or "").startswith(LMQ_PREFIX):
                firsts.append(low)
        queue.close()
    return HeadOfLog(start, latest_ms, firsts if plans is None else _of_plans(plans), units, files)


def _is_written(queue: Queue, number: int) -> bool:
    return queue.unit(number) != PREBLANK


def check_expiry(store: Store, head: HeadOfLog) -> Iterator[Finding]:
    """Yield how many messages lay before the log's first byte and whether they can have expired.

    One of several directories of a log does not show where the log begins.
    """
    if (
        head.start <= 0
        or store.root is None
        or any(feature.code is codes.ST_ONE_PATH for feature in store.unread)
    ):
        return
    severity, sentence = _judged(store, head, _whole_files(store, head))
    yield Finding(
        code=codes.CL_EXPIRED,
        file=store.log.segments[0].label,
        physical_offset=head.start,
        message=f"{_before(head)}. {sentence}",
        severity_override=severity,
    )


def _before(head: HeadOfLog) -> str:
    """Return how many messages there were, by the queue offsets of the first records and by units left."""
    messages, queues = counted(sum(head.messages), "message"), counted(len(head.messages), "queue")
    left = counted(head.units, "unit still leads", "units still lead")
    place = f"before {head.start}, the log's first byte"
    return f"{messages} of {queues} lay {place}, by the queue offsets of what is left; {left} there"


def _whole_files(store: Store, head: HeadOfLog) -> int:
    """Return how many queue and index files lie wholly before the log, which a broker deletes with it."""
    count = head.queue_files
    with suppress(DeniedError):  # IO-DENIED of level 0 says so
        for header in index_headers(store.index_files[:-1]):
            count += header.index_count > 1 and header.end_phy_offset < head.start
    return count


def _judged(store: Store, head: HeadOfLog, whole_files: int) -> tuple[Severity, str]:
    """Compare the age of the first record, than which all before it were older, with fileReservedTime."""
    reserved = store.settings["fileReservedTime"]
    hours = int(str(reserved.value))
    files = counted(whole_files, "file of queues and index is", "files of queues and index are")
    left = f"{files} there that a broker deletes with it" if whole_files else ""
    first = first_record(store.log.segments)
    if first is None:
        return (
            Severity.WARNING,
            f"The log does not begin with a record whose age could tell of expiry; {left}".rstrip("; "),
        )
    since_ms, sign_ms = clock = _clock(store, first.head.store_timestamp_ms, head)
    age = f"The first record there was stored {utc_text(since_ms)}, {clock.age_ms / HOUR_MS:.1f} h"
    age += f" before the broker's last sign, {utc_text(sign_ms)}"
    limit = f"fileReservedTime is {hours} h" + ("" if reserved.origin is Origin.GIVEN else " by default")
    if clock.age_ms >= hours * HOUR_MS:
        severity = Severity.WARNING if whole_files else Severity.INFO
        return severity, f"{age}; {limit}: they may have expired by age{left and f', but {left}'}"
    if whole_files:
        return Severity.ERROR, f"{age}; {limit}: they have not expired; {left}: no broker has deleted them"
    other = "a full disk deletes earlier, and a new slave begins where its master's last file does"
    return Severity.WARNING, f"{age}; {limit}: they have not expired by age; {other}"


class Clock(NamedTuple):
    """Time of a store's broker: when its oldest file began, and its last sign."""

    since_ms: int
    sign_ms: int

    @property
    def age_ms(self) -> int:
        """Age of the oldest file at the last sign."""
        return self.sign_ms - self.since_ms


def _clock(store: Store, first_ms: int, head: HeadOfLog) -> Clock:
    """Return the clock that shows the greater age: that of records, or that of files."""
    return max(
        Clock(first_ms, _last_record_ms(store, head)), _written_ms(store), key=lambda clock: clock.age_ms
    )


def _last_record_ms(store: Store, head: HeadOfLog) -> int:
    assert store.root is not None
    from rmqtool.recovery import Refusal  # few logs begin after 0
    from rmqtool.recovery.log_recovery import read_checkpoint

    checkpoint = read_checkpoint(store.root / "checkpoint")
    times = [0 if head.latest_ms is None else head.latest_ms]
    if not isinstance(checkpoint, Refusal):
        times += checkpoint.physic_msg_timestamp_ms, checkpoint.logics_msg_timestamp_ms
    return max(times)


def _written_ms(store: Store) -> Clock:
    """Return when the log's first file and the newest file of a running broker were written.

    A broker deletes by these times. They are compared with each other only: a copy may have new ones.
    """
    assert store.root is not None
    first = store.log.segments[0].path.status()
    statuses = [(store.root / name).status() for name in _WRITTEN_WHILE_RUNNING]
    newest = max((status.modified_ns for status in statuses if status is not None), default=0)
    return Clock(0, 0) if first is None else Clock(first.modified_ns // _NS_PER_MS, newest // _NS_PER_MS)
