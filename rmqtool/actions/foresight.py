"""Outcomes of all actions on one store, for one release."""

from __future__ import annotations

from copy import copy
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from rmqtool.account.log_losses import account_of
from rmqtool.actions.repairs import (
    DERIVED,
    PROOF_STAYS,
    doubt_of,
    is_log_damaged,
    repair_change,
    spares_proof,
)
from rmqtool.derived.timer import TIMER_WHEEL
from rmqtool.errors import EnvironmentFailureError
from rmqtool.findings import Severity, Structure, codes
from rmqtool.formats.consumequeue import UNIT_SIZE
from rmqtool.kernels.compare import are_among
from rmqtool.outcomes import Action, CommandLines, Outcome, agreed, outcome_words, ranked
from rmqtool.recovery import NO_CHANGE, Change
from rmqtool.recovery.delivery import Delivery, KeyEntries, indexed, measure
from rmqtool.recovery.loaded import batch_topics_of
from rmqtool.recovery.log_records import Hidden, QueueRecords
from rmqtool.recovery.predict import predict_start, records_of, start_changed
from rmqtool.salvage.gathering import plan_of
from rmqtool.salvage.sidecars import mended_files
from rmqtool.store.layouts import Deed
from rmqtool.topics import LMQ_PREFIX

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from rmqtool.account import LogLosses
    from rmqtool.account.lost import Absent
    from rmqtool.arrays import Int64s
    from rmqtool.derived.queues import LiveUnits
    from rmqtool.findings import Findings
    from rmqtool.recovery import Prediction
    from rmqtool.recovery.loaded import LoadedStore, Queue
    from rmqtool.recovery.unit_queue import QueueKey
    from rmqtool.releases import Release
    from rmqtool.store import Store


_JUDGED = frozenset({Structure.COMMITLOG, Structure.CONSUMEQUEUE, Structure.INDEX})
_LARGEST_OFFSET = (1 << 63) // UNIT_SIZE
_UNKNOWN: dict[str, Any] = {
    **dict.fromkeys(("served", "wrong", "unserved", "unindexed", "reused")),
    "placeholders": 0,
}
"""Counts of a start that does not take place."""
_REBUILT = Change(queues=True, index=True, is_clean=True)


class Start(NamedTuple):
    """A start of the store as it is: its prediction, and the store in the broker's memory after it."""

    prediction: Prediction
    loaded: LoadedStore


def foresee(
    store: Store, release: Release, findings: Findings, *, is_suspect: bool = False
) -> tuple[Outcome, ...]:
    """Return the outcome of each action, the start as it is first; of a sound store, of that alone.

    ``findings`` are those of ``verify`` at its highest level; ``is_suspect`` is whether more is wrong than
    they say. Raises `NotPredictedError` if a start of such a store is not modelled, `EnvironmentFailureError`
    if a file cannot be opened or read.
    """
    start = Start(*store.once(predict_start, release))
    if not is_suspect and is_harmless(start.prediction, findings):
        start_of_log = store.commitlog.start if len(store.commitlog) else 0
        served = sum(
            queue.max_offset - max(queue.min_offset, 0)
            for queue in start.prediction.queues
            if not queue.topic.startswith(LMQ_PREFIX)
            and not _has_expired(start.loaded.queues[queue.topic, queue.queue_id], start_of_log)
        )
        start_as_it_is = Outcome(
            action=Action.START, served=served, wrong=0, unserved=0, unindexed=0, reused=0
        )
        return ranked([start_as_it_is])
    actions = _Actions(store, start, findings)
    outcomes = ranked(list(actions.all()))
    if release != store.settings.release:
        return outcomes
    others = (candidate for candidate in store.settings.candidates if candidate != release)
    return agreed(outcomes, {one.name: list(actions.of(one).all()) for one in others})


def is_harmless(prediction: Prediction, findings: Findings) -> bool:
    """Whether a start serves all that the log has, as far as the checks of the store and the start show."""
    if not prediction.starts or prediction.lost or prediction.forgets or prediction.not_served:
        return False
    if prediction.missing_index_entries or any(
        queue.missing or queue.misplaced or queue.dropped for queue in prediction.queues
    ):
        return False
    losses = prediction.log_losses
    if losses is not None and losses.messages:
        return False
    return all(finding.severity is Severity.INFO or finding.structure not in _JUDGED for finding in findings)


