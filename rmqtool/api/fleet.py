"""One question to many stores."""

from __future__ import annotations

import os
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, TypeVar

from rmqtool.api.engines import AnyEngine, engine_of
from rmqtool.api.opening import kind_of_part
from rmqtool.api.opening import open as open_store
from rmqtool.commands.fleet import FleetReport, ask_members, gathered
from rmqtool.engine import Engine, opened_engine
from rmqtool.errors import EnvironmentFailureError, ExitStatus
from rmqtool.findings import FailOn
from rmqtool.io import Location
from rmqtool.options import word_of
from rmqtool.progress import NullProgress, Progress

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from rmqtool.api.arguments import AnyPath, AnyStore, Value
    from rmqtool.api.store import Store

R = TypeVar("R")


def ask_stores(
    paths: AnyStore | Iterable[AnyStore],
    ask: Callable[[Store, Engine], R],
    *,
    broker_conf: AnyPath | None = None,
    properties: Mapping[str, Value] | Iterable[str] = (),
    broker_version: str | None = None,
    timezone: str | None = None,
    fail_on: str = "error",
    engine: AnyEngine = "local",
    jobs: int | None = None,
    progress: Progress | None = None,
) -> FleetReport[R]:
    """Ask many stores the same, on one engine; what one of them cannot answer stops nothing.

    ``ask_stores("/data/*/store", lambda store, engine: store.verify(engine=engine))`` verifies all of them.

    Args:
        paths: Of stores, and globs of such; each store counts once.
        ask: Asked of each store, with the engine to work on; the store is closed afterwards. What it raises
            is the outcome of that store; a report that has an ``exit_status`` decides the store's.
        broker_conf: As of `rmqtool.open`, for all of them; so are the next three.
        properties: Settings of the broker by their own names.
        broker_version: A release, ``4.9`` or ``5.x``.
        timezone: Zone of times without one.
        fail_on: Which findings count for the exit status: ``error``, ``warning`` or ``never``.
        engine: ``local``, ``spark``, `rmqtool.EngineOptions`, or what `rmqtool.open_engine` opened.
        jobs: Tasks at a time; None is all cores.
        progress: Told what is going on.

    Raises:
        UsageError: What is said of all of them makes no sense.
        EnvironmentFailureError: The engine does not come up.
    """
    named = [paths] if isinstance(paths, str | os.PathLike | Location) else [*paths]
    opening = partial(
        open_store,
        broker_conf=broker_conf,
        properties=properties,
        broker_version=broker_version,
        timezone=timezone,
    )
    chosen = engine_of(engine, jobs)
    members = gathered(named, opening, log_bytes)
    with opened_engine(chosen) as working:
        return ask_members(
            members,
            partial(_asked, ask, word_of("fail_on", fail_on, FailOn)),
            working,
            progress or NullProgress(),
        )


def _asked(
    ask: Callable[[Store, Engine], R], fail_on: FailOn, store: Store, engine: Engine, _progress: Progress
) -> tuple[R, ExitStatus]:
    report = ask(store, engine)
    told = getattr(report, "exit_status", None)
    return report, told(fail_on) if callable(told) else ExitStatus.CLEAN


def open_part(path: str, *, kind: str | None = None, **opening: object) -> Store:
    """Open a store root as a whole, and what is none as the part ``kind``; otherwise as `rmqtool.open`."""
    return open_store(path, type=kind_of_part(path, kind), **opening)  # type: ignore[arg-type]


def log_bytes(store: Store) -> int:
    """Return the size of the files of a store's log; 0 where they may not be listed, as its report says."""
    with suppress(EnvironmentFailureError):
        return store.files.commitlog.size_bytes
    return 0
