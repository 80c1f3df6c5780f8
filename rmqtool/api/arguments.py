"""What callers may write for paths, times, settings and engines, and what commands take for it."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Literal, TypeAlias

from rmqtool.engine import Engine, EngineOptions
from rmqtool.engine import open_engine as open_engine_of
from rmqtool.errors import UsageError
from rmqtool.times import epoch_ms

if TYPE_CHECKING:
    import os
    from collections.abc import Iterable
    from datetime import tzinfo

AnyPath: TypeAlias = "str | os.PathLike[str]"
Time: TypeAlias = "int | str | datetime"
"""Epoch ms, a text as on the command line, or a ``datetime``; one without zone is of the store's timezone."""

Value: TypeAlias = "str | int | bool | Path"
"""Of a broker's setting."""

EngineKind: TypeAlias = Literal["local", "spark"]


def path_of(path: AnyPath | None) -> Path | None:
    """Return a path, or None if none was given."""
    return None if path is None else Path(path)


def property_texts(properties: Mapping[str, Value] | Iterable[str]) -> list[str]:
    """Return settings as ``NAME=VALUE``, as the command line has them; truth as Java writes it."""
    if isinstance(properties, str):
        raise UsageError(f"properties={properties!r}: give a mapping, or a list of NAME=VALUE")
    if not isinstance(properties, Mapping):
        return list(properties)
    return [f"{name}={_java_text(value)}" for name, value in properties.items()]


def _java_text(value: Value) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def time_ms(name: str, moment: Time | None, zone: tzinfo | None) -> int | None:
    """Return a time in epoch milliseconds, or None if none was given.

    Raises:
        UsageError: It is no time.
    """
    if moment is None:
        return None
    if isinstance(moment, bool) or not isinstance(moment, int | str | datetime):
        raise UsageError(f"{name}={moment!r} is no time; give epoch ms, a datetime or a text")
    return epoch_ms(moment, zone)


def check_least(least: int, **numbers: int | None) -> None:
    """Check that numbers are at least so large.

    Raises:
        UsageError: One is smaller; the message names it.
    """
    for name, number in numbers.items():
        if number is not None and number < least:
            raise UsageError(f"{name}={number}: must be at least {least}")


def names_of(names: str | Iterable[str]) -> tuple[str, ...]:
    """Return one name, or several, as several."""
    return (names,) if isinstance(names, str) else tuple(names)


def open_engine(
    kind: EngineKind = "local",
    *,
    jobs: int | None = None,
    master: str | None = None,
    spark_conf: Mapping[str, str] | None = None,
    log_file: AnyPath | None = None,
    scratch: AnyPath | None = None,
) -> Engine:
    """Open an engine for several calls; use it as a context manager, or close it.

    Args:
        kind: ``local`` for threads of this process, or ``spark``.
        jobs: Tasks at a time; None is all cores.
        master: Spark master; None is an embedded Spark on all cores of this machine.
        spark_conf: Settings of Spark.
        log_file: Where Spark's own output is appended.
        scratch: Where tasks hand over blocks; on a cluster, all executors must see it.

    Raises:
        UsageError: The arguments contradict each other.
        EnvironmentFailureError: No Java for Spark can be found or started.
    """
    return open_engine_of(
        engine_options(
            kind, jobs=jobs, master=master, spark_conf=spark_conf, log_file=log_file, scratch=scratch
        )
    )


def engine_options(
    kind: str,
    *,
    jobs: int | None = None,
    master: str | None = None,
    spark_conf: Mapping[str, str] | None = None,
    log_file: AnyPath | None = None,
    scratch: AnyPath | None = None,
) -> EngineOptions:
    """Return options of an engine, checked.

    Raises:
        UsageError: There is no such engine, or the options contradict each other.
    """
    check_least(1, jobs=jobs)
    if kind not in {"local", "spark"}:
        raise UsageError(f"--engine {kind!r}: give local or spark")
    if kind == "local" and (master or spark_conf):
        raise UsageError("--master and --spark-conf are for --engine spark")
    return EngineOptions(
        kind="local" if kind == "local" else "spark",
        jobs=jobs,
        master=master,
        spark_conf=dict(spark_conf or {}),
        log_file=path_of(log_file),
        scratch=None if scratch is None else Path(scratch).absolute(),
    )


def engine_of(engine: EngineKind | Engine, jobs: int | None) -> tuple[EngineOptions, Engine | None]:
    """Return the options of an engine, and the engine if it is open already.

    Raises:
        UsageError: There is no such engine, or ``jobs`` is asked of one that is open.
    """
    if isinstance(engine, str):
        return engine_options(engine, jobs=jobs), None
    if jobs is not None:
        raise UsageError("jobs are those of an engine; open it with as many")
    return engine.options, engine
