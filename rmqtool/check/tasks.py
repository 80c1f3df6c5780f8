"""Tasks of the checks of derived files: the present files and, from level 2 on, what the log requires.

They are picklable; an engine runs them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rmqtool.reput.blocks import Block
    from rmqtool.reput.indexes import IndexStream
    from rmqtool.reput.queues import QueuePlan
    from rmqtool.store.geometry import Geometry
    from rmqtool.store.segments import FileQueue, StoreFile


@dataclass(frozen=True, slots=True)
class QueueCheck:
    """One queue; ``topic`` is as Java decodes it.

    Attributes:
        expected: runs of the units that the log requires; None if it requires none, and below level 2.
        deleted: its topic was deleted: a broker has deleted the queue, and an unclean start since then has
            put the log's last records back.
        skipped: how far queue offsets run ahead of the units at most: messages name the queue twice.
        since: physical offset of the first message since the topic was deleted and created again; None if
            that does not show. Messages before it have no queue any more.
    """

    topic: str
    queue_id: int
    batch: bool
    files: FileQueue | None
    ext_files: FileQueue | None
    expected: QueuePlan | None
    deleted: bool = False
    skipped: int = 0
    since: int | None = None


@dataclass(frozen=True, slots=True)
class QueueCheckTask:
    """Some queues, whole; ``blocks`` hold the expected runs. Sizes are bytes, as configured.

    Attributes:
        log_start: physical offset of the log's first byte.
        log_end: physical offset after the last intact record of the log.
        level: 1 each file on its own, 2 against the log, 3 completeness.
        unclean: ``abort`` exists (or the store is live): the next start repairs lag at the log's end.
        live: a broker appends meanwhile: units that point at ``log_end`` or after it came later, no damage.
    """

    queues: tuple[QueueCheck, ...]
    blocks: tuple[Block, ...]
    log_start: int
    log_end: int
    file_size: int
    ext_file_size: int
    batch_file_size: int
    level: int
    ext: bool
    unclean: bool
    max_findings: int
    live: bool = False


@dataclass(frozen=True, slots=True)
class IndexCheckTask:
    """The whole index: its files are one stream, by name. Fields of a `QueueCheckTask` mean the same.

    Attributes:
        expected: entries that the log requires, in log order; None below level 2.
        stale_stop: physical offset after the old records that a truncation left after ``log_end``, if any.
        geometry_known: ``geometry`` was given or proven; otherwise files of another size cannot be read.
    """

    files: tuple[StoreFile, ...]
    geometry: Geometry
    expected: IndexStream | None
    log_start: int
    log_end: int
    level: int
    index_enabled: bool
    unclean: bool
    max_findings: int
    live: bool = False
    stale_stop: int = 0
    geometry_known: bool = True
