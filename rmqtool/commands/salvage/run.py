"""From a damaged store, or several copies of one, to a plan, and from a plan to a new store."""

from __future__ import annotations

import hashlib
import json
import time
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from rmqtool.commands.salvage.derived import make_derived
from rmqtool.commands.salvage.report import SalvageReport
from rmqtool.dispatch.policy import NEVER, DispatchPolicy
from rmqtool.engine import EngineOptions, opened_engine
from rmqtool.errors import EnvironmentFailureError, RefusedError, UsageError
from rmqtool.projection import json_object
from rmqtool.salvage.companions import copy_config, copy_timer, write_checkpoint
from rmqtool.salvage.copies import merge
from rmqtool.salvage.evidence import QueueEvidence, read_evidence
from rmqtool.salvage.model import Holes, PartKind, RecordForm, SourceFile
from rmqtool.salvage.papers import lost_lines, manifest_lines, plan_text, rescue_map
from rmqtool.salvage.planning import Choices, Planner
from rmqtool.salvage.survey import Survey, survey_log
from rmqtool.salvage.writing import Written, write_found, write_log
from rmqtool.scan.records import check_record
from rmqtool.store.lock import lock_holder
from rmqtool.store.setting import Origin
from rmqtool.store.staging import StagingArea

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

    from rmqtool.engine import Engine
    from rmqtool.progress import Progress
    from rmqtool.salvage.model import SalvagePlan
    from rmqtool.store import FileQueue, Store
    from rmqtool.store.staging import StagingHandle

PAPERS = "salvage"
_CHUNK_BYTES = 4 << 20
_LARGEST_FILLER = 4 << 20
_SAMPLE = 64
_LOOPBACK = bytes((127, 0, 0, 1, 0, 0, 0x2A, 0x9F))


@dataclass(frozen=True)
class SalvageRequest:
    """What to salvage, and how.

    Attributes:
        stores: copies of one log; the first leads.
        engine: where the stages run.
        holes: what takes the place of lost messages.
        keep_damaged: give records back whose bodies are not what their checksums say, as they are.
        include_stale: give back what looks stale.
        topics: globs of topics to take; empty takes all.
        exclude_topics: globs of topics to leave out.
        until_timestamp_ms: nothing stored later.
        until_offset: nothing from this physical offset on.
        live: go on although a broker holds a store's lock.
    """

    stores: tuple[Store, ...]
    engine: EngineOptions
    holes: Holes = Holes.TOMBSTONE
    keep_damaged: bool = False
    include_stale: bool = False
    topics: tuple[str, ...] = ()
    exclude_topics: tuple[str, ...] = ()
    until_timestamp_ms: int | None = None
    until_offset: int | None = None
    live: bool = False

    @property
    def file_size(self) -> int:
        """Return the bytes of a file of the log."""
        return self.stores[0].settings.commitlog_file_size

    @property
    def logs(self) -> tuple[FileQueue, ...]:
        """Return the logs of the copies, longer files cut to their size."""
        return tuple(store.commitlog.without_excess(self.file_size) for store in self.stores)

    @property
    def policy(self) -> DispatchPolicy:
        """Return the broker's switches."""
        return DispatchPolicy.from_settings(self.stores[0].settings)

    @property
    def evidence_roots(self) -> tuple[Path, ...]:
        """Return the directories that nothing may be written into."""
        return tuple({path for store in self.stores for path in store.evidence_roots})


def salvage(
    request: SalvageRequest, out: Path, progress: Progress, engine: Engine | None = None
) -> SalvageReport:
    """Salvage into ``out``, which appears complete or not at all.

    Raises:
        UsageError: the stores are no copies of one log.
        RefusedError: a broker holds a lock, the output exists, or it lies inside the evidence.
        EnvironmentFailureError: reading or writing failed, or there is nothing to give back.
    """
    seconds: dict[str, float] = {}
    with StagingArea(out, request.evidence_roots) as area, opened_engine(request.engine, engine) as hands:
        plan = _plan(request, progress, hands, seconds)
        return _carry_out(plan, request, area, progress, hands, seconds)


