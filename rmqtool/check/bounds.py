"""Ends of the log: messages before its first byte, and the newest files that a start of 5.4.0+ reads."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, NamedTuple

from rmqtool.derived.index_files import index_headers
from rmqtool.derived.queue_files import QueueFile, first_holding, queue_bounds
from rmqtool.errors import DeniedError
from rmqtool.findings import Finding, FindingLog, Severity
from rmqtool.findings.codes import CL_EXPIRED, CQ_EXPIRED, CQ_LAG, CQ_MIN_WRONG, ST_WINDOW
from rmqtool.findings.model import counted
from rmqtool.formats.consumequeue import PREBLANK, UNITS
from rmqtool.recovery.first_file import NO_UNITS, StartWindow, read_checkpoint, window_of
from rmqtool.recovery.model import Refusal
from rmqtool.scan.record_walk import first_record
from rmqtool.store.kinds import DIRECTORY_NAMES, PathKind
from rmqtool.store.setting import Origin
from rmqtool.times import utc_text
from rmqtool.topics import LMQ_PREFIX

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rmqtool.check.log import (
        LogResult,
    )
    from rmqtool.reput.queues import QueuePlan
    from rmqtool.store import Store


_HOUR_MS = 3_600_000
_NS_PER_MS = 1_000_000
_WRITTEN_WHILE_RUNNING = ("checkpoint", "abort", "config/consumerOffset.json", "config/delayOffset.json")


class HeadOfLog(NamedTuple):
    """Facts about a log's beginning: ``units`` that lead to messages before it, ``queue_files`` before it."""

    start: int
    latest_ms: int | None
    plans: Sequence[QueuePlan]
    units: int
    queue_files: int


def of_findings(log: LogResult, findings: FindingLog) -> HeadOfLog:
    """Return the facts that the checks of queues found."""
    counts = findings.counts
    left = counts.get(CQ_EXPIRED.code, 0), counts.get(CQ_MIN_WRONG.code, 0)
    return HeadOfLog(log.log_start, log.latest_ms, log.plans, *left)


def of_queues(store: Store, latest_ms: int | None, plans: Sequence[QueuePlan]) -> HeadOfLog:
    """Return the facts that the bounds of the present queues show."""
    start, units, files = store.commitlog.start, 0, 0
    for queue in store.queues(PathKind.CONSUMEQUEUE) if start > 0 else ():
        low, high = queue_bounds(queue, start)
        if len(queue.files):
            first = QueueFile(queue.files.segments[0], UNITS)
            unblank = first_holding(first.room, lambda number: first.unit(number) != PREBLANK)  # noqa: B023 - used at once
            units += max(low - first.first_number - unblank, 0)
            files += high > low >= first.first_number + first.room
        queue.files.close()
    return HeadOfLog(start, latest_ms, plans, units, files)


def check_expiry(store: Store, head: HeadOfLog) -> Finding | None:
    """Return how many messages lay before the log's first byte and whether they can have expired; or None."""
    if head.start <= 0 or store.root is None:
        return None
    severity, sentence = _judged(store, head, _whole_files(store, head))
    return Finding(
        code=CL_EXPIRED,
        file=store.log.segments[0].label,
        physical_offset=head.start,
        message=f"{_before(head)}. {sentence}",
        severity_override=severity,
    )


def _before(head: HeadOfLog) -> str:
    """Return how many messages there were, by the queue offsets of the first records and by units left."""
    firsts = [
        plan.shape.first_queue_offset
        for plan in head.plans
        if plan.shape.first_queue_offset > 0 and not plan.topic.startswith(LMQ_PREFIX)
    ]
    messages, queues = counted(sum(firsts), "message"), counted(len(firsts), "queue")
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
    stored_ms, sign_ms = first.head.store_timestamp_ms, _last_sign_ms(store, head)
    age = f"The first record there was stored {utc_text(stored_ms)}, {(sign_ms - stored_ms) / _HOUR_MS:.1f} h"
    age += f" before the broker's last sign, {utc_text(sign_ms)}"
    limit = f"fileReservedTime is {hours} h" + ("" if reserved.origin is Origin.GIVEN else " by default")
    if sign_ms - stored_ms >= hours * _HOUR_MS:
        severity = Severity.WARNING if whole_files else Severity.INFO
        return severity, f"{age}; {limit}: they may have expired by age{left and f', but {left}'}"
    if whole_files:
        return Severity.ERROR, f"{age}; {limit}: they have not expired; {left}: no broker has deleted them"
    other = "a full disk deletes earlier, and a new slave begins where its master's last file does"
    return Severity.WARNING, f"{age}; {limit}: they have not expired by age; {other}"


def _last_sign_ms(store: Store, head: HeadOfLog) -> int:
    assert store.root is not None
    checkpoint = read_checkpoint(store.root / "checkpoint")
    times = [0 if head.latest_ms is None else head.latest_ms]
    if not isinstance(checkpoint, Refusal):
        times += checkpoint.physic_msg_timestamp_ms, checkpoint.logics_msg_timestamp_ms
    for name in _WRITTEN_WHILE_RUNNING:
        status = (store.root / name).status()
        if status is not None:
            times.append(status.modified_ns // _NS_PER_MS)
    return max(times)


_QUEUES = DIRECTORY_NAMES[PathKind.CONSUMEQUEUE]


def check_window(store: Store, *, damaged: bool) -> list[Finding]:
    """Return the records that the next start leaves without units, or would if the queues were deleted.

    ``damaged`` is whether the queues have errors, for which people delete them.
    """
    if store.kind is not PathKind.STORE or store.unread:
        return []
    window = window_of(store)
    if window is None or window.reach <= window.log_start:
        return []
    limits = f"the newest {window.files} of the log's {window.log_files} files (commitLogRecoverMaxNum)"
    starts = f"a start of {window.release.name} reads only {limits}"
    if window.queue_end == NO_UNITS:
        return [_gone(window, starts)]
    if window.queue_end is not None:
        return [_lag(window, window.queue_end, starts)]
    if not damaged:
        return []
    sentence = (
        f"do not delete {_QUEUES}/ and let a start rebuild it: {starts}, so records before {window.reach}"
        " would get no unit, nor an index entry if index/ is deleted, too"
    )
    return [Finding(code=ST_WINDOW, file=_QUEUES, physical_offset=window.reach, message=sentence)]


def _gone(window: StartWindow, starts: str) -> Finding:
    sentence = f"the queues are missing, and {starts}: records before {window.reach} would get no unit"
    return Finding(
        code=ST_WINDOW,
        file=_QUEUES,
        physical_offset=window.reach,
        message=sentence,
        severity_override=Severity.ERROR,
    )


def _lag(window: StartWindow, queue_end: int, starts: str) -> Finding:
    sentence = (
        f"the queues end at {queue_end}, and {starts}: it reads on at {window.reach}; records between get no"
        " unit, and later ones of their queues land in wrong slots"
    )
    return Finding(
        code=CQ_LAG,
        file=_QUEUES,
        physical_offset=max(queue_end, window.log_start),
        expected=window.reach,
        observed=queue_end,
        message=sentence,
    )
