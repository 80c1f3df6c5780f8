"""Messages by queue offset: the consume queue names the place, the record must agree."""

from __future__ import annotations

from itertools import count, islice
from typing import TYPE_CHECKING, NamedTuple

from rmqtool.commands.queue_bounds import first_holding, read_batch_unit, read_unit
from rmqtool.commands.record_at import record_at
from rmqtool.errors import EnvironmentFailureError
from rmqtool.formats import consumequeue, struct_of
from rmqtool.store import PathKind
from rmqtool.store.features import is_rocksdb

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from rmqtool.commands.progress import Progress
    from rmqtool.scan.records import Record
    from rmqtool.store import QueueFiles, Store

_UNIT_SIZE = struct_of(consumequeue.UNIT).size
_BATCH_UNIT_SIZE = struct_of(consumequeue.BATCH_UNIT).size


class _Entry(NamedTuple):
    queue_offset: int
    physical_offset: int


def queue_records(
    store: Store, topic: str, queue_id: int, queue_offset: int, wanted: int | None, progress: Progress
) -> Iterator[Record]:
    """Yield the messages of a queue from an offset on, as a consumer gets them.

    A unit whose record belongs to another queue, or cannot be read, is told and left out.

    Args:
        store: The store.
        topic: Its name.
        queue_id: Its number.
        queue_offset: The first offset.
        wanted: How many units are looked at; None is all.
        progress: Told what is wrong with units.

    Raises:
        EnvironmentFailureError: The queues lie in RocksDB, which is not read.
    """
    log = store.commitlog
    for entry in _entries(store, topic, queue_id, queue_offset, wanted):
        record = record_at(log, entry.physical_offset)
        place = f"{topic}/{queue_id} offset {entry.queue_offset}"
        if record is None:
            where = "no record lies" if log.segment_at(entry.physical_offset) else "the log does not reach"
            progress.warn(f"{place} points to log offset {entry.physical_offset}, where {where}")
        elif not _belongs(record, topic, queue_id):
            owner = f"{record.topic}/{record.head.queue_id}"
            progress.warn(f"{place} points to a message of {owner}; the queue is damaged, try --scan")
        else:
            if record.topic == topic and record.head.queue_offset != entry.queue_offset:
                progress.warn(f"{place} holds the message of queue offset {record.head.queue_offset}")
            yield record


def _belongs(record: Record, topic: str, queue_id: int) -> bool:
    """Whether a record is dispatched to a queue: to its own, or to one of its light queues."""
    if record.topic == topic:
        return record.head.queue_id == queue_id
    return topic in record.properties.get("INNER_MULTI_DISPATCH", "").split(",")


def _entries(
    store: Store, topic: str, queue_id: int, queue_offset: int, wanted: int | None
) -> Iterator[_Entry]:
    if store.root is not None and is_rocksdb(store.root / "consumequeue"):
        raise EnvironmentFailureError(
            f"{store.root / 'consumequeue'}: is a RocksDB database, which is not read; use --scan"
        )
    queue = store.queue(topic, queue_id)
    batches = store.queue(topic, queue_id, PathKind.BATCHCONSUMEQUEUE)
    if queue is not None:
        yield from _unit_entries(queue, islice(count(queue_offset), wanted))
    elif batches is not None:
        yield from islice(_batch_entries(batches, queue_offset), wanted)


def _unit_entries(queue: QueueFiles, queue_offsets: Iterable[int]) -> Iterator[_Entry]:
    for number in queue_offsets:
        segment = queue.files.segment_at(number * _UNIT_SIZE)
        if segment is None:
            return
        physical_offset, size, _ = read_unit(segment, number - segment.start // _UNIT_SIZE)
        if physical_offset < 0 or size <= 0:
            return
        if size != consumequeue.PREBLANK_SIZE:
            yield _Entry(number, physical_offset)


def _batch_entries(queue: QueueFiles, queue_offset: int) -> Iterator[_Entry]:
    """Yield the batches from the one that holds an offset on; their bases ascend."""
    for segment in queue.files:

        def ends_behind(number: int) -> bool:
            _, size, _, _, base, batch_size, *_ = read_batch_unit(segment, number)  # noqa: B023 - used at once
            return size <= 0 or base + batch_size > queue_offset

        room = segment.size_bytes // _BATCH_UNIT_SIZE
        for number in range(first_holding(room, ends_behind), room):
            physical_offset, size, _, _, base, *_ = read_batch_unit(segment, number)
            if size <= 0:
                return
            yield _Entry(base, physical_offset)
