"""The timer's checkpoint, ``config/timercheck``: 56 bytes in a file of 4096 without any copy (5.0.0+)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from rmqtool.doctor.bounds import QueueEnds
from rmqtool.errors import EnvironmentFailureError
from rmqtool.formats.timer import TIMER_CHECKPOINTS
from rmqtool.topics import TIMER_TOPIC

if TYPE_CHECKING:
    from rmqtool.store import Store

TIMER_CHECKPOINT = "timercheck"


@dataclass(frozen=True, slots=True)
class TimerDiagnosis:
    """A timer that has forgotten how far it came.

    Attributes:
        file: its checkpoint, relative to the store.
        state: ``cut``, ``empty`` or ``zero-filled``.
        again_at_most: messages in the timer's queue: it reads them all again, and delivers again those whose
            time is over.
    """

    file: str
    state: str
    again_at_most: int


def diagnose_timer(store: Store) -> TimerDiagnosis | None:
    """Return what a timer's checkpoint has lost; None where it is sound or there is none.

    A broker maps the file at 4096 bytes, which fills it up with zeros, takes the lesser of its own and the
    master's queue offset, and reads its queue from there (``TimerCheckpoint#<init>``,
    ``TimerMessageStore#recover``, 5.3.3).
    """
    path = None if store.config is None else store.config / TIMER_CHECKPOINT
    if path is None or not path.is_regular():
        return None
    try:
        head = path.read_head(TIMER_CHECKPOINTS.size, [])
    except EnvironmentFailureError:
        return None  # who may not read it cannot tell
    bounds = QueueEnds(store).bounds(TIMER_TOPIC, 0)
    waiting = 0 if bounds is None else bounds.max_offset - bounds.min_offset
    if not waiting or (len(head) == TIMER_CHECKPOINTS.size and any(head)):
        return None
    return TimerDiagnosis(
        f"config/{TIMER_CHECKPOINT}", "empty" if not head else "cut" if any(head) else "zero-filled", waiting
    )
