"""What `rmqtool.export` asks for."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rmqtool.api.arguments import check_least, filter_of, target_of, word_of
from rmqtool.api.engines import engine_of
from rmqtool.columns.names import (
    ColumnChoice,
    FileForm,
    FileFormat,
    Partition,
    TextBodies,
    column_names,
    names_in_files,
)
from rmqtool.commands.export.model import ExportRequest, LeftOut
from rmqtool.errors import UsageError
from rmqtool.progress import NullProgress

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from rmqtool.api.arguments import AnyStore, Time
    from rmqtool.api.engines import AnyEngine
    from rmqtool.api.store import Store
    from rmqtool.commands.export.model import ExportReport
    from rmqtool.progress import Progress


def export(
    stores: Store | Iterable[Store],
    out: AnyStore,
    *,
    format: str = "parquet",
    columns: Iterable[str] | None = None,
    body: str = "text",
    partition_by: str | None = None,
    topic: str | Iterable[str] | None = None,
    queue: int | None = None,
    tag: str | None = None,
    key: str | None = None,
    begin: Time | None = None,
    end: Time | None = None,
    from_offset: int | None = None,
    to_offset: int | None = None,
    from_queue_offset: int | None = None,
    decompress: bool = False,
    max_findings: int = 10,
    left_out: Mapping[str, str] | None = None,
    engine: AnyEngine = "local",
    jobs: int | None = None,
    progress: Progress | None = None,
) -> ExportReport:
    """Write the messages of stores to files of columns, in a directory that appears complete or not at all.

    Of several stores, one that cannot be read is left out, and the report says so.

    Args:
        stores: A store, or several, each of which gets a folder ``store=NAME``.
        out: The directory to make, or where in object storage; it must not exist, or be empty.
        format: ``parquet``, ``arrow``, ``ndjson`` or ``csv``.
        columns: Names of columns, in order; None is all.
        body: How ndjson and csv have bodies: ``text``, ``hex`` or ``base64``.
        partition_by: ``topic`` or ``day``, of storing in UTC: folders ``topic=NAME`` or ``day=YYYY-MM-DD``.
        topic: A glob over the stored topic, or several.
        queue: The queue's number.
        tag: The whole TAGS property.
        key: One of KEYS, or the unique key.
        begin: Stored at this time or later.
        end: Stored at this time or earlier.
        from_offset: From this physical offset on; inside a record the next one is the first.
        to_offset: Before this physical offset.
        from_queue_offset: From this queue offset on.
        decompress: Unpack bodies that SYSFLAG says are compressed.
        max_findings: Findings of one code that are kept; the rest is counted.
        left_out: Stores that could not be opened, by their paths, and why: the report tells it.
        engine: ``local``, ``spark``, `rmqtool.EngineOptions`, or what `rmqtool.open_engine` opened.
        jobs: Tasks at a time; None is all cores.
        progress: Told what is going on.

    Raises:
        UsageError: An argument makes no sense.
        RefusedError: The output exists, or it lies inside a store.
        EnvironmentFailureError: pyarrow is not installed, a store has no log, or reading or writing failed;
            nothing was left behind.
    """
    from rmqtool.api.opened import OpenedStore
    from rmqtool.commands.export.run import export as run_export

    opened = (stores,) if isinstance(stores, OpenedStore) else tuple(stores)
    if not opened:
        raise UsageError("nothing to export: name a store")
    check_least(0, from_offset=from_offset, to_offset=to_offset)
    check_least(0, max_findings=max_findings)
    wanted = filter_of(
        opened[0]._zone,
        topic=topic,
        queue=queue,
        tag=tag,
        key=key,
        begin=begin,
        end=end,
        from_queue_offset=from_queue_offset,
    )
    partition = None if partition_by is None else word_of("partition_by", partition_by, Partition)
    names = column_names(columns)
    names_in_files(names, partition)
    options, working = engine_of(engine, jobs)
    request = ExportRequest(
        stores=tuple(store.files for store in opened),
        out=target_of(out),
        engine=options,
        form=FileForm(word_of("format", format, FileFormat), word_of("body", body, TextBodies), partition),
        choice=ColumnChoice(names, decompress),
        messages=wanted,
        from_offset=from_offset,
        to_offset=to_offset,
        max_findings=max_findings,
        left_out=tuple(LeftOut(path, why) for path, why in (left_out or {}).items()),
    )
    return run_export(request, progress or NullProgress(), working)
