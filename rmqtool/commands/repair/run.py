"""Repair of a store: verify, plan, make new files, decide, move, verify again; or undo all of it.

All new files are made and flushed, and the journal written, before the first move.
"""

from __future__ import annotations

import shlex
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING, Any

from rmqtool.actions.repairs import QUEUE_DIRECTORIES
from rmqtool.actions.verification import verify
from rmqtool.caches import is_proven, keep_proof, proof_of
from rmqtool.check import VerifyReport, VerifyRequest
from rmqtool.commands.repair import (
    LeftAlone,
    RepairAction,
    RepairOutcome,
    RepairPart,
    RepairReport,
    RepairRequest,
    RepairStep,
)
from rmqtool.commands.repair.plan import DERIVED, Plan, is_worse, make_plan, swap_refusal
from rmqtool.doctor import CONFIG_KINDS
from rmqtool.engine import options_of
from rmqtool.errors import EnvironmentFailureError, RefusedError, UsageError
from rmqtool.store import PathKind, Store
from rmqtool.store.disk import Disk
from rmqtool.store.journal import (
    ASIDE,
    KEPT,
    REBUILT,
    STAGED,
    Draft,
    Journal,
    done_moves,
    finish,
    is_done,
    journals,
    read_journal,
    refusal,
    sweep,
    undo,
)
from rmqtool.store.lock import held_lock
from rmqtool.store.names import digits_of, real_path
from rmqtool.store.segments import NAME_DIGITS, label_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from pathlib import Path

    from rmqtool.progress import Progress


def plan_repair(request: RepairRequest, progress: Progress) -> RepairReport:
    """Report what `repair` would do; nothing is written, and the lock is not taken."""
    disk = _disk_of(request.store)
    waiting = _unfinished(request.store, disk)
    if waiting is not None:
        return _interrupted(request, disk, waiting)
    report = _verified(request, request.store, progress)
    plan = make_plan(request, report)
    return _report(request, plan, report, RepairOutcome.PLANNED if plan.steps else RepairOutcome.NOTHING)


def repair(
    request: RepairRequest,
    progress: Progress,
    agreed: Callable[[RepairReport], bool] = lambda _: True,
) -> RepairReport:
    """Repair a store, or finish a repair that was interrupted.

    ``agreed`` gets the plan, or the rest of an interrupted repair, and returns whether to carry it out.
    """
    disk = _disk_of(request.store)
    with _locked(request.store):
        waiting = _unfinished(request.store, disk)
        if waiting is not None:
            left = _interrupted(request, disk, waiting)
            _refuse(left.left)
            return _finish_waiting(request, disk, waiting, progress) if agreed(left) else left
        before = _verified(request, request.store, progress)
        plan = make_plan(request, before)
        planned = _report(request, plan, before, RepairOutcome.PLANNED)
        if not plan.steps:
            return _report(request, plan, before, RepairOutcome.NOTHING)
        if not agreed(planned):
            return planned
        journal = decide(request, disk, plan, before, progress)
        return _carried_out(request, disk, plan, before, journal, progress)


def undo_repair(request: RepairRequest) -> RepairReport:
    """Undo the newest repair, finished or not."""
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
        _refuse(_doubts(disk, journal))
        _check_config(disk, journal)
        undo(disk, journal)
    return RepairReport(str(request.store.base), RepairOutcome.UNDONE, journal=journal.name)


def _check_config(disk: Disk, journal: Journal) -> None:
    """Refuse to undo the making of ``config/`` where somebody else has put files into it since."""
    made, node = journal.facts.get(_CONFIG), disk.node(_CONFIG)
    if isinstance(made, list) and node is not None and node.is_directory:
        others = [name for name in disk.names(_CONFIG) if f"{_CONFIG}/{name}" not in made]
        if others:
            raise RefusedError(
                f"{_CONFIG}/{others[0]}: is none of the files that {journal.name} made there, as if a broker"
                " had run since; nothing was changed. Move it away, and run repair --undo again"
            )


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
        tuple(_doubts(disk, journal)),
        journal=journal.name,
        before=journal.facts["findings"],
    )


def _finish_waiting(request: RepairRequest, disk: Disk, journal: Journal, progress: Progress) -> RepairReport:
    with io_errors_with_next_step():
        finish(disk, journal)
    after = _verified(request, request.store.afresh(), progress)
    report = _report(request, Plan(), after, RepairOutcome.FINISHED, journal.name)
    return replace(report, before=journal.facts["findings"], after=after.findings.counts)


def _carried_out(
    request: RepairRequest,
    disk: Disk,
    plan: Plan,
    before: VerifyReport,
    journal: Journal,
    progress: Progress,
) -> RepairReport:
    """Do the moves and verify the store again; undo them if it is worse than before."""
    with io_errors_with_next_step():
        finish(disk, journal)
    store = request.store.afresh()
    after = _verified(request, store, progress)
    if is_worse(before, after):
        with io_errors_with_next_step():
            undo(disk, journal)
        report = _report(request, plan, before, RepairOutcome.ROLLED_BACK)
    else:
        report = _report(request, plan, after, RepairOutcome.DONE, journal.name)
        report = replace(report, log_losses=before.log_losses)
    return replace(report, before=before.findings.counts, after=after.findings.counts)


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
        merged=plan.merged,
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


