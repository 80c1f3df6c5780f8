"""Losses of a log as data, and the finding that names them."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING

from rmqtool.derived.checkpoint import read_checkpoint
from rmqtool.errors import EnvironmentFailureError, RmqtoolError
from rmqtool.findings import Finding, Severity
from rmqtool.findings.commitlog import CL_LOST
from rmqtool.findings.wording import counted
from rmqtool.formats.index import HEADERS

if TYPE_CHECKING:
    from rmqtool.store.files import StoreFiles


class AccountError(RmqtoolError):
    """Bytes or messages do not add up: a defect of ours; nothing is published."""


@dataclass(frozen=True, slots=True)
class QueueLosses:
    """Messages of one queue that the log has lost.

    Attributes:
        topic: of the queue.
        queue_id: of the queue.
        first_queue_offset: of the first message that is there or proven.
        end_queue_offset: after the last one.
        there: messages whose records the log has.
        listed: lost messages that a unit leads to, or led to.
        unlisted: lost messages that are known by the queue offsets before and after them.
    """

    topic: str
    queue_id: int
    first_queue_offset: int
    end_queue_offset: int
    there: int
    listed: int
    unlisted: int

    @property
    def messages(self) -> int:
        """Return how many are lost."""
        return self.listed + self.unlisted


@dataclass(frozen=True, slots=True)
class LogLosses:
    """Messages that a log has lost: something proves them, and it has no record of them.

    Attributes:
        messages: how many.
        listed: those that units prove.
        unlisted: those that are known by the queue offsets before and after them.
        beyond: those that units prove beyond the last record: the log was longer once.
        beyond_bytes: from that record's end to that of the last of them; None where nothing measured it.
        queues: those with lost messages, by topic and queue id.
    """

    messages: int
    listed: int
    unlisted: int
    beyond: int
    beyond_bytes: int | None
    queues: tuple[QueueLosses, ...]


NO_LOSSES = LogLosses(0, 0, 0, 0, None, ())


def is_borne_out(store: StoreFiles, end: int, latest_ms: int | None) -> bool:
    """Tell whether index or checkpoint, too, know of messages beyond a log: then it has lost its end.

    Units alone may be what a truncation left.

    Args:
        store: whose index and checkpoint; what cannot be read bears nothing out.
        end: physical offset after the log's last record.
        latest_ms: highest store time of its records; None where that is not known.
    """
    with suppress(EnvironmentFailureError):
        for file in store.index_files:
            header = HEADERS.padded(file.read_at(0, HEADERS.size, []))
            file.close()
            if header.end_phy_offset >= end:
                return True
    with suppress(EnvironmentFailureError):
        checkpoint = None if latest_ms is None else read_checkpoint(store.checkpoint, [])
        if checkpoint is not None and latest_ms is not None:
            return max(checkpoint.physic_msg_timestamp_ms, checkpoint.logics_msg_timestamp_ms) > latest_ms
    return False


def cut_finding(losses: LogLosses, end: int, *, sure: bool) -> Finding:
    """Return that a log was longer once.

    Args:
        losses: with messages beyond its end.
        end: physical offset after its last record.
        sure: no kill and no truncation explains it.
    """
    messages = counted(losses.beyond, "message", spec=",")
    units = "a unit leads" if losses.beyond == 1 else "units lead"
    return Finding(
        code=CL_LOST,
        physical_offset=end,
        length=losses.beyond_bytes,
        expected=losses.beyond,
        observed=0,
        message=f"{messages} beyond the log's last record, which ends at {end}: {units} there",
        severity_override=None if sure else Severity.WARNING,
    )