def plan_salvage(request: SalvageRequest, progress: Progress, engine: Engine | None = None) -> SalvagePlan:
    """Return what a salvage would do, with digests of the copies; nothing is written."""
    with opened_engine(request.engine, engine) as hands:
        plan = _plan(request, progress, hands, {})
        progress.stage("digests", None)
        return replace(plan, sources=_with_digests(request, hands))


def apply_plan(
    plan: SalvagePlan, request: SalvageRequest, out: Path, progress: Progress, engine: Engine | None = None
) -> SalvageReport:
    """Do what a plan says, and nothing else.

    Raises:
        RefusedError: a copy is not what it was when the plan was made; or as for ``salvage``.
    """
    _check(request)
    with StagingArea(out, request.evidence_roots) as area, opened_engine(request.engine, engine) as hands:
        _refuse_changed(plan, request, hands)
        if plan.file_size != request.file_size:
            raise RefusedError(
                f"the plan has files of {plan.file_size} bytes, the store of {request.file_size}: give the"
                " settings that the plan was made with"
            )
        return _carry_out(plan, request, area, progress, hands, {})


@contextmanager
def _timed(seconds: dict[str, float], stage: str) -> Iterator[None]:
    start = time.perf_counter()
    yield
    seconds[stage] = round(time.perf_counter() - start, 3)


def _plan(
    request: SalvageRequest, progress: Progress, engine: Engine, seconds: dict[str, float]
) -> SalvagePlan:
    _check(request)
    with _timed(seconds, "survey"):
        surveys = []
        for log in request.logs:
            progress.stage("survey", log.size_bytes)
            several = len(request.stores) > 1
            surveys.append(
                survey_log(log, request.policy, engine, compared=several, progress=progress.advance)
            )
        evidence = QueueEvidence()
        for store in request.stores:
            evidence.add(read_evidence(store))
    with _timed(seconds, "plan"):
        progress.stage("plan", None)
        merged = merge(surveys, evidence, include_stale=request.include_stale)
        planner = Planner(
            merged,
            evidence,
            _choices(request),
            _form(request, merged.survey),
            request.file_size,
            request.stores[0].settings.batch_topics,
            tuple(str(store.base) for store in request.stores),
            tuple(_sources(request)),
        )
        return planner.plan()


def _check(request: SalvageRequest) -> None:
    for store in request.stores:
        if not len(store.commitlog):
            raise EnvironmentFailureError(f"{store.base}: no commit log segment there; give a store root")
        holder = None if store.root is None or request.live else lock_holder(store.root)
        if holder is not None:
            raise RefusedError(
                f"{store.root}: {holder} holds the store's lock; stop the broker, or add --live to salvage"
                " what the log holds now"
            )
    sizes = {store.settings.commitlog_file_size for store in request.stores}
    if len(sizes) > 1:
        raise UsageError(f"the copies have files of {sorted(sizes)} bytes: give -p mappedFileSizeCommitLog=N")


def _choices(request: SalvageRequest) -> Choices:
    policy = replace(request.policy, topics=request.topics, exclude_topics=request.exclude_topics)
    return Choices(
        holes=request.holes,
        keep_damaged=request.keep_damaged,
        include_stale=request.include_stale,
        until_timestamp_ms=NEVER if request.until_timestamp_ms is None else request.until_timestamp_ms,
        until_offset=NEVER if request.until_offset is None else request.until_offset,
        takes=policy.takes,
        chooses_topics=bool(request.topics or request.exclude_topics),
    )


def _form(request: SalvageRequest, survey: Survey) -> RecordForm:
    """Return how this store's records are made: as its settings say, else as its records show."""
    settings = request.stores[0].settings

    def says(name: str) -> bool:
        setting = settings[name]
        return setting.origin is not Origin.DEFAULT and bool(setting.value)

    samples = list(_samples(request, survey))
    return RecordForm(
        appends_crc=says("enabledAppendPropCRC")
        or says("forceVerifyPropCRC")
        or 2 * survey.sound_crcs > len(survey.records),
        dup_info=says("duplicationEnable")
        or (bool(samples) and all("DUP_INFO" in one for one, _ in samples)),
        store_host=next((host for _, host in samples if len(host) == len(_LOOPBACK)), _LOOPBACK),
        largest=min(int(settings["maxMessageSize"].value or _LARGEST_FILLER), _LARGEST_FILLER),
    )


