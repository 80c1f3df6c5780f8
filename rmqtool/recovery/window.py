"""Files of the log that a start of 5.4.0+ skips, as it reads only the newest ones.

Java: ``CommitLog#recoverNormally``, ``#recoverAbnormally`` (5.4.0 to 5.5.1) with ``commitLogRecoverMaxNum``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from rmqtool.formats.checkpoint import CheckpointFields
from rmqtool.recovery.batch_queue import BatchQueue
from rmqtool.recovery.first_file import Start, first_file, read_checkpoint
from rmqtool.recovery.loading import load_queues
from rmqtool.recovery.model import Refusal
from rmqtool.recovery.switches import RecoverySwitches, recover_window
from rmqtool.recovery.unit_queue import UnitQueue
from rmqtool.store.kinds import DIRECTORY_NAMES, PathKind

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rmqtool.io import Location
    from rmqtool.recovery.loading import LoadedQueue
    from rmqtool.releases import Release
    from rmqtool.store import Store

NO_UNITS = -1


@dataclass(frozen=True, slots=True)
class StartWindow:
    """The part that the next start reads of a log with more ``log_files`` than its limit, ``files``.

    Attributes:
        reach: physical offset of the first byte that it would read if there were no queues.
        queue_end: where the consume queues end; ``NO_UNITS`` without units; None at or after ``reach``.
    """

    release: Release
    files: int
    log_files: int
    log_start: int
    reach: int
    queue_end: int | None


def window_of(store: Store) -> StartWindow | None:
    """Return the window of the next start; None if it reads all it needs.

    Where the files leave the release open, it is that of the newest candidate: older ones read all.
    """
    release, root, segments = store.settings.candidates[-1], store.root, store.commitlog.segments
    settings = store.settings.of_broker(release)
    files = recover_window(settings, release)
    if files is None or root is None or len(segments) <= files:
        return None
    checkpoint = read_checkpoint(root / "checkpoint")
    checkpoint = CheckpointFields() if isinstance(checkpoint, Refusal) else checkpoint
    switches = RecoverySwitches.from_settings(settings, release)
    start = Start(release, store.abort is not None, checkpoint, NO_UNITS, switches)
    _, recovery = first_file(segments, start)
    reach = recovery.physical_offset
    return StartWindow(
        release, files, len(segments), segments[0].start, reach, _queue_end(store, root, reach)
    )


def _queue_end(store: Store, root: Location, reach: int) -> int | None:
    """Return the largest end of any queue; None as soon as one is at or after ``reach``."""
    end = NO_UNITS
    for kind, queue in sorted(_queues(store, root), key=lambda one: _last_change(one[1]), reverse=True):
        segments = queue.files.segments
        if kind is PathKind.CONSUMEQUEUE:
            found = UnitQueue(segments, store.settings.consumequeue_file_size).max_physical_offset
        else:
            found = BatchQueue(segments, store.settings.batchconsumequeue_file_size).max_physical_offset
        if found >= reach:
            return None
        end = max(end, found)
    return end


def _queues(store: Store, root: Location) -> Iterator[tuple[PathKind, LoadedQueue]]:
    settings = store.settings
    sizes = {
        PathKind.CONSUMEQUEUE: settings.consumequeue_file_size,
        PathKind.BATCHCONSUMEQUEUE: settings.batchconsumequeue_file_size,
    }
    for kind, size in sizes.items():
        for queue in load_queues(root / DIRECTORY_NAMES[kind], store.base, size, settings.release):
            yield kind, queue


def _last_change(queue: LoadedQueue) -> int:
    """Return when its last file changed, in ns: the queue that ends last is most likely among the newest."""
    segments = queue.files.segments
    status = segments[-1].path.status() if segments else None
    return 0 if status is None else status.modified_ns
