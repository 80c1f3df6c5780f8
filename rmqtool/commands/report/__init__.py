"""``report``: one page about a store, for decisions now and for later readers.

Here are request and result. ``gather`` runs the checks of ``verify``, which take a picture of the log on
the same walk, predicts the next start, and collects the progress of groups and its own sources. The layout
is `rmqtool.report.page`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, ClassVar

from rmqtool import options
from rmqtool.engine import EngineOptions

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from rmqtool.account.lost import LostMessage
    from rmqtool.check import VerifyReport
    from rmqtool.lookup.delayed import DelayedMessages
    from rmqtool.recovery import Prediction
    from rmqtool.rows import Checkpoint
    from rmqtool.store import Setting, Store


@dataclass(frozen=True)
class ReportRequest:
    """A request for a report on a whole store; ``version`` and ``command`` are of the run, for the record."""

    store: Store
    version: str
    command: str
    engine: EngineOptions = field(default_factory=lambda: EngineOptions("local"))
    hash_log: bool = options.flag("Also show SHA-256 of the log's files; reads them once more.")
    max_findings: int = options.max_findings(100, "kept")
    live: bool = options.live()
    broker_conf: Path | None = None


@dataclass(frozen=True, slots=True)
class Backlog:
    """Units of a topic that a group, a delay level or the timer has still to read.

    Attributes:
        reader: ``group G``, ``delay level N`` or ``timer``.
        topic: as stored.
        queues: of the topic that the reader has begun, or has to.
        units: still to be read.
        odd: queues in which its offset is out of range, or that do not exist.
        last_timestamp_ms: store time of the newest message that was read; None if none exists any more.
    """

    reader: str
    topic: str
    queues: int
    units: int
    odd: int
    last_timestamp_ms: int | None


@dataclass(frozen=True, slots=True)
class TopicLoss:
    """Messages of a topic that are lost, or will be.

    Attributes:
        topic: as stored.
        next_start: messages that the next start cuts off.
        next_start_bytes: their size.
        missing: messages that the log has lost: units, or the queue offsets on both sides, prove them.
    """

    topic: str
    next_start: int
    next_start_bytes: int
    missing: int


@dataclass(frozen=True, slots=True)
class FileDigest:
    """SHA-256 of a file; None with the reason why there is none."""

    file: str
    size_bytes: int
    sha256: str | None
    reason: str | None = None


@dataclass(frozen=True, slots=True)
class Provenance:
    """Sources of a report.

    Attributes:
        version: of rmqtool.
        command: the command line.
        made_ms: when.
        settings: in effect, with their origin.
        digests: of the files that decide, and on request of the log's.
    """

    version: str
    command: str
    made_ms: int
    settings: Mapping[str, Setting]
    digests: tuple[FileDigest, ...]


@dataclass(frozen=True, slots=True)
class StoreReport:
    """Content of a report.

    Attributes:
        store: path of the evidence.
        provenance: its sources.
        verification: the findings, and the picture of the log.
        predictions: of the next start; empty if that is not known, for which there is a finding.
        losses: by topic, those with the most first.
        lost: the first of the messages themselves.
        backlogs: by reader and topic, the largest first.
        delayed: messages that wait for their time, by delay level and in the timer.
        cut_ms: store time of the first message that the next start cuts off; None if it keeps all.
        checkpoint: its fields; None when there is none.
        abort: whether the store was not stopped cleanly, or runs.
    """

    schema: ClassVar = "rmqtool.report/1"
    store: str
    provenance: Provenance
    verification: VerifyReport
    predictions: tuple[Prediction, ...] = ()
    losses: tuple[TopicLoss, ...] = ()
    lost: tuple[LostMessage, ...] = ()
    backlogs: tuple[Backlog, ...] = ()
    delayed: tuple[DelayedMessages, ...] = ()
    cut_ms: int | None = None
    checkpoint: Checkpoint | None = None
    abort: bool = False