def _samples(request: SalvageRequest, survey: Survey) -> Iterator[tuple[dict[str, str], bytes]]:
    """Yield properties and store host of some records."""
    sound = survey.records[~survey.damaged]
    rules = request.policy.release.records
    for row in sound[:: max(len(sound) // _SAMPLE, 1)]:
        segment = request.logs[int(row["source"])].segment_at(int(row["log_offset"]))
        if segment is not None:
            record = check_record(
                segment, int(row["log_offset"]) - segment.start, rules, base=segment.start
            ).record
            if record is not None:
                yield record.properties, record.head.store_host


def _sources(request: SalvageRequest) -> Iterator[SourceFile]:
    for number, store in enumerate(request.stores):
        for segment in store.commitlog:
            status = segment.path.status()
            modified = None if status is None else status.modified_ns
            yield SourceFile(str(segment.path), number, segment.size_bytes, modified)


def _with_digests(request: SalvageRequest, engine: Engine) -> tuple[SourceFile, ...]:
    files = [segment for store in request.stores for segment in store.commitlog]
    digests = engine.map(_digest, files)
    return tuple(
        replace(source, sha256=digest) for source, digest in zip(_sources(request), digests, strict=True)
    )


def _digest(file: object) -> str:
    from rmqtool.store import StoreFile

    if not isinstance(file, StoreFile):
        raise TypeError("only files have digests")
    digest = hashlib.sha256()
    for position in range(0, file.size_bytes, _CHUNK_BYTES):
        digest.update(file.read_at(position, _CHUNK_BYTES, []))
    return digest.hexdigest()


def _refuse_changed(plan: SalvagePlan, request: SalvageRequest, engine: Engine) -> None:
    now = _with_digests(request, engine)
    for was, found in zip(plan.sources, now, strict=False):
        if was != found:
            raise RefusedError(f"{found.path}: is not what it was when the plan was made: make a new plan")
    if len(now) != len(plan.sources):
        raise RefusedError(
            f"{request.stores[0].base}: {len(now)} files of the log, {len(plan.sources)} in the plan"
        )


def _carry_out(
    plan: SalvagePlan,
    request: SalvageRequest,
    area: StagingArea,
    progress: Progress,
    engine: Engine,
    seconds: dict[str, float],
) -> SalvageReport:
    handle = area.handle
    with _timed(seconds, "write"):
        progress.stage("write", None)
        files = write_log(plan, request.logs, handle, engine)
    with _timed(seconds, "derived"):
        derived = make_derived(plan, request, area, progress, engine)
        files = derived.log or files
    with _timed(seconds, "beside"):
        aside = [written for _, written in write_found(plan.found, request.logs, handle)]
        config, more = copy_config(request.stores[0], handle)
        beside = [*aside, *more, *copy_timer(request.stores[0], handle), *derived.files]
        last = _last_record(plan)
        beside.append(
            write_checkpoint(
                handle, last_ms=derived.last_ms, index_ms=derived.index_ms, end=plan.end, last_record=last
            )
        )
    report = SalvageReport.of(
        plan,
        out=str(area.out),
        units=derived.units,
        index_entries=derived.entries,
        config=tuple(config),
        seconds=seconds,
    )
    _write_papers(plan, report, [*files, *beside], handle)
    progress.stage("publish", None)
    area.publish()
    return report


def _last_record(plan: SalvagePlan) -> int:
    ends = [part for part in plan.parts if part.kind in {PartKind.RECORDS, PartKind.TOMBSTONES}]
    return ends[-1].start if ends else plan.start


def _write_papers(
    plan: SalvagePlan, report: SalvageReport, files: Iterable[Written], handle: StagingHandle
) -> None:
    text = json.dumps(json_object(report), indent=1) + "\n"
    for name, lines in (
        ("plan.json", [plan_text(plan)]),
        ("lost.ndjson", lost_lines(plan)),
        ("log.map", rescue_map(plan)),
        ("SHA256SUMS", manifest_lines(files)),
        ("salvage.json", [text]),
    ):
        with handle.create_file(f"{PAPERS}/{name}") as file:
            file.write_at(0, "".join(lines).encode("utf-8", "surrogateescape"))
