"""Drafts of results, filled while a start is followed."""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING

from rmqtool.recovery.model import Dispatched, Prediction

if TYPE_CHECKING:
    from rmqtool.account.lost import LostTotals
    from rmqtool.account.model import LogLosses
    from rmqtool.recovery.model import (
        Cut,
        Forgotten,
        IndexFileOutcome,
        Loss,
        QueueOutcome,
        Recovery,
        Refusal,
        Reput,
    )
    from rmqtool.releases import Release


@dataclass(slots=True)
class DispatchDraft:
    """Draft of a `Dispatched`, with its fields."""

    start: int | None = None
    stop: int | None = None
    messages: int = 0
    units: int = 0
    index_entries: int = 0

    def finish(self) -> Dispatched:
        """Return what was dispatched so far."""
        return Dispatched(self.start, self.stop, self.messages, self.units, self.index_entries)


@dataclass
class PredictionDraft:
    """Draft of a `Prediction`, with its fields."""

    store: str
    release: Release
    refusals: list[Refusal] = field(default_factory=list)
    recovery: Recovery | None = None
    cut: Cut | None = None
    lost: list[Loss] = field(default_factory=list)
    log_losses: LogLosses | None = None
    lost_messages: LostTotals | None = None
    deleted_files: list[str] = field(default_factory=list)
    dispatched_by_recovery: DispatchDraft = field(default_factory=DispatchDraft)
    reput: Reput | None = None
    queues: list[QueueOutcome] = field(default_factory=list)
    index: list[IndexFileOutcome] = field(default_factory=list)
    ignored_index_files: list[str] = field(default_factory=list)
    missing_index_entries: int = 0
    not_served: int = 0
    forgets: list[Forgotten] = field(default_factory=list)
    hazards: list[str] = field(default_factory=list)

    @property
    def loads(self) -> bool:
        """Whether the store loads, as far as is known yet."""
        return not self.refusals

    def finish(self) -> Prediction:
        """Return the finished prediction."""
        values = {one.name: getattr(self, one.name) for one in fields(self)}
        lists = {name: tuple(value) for name, value in values.items() if isinstance(value, list)}
        return Prediction(**values | lists | {"dispatched_by_recovery": self.dispatched_by_recovery.finish()})
