"""Reading of a table: stores are opened and divided into tasks, and a task's rows become batches for Spark.

Planning lists files and reads little of them.
"""

from __future__ import annotations

import logging
import socket
from dataclasses import dataclass, replace
from functools import partial
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from rmqtool import rows
from rmqtool.columns.arrow import Batches
from rmqtool.columns.encoder import ColumnJob, filled
from rmqtool.columns.pieces import LogPiece, log_job, piece_rows, pieces_of, ranges_of, trimmed
from rmqtool.commands.dump import DumpRequest
from rmqtool.commands.dump.derived import admits_unit, dump_index_file, dump_queue
from rmqtool.derived.index_files import warn_of_assumed_geometry
from rmqtool.engine import together
from rmqtool.engine.spark_plan import FIRST_PAGE, PlannedTask, TaskPacker, unreached
from rmqtool.errors import EnvironmentFailureError, SourceUnreachableError, UsageError
from rmqtool.findings import Severity
from rmqtool.io import nothing_fits, places_of
from rmqtool.progress import NullProgress
from rmqtool.projection import json_object
from rmqtool.releases import LENIENT
from rmqtool.rows import Damage, Item
from rmqtool.rows.log_splits import ReadSplit, after_segment
from rmqtool.rows.messages import MessageFilter
from rmqtool.scan.classify import FoundEdge
from rmqtool.scan.gap_walk import GapWalk
from rmqtool.scan.log_pass import Split, SplitTask, read_split
from rmqtool.scan.record_walk import first_record
from rmqtool.spark.options import Mode, ReadOptions, Table
from rmqtool.spark.shapes import STORE, row_batch, shape_of
from rmqtool.store import PathKind, QueueFiles, Segment, Store, StoreFile, open_store
from rmqtool.store.lock import lock_holder

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from rmqtool.columns import ColumnChoice
    from rmqtool.rows import Row
    from rmqtool.store.geometry import Geometry

    Task = Callable[[], Iterator[Row | "SegmentFact"]]
    """Reader of a part of a store: messages come as columns, damage as rows."""


_KINDS = {Table.CONSUMEQUEUE: PathKind.CONSUMEQUEUE, Table.INDEX: PathKind.INDEX}


def open_stores(options: ReadOptions) -> list[Store]:
    """Open the stores of paths and globs, each once.

    Raises `EnvironmentFailureError` if there are none, or one is not a store.
    """
    places = {place.text: place for path in options.paths for place in places_of(path) or nothing_fits(path)}
    return [
        open_store(
            place,
            broker_conf=None if options.broker_conf is None else Path(options.broker_conf),
            properties=options.properties,
            broker_version=options.broker_version,
            timezone=options.timezone,
        )
        for place in places.values()
    ]


def store_name(store: Store) -> str:
    """Return the value of the column ``store``."""
    return str(store.place.path)


def parts_of(store: Store, options: ReadOptions, choice: ColumnChoice) -> list[Part]:
    """Return the parts of one store; `UsageError` if an option does not apply to the table."""
    packed = TaskPacker().tasks(list(_TASKS[options.table](store, options, choice)))
    if store.root is not None and lock_holder(store.root) is not None:  # a broker writes it
        packed = _loosened(packed, FoundEdge.of(store))
    store.commitlog.close()
    return [Part(store_name(store), task) for task in packed]


def _loosened(tasks: Iterable[PlannedTask], edge: FoundEdge) -> list[PlannedTask]:
    """Return tasks whose proofs leave out what changes while a broker writes.

    The first page of a log file stays, but for the newest file until it has a second page, and for files
    allocated in advance.
    """
    newest = edge.segments[: max(edge.last, 0) + 1]
    settled = {str(segment.path) for segment in newest[:-1]}
    settled |= {str(segment.path) for segment in newest[-1:] if any(segment.read_at(FIRST_PAGE, FIRST_PAGE))}
    loosened = []
    for task in tasks:
        proofs = {path: proof.loosened() for path, proof in task.proofs.items()}
        for path in proofs.keys() - settled:
            proofs[path] = proofs[path]._replace(first_page=None)
        loosened.append(task._replace(proofs=proofs))
    return loosened


def _log_tasks(store: Store, options: ReadOptions, choice: ColumnChoice) -> Iterator[Task]:
    store.require_log("read")
    job = log_job(store, options.messages, options.from_offset, options.to_offset, choice)
    ranges = ranges_of(store, options.messages, options.from_offset, options.to_offset, NullProgress())
    groups, others = pieces_of(job, options.split_bytes, ranges)
    if others:
        yield partial(iter, tuple(others))
    for pieces in groups:
        yield LogTask(trimmed(job, pieces), pieces, options.split_bytes)


def _request_of(options: ReadOptions) -> DumpRequest:
    kind = _KINDS[options.table]
    request = DumpRequest(
        frozenset({kind}),
        options.messages,
        from_offset=options.from_offset,
        to_offset=options.to_offset,
    )
    for option, kinds in request.applicable().items():
        if kind not in kinds:
            raise UsageError(f"the option {option[2:]} does not apply to the table {options.table}")
    return request


