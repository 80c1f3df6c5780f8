"""Messages by queue offset: the consume queue names the place, the record must agree."""

from __future__ import annotations

from itertools import count, islice
from typing import TYPE_CHECKING, NamedTuple

from rmqtool.commands.messages import has_unit
from rmqtool.commands.query.explain import Reason
from rmqtool.commands.queue_bounds import first_holding, queue_bounds, read_batch_unit, read_unit
from rmqtool.commands.record_at import record_at
from rmqtool.formats import consumequeue, struct_of
from rmqtool.javacompat import parse_long
from rmqtool.scan.window import Window
from rmqtool.store import PathKind
from rmqtool.store.features import is_rocksdb

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from rmqtool.commands.progress import Progress
    from rmqtool.commands.query.explain import Explanation
    from rmqtool.scan.records import Record
    from rmqtool.store import QueueFiles, Segment, Store

_UNIT_SIZE = struct_of(consumequeue.UNIT).size
_BATCH_UNIT_SIZE = struct_of(consumequeue.BATCH_UNIT).size
_TRY_SCAN = "the answer may be incomplete, --scan reads the log itself"


class Entry(NamedTuple):
    """A unit: the queue offset it stands for, and where its message lies."""

    queue_offset: int
    physical_offset: int


class QueuePlace(NamedTuple):
    """A place of a record in a queue."""

    topic: str
    queue_id: int
    queue_offset: int


def places_of(record: Record) -> Iterator[QueuePlace]:
    """Yield the places at which a record is dispatched: in its own queue, and in its light queues.

    Java: ``CommitLogDispatcherBuildConsumeQueue#dispatch``, ``LmqDispatch``/``MultiDispatch`` (4.9.8, 5.3.3);
    a light queue has the id 0.
    """
    if not has_unit(record):
        return
    yield QueuePlace(record.topic, record.head.queue_id, record.head.queue_offset)
    names = record.properties.get("INNER_MULTI_DISPATCH", "").split(",")
    offsets = record.properties.get("INNER_MULTI_QUEUE_OFFSET", "").split(",")
    if len(names) != len(offsets):
        return
    for name, text in zip(names, offsets, strict=True):
        offset = parse_long(text)
        if name and offset is not None:
            yield QueuePlace(name, 0 if name.startswith("%LMQ%") else record.head.queue_id, offset)


def queues_problem(store: Store) -> tuple[Reason, str] | None:
    """Say why no queue can answer; None if they can."""
    directory = None if store.root is None else store.root / "consumequeue"
    if directory is not None and is_rocksdb(directory):
        return Reason.QUEUE_MISSING, f"{directory} is a RocksDB database, which is not read"
    return None