_CONFIG = "config"
_DERIVED_NAMES = frozenset(name for names in DERIVED.values() for name in names)
_NO_JOURNAL = "is not a journal of a repair"
_EXPIRED = "all its messages are expired; its files show the next queue offset"


def decide(
    request: RepairRequest, disk: Disk, plan: Plan, before: VerifyReport, progress: Progress
) -> Journal:
    """Make all new files and flush them; the store itself is unchanged until the journal has its name."""
    with io_errors_with_next_step():
        draft = Draft(disk)
        try:
            rebuilt = _rebuilt(request, disk, draft, plan)
            for path, data in plan.texts.items():
                node = disk.node(path)
                draft.write(path, data, 0o644 if node is None or node.is_directory else node.mode)
            if request.store.lock is None:
                draft.write("lock", b"lock")
            kept = _kept(disk, draft, rebuilt)
            made = [] if disk.node(_CONFIG) is not None else [*filter(_is_setting, plan.texts)]
            is_lockless = request.store.lock is None
            _plan_moves(draft, plan, rebuilt, kept, makes_lock=is_lockless, makes_config=bool(made))
            progress.stage("flush", None)
            facts = _facts(request, before) | ({_CONFIG: made} if made else {})
            return draft.decide(facts, partial(_prove, disk))
        except BaseException:
            draft.discard()
            raise


def _rebuilt(request: RepairRequest, disk: Disk, draft: Draft, plan: Plan) -> set[str]:
    if not plan.rebuilt:
        return set()
    parts = frozenset(part.value for part in plan.rebuilt)
    with disk.writing_into(draft.name, draft.identity) as own:
        if own != disk.root / draft.name and options_of(request.engine).kind != "local":
            raise RefusedError(
                f"{request.store.base}: other users can rename its entries, and Spark's processes"
                " find files by their names alone; nothing was changed. Run repair as the store's owner, or"
                " with --engine local"
            )
        rebuilt = request.rebuild(parts, own / REBUILT, own)
    refusal = swap_refusal(rebuilt, is_foreseen=plan.is_foreseen)
    if refusal is not None:
        raise RefusedError(f"{request.store.base}: {refusal}; nothing was changed")
    names = [name for part in plan.rebuilt for name in DERIVED[part]]
    made = {name for name in names if disk.node(f"{draft.name}/{REBUILT}/{name}") is not None}
    for name in made:
        draft.stage(f"{REBUILT}/{name}", name)
    return made


def _kept(disk: Disk, draft: Draft, rebuilt: set[str]) -> list[str]:
    """Return the queues that a rebuild does not have: all their messages are expired.

    Their files show the place of the next message. Without them it would get queue offset 0 again, below what
    groups have consumed (``ConsumeQueueStore#recoverOffsetTable``).
    """
    kept = []
    for name in sorted(rebuilt & set(QUEUE_DIRECTORIES)):
        for topic in _directories(disk, name):
            made = f"{draft.name}/{STAGED}/{topic}"
            if disk.node(made) is None:
                kept.append(topic)
            else:
                there = (queue.rpartition("/")[2] for queue in _directories(disk, topic))
                kept += [
                    f"{topic}/{queue_id}" for queue_id in there if disk.node(f"{made}/{queue_id}") is None
                ]
    return kept


def _directories(disk: Disk, path: str) -> list[str]:
    node = disk.node(path)
    if node is None or not node.is_directory:
        return []
    below = (f"{path}/{name}" for name in disk.names(path))
    return [one for one in below if (found := disk.node(one)) is not None and found.is_directory]


def _plan_moves(
    draft: Draft, plan: Plan, rebuilt: set[str], kept: list[str], *, makes_lock: bool, makes_config: bool
) -> None:
    """Turn steps into moves: the largest, queues, first, ``abort`` and checkpoint last."""
    if makes_lock:
        draft.put_in("lock", "so that no broker starts meanwhile")
    for path in kept:
        draft.keep(path, _EXPIRED)
    last = (RepairPart.CHECKPOINT, RepairPart.ABORT)
    done = set()
    for step in sorted(plan.steps, key=lambda one: last.index(one.part) if one.part in last else -1):
        if step.path in QUEUE_DIRECTORIES and step.path not in rebuilt:
            continue  # no new one to install: all its messages are expired
        path = _CONFIG if makes_config and _is_setting(step.path) else step.path  # all its files at once
        if step.action is not RepairAction.PUT_IN:
            draft.take_out(path, step.why)
        is_made = path in rebuilt if path in _DERIVED_NAMES else step.path in plan.texts
        if step.action is not RepairAction.SET_ASIDE and is_made and path not in done:
            draft.put_in(path, step.why)
        done.add(path)
    known = {step.path for step in plan.steps}
    for name in sorted(rebuilt - known):
        draft.put_in(name, "rebuilt from the log")
    for path in kept:
        draft.put_back(path, _EXPIRED)


