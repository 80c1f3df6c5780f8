"""Repair a store: look, plan, make what is new, decide, move, look again; or take it all back."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from rmqtool.check.model import VerifyRequest
from rmqtool.check.run import verify
from rmqtool.commands.repair.model import (
    RepairAction,
    RepairOutcome,
    RepairPart,
    RepairReport,
)
from rmqtool.commands.repair.plan import DERIVED, Plan, is_worse, make_plan, swap_refusal
from rmqtool.errors import EnvironmentFailureError, RefusedError, UsageError
from rmqtool.recovery import predict_recovery
from rmqtool.store import PathKind
from rmqtool.store.disk import LocalDisk
from rmqtool.store.journal import Draft, Journal, done_moves, finish, journals, read_journal, sweep, undo
from rmqtool.store.lock import held_lock

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from rmqtool.check.model import VerifyReport
    from rmqtool.commands.repair.model import RepairRequest
    from rmqtool.progress import Progress
    from rmqtool.store import Store

_REBUILT = "rebuilt"


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
        journal = _decided(request, disk, plan, before, progress)
        return _carried_out(request, disk, plan, before, journal, progress)


def undo_repair(request: RepairRequest) -> RepairReport:
    """Take the newest repair back, finished or not.

    Raises:
        UsageError: it is no store root of this machine.
        RefusedError: there is none, a broker holds the store's lock, or it has worked on it since.
        EnvironmentFailureError: a file cannot be renamed; run it again.
    """
    disk = _disk_of(request.store)
    with _locked(request.store), _told():
        sweep(disk)
        names = journals(disk)
        if not names:
            raise RefusedError(f"{request.store.base}: there is no repair to undo")
        journal = read_journal(disk, names[-1])
        if journal.facts["log"] != _log_facts(request.store):
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
    if journal.facts["log"] != _log_facts(request.store):
        raise RefusedError(
            f"{request.store.base}: {journal.name} was interrupted, and the log has changed since; what was"
            f" set aside is kept in {journal.name}/, {journal.name}/journal.ndjson says what was moved where"
        )
    with _told():
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


def _decided(
    request: RepairRequest, disk: LocalDisk, plan: Plan, before: VerifyReport, progress: Progress
) -> Journal:
    """Make all that is new and flush it; the store itself is as it was until the journal has its name."""
    with _told():
        draft = Draft(disk)
        try:
            rebuilt = _rebuilt(request, disk, draft, plan)
            for path, data in plan.texts.items():
                draft.write(path, data, _mode_of(disk, path))
            if request.store.lock is None:
                draft.write("lock", b"lock")
            _plan_moves(draft, plan, rebuilt, makes_lock=request.store.lock is None)
            progress.stage("flush", None)
            return draft.decide(_facts(request, before))
        except BaseException:
            draft.discard()
            raise


def _rebuilt(request: RepairRequest, disk: LocalDisk, draft: Draft, plan: Plan) -> set[str]:
    """Rebuild into the draft; return the directories that came of it."""
    if not plan.rebuilt:
        return set()
    own = disk.root / draft.name
    parts = frozenset(part.value for part in plan.rebuilt)
    refusal = swap_refusal(request.rebuild(parts, own / _REBUILT, own))
    if refusal is not None:
        raise RefusedError(f"{request.store.base}: {refusal}; nothing was changed")
    disk.adopt_all(f"{draft.name}/{_REBUILT}")
    names = [name for part in plan.rebuilt for name in DERIVED[part]]
    found = {name for name in names if disk.node(f"{draft.name}/{_REBUILT}/{name}") is not None}
    for name in found:
        draft.stage(f"{_REBUILT}/{name}", name)
    return found


def _plan_moves(draft: Draft, plan: Plan, rebuilt: set[str], *, makes_lock: bool) -> None:
    """Turn steps into moves, queues first: what is most is moved first, ``abort`` and checkpoint last."""
    if makes_lock:
        draft.put_in("lock", "so that no broker starts meanwhile")
    derived = {name for names in DERIVED.values() for name in names}
    last = (RepairPart.CHECKPOINT, RepairPart.ABORT)
    for step in sorted(plan.steps, key=lambda one: last.index(one.part) if one.part in last else -1):
        if step.action is not RepairAction.PUT_IN:
            draft.take_out(step.path, step.why)
        is_made = step.path in rebuilt if step.path in derived else step.path in plan.texts
        if step.action is not RepairAction.SET_ASIDE and is_made:
            draft.put_in(step.path, step.why)
    told = {step.path for step in plan.steps}
    for name in sorted(rebuilt - told):
        draft.put_in(name, "made anew from the log")


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
    with _told():
        finish(disk, journal)
    store = request.store.afresh()
    after = _verified(request, store, progress)
    if is_worse(before.findings, after.findings) or _lost_at_start(store) > lost:
        with _told():
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


def _facts(request: RepairRequest, before: VerifyReport) -> dict[str, Any]:
    """Return what the journal tells of a repair beside its moves."""
    return {
        **request.facts,
        "time": datetime.now(UTC).isoformat(timespec="seconds"),
        "store": str(request.store.base),
        "findings": before.findings.counts,
        "log": _log_facts(request.store),
    }


def _log_facts(store: Store) -> list[list[Any]]:
    """Return names, sizes and times of the log's files: a broker that writes changes them."""
    found = []
    for segment in store.commitlog:
        status = segment.path.status()
        found.append([segment.label, segment.size_bytes, None if status is None else status.modified_ns])
    return found


def _disk_of(store: Store) -> LocalDisk:
    path = None if store.root is None else store.root.local_path()
    if store.kind is not PathKind.STORE or path is None:
        raise UsageError(f"{store.base}: whole stores are repaired; give the store root")
    return LocalDisk(path)


def _mode_of(disk: LocalDisk, path: str) -> int:
    node = disk.node(path)
    return 0o644 if node is None or node.is_directory else node.mode


def _unfinished(disk: LocalDisk) -> Journal | None:
    """Return the newest repair if it was interrupted."""
    with _told():
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


@contextmanager
def _told() -> Iterator[None]:
    """Turn what the system says into an error with a next step."""
    try:
        yield
    except OSError as failure:
        raise EnvironmentFailureError(
            f"{failure.filename or 'the store'}: {failure.strerror}; run repair again to finish what is"
            " decided, or repair --undo"
        ) from failure
