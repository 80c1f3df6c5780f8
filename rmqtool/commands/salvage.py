"""``salvage``: a new, complete store out of what is left of one, or of several copies of one."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import chain
from typing import TYPE_CHECKING, ClassVar

from rmqtool import options
from rmqtool.account import before_words, lost_words
from rmqtool.check.digests import manifest_lines
from rmqtool.engine import beside
from rmqtool.engine.choice import opened_engine, runs_elsewhere
from rmqtool.errors import ExitStatus, RefusedError, UsageError
from rmqtool.findings import FailOn, counted
from rmqtool.formats.framing import PLAIN
from rmqtool.outcomes import best, is_needed
from rmqtool.progress import Progress, timed
from rmqtool.projection import json_object
from rmqtool.salvage import Choices, Holes, PartKind, SalvagedQueue, SalvagePlan, SourceFile
from rmqtool.salvage.derived import make_derived
from rmqtool.salvage.making import LOST_BODY
from rmqtool.salvage.plain_log import copy_timer_log, file_queue, write_planned
from rmqtool.salvage.sidecars import (
    ConfigFile,
    before_lines,
    copy_compaction,
    copy_config,
    copy_timer,
    lost_lines,
    plan_text,
    rescue_map,
    write_checkpoint,
)
from rmqtool.salvage.writing import LOG_DIRECTORY, PlannedLog, copy_file, is_link, write_found
from rmqtool.store.kinds import SALVAGE_REPORT, SALVAGE_SIDECARS
from rmqtool.store.layouts import Deed
from rmqtool.store.lock import lock_holder
from rmqtool.store.results import AnyArea, Target, fetched, output_area, resting_on
from rmqtool.store.segments import StoreFile

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from contextlib import AbstractContextManager

    from rmqtool.engine import Engine, EngineOptions
    from rmqtool.outcomes import Outcome
    from rmqtool.salvage.gathering import LogCopies
    from rmqtool.store import Store
    from rmqtool.store.staging import StagingHandle


_SHIFTED = " Queue offsets after lost messages are others than before: reset what consumers have read."
_OF_PLAN = (
    *("stores", "holes", "partial", "healed", "misnamed"),
    *("kept_damaged", "odd_times", "queues", "notes"),
)
_LINK = "it is a link, of which only the log's own records are copied"
_PLAIN = ", but enableDLegerCommitLog=false,"
_REPEATS = "--holes repeat is for a plain log; of one of DLedger, a tombstone says that a message is lost"
_PARTIAL = " A part, as requested: consumers find less than before."


@dataclass(frozen=True, slots=True)
class LogBytes:
    """Bytes of the new log by kind; their sum is the log.

    Attributes:
        records: true ones.
        tombstones: messages in the place of lost ones.
        fillers: records that no queue takes.
        blank: up to the end of a file.
        zeros: after the last record.
        log: all.
        start: physical offset of its first byte; what lay before it is not known to be lost.
    """

    records: int
    tombstones: int
    fillers: int
    blank: int
    zeros: int
    log: int
    start: int


@dataclass(frozen=True, slots=True)
class LostMessages:
    """Counts of messages that are lost, or present and not recovered.

    Attributes:
        proven: those that are known to be lost, by gaps in queue offsets, by queues, index items or consumer
            offsets; those of light queues are other queues' messages, and are not counted again.
        indexed: of them, those that index items alone point to: nothing names their queues.
        damaged: those whose records are there, damaged or contradicted, and not recovered.
        placed: of both, those with a tombstone or a repeated unit in their place.
        by_cause: how many of both by cause, see ``Lost``.
        open: damaged records whose messages nothing names: they may be among the proven.
        undecided: those after the last record that only units name: a truncation leaves such units, too;
            not among the proven.
        before: messages before the log's first byte to which something still leads; not among the proven.
    """

    proven: int
    indexed: int
    damaged: int
    placed: int
    by_cause: Mapping[str, int]
    open: int
    undecided: int
    before: int


@dataclass(frozen=True, slots=True)
class SalvageReport:
    """The outcome of a salvage.

    Attributes:
        stores: paths of the copies.
        out: path of the result; None where only a plan was made.
        holes: filling in place of lost messages.
        partial: whether the user left something out.
        records: intact records recovered.
        healed: of them, those that the first copy lacks.
        bytes: of the new log.
        lost: messages.
        misnamed: files of the log under the names of others.
        left_out: intact records that are not recovered, by cause: ``body`` their checksum fails,
            ``properties`` these are torn, or ``__CRC32#`` fails though the body holds, ``stale`` old bytes,
            ``fields`` contradicted, ``room`` too little room beside them, ``conflict`` of another copy,
            ``frame`` damaged, and over whole records, which stay.
        conflicts: of records put aside for those of another copy, how many by what decided: ``units`` more
            copies' queues list the other, ``text`` its properties are no text, or have names that no record
            has, ``neighbours`` the other continues the queue offsets and store times, ``nothing`` the
            other is of an earlier copy.
        kept_damaged: records recovered though their bodies or properties are damaged, by ``keep_damaged``.
        odd_times: records recovered whose store time is out of order.
        queues: the account of each queue.
        units: units written.
        index_entries: index entries written.
        assumed: settings that no file shows, and what queues and index rest on by them.
        config: the broker's files, and why some are not copied.
        addresses: of a plain log that was made of DLedger's, those in records that were mapped, by the kinds
            of ``rmqtool convert``; None of any other.
        outcomes: of this and of other actions; empty where nothing is wrong, and of what a salvage made.
        notes: sentences.
        seconds: wall time of each stage.
    """

    schema: ClassVar = "rmqtool.salvage/1"
    stores: tuple[str, ...]
    out: str | None
    holes: Holes
    partial: bool
    records: int
    healed: int
    bytes: LogBytes
    lost: LostMessages
    misnamed: int
    left_out: Mapping[str, int]
    conflicts: Mapping[str, int]
    kept_damaged: int
    odd_times: int
    queues: tuple[SalvagedQueue, ...]
    units: int | None
    index_entries: int | None
    assumed: Mapping[str, str]
    config: tuple[ConfigFile, ...]
    addresses: Mapping[str, int] | None
    outcomes: tuple[Outcome, ...]
    notes: tuple[str, ...]
    seconds: Mapping[str, float]

    @classmethod
    def of(
        cls,
        plan: SalvagePlan,
        *,
        out: str | None = None,
        units: int | None = None,
        index_entries: int | None = None,
        assumed: Mapping[str, str] | None = None,
        config: tuple[ConfigFile, ...] = (),
        addresses: Mapping[str, int] | None = None,
        outcomes: tuple[Outcome, ...] = (),
        seconds: Mapping[str, float] | None = None,
    ) -> SalvageReport:
        """Return the report of a plan, carried out or not."""
        causes = Counter[str]()
        for loss in plan.lost:
            causes[loss.cause] += loss.count
        kinds = {kind: plan.bytes_of(kind) for kind in PartKind}
        return cls(
            **{name: getattr(plan, name) for name in _OF_PLAN},
            out=out,
            records=plan.records_of(PartKind.RECORDS),
            bytes=LogBytes(
                kinds[PartKind.RECORDS],
                kinds[PartKind.TOMBSTONES],
                kinds[PartKind.FILLER],
                kinds[PartKind.FILE_END],
                kinds[PartKind.ZEROS],
                plan.stop - plan.start,
                plan.start,
            ),
            lost=LostMessages(
                sum(lost.count for lost in plan.lost if not lost.is_there)
                + len(plan.indexed)
                - plan.undecided,
                len(plan.indexed),
                sum(lost.count for lost in plan.lost if lost.is_there),
                sum(lost.count for lost in plan.lost if lost.placed),
                dict(causes),
                sum(record.is_open for record in plan.found),
                plan.undecided,
                plan.before,
            ),
            left_out=dict(Counter(record.cause for record in plan.found if record.cause != "torn")),
            conflicts=dict(
                Counter(record.chosen_by.value for record in plan.found if record.chosen_by is not None)
            ),
            units=units,
            index_entries=index_entries,
            assumed=dict(assumed or {}),
            config=config,
            addresses=addresses,
            outcomes=outcomes,
            seconds=dict(seconds or {}),
        )

    @property
    def is_whole(self) -> bool:
        """Whether the log had no damage: nothing is lost, left out or misnamed, no hole was filled."""
        return not (self._is_damaged or self.lost.undecided or self.bytes.tombstones)

    @property
    def _is_damaged(self) -> bool:
        """Whether more is wrong than that only units name messages after the last record."""
        wrong = (
            *(self.lost.proven, self.lost.damaged, self.left_out),
            *(self.misnamed, self.kept_damaged, self.moving),
        )
        return any((*wrong, self.bytes.fillers)) or self.lost.placed > self.lost.undecided

    @property
    def moving(self) -> tuple[SalvagedQueue, ...]:
        """Return the queues that skip queue offsets though nothing proves a message to be lost there."""
        return tuple(queue for queue in self.queues if queue.moves)

    @property
    def verdict(self) -> str:
        """Return the outcome in one or two sentences."""
        records, known = counted(self.records, "record", spec=","), self.lost.proven + self.lost.damaged
        known += self.lost.undecided
        recovered = f"{records} recovered"
        recovered += f", {self.kept_damaged:,} of them damaged" if self.kept_damaged else ""
        missing, before = known - self.lost.placed, before_words(self.lost)
        if self.is_whole and not self.notes:  # such as that what proves losses was not read
            start = f" from {self.bytes.start} on, where the log begins" if self.bytes.start else ""
            told = f"Nothing was lost{start}: {records}{before}."
        elif not known:
            told = f"{recovered}; no message is proven to be lost{before}."
        else:
            told = recovered
            if self.lost.proven or not self.lost.undecided:
                told += f", {counted(self.lost.proven, 'message', spec=',')} lost"
            if self.lost.undecided:
                told += f", {lost_words(self.lost.undecided, self.lost.undecided)}"
            told += f", {self.lost.damaged:,} present but damaged" if self.lost.damaged else ""
            told += f", {missing:,} of them with nothing in their place" if missing else ""
            told += f"{before}."
        if self.lost.open:
            told += f" {counted(self.lost.open, 'damaged record', spec=',')} of an unknown queue."
        if missing and self.holes is not Holes.CUT:
            told += _SHIFTED
        if self.moving:
            told += (
                f" In {counted(len(self.moving), 'queue', spec=',')} messages move to lower queue offsets."
            )
        return told + (_PARTIAL if self.partial else "")

    @property
    def hint(self) -> str:
        """Return what to do next; of a plan, the command of the best action. Empty where nothing is."""
        if self.out is None:
            chosen = best(self.outcomes)
            return f"Next: {chosen.command}" if chosen is not None and is_needed(self.outcomes) else ""
        hint, place = fetched(self.out)
        return (
            f"{hint}{resting_on(self.assumed)}To use it:\n  rmqtool verify {place}\nThen start a broker"
            f" with the old settings{'' if self.addresses is None else _PLAIN} on a copy of it"
            f" (storePathRootDir, and storePathCommitLog where that is set).{self._met}"
        )

    @property
    def _met(self) -> str:
        """Return the end of the hint: messages that consumers receive, or miss."""
        known, placed = self.lost.proven + self.lost.damaged, self.lost.placed
        if not known:
            return ""
        messages = counted(placed, "message", spec=",")
        received = {
            Holes.TOMBSTONE: f"receive {messages} with the body `{LOST_BODY}` in the place of lost ones",
            Holes.REPEAT: f"receive {messages} a second time in the place of lost ones",
        }
        words = [received[self.holes]] if placed and self.holes in received else []
        words += [f"miss {known - placed:,}"] if known > placed else []
        return f" Consumers {' and '.join(words)}: salvage/lost.ndjson lists the lost messages."

    def exit_status(self, fail_on: FailOn | str = FailOn.ERROR) -> ExitStatus:
        """Return 5 if the log was damaged, else 0, also where nothing decides whether it lost its end."""
        if not self._is_damaged or FailOn(fail_on) is FailOn.NEVER:
            return ExitStatus.CLEAN
        return ExitStatus.LOG_DAMAGED


def salvage(request: SalvageRequest, out: Target, progress: Progress) -> SalvageReport:
    """Salvage into ``out``, a directory or what a URL names; it appears complete or not at all."""
    seconds: dict[str, float] = {}
    with _staging(request, out) as area, opened_engine(request.engine) as hands:
        plan = _plan(request, progress, hands, seconds)
        return _carry_out(plan, request, area, progress, hands, seconds)


def plan_salvage(request: SalvageRequest, progress: Progress) -> SalvagePlan:
    """Return what a salvage would do, with digests of the copies; nothing is written."""
    with opened_engine(request.engine) as hands:
        plan = _plan(request, progress, hands, {})
        progress.stage("digests", None)
        return replace(plan, sources=_with_digests(request, hands))


def apply_plan(plan: SalvagePlan, request: SalvageRequest, out: Target, progress: Progress) -> SalvageReport:
    """Do what a plan says, and nothing else."""
    _check(request)
    with _staging(request, out) as area, opened_engine(request.engine) as hands:
        _refuse_changed(plan, request, hands)
        if plan.file_size != (size := request.copies.file_size):
            raise RefusedError(
                f"the plan has files of {plan.file_size} bytes, the store of {size}: give those that the"
                " plan was made with"
            )
        return _carry_out(plan, request, area, progress, hands, {})


def _staging(request: SalvageRequest, out: Target) -> AbstractContextManager[AnyArea]:
    return output_area(out, request.stores, SALVAGE_REPORT, elsewhere=runs_elsewhere(request.engine))


def _plan(
    request: SalvageRequest, progress: Progress, engine: Engine, seconds: dict[str, float]
) -> SalvagePlan:
    _check(request)
    return request.copies.plan(request.choices, engine, progress, seconds)


def _check(request: SalvageRequest) -> None:
    for store in request.stores:
        store.require_log("salvage")
        store.require(Deed.SALVAGE)
        if request.choices.holes is Holes.REPEAT and any(file.framing != PLAIN for file in store.commitlog):
            raise UsageError(f"{store.base}: {_REPEATS}")
        holder = None if store.root is None or request.live else lock_holder(store.root)
        if holder is not None:
            raise RefusedError(
                f"{store.root}: {holder} holds the store's lock; stop the broker, or add --live to salvage"
                " what the log holds now"
            )
    sizes = {store.settings.commitlog_file_size for store in request.stores}
    if len(sizes) > 1:
        raise UsageError(f"the copies have files of {sorted(sizes)} bytes: give -p mappedFileSizeCommitLog=N")


def _with_digests(request: SalvageRequest, engine: Engine) -> tuple[SourceFile, ...]:
    files = [segment for store in request.stores for segment in store.commitlog]
    digests = engine.map(StoreFile.sha256, files)
    return tuple(
        replace(source, sha256=digest)
        for source, digest in zip(request.copies.sources(), digests, strict=True)
    )


def _refuse_changed(plan: SalvagePlan, request: SalvageRequest, engine: Engine) -> None:
    now = _with_digests(request, engine)
    for was, file in zip(plan.sources, now, strict=False):
        if was != file:
            raise RefusedError(f"{file.path}: has changed since the plan was made: make a new plan")
    if len(now) != len(plan.sources):
        raise RefusedError(
            f"{request.stores[0].base}: {len(now)} files of the log, {len(plan.sources)} in the plan"
        )


def _carry_out(
    plan: SalvagePlan,
    request: SalvageRequest,
    area: AnyArea,
    progress: Progress,
    engine: Engine,
    seconds: dict[str, float],
) -> SalvageReport:
    handle, store = area.handle, request.stores[0]
    log = PlannedLog(plan, request.copies.logs, silent=plan.holes is Holes.REPEAT)
    plain, copy_log = None, copy_file
    ends = [part for part in plan.parts if part.kind in {PartKind.RECORDS, PartKind.TOMBSTONES}]
    end, last_record = plan.end, ends[-1].start if ends else plan.start
    if plan.form.entries_from is None:
        with beside(engine, partial(copy_file, handle), list(log.files)) as written_log:
            with timed(seconds, "derived"):  # it reads what is planned, so nobody waits for the other
                derived = make_derived(log, store, handle, engine, progress)
            with timed(seconds, "write"):
                progress.stage("write", None)
                files = written_log()
    else:
        with timed(seconds, "write"):
            progress.stage("write", None)
            plain = write_planned(log.files, handle, engine)
            written = handle.finished(LOG_DIRECTORY)
            files = [(file.label, digest) for file, digest in handle.digests(written, engine.map).items()]
            copy_log = partial(copy_timer_log, addresses=plain.addresses, counts=plain.counts)
            end, last_record = plain.end or (end, last_record)
        with timed(seconds, "derived"):
            derived = make_derived(log, store, handle, engine, progress, file_queue(handle))
    with timed(seconds, "beside"):
        aside = write_found(plan.found, log.logs, handle)
        config, more = copy_config(store, handle)
        compacted, logs = copy_compaction(store, plan, handle)
        timer, wheel = copy_timer(store, handle, copy_log)
        links = [
            ConfigFile(segment.label, _LINK) for copy in log.logs for segment in copy if is_link(segment)
        ]
        checkpoint = write_checkpoint(
            handle,
            store.settings.release,
            last_ms=max([0, *(queue.last_stored_ms or 0 for queue in plan.queues)]),
            index_ms=derived.index_ms,
            end=end,
            last_record=last_record,
        )
        others = [*aside, *more, *logs, *wheel, *derived.files, checkpoint]
    report = SalvageReport.of(
        plan,
        out=str(area.out),
        units=derived.units,
        index_entries=derived.entries,
        assumed=derived.assumed,
        config=(*config, *timer, *compacted, *links),
        addresses=None if plain is None else {kind: count for kind, count in plain.counts.items() if count},
        seconds=seconds,
    )
    before = before_lines(request.stores[0], plan.start)
    _write_papers(plan, report, chain(lost_lines(plan), before), [*files, *others], handle)
    progress.stage("publish", None)
    area.publish()
    return report


def _write_papers(
    plan: SalvagePlan,
    report: SalvageReport,
    lost: Iterable[str],
    files: Iterable[tuple[str, str]],
    handle: StagingHandle,
) -> None:
    text = json.dumps(json_object(report), indent=1) + "\n"
    for name, lines in (
        ("plan.json", [plan_text(plan)]),
        ("lost.ndjson", lost),
        ("log.map", rescue_map(plan)),
        ("SHA256SUMS", manifest_lines(files)),
        ("salvage.json", [text]),
    ):
        with handle.create_file(f"{SALVAGE_SIDECARS}/{name}") as file:
            file.write_at(0, "".join(lines).encode("utf-8", "surrogateescape"))


@dataclass(frozen=True)
class SalvageRequest:
    """Request of a salvage; ``stores`` are copies of one log, of which the first leads."""

    stores: tuple[Store, ...]
    engine: EngineOptions | Engine
    choices: Choices = field(default_factory=Choices, metadata=options.GROUP)
    live: bool = options.live()

    @property
    def copies(self) -> LogCopies:
        """Return the stores as copies of one log."""
        from rmqtool.salvage.gathering import LogCopies  # of numpy, which help needs not

        return LogCopies(self.stores)
