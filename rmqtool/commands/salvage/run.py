"""From a damaged store, or several copies of one, to a plan, and from a plan to a new store."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING

from rmqtool.commands.salvage.report import SalvageReport
from rmqtool.dispatch.policy import NEVER
from rmqtool.engine import opened_engine, runs_elsewhere
from rmqtool.errors import EnvironmentFailureError, RefusedError, UsageError
from rmqtool.findings import Structure
from rmqtool.formats.manifest import manifest_lines
from rmqtool.projection import json_object
from rmqtool.salvage.causes import Holes
from rmqtool.salvage.compaction import copy_compaction
from rmqtool.salvage.companions import copy_config, copy_timer, write_checkpoint
from rmqtool.salvage.derived import DerivedMaker
from rmqtool.salvage.gathering import timed
from rmqtool.salvage.model import PartKind, SourceFile
from rmqtool.salvage.papers import lost_lines, plan_text, rescue_map
from rmqtool.salvage.planned import PlannedLog
from rmqtool.salvage.planning import Choices
from rmqtool.salvage.writing import WrittenFile, write_found, writing_log
from rmqtool.store.lock import lock_holder
from rmqtool.store.results import SALVAGE_SIDECARS
from rmqtool.store.scratch import output_area
from rmqtool.store.segments import StoreFile

if TYPE_CHECKING:
    from collections.abc import Iterable
    from contextlib import AbstractContextManager

    from rmqtool.commands.salvage.request import SalvageRequest
    from rmqtool.engine import Engine
    from rmqtool.progress import Progress
    from rmqtool.salvage.model import SalvagePlan
    from rmqtool.store.scratch import AnyArea, Target
    from rmqtool.store.staging import StagingHandle


def salvage(
    request: SalvageRequest, out: Target, progress: Progress, engine: Engine | None = None
) -> SalvageReport:
    """Salvage into ``out``, a directory or what a URL names; it appears complete or not at all.

    Raises:
        UsageError: the stores are no copies of one log.
        RefusedError: a broker holds a lock, the output exists, or it lies inside the evidence.
        EnvironmentFailureError: reading or writing failed, or there is nothing to give back.
    """
    seconds: dict[str, float] = {}
    with _staging(request, out) as area, opened_engine(request.engine, engine) as hands:
        plan = _plan(request, progress, hands, seconds)
        return _carry_out(plan, request, area, progress, hands, seconds)


def plan_salvage(request: SalvageRequest, progress: Progress, engine: Engine | None = None) -> SalvagePlan:
    """Return what a salvage would do, with digests of the copies; nothing is written."""
    with opened_engine(request.engine, engine) as hands:
        plan = _plan(request, progress, hands, {})
        progress.stage("digests", None)
        return replace(plan, sources=_with_digests(request, hands))


def apply_plan(
    plan: SalvagePlan, request: SalvageRequest, out: Target, progress: Progress, engine: Engine | None = None
) -> SalvageReport:
    """Do what a plan says, and nothing else.

    Raises:
        RefusedError: a copy is not what it was when the plan was made; or as for ``salvage``.
    """
    _check(request)
    with _staging(request, out) as area, opened_engine(request.engine, engine) as hands:
        _refuse_changed(plan, request, hands)
        if plan.file_size != (size := request.copies.file_size):
            raise RefusedError(
                f"the plan has files of {plan.file_size} bytes, the store of {size}: give those that the"
                " plan was made with"
            )
        return _carry_out(plan, request, area, progress, hands, {})


def _staging(request: SalvageRequest, out: Target) -> AbstractContextManager[AnyArea]:
    return output_area(out, request.stores, elsewhere=runs_elsewhere(request.engine))


def _plan(
    request: SalvageRequest, progress: Progress, engine: Engine, seconds: dict[str, float]
) -> SalvagePlan:
    _check(request)
    return request.copies.plan(_choices(request), engine, progress, seconds)


def _check(request: SalvageRequest) -> None:
    for store in request.stores:
        store.base.source.fetch_tails()  # every true record counts, wherever it lies
        if not len(store.commitlog):
            raise EnvironmentFailureError(f"{store.base}: no commit log segment there; give a store root")
        for feature in store.unread:
            if feature.unread is Structure.UNREAD_LOG:
                raise EnvironmentFailureError(
                    f"{store.base}: {feature.sentence}: that part of the log is not read, and a result would"
                    " hide its messages; to salvage commitlog/ alone, copy it into a directory of its own"
                )
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
    policy = replace(request.copies.policy, topics=request.topics, exclude_topics=request.exclude_topics)
    return Choices(
        holes=request.holes,
        keep_damaged=request.keep_damaged,
        include_stale=request.include_stale,
        until_timestamp_ms=NEVER if request.until_timestamp_ms is None else request.until_timestamp_ms,
        until_offset=NEVER if request.until_offset is None else request.until_offset,
        takes=policy.takes,
        chooses_topics=bool(request.topics or request.exclude_topics),
    )


def _with_digests(request: SalvageRequest, engine: Engine) -> tuple[SourceFile, ...]:
    files = [segment for store in request.stores for segment in store.commitlog]
    digests = engine.map(StoreFile.sha256, files)
    return tuple(
        replace(source, sha256=digest)
        for source, digest in zip(request.copies.sources(), digests, strict=True)
    )


def _refuse_changed(plan: SalvagePlan, request: SalvageRequest, engine: Engine) -> None:
    now = _with_digests(request, engine)
    for was, found in zip(plan.sources, now, strict=False):
        if was != found:
            raise RefusedError(f"{found.path}: has changed since the plan was made: make a new plan")
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
    with writing_log(log, handle, engine) as written_log:
        with timed(seconds, "derived"):  # it reads what is planned, so nobody waits for the other
            derived = DerivedMaker(store, request.copies.policy, handle, engine, progress).make(log)
        with timed(seconds, "write"):
            progress.stage("write", None)
            files = written_log()
    with timed(seconds, "beside"):
        aside = [written for _, written in write_found(plan.found, request.copies.logs, handle)]
        config, more = copy_config(store, handle)
        compacted, logs = copy_compaction(store, plan, handle)
        checkpoint = write_checkpoint(
            handle,
            last_ms=max([0, *(one.last_stored_ms or 0 for one in plan.queues)]),
            index_ms=derived.index_ms,
            end=plan.end,
            last_record=_last_record(plan),
        )
        beside = [*aside, *more, *logs, *copy_timer(store, handle), *derived.files, checkpoint]
    report = SalvageReport.of(
        plan,
        out=str(area.out),
        units=derived.units,
        index_entries=derived.entries,
        config=(*config, *compacted),
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
    plan: SalvagePlan, report: SalvageReport, files: Iterable[WrittenFile], handle: StagingHandle
) -> None:
    text = json.dumps(json_object(report), indent=1) + "\n"
    for name, lines in (
        ("plan.json", [plan_text(plan)]),
        ("lost.ndjson", lost_lines(plan)),
        ("log.map", rescue_map(plan)),
        ("SHA256SUMS", manifest_lines((file.label, file.sha256) for file in files)),
        ("salvage.json", [text]),
    ):
        with handle.create_file(f"{SALVAGE_SIDECARS}/{name}") as file:
            file.write_at(0, "".join(lines).encode("utf-8", "surrogateescape"))
