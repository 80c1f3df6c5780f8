"""Start of a broker in its own order: load, recover the queues, recover the log, catch up.

Origin: ``DefaultMessageStore#load``, ``#recover``, ``#start``; ``CommitLog#recoverNormally``,
``#recoverAbnormally`` (4.9.8, 5.3.3 to 5.5.1).
"""

from __future__ import annotations

from copy import deepcopy
from dataclasses import replace
from itertools import pairwise
from typing import TYPE_CHECKING, Literal

import numpy as np

from rmqtool.account.log_losses import StoreAccount, account_of
from rmqtool.account.survey import Surveyor, unreached_words
from rmqtool.dispatch.policy import DispatchPolicy
from rmqtool.doctor import ONLY_SHOWN
from rmqtool.doctor.choices import BrokerTakes
from rmqtool.doctor.diagnose import diagnose
from rmqtool.errors import UsageError
from rmqtool.findings import FindingCode, codes, counted
from rmqtool.formats.framing import DLEDGER
from rmqtool.formats.message import RECORD_STARTS
from rmqtool.kernels.rows import MessageBatch, frame_stops, rules_of
from rmqtool.recovery import (
    Change,
    Cut,
    Dispatched,
    Forgotten,
    Prediction,
    PredictionDraft,
    Recovery,
    Refusal,
    Reput,
    assumptions,
    hazards_of,
    log_recovery,
    settings_hazards,
    window_hazards,
)
from rmqtool.recovery.catch_up import catch_up
from rmqtool.recovery.entry_recovery import FollowedEntries, follow_entries
from rmqtool.recovery.loaded import (
    DispatchStallError,
    IndexState,
    LoadedStore,
    batch_topics_of,
    load_store,
    type_refusals,
)
from rmqtool.recovery.loading import timer_hazards
from rmqtool.recovery.log_records import LogRecords
from rmqtool.recovery.losses import (
    count_missing,
    count_missing_of,
    lost_records,
    not_served,
    records_after,
    tell_losses,
)
from rmqtool.recovery.unit_queue import EmptyLastFileError
from rmqtool.releases import UncleanStart
from rmqtool.reput.dispatcher import Dispatcher
from rmqtool.scan.classify import failure_code
from rmqtool.scan.records import check_record
from rmqtool.store.kinds import PathKind
from rmqtool.store.layouts import Deed
from rmqtool.store.segments import Segment, Window
from rmqtool.store.twins import shadowed

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from rmqtool.account.lost import LostMessage
    from rmqtool.arrays import Int64s
    from rmqtool.releases import Release
    from rmqtool.store import Settings, Store

_REBUILD = (
    "Put queues and index from rmqtool rebuild in place of the present ones, set abort aside if it "
    "exists, and start the broker: the log has all that it needs for its queues."
)
_NOT_FOLLOWED = (("recheckReputOffsetFromCq",), ("duplicationEnable", "readUnCommitted"))
"""Settings, off by default, that together make a start dispatch from elsewhere on."""


class NotPredictedError(UsageError):
    """A store that a broker recovers by rules that are not modelled here."""


def predict_recovery(
    store: Store, release: Release, tell_lost: Callable[[LostMessage], object] | None = None
) -> Prediction:
    """Predict what a broker of a release does with a whole store when it starts.

    `Settings.of_broker` chooses its settings; ``tell_lost`` receives every message that is lost. A start is
    predicted once a run.
    """
    prediction, loaded = store.once(predict_start, release)
    if tell_lost is None or prediction.log_losses is None:
        return prediction
    return replace(prediction, lost_messages=tell_losses(account_of(store), prediction, loaded, tell_lost))


