"""Lag that a kill explains: records whose units were not put yet, or not flushed.

A killed process loses no unit that it put, as pages of mapped files outlive it; a machine that fails loses
those since the last flush (``FlushConsumeQueueService#doFlush``, 4.9.8 to 5.5.1), and a queue that ends there
keeps its file. So missing units are lag only if no unit, index item or checkpoint proves that the dispatch
came past them, or if their place lies in a present file; and only within the time between two flushes.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from rmqtool.derived.index_files import index_headers
from rmqtool.derived.queue_files import QueueFile, first_holding
from rmqtool.dispatch.policy import NEVER
from rmqtool.errors import DeniedError, EnvironmentFailureError
from rmqtool.formats.checkpoint import CheckpointFields
from rmqtool.formats.consumequeue import BATCH_UNITS, PREBLANK_SIZE, UNITS, BatchUnitFields, UnitFields
from rmqtool.formats.message import HEAD_SIZES, MAGIC_V1, MAGIC_V2, decode_head
from rmqtool.recovery.first_file import Start, first_file, read_checkpoint
from rmqtool.recovery.model import RecoverySwitches, Refusal
from rmqtool.scan.classify import FoundEdge
from rmqtool.scan.record_walk import find_log_end
from rmqtool.scan.records import find_true
from rmqtool.scan.window import Window
from rmqtool.store.kinds import UNIT_QUEUE_KINDS, PathKind

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rmqtool.store import Store
    from rmqtool.store.segments import FileQueue

_MAGICS = frozenset({MAGIC_V1, MAGIC_V2})
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
        behind: the same of records of which nothing proves that they were dispatched.
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
    found = read_checkpoint(root / "checkpoint")
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
    starts = []
    for release in store.settings.candidates:  # the latest start of them: records before it get no unit
        switches = RecoverySwitches.from_settings(store.settings.of_broker(release), release)
        with suppress(DeniedError):
            _, recovery = first_file(store.log.segments, Start(release, True, checkpoint, 0, switches))
            starts.append(recovery.physical_offset)
    return max(starts, default=None)


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
            for queue in store.queues(kind):
                yield _queue_end(queue.files, is_batch=kind is PathKind.BATCHCONSUMEQUEUE)


def _queue_end(files: FileQueue, *, is_batch: bool) -> int:
    for segment in reversed(files.segments):
        file: QueueFile[BatchUnitFields] | QueueFile[UnitFields]
        file = QueueFile(segment, BATCH_UNITS) if is_batch else QueueFile(segment, UNITS)
        count = first_holding(file.room, lambda number: file.unit(number).size <= 0)  # noqa: B023
        last = file.unit(count - 1) if count else None
        segment.close()
        if last is not None and last.size != PREBLANK_SIZE:
            return int(last.physical_offset) + int(last.size)
    return 0


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
            head = decode_head(window.read_at(position, max(HEAD_SIZES)))
            if head is not None and head.magic in _MAGICS:
                return segment.start + position, head.store_timestamp_ms
        start = segment.stop
    return None
