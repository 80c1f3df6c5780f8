"""Regenerate ``consumequeue/`` and ``index/`` from the commit log: what a running master's reput builds."""

from __future__ import annotations

import json
import time
from contextlib import AbstractContextManager, suppress
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from rmqtool.account import NO_LOSSES, LogLosses, indexes_beyond
from rmqtool.check import VerifyRequest
from rmqtool.check.log_findings import unlisted_batch_topics
from rmqtool.commands.rebuild.judging import GenerationChoice, judge_delay_table, judge_log
from rmqtool.commands.rebuild.present import PresentComparison, RebuildLosses
from rmqtool.commands.rebuild.report import Account, RangeCount, RebuildReport, RecordCount, SkippedUnits
from rmqtool.dispatch.index_keys import TagRule, assumptions, tag_rule
from rmqtool.dispatch.policy import NEVER, DispatchPolicy
from rmqtool.engine import Engine, options_of
from rmqtool.engine.choice import opened_engine, runs_elsewhere
from rmqtool.errors import DeniedError, EnvironmentFailureError, RefusedError
from rmqtool.findings import codes
from rmqtool.kernels.jit import compile_kernels
from rmqtool.projection import json_object
from rmqtool.reput.blocks import open_scratch
from rmqtool.reput.damage import SkippedRange, UnreachableRange, inspect_skips, inspect_unreachable
from rmqtool.reput.pipeline import ReputPlan, ReputResult, run_reput
from rmqtool.scan.classify import FoundEdge
from rmqtool.scan.record_checks import RecordChecker
from rmqtool.scan.record_walk import LogExtent, find_log_end
from rmqtool.store.broker_json import ConfigSource
from rmqtool.store.kinds import REBUILD_REPORT, PathKind
from rmqtool.store.layouts import Deed
from rmqtool.store.lock import lock_holder
from rmqtool.store.results import AnyArea, output_area, temporary_place
from rmqtool.topics import HALF_TOPIC, OP_TOPIC, ROCKSDB_HALF_TOPIC, ROCKSDB_OP_TOPIC

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rmqtool.account.log_losses import StoreAccount
    from rmqtool.commands.rebuild import RebuildRequest
    from rmqtool.outcomes import Outcome
    from rmqtool.progress import Progress
    from rmqtool.store import Store


def rebuild(request: RebuildRequest, progress: Progress) -> RebuildReport:
    """Rebuild into ``request.out``, which appears complete or not at all."""
    start = time.perf_counter()
    _check(request, progress)
    with _staging(request) as area, opened_engine(request.engine) as working:
        if options_of(request.engine).kind != "local":
            compile_kernels(rare=False)  # while Java starts; in this process, threads share what one compiles
        report = _run(request, area, working, progress)
        if request.compare and not report.doubtful_settings:
            from rmqtool.commands.rebuild.compare import compare_derived

            there = request.store.base, request.directories
            differences = compare_derived(area.handle.results, *there, progress)
            report = replace(report, compared=True, differences=tuple(differences))
        seconds = {**report.seconds, "total": round(time.perf_counter() - start, 3)}
        report = replace(report, seconds=seconds)
        if request.out is not None and not request.dry_run:
            progress.stage("publish", None)
            with area.create_file(REBUILD_REPORT) as file:
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
    return DispatchPolicy.from_settings(request.store.settings)._replace(
        topics=request.topics,
        exclude_topics=request.exclude_topics,
        until_timestamp_ms=NEVER if request.until_timestamp_ms is None else request.until_timestamp_ms,
        tag_items=None if tags is None else tags.value,
    )


def _check(request: RebuildRequest, progress: Progress) -> None:
    store = request.store
    request.check()
    _check_log(store)
    if request.until_offset is None:
        _check_confirmed(store)
    temporary_place(store.evidence_roots)  # Spark writes there, too
    holder = None if store.root is None or request.live else lock_holder(store.root)
    if holder is not None:
        raise RefusedError(
            f"{store.root}: {holder} holds the store's lock; stop the broker, or add --live to rebuild from"
            " what the log holds now"
        )
    for setting in store.settings.assumed_sizes(request.parts):
        progress.warn(setting.assumption)
    for name, doubt in _doubtful(request).items():
        progress.warn(
            f"{name} is in doubt, {store.settings[name].value} taken: {doubt}; give the broker's with"
            f" -c broker.conf or -p {name}=N; --compare waits for that"
        )


def _check_log(store: Store) -> None:
    store.require(Deed.REBUILD)
    store.require_log("rebuild from")
    if store.root is not None and store.settings.release.batch_queues:
        reason = ConfigSource(store.root).why_denied("topics.json")
        if reason is not None:
            raise EnvironmentFailureError(f"{reason}; it says which topics have batch queues")


