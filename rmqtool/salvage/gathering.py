"""Several stores as copies of one log: their records, joined, and the plan for them.

A hole of the first copy is filled, record by record, from the others. A record fills it if it is whole and
trusted in its own copy and lies in a hole of the copies before. Where two copies hold different records,
both proven, one stays (``disputes``), and the other is kept aside.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from rmqtool.account import indexes_beyond, is_borne_out
from rmqtool.account.log_losses import account_of, before_log
from rmqtool.dispatch.policy import DispatchPolicy
from rmqtool.engine import LocalEngine
from rmqtool.errors import EnvironmentFailureError, UsageError
from rmqtool.formats.framing import PLAIN
from rmqtool.genuine.disputes import Disputes, joined, overlaps, uncover, where
from rmqtool.genuine.evidence import QueueEvidence, mark_contradicted, read_evidence
from rmqtool.genuine.plausibility import JudgedRecords
from rmqtool.genuine.reading import under_own_names
from rmqtool.genuine.records import LogCopy, Mark, read_copy
from rmqtool.kernels.rows import frame_starts, frame_stops
from rmqtool.progress import NullProgress, Progress, timed
from rmqtool.salvage import Choices, Found, RecordForm, SalvagePlan, SourceFile
from rmqtool.salvage.planning import Planner
from rmqtool.scan.records import check_record
from rmqtool.store.broker_conf import Origin
from rmqtool.store.broker_json import ConfigSource
from rmqtool.version import __version__

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from rmqtool.account.lost import Absent
    from rmqtool.arrays import Bools
    from rmqtool.derived.queues import LiveUnits
    from rmqtool.engine import Engine
    from rmqtool.store import FileQueue, Store


def merge(
    copies: Sequence[LogCopy],
    evidence: QueueEvidence,
    *,
    of_copies: Sequence[QueueEvidence],
    include_stale: bool,
) -> tuple[LogCopy, tuple[Found, ...]]:
    """Put copies together as if they were one log, the first leads.

    Returns:
        All of them, and the records that differ from what stays in their place.
    """
    merged = copies[0]
    if len(copies) == 1:
        return merged, ()
    conflicts: list[Found] = []
    merged = _believed(merged, evidence, include_stale=include_stale)
    for number, other in enumerate(copies[1:], 1):
        other.records["source"] = number
        good = _believed(other, evidence, include_stale=include_stale, only=True)
        same, taken, differing = _compared(merged, good)
        if not same.any() and differing.any():
            raise UsageError(f"{other.log.directories[0]}: no copy of this log: no record is the same")
        if differing.any():
            whole = where(merged, ~merged.damaged)
            logs = [copy.log for copy in copies]
            won, aside = Disputes(whole, good, differing, taken, of_copies, logs).settle()
            taken |= won
            conflicts += (
                Found(record.start, record.length, record.source, "conflict", chosen_by=record.chosen_by)
                for record in aside
            )
        merged = joined(merged, good, taken)
    return merged, tuple(conflicts)


def _believed(copy: LogCopy, evidence: QueueEvidence, *, include_stale: bool, only: bool = False) -> LogCopy:
    """Return a copy of the trusted records; with ``only``, without damaged bodies, too."""
    judged = JudgedRecords(copy, evidence, from_zero=copy.log.start == 0, include_stale=include_stale)
    keep = judged.kept if only else judged.kept | copy.damaged
    return where(copy, keep)


def _compared(copy: LogCopy, other: LogCopy) -> tuple[Bools, Bools, Bools]:
    """Return which records of another copy are the same, fill a hole, or differ, ``(n,)`` each."""
    rows = other.records
    summed = rows["log_offset"][(rows["marks"] & Mark.NO_CRC) == 0]
    worse = (copy.records["marks"] & Mark.NO_CRC != 0) & np.isin(copy.records["log_offset"], summed)
    sound = copy.records[~copy.damaged & ~worse]
    met, after = overlaps(rows, sound)
    same = np.zeros(len(rows), bool)
    theirs = sound[after[met]]
    same[met] = (theirs["log_offset"] == rows["log_offset"][met]) & (
        theirs["fingerprint"] == rows["fingerprint"][met]
    )
    return same, ~met, met & ~same


def plan_of(store: Store) -> SalvagePlan:
    """Return the plan for one store without any choice of the user's, for `Store.once`."""
    return LogCopies((store,)).plan(Choices(), LocalEngine(), NullProgress(), {})


