"""What the check of a log is asked, and what it says."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from rmqtool.scan.log_pass import SPLIT_BYTES

if TYPE_CHECKING:
    from collections.abc import Mapping

    from rmqtool.check.log.picture import LogPicture
    from rmqtool.check.model import Examined
    from rmqtool.dispatch.policy import DispatchPolicy
    from rmqtool.findings import FindingLog
    from rmqtool.reput.blocks import Block
    from rmqtool.reput.queues import QueuePlan
    from rmqtool.store.segments import FileQueue
    from rmqtool.store.staging import StagingHandle


@dataclass(frozen=True)
class LogCheck:
    """What to check.

    Attributes:
        log: the commit log.
        policy: the broker's switches; without an index the checks are faster.
        staging: where blocks are written.
        max_findings: findings of one code that are kept.
        live: a broker appends meanwhile: the log ends where it ends now; what lies after it is left alone.
        unclean: ``abort`` is there: a torn record at the end is what the next start expects.
        split_bytes: greatest size of a split.
        half_offsets: by half queue, how far the broker's own check of half messages has come; None if what
            transactions say of each other is not asked.
        is_whole: no file was left out: so records of a queue follow each other, and zeros are the log's end.
        page_writer: see ``LogEdge``.
        pictured: a picture is made of what is read.
    """

    log: FileQueue
    policy: DispatchPolicy
    staging: StagingHandle
    max_findings: int = 100
    live: bool = False
    unclean: bool = False
    split_bytes: int = SPLIT_BYTES
    half_offsets: Mapping[int, int] | None = None
    is_whole: bool = True
    page_writer: str = ""
    pictured: bool = False


@dataclass(frozen=True)
class LogResult:
    """What the log holds, and what is wrong with it.

    Attributes:
        findings: what is wrong.
        examined: how much was looked at.
        blocks: units and index entries of every true record, in log order.
        plans: runs of every queue.
        log_start: physical offset of the log's first byte.
        log_end: physical offset after the last record.
        stale_stop: physical offset after old records that a truncation left there; ``log_end`` without any.
        latest_ms: highest STORETIMESTAMP; None without records.
        skipped: by queue, how far its offsets run ahead of its units at most, where messages name it twice.
        picture: of the log, if that was asked.
    """

    findings: FindingLog
    examined: Examined
    blocks: tuple[Block, ...]
    plans: tuple[QueuePlan, ...]
    log_start: int
    log_end: int
    stale_stop: int
    latest_ms: int | None = None
    skipped: Mapping[tuple[str, int], int] = field(default_factory=dict)
    picture: LogPicture | None = None
