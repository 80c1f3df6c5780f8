"""Bounds of queues and index, and how far they end before the log's end."""

from __future__ import annotations

from bisect import bisect_left
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

from rmqtool.derived.index_files import index_headers
from rmqtool.derived.queues import queues_of
from rmqtool.dispatch.policy import NEVER
from rmqtool.errors import DeniedError, EnvironmentFailureError
from rmqtool.findings import Finding, FindingCode, FindingLog, Severity, codes, counted
from rmqtool.formats.checkpoint import CheckpointFields
from rmqtool.formats.consumequeue import PREBLANK
from rmqtool.formats.message import HEAD_SIZES, RECORD_MAGICS, decode_head
from rmqtool.recovery import Refusal, log_recovery
from rmqtool.scan.classify import FoundEdge
from rmqtool.scan.record_walk import find_log_end, first_record
from rmqtool.scan.records import find_true
from rmqtool.store.broker_conf import Origin
from rmqtool.store.kinds import DIRECTORY_NAMES, UNIT_QUEUE_KINDS, PathKind
from rmqtool.store.segments import FileQueue, Window
from rmqtool.times import utc_text
from rmqtool.topics import LMQ_PREFIX

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from rmqtool.check.log import LogResult
    from rmqtool.derived.queues import Queue
    from rmqtool.releases import Release
    from rmqtool.reput.queues import QueuePlan
    from rmqtool.store import Store


_HOUR_MS = 3_600_000
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


def of_findings(log: LogResult, findings: FindingLog) -> HeadOfLog:
    """Return the facts that the checks of queues found."""
    counts = findings.counts
    left = counts.get(codes.CQ_EXPIRED.code, 0), counts.get(codes.CQ_MIN_WRONG.code, 0)
    return HeadOfLog(log.log_start, log.latest_ms, _of_plans(log.plans), *left)


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
    if head.start <= 0 or store.root is None or any(one.code is codes.ST_ONE_PATH for one in store.unread):
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
    since_ms, sign_ms = max(
        (first.head.store_timestamp_ms, _last_record_ms(store, head)),
        _written_ms(store),
        key=lambda times: times[1] - times[0],
    )
    age = f"The first record there was stored {utc_text(since_ms)}, {(sign_ms - since_ms) / _HOUR_MS:.1f} h"
    age += f" before the broker's last sign, {utc_text(sign_ms)}"
    limit = f"fileReservedTime is {hours} h" + ("" if reserved.origin is Origin.GIVEN else " by default")
    if sign_ms - since_ms >= hours * _HOUR_MS:
        severity = Severity.WARNING if whole_files else Severity.INFO
        return severity, f"{age}; {limit}: they may have expired by age{left and f', but {left}'}"
    if whole_files:
        return Severity.ERROR, f"{age}; {limit}: they have not expired; {left}: no broker has deleted them"
    other = "a full disk deletes earlier, and a new slave begins where its master's last file does"
    return Severity.WARNING, f"{age}; {limit}: they have not expired by age; {other}"


def _last_record_ms(store: Store, head: HeadOfLog) -> int:
    assert store.root is not None
    checkpoint = log_recovery.read_checkpoint(store.root / "checkpoint")
    times = [0 if head.latest_ms is None else head.latest_ms]
    if not isinstance(checkpoint, Refusal):
        times += checkpoint.physic_msg_timestamp_ms, checkpoint.logics_msg_timestamp_ms
    return max(times)


