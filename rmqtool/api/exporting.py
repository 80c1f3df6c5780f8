"""``rmqtool.export``: messages of stores as files of columns."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rmqtool.api.arguments import AnyStore, target_of
from rmqtool.api.engines import AnyEngine, engine_of
from rmqtool.api.opened import OpenedStore
from rmqtool.columns.names import FileFormat, column_names, names_in_files
from rmqtool.commands.export import ExportReport, ExportRequest, LeftOut
from rmqtool.errors import UsageError
from rmqtool.options import request_of, word_of
from rmqtool.progress import NullProgress, Progress

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from typing_extensions import Unpack

    from rmqtool.api.options import ExportOptions
    from rmqtool.api.store import Store
    from rmqtool.engine import Engine, EngineOptions
    from rmqtool.store.results import Target


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
        engine: ``local``, ``spark``, `rmqtool.EngineOptions`, or what `rmqtool.open_engine` opened.
        jobs: Tasks at a time; None is all cores.
        progress: Receives stages and remarks.
        options: See `rmqtool.api.options.ExportOptions`.

    Raises:
        UsageError: An argument makes no sense.
        RefusedError: The output exists, or it lies inside a store.
        EnvironmentFailureError: pyarrow is not installed, a store has no log, or reading or writing failed;
            nothing was left behind.
    """
    from rmqtool.commands.export.run import export as run_export

    opened = (stores,) if isinstance(stores, OpenedStore) else tuple(stores)
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
    """Return the request.

    Raises:
        UsageError: An option makes no sense.
    """
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