def _left_out(findings: Findings) -> tuple[frozenset[str], int | None]:
    """Return topics that were deleted, and where old records begin after the log's end: none is missed."""
    deleted = {
        finding.topic
        for finding in findings
        if finding.code is codes.CQ_TOPIC_GONE and finding.topic is not None
    }
    stale = (finding.physical_offset for finding in findings if finding.code is codes.CL_TAIL_DIRTY)
    return frozenset(deleted), min((place for place in stale if place is not None), default=None)


def _has_expired(queue: Queue, log_start: int) -> bool:
    """Whether a queue led to no record of the log; the place of a batch queue's last one is its start."""
    return queue.last_found < log_start + (not queue.batch)


class _Lost:
    """Takes the places of lost messages: those that units name, and those that index items alone do."""

    def __init__(self) -> None:
        self.listed: list[int] = []
        self.of_index: list[int] = []

    def absent(self, queue: QueueKey, absent: Iterable[Absent]) -> None:
        """Take those of a queue."""
        self.listed += [gone.log_offset for gone in absent if gone.log_offset is not None]

    def indexed(self, places: Iterable[int]) -> None:
        """Take those of the index."""
        self.of_index += places

    def before(self, queue: QueueKey | None, units: LiveUnits) -> None:
        """Take none of those before the log."""