def _written_ms(store: Store) -> tuple[int, int]:
    """Return when the log's first file and the newest file of a running broker were written.

    A broker deletes by these times. They are compared with each other only: a copy may have new ones.
    """
    assert store.root is not None
    first = store.log.segments[0].path.status()
    found = [(store.root / name).status() for name in _WRITTEN_WHILE_RUNNING]
    newest = max((status.modified_ns for status in found if status is not None), default=0)
    return (0, 0) if first is None else (first.modified_ns // _NS_PER_MS, newest // _NS_PER_MS)


_QUEUES = DIRECTORY_NAMES[PathKind.CONSUMEQUEUE]


def check_window(store: Store, *, damaged: bool) -> list[Finding]:
    """Return the records that the next start leaves without units, or would if the queues were deleted.

    ``damaged`` is whether the queues have errors, for which people delete them.
    """
    if store.kind is not PathKind.STORE or store.unread:
        return []
    window = log_recovery.window_of(store)
    if window is None or window.reach <= window.log_start:
        return []
    limits = f"the newest {window.files} of the log's {window.log_files} files (commitLogRecoverMaxNum)"
    starts = f"a start of {window.release.name} reads only {limits}"
    reach, end = window.reach, window.queue_end
    severity = None
    if end == log_recovery.NO_UNITS:
        severity = Severity.ERROR
        sentence = f"the queues are missing, and {starts}: records before {reach} would get no unit"
    elif end is not None:
        sentence = (
            f"the queues end at {end}, and {starts}: it reads on at {reach}; records between get no unit, and"
            " later ones of their queues land in wrong slots"
        )
        place = max(end, window.log_start)
        return [_of_window(codes.CQ_LAG, place, sentence, expected=reach, observed=end)]
    elif not damaged:
        return []
    else:
        sentence = (
            f"do not delete {_QUEUES}/ and let a start rebuild it: {starts}, so records before {reach} would"
            " get no unit, nor an index entry if index/ is deleted, too"
        )
    return [_of_window(codes.ST_WINDOW, reach, sentence, severity_override=severity)]


def _of_window(code: FindingCode, place: int, sentence: str, **fields: Any) -> Finding:  # noqa: ANN401
    return Finding(code=code, file=_QUEUES, physical_offset=place, message=sentence, **fields)


_LAST_INDEX_FILES = 2
_BEHIND_MS = 5_000
"""Delay of a dispatch, or a flush, under load."""


@dataclass(frozen=True, slots=True)
class Lag:
    """Records without units that a kill explains; all are physical offsets.

    Attributes:
        redispatched: from here on the next start dispatches again; a record before it gets no unit any more.
            None if no start does that, or it is not known.
        dispatched: records before it have been dispatched; nothing proves that of later ones.
        unflushed: units of records from here on may not have been flushed.
        behind: the same, of records whose dispatch nothing proves.
        is_controlled: controller mode: the broker dispatches no further than replicas have confirmed.
    """

    redispatched: int | None = None
    dispatched: int = 0
    unflushed: int = 0
    behind: int = 0
    flush_ms: int = 0
    is_controlled: bool = False


def lag_of(store: Store, log_end: int) -> Lag:
    """Return the lag that a kill explains in a store that was not stopped cleanly.

    ``log_end`` is the physical offset after the last intact record of the log.
    """
    root, log = store.root, store.log
    if root is None or not len(log):
        return Lag()
    found = log_recovery.read_checkpoint(root / "checkpoint")
    checkpoint = CheckpointFields() if isinstance(found, Refusal) else found
    redispatched = None if isinstance(found, Refusal) else _redispatched(store, checkpoint)
    last = find_log_end(FoundEdge.of(store)).last
    if last is None:
        return Lag(redispatched)
    dispatched = _dispatched(store, log_end, checkpoint)
    flush_ms = int(str(store.settings["flushConsumeQueueThoroughInterval"].value))
    last_ms = last.head.store_timestamp_ms
    behind = stored_from(log, log_end, last_ms - flush_ms - _BEHIND_MS)
    if 0 < checkpoint.logics_physical_offset <= log_end:  # 5.5.0+: where the last full flush ended
        unflushed = behind = max(behind, checkpoint.logics_physical_offset)
    else:
        unflushed = stored_from(log, log_end, last_ms - flush_ms)
    return Lag(redispatched, dispatched, unflushed, behind, flush_ms)


def confirmed_lag(store: Store, log_end: int, confirm_offset: int, lag: Lag) -> Lag:
    """Return the lag in a store of controller mode: only records that replicas confirmed are dispatched.

    The checkpoint's offset may be old; a unit proves that its record was confirmed, too.
    """
    ends = [end for end in _queue_ends(store) if end <= log_end]
    return replace(lag, dispatched=max([confirm_offset, *ends]), is_controlled=True)


def _redispatched(store: Store, checkpoint: CheckpointFields) -> int | None:
    if store.abort is None:
        return None
    # Records before the latest start of any candidate get no unit.
    return store.settings.worst_candidate(partial(_begin_of_start, store, checkpoint), lambda place: place)


def _begin_of_start(store: Store, checkpoint: CheckpointFields, release: Release) -> int | None:
    switches = log_recovery.RecoverySwitches.from_settings(store.settings.of_broker(release), release)
    with suppress(DeniedError):
        start = log_recovery.Start(release, True, checkpoint, 0, switches)
        _, recovery = log_recovery.first_file(store.log.segments, start)
        return recovery.physical_offset
    return None


def _dispatched(store: Store, log_end: int, checkpoint: CheckpointFields) -> int:
    """Return how far the dispatch has come for certain: by queues, index and checkpoint.

    Brokers create ``consumequeue/`` when they start (``DefaultMessageStore``, 4.9.8 to 5.5.1): where it is
    missing, a kill explains nothing.
    """
    queues = store.roots.get(PathKind.CONSUMEQUEUE)
    if queues is not None and queues.paths[0].kind() is None:
        return log_end
    ends = [store.log.start, *_queue_ends(store), *_index_ends(store)]
    reached = max(end for end in ends if end <= log_end)
    written_ms = checkpoint.logics_msg_timestamp_ms  # the store time of a record that was put
    if written_ms > 0 and reached < log_end:
        reached = max(reached, stored_from(store.log, log_end, written_ms))
    return reached


def _queue_ends(store: Store) -> Iterator[int]:
    """Yield where the record of each queue's last unit ends."""
    for kind in UNIT_QUEUE_KINDS:
        with suppress(EnvironmentFailureError):  # the check of that queue says so
            for queue in queues_of(store, kind):
                last = queue.last_unit()
                queue.close()
                yield 0 if last is None else last.physical_offset + last.size


def _index_ends(store: Store) -> Iterator[int]:
    """Yield where the last record of the last index files begins, and a byte more: queues come before."""
    with suppress(EnvironmentFailureError):  # the check of the index says so
        for header in index_headers(store.index_files[-_LAST_INDEX_FILES:]):
            if header.index_count > 1:
                yield header.end_phy_offset + 1


def stored_from(log: FileQueue, log_end: int, time_ms: int) -> int:
    """Return a physical offset from which on records were stored at ``time_ms`` or later; a binary search."""
    low, high = log.start, log_end
    while low < high:
        middle = (low + high) // 2
        found = _record_from(log, middle, high)
        if found is None or found[1] >= time_ms:
            high = middle
        else:
            low = found[0] + 1
    return low


def _record_from(log: FileQueue, start: int, stop: int) -> tuple[int, int] | None:
    """Return place and store time of the first intact record from ``start`` on; None before ``stop``."""
    while start < stop:
        segment = log.segment_at(start)
        if segment is None:  # a hole between two files
            later = [one.start for one in log.segments if one.start > start]
            start = min(later, default=NEVER)
            continue
        window = Window(segment)
        position = find_true(window, start - segment.start, segment.start, stop - segment.start)
        if position is not None:
            head = decode_head(window.read_at(position + segment.framing.lead, max(HEAD_SIZES)))
            if head is not None and head.magic in RECORD_MAGICS:
                return segment.start + position, head.store_timestamp_ms
        start = segment.stop
    return None
