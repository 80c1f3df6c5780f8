"""Moves of a repair: all new files are made and flushed, and the journal written, before the first."""

from __future__ import annotations

from contextlib import contextmanager
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from rmqtool.commands.repair.model import RepairAction, RepairPart, RepairRequest
from rmqtool.commands.repair.plan import DERIVED, QUEUES, Plan, swap_refusal
from rmqtool.doctor.copies import CONFIG_KINDS
from rmqtool.engine import options_of
from rmqtool.errors import EnvironmentFailureError, RefusedError
from rmqtool.store.journal import ASIDE, KEPT, REBUILT, STAGED, Draft, Journal
from rmqtool.store.names import digits_of, label_of
from rmqtool.store.segments import NAME_DIGITS

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rmqtool.check.model import VerifyReport
    from rmqtool.progress import Progress
    from rmqtool.store import Store
    from rmqtool.store.disk import Disk

_DERIVED_NAMES = frozenset(name for names in DERIVED.values() for name in names)
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
                draft.write(path, data, _mode_of(disk, path))
            if request.store.lock is None:
                draft.write("lock", b"lock")
            kept = _kept(disk, draft, rebuilt)
            _plan_moves(draft, plan, rebuilt, kept, makes_lock=request.store.lock is None)
            progress.stage("flush", None)
            return draft.decide(_facts(request, before))
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
        refusal = swap_refusal(request.rebuild(parts, own / REBUILT, own))
    if refusal is not None:
        raise RefusedError(f"{request.store.base}: {refusal}; nothing was changed")
    names = [name for part in plan.rebuilt for name in DERIVED[part]]
    found = {name for name in names if disk.node(f"{draft.name}/{REBUILT}/{name}") is not None}
    for name in found:
        draft.stage(f"{REBUILT}/{name}", name)
    return found


def _kept(disk: Disk, draft: Draft, rebuilt: set[str]) -> list[str]:
    """Return the queues that a rebuild does not have: all their messages are expired.

    Their files show the place of the next message. Without them it would get queue offset 0 again, below what
    groups have consumed (``ConsumeQueueStore#recoverOffsetTable``).
    """
    found = []
    for name in sorted(rebuilt & set(QUEUES)):
        for topic in _directories(disk, name):
            made = f"{draft.name}/{STAGED}/{topic}"
            if disk.node(made) is None:
                found.append(topic)
            else:
                there = (queue.rpartition("/")[2] for queue in _directories(disk, topic))
                found += [f"{topic}/{one}" for one in there if disk.node(f"{made}/{one}") is None]
    return found


def _directories(disk: Disk, path: str) -> list[str]:
    node = disk.node(path)
    if node is None or not node.is_directory:
        return []
    below = (f"{path}/{name}" for name in disk.names(path))
    return [one for one in below if (found := disk.node(one)) is not None and found.is_directory]


def _plan_moves(draft: Draft, plan: Plan, rebuilt: set[str], kept: list[str], *, makes_lock: bool) -> None:
    """Turn steps into moves: the largest, queues, first, ``abort`` and checkpoint last."""
    if makes_lock:
        draft.put_in("lock", "so that no broker starts meanwhile")
    for path in kept:
        draft.keep(path, _EXPIRED)
    last = (RepairPart.CHECKPOINT, RepairPart.ABORT)
    for step in sorted(plan.steps, key=lambda one: last.index(one.part) if one.part in last else -1):
        if step.path in QUEUES and step.path not in rebuilt:
            continue  # no new one to install: all its messages are expired
        if step.action is not RepairAction.PUT_IN:
            draft.take_out(step.path, step.why)
        is_made = step.path in rebuilt if step.path in _DERIVED_NAMES else step.path in plan.texts
        if step.action is not RepairAction.SET_ASIDE and is_made:
            draft.put_in(step.path, step.why)
    known = {step.path for step in plan.steps}
    for name in sorted(rebuilt - known):
        draft.put_in(name, "rebuilt from the log")
    for path in kept:
        draft.put_back(path, _EXPIRED)


def _facts(request: RepairRequest, before: VerifyReport) -> dict[str, Any]:
    return {
        **request.facts,
        "time": datetime.now(UTC).isoformat(timespec="seconds"),
        "store": str(request.store.base),
        "findings": before.findings.counts,
        "log": log_facts(request.store),
    }


def check_journal(journal: Journal, store: Store, disk: Disk) -> None:
    """Refuse a journal with moves that no repair makes, as one that somebody else has put there.

    Raises:
        RefusedError: It has such moves, or lacks the facts of a repair.
    """
    counts = journal.facts.get("findings")
    is_whole = isinstance(counts, dict) and all(type(one) is int for one in counts.values())
    if not is_whole or not isinstance(journal.facts.get("log"), list):
        raise _not_ours(journal, "it does not say which log it was made for, and what was wrong")
    for move in journal.moves:
        place, directory = journal.place(move)
        if not _is_movable(place, directory) and not (
            directory == ASIDE and _is_stray(place, journal, store, disk)
        ):
            raise _not_ours(journal, f"it moves {place}, which no repair does")


def part_of(place: str) -> RepairPart:
    """Return the part that a name in a store belongs to."""
    first = place.partition("/")[0]
    small = {"config": RepairPart.SETTINGS, "checkpoint": RepairPart.CHECKPOINT, "abort": RepairPart.ABORT}
    derived = {name: part for part, names in DERIVED.items() for name in names}
    return (small | derived | {"lock": RepairPart.ABORT}).get(first, RepairPart.STRAYS)


def _not_ours(journal: Journal, why: str) -> RefusedError:
    return RefusedError(
        f"{journal.name}/journal.ndjson: is not a journal of a repair: {why}; nothing was changed. Check "
        f"it, and move {journal.name} out of the store if it is not yours"
    )


def _is_movable(place: str, directory: str) -> bool:
    """Whether `_plan_moves` moves that name to or from that directory of a journal."""
    first, *rest = place.split("/")
    if directory == KEPT:
        return first in QUEUES and len(rest) in {1, 2}
    if first == "config":
        return len(rest) == 1 and rest[0] in CONFIG_KINDS
    small = {"lock"} if directory == STAGED else {"abort"}
    return place in _DERIVED_NAMES | small | {"checkpoint"}


def _is_stray(place: str, journal: Journal, store: Store, disk: Disk) -> bool:
    """Whether a name in a log's directory is not a file of the log, which is never moved."""
    parent, _, name = place.rpartition("/")
    if parent not in {label_of(one, store.base) for one in store.commitlog.directories}:
        return False
    if digits_of(name, NAME_DIGITS) is None:
        return True
    nodes = (disk.node(place), disk.node(f"{journal.name}/{ASIDE}/{place}"))
    return all(node is None or not node.size for node in nodes)


def log_facts(store: Store) -> list[list[Any]]:
    """Return names, sizes and times of the log's files, which a broker at work changes."""
    found = []
    for segment in store.commitlog:
        status = segment.path.status()
        found.append([segment.label, segment.size_bytes, None if status is None else status.modified_ns])
    return found


def _mode_of(disk: Disk, path: str) -> int:
    node = disk.node(path)
    return 0o644 if node is None or node.is_directory else node.mode


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