def _check_confirmed(store: Store) -> None:
    """Refuse where consumers may see nothing of a log: all queues would be empty."""
    confirmed, start = store.confirm_offset, store.commitlog.start
    if confirmed is not None and confirmed <= start < find_log_end(FoundEdge.of(store)).end:
        raise RefusedError(
            f"{store.base}: controller mode, and by the checkpoint no record of this log is confirmed"
            f" (confirm offset {confirmed}, the log begins at {start}): the result would be empty; rebuild on"
            " the replica that is master, or give --until-offset N to include records up to N all the same"
        )


def _doubtful(request: RebuildRequest) -> dict[str, str]:
    """Return the doubtful sizes of the files to make, and their contradictions."""
    return {size.name: size.doubt for size in request.store.settings.doubtful_sizes(request.parts)}


def _staging(request: RebuildRequest) -> AbstractContextManager[AnyArea]:
    """Stage beside the output; without one, where temporary files belong."""
    if request.out is None:
        return open_scratch(request.engine, request.store.evidence_roots)
    elsewhere = runs_elsewhere(request.engine)
    return output_area(request.out, [request.store], REBUILD_REPORT, request.own, elsewhere=elsewhere)


def _plan(request: RebuildRequest, area: AnyArea, tags: TagRule | None) -> ReputPlan:
    settings, until = request.store.settings, request.until_offset
    if until is None:
        until = _unconfirmed_from(request.store)
    log = request.store.own_log
    return ReputPlan.of(settings, log, _dispatch_policy(request, tags), area.handle, *request.parts)._replace(
        until_offset=NEVER if until is None else until,
        max_findings=request.max_findings,
    )


_ODD = {code.code for code in (codes.CL_QOFF_GAP, codes.CL_PHY_MISMATCH, codes.CL_TS_BACK)}
"""Findings of logs that may have lost messages though no walk meets a gap."""


def _unconfirmed_from(store: Store) -> int | None:
    """Return where records begin that replicas have not confirmed: no consumer is to see them."""
    confirmed = store.confirm_offset
    is_behind = confirmed is not None and confirmed < find_log_end(FoundEdge.of(store)).end
    return confirmed if is_behind else None


def _run(request: RebuildRequest, area: AnyArea, engine: Engine, progress: Progress) -> RebuildReport:
    """Return the report of all but the comparison of files."""
    tags = _tag_rule(request)
    if tags is not None:
        items = str(tags.value)
        wanted = "no tag index entries" if items == "none" else f"tag index entries for {items}"
        progress.note(f"{wanted}: {tags.reason}")
    choice = GenerationChoice(request.store, request.generations)
    plan = _plan(request, area, tags)
    if request.until_offset is None and plan.until_offset != NEVER:
        progress.warn(f"controller mode: records after {plan.until_offset}, the confirm offset, are left out")
    edge = FoundEdge.of(request.store, plan.log)
    plan = plan._replace(judge=partial(RecordChecker, stop=edge.stale_from), choose=choice)
    emit = request.compare or not request.dry_run
    result = run_reput(plan, engine, progress, emit=emit)
    for queue_plan in result.plans:
        request.tell_queue(queue_plan.topic, queue_plan.queue_id, queue_plan.batch)
    start = time.perf_counter()
    skipped = inspect_skips(plan, result, engine, edge)
    unreachable = inspect_unreachable(plan, result, engine)
    for sentence in choice.unsettled:
        progress.warn(sentence)
    for finding in unlisted_batch_topics(request.store, result.plans):
        progress.warn(f"{finding.message}. {finding.remedy}")
    judged = judge_log(request.store, plan, result, skipped, edge, engine)
    assumed = assumptions(request.store, request.parts, tags)
    beside, losses, from_log, lacks = None, None, _before(request.store), False

    def account() -> StoreAccount:
        from rmqtool.account.log_losses import account_of  # few logs have lost anything

        made = account_of(request.store, plan.log)
        made.look(engine)
        return made

    if request.tell_lost is not None:
        losses = RebuildLosses(plan, result, edge, account(), request.tell_lost)
        losses.report_records()
    if not plan.is_partial:  # a part is meant to be less
        comparison = PresentComparison(request.store, plan, result, choice.since, account, losses)
        beside = comparison.present(judged)
        lacks = comparison.lacks
        unread, of_delays = judge_delay_table(request.store, plan, result, judged, progress)
        beside = replace(beside, unread=(*beside.unread, *unread))
        assumed |= of_delays
    skipped = [part for part in skipped if part.damage]
    is_odd = bool(unreachable or skipped or _ODD & judged.counts.keys())
    unreached = RecordCount(0, 0)
    if is_odd or losses is not None or lacks or indexes_beyond(request.store, result.chain.end):
        surveyed = account().surveyed
        unreached = RecordCount(len(surveyed.unreached), surveyed.unreached_bytes)
        from_log = account().losses(lost=None if losses is None else losses.lost)
        judged.extend(account().findings(from_log))
    result.seconds["survey"] = round(time.perf_counter() - start, 3)
    where = _account(result, skipped, unreachable, unreached)
    may_harm = (
        is_odd
        or bool(judged.errors or from_log.messages or (beside is not None and beside.fewer_messages))
        or _changes_queues(request.store, result)
    )
    left_bytes = unreached.bytes + sum(skip.record_bytes for skip in skipped)
    left_bytes += sum(segment.record_bytes for segment in unreachable)
    return RebuildReport(
        store=str(request.store.base),
        log=LogExtent.of(request.store),
        out=None if request.out is None or request.dry_run else str(request.out),
        mode="broker",
        engine=options_of(request.engine).kind,
        partial=plan.is_partial,
        asked=request.result_options,
        settings={setting.name: setting for setting in request.store.settings},
        doubtful_settings=_doubtful(request),
        assumed=assumed,
        tag_items=tags,
        records=result.messages,
        bytes=result.chain.end - plan.log.start,
        units=result.units,
        index_entries=result.entries,
        queues=result.queues,
        files=dict(result.files),
        present=beside,
        account=where,
        skipped=tuple(skipped),
        more_skipped=RangeCount(result.chain.more_skips, result.chain.more_skipped_bytes),
        unreachable=tuple(unreachable),
        skipped_units_by_queue=tuple(
            SkippedUnits(*queue, units) for queue, units in sorted(result.skipped_units.items())
        ),
        older_generations=tuple(choice.dropped),
        unsettled_generations=tuple(choice.unsettled),
        unindexed=result.unindexed,
        salvage_would_add=RecordCount(where.skipped + where.unreachable, left_bytes),
        lost_messages=None if losses is None else losses.totals(),
        log_losses=from_log,
        findings=judged,
        not_looked_at=_not_looked_at(request.store, result),
        outcomes=_outcomes(request, plan, engine, progress) if may_harm else (),
        seconds=result.seconds,
    )


