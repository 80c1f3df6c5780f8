"""Dump of a store's files, structure by structure."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from rmqtool import rows
from rmqtool.commands.dump.derived import dump_config, dump_index_file, dump_queues
from rmqtool.commands.dump.hex import HexRows
from rmqtool.commands.dump.log import dump_log
from rmqtool.commands.dump.request import ROW_TYPES, DumpRequest, OnCorrupt
from rmqtool.derived.index_files import warn_of_assumed_geometry
from rmqtool.derived.positions import read_checkpoint
from rmqtool.errors import UsageError
from rmqtool.findings import Severity, Structure
from rmqtool.findings.codes import CP_SIZE
from rmqtool.formats.checkpoint import CHECKPOINT_FILE_SIZE
from rmqtool.rows.bodies import decompressed, with_inner_messages
from rmqtool.store.kinds import KINDS, QUEUE_KINDS, PathKind

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from rmqtool.progress import Progress
    from rmqtool.store import Store

    _Dump = Callable[[Store, DumpRequest, Progress], Iterator[rows.Row]]


def dump(store: Store, request: DumpRequest, progress: Progress) -> Iterator[rows.Row]:
    """Return the rows of the part of a store that a path shows.

    A filter narrows them: of a store root, to the structures to which it can be applied; a filter of messages
    shows them alone, unless kinds or types of rows are named.

    Bodies are unpacked and batches cut into messages as the request says.

    Raises:
        UsageError: A filter cannot be applied to the path, or no file has rows of the types.
    """
    if request.unpack_batches:
        request = replace(request, messages=replace(request.messages, inside_batches=True))
    found = _rows_of(_chosen_kinds(store, request), store, request, progress)
    if request.unpack_batches:
        found = with_inner_messages(found, request.messages)
        if request.row_types and "message" not in request.row_types:
            found = (row for row in found if not isinstance(row, rows.Message))
    if request.decompress:
        found = decompressed(found, progress)
    return _up_to_error(found) if request.on_corrupt == OnCorrupt.FAIL else found


def _up_to_error(found: Iterator[rows.Row]) -> Iterator[rows.Row]:
    for row in found:
        yield row
        if isinstance(row, rows.Damage) and row.severity is Severity.ERROR:
            return


def _rows_of(
    kinds: list[PathKind], store: Store, request: DumpRequest, progress: Progress
) -> Iterator[rows.Row]:
    annotate = HexRows(store)
    for kind in kinds:
        for row in DUMPS[kind](store, request, progress):
            if not _is_shown(row, request):
                continue
            yield row
            if request.hex:
                yield from annotate.fields(row)
    _note_strays(store, progress)


def _is_shown(row: rows.Row, request: DumpRequest) -> bool:
    if isinstance(row, rows.Damage):
        return row.severity is not Severity.INFO or not (request.filters_messages or request.row_types)
    return request.admits_type("message" if isinstance(row, rows.Lines | rows.Columns) else row.type)


def _chosen_kinds(store: Store, request: DumpRequest) -> list[PathKind]:
    shown = [kind for kind in KINDS if kind in store.roots]
    chosen: list[PathKind] = [kind for kind in shown if kind in (request.kinds or shown)]
    if request.row_types:
        named = {ROW_TYPES[one] for one in request.row_types}
        chosen = [kind for kind in chosen if kind in named]
        if not chosen:
            types = ", ".join(sorted(request.row_types))
            raise UsageError(f"{store.place.path}: no file there has rows of the type {types}")
    elif request.filters_messages and not request.kinds and PathKind.COMMITLOG in chosen:
        chosen = [PathKind.COMMITLOG]
    for option, applicable in request.applicable().items():
        narrowed = [kind for kind in chosen if kind in applicable]
        if not narrowed:
            raise UsageError(f"{store.place.path}: {option} does not apply to this kind of file")
        chosen = narrowed
    if (request.slots or request.chains) and PathKind.INDEX not in chosen:
        raise UsageError(f"{store.place.path}: no index file is dumped, so there are no slots and chains")
    return chosen


def _dump_index(store: Store, request: DumpRequest, progress: Progress) -> Iterator[rows.Row]:
    assumed, done = warn_of_assumed_geometry(store, progress), 0
    progress.stage("index", sum(file.size_bytes for file in store.index_files))
    for file in store.index_files:
        geometry = store.settings.index_geometry
        found = dump_index_file(file, geometry, assumed=assumed, slots=request.slots, chains=request.chains)
        for row in found:
            if not isinstance(row, rows.Item) or request.admits_offset(row.physical_offset):
                yield row
        file.close()
        done += file.size_bytes
        progress.advance(done)


def _dump_checkpoint(store: Store, _request: DumpRequest, _progress: Progress) -> Iterator[rows.Row]:
    file = store.checkpoint
    if file is None:
        return
    fields = read_checkpoint(file)
    if fields is not None:
        yield rows.Checkpoint(*fields)
    if file.size_bytes != CHECKPOINT_FILE_SIZE:
        sentence = f"{file.label} has {file.size_bytes} bytes instead of {CHECKPOINT_FILE_SIZE}"
        yield rows.Damage(file.label, 0, None, file.size_bytes, CP_SIZE, sentence, Structure.CHECKPOINT)


def _note_strays(store: Store, progress: Progress) -> None:
    """Warn of parts that were left out: other storage engines, and entries of no directory's kind."""
    for feature in store.features:
        if feature.code.severity is Severity.WARNING:
            progress.warn(f"left out: {feature.label}: {feature.code.title}")
    for stray in (*store.commitlog.strays, *store.index_strays):
        progress.warn(f"left out: {stray.label} {stray.reason}")


DUMPS: dict[PathKind, _Dump] = {
    PathKind.COMMITLOG: dump_log,
    **{kind: partial(dump_queues, kind=kind) for kind in QUEUE_KINDS},
    PathKind.INDEX: _dump_index,
    PathKind.CHECKPOINT: _dump_checkpoint,
    PathKind.CONFIG: lambda store, *_: dump_config(store),
}
"""Functions that make rows of each kind of file."""
