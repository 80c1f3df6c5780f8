"""Verdicts on a message and a group, with their evidence."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class ConsumptionState(StrEnum):
    """Progress of a group with a message; the values are stable."""

    CONSUMED = "consumed"
    NOT_YET = "not-yet"
    IN_RETRY = "in-retry"
    DEAD_LETTERED = "dead-lettered"
    UNKNOWN = "unknown"

    @property
    def words(self) -> str:
        """Return it as people read it."""
        return (
            self.value.upper()
            if self is ConsumptionState.DEAD_LETTERED
            else self.value.upper().replace("-", " ")
        )


@dataclass(frozen=True, slots=True)
class Evidence:
    """One fact that a verdict rests on.

    Attributes:
        kind: ``offset``, ``copy``, ``pop``, ``group`` or ``message``.
        message: One sentence.
        file: Its source in the store; None if it is a record of the log.
        topic: Of the queue that it is about.
        queue_id: Of that queue.
        queue_offset: Of a message in it.
        committed_offset: Of the group in it: the next queue offset to be consumed.
        physical_offset: Of a record.
    """

    kind: str
    message: str
    file: str | None = None
    topic: str | None = None
    queue_id: int | None = None
    queue_offset: int | None = None
    committed_offset: int | None = None
    physical_offset: int | None = None


@dataclass(frozen=True, slots=True)
class Consumption:
    """The verdict of a store on one message and one group.

    Attributes:
        group: The group.
        state: The verdict.
        evidence: Its facts, the decisive one first.
    """

    group: str
    state: ConsumptionState
    evidence: tuple[Evidence, ...]

    @property
    def reason(self) -> str:
        """Return the decisive sentence."""
        return self.evidence[0].message