def _queue_tasks(store: Store, options: ReadOptions, _choice: ColumnChoice) -> Iterator[Task]:
    request = _request_of(options)
    asked = (queue for queue in store.queues() if request.messages.admits_queue(queue.topic, queue.queue_id))
    for queues in together(asked, lambda queue: queue.size_bytes, options.split_bytes):
        yield partial(queue_rows, tuple(queues), request)


def _index_tasks(store: Store, options: ReadOptions, _choice: ColumnChoice) -> Iterator[Task]:
    request, geometry = _request_of(options), store.settings.index_geometry
    assumed = warn_of_assumed_geometry(store, NullProgress())
    for files in together(store.index_files, lambda file: file.size_bytes, options.split_bytes):
        yield partial(index_rows, tuple(files), geometry, request, assumed=assumed)


def _segment_tasks(store: Store, _options: ReadOptions, _choice: ColumnChoice) -> Iterator[Task]:
    yield partial(segment_facts, store.commitlog.segments)


def _damage_tasks(store: Store, options: ReadOptions, choice: ColumnChoice) -> Iterator[Task]:
    """Yield tasks that read log, consume queues and index, as ``dump`` does."""
    everything = replace(options, messages=MessageFilter())
    if len(store.commitlog):
        yield from _log_tasks(store, everything, choice)
    yield from _queue_tasks(store, replace(everything, table=Table.CONSUMEQUEUE), choice)
    yield from _index_tasks(store, replace(everything, table=Table.INDEX), choice)


_TASKS = {
    Table.MESSAGES: _log_tasks,
    Table.CONSUMEQUEUE: _queue_tasks,
    Table.INDEX: _index_tasks,
    Table.DAMAGE: _damage_tasks,
    Table.SEGMENTS: _segment_tasks,
}


@dataclass(frozen=True)
class LogTask:
    """Reads pieces of a log, in order: messages as columns, and damage.

    ``split_bytes`` is the length of pieces of one file.
    """

    job: ColumnJob
    pieces: tuple[LogPiece, ...]
    split_bytes: int

    def __call__(self) -> Iterator[Row]:
        """Yield the rows."""
        job = self.job
        for piece in self.pieces:
            yield from piece.lead
            end = ReadSplit(piece.split, piece.first)
            yield from piece_rows(piece, job, end)
            if end.first_log_offset is not None:
                yield from self._following(piece, job, end)

    def _following(self, piece: LogPiece, job: ColumnJob, end: ReadSplit) -> Iterator[Row]:
        """Yield the rows up to the first intact record of the next task that has one in this file.

        They are damage, and records that claim another offset: no task takes such a record for its first.
        """
        segment, piece_stop = piece.split.segment, piece.split.stop
        walk = GapWalk(segment, LENIENT, job.facts.stale_from)
        _, last = piece.range
        for start in range(piece_stop, last, self.split_bytes):
            stop = min(start + self.split_bytes, last)
            first = walk.guess(start, stop)
            due = end.next_log_offset
            if first == due and not end.ended:
                return
            if first is not None and (end.ended or due > first):
                raise _unclear(segment, first)
            if end.ended or due >= stop:
                continue
            split = Split(segment, due, stop if first is None else first)
            read = read_split(SplitTask(job, split, due))
            yield from read.rows
            end.next_log_offset, end.closed, end.ended = read.next_log_offset, read.closed, read.ended
            if first is not None:
                if read.next_log_offset != first:
                    raise _unclear(segment, first)
                return
        yield from after_segment(job, end)


def _unclear(segment: Segment, log_offset: int) -> EnvironmentFailureError:
    return EnvironmentFailureError(
        f"{segment.path}: what lies at {log_offset - segment.start} looks like a record, and the records"
        " before it do not lead there, so its parts cannot be read apart; set the option splitBytes to"
        f" {segment.size_bytes}, that one task reads the file"
    )


def queue_rows(queues: tuple[QueueFiles, ...], request: DumpRequest) -> Iterator[Row]:
    """Yield the units of consume queues that a request admits, and damage."""
    for queue in queues:
        for row in dump_queue(queue, request.messages.from_queue_offset or 0):
            if isinstance(row, Damage) or admits_unit(request, row):
                yield row


def index_rows(
    files: tuple[StoreFile, ...], geometry: Geometry, request: DumpRequest, *, assumed: bool
) -> Iterator[Row]:
    """Yield the items of index files that a request admits, and damage.

    ``assumed`` says that the geometry is only the default.
    """
    for file in files:
        for row in dump_index_file(file, geometry, assumed=assumed):
            if not isinstance(row, Item) or request.admits_offset(row.physical_offset):
                yield row
        file.close()


@dataclass(frozen=True, slots=True)
class SegmentFact:
    """A file of the log; the time is that of its first record, if it begins with one."""

    file: str
    physical_offset: int
    size_bytes: int
    first_store_timestamp_ms: int | None


def segment_facts(segments: tuple[Segment, ...]) -> Iterator[SegmentFact]:
    """Yield a row for each file of a log."""
    for segment in segments:
        record = first_record([segment])
        time_ms = None if record is None else record.head.store_timestamp_ms
        yield SegmentFact(segment.label, segment.start, segment.size_bytes, time_ms)
        segment.close()


