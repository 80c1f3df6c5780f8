"""Functions beside `Store`: they open stores, query many of them, export messages, and carve images.

A function imports by itself what no other one needs.
"""

from __future__ import annotations

import os
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from rmqtool.api.arguments import (
    AnyEngine,
    AnyPath,
    AnyStore,
    Time,
    Value,
    engine_of,
    kind_named,
    path_of,
    property_texts,
    target_of,
)
from rmqtool.api.store import Store
from rmqtool.engine import Engine, EngineOptions
from rmqtool.engine.choice import opened_engine
from rmqtool.errors import EnvironmentFailureError, ExitStatus, UsageError
from rmqtool.findings import FailOn
from rmqtool.io import Location, location_of
from rmqtool.io.location import image_at
from rmqtool.options import check_least, request_of, time_ms, word_of
from rmqtool.progress import NullProgress, Progress
from rmqtool.store import open_store
from rmqtool.store.broker_conf import given_settings
from rmqtool.store.geometry import local_zone, zone_of_name
from rmqtool.store.kinds import DIRECTORY_NAMES, looks_like_store

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from typing_extensions import Unpack

    from rmqtool.api.options import ExportOptions
    from rmqtool.commands.carve import CarveReport
    from rmqtool.commands.decode_id import Reading
    from rmqtool.commands.export import ExportReport, ExportRequest, LeftOut
    from rmqtool.commands.fleet import FleetReport
    from rmqtool.store.results import Target


def open(
    path: AnyStore,
    *,
    type: str | None = None,
    broker_conf: AnyPath | None = None,
    properties: Mapping[str, Value] | Iterable[str] = (),
    broker_version: str | None = None,
    timezone: str | None = None,
) -> Store:
    """Open a store, or a part of one, for reading; nothing in it is ever written, locked or extended.

    Args:
        path: A store root (the directory that holds ``commitlog/``), one of its directories, or one file; or
            the URL of one, such as ``s3://bucket/store``.
        type: Its type, where place and bytes do not show it: ``commitlog``, ``consumequeue``,
            ``consumequeue-ext``, ``batchconsumequeue``, ``index``, ``checkpoint`` or ``config``. Of a store
            root, that part alone is opened.
        broker_conf: The broker's own properties file.
        properties: Settings of the broker by their own names; they win over ``broker_conf``.
        broker_version: A release, ``4.9`` or ``5.x``; None infers it.
        timezone: Zone of times without one, such as ``Asia/Shanghai``; None is this machine's.

    Raises:
        EnvironmentFailureError: Nothing of a store is there, or it may not be read.
        UsageError: Something that was given makes no sense.
    """
    place, kind = location_of(path), None if type is None else kind_named(type)
    if kind is not None and looks_like_store(place):
        place /= DIRECTORY_NAMES.get(kind, kind.value)
    files = open_store(
        place,
        kind=kind,
        broker_conf=path_of(broker_conf),
        properties=property_texts(properties),
        broker_version=broker_version,
        timezone=timezone,
    )
    return Store(files, None if timezone is None else zone_of_name(timezone))


def kind_of_part(path: AnyStore, kind: str | None) -> str | None:
    """Return what is to be opened of a path: of a store root everything, which is None, else the part."""
    return None if looks_like_store(location_of(path)) else kind


def decode_id(text: str, *, near: Time | None = None, timezone: str | None = None) -> tuple[Reading, ...]:
    """Take a message id apart; return its readings, plausible ones first, none if it is no id.

    Args:
        text: 32, 34 or 56 hexadecimal digits.
        near: A time near the message's: a unique id does not hold the month.
        timezone: The client's zone; None is this machine's.

    Raises:
        UsageError: There is no such time or zone.
    """
    from rmqtool.commands.decode_id import decode_id as readings
    from rmqtool.times import present_ms

    zone = local_zone() if timezone is None else zone_of_name(timezone)
    return tuple(readings(text, time_ms("near", near, zone), zone, present_ms()))


def export(
    stores: Store | Iterable[Store],
    out: AnyStore,
    *,
    left_out: Mapping[str, str] | None = None,
    engine: AnyEngine = "local",
    jobs: int | None = None,
    progress: Progress | None = None,
    **options: Unpack[ExportOptions],
) -> ExportReport:
    """Write the messages of stores to files of columns, in a directory that appears complete or not at all.

    Of several stores, one that cannot be read is left out, and the report says so.

    Args:
        stores: A store, or several, each of which gets a folder ``store=NAME``.
        out: The directory to make, or where in object storage; it must not exist, or be empty.
        left_out: Stores that could not be opened, by their paths, and why, for the report.
        engine: ``local``, ``spark``, `rmqtool.EngineOptions`, or an engine of `rmqtool.open_engine`.
        jobs: Tasks at a time; None is all cores.
        progress: Receives stages and remarks.
        options: See `rmqtool.api.options.ExportOptions`.

    Raises:
        UsageError: An argument makes no sense.
        RefusedError: The output exists, or it lies inside a store.
        EnvironmentFailureError: pyarrow is not installed (ndjson and csv do without), a store has no log, or
            reading or writing failed; nothing was left behind.
    """
    from rmqtool.commands.export import LeftOut
    from rmqtool.commands.export.run import export as run_export

    opened = (stores,) if isinstance(stores, Store) else tuple(stores)
    if not opened:
        raise UsageError("nothing to export: name a store")
    missing = tuple(LeftOut(path, why) for path, why in (left_out or {}).items())
    request = export_request(opened, target_of(out), engine_of(engine, jobs), missing, **options)
    return run_export(request, progress or NullProgress())