def predict_start(store: Store, release: Release) -> tuple[Prediction, LoadedStore]:
    """Predict a start, see `predict_recovery`; return the store in the broker's memory after it, too."""
    if store.kind is not PathKind.STORE or store.root is None:
        raise UsageError(f"{store.base}: a start is predicted for whole stores; give the store root")
    for feature in store.bars(Deed.PREDICT):
        raise NotPredictedError(feature.refusal(Deed.PREDICT))
    if store.confirm_offset is not None:
        raise NotPredictedError(
            "controller mode: a start may cut records that replicas have not confirmed; it is not predicted"
        )
    settings = store.settings.of_broker(release)
    _check_settings(store, settings)
    hazards = settings_hazards(settings, store.settings, release)
    assumes = assumptions(store.settings, release)
    prediction = PredictionDraft(
        Prediction(str(store.base), release, hazards=tuple(hazards), assumes=assumes)
    )
    prediction.add(forgets=_forgotten(store, release))
    loaded = load_store(store, store.root, settings, prediction)
    _check_order(loaded.log)
    looking = Surveyor(store.own_log)
    account = account_of(store)
    if prediction.made.loads:
        # Of a log that was surveyed before, the records are read once for all that a run foresees.
        records = store.once(records_of, release) if account.has_surveyed else None
        _Start(loaded, prediction, settings, looking, account, records).run()
        prediction.add(hazards=timer_hazards(settings, store, prediction.made))
    if len(store.commitlog) or account.can_tell:
        if not account.has_surveyed:
            looking.pass_over(looking.reached, store.own_log.stop)
            account.decided(looking.finish())
        _add_losses(prediction, account, loaded.cut)
    if prediction.made.starts:
        _add_shadowed(prediction, store, loaded)
    return prediction.made, loaded


def _check_settings(store: Store, settings: Settings) -> None:
    """Raise `NotPredictedError` for settings that change how a start goes."""
    for names in _NOT_FOLLOWED:
        if all(settings[name].value for name in names):
            raise NotPredictedError(
                f"{' and '.join(names)}=true: the broker begins its dispatch elsewhere than without it; a"
                " start of such a store is not predicted"
            )
    is_ledger = any(segment.framing == DLEDGER for segment in store.commitlog)
    if is_ledger and settings["duplicationEnable"].value:
        raise NotPredictedError("duplicationEnable=true: a start of such a DLedger log is not predicted")


def _check_order(log: Sequence[Segment]) -> None:
    """Raise `NotPredictedError` for a file after later ones: 4.9.8 appends to it, into those."""
    for before, after in pairwise(log):
        if after.start < before.start:
            raise NotPredictedError(
                f"{after.label}: a broker loads it after {before.label}, as names sort; a start of such"
                " a store is not predicted"
            )


def records_of(store: Store, release: Release) -> LogRecords:
    """Return the records of a store's log, dispatched as a broker of a release does it."""
    settings, root = store.settings.of_broker(release), store.root
    topics = store.settings.batch_topics
    if root is not None and release.batch_queues:
        topics |= batch_topics_of(root)
    policy = broker_policy(settings, release, topics)
    account, own = account_of(store), DispatchPolicy.from_settings(store.settings)
    surveyed, reading = account.surveyed, account.reading
    if reading is not None:  # what a broker dispatches counts, that of a file of another log, too
        policy, own = (each.with_batch_topics(reading.copy.batch_topics) for each in (policy, own))
    if reading is not None and reading.log == account.log and policy._replace(ext=own.ext) == own:
        records = LogRecords.of(store.own_log, policy, reading.copy)
    else:
        records = LogRecords.read(store.own_log, policy, surveyed.false)
        proven = policy.with_batch_topics(records.unknown_batch_topics)
        if proven != policy:
            records = LogRecords.read(store.own_log, proven, surveyed.false)
    return replace(records, foreign=surveyed.foreign)


def start_changed(
    store: Store, release: Release, change: Change, records: LogRecords
) -> tuple[Prediction, LoadedStore]:
    """Predict a start after a change of the store, without counts of losses; a rebuild is of ``records``."""
    assert store.root is not None
    settings = store.settings.of_broker(release)
    for name, text in change.settings:
        settings = settings.with_value(name, text)
    prediction = PredictionDraft(Prediction(str(store.base), release))
    loaded = load_store(store, store.root, settings, prediction, change)
    if "config/topics.json" in change.aside:
        loaded.batch_topics |= records.policy.batch_topics
    if prediction.made.loads:
        start = _Start(loaded, prediction, settings, records=records)
        if loaded.log and (change.queues or change.index):
            _put_rebuilt(loaded, change, records)
            prediction.add(refusals=type_refusals(store.root, loaded))
        if prediction.made.loads:
            start.run()
    return prediction.made, loaded


