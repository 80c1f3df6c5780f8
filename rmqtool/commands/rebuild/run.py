"""Regenerate ``consumequeue/`` and ``index/`` from the commit log: what a running master's reput builds."""

from __future__ import annotations

import json
import time
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from rmqtool.commands.rebuild.compare import compare_derived
from rmqtool.commands.rebuild.report import RangeCount, RebuildReport, RecordCount
from rmqtool.dispatch.policy import NEVER, DispatchPolicy
from rmqtool.dispatch.tag_evidence import TagRule, tag_rule
from rmqtool.engine import EngineOptions, opened_engine
from rmqtool.errors import EnvironmentFailureError, RefusedError, UsageError
from rmqtool.findings import FindingLog
from rmqtool.jit import compile_kernels
from rmqtool.projection import json_object
from rmqtool.reput.damage import SkippedRange, counted_skips, inspect_skips, log_findings
from rmqtool.reput.pipeline import ReputPlan, ReputResult, run_reput
from rmqtool.reput.queues import QueueGeometry
from rmqtool.reput.scratch import open_scratch
from rmqtool.scan.log_edge import FoundEdge
from rmqtool.store.layout import left_out_findings
from rmqtool.store.lock import lock_holder
from rmqtool.store.scratch import temporary_place
from rmqtool.store.staging import StagingArea

if TYPE_CHECKING:
    from contextlib import AbstractContextManager
    from pathlib import Path

    from rmqtool.commands.rebuild.compare import FileDifference
    from rmqtool.dispatch.tag_items import TagItems
    from rmqtool.engine import Engine
    from rmqtool.progress import Progress
    from rmqtool.store import Store

PARTS = frozenset({"consumequeue", "index"})
REPORT_NAME = "rebuild.json"
_DIRECTORIES = {
    "consumequeue": ("consumequeue", "consumequeue_ext", "batchconsumequeue"),
    "index": ("index",),
}


@dataclass(frozen=True)
class RebuildRequest:
    """What to rebuild, and how.

    Attributes:
        store: the evidence.
        out: directory to create; None with ``compare`` or ``dry_run`` alone.
        engine: where the stages run.
        parts: ``consumequeue`` (with ext and batch queues), ``index``, or both.
        compare: compare with the store's present files.
        dry_run: count only, write nothing.
        topics: globs of topics to take; empty takes all. Like the next three it makes the result partial.
        exclude_topics: globs of topics to leave out.
        until_timestamp_ms: leave out messages stored later.
        until_offset: stop at this physical offset.
        live: go on although a broker holds the store's lock.
        max_findings: findings of one code that are kept in full.
        tag_items: which messages get an index entry for their tags; None: as the store shows.
    """

    store: Store
    out: Path | None
    engine: EngineOptions
    parts: frozenset[str] = PARTS
    compare: bool = False
    dry_run: bool = False
    topics: tuple[str, ...] = ()
    exclude_topics: tuple[str, ...] = ()
    until_timestamp_ms: int | None = None
    until_offset: int | None = None
    live: bool = False
    max_findings: int = 10
    tag_items: TagItems | None = None

    @property
    def directories(self) -> tuple[str, ...]:
        """Return the directories that the parts are made of."""
        return tuple(name for part in sorted(self.parts) for name in _DIRECTORIES[part])


def rebuild(request: RebuildRequest, progress: Progress, engine: Engine | None = None) -> RebuildReport:
    """Rebuild into ``request.out``, which appears complete or not at all.

    Args:
        request: what to do.
        progress: is told of stages, remarks and warnings.
        engine: an open engine to work on, which stays open; None opens ``request.engine``.

    Raises:
        UsageError: nothing to do, or settings that no rebuild can follow.
        RefusedError: a broker holds the lock, the output exists, or it lies inside the evidence.
        EnvironmentFailureError: reading the log or writing the output failed; nothing was left behind.
    """
    start = time.perf_counter()
    _check(request, progress)
    with _staging(request) as area, opened_engine(request.engine, engine) as hands:
        if request.engine.kind != "local":
            compile_kernels()  # while Java starts; in this process, threads share what the first compiles
        made = _run(request, area, hands, progress)
        differences: list[FileDifference] = []
        if request.compare:
            progress.stage("compare", None)
            differences = compare_derived(area.handle.result, request.store.base, request.directories)
        made.result.seconds["total"] = round(time.perf_counter() - start, 3)
        report = _report(request, made, differences)
        if request.out is not None and not request.dry_run:
            progress.stage("publish", None)
            with area.create_file(REPORT_NAME) as file:
                file.write_at(0, (json.dumps(json_object(report), indent=1) + "\n").encode())
            area.publish()
    return report


def _tag_rule(request: RebuildRequest) -> TagRule | None:
    """Return which messages get an index entry for their tags; None where no index is made."""
    if "index" not in request.parts or not request.store.settings.message_index_enable:
        return None
    return tag_rule(request.store) if request.tag_items is None else TagRule.given(request.tag_items)


