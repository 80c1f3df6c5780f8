"""Messages by queue offset: the consume queue names the place, the record must agree.

The files of a queue show doubts by themselves: sizes, names, and the units at their edges. Beyond the last
unit that a queue or an index knows, a short walk down the log finds newer messages.
"""

from __future__ import annotations

from contextlib import suppress
from itertools import count, islice
from typing import TYPE_CHECKING, NamedTuple

from rmqtool.derived.positions import consumed_offsets
from rmqtool.derived.queues import queue_ids_of, queues_of
from rmqtool.findings import Finding
from rmqtool.formats.consumequeue import (
    PREBLANK_SIZE,
)
from rmqtool.javacompat import parse_long
from rmqtool.lookup.context import QueryContext, Reason
from rmqtool.rows.messages import has_unit
from rmqtool.scan.classify import ends_chain
from rmqtool.scan.record_walk import walk
from rmqtool.scan.records import Record, record_at
from rmqtool.store.broker_json import ConfigFileError, ConfigSource, queue_counts
from rmqtool.store.kinds import UNIT_QUEUE_KINDS, PathKind
from rmqtool.times import time_text
from rmqtool.topics import LMQ_PREFIX

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from rmqtool.derived.queues import Queue
    from rmqtool.store import FileQueue, Store


_LOOKED_AT = 200
_NEAR = 20
"""Units around that of a lost message whose records may show when it was stored."""


class Look(NamedTuple):
    """Result of a short walk down the log: the first wanted record, or whether the walk was complete."""

    record: Record | None
    is_complete: bool


def peek_after(log: FileQueue, start: int, stop: int | None, wanted: Callable[[Record], bool]) -> Look:
    """Read the first records after physical offset ``start``, where one lies, and before another place."""
    if start >= log.start and record_at(log, start) is None:
        return Look(None, is_complete=False)
    events = walk(log.segments, max(start, log.start), stop)
    seen = 0
    for event in islice(events, _LOOKED_AT):
        seen += 1
        if isinstance(event, Finding) and ends_chain(event):
            return Look(None, is_complete=False)
        # an entry of DLedger begins before the place of its record
        if isinstance(event, Record) and start < event.physical_offset != stop and wanted(event):
            return Look(event, is_complete=True)
    return Look(None, is_complete=seen < _LOOKED_AT)


class QueueEntry(NamedTuple):
    """A unit: its queue offset, and the place of its message."""

    queue_offset: int
    physical_offset: int


class RecordPlace(NamedTuple):
    """A place of a record in a queue."""

    topic: str
    queue_id: int
    queue_offset: int


def places_of(record: Record) -> Iterator[RecordPlace]:
    """Yield the places at which a record is dispatched: in its own queue, and in its light queues.

    Java: ``CommitLogDispatcherBuildConsumeQueue#dispatch``, ``LmqDispatch``/``MultiDispatch`` (4.9.8, 5.3.3);
    a light queue has the id 0.
    """
    if not has_unit(record):
        return
    yield RecordPlace(record.topic, record.head.queue_id, record.head.queue_offset)
    yield from (RecordPlace(*place) for place in record.light_places)


def queues_problem(store: Store) -> tuple[Reason, str] | None:
    """Return why no queue can answer; None if they can."""
    names = ["consumequeue"] if next(store.queues(), None) is not None else ["consumequeue", "consumequeue_r"]
    for directory in () if store.root is None else [store.root / name for name in names]:
        if store.is_database(directory):
            return Reason.QUEUE_MISSING, f"{directory} is a RocksDB database, which is not read"
    return None


def no_queues(store: Store, topic: str, queue_id: int | None) -> tuple[Reason, str] | None:
    """Return that the store lacks the consume queues of a question, in files or in a database; else None.

    None also of a topic or queue that ``topics.json`` does not know: it may be mistyped.
    """
    ids, place = queue_ids_of(store, topic), store.base / "consumequeue"
    if queue_id in ids or (ids and queue_id is None) or queues_problem(store) is not None:
        return None
    if not any(next(store.queues(kind), None) for kind in UNIT_QUEUE_KINDS):
        return Reason.QUEUE_MISSING, f"there are no consume queues in {place}"
    counts: dict[str, int] = {}
    with suppress(ConfigFileError):  # then any may have been there
        counts = queue_counts(ConfigSource(store.root).document("topics.json"))
    if counts and (queue_id or 0) >= counts.get(topic, 0):
        return None
    name = topic if queue_id is None else f"{topic}/{queue_id}"
    return Reason.QUEUE_MISSING, f"there is no consume queue of {name} in {place}"