def _is_setting(path: str) -> bool:
    return path.startswith(f"{_CONFIG}/")


def _facts(request: RepairRequest, before: VerifyReport) -> dict[str, Any]:
    return {
        **request.facts,
        "time": datetime.now(UTC).isoformat(timespec="seconds"),
        "store": str(request.store.base),
        "findings": before.findings.counts,
        "log": log_facts(request.store),
    }


def check_journal(journal: Journal, store: Store, disk: Disk) -> None:
    """Refuse a journal with moves that no repair makes, as one that somebody else has put there."""
    counts = journal.facts.get("findings")
    is_whole = isinstance(counts, dict) and all(type(count) is int for count in counts.values())
    if not is_whole or not isinstance(journal.facts.get("log"), list):
        why = "it does not say which log it was made for, and what was wrong"
        raise refusal(journal.name, f"{_NO_JOURNAL}: {why}")
    for move in journal.moves:
        place, directory = journal.place(move)
        if not _is_movable(place, directory) and not (
            directory == ASIDE and _is_stray(place, journal, store, disk)
        ):
            raise refusal(journal.name, f"{_NO_JOURNAL}: it moves {place}, which no repair does")


def _proof_of(disk: Disk, journal: Journal) -> Path:
    return proof_of(str(real_path(disk.root)), journal.name, journal.text())


def _prove(disk: Disk, journal: Journal) -> None:
    """Keep that this user begins a repair, where no writer of the store can have made it."""
    try:
        keep_proof(_proof_of(disk, journal))
    except OSError as failure:
        raise EnvironmentFailureError(
            f"{failure.filename}: {failure.strerror}; without a proof there that you began this repair, no"
            " later run could finish or undo it: set XDG_STATE_HOME to a folder of your own; nothing was"
            " changed"
        ) from failure


def _doubts(disk: Disk, journal: Journal) -> Iterator[LeftAlone]:
    """Yield that this user has not begun a repair in this place: a writer of the store may have."""
    with io_errors_with_next_step():
        proof = _proof_of(disk, journal)
    if not is_proven(proof):
        folder, file = shlex.quote(str(proof.parent)), shlex.quote(str(proof))
        why = (
            f"nothing shows that you began this repair here: {proof} is missing. Read it; to have it carried"
            f" out or undone all the same: mkdir -p -m 700 {folder} && touch {file}; else move"
            f" {journal.name} out of the store"
        )
        yield LeftAlone(RepairPart.STRAYS, f"{journal.name}/journal.ndjson", why)


def _refuse(doubts: Iterable[LeftAlone]) -> None:
    for doubt in doubts:
        raise RefusedError(f"{doubt.path}: {doubt.why}; nothing was changed")


def part_of(place: str) -> RepairPart:
    """Return the part that a name in a store belongs to."""
    first = place.partition("/")[0]
    small = {"config": RepairPart.SETTINGS, "checkpoint": RepairPart.CHECKPOINT, "abort": RepairPart.ABORT}
    derived = {name: part for part, names in DERIVED.items() for name in names}
    return (small | derived | {"lock": RepairPart.ABORT}).get(first, RepairPart.STRAYS)


def _is_movable(place: str, directory: str) -> bool:
    """Whether `_plan_moves` moves that name to or from that directory of a journal."""
    first, *rest = place.split("/")
    if directory == KEPT:
        return first in QUEUE_DIRECTORIES and len(rest) in {1, 2}
    if first == _CONFIG:
        return rest[0] in CONFIG_KINDS if len(rest) == 1 else not rest and directory == STAGED
    small = {"lock"} if directory == STAGED else {"abort"}
    return place in _DERIVED_NAMES | small | {"checkpoint"}


def _is_stray(place: str, journal: Journal, store: Store, disk: Disk) -> bool:
    """Whether a name in a log's directory is not a file of the log, which is never moved."""
    parent, _, name = place.rpartition("/")
    if parent not in {label_of(directory, store.base) for directory in store.commitlog.directories}:
        return False
    if digits_of(name, NAME_DIGITS) is None:
        return True
    nodes = (disk.node(place), disk.node(f"{journal.name}/{ASIDE}/{place}"))
    return all(node is None or not node.size for node in nodes)


def log_facts(store: Store) -> list[list[Any]]:
    """Return names, sizes and times of the log's files, which a broker at work changes."""
    facts = []
    for segment in store.commitlog:
        status = segment.path.status()
        facts.append([segment.label, segment.size_bytes, None if status is None else status.modified_ns])
    return facts


@contextmanager
def io_errors_with_next_step() -> Iterator[None]:
    """Turn errors of the operating system into ones with a next step."""
    try:
        yield
    except OSError as failure:
        raise EnvironmentFailureError(
            f"{failure.filename or 'the store'}: {failure.strerror}; run repair again to finish it, or "
            "repair --undo"
        ) from failure