def _outcomes(
    request: RebuildRequest, plan: ReputPlan, engine: Engine, progress: Progress
) -> tuple[Outcome, ...]:
    """Return the outcomes of the result and of other actions, by all that ``verify`` finds in the store."""
    store = request.store
    is_whole = store.kind is PathKind.STORE and {"consumequeue", "index"} <= set(request.parts)
    if plan.is_partial or request.live or not is_whole:
        return ()
    from rmqtool.actions.foresight import foresee  # few logs are damaged
    from rmqtool.check.run import check
    from rmqtool.recovery.predict import NotPredictedError

    findings = check(VerifyRequest(store, engine=engine), progress).findings
    with suppress(NotPredictedError, EnvironmentFailureError):
        return foresee(store, store.settings.release, findings, is_suspect=True)
    return ()


def _changes_queues(store: Store, result: ReputResult) -> bool:
    """Whether a result has queues that no broker loads, or lacks some of which all messages have expired."""
    batches = {plan.topic for plan in result.plans if plan.batch}
    if batches and store.root is not None and store.settings.release.batch_queues:
        from rmqtool.recovery.loaded import batch_topics_of  # few stores have batch queues

        if batches - batch_topics_of(store.root):
            return True
    made = {(plan.topic, plan.queue_id) for plan in result.plans}
    return store.commitlog.start > 0 and any(
        (queue.topic, queue.queue_id) not in made for queue in store.queues()
    )


def _before(store: Store) -> LogLosses:
    """Return the messages before a log that has lost nothing else."""
    if store.commitlog.start <= 0:
        return NO_LOSSES
    from rmqtool.account.log_losses import losses_of_sound_log  # logs from 0 have none

    return losses_of_sound_log(store) or NO_LOSSES


def _account(
    result: ReputResult,
    skipped: Sequence[SkippedRange],
    unreachable: Sequence[UnreachableRange],
    unreached: RecordCount,
) -> Account:
    """Return counts of the log's intact records by outcome; no walk reaches the ``unreached``."""
    left_out = sum((skip.records for skip in skipped), unreached.records)
    after = sum(segment.records for segment in unreachable)
    total = result.records + left_out + after
    return Account(total, result.messages, result.records - result.messages, left_out, after)


_TRANSACTIONAL = frozenset({HALF_TOPIC, OP_TOPIC, ROCKSDB_HALF_TOPIC, ROCKSDB_OP_TOPIC})
_TRANSACTIONS = "half and op messages of transactions (CL-HALF, CL-OP, CL-PREPARED): verify checks it"


def _not_looked_at(store: Store, result: ReputResult) -> tuple[str, ...]:
    """Return what `rmqtool.check.transactions` would check, where there are transactions."""
    topics = {plan.topic for plan in result.plans}
    with suppress(DeniedError):  # then the rebuilt queues show it, if there are any
        topics.update(store.topics())
    return () if topics.isdisjoint(_TRANSACTIONAL) else (_TRANSACTIONS,)