def doubt_missing_queues(context: QueryContext, topic: str) -> None:
    """Warn of a queue of a topic that has gone, as consumers' offsets or the log's first messages show."""
    log, ids = context.store.commitlog, queue_ids_of(context.store, topic)
    read = (one.queue_id for one in consumed_offsets(context.store) if one.topic == topic and one.offset > 0)
    gone = sorted({*read}.difference(ids))
    if not gone:
        look = peek_after(
            log,
            log.start - 1,
            None,
            lambda record: record.topic == topic and has_unit(record) and record.head.queue_id not in ids,
        )
        gone = [] if look.record is None else [look.record.head.queue_id]
    if gone:
        message = f"there is no consume queue {topic}/{gone[0]}, and once there was one"
        context.explain_doubt(Reason.QUEUE_MISSING, message, topic=topic, queueId=gone[0])


class QueueConsumer:
    """One queue of a store, as a consumer reads it; damage is reported and never trusted."""

    def __init__(self, context: QueryContext, queue: Queue) -> None:
        self._context = context
        self._log = context.store.commitlog
        self._explanation = context.explanation
        self._end_is_reported = False
        self.queue = queue
        self.bounds = queue.bounds(self._log.start)
        self.name = f"{queue.topic}/{queue.queue_id}"
        doubts = [*queue.doubts(context.store.settings, self._log.start)]
        self._is_damaged = bool(doubts)
        for sentence in doubts:
            context.explain_doubt(Reason.QUEUE_DAMAGED, sentence)

    @property
    def is_of_batches(self) -> bool:
        """Whether it is a batch consume queue."""
        return self.queue.kind is PathKind.BATCHCONSUMEQUEUE

    def explain(self, queue_offset: int) -> None:
        """Explain the bounds of the queue, as advice if the offset does not lie between them."""
        low, high = self.bounds
        add = self._explanation.add if low <= queue_offset < high else self._explanation.advise
        message = f"{self.name} holds the queue offsets from {low} to before {high}"
        add(Reason.QUEUE, message, minOffset=low, maxOffset=high)
        if queue_offset < low:
            self.check_begin()

    def records(self, queue_offset: int, wanted: int | None) -> Iterator[Record]:
        """Yield the messages of at most ``wanted`` units from an offset on; each must be that of its unit."""
        for number, entry in enumerate(self.entries(queue_offset, wanted)):
            # Offsets in a light queue have gaps where a message names it twice.
            record = self.record(entry, of_any_offset=(self.queue.topic or "").startswith(LMQ_PREFIX))
            is_due = number == 0 or entry.queue_offset <= queue_offset
            if self.is_of_batches and is_due and not is_in_batch(queue_offset, entry, record):
                self._explain_unfit(QueueEntry(queue_offset, entry.physical_offset), "is in no batch")
                if entry.queue_offset > queue_offset:
                    break
            elif record is not None:
                yield record
        self.queue.close()

    def entries(self, queue_offset: int, wanted: int | None = None) -> Iterator[QueueEntry]:
        """Yield the units from a queue offset on."""
        if self.is_of_batches:
            yield from islice(self._batch_entries(queue_offset), wanted)
        else:
            yield from self._unit_entries(islice(count(queue_offset), wanted))

    def place_of(self, record: Record) -> int | None:
        """Return the offset that a record has in this queue, as its own or as a light one; None if none."""
        places = (place for place in places_of(record) if place.topic == self.queue.topic)
        return next((place.queue_offset for place in places if place.queue_id == self.queue.queue_id), None)

    def record(self, entry: QueueEntry, *, of_any_offset: bool = False) -> Record | None:
        """Return the message of a unit; explain why if there is none.

        ``of_any_offset`` also takes a message with another offset of this queue, unless the unit of that
        offset leads to it: units of a broker that lost one lie beside their offsets.
        """
        record = record_at(self._log, entry.physical_offset)
        own_offset = None if record is None else self.place_of(record)
        if record is None:
            self._explain_absence(entry)
        elif own_offset is None:
            owner = f"{record.topic}/{record.head.queue_id}"
            self._explain_unfit(entry, f"points to a message of {owner}; the queue is damaged")
        elif own_offset != entry.queue_offset:
            self._explain_unfit(entry, f"holds the message of queue offset {own_offset}")
            if not of_any_offset or self._leads_to(own_offset, entry.physical_offset):
                return None
            return record
        else:
            message = f"{self.name} offset {own_offset} points to log offset {entry.physical_offset}"
            self._explain(Reason.FOUND, message, entry)
            return record
        return None

    def _leads_to(self, queue_offset: int, physical_offset: int) -> bool:
        entries = islice(self.entries(queue_offset, 1), 1)
        return QueueEntry(queue_offset, physical_offset) in entries

    def _explain(self, reason: Reason, message: str, entry: QueueEntry) -> None:
        queue_offset, physical_offset = entry
        self._explanation.add(reason, message, queueOffset=queue_offset, physicalOffset=physical_offset)

    def _explain_unfit(self, entry: QueueEntry, why: str) -> None:
        message = f"{self.name} offset {entry.queue_offset} {why}"
        self._context.rejected.places[entry.queue_offset] = entry.physical_offset
        self._context.doubt(message)
        self._explain(Reason.UNIT, message, entry)

    def _explain_absence(self, entry: QueueEntry) -> None:
        place, offset = f"{self.name} offset {entry.queue_offset}", entry.physical_offset
        missing = self._context.rejected.missing_part(offset)
        if missing is not None or offset >= self._log.start:
            start, unit = unit_at(self.queue, offset, self._log) or (-1, "")
            facts = unit if start == offset else f"a unit of {self.name} #{entry.queue_offset}"
            is_proof = not (self.is_of_batches or self._is_damaged or self._is_of_another(offset))
            self._context.rejected.places[entry.queue_offset] = offset if is_proof else None
            if is_proof or self.is_of_batches:
                self._context.rejected.prove(offset, facts)
        if missing is not None:
            self._context.rejected.add(Reason.LOG_MISSING, offset)
            self._explain(Reason.LOG_MISSING, f"{place}: {missing}", entry)
            return
        if offset < self._log.start:
            why = f"nothing is left: the log begins at {self._log.start}"
            self._context.progress.warn(f"{place} points to log offset {offset}, where {why}")
            self._explain(Reason.EXPIRED, f"{place}: {why}", entry)
            return
        why = "the log does not reach" if self._log.segment_at(offset) is None else "no record lies"
        self._context.rejected.add(Reason.NO_RECORD, offset)
        self._context.doubt(f"{place} points to log offset {offset}, where {why}")
        self._explain(Reason.NO_RECORD, f"{place}: {why}", entry)

    def _is_of_another(self, physical_offset: int) -> bool:
        """Return whether another ordinary queue lists a place, too: the account settles whose it is."""
        own = self.queue.topic, self.queue.queue_id
        for queue in queues_of(self._context.store):
            names = [own[0] or "", queue.topic or ""]
            if (queue.topic, queue.queue_id) != own and not any(
                name.startswith(LMQ_PREFIX) for name in names
            ):
                unit = unit_at(queue, physical_offset)
                queue.close()
                if unit is not None and unit[0] == physical_offset:
                    return True
        return False

    def _unit_entries(self, queue_offsets: Iterable[int]) -> Iterator[QueueEntry]:
        for number in queue_offsets:
            unit = self.queue.unit(number)
            if unit is None:
                self._note_missing_file(number)
                return
            if unit.physical_offset < 0 or unit.size <= 0:
                self._note_end(number, f"{self.name} offset {number} is not a valid unit")
                return
            if unit.size == PREBLANK_SIZE:
                message = f"{self.name} offset {number} is a pre-blank unit: the queue began after it"
                self._explanation.add(Reason.UNIT, message, queueOffset=number)
            else:
                yield QueueEntry(number, unit.physical_offset)

    def _note_missing_file(self, number: int) -> None:
        if self.queue.goes_on_after(number):
            message = f"{self.name}: no file would hold offset {number}"
            self._explanation.add(Reason.UNIT, message, queueOffset=number)
        else:
            self.check_end()

    def _note_end(self, number: int, message: str) -> None:
        if self.queue.goes_on_after(number):
            self._context.doubt(f"{message}, but valid units follow: the queue may be damaged")
        else:
            self.check_end()
        self._explanation.add(Reason.UNIT, f"{message}: a broker ends the queue there")

    def check_begin(self) -> None:
        """Warn if the log holds messages of the queue before the first one that has a unit."""
        first = next(self.entries(self.bounds.min_offset, 1), None)
        stop = None if first is None else first.physical_offset
        look = peek_after(self._log, self._log.start - 1, stop, self._is_of_queue)
        if look.record is not None:
            low, offset = self.bounds.min_offset, look.record.physical_offset
            message = f"{self.name} begins with offset {low}, an earlier message lies at log offset {offset}"
            facts = {"minOffset": low, "physicalOffset": offset}
            self._context.explain_doubt(Reason.QUEUE_BEGINS_LATER, message, None, **facts)

    def _is_of_queue(self, record: Record) -> bool:
        return self.place_of(record) is not None

    def check_end(self) -> None:
        """Warn if the log goes on with messages of the queue after the last one that has a unit."""
        if self._end_is_reported:
            return
        self._end_is_reported = True
        end = self.bounds.max_offset
        last = next(self.entries(end - 1, 1), None) if end > self.bounds.min_offset else None
        start = self._log.start - 1 if last is None else last.physical_offset
        look = peek_after(self._log, start, None, self._is_of_queue)
        if look.record is not None and not self._is_too_late(look.record):
            offset = look.record.physical_offset
            message = f"{self.name} ends before offset {end}, its next message lies at log offset {offset}"
            self._context.explain_doubt(Reason.QUEUE_BEHIND, message, maxOffset=end, physicalOffset=offset)

    def _is_too_late(self, record: Record) -> bool:
        """Whether a record, and so what follows it, was stored after the times of the question."""
        end_ms = self._context.request.end_ms
        return end_ms is not None and record.head.store_timestamp_ms > end_ms

    def _batch_entries(self, queue_offset: int) -> Iterator[QueueEntry]:
        """Yield the batches from the one that holds an offset on; each begins where one ends."""
        expected, is_first = max(queue_offset, self.bounds.min_offset), True
        for number, unit in self.queue.batches(queue_offset):
            base = unit.msg_base_offset
            if unit.size <= 0:
                self._note_end(number, f"{self._unit_name(number)} is not a valid batch")
                return
            if base > expected or (base < expected and not is_first):
                why = f"begins with offset {base}, the one before it ends before {expected}"
                self._context.doubt(f"{self._unit_name(number)} {why}")
            expected, is_first = base + unit.batch_size, False
            yield QueueEntry(base, unit.physical_offset)
        self.check_end()

    def _unit_name(self, number: int) -> str:
        place = self.queue.place(number)
        return f"unit {number}" if place is None else f"unit {place.row} of {place.label}"