def _forgotten(store: Store, release: Release) -> list[Forgotten]:
    """Return what the broker forgets; NotPredictedError if what decides that may not be read."""
    forgotten = []
    for diagnosis in diagnose(store, release):
        if diagnosis.broker is BrokerTakes.UNKNOWN:
            raise NotPredictedError(f"{diagnosis.denied[0].file}: {diagnosis.denied[0].reason}")
        if diagnosis.broker is BrokerTakes.NOTHING and diagnosis.file not in ONLY_SHOWN:
            forgotten.append(Forgotten(diagnosis.file, diagnosis.loses))
    return forgotten


def _put_rebuilt(loaded: LoadedStore, change: Change, records: LogRecords) -> None:
    """Put queues and index of a rebuild: what a running broker dispatches from the log's start."""
    queues, index, policy, topics = loaded.queues, loaded.index, records.policy, loaded.batch_topics
    if records.rebuilt is None:
        loaded.batch_topics = policy.batch_topics
        loaded.queues, loaded.index = {}, IndexState(index.items)
        end = int(records.places[-1]) + 1 if len(records.places) else loaded.log[0].start
        if loaded.log[-1].label in records.foreign:  # a broker dispatches what is not this log's, too
            end = loaded.log[-1].stop
        known = None if policy.ext or records.foreign else records
        dispatcher = Dispatcher(policy)
        catch_up(loaded, end, rules_of(policy.release.records), dispatcher, known)
        for queue in loaded.queues.values():
            queue.settle()
        loaded.tallies.clear()
        loaded.log_offsets.clear()
        loaded.batch_topics = topics
        records.rebuilt = loaded.queues, loaded.index
    made = deepcopy(records.rebuilt)  # a start changes them
    loaded.queues = queues | made[0] if change.queues else queues
    loaded.index = made[1] if change.index else index


def _add_shadowed(prediction: PredictionDraft, store: Store, loaded: LoadedStore) -> None:
    """Add which files of the log are not served, as another of their name comes first."""
    end = 0 if prediction.made.cut is None else prediction.made.cut.physical_offset
    for twin in shadowed(store.commitlog, loaded.log):
        if twin.file.start < end:
            records = counted(twin.records, "whole record", spec=",")
            sentence = f"{records} of {twin.file.label} are not served: a pull reads {twin.served.label}"
            prediction.add(hazards=[f"{sentence}, which has the same name and comes first."])
            prediction.set(not_served=prediction.made.not_served + twin.records)


def _add_losses(prediction: PredictionDraft, account: StoreAccount, cut: Int64s) -> None:
    """Add what the log has lost, and what it has where no walk of a broker comes."""
    surveyed, losses = account.surveyed, account.losses()
    if losses.states is not None and prediction.made.loads and prediction.made.cut is not None:
        messages = sum(loss.messages for loss in prediction.made.lost)
        damaged = surveyed.readable[np.isin(surveyed.readable[:, 0], cut)]
        states = losses.states.predicted(messages, len(damaged), int(damaged[:, 1].sum()))
        losses = losses._replace(states=states)
    prediction.set(log_losses=losses)
    if len(surveyed.unreached):
        prediction.add(hazards=[f"{unreached_words(surveyed)}; rmqtool salvage recovers them."])


def broker_policy(settings: Settings, release: Release, batch_topics: frozenset[str]) -> DispatchPolicy:
    """Return the switches of a broker of that release, whichever release wrote the store."""
    return DispatchPolicy(
        release=settings.rules_of(release),
        delay_levels_ms=settings.delay_levels.delay_ms,
        index_enabled=settings.message_index_enable,
        multi_dispatch=settings.enable_multi_dispatch is not False,
        lmq=settings.enable_lmq is not False,
        ext=settings.enable_consume_queue_ext,
        batch_topics=batch_topics,
    )