_UNLISTED = (
    "topic {0} has batch queues, as its records hold inner batches, and config/topics.json does not say so:"
    ' before a broker starts, put "{0}" with the attribute queue.type=BatchCQ into it'
)
_UNREAD = "{}: it is not read, so what it proves to be lost is not known"
_LARGEST_FILLER = 4 << 20
_SAMPLE = 64
_LOOPBACK = bytes((127, 0, 0, 1, 0, 0, 0x2A, 0x9F))


@dataclass
class BesideUnits:
    """Lost messages that a store's account knows from something else than units and queue offsets.

    Attributes:
        consumed: those that consumers' offsets prove, by topic and queue id.
        places: those to which index items alone lead.
        unread: why nothing is known; None if it is.
    """

    consumed: dict[tuple[str, int], Absent] = field(default_factory=dict)
    places: tuple[int, ...] = ()
    unread: str | None = None

    def absent(self, queue: tuple[str, int], absent: Iterable[Absent]) -> None:
        """Take those of a queue."""
        for gone in absent:
            if gone.cause == "consumed":
                self.consumed[queue] = gone

    def indexed(self, places: Iterable[int]) -> None:
        """Take those that only the index knows."""
        self.places = tuple(places)

    def before(self, queue: tuple[str, int] | None, units: LiveUnits) -> None:
        """Skip those before the log, which the plan counts by itself."""

    def without_record(self, copy: LogCopy) -> tuple[int, ...]:
        """Return the places that no record of any copy takes."""
        places, records = np.array(self.places, np.int64), copy.records
        before = np.searchsorted(records["log_offset"], places, "right") - 1
        reach = np.append(frame_stops(records), 0)[before]
        return tuple(places[(before < 0) | (reach <= places)].tolist())


