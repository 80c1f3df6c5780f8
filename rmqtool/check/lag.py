"""Queues and index that end before the log's end: the lag of a kill, and what the next start leaves out."""

from __future__ import annotations

from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

from rmqtool.derived.index_files import index_headers
from rmqtool.derived.queues import queues_of
from rmqtool.dispatch.policy import NEVER
from rmqtool.errors import DeniedError, EnvironmentFailureError
from rmqtool.findings import Finding, FindingCode, Severity, codes
from rmqtool.formats.checkpoint import CheckpointFields
from rmqtool.formats.message import HEAD_SIZES, RECORD_MAGICS, decode_head
from rmqtool.scan.classify import FoundEdge
from rmqtool.scan.record_walk import find_log_end
from rmqtool.scan.records import find_true
from rmqtool.store.kinds import DIRECTORY_NAMES, UNIT_QUEUE_KINDS, PathKind
from rmqtool.store.segments import FileQueue, Window

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rmqtool.releases import Release
    from rmqtool.store import Store


_QUEUES = DIRECTORY_NAMES[PathKind.CONSUMEQUEUE]


def check_window(store: Store, *, damaged: bool) -> list[Finding]:
    """Return the records that the next start leaves without units, or would if the queues were deleted.

    ``damaged`` is whether the queues have errors, for which people delete them.
    """
    if store.kind is not PathKind.STORE or store.unread:
        return []
    settings = store.settings
    limits = [settings.of_broker(release).recover_window(release) for release in settings.candidates]
    if not any(limit is not None and limit < len(store.commitlog) for limit in limits):
        return []
    from rmqtool.recovery import log_recovery  # few logs have so many files

    window = log_recovery.window_of(store)
    if window is None or window.reach <= window.log_start:
        return []
    newest = f"the newest {window.files} of the log's {window.log_files} files (commitLogRecoverMaxNum)"
    starts = f"a start of {window.release.name} reads only {newest}"
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


class Lag(NamedTuple):
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
    from rmqtool.recovery import Refusal, log_recovery  # few stores were not stopped cleanly

    fields = log_recovery.read_checkpoint(root / "checkpoint")
    checkpoint = CheckpointFields() if isinstance(fields, Refusal) else fields
    redispatched = None if isinstance(fields, Refusal) else _redispatched(store, checkpoint)
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
    return lag._replace(dispatched=max([confirm_offset, *ends]), is_controlled=True)


def _redispatched(store: Store, checkpoint: CheckpointFields) -> int | None:
    if store.abort is None:
        return None
    # Records before the latest start of any candidate get no unit.
    return store.settings.worst_candidate(partial(_begin_of_start, store, checkpoint), lambda place: place)


def _begin_of_start(store: Store, checkpoint: CheckpointFields, release: Release) -> int | None:
    from rmqtool.recovery import log_recovery

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
        record = _record_from(log, middle, high)
        if record is None or record[1] >= time_ms:
            high = middle
        else:
            low = record[0] + 1
    return low


def _record_from(log: FileQueue, start: int, stop: int) -> tuple[int, int] | None:
    """Return place and store time of the first intact record from ``start`` on; None before ``stop``."""
    while start < stop:
        segment = log.segment_at(start)
        if segment is None:  # a hole between two files
            later = [segment.start for segment in log.segments if segment.start > start]
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