class _Start:
    def __init__(
        self,
        loaded: LoadedStore,
        prediction: PredictionDraft,
        settings: Settings,
        looking: Surveyor | None = None,
        account: StoreAccount | None = None,
        records: LogRecords | None = None,
    ) -> None:
        self.looking, self.account, self.records = looking, account, records
        self.followed: FollowedEntries | None = None
        self.loaded, self.prediction, self.log = loaded, prediction, loaded.log
        self.release = prediction.made.release
        self.policy = broker_policy(settings, self.release, loaded.batch_topics)
        self.rules = rules_of(self.policy.release.records)
        self.switches = log_recovery.RecoverySwitches.from_settings(settings, self.release)

    def run(self) -> None:
        loaded = self.loaded
        self.dispatcher = Dispatcher(self.policy, end_phy_offset=loaded.index.end_phy_offset)
        self.start = log_recovery.Start(
            self.release, loaded.unclean, loaded.checkpoint, loaded.max_physical_offset, self.switches
        )
        refusal = log_recovery.acceleration_refusal(self.start)
        if refusal:
            self.prediction.add(refusals=[refusal])
            return
        try:
            if self.log:
                self._recover()
            else:
                self._without_log()
            self._correct_minimums()
        except DispatchStallError as stall:
            self.prediction.add(refusals=[_refusal(int(stall.args[0]), self.log)])
        if not self.prediction.made.loads:
            return
        if self.log and self.prediction.made.cut is not None:
            self._catch_up(self.prediction.made.cut.physical_offset)
        self._conclude()

    def _without_log(self) -> None:
        """Java: "the commitlog files are deleted, and delete the consume queue files"."""
        reason = "the log has no files: all consume queues are deleted"
        self.prediction.set(
            recovery=Recovery("abnormal" if self.loaded.unclean else "normal", None, 0, reason)
        )
        self.loaded.destroy()

    def _recover(self) -> None:
        entries = [segment for segment in self.log if segment.framing == DLEDGER]
        if entries:
            self._recover_entries(entries)
            return
        number, recovery = log_recovery.first_file(self.log, self.start)
        self.prediction.set(recovery=recovery)
        refusal = log_recovery.skip_refusal(self.log[number], recovery)
        if refusal:
            self.prediction.add(refusals=[refusal])
            return
        walk = log_recovery.RecoveryWalk(
            self.log[number:], self.rules, self.start.switches, recovery.physical_offset
        )
        if self._dispatches_again:
            for batch in walk.batches():
                self._dispatch_again(batch)
        elif self.records is None:
            walk.finish()
        else:
            walk = self.records.walked(walk)
        self.loaded.put(self.dispatcher, self.prediction.made.dispatched_by_recovery)
        queue_end = self.start.queue_end
        if self.release.truncates_by_new_end:
            queue_end = self.loaded.max_physical_offset
        if queue_end >= walk.end:
            self.loaded.truncate(walk.end)
        if walk.last is not None:
            self._cut(walk.last, walk.end)
        crash = "cannot be read in places: a broker that maps it may crash (SIGBUS)."
        self.prediction.add(hazards=[f"{label} {crash}" for label in walk.unreadable])

    def _recover_entries(self, entries: Sequence[Segment]) -> None:
        """Java: ``DLedgerCommitLog#recover`` (4.9.8), ``#dledgerRecoverNormally``, ``-Abnormally`` (5.x)."""
        followed = self.followed = follow_entries(entries, self.loaded.entry_units, self.rules)
        kind: Literal["normal", "abnormal"] = "abnormal" if self.loaded.unclean else "normal"
        first = followed.first
        self.prediction.set(recovery=Recovery(kind, first.label, first.start, followed.reason))
        self.prediction.add(refusals=followed.refusals)
        if followed.refusals:
            return
        kept = [segment for segment in entries if segment.start <= followed.end]
        end, queue_end = followed.end, self.start.queue_end
        if self.loaded.unclean and not self.release.reputs_from_queues:
            again = kept[log_recovery.first_dispatched(kept, self.start) :]
            switches = self.start.switches._replace(check_offsets=False)
            walk = log_recovery.RecoveryWalk(again, self.rules, switches, again[0].start)
            end = again[0].start
            for batch in walk.batches():
                end = max(end, (walk.last or again[0]).start)
                end += int(batch.rows["total_size"].sum())  # without the headers of entries
                self.loaded.take(self.dispatcher, batch, self.prediction.made.dispatched_by_recovery)
            end = max(end, (walk.last or again[0]).start)
            self.loaded.put(self.dispatcher, self.prediction.made.dispatched_by_recovery)
            if self.release.unclean_start is UncleanStart.BY_OFFSET:
                queue_end = self.loaded.checkpoint.logics_physical_offset
        if queue_end >= end:
            self.loaded.truncate(end)
        self._cut(kept[-1], followed.end, followed.code, followed.says)
        if followed.committed < followed.index:
            left = counted(followed.index - followed.committed, "entry", "entries", spec=",")
            self.prediction.add(
                hazards=[
                    f"{left} of the log are not known to be committed: a leader puts them into queues and"
                    " index with its next message, a follower cuts those that its leader has not."
                ]
            )

    @property
    def _dispatches_again(self) -> bool:
        """Whether recovery dispatches records itself: after an unclean stop, or those beyond the queues."""
        if self.loaded.unclean or self.records is None:
            return self.loaded.unclean or not self.release.reputs_from_queues
        is_behind = int(self.records.places.max(initial=-1)) > self.start.queue_end
        return is_behind and not self.release.reputs_from_queues

    def _dispatch_again(self, batch: MessageBatch) -> None:
        if self.loaded.unclean and self.start.switches.confirmed_only:
            # While it recovers, 4.9 knows no confirm offset (``CommitLog#confirmOffset``).
            known = -1 if self.release.reputs_from_queues else self.loaded.checkpoint.confirm_phy_offset
            batch = batch.only(frame_stops(batch.rows, "physical_offset") <= known)
        if not self.loaded.unclean:
            later = batch.rows["physical_offset"] > self.start.queue_end
            if not later.all():
                batch = batch.only(later)
        self.loaded.take(self.dispatcher, batch, self.prediction.made.dispatched_by_recovery)

    def _cut(self, segment: Segment, end: int, code: FindingCode | None = None, says: str = "") -> None:
        if self.records is None:
            has_more = any(True for _ in records_after(self.log, end))
        else:
            has_more = bool((self.records.places >= end).any())
        cut = cut_at(segment, end, self.release, self.start.switches, has_more)
        if code is not None:
            cut = cut._replace(code=code.code, reason=says)
        if self.account is not None and (has_more or cut.code is not None or self._goes_on(end)):
            self.prediction.set(lost=tuple(lost_records(self.account.surveyed, self.loaded, end)))
        self.prediction.set(cut=cut)
        self.prediction.add(deleted_files=(one.label for one in self.log if one.start > end))

    def _goes_on(self, end: int) -> bool:
        """Return whether a file after the end of the log begins with anything but zeros."""
        return any(
            any(segment.read_at(0, RECORD_STARTS.size, [])) for segment in self.log if segment.start > end
        )

    def _correct_minimums(self) -> None:
        start = self.log[0].start if self.log else -1
        for (topic, queue_id), queue in self.loaded.queues.items():
            try:
                queue.correct_minimum(start, self.release)
            except EmptyLastFileError as failure:
                label = f"consumequeue/{topic}/{queue_id}/{failure}"
                reason = "is the queue's last file and has no unit when 5.3 looks for the last one: it fails"
                self.prediction.add(refusals=[Refusal(label, reason, _REBUILD)])

    def _catch_up(self, end: int) -> None:
        if self.followed is not None:
            self._catch_up_entries(end, self.followed)
            return
        if not self.release.reputs_from_queues:
            self.prediction.set(reput=Reput(end, None, Dispatched()))
            return
        if self.start.switches.confirmed_only:
            first = next(segment.start for segment in self.log if segment.start <= end)
            start = max(self.loaded.max_physical_offset, first)
            self.prediction.set(reput=Reput(start, start if start < end else None, Dispatched()))
            return
        reput = catch_up(self.loaded, end, self.rules, self.dispatcher)
        self.prediction.set(reput=reput)
        if reput.stalled_at is None:
            self._correct_minimums()

    def _catch_up_entries(self, end: int, followed: FollowedEntries) -> None:
        """Dispatch what is committed, as 4.9 does while it starts, then what a leader commits."""
        committed = max(followed.committed_stop, self.log[0].start)
        reput = Reput(committed, None, Dispatched())
        if self.release.reputs_from_queues:
            reput = catch_up(self.loaded, committed, self.rules, self.dispatcher)
        self.prediction.set(reput=reput)
        if reput.stalled_at is None and followed.committed_stop < followed.last_stop:
            start = max(reput.start, committed)
            catch_up(self.loaded, end, self.rules, self.dispatcher, start=start, done=reput.dispatched)
        self._correct_minimums()

    def _conclude(self) -> None:
        prediction, loaded = self.prediction, self.loaded
        if prediction.made.cut is not None and self.looking is not None and self.account is not None:
            end = prediction.made.cut.physical_offset
            if self.records is None:
                missing = count_missing(self.looking, end, self.policy, loaded, self.account.of_queues)
            else:
                missing = count_missing_of(self.records, end, loaded, self.account.of_queues)
            prediction.set(missing_index_entries=missing)
        for _, queue in sorted(loaded.queues.items()):
            prediction.add(deleted_files=queue.deleted)
        prediction.add(deleted_files=loaded.index.deleted)
        prediction.set(queues=tuple(loaded.outcomes()))
        prediction.set(index=tuple(loaded.index.outcomes))
        prediction.add(hazards=hazards_of(prediction.made))
        if prediction.made.cut is not None and self.account is not None:
            end, size = prediction.made.cut.physical_offset, loaded.unit_file_size
            for hazard, messages in not_served(
                prediction.made.queues, self.log, end, size, self.account.of_queues
            ):
                prediction.add(hazards=[hazard])
                prediction.set(not_served=prediction.made.not_served + messages)
        prediction.add(hazards=window_hazards(prediction.made, self.start.switches.window, len(self.log)))


