"""Repair a store: look, plan, make what is new, decide, move, look again; or take it all back."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING

from rmqtool.check.model import VerifyRequest
from rmqtool.check.run import verify
from rmqtool.commands.repair.model import (
    RepairOutcome,
    RepairReport,
)
from rmqtool.commands.repair.moves import decide, log_facts, told
from rmqtool.commands.repair.plan import Plan, is_worse, make_plan
from rmqtool.errors import RefusedError, UsageError
from rmqtool.recovery import predict_recovery
from rmqtool.store import PathKind
from rmqtool.store.disk import LocalDisk
from rmqtool.store.journal import (
    Journal,
    done_moves,
    finish,
    journals,
    read_journal,
    sweep,
    undo,
)
from rmqtool.store.lock import held_lock

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from rmqtool.check.model import VerifyReport
    from rmqtool.commands.repair.model import RepairRequest
    from rmqtool.progress import Progress
    from rmqtool.store import Store


def plan_repair(request: RepairRequest, progress: Progress) -> RepairReport:
    """Tell what `repair` would do; nothing is written, and the lock is not taken.

    Raises:
        UsageError: it is no store root of this machine, or a choice is none.
        RefusedError: a broker holds the store's lock, or an interrupted repair waits to be finished.
        EnvironmentFailureError: a file cannot be read.
    """
    disk = _disk_of(request.store)
    waiting = _unfinished(disk)
    if waiting is not None:
        raise RefusedError(
            f"{request.store.base}: {waiting.name} was interrupted; run repair to finish it, or repair --undo"
        )
    report = _verified(request, request.store, progress)
    plan = make_plan(request, report.findings)
    return _report(request, plan, report, RepairOutcome.PLANNED if plan.steps else RepairOutcome.NOTHING)


def repair(
    request: RepairRequest,
    progress: Progress,
    agreed: Callable[[RepairReport], bool] = lambda _: True,
) -> RepairReport:
    """Repair a store, or finish a repair that was interrupted.

    Args:
        request: what to do.
        progress: is told of stages and remarks.
        agreed: is shown the plan and tells whether it is to be carried out.

    Raises:
        UsageError: it is no store root of this machine, or a choice is none.
        RefusedError: a broker holds the store's lock, or has worked on it since the repair was interrupted.
        EnvironmentFailureError: a file cannot be read or written; the store is as it was, or the next run
            finishes.
    """
    disk = _disk_of(request.store)
    with _locked(request.store):
        waiting = _unfinished(disk)
        if waiting is not None:
            return _finish_waiting(request, disk, waiting, progress)
        before = _verified(request, request.store, progress)
        plan = make_plan(request, before.findings)
        planned = _report(request, plan, before, RepairOutcome.PLANNED)
        if not plan.steps:
            return _report(request, plan, before, RepairOutcome.NOTHING)
        if not agreed(planned):
            return planned
        journal = decide(request, disk, plan, before, progress)
        return _carried_out(request, disk, plan, before, journal, progress)


def undo_repair(request: RepairRequest) -> RepairReport:
    """Take the newest repair back, finished or not.

    Raises:
        UsageError: it is no store root of this machine.
        RefusedError: there is none, a broker holds the store's lock, or it has worked on it since.
        EnvironmentFailureError: a file cannot be renamed; run it again.
    """
    disk = _disk_of(request.store)
    with _locked(request.store), told():
        sweep(disk)
        names = journals(disk)
        if not names:
            raise RefusedError(f"{request.store.base}: there is no repair to undo")
        journal = read_journal(disk, names[-1])
        if journal.facts["log"] != log_facts(request.store):
            raise RefusedError(
                f"{request.store.base}: the log has changed since {journal.name}: queues of before that would"
                f" lack messages. What was set aside is kept in {journal.name}/"
            )
        undo(disk, journal)
    return RepairReport(str(request.store.base), RepairOutcome.UNDONE, journal=journal.name)


def _finish_waiting(
    request: RepairRequest,
    disk: LocalDisk,
    journal: Journal,
    progress: Progress,
) -> RepairReport:
    if journal.facts["log"] != log_facts(request.store):
        raise RefusedError(
            f"{request.store.base}: {journal.name} was interrupted, and the log has changed since; what was"
            f" set aside is kept in {journal.name}/, {journal.name}/journal.ndjson says what was moved where"
        )
    with told():
        finish(disk, journal)
    after = _verified(request, request.store.afresh(), progress)
    return RepairReport(
        str(request.store.base),
        RepairOutcome.FINISHED,
        journal=journal.name,
        before=journal.facts["findings"],
        after=after.findings.counts,
        findings=after.findings,
    )


def _carried_out(
    request: RepairRequest,
    disk: LocalDisk,
    plan: Plan,
    before: VerifyReport,
    journal: Journal,
    progress: Progress,
) -> RepairReport:
    """Do the moves and look at the store again; take them back where it is worse than before."""
    lost = _lost_at_start(request.store)
    with told():
        finish(disk, journal)
    store = request.store.afresh()
    after = _verified(request, store, progress)
    if is_worse(before.findings, after.findings) or _lost_at_start(store) > lost:
        with told():
            undo(disk, journal)
        report = _report(request, plan, before, RepairOutcome.ROLLED_BACK)
    else:
        report = _report(request, plan, after, RepairOutcome.DONE, journal.name)
    return _with_counts(report, before, after)


def _with_counts(report: RepairReport, before: VerifyReport, after: VerifyReport) -> RepairReport:
    return replace(report, before=before.findings.counts, after=after.findings.counts)


def _lost_at_start(store: Store) -> int:
    """Return how many messages the next start would lose; one more than any number if it would not start."""
    try:
        prediction = predict_recovery(store, store.settings.release)
    except UsageError:  # recovery of such a store is not known; verify judges alone
        return 0
    return sum(one.messages for one in prediction.lost) if prediction.starts else 1 << 62


def _verified(request: RepairRequest, store: Store, progress: Progress) -> VerifyReport:
    return verify(VerifyRequest(store, engine=request.engine), progress)


def _report(
    request: RepairRequest, plan: Plan, now: VerifyReport, outcome: RepairOutcome, journal: str | None = None
) -> RepairReport:
    return RepairReport(
        store=str(request.store.base),
        outcome=outcome,
        steps=tuple(plan.steps),
        left=tuple(plan.left),
        configs=plan.configs,
        journal=journal,
        before=now.findings.counts,
        findings=now.findings,
    )


def _disk_of(store: Store) -> LocalDisk:
    path = None if store.root is None else store.root.local_path()
    if store.kind is not PathKind.STORE or path is None:
        raise UsageError(f"{store.base}: whole stores are repaired; give the store root")
    return LocalDisk(path)


def _unfinished(disk: LocalDisk) -> Journal | None:
    """Return the newest repair if it was interrupted."""
    with told():
        for name in journals(disk)[-1:]:
            journal = read_journal(disk, name)
            if done_moves(disk, journal) < len(journal.moves):
                return journal
    return None


@contextmanager
def _locked(store: Store) -> Iterator[None]:
    assert store.root is not None
    with held_lock(store.root):
        yield