class LogCopies:
    """Stores that hold one log; the first leads."""

    def __init__(self, stores: tuple[Store, ...]) -> None:
        self.stores = stores

    @property
    def file_size(self) -> int:
        """Return the bytes of a file of the log."""
        return self.stores[0].settings.commitlog_file_size

    @cached_property
    def _read(self) -> list[tuple[FileQueue, tuple[str, ...]]]:
        logs = (store.commitlog.without_excess(self.file_size) for store in self.stores)
        return [under_own_names(log, self.file_size) for log in logs]

    @property
    def logs(self) -> tuple[FileQueue, ...]:
        """Return the logs of the copies, longer files cut to their size, misnamed ones where they belong."""
        return tuple(log for log, _ in self._read)

    @property
    def _misnamed(self) -> tuple[str, ...]:
        """Return sentences about files under the names of others."""
        return tuple(sentence for _, sentences in self._read for sentence in sentences)

    @property
    def policy(self) -> DispatchPolicy:
        """Return the broker's switches."""
        return DispatchPolicy.from_settings(self.stores[0].settings)

    def plan(
        self, choices: Choices, engine: Engine, progress: Progress, seconds: dict[str, float]
    ) -> SalvagePlan:
        """Read all copies and plan the new log."""
        with timed(seconds, "survey"):
            copies, of_copies = self._copies(engine, progress)
            evidence = QueueEvidence()
            for of_copy in of_copies:
                evidence.add(of_copy)
        with timed(seconds, "plan"):
            progress.stage("plan", None)
            merged, conflicts = merge(
                copies, evidence, of_copies=of_copies, include_stale=choices.include_stale
            )
            unlisted = frozenset().union(*(copy.batch_topics for copy in copies))
            beside, store = self._beside(merged, engine), self.stores[0]
            wanted = self.policy._replace(topics=choices.topics, exclude_topics=choices.exclude_topics)
            plan = Planner(
                merged,
                evidence,
                choices,
                wanted.takes,
                self._draft(merged, choices, conflicts, beside),
                store.settings.batch_topics | unlisted,
                beside.consumed,
            ).plan()
            unlisted &= {queue.topic for queue in plan.queues}  # not those of files of another log
            unread = [_UNREAD.format(feature.sentence) for feature in store.unread]
            unread += [] if beside.unread is None else [beside.unread]
            if unlisted and ConfigSource(store.root).why_denied("topics.json"):
                unlisted = frozenset()  # what is reported is that it may not be read
            later = (*unread, *(_UNLISTED.format(topic) for topic in sorted(unlisted)))
            undecided = self._undecided(merged, plan)
            return replace(
                plan, undecided=undecided, unlisted=tuple(sorted(unlisted)), notes=plan.notes + later
            )

    def _undecided(self, copy: LogCopy, plan: SalvagePlan) -> int:
        """Return how many messages after the last record only units name, as ``account`` judges it."""
        records = copy.records
        end = int(frame_stops(records).max(initial=copy.log.start))
        latest_ms = int(records["store_timestamp_ms"].max()) if len(records) else None
        is_known = max(plan.indexed, default=-1) >= end or any(loss.cause == "consumed" for loss in plan.lost)
        if is_known or any(is_borne_out(store, end, latest_ms) for store in self.stores):
            return 0
        own = [loss for loss in plan.lost if loss.physical_offset is not None]
        return sum(loss.count for loss in own if (loss.physical_offset or 0) >= end)

    def _draft(
        self, copy: LogCopy, choices: Choices, conflicts: tuple[Found, ...], beside: BesideUnits
    ) -> SalvagePlan:
        """Return what is known before anything is put into its place."""
        names, start = self._misnamed, copy.log.start
        return SalvagePlan(
            __version__,
            tuple(str(store.base) for store in self.stores),
            tuple(self.sources()),
            self.file_size,
            start,
            start,
            choices.holes,
            self._form(copy),
            indexed=beside.without_record(copy),
            before=sum(int(units.messages.sum()) for _, units in before_log(self.stores[0], start)),
            misnamed=len(names),
            found=conflicts,
            partial=choices.partial,
            healed=int((copy.records["source"] != 0).sum()),
            conflicts=tuple(conflict.physical_offset for conflict in conflicts),
            notes=names,
        )

    def _beside(self, copy: LogCopy, engine: Engine) -> BesideUnits:
        """Return what the first copy's index and consumer offsets prove, where anything is missing."""
        units, store = BesideUnits(), self.stores[0]
        records = copy.records
        end = int(frame_stops(records).max(initial=copy.log.start))
        blanks = sum(
            max(segment.stop - at, 0)
            for at in copy.blanks.values()
            if (segment := copy.log.segment_at(at)) is not None
        )
        taken = int((frame_stops(records) - frame_starts(records)).sum())
        is_whole = taken + blanks >= end - copy.log.start
        try:
            if not is_whole or indexes_beyond(store, end):
                account = account_of(store, self.logs[0])
                account.look(engine)
                account.losses(lost=units)
        except EnvironmentFailureError as failure:
            units.unread = str(failure)
        return units

    def _copies(self, engine: Engine, progress: Progress) -> tuple[list[LogCopy], list[QueueEvidence]]:
        """Return records and evidence of each copy, false frames left out, contradicted records marked."""
        compared = len(self.stores) > 1
        reading = None if compared else account_of(self.stores[0]).reading
        if reading is not None and reading.log == self.logs[0]:  # the account of this run has read it so
            return [reading.copy], [reading.evidence]
        of_copies, copies = [read_evidence(store) for store in self.stores], []
        for log, of_copy, store in zip(self.logs, of_copies, self.stores, strict=True):
            copy = read_copy(log, self.policy, engine, compared=compared, progress=progress)
            copies.append(uncover(copy, of_copies))
            mark_contradicted(copies[-1], of_copy, store)
        return copies, of_copies

    def sources(self) -> Iterator[SourceFile]:
        """Yield the files of all copies as they are now."""
        for number, store in enumerate(self.stores):
            for segment in store.commitlog:
                status = segment.path.status()
                modified = None if status is None else status.modified_ns
                yield SourceFile(str(segment.path), number, segment.size_bytes, modified)

    def _form(self, copy: LogCopy) -> RecordForm:
        """Return how this store's records are made: as its settings say, else as its records show."""
        settings = self.stores[0].settings

        def says(name: str) -> bool:
            setting = settings[name]
            return setting.origin is not Origin.DEFAULT and bool(setting.value)

        samples = list(self._samples(copy))
        return RecordForm(
            appends_crc=says("enabledAppendPropCRC")
            or says("forceVerifyPropCRC")
            or 2 * copy.sound_crcs > len(copy.records),
            dup_info=says("duplicationEnable")
            or (bool(samples) and all("DUP_INFO" in properties for properties, _ in samples)),
            store_host=next((host for _, host in samples if len(host) == len(_LOOPBACK)), _LOOPBACK),
            entries_from=next((file.start for file in self.logs[0] if file.framing != PLAIN), None),
            largest=min(int(settings["maxMessageSize"].value or _LARGEST_FILLER), _LARGEST_FILLER),
        )

    def _samples(self, copy: LogCopy) -> Iterator[tuple[dict[str, str], bytes]]:
        """Yield properties and store host of some records."""
        sound = copy.records[~copy.damaged]
        rules = self.policy.release.records
        for row in sound[:: max(len(sound) // _SAMPLE, 1)]:
            segment = self.logs[int(row["source"])].segment_at(int(row["log_offset"]))
            if segment is not None:
                position = segment.frame_position(int(row["log_offset"]))
                record = check_record(segment, position, rules, base=segment.start).record
                if record is not None:
                    yield record.properties, record.head.store_host
