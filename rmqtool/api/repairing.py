"""How a repair is asked for, with the rebuild that it needs."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from rmqtool import __version__
from rmqtool.api.engines import engine_of
from rmqtool.commands.rebuild.run import RebuildRequest, rebuild
from rmqtool.commands.repair.model import RepairPart, RepairRequest
from rmqtool.commands.repair.run import plan_repair, repair, undo_repair
from rmqtool.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
    from pathlib import Path

    from rmqtool.api.engines import AnyEngine
    from rmqtool.api.store import Store
    from rmqtool.commands.rebuild.report import RebuildReport
    from rmqtool.commands.repair.model import RepairReport
    from rmqtool.engine import Engine, EngineOptions
    from rmqtool.progress import Progress
    from rmqtool.store import Store as StoreFiles


def repaired(
    store: Store,
    *,
    plan: bool,
    undo: bool,
    only: Iterable[str],
    config: Mapping[str, str],
    agreed: Callable[[RepairReport], bool] | None,
    command: str,
    engine: AnyEngine,
    jobs: int | None,
    progress: Progress,
) -> RepairReport:
    """Do what `Store.repair` says."""
    if plan and undo:
        raise UsageError("plan and undo exclude each other")
    unknown = [name for name in only if name not in set(RepairPart)]
    if unknown:
        raise UsageError(f"{unknown[0]!r} is not a part; choose from {', '.join(RepairPart)}")
    options, opened = engine_of(engine, jobs)
    request = RepairRequest(
        store.files,
        partial(_rebuild, store.files, options, opened, progress),
        frozenset(map(RepairPart, only)),
        config,
        options,
        {"rmqtool": __version__, "command": command},
    )
    if undo:
        return undo_repair(request)
    if plan:
        return plan_repair(request, progress)
    return repair(request, progress) if agreed is None else repair(request, progress, agreed)


def _rebuild(
    files: StoreFiles,
    options: EngineOptions,
    opened: Engine | None,
    progress: Progress,
    parts: frozenset[str],
    out: Path | None,
    own: Path | None,
    tell_queue: Callable[[str, int], object] = lambda _topic, _queue_id: None,
) -> RebuildReport:
    """Rebuild parts of a store; the caller knows that no broker holds its lock."""
    request = RebuildRequest(
        files, out, options, parts=parts, dry_run=out is None, live=True, own=own, tell_queue=tell_queue
    )
    return rebuild(request, progress, opened)