def export_request(
    stores: tuple[Store, ...],
    out: Target,
    engine: EngineOptions | Engine,
    left_out: tuple[LeftOut, ...] = (),
    **options: Unpack[ExportOptions],
) -> ExportRequest:
    """Return the request; `UsageError` if an option makes no sense."""
    from rmqtool.columns import FileFormat, column_names, names_in_files
    from rmqtool.commands.export import ExportRequest

    declared = {**options}
    file_format = word_of("format", options.get("format", "parquet"), FileFormat)
    columns = column_names(options.get("columns"))
    for name in ("format", "columns"):
        declared.pop(name, None)
    request = request_of(
        ExportRequest,
        declared,
        stores[0]._zone,
        stores=tuple(store.files for store in stores),
        out=out,
        engine=engine,
        format=file_format,
        columns=columns,
        left_out=left_out,
    )
    names_in_files(columns, request.partition)
    return request


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
    """Run one function on many stores with one engine; a failure of one store stops nothing.

    ``ask_stores("/data/*/store", lambda store, engine: store.verify(engine=engine))`` verifies all of them.

    Args:
        paths: Of stores, and globs of such; each store counts once.
        ask: Called with each store and the engine to work on; the store is closed afterwards. An exception
            is the outcome of that store; a report that has an ``exit_status`` decides the store's.
        broker_conf: As of `rmqtool.open`, for all of them; so are the next three.
        properties: Settings of the broker by their own names.
        broker_version: A release, ``4.9`` or ``5.x``.
        timezone: Zone of times without one.
        fail_on: Findings that count for the exit status: ``error``, ``warning`` or ``never``.
        engine: ``local``, ``spark``, `rmqtool.EngineOptions`, or an engine of `rmqtool.open_engine`.
        jobs: Tasks at a time; None is all cores.
        progress: Receives the progress.

    Raises:
        UsageError: An argument for all of them makes no sense.
        EnvironmentFailureError: The engine does not come up.
    """
    from rmqtool.commands.fleet import ask_members, gathered

    named = [paths] if isinstance(paths, str | os.PathLike | Location) else [*paths]
    opening = partial(
        open,
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
    return open(path, type=kind_of_part(path, kind), **opening)  # type: ignore[arg-type]


def log_bytes(store: Store) -> int:
    """Return the size of the files of a store's log; 0 where they may not be listed, as its report says."""
    with suppress(EnvironmentFailureError):
        return store.files.commitlog.size_bytes
    return 0


_FILE_SIZE = "mappedFileSizeCommitLog"


def carve_images(
    images: AnyPath | Iterable[AnyPath],
    out: AnyPath | None = None,
    *,
    commitlog_size: int | None = None,
    one_log: bool = False,
    broker_conf: AnyPath | None = None,
    properties: Mapping[str, Value] | Iterable[str] = (),
    jobs: int | None = None,
    progress: Progress | None = None,
) -> CarveReport:
    """Find messages in raw bytes without names, and make stores of them; the images are only read.

    Args:
        images: Disk images, block devices, blobs, dumps, segments without names; one, or several.
        out: The result; must not exist, or be an empty directory. None only looks.
        commitlog_size: Bytes of a commit log's files; None is ``mappedFileSizeCommitLog`` if that is given,
            else it is inferred.
        one_log: Whether all store hosts are those of one broker.
        broker_conf: The broker's own properties file.
        properties: Settings of the broker by their own names.
        jobs: Tasks at a time; None is all cores.
        progress: Receives the stages.

    Raises:
        UsageError: Something that was given makes no sense.
        RefusedError: The output exists, or lies in a store that is read or on a device that is carved.
        EnvironmentFailureError: An image cannot be read, or the disk is full.
    """
    from rmqtool.commands.carve import CarveRequest, carve

    check_least(1, jobs=jobs, commitlog_size=commitlog_size)
    paths = [images] if isinstance(images, str | os.PathLike) else [*images]
    if not paths:
        raise UsageError("give an image")
    if commitlog_size is None:
        given = given_settings(None if broker_conf is None else Path(broker_conf), property_texts(properties))
        commitlog_size = int(str(given[_FILE_SIZE].value)) if _FILE_SIZE in given else None
    request = CarveRequest(
        images=[image_at(path) for path in paths],
        out=None if out is None else Path(out),
        file_size=commitlog_size,
        one_log=one_log,
        engine=EngineOptions("local", jobs),
    )
    return carve(request, NullProgress() if progress is None else progress)
