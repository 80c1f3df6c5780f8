"""Plan of a read: stores are opened, their files listed, and divided into tasks; little is read."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from rmqtool.columns.pieces import log_job, pieces_of, ranges_of, trimmed
from rmqtool.commands.dump import DumpRequest
from rmqtool.derived.index_files import warn_of_assumed_geometry
from rmqtool.engine.spark_plan import FIRST_PAGE, PlannedTask, TaskPacker
from rmqtool.errors import UsageError
from rmqtool.io import nothing_fits, places_of
from rmqtool.progress import NullProgress
from rmqtool.rows.messages import MessageFilter
from rmqtool.scan.classify import FoundEdge
from rmqtool.spark.options import ReadOptions, Table
from rmqtool.spark.reading import LogTask, Part, index_rows, queue_rows, segment_facts
from rmqtool.store import PathKind, Store, open_store
from rmqtool.store.lock import lock_holder

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from rmqtool.columns import ColumnChoice
    from rmqtool.columns.encoder import ColumnJob
    from rmqtool.spark.reading import Task

T = TypeVar("T")

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


def parts_of(
    store: Store,
    options: ReadOptions,
    choice: ColumnChoice,
    *,
    growing: bool = False,
    ends_at_record: bool = False,
) -> list[Part]:
    """Return the parts of one store.

    ``growing`` says that it is being written; otherwise its lock decides. With ``ends_at_record``, the range
    ends at a record's start, unless there is damage. Raises `UsageError` if an option does not apply to the
    table.
    """
    tasks = list(_TASKS[options.table](store, options, choice))
    if ends_at_record:
        tasks = [replace(one, ends_at_record=True) if isinstance(one, LogTask) else one for one in tasks]
    packed = TaskPacker().tasks(tasks)
    if growing or (store.root is not None and lock_holder(store.root) is not None):
        packed = _loosened(packed, FoundEdge.of(store))
    store.commitlog.close()
    return [Part(store_name(store), one) for one in packed]


def _loosened(tasks: Iterable[PlannedTask], edge: FoundEdge) -> list[PlannedTask]:
    """Return tasks whose proofs leave out what changes while a broker writes.

    The first page of a log file stays, but for the newest file until it has a second page, and for files
    allocated in advance.
    """
    newest = edge.segments[: max(edge.last, 0) + 1]
    settled = {str(one.path) for one in newest[:-1]}
    settled |= {str(one.path) for one in newest[-1:] if any(one.read_at(FIRST_PAGE, FIRST_PAGE))}
    found = []
    for task in tasks:
        proofs = {path: proof.loosened() for path, proof in task.proofs.items()}
        for path in proofs.keys() - settled:
            proofs[path] = proofs[path]._replace(first_page=None)
        found.append(task._replace(proofs=proofs))
    return found


def log_job_of(store: Store, options: ReadOptions, choice: ColumnChoice) -> ColumnJob:
    """Return the job of all tasks of a store's log; `EnvironmentFailureError` without a log."""
    store.require_log("read")
    return log_job(store, options.messages, options.from_offset, options.to_offset, choice)


def _log_tasks(store: Store, options: ReadOptions, choice: ColumnChoice) -> Iterator[Task]:
    job = log_job_of(store, options, choice)
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
    found = (one for one in store.queues() if request.messages.admits_queue(one.topic, one.queue_id))
    for queues in _bundled(found, lambda one: one.files.size_bytes, options.split_bytes):
        yield partial(queue_rows, queues, request)


def _bundled(items: Iterable[T], size_of: Callable[[T], int], size_bytes: int) -> Iterator[tuple[T, ...]]:
    """Yield items in bundles of at most some bytes, but for a larger one."""
    waiting: list[T] = []
    room = size_bytes
    for item in items:
        size = size_of(item)
        if waiting and size > room:
            yield tuple(waiting)
            waiting, room = [], size_bytes
        waiting.append(item)
        room -= size
    if waiting:
        yield tuple(waiting)


def _index_tasks(store: Store, options: ReadOptions, _choice: ColumnChoice) -> Iterator[Task]:
    request, geometry = _request_of(options), store.settings.index_geometry
    assumed = warn_of_assumed_geometry(store, NullProgress())
    for files in _bundled(store.index_files, lambda one: one.size_bytes, options.split_bytes):
        yield partial(index_rows, files, geometry, request, assumed=assumed)


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