def cut_at(
    segment: Segment, end: int, release: Release, switches: log_recovery.RecoverySwitches, records_after: bool
) -> Cut:
    """Return the cut of a log that recovery ends at physical offset ``end``, in ``segment``.

    ``records_after`` is whether intact records lie after the end.
    """
    position = end - segment.start
    window = Window(segment)
    verdict = check_record(
        window, position, release.records, base=segment.start, check_crc=switches.check_body, read_body=True
    )
    start = segment.framing.head(window.read_at(position, segment.framing.head_size))
    code: FindingCode | None = failure_code(verdict.outcome, start, segment.stop - end)
    reason = verdict.reason
    if (
        verdict.record is not None
        and switches.check_property
        and not log_recovery.holds_property(verdict.record)
    ):
        code, reason = (
            codes.CL_PROP_CRC,
            "a record without a property __CRC32# that holds (forceVerifyPropCRC)",
        )
    elif (
        verdict.record is not None and switches.check_dup_info and log_recovery.lacks_dup_info(verdict.record)
    ):
        code, reason = None, "a record without a property DUP_INFO of two parts (duplicationEnable)"
    elif verdict.record is not None:
        code, reason = codes.CL_PHY_MISMATCH, "PHYSICALOFFSET is outside the file"
    elif verdict.success:
        code, reason = None, "the end of the last file"
    elif not any(start) and not records_after:
        code, reason = None, "zeros: the end of the log"
    return Cut(end, segment.label, position, code.code if code else None, reason)


def _refusal(log_offset: int, log: list[Segment]) -> Refusal:
    label = next(
        (segment.label for segment in log if segment.start <= log_offset < segment.stop), "commitlog"
    )
    reason = (
        f"has a record at {log_offset} whose INNER_MULTI_QUEUE_OFFSET is not a number: its dispatch fails"
    )
    return Refusal(label, reason)