def _dispatch_policy(request: RebuildRequest, tags: TagRule | None) -> DispatchPolicy:
    """Return the broker's switches, and the user's choice of messages."""
    return replace(
        DispatchPolicy.from_settings(request.store.settings),
        topics=request.topics,
        exclude_topics=request.exclude_topics,
        until_timestamp_ms=NEVER if request.until_timestamp_ms is None else request.until_timestamp_ms,
        tag_items=None if tags is None else tags.value,
    )


def _check(request: RebuildRequest, progress: Progress) -> None:
    store = request.store
    if request.out is None and not (request.compare or request.dry_run):
        raise UsageError("nothing to do: give --out DIR for the result, or --compare, or --dry-run")
    if request.out is not None and request.engine.scratch is not None:
        raise UsageError("--scratch is for runs without --out, which has room beside it")
    if not len(store.commitlog):
        places = ", ".join(str(directory) for directory in store.commitlog.directories)
        raise EnvironmentFailureError(
            f"{places or store.base}: no commit log segment there; give a store root, or its log's place with"
            " -p storePathCommitLog=DIR"
        )
    temporary_place(store.evidence_roots)  # Spark writes there, too
    holder = None if store.root is None or request.live else lock_holder(store.root)
    if holder is not None:
        raise RefusedError(
            f"{store.root}: {holder} holds the store's lock; stop the broker, or add --live to rebuild from"
            " what the log holds now"
        )
    for setting in store.settings.defaulted_sizes():
        progress.warn(
            f"{setting.name} is not known from the files: {setting.value} assumed;"
            f" give the broker's with -c broker.conf or -p {setting.name}=N"
        )


def _staging(request: RebuildRequest) -> AbstractContextManager[StagingArea]:
    """Stage beside the output; without one, where temporary files belong."""
    roots = request.store.evidence_roots
    return open_scratch(request.engine, roots) if request.out is None else StagingArea(request.out, roots)


def _plan(request: RebuildRequest, area: StagingArea, tags: TagRule | None) -> ReputPlan:
    settings = request.store.settings
    sizes = QueueGeometry(
        settings.consumequeue_file_size,
        settings.consumequeue_ext_file_size,
        settings.batchconsumequeue_file_size,
    )
    return ReputPlan(
        log=request.store.commitlog.without_excess(settings.commitlog_file_size),
        file_size=settings.commitlog_file_size,
        policy=_dispatch_policy(request, tags),
        staging=area.handle,
        parts=request.parts,
        queue_geometry=sizes,
        index_geometry=settings.index_geometry,
        zone=settings.index_timezone,
        until_offset=NEVER if request.until_offset is None else request.until_offset,
    )


@dataclass(frozen=True, slots=True)
class _Made:
    """What a run made of what.

    Attributes:
        plan: what was to be made.
        result: counts and times.
        skipped: what was not dispatched.
        findings: what is wrong with the log.
        tags: which messages have an index entry for their tags; None without an index.
    """

    plan: ReputPlan
    result: ReputResult
    skipped: list[SkippedRange]
    findings: FindingLog
    tags: TagRule | None


def _run(request: RebuildRequest, area: StagingArea, engine: Engine, progress: Progress) -> _Made:
    tags = _tag_rule(request)
    if tags is not None:
        progress.note(f"tag items: {tags.value} ({tags.origin.value}: {tags.reason})")
    plan = _plan(request, area, tags)
    emit = request.compare or not request.dry_run
    result = run_reput(plan, engine, progress, emit=emit)
    start = time.perf_counter()
    edge = FoundEdge.of(request.store, plan.log)
    skipped = inspect_skips(plan, result, engine, edge)
    findings = FindingLog(request.max_findings)
    findings.extend(left_out_findings(request.store, plan.log))
    findings.extend(log_findings(plan, result, skipped, edge))
    more, count = counted_skips(result.chain)
    findings.add(more, count=count)
    result.seconds["survey"] = round(time.perf_counter() - start, 3)
    return _Made(plan, result, skipped, findings, tags)


def _report(request: RebuildRequest, made: _Made, differences: list[FileDifference]) -> RebuildReport:
    plan, result = made.plan, made.result
    skipped = tuple(part for part in made.skipped if part.damage)
    return RebuildReport(
        store=str(request.store.base),
        out=None if request.out is None or request.dry_run else str(request.out),
        mode="broker",
        engine=request.engine.kind,
        partial=plan.policy.partial or request.until_offset is not None,
        settings={setting.name: setting for setting in request.store.settings},
        tag_items=made.tags,
        records=result.messages,
        bytes=result.chain.end - plan.log.start,
        units=result.units,
        index_entries=result.entries,
        queues=result.queues,
        files=dict(result.files),
        skipped=skipped,
        more_skipped=RangeCount(result.chain.more_skips, result.chain.more_skipped_bytes),
        skipped_units=sum(result.skipped_units.values()),
        salvage_would_add=RecordCount(
            sum(part.records for part in skipped), sum(part.record_bytes for part in skipped)
        ),
        findings=made.findings,
        compared=request.compare,
        differences=tuple(differences),
        seconds=result.seconds,
    )
