"""Explanation of a look-up: its steps, in order."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from enum import StrEnum
from typing import ClassVar

_KEPT = 100


class Reason(StrEnum):
    """Subject of a step; the values are stable."""

    FILE_WALKED = "file-walked"
    FILE_OUT_OF_TIME = "file-out-of-time"
    FILE_NOT_NEEDED = "file-not-needed"
    SLOT_EMPTY = "slot-empty"
    SLOT_STALE = "slot-stale"
    CHAIN_BROKEN = "chain-broken"
    COLLISION = "collision"
    WRONG_SLOT = "wrong-slot"
    WRONG_RECORD = "wrong-record"
    ITEM_OUT_OF_TIME = "item-out-of-time"
    RECORD_OUT_OF_TIME = "record-out-of-time"
    EXPIRED = "expired"
    PART = "part"
    NO_RECORD = "no-record"
    LOG_MISSING = "log-missing"
    REPEATED = "repeated"
    FOUND = "found"
    INDEX_BEHIND = "index-behind"
    INDEX_BEGINS_LATER = "index-begins-later"
    INDEX_GAP = "index-gap"
    INDEX_DAMAGED = "index-damaged"
    NOT_INDEXED = "not-indexed"
    INDEX_MISSING = "index-missing"
    INDEX_ROCKSDB = "index-rocksdb"
    INDEX_DISABLED = "index-disabled"
    TAG_ITEMS = "tag-items"
    KEYS_SPLIT = "keys-split"
    KEY_FORM = "key-form"
    OTHER_KIND = "other-kind"
    TOPIC_UNKNOWN = "topic-unknown"
    OTHER_TOPIC = "other-topic"
    ROLLED_BACK = "rolled-back"
    PREPARED = "prepared"
    BROKER_LIMIT = "broker-limit"
    ID = "id"
    QUEUE = "queue"
    QUEUE_MISSING = "queue-missing"
    QUEUE_BEHIND = "queue-behind"
    QUEUE_BEGINS_LATER = "queue-begins-later"
    QUEUE_DAMAGED = "queue-damaged"
    UNIT = "unit"
    MODIFICATION_TIMES = "modification-times"
    BATCH_QUEUE = "batch-queue"
    SCAN = "scan"
    CONSUMPTION = "consumption"


_ON_THE_WAY = frozenset(
    {
        Reason.FILE_WALKED,
        Reason.FILE_OUT_OF_TIME,
        Reason.FILE_NOT_NEEDED,
        Reason.SLOT_EMPTY,
        Reason.SLOT_STALE,
        Reason.COLLISION,
        Reason.REPEATED,
        Reason.ITEM_OUT_OF_TIME,
        Reason.MODIFICATION_TIMES,
        Reason.BROKER_LIMIT,
        Reason.QUEUE,
        Reason.UNIT,
        Reason.ID,
    }
)
"""Steps that decide nothing by themselves."""


@dataclass(frozen=True, slots=True)
class Step:
    """One step of a look-up.

    Attributes:
        reason: What it is about.
        message: One sentence.
        file: Of the store, where it happened.
        facts: Numbers of the sentence: item, slot, physicalOffset and the like.
        is_advice: Whether it is shown to a user who found nothing, even without ``--explain``.
    """

    type: ClassVar = "explain"
    reason: Reason
    message: str
    file: str | None = None
    facts: dict[str, int | str | None] = field(default_factory=dict)
    is_advice: bool = False


class Explanation:
    """The steps of one query, in order; of each reason at most so many that a person can read them."""

    def __init__(self, *, wanted: bool = True) -> None:
        self.wanted = wanted
        self.steps: list[Step] = []
        self._met: Counter[Reason] = Counter()

    def add(self, reason: Reason, message: str, file: str | None = None, **facts: int | str | None) -> None:
        """Add a step."""
        if not self.wanted:
            return
        self._add(len(self.steps), Step(reason, message, file, facts))

    def advise(
        self, reason: Reason, message: str, file: str | None = None, **facts: int | str | None
    ) -> None:
        """Add a step that shows what to do next; once of each reason."""
        if any(step.is_advice and step.reason is reason for step in self.steps):
            self.add(reason, message, file, **facts)
        else:
            self._add(len(self.steps), Step(reason, message, file, facts, is_advice=True))

    @property
    def by_weight(self) -> list[Step]:
        """Return the steps, first those that decide, or show what to do next."""
        return sorted(self.steps, key=lambda step: not step.is_advice and step.reason in _ON_THE_WAY)

    @property
    def advice(self) -> list[str]:
        """Return the sentences that show what to do next."""
        return [step.message for step in self.steps if step.is_advice]

    def add_before(
        self, place: int, reason: Reason, message: str, file: str | None = None, **facts: int | str | None
    ) -> None:
        """Insert a step before those from a place in ``steps`` on."""
        if self.wanted:
            self._add(place, Step(reason, message, file, facts))

    def _add(self, place: int, step: Step) -> None:
        self._met[step.reason] += 1
        if self._met[step.reason] <= _KEPT:
            self.steps.insert(place, step)

    @property
    def left_out(self) -> dict[Reason, int]:
        """Return how many steps of each reason were dropped."""
        return {reason: count - _KEPT for reason, count in self._met.items() if count > _KEPT}