_LOG = logging.getLogger("rmqtool")
_ROWS = 8192
_ROW_KINDS: dict[Table, type[Any]] = {
    Table.CONSUMEQUEUE: rows.Unit,
    Table.INDEX: rows.Item,
    Table.DAMAGE: rows.Damage,
    Table.SEGMENTS: SegmentFact,
}


class Part(NamedTuple):
    """Content of a partition: the store's path, and the task with proofs of the files that it reads."""

    store: str
    task: PlannedTask


@dataclass(frozen=True)
class PartitionReader:
    """Reader of partitions. ``target`` are the columns' names and types in Spark; ``topics`` None is any."""

    options: ReadOptions
    names: tuple[str, ...]
    target: pa.Schema
    topics: frozenset[str] | None = None

    @property
    def choice(self) -> ColumnChoice:
        """The columns of messages that must be read."""
        also = () if self.topics is None else ("topic",)
        return shape_of(self.options).choice(self.names, decompress=self.options.decompress, also=also)

    def batches(self, part: Part) -> Iterator[pa.RecordBatch]:
        """Yield the batches of a partition.

        Raises:
            FileNotSharedError: This machine does not see a file of the part.
            ExecutorCannotReachError: It cannot reach the object store.
            EnvironmentFailureError: A file cannot be read; with FAILFAST, also at the first damage.
        """
        try:
            task = part.task.unpacked()
            every = self._fast_failing(task()) if self.options.mode is Mode.FAILFAST else task()
            if isinstance(task, LogTask) and self.options.table is Table.MESSAGES:
                yield from self._messages(filled(every, task.job.choice), part.store, task.job.choice)
            else:
                yield from self._rows(every, part.store)
        except EnvironmentFailureError as failure:
            raise EnvironmentFailureError(f"executor {socket.gethostname()}: {failure}") from failure
        except SourceUnreachableError as failure:
            raise unreached(failure) from failure

    def _messages(
        self, every: Iterable[rows.Row], store: str, choice: ColumnChoice
    ) -> Iterator[pa.RecordBatch]:
        batches, shape = Batches(choice), shape_of(self.options)
        for columns in every:
            if not isinstance(columns, rows.Columns):
                continue
            for remark in columns.remarks:
                _LOG.warning(remark)
            batch = self._wanted(batches.batch(columns), columns.damage)
            if len(batch):
                yield shape.batch(self.names, batch, store, self.target)

    def _wanted(self, batch: pa.RecordBatch, damage: dict[int, list[str]]) -> pa.RecordBatch:
        """Return the messages of wanted topics; with DROPMALFORMED, without damaged ones."""
        masks = []
        if self.topics is not None:
            topics = pa.array(sorted(self.topics), pa.string())
            masks.append(pc.is_in(batch["topic"].cast(pa.string()), value_set=topics))
        if damage and self.options.mode is Mode.DROPMALFORMED:
            masks.append(pa.array([number not in damage for number in range(len(batch))]))
        for mask in masks[1:]:
            masks[0] = pc.and_(masks[0], mask)
        return batch.filter(masks[0]) if masks else batch

    def _rows(self, every: Iterable[rows.Row | SegmentFact], store: str) -> Iterator[pa.RecordBatch]:
        kind = _ROW_KINDS.get(self.options.table)
        if kind is None:  # of messages, which have columns instead
            for _ in every:
                pass
            return
        objects = _objects(every, kind, store)
        while some := list(islice(objects, _ROWS)):
            yield row_batch(some, self.names, self.target)

    def _fast_failing(self, every: Iterable[Any]) -> Iterator[Any]:
        """Yield rows; raise `EnvironmentFailureError` at the first damage or damaged message."""
        damage_by_code: dict[str, rows.Damage] = {}
        for row in every:
            if isinstance(row, rows.Damage):
                damage_by_code[row.code.code] = row
                if row.severity is Severity.ERROR:
                    raise _damaged(row)
            elif isinstance(row, rows.Columns) and row.damage:
                raise _damaged(damage_by_code[next(iter(row.damage.values()))[0]])
            yield row


def _objects(every: Iterable[Any], kind: type[Any], store: str) -> Iterator[dict[str, Any]]:
    for row in every:
        if not isinstance(row, kind):
            continue
        value = {**json_object(row), STORE: store}
        if isinstance(row, rows.Damage):
            finding = row.finding()
            value |= {"severity": finding.severity.value, "structure": row.structure.value}
            value["message"] = finding.sentence
        yield value


def _damaged(damage: rows.Damage) -> EnvironmentFailureError:
    log_offset = "" if damage.physical_offset is None else f" (physical offset {damage.physical_offset})"
    return EnvironmentFailureError(
        f"{damage.file} at {damage.position}{log_offset}: {damage.code.code}: {damage.finding().sentence};"
        " read it with mode PERMISSIVE or DROPMALFORMED, or see"
        f" `rmqtool verify --explain {damage.code.code}`"
    )