def is_in_batch(queue_offset: int, entry: QueueEntry, record: Record | None) -> bool:
    """Whether a batch holds an offset, as far as its record shows."""
    size = 1 if record is None else parse_long(record.properties.get("INNER_NUM", "")) or 1
    return entry.queue_offset <= queue_offset and (record is None or queue_offset < entry.queue_offset + size)


def unit_at(queue: Queue, physical_offset: int, log: FileQueue | None = None) -> tuple[int, str] | None:
    """Return the start of the record around a physical offset, and facts, by a unit of a queue in order.

    With ``log``, they give its store time, by the records before and after it.
    """
    number = queue.number_leading_to(physical_offset)
    unit = None if number is None else queue.unit(number)
    if number is None or unit is None or unit.size == PREBLANK_SIZE:
        return None
    start = unit.physical_offset
    if not start <= physical_offset < start + unit.size:
        return None
    place = f"{queue.topic}/{queue.queue_id} #{number}"
    when = "" if log is None else _stored(queue, number, log)
    return start, f"{place}, {unit.size} bytes with tags code {unit.tags_code} by its unit{when}"


def _stored(queue: Queue, number: int, log: FileQueue) -> str:
    """Return when the message of a unit was stored, by the records that the units around it lead to."""
    words = []
    before, after = range(number - 1, max(number - _NEAR, -1), -1), range(number + 1, number + _NEAR)
    for word, numbers in (("after", before), ("before", after)):
        units = (unit for unit in map(queue.unit, numbers) if unit is not None)
        records = (record_at(log, unit.physical_offset) for unit in units if 0 < unit.size != PREBLANK_SIZE)
        nearest = next((record for record in records if record is not None), None)
        if nearest is not None:
            words.append(f"{word} {time_text(nearest.head.store_timestamp_ms)}")
    return f", stored {' and '.join(words)}" if words else ""