class QueueReader:
    """One queue of a store, as a consumer reads it; damage is told and never believed.

    Args:
        store: The store.
        queue: A consume queue, or a batch consume queue.
        progress: Told what is wrong with units.
        explanation: Told every step.
    """

    def __init__(self, store: Store, queue: QueueFiles, progress: Progress, explanation: Explanation) -> None:
        self._log = store.commitlog
        self.queue = queue
        self._progress = progress
        self._explanation = explanation
        self.bounds = queue_bounds(queue, store.commitlog.start)
        self.name = f"{queue.topic}/{queue.queue_id}"

    def explain(self) -> None:
        """Tell the bounds of the queue."""
        low, high = self.bounds
        message = f"{self.name} holds the queue offsets from {low} to before {high}"
        self._explanation.add(Reason.QUEUE, message, minOffset=low, maxOffset=high)

    def records(self, queue_offset: int, wanted: int | None) -> Iterator[Record]:
        """Yield the messages from an offset on; what a unit leads to must be a message of the queue.

        Args:
            queue_offset: The first offset.
            wanted: How many units are looked at; None is all.
        """
        for entry in self.entries(queue_offset, wanted):
            record = self.record(entry)
            if record is not None:
                yield record
        self.queue.files.close()

    def entries(self, queue_offset: int, wanted: int | None = None) -> Iterator[Entry]:
        """Yield the units from a queue offset on."""
        if self.queue.kind is PathKind.BATCHCONSUMEQUEUE:
            yield from islice(self._batch_entries(queue_offset), wanted)
        else:
            yield from self._unit_entries(islice(count(queue_offset), wanted))

    def record(self, entry: Entry) -> Record | None:
        """Return the message of a unit; None, and say why, if there is none of this queue."""
        place = f"{self.name} offset {entry.queue_offset}"
        record = record_at(self._log, entry.physical_offset)
        if record is None:
            reason, why = self._absence(entry.physical_offset)
            self._progress.warn(f"{place} points to log offset {entry.physical_offset}, where {why}")
            self._explain(reason, f"{place}: {why}", entry)
            return None
        if not self._belongs(record):
            owner = f"{record.topic}/{record.head.queue_id}"
            self._progress.warn(f"{place} points to a message of {owner}; the queue is damaged, try --scan")
            self._explain(Reason.UNIT, f"{place} points to a message of {owner}", entry)
            return None
        if record.topic == self.queue.topic and record.head.queue_offset != entry.queue_offset:
            self._progress.warn(f"{place} holds the message of queue offset {record.head.queue_offset}")
        self._explain(Reason.FOUND, f"{place} leads to log offset {entry.physical_offset}", entry)
        return record

    def _explain(self, reason: Reason, message: str, entry: Entry) -> None:
        queue_offset, physical_offset = entry
        self._explanation.add(reason, message, queueOffset=queue_offset, physicalOffset=physical_offset)

    def _absence(self, physical_offset: int) -> tuple[Reason, str]:
        if physical_offset < self._log.start:
            return Reason.EXPIRED, f"nothing is left: the log begins at {self._log.start}"
        if self._log.segment_at(physical_offset) is None:
            return Reason.NO_RECORD, "the log does not reach"
        return Reason.NO_RECORD, "no record lies"

    def _belongs(self, record: Record) -> bool:
        """Whether a record is dispatched to the queue: to its own, or to one of its light queues."""
        if record.topic == self.queue.topic:
            return record.head.queue_id == self.queue.queue_id
        return self.queue.topic in record.properties.get("INNER_MULTI_DISPATCH", "").split(",")

    def _unit_entries(self, queue_offsets: Iterable[int]) -> Iterator[Entry]:
        for number in queue_offsets:
            segment = self.queue.files.segment_at(number * _UNIT_SIZE)
            if segment is None:
                self._note_missing_file(number)
                return
            physical_offset, size, _ = read_unit(segment, number - segment.start // _UNIT_SIZE)
            if physical_offset < 0 or size <= 0:
                self._note_end(segment, number)
                return
            if size == consumequeue.PREBLANK_SIZE:
                self._explain_preblank(number)
            else:
                yield Entry(number, physical_offset)

    def _explain_preblank(self, number: int) -> None:
        message = f"{self.name} offset {number} is a pre-blank unit: the queue began behind it"
        self._explanation.add(Reason.UNIT, message, queueOffset=number)

    def _note_missing_file(self, number: int) -> None:
        if number * _UNIT_SIZE < self.queue.files.stop:
            self._progress.warn(
                f"{self.name}: the file that would hold offset {number} is missing; {_TRY_SCAN}"
            )

    def _note_end(self, segment: Segment, number: int) -> None:
        """Tell an invalid unit that ends the queue from one in the middle of it."""
        position = number * _UNIT_SIZE - segment.start
        behind = Window(segment).skip_zeros(position)
        later = any(one.start > segment.start and any(one.read_at(0, _UNIT_SIZE)) for one in self.queue.files)
        message = f"{self.name} offset {number} is no valid unit"
        if later or behind < segment.size_bytes:
            self._progress.warn(f"{message}, though others follow: the queue may be damaged; {_TRY_SCAN}")
        self._explanation.add(Reason.UNIT, f"{message}: a broker ends the queue there", queueOffset=number)

    def _batch_entries(self, queue_offset: int) -> Iterator[Entry]:
        """Yield the batches from the one that holds an offset on; their bases ascend."""
        for segment in self.queue.files:

            def ends_behind(number: int) -> bool:
                _, size, _, _, base, batch_size, *_ = read_batch_unit(segment, number)  # noqa: B023 - used at once
                return size <= 0 or base + batch_size > queue_offset

            room = segment.size_bytes // _BATCH_UNIT_SIZE
            for number in range(first_holding(room, ends_behind), room):
                physical_offset, size, _, _, base, *_ = read_batch_unit(segment, number)
                if size <= 0:
                    return
                yield Entry(base, physical_offset)


def find_queue(store: Store, topic: str, queue_id: int) -> QueueFiles | None:
    """Return the consume queue or batch consume queue; None if there is neither."""
    return store.queue(topic, queue_id) or store.queue(topic, queue_id, PathKind.BATCHCONSUMEQUEUE)
