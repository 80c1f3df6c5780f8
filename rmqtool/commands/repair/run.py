"""Repair of a store: verify, plan, make new files, decide, move, verify again; or undo all of it."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING

from rmqtool.check.model import VerifyReport, VerifyRequest
from rmqtool.check.run import verify
from rmqtool.commands.repair.model import RepairAction, RepairOutcome, RepairReport, RepairRequest, RepairStep
from rmqtool.commands.repair.moves import check_journal, decide, io_errors_with_next_step, log_facts, part_of
from rmqtool.commands.repair.plan import Plan, is_worse, make_plan
from rmqtool.errors import RefusedError, UsageError
from rmqtool.recovery.predict import predict_recovery
from rmqtool.store import PathKind, Store
from rmqtool.store.disk import Disk
from rmqtool.store.journal import Journal, done_moves, finish, is_done, journals, read_journal, sweep, undo
from rmqtool.store.lock import held_lock

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from rmqtool.progress import Progress


def plan_repair(request: RepairRequest, progress: Progress) -> RepairReport:
    """Report what `repair` would do; nothing is written, and the lock is not taken.

    Raises:
        UsageError: it is not a store root of this machine, or a choice is not offered.
        RefusedError: a broker holds the store's lock, or the newest journal is not that of a repair.
        EnvironmentFailureError: a file cannot be read.
    """
    disk = _disk_of(request.store)
    waiting = _unfinished(request.store, disk)
    if waiting is not None:
        return _interrupted(request, disk, waiting)
    report = _verified(request, request.store, progress)
    plan = make_plan(request, report.findings)
    return _report(request, plan, report, RepairOutcome.PLANNED if plan.steps else RepairOutcome.NOTHING)


def repair(
    request: RepairRequest,
    progress: Progress,
    agreed: Callable[[RepairReport], bool] = lambda _: True,
) -> RepairReport:
    """Repair a store, or finish a repair that was interrupted.

    ``agreed`` gets the plan, or the rest of an interrupted repair, and returns whether to carry it out.

    Raises:
        UsageError: it is not a store root of this machine, or a choice is not offered.
        RefusedError: a broker holds the store's lock, or has worked on it since the repair was interrupted;
            or the newest journal is not that of a repair.
        EnvironmentFailureError: a file cannot be read or written; the store is as it was, or the next run
            finishes.
    """
    disk = _disk_of(request.store)
    with _locked(request.store):
        waiting = _unfinished(request.store, disk)
        if waiting is not None:
            left = _interrupted(request, disk, waiting)
            return _finish_waiting(request, disk, waiting, progress) if agreed(left) else left
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
    """Undo the newest repair, finished or not.

    Raises:
        UsageError: it is not a store root of this machine.
        RefusedError: there is none, its journal is not that of a repair, a broker holds the store's lock, or
            has worked on it since.
        EnvironmentFailureError: a file cannot be renamed; run it again.
    """
    disk = _disk_of(request.store)
    with _locked(request.store), io_errors_with_next_step():
        sweep(disk)
        names = journals(disk)
        if not names:
            raise RefusedError(f"{request.store.base}: no repair to undo")
        journal = _journal(request.store, disk, names[-1])
        if journal.facts["log"] != log_facts(request.store):
            raise RefusedError(
                f"{request.store.base}: the log has changed since {journal.name}: the old queues would "
                f"lack messages. Replaced files are kept in {journal.name}/"
            )
        undo(disk, journal)
    return RepairReport(str(request.store.base), RepairOutcome.UNDONE, journal=journal.name)


def _interrupted(request: RepairRequest, disk: Disk, journal: Journal) -> RepairReport:
    """Return the rest of an interrupted repair; RefusedError if a broker has worked on the store since."""
    if journal.facts["log"] != log_facts(request.store):
        raise RefusedError(
            f"{request.store.base}: {journal.name} was interrupted, and the log has changed since; "
            f"replaced files are kept in {journal.name}/, {journal.name}/journal.ndjson lists the moves"
        )
    steps = []
    for move in journal.moves[done_moves(disk, journal) :]:
        place = journal.place(move)[0]
        action = RepairAction.SET_ASIDE if place == move.source else RepairAction.PUT_IN
        steps.append(RepairStep(part_of(place), action, place, move.why))
    return RepairReport(
        str(request.store.base),
        RepairOutcome.INTERRUPTED,
        tuple(steps),
        journal=journal.name,
        before=journal.facts["findings"],
    )


def _finish_waiting(
    request: RepairRequest,
    disk: Disk,
    journal: Journal,
    progress: Progress,
) -> RepairReport:
    with io_errors_with_next_step():
        finish(disk, journal)
    after = _verified(request, request.store.afresh(), progress)
    return RepairReport(
        str(request.store.base),
        RepairOutcome.FINISHED,
        journal=journal.name,
        before=journal.facts["findings"],
        after=after.findings.counts,
        findings=after.findings,
        log_losses=after.log_losses,
    )


def _carried_out(
    request: RepairRequest,
    disk: Disk,
    plan: Plan,
    before: VerifyReport,
    journal: Journal,
    progress: Progress,
) -> RepairReport:
    """Do the moves and verify the store again; undo them if it is worse than before."""
    lost = _lost_at_start(request.store)
    with io_errors_with_next_step():
        finish(disk, journal)
    store = request.store.afresh()
    after = _verified(request, store, progress)
    if is_worse(before.findings, after.findings) or _lost_at_start(store) > lost:
        with io_errors_with_next_step():
            undo(disk, journal)
        report = _report(request, plan, before, RepairOutcome.ROLLED_BACK)
    else:
        report = _report(request, plan, after, RepairOutcome.DONE, journal.name)
        report = replace(report, log_losses=before.log_losses)
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
        str(request.store.base),
        outcome,
        steps=tuple(plan.steps),
        left=tuple(plan.left),
        configs=plan.configs,
        journal=journal,
        before=now.findings.counts,
        findings=now.findings,
        log_losses=now.log_losses,
    )


def _disk_of(store: Store) -> Disk:
    path = None if store.root is None else store.root.local_path()
    if store.kind is not PathKind.STORE or path is None:
        raise UsageError(f"{store.base}: whole stores are repaired; give the store root")
    with io_errors_with_next_step():
        return Disk(path)


def _journal(store: Store, disk: Disk, name: str) -> Journal:
    journal = read_journal(disk, name)
    check_journal(journal, store, disk)
    return journal


def _unfinished(store: Store, disk: Disk) -> Journal | None:
    with io_errors_with_next_step():
        for name in journals(disk)[-1:]:
            journal = _journal(store, disk, name)
            if not is_done(disk, journal) and done_moves(disk, journal) < len(journal.moves):
                return journal
    return None


@contextmanager
def _locked(store: Store) -> Iterator[None]:
    assert store.root is not None
    with held_lock(store.root):
        yield
