"""Paths, times, settings and engines as callers write them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Literal, TypeAlias, TypedDict, cast

from rmqtool.engine import Engine, EngineOptions, LiveSession
from rmqtool.engine.choice import check_master_form, live_engine
from rmqtool.engine.choice import open_engine as open_engine_of
from rmqtool.errors import UsageError
from rmqtool.io import Location, local_name, location_of
from rmqtool.io.source import is_object_url
from rmqtool.options import check_least
from rmqtool.store import PathKind
from rmqtool.store.broker_conf import conf_text

if TYPE_CHECKING:
    import os
    from datetime import datetime

    from typing_extensions import Unpack


AnyPath: TypeAlias = "str | os.PathLike[str]"
AnyStore: TypeAlias = "AnyPath | Location"
"""A path of this machine's, a URL as text, or what rmqtool has made of either."""

Time: TypeAlias = "int | str | datetime"
"""Epoch ms, a text as on the command line, or a ``datetime``; one without zone is of the store's timezone."""

Value: TypeAlias = "str | int | bool | Path"
"""Of a broker's setting."""


def path_of(path: AnyPath | None) -> Path | None:
    """Return a path, or None if none was given; `UsageError` if it is a URL."""
    return None if path is None else Path(local_name(path))


def target_of(path: AnyStore) -> Path | Location:
    """Return where something is written: a path, or what the URL of an object store's names.

    Raises:
        UsageError: It is another URL, or one that makes no sense.
    """
    if isinstance(path, Location):
        return path
    return location_of(path) if isinstance(path, str) and is_object_url(path) else Path(local_name(path))


def property_texts(properties: Mapping[str, Value] | Iterable[str]) -> list[str]:
    """Return settings as ``NAME=VALUE``, as the command line has them; truth as Java writes it."""
    if isinstance(properties, str):
        raise UsageError(f"properties={properties!r}: pass a mapping, or a list of NAME=VALUE")
    if not isinstance(properties, Mapping):
        return list(properties)
    return [f"{name}={conf_text(value)}" for name, value in properties.items()]


def kind_named(name: str) -> PathKind:
    """Return a kind of a store's parts; `UsageError` if there is no such kind."""
    kinds: Iterable[PathKind] = [kind for kind in PathKind if kind is not PathKind.STORE]
    for kind in kinds:
        if kind.value == name:
            return kind
    raise UsageError(f"--type {name!r}: give one of {', '.join(kind.value for kind in kinds)}")


EngineKind: TypeAlias = Literal["local", "spark"]


class EngineSettings(TypedDict, total=False):
    """Settings of an engine.

    Attributes:
        jobs: Tasks at a time; None is all cores.
        master: Spark master; None is an embedded Spark on all cores of this machine.
        spark_conf: Settings of Spark.
        log_file: Where Spark's own output is appended.
        scratch: Where tasks hand over blocks; on a cluster, all executors must see it. Or the URL of a
            place in object storage.
    """

    jobs: int | None
    master: str | None
    spark_conf: Mapping[str, str] | None
    log_file: AnyPath | None
    scratch: AnyStore | None


AnyEngine: TypeAlias = "EngineKind | EngineOptions | Engine | LiveSession"
"""A word, what `engine_options` made, an engine that is open already, or a live session of Spark."""


def open_engine(kind: EngineKind | LiveSession = "local", **settings: Unpack[EngineSettings]) -> Engine:
    """Open an engine for several calls; use it as a context manager, or close it.

    Args:
        kind: ``local`` for threads of this process, ``spark``, or a live ``SparkSession``, which stays open.
        settings: See `EngineSettings`.

    Raises:
        UsageError: The arguments contradict each other.
        EnvironmentFailureError: No Java for Spark can be found or started.
    """
    word = kind if isinstance(kind, str) else "spark"
    options = engine_options(word, **settings)
    if isinstance(kind, str):
        return open_engine_of(options)
    if any(settings.get(name) for name in ("jobs", "master", "spark_conf", "log_file")):
        raise UsageError("jobs, master, settings and log cannot be set: the given Spark session has its own")
    return _live(kind, options)


def engine_options(
    kind: str,
    *,
    jobs: int | None = None,
    master: str | None = None,
    spark_conf: Mapping[str, str] | None = None,
    log_file: AnyPath | None = None,
    scratch: AnyStore | None = None,
) -> EngineOptions:
    """Return options of an engine, checked; see `EngineSettings`.

    Raises:
        UsageError: There is no such engine or master, or the options contradict each other.
    """
    check_least(1, jobs=jobs)
    if kind not in {"local", "spark"}:
        raise UsageError(f"--engine {kind!r}: give local or spark")
    if kind == "local" and (master is not None or spark_conf):
        raise UsageError("--master and --spark-conf are for --engine spark")
    place = None if scratch is None else target_of(scratch)
    options = EngineOptions(
        kind="local" if kind == "local" else "spark",
        jobs=jobs,
        master=master,
        spark_conf=dict(spark_conf or {}),
        log_file=path_of(log_file),
        scratch=place.absolute() if isinstance(place, Path) else place,
    )
    check_master_form(options)  # before a command requires a cluster's options
    return options


def engine_of(engine: AnyEngine, jobs: int | None) -> EngineOptions | Engine:
    """Return an engine that is open already, or the options of one.

    Raises:
        UsageError: There is no such engine, or ``jobs`` is given for one that has its own.
    """
    if isinstance(engine, str):
        return engine_options(engine, jobs=jobs)
    if jobs is not None:
        raise UsageError("an open engine has its own jobs; set them when you open it")
    if isinstance(engine, EngineOptions):
        return engine
    is_open = hasattr(engine, "map") and hasattr(engine, "options")
    return cast("Engine", engine) if is_open else _live(engine, None)


def _live(session: object, options: EngineOptions | None) -> Engine:
    engine = live_engine(session, options)
    if engine is None:
        raise UsageError(
            f"{type(session).__name__} is not an engine: pass 'local', 'spark', an engine of open_engine, "
            "or a SparkSession"
        )
    return engine
