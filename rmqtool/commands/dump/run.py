"""Dump of a store's files, structure by structure; records by one walk, by kernels, or through a queue."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from rmqtool import rows
from rmqtool.commands.dump import ROW_TYPES, DumpRequest, OnCorrupt
from rmqtool.commands.dump.derived import dump_config, dump_entry_index, dump_index_file, dump_queues
from rmqtool.commands.dump.hex import HexRows
from rmqtool.derived.index_files import warn_of_assumed_geometry
from rmqtool.derived.positions import read_checkpoint
from rmqtool.derived.queues import find_queue
from rmqtool.errors import UsageError
from rmqtool.findings import Severity, Structure, codes
from rmqtool.formats.checkpoint import CHECKPOINT_FILE_SIZE
from rmqtool.lookup.context import QueryContext, QueryRequest
from rmqtool.lookup.queue import QueueConsumer
from rmqtool.lookup.searches import records_by_time
from rmqtool.progress import LimitedProgress, Progress
from rmqtool.projection import BodyMode
from rmqtool.rows.batches import with_inner_messages
from rmqtool.rows.bodies import decompressed
from rmqtool.rows.messages import MessageFilter, MessageRows
from rmqtool.rows.selections import resolved
from rmqtool.scan.classify import FoundEdge
from rmqtool.scan.record_walk import record_defects, walk_log
from rmqtool.scan.records import check_record
from rmqtool.store import FileQueue, Store
from rmqtool.store.kinds import KINDS, QUEUE_KINDS, PathKind
from rmqtool.store.names import digits_of
from rmqtool.store.segments import NAME_DIGITS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from rmqtool.derived.queues import Queue

    _Dump = Callable[[Store, DumpRequest, Progress], Iterator[rows.Row]]


def dump(store: Store, request: DumpRequest, progress: Progress) -> Iterator[rows.Row]:
    """Return the rows of the part of a store that a path shows.

    A filter narrows them: of a store root, to the structures to which it can be applied; a filter of messages
    shows them alone, unless kinds or types of rows are named.

    Bodies are unpacked and batches cut into messages as the request says.
    """
    if request.unpack_batches:
        request = replace(request, messages=replace(request.messages, inside_batches=True))
    every = _rows_of(_chosen_kinds(store, request), store, request, progress)
    if request.unpack_batches:
        every = with_inner_messages(every, request.messages)
        if request.row_types and "message" not in request.row_types:
            every = (row for row in every if not isinstance(row, rows.Message))
    if request.decompress:
        every = decompressed(every, progress)
    return _up_to_error(every) if request.on_corrupt == OnCorrupt.FAIL else every


def _up_to_error(every: Iterator[rows.Row]) -> Iterator[rows.Row]:
    for row in every:
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
    for feature in store.hidden:
        if feature.code.severity is Severity.WARNING:
            progress.warn(f"left out: {feature.label}: {feature.code.title}")
    for stray in (*store.commitlog.strays, *store.index_strays):
        progress.warn(f"left out: {stray.label} {stray.reason}")


def _is_shown(row: rows.Row, request: DumpRequest) -> bool:
    if isinstance(row, rows.Damage):
        return row.severity is not Severity.INFO or not (request.filters_messages or request.row_types)
    return request.admits_type("message" if isinstance(row, rows.Lines | rows.Columns) else row.type)


def _chosen_kinds(store: Store, request: DumpRequest) -> list[PathKind]:
    shown = [kind for kind in KINDS if kind in store.roots]
    chosen: list[PathKind] = [kind for kind in shown if kind in (request.kinds or shown)]
    if request.row_types:
        named = {ROW_TYPES[type_] for type_ in request.row_types}
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
        every = dump_index_file(file, geometry, assumed=assumed, slots=request.slots, chains=request.chains)
        for row in every:
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
        yield rows.Damage(file.label, 0, None, file.size_bytes, codes.CP_SIZE, sentence, Structure.CHECKPOINT)


LARGE_LOG_BYTES = 16 << 20
"""Up to this size plain Python is done before the kernels are loaded."""
_ROWS_A_STEP = 4096
"""Records between two reports of progress."""


def dump_log(store: Store, request: DumpRequest, progress: Progress) -> Iterator[rows.Row]:
    """Yield the requested rows of a log: by kernels if there are many, by a queue if it leads to them."""
    log = _placed_log(store)
    request = replace(request, messages=resolved(store, request.messages, progress))
    if (through_queue := _through_queue(store, request, progress)) is not None:
        yield from through_queue
        return
    begin = max(request.from_offset or 0, log.start)
    progress.stage("commitlog", _wanted_bytes(log, request))
    if _is_large(log, request):
        yield from _large_log(store, log, request, progress)
        log.close()
        return
    make = MessageRows(log, store.settings.delay_levels)
    edge = FoundEdge.of(store, log)
    events = walk_log(edge, request.from_offset or 0, request.to_offset, request.on_corrupt)
    for number, event in enumerate(events):
        if not number % _ROWS_A_STEP:
            progress.advance((event.physical_offset or 0) - begin)
        yield from make.selected(event, request.messages)
    log.close()


def _through_queue(store: Store, request: DumpRequest, progress: Progress) -> Iterator[rows.Row] | None:
    """Return the messages of a range of one queue by way of that queue; None for any other request."""
    wanted = request.messages
    if (
        PathKind.CONSUMEQUEUE not in store.roots
        or (wanted.from_queue_offset, wanted.begin_ms, wanted.end_ms) == (None, None, None)
        or not isinstance(wanted.topic, str)
        or wanted.queue_id is None
        or not set(wanted.topic).isdisjoint("*?[")
        or (request.from_offset, request.to_offset, request.on_corrupt) != (None, None, "resync")
        or request.columns is not None  # which must not depend on the content of a queue
        or wanted.stored_topic is not None
    ):
        return None
    queue = find_queue(store, wanted.topic, wanted.queue_id)
    if queue is None:
        return None
    progress.note(
        f"messages of {queue.topic}/{queue.queue_id} through its consume queue;"
        " dump the commitlog directory to see also what no queue holds"
    )
    return _queue_messages(store, queue, wanted, progress)


def _queue_messages(
    store: Store, queue: Queue, wanted: MessageFilter, progress: Progress
) -> Iterator[rows.Row]:
    make = MessageRows(store.own_log, store.settings.delay_levels)
    request = QueryRequest(
        topic=queue.topic, queue_id=wanted.queue_id, begin_ms=wanted.begin_ms, end_ms=wanted.end_ms
    )
    remedy = "dump the commitlog directory to read the log itself"
    context = QueryContext(store, request, LimitedProgress(progress), remedy=remedy)
    if wanted.begin_ms is None and wanted.end_ms is None:
        reader = QueueConsumer(context, queue)
        records = reader.records(max(wanted.from_queue_offset or 0, reader.bounds.min_offset), None)
    else:
        records = records_by_time(context)
    for record in records:
        if wanted.admits(record):
            for defect in record_defects(record):
                yield make.row(defect)
            yield make.row(record)


def _is_large(log: FileQueue, request: DumpRequest) -> bool:
    """Whether the request takes so much of the log, in such a form, that loading the kernels pays."""
    return (
        (request.columns is not None or request.lines in [*BodyMode] or request.filters_messages)
        and not request.hex
        and request.on_corrupt == "resync"
        and request.messages.is_for_kernels
        and all(segment.label.isascii() and segment.label.isprintable() for segment in log.segments)
        and _wanted_bytes(log, request) > LARGE_LOG_BYTES
    )


def _wanted_bytes(log: FileQueue, request: DumpRequest) -> int:
    begin, end = request.from_offset or 0, request.to_offset
    sizes = (min(segment.stop, end or segment.stop) - max(segment.start, begin) for segment in log.segments)
    return sum(max(0, size) for size in sizes)


def _large_log(store: Store, log: FileQueue, request: DumpRequest, progress: Progress) -> Iterator[rows.Row]:
    from rmqtool.rows.log_splits import LogJob, log_pieces

    begin, end, levels = (
        max(request.from_offset or 0, log.start),
        request.to_offset,
        store.settings.delay_levels,
    )
    if request.columns is None:
        from rmqtool.columns.lines import LineJob

        body, odd = BodyMode(request.lines or BodyMode.NONE), request.odd_flags
        job: LogJob = LineJob(log, levels, request.messages, body, odd, as_rows=request.lines is None)
    else:
        from rmqtool.columns.encoder import COLUMN_SPLIT_BYTES, ColumnJob
        from rmqtool.columns.pieces import ranges_of

        ranges = ranges_of(store, request.messages, request.from_offset, end, progress)
        wanted = request.messages, request.columns
        job = ColumnJob(log, levels, *wanted, split_bytes=COLUMN_SPLIT_BYTES, ranges=ranges)
    return log_pieces(
        replace(
            job,
            begin=request.from_offset or 0,
            end=end,
            edge=FoundEdge.of(store, log),
            advance=lambda log_offset: progress.advance(log_offset - begin),
        )
    )


def _placed_log(store: Store) -> FileQueue:
    """Return the log; a lone file without an offset in its name lies where its first record says."""
    log = store.own_log
    if not store.place.is_file or digits_of(store.place.path.name, NAME_DIGITS) is not None:
        return log
    (segment,) = log.segments
    record = check_record(segment, 0).record
    start = 0 if record is None else max(0, record.head.physical_offset)
    return FileQueue(log.directories, (replace(segment, start=start),))


DUMPS: dict[PathKind, _Dump] = {
    PathKind.COMMITLOG: dump_log,
    **{kind: partial(dump_queues, kind=kind) for kind in QUEUE_KINDS},
    PathKind.INDEX: _dump_index,
    PathKind.CHECKPOINT: _dump_checkpoint,
    PathKind.ENTRY_INDEX: dump_entry_index,
    PathKind.CONFIG: lambda store, *_: dump_config(store),
}
"""Functions that make rows of each kind of file."""