class _Actions:
    def __init__(
        self,
        store: Store,
        start: Start,
        findings: Findings,
    ) -> None:
        self._store, self._start, self._findings = store, start, findings
        self._commands = CommandLines(str(store.base), directories=store.directories)
        self._release, account = start.prediction.release, account_of(store)
        has_account = len(store.commitlog) or account.can_tell
        self._losses: LogLosses | None = account.losses() if has_account else None
        self._of_queues = account.of_queues
        self._lost_of_queues = () if self._losses is None else self._losses.queues
        settings = store.settings.of_broker(self._release)
        self._is_indexed, self._geometry = settings.message_index_enable, settings.index_geometry
        self._records = store.once(records_of, self._release).without(*_left_out(findings))
        odd = [finding.physical_offset for finding in findings if finding.code is codes.CL_NUMBER]
        self._hidden = Hidden.of(self._records, account.surveyed, np.array(odd, np.int64))
        self._keys = KeyEntries(self._records, self._hidden)
        self._surveyed = account.surveyed
        self._unplaced = self._surveyed.unplaced[:, 0]
        self._damaged = 0  # messages whose records are there, and whose bodies are not theirs
        for records in self._records.queues.values():
            is_torn = ~records.whole & ~are_among(records.places, self._unplaced)
            self._damaged += int(records.messages[is_torn].sum())
        lost = _Lost()
        if self._losses is not None and self._losses.messages:
            account.losses(lost)
        self._unnamed = sum(place >= self._surveyed.end for place in lost.of_index)
        self._given = self._ends(np.array(lost.listed, np.int64))
        self._reached: dict[str, Int64s] = {}

    def of(self, release: Release) -> _Actions:
        """Return the same for another release, without counts of the records by its rules: few differ."""
        other = copy(self)
        prediction, loaded = start_changed(self._store, release, NO_CHANGE, self._records)
        prediction = replace(prediction, forgets=self._start.prediction.forgets)
        other._start, other._release = Start(prediction, loaded), release
        return other

    def all(self) -> Iterator[Outcome]:
        """Yield the outcomes."""
        start = self._outcome(Action.START, *self._start)
        yield start
        for name, text in self._settings():
            change = Change(settings=((name, text),))
            yield self._changed(Action.SETTING, change, setting=f"{name}={text}")
        salvaged = self._salvage(start)
        yield self._repair(start, salvaged)
        yield self._rebuild()
        yield salvaged if salvaged.starts else replace(salvaged, **_UNKNOWN)

    def _settings(self) -> Iterator[tuple[str, str]]:
        """Yield the settings of a start that can help."""
        prediction, log = self._start.prediction, self._store.commitlog
        files = self._store.settings.of_broker(self._release).recover_window(self._release)
        if files is not None and len(log) > files:
            yield "commitLogRecoverMaxNum", str(len(log))
        if prediction.cut is not None and prediction.cut.code == codes.CL_CRC.code:
            yield "checkCRCOnRecover", "false"

    def _repair(self, start: Outcome, salvaged: Outcome) -> Outcome:
        change, refused = repair_change(self._store, self._findings)
        if change is None:
            return self._refused(Action.REPAIR, refused)
        repaired = self._changed(Action.REPAIR, change)
        is_damaged = is_log_damaged(self._store, self._findings)
        if "config/topics.json" in change.aside and not salvaged.refused:  # a salvage copies what is repaired
            forgets = tuple(file for file in salvaged.forgets if file not in change.aside)
            salvaged = replace(salvaged, starts=True, forgets=forgets)
        is_proof = spares_proof(start, repaired, salvaged, is_log_damaged=is_damaged)
        if repaired.harm <= start.harm and is_proof and (change.queues or change.index):
            change = change.without_derived()
            if not change.aside:
                return self._refused(Action.REPAIR, PROOF_STAYS)
            repaired = replace(self._changed(Action.REPAIR, change), spares=PROOF_STAYS)
        if repaired.harm <= start.harm:
            return repaired
        now = outcome_words(start) or "loses nothing"
        words = f"a start after it {outcome_words(repaired)}; one of the store as it is {now}"
        return self._refused(Action.REPAIR, words)

    def _rebuild(self) -> Outcome:
        for feature in self._store.bars(Deed.INSTALL):
            return self._refused(Action.REBUILD, feature.refusal(Deed.INSTALL))
        if not len(self._store.commitlog):
            return self._refused(Action.REBUILD, "there is no log")
        if doubt := doubt_of(self._store, DERIVED):
            return self._refused(Action.REBUILD, doubt)
        return self._changed(Action.REBUILD, _REBUILT)

    def _salvage(self, start: Outcome) -> Outcome:
        """Return what salvage's own plan says of the queues that it makes, whether a broker starts or not.

        An index of slots that nobody knows is no better than that of ``start``.
        """
        if not len(self._store.commitlog):
            return self._refused(Action.SALVAGE, "there is no log")
        try:
            plan = self._store.once(plan_of)
        except EnvironmentFailureError as failure:
            return self._refused(Action.SALVAGE, str(failure))
        batches = self._store.settings.batch_topics.union(plan.unlisted)
        if batches and not self._release.batch_queues:
            return self._refused(Action.SALVAGE, f"a {self._release.name} broker cannot read batch queues")
        queues = [queue for queue in plan.queues if not queue.topic.startswith(LMQ_PREFIX)]
        prediction, mended = self._start.prediction, mended_files(self._store)
        return Outcome(
            action=Action.SALVAGE,
            starts=self._loads_copies(batches),
            forgets=tuple(forgotten.file for forgotten in prediction.forgets if forgotten.file not in mended),
            lost=sum(queue.not_given_back for queue in queues) + len(plan.indexed),
            command=self._commands.line(Action.SALVAGE),
            served=sum(queue.served for queue in queues),
            wrong=sum(queue.shifted for queue in queues),
            unserved=sum(queue.unserved for queue in queues),
            unindexed=start.unindexed if doubt_of(self._store, DERIVED[Structure.INDEX]) else 0,
            reused=self._reused({(queue.topic, queue.queue_id): queue.next_queue_offset for queue in queues}),
            placeholders=sum(part.messages for part in plan.parts),
        )

    def _loads_copies(self, batches: frozenset[str]) -> bool:
        """Whether a broker loads what a salvage copies as it is: timer wheel, and types of topics."""
        if any(refusal.file == TIMER_WHEEL for refusal in self._start.prediction.refusals):
            return False
        return not batches - batch_topics_of(self._store.base)

    def _refused(self, action: Action, why: str) -> Outcome:
        return Outcome(action=action, starts=False, lost=self._lost(0), refused=why)

    def _changed(self, action: Action, change: Change, setting: str | None = None) -> Outcome:
        try:
            after = start_changed(self._store, self._release, change, self._records)
        except EnvironmentFailureError as failure:
            return self._refused(action, str(failure))
        return self._outcome(action, *after, setting=setting, aside=change.aside)

    def _outcome(
        self,
        action: Action,
        prediction: Prediction,
        loaded: LoadedStore,
        setting: str | None = None,
        aside: frozenset[str] = frozenset(),
    ) -> Outcome:
        forgets = tuple(
            forgotten.file for forgotten in self._start.prediction.forgets if forgotten.file not in aside
        )
        command = self._commands.line(action, setting)
        end = 0 if prediction.cut is None else prediction.cut.physical_offset
        if not prediction.starts:
            return Outcome(
                action=action,
                setting=setting,
                starts=False,
                lost=self._lost(0),
                forgets=forgets,
                command=command,
            )
        unindexed = 0
        if self._is_indexed:
            items = indexed(self._store, loaded, self._geometry, self._reached)
            unindexed = self._keys.unindexed(end, items)
        counts: Delivery = measure(self._records, loaded, end, unindexed, self._hidden)
        return Outcome(
            action=action,
            setting=setting,
            forgets=forgets,
            served=counts.served,
            wrong=counts.wrong,
            expired=counts.expired,
            unserved=counts.unserved,
            unindexed=counts.unindexed,
            lost=max(self._lost(counts.cut) - counts.read, 0),
            reused=self._reused({key: queue.maximum for key, queue in loaded.queues.items()}),
            command=command,
        )

    def _lost(self, cut: int) -> int:
        return cut + self._damaged + (0 if self._losses is None else self._losses.messages)

    def _ends(self, lost: Int64s) -> dict[QueueKey, int]:
        """Return the queue offset after the last that was given, by queue; `lost` are places of messages."""
        ends: dict[QueueKey, int] = {}
        for key, records in self._records.queues.items():
            is_own = ~are_among(records.places, self._unplaced) & (records.queue_offsets < _LARGEST_OFFSET)
            own = records.only(is_own)
            if len(own.places):
                ends[key] = int((own.queue_offsets + own.messages).max())
            ends[key] = max(ends.get(key, 0), self._given_to_same(key, own))
        for losses in self._lost_of_queues:
            key = losses.topic, losses.queue_id
            ends[key] = max(ends.get(key, 0), losses.end_queue_offset)
        for key in self._records.queues if len(lost) else ():
            if self._of_queues.is_light(key, self._surveyed):  # its lost messages are other queues'
                units = self._of_queues.units(key)
                units = units.only(are_among(units.physical_offsets, lost))
                ends[key] = max(ends[key], int((units.keys + units.messages).max(initial=0)))
        log_start = self._store.commitlog.start if len(self._store.commitlog) else 0
        for key, queue in self._start.loaded.queues.items():
            if key not in ends and not key[0].startswith(LMQ_PREFIX) and _has_expired(queue, log_start):
                units = self._of_queues.units(key)  # all expired; a start may drop those after zeros
                ends[key] = int((units.keys + units.messages).max(initial=queue.found))
        return ends

    def _given_to_same(self, key: QueueKey, own: QueueRecords) -> int:
        """Return the end of a queue by units that lead to records of one queue offset: they had others."""
        numbers, counts = np.unique(own.queue_offsets, return_counts=True)
        if (counts == 1).all():
            return 0
        same = own.places[np.isin(own.queue_offsets, numbers[counts > 1])]
        units = self._of_queues.units(key)
        units = units.only(np.isin(units.physical_offsets, same))
        return int((units.keys + units.messages).max(initial=0))

    def _reused(self, after: Mapping[QueueKey, int]) -> int:
        """Return how many queue offsets are given again, by the ends of queues after an action.

        Each message after the log's end that the index alone names had one more, in a queue nothing names.
        """
        return sum(max(end - after.get(key, 0), 0) for key, end in self._given.items()) + self._unnamed
