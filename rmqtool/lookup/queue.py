"""Messages by queue offset: the consume queue names the place, the record must agree.

The files of a queue show doubts by themselves: sizes, names, and the units at their edges. Beyond the last
unit that a queue or an index knows, a short walk down the log finds newer messages.
"""

from __future__ import annotations

from bisect import bisect_left
from itertools import count, islice
from typing import TYPE_CHECKING, Any, NamedTuple

from rmqtool.derived.queue_files import QueueFile, queue_bounds
from rmqtool.findings import Finding
from rmqtool.formats.consumequeue import (
    BATCH_UNIT_SIZE,
    BATCH_UNITS,
    PREBLANK_SIZE,
    UNIT_SIZE,
    UNITS,
    UnitFields,
)
from rmqtool.javacompat import parse_long
from rmqtool.lookup.context import QueryContext, Reason
from rmqtool.rows.messages import has_unit
from rmqtool.scan.classify import ends_chain
from rmqtool.scan.record_walk import walk
from rmqtool.scan.records import Record, record_at
from rmqtool.store.kinds import KINDS, PathKind, is_rocksdb
from rmqtool.store.segments import Window
from rmqtool.times import time_text
from rmqtool.topics import LMQ_PREFIX

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from rmqtool.store import FileQueue, QueueFiles, Segment, Store
    from rmqtool.store.settings import Settings


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
        if isinstance(event, Record) and event.physical_offset > start and wanted(event):
            return Look(event, is_complete=True)
    return Look(None, is_complete=seen < _LOOKED_AT)


def file_doubts(queue: QueueFiles, settings: Settings, log_start: int) -> Iterator[str]:
    """Yield a sentence for every sign that messages of a queue may be missed.

    ``log_start`` is the physical offset at which the log begins.
    """
    is_of_batches = queue.kind is PathKind.BATCHCONSUMEQUEUE
    size = settings.batchconsumequeue_file_size if is_of_batches else settings.consumequeue_file_size
    files = queue.files
    for stray in files.strays:
        yield f"{stray.label} {stray.reason}"
    for segment in files:
        if segment.size_bytes != size:
            yield f"{segment.label} has {segment.size_bytes} bytes where the settings require {size}"
    for gap in files.gaps(size):
        yield f"between {gap.after.label} and {gap.before.label} files are missing"
    if len(files) and files.start > 0 and log_start == 0:
        yield f"the files before {files.segments[0].label} are missing, though the log goes back to 0"
    yield from _edge_doubts(files.segments, queue.kind)


def _edge_doubts(segments: tuple[Segment, ...], kind: PathKind) -> Iterator[str]:
    """Yield which files lack a unit at their start or end, or lead back in the log."""
    highest = -1
    for segment in segments:
        file: QueueFile[Any] = QueueFile(segment, KINDS[kind].units or UNITS)
        units = [file.unit(0), file.unit(max(0, file.room - 1))]
        whole = [one for one in units if one.size > 0]
        is_unused = not whole and Window(segment).skip_zeros(0) == segment.size_bytes
        if len(whole) < len(units) and not (segment == segments[-1] and (units[0].size > 0 or is_unused)):
            yield f"{segment.label} has no unit at its start, or none at its end"
        places = [-1 if one.size == PREBLANK_SIZE else int(one.physical_offset) for one in whole]
        if whole[:1] == units[:1] and 0 <= places[0] <= highest:
            yield f"{segment.label} points to an offset of the log before the end of the previous file"
        highest = max([highest, *places])


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
        if is_rocksdb(directory):
            return Reason.QUEUE_MISSING, f"{directory} is a RocksDB database, which is not read"
    return None


class QueueConsumer:
    """One queue of a store, as a consumer reads it; damage is reported and never trusted."""

    def __init__(self, context: QueryContext, queue: QueueFiles) -> None:
        self._context = context
        self._log = context.store.commitlog
        self._explanation = context.explanation
        self._end_is_reported = False
        self.queue = queue
        self.bounds = queue_bounds(queue, self._log.start)
        self.name = f"{queue.topic}/{queue.queue_id}"
        doubts = [*file_doubts(queue, context.store.settings, self._log.start)]
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
        self.queue.files.close()

    def entries(self, queue_offset: int, wanted: int | None = None) -> Iterator[QueueEntry]:
        """Yield the units from a queue offset on."""
        if self.is_of_batches:
            yield from islice(self._batch_entries(queue_offset), wanted)
        else:
            yield from self._unit_entries(islice(count(queue_offset), wanted))

    def place_of(self, record: Record) -> int | None:
        """Return the offset that a record has in this queue, as its own or as a light one; None if none."""
        places = (place for place in places_of(record) if place.topic == self.queue.topic)
        return next((one.queue_offset for one in places if one.queue_id == self.queue.queue_id), None)

    def record(self, entry: QueueEntry, *, of_any_offset: bool = False) -> Record | None:
        """Return the message of a unit; explain why if there is none.

        ``of_any_offset`` also takes a message with another offset of this queue, unless the unit of that
        offset leads to it: units of a broker that lost one lie beside their offsets.
        """
        record = record_at(self._log, entry.physical_offset)
        found = None if record is None else self.place_of(record)
        if record is None:
            self._explain_absence(entry)
        elif found is None:
            owner = f"{record.topic}/{record.head.queue_id}"
            self._explain_unfit(entry, f"points to a message of {owner}; the queue is damaged")
        elif found != entry.queue_offset:
            self._explain_unfit(entry, f"holds the message of queue offset {found}")
            if not of_any_offset or self._leads_to(found, entry.physical_offset):
                return None
            return record
        else:
            message = f"{self.name} offset {found} points to log offset {entry.physical_offset}"
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
        for one in self._context.store.queues(PathKind.CONSUMEQUEUE):
            names = [own[0] or "", one.topic or ""]
            if (one.topic, one.queue_id) != own and not any(name.startswith(LMQ_PREFIX) for name in names):
                found = unit_at(one, physical_offset)
                one.files.close()
                if found is not None and found[0] == physical_offset:
                    return True
        return False

    def _unit_entries(self, queue_offsets: Iterable[int]) -> Iterator[QueueEntry]:
        for number in queue_offsets:
            segment = self.queue.files.segment_at(number * UNIT_SIZE)
            if segment is None:
                self._note_missing_file(number)
                return
            position = number * UNIT_SIZE - segment.start
            unit = QueueFile(segment, UNITS).unit(position // UNIT_SIZE)
            if unit.physical_offset < 0 or unit.size <= 0:
                self._note_end(segment, position, f"{self.name} offset {number} is not a valid unit")
                return
            if unit.size == PREBLANK_SIZE:
                message = f"{self.name} offset {number} is a pre-blank unit: the queue began after it"
                self._explanation.add(Reason.UNIT, message, queueOffset=number)
            else:
                yield QueueEntry(number, unit.physical_offset)

    def _note_missing_file(self, number: int) -> None:
        if number * UNIT_SIZE < self.queue.files.stop:
            message = f"{self.name}: no file would hold offset {number}"
            self._explanation.add(Reason.UNIT, message, queueOffset=number)
        else:
            self.check_end()

    def _note_end(self, segment: Segment, position: int, message: str) -> None:
        after = Window(segment).skip_zeros(position)
        later = any(one.start > segment.start and any(one.read_at(0, UNIT_SIZE)) for one in self.queue.files)
        if later or after < segment.size_bytes:
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
        for segment in self.queue.files:
            file = QueueFile(segment, BATCH_UNITS)

            def ends_after(number: int) -> bool:
                unit = file.unit(number)  # noqa: B023 - used at once
                return unit.size <= 0 or unit.msg_base_offset + unit.batch_size > queue_offset

            for number in range(bisect_left(range(file.room), True, key=ends_after), file.room):
                unit = file.unit(number)
                base = unit.msg_base_offset
                if unit.size <= 0:
                    message = f"unit {number} of {segment.label} is not a valid batch"
                    self._note_end(segment, number * BATCH_UNIT_SIZE, message)
                    return
                if base > expected or (base < expected and not is_first):
                    why = f"begins with offset {base}, the one before it ends before {expected}"
                    self._context.doubt(f"unit {number} of {segment.label} {why}")
                expected, is_first = base + unit.batch_size, False
                yield QueueEntry(base, unit.physical_offset)
        self.check_end()


def is_in_batch(queue_offset: int, entry: QueueEntry, record: Record | None) -> bool:
    """Whether a batch holds an offset, as far as its record shows."""
    size = 1 if record is None else parse_long(record.properties.get("INNER_NUM", "")) or 1
    return entry.queue_offset <= queue_offset and (record is None or queue_offset < entry.queue_offset + size)


def unit_at(queue: QueueFiles, physical_offset: int, log: FileQueue | None = None) -> tuple[int, str] | None:
    """Return the start of the record around a physical offset, and facts, by a unit of a queue in order.

    With ``log``, they give its store time, by the records before and after it.
    """
    if queue.kind is not PathKind.CONSUMEQUEUE:
        return None
    files = [QueueFile(segment, UNITS) for segment in queue.files]

    def leads_past(file: QueueFile[UnitFields], number: int) -> bool:
        unit = file.unit(number)
        return unit.size <= 0 or (unit.size != PREBLANK_SIZE and unit.physical_offset > physical_offset)

    past = bisect_left(range(len(files)), True, key=lambda number: leads_past(files[number], 0))
    if not past:
        return None
    file = files[past - 1]
    row = bisect_left(range(file.room), True, key=lambda number: leads_past(file, number)) - 1
    unit = file.unit(row)
    start, stop = unit.physical_offset, unit.physical_offset + unit.size
    if unit.size == PREBLANK_SIZE or not start <= physical_offset < stop:
        return None
    place = f"{queue.topic}/{queue.queue_id} #{file.first_number + row}"
    when = "" if log is None else _stored(file, row, log)
    return start, f"{place}, {unit.size} bytes with tags code {unit.tags_code} by its unit{when}"


def _stored(file: QueueFile[UnitFields], row: int, log: FileQueue) -> str:
    """Return when the message of a unit was stored, by the records that the units around it lead to."""
    words = []
    before, after = range(row - 1, max(row - _NEAR, -1), -1), range(row + 1, min(row + _NEAR, file.room))
    for word, rows in (("after", before), ("before", after)):
        units = (file.unit(one) for one in rows)
        records = (record_at(log, one.physical_offset) for one in units if 0 < one.size != PREBLANK_SIZE)
        nearest = next((one for one in records if one is not None), None)
        if nearest is not None:
            words.append(f"{word} {time_text(nearest.head.store_timestamp_ms)}")
    return f", stored {' and '.join(words)}" if words else ""


def find_queue(store: Store, topic: str, queue_id: int) -> QueueFiles | None:
    """Return the consume queue or batch consume queue; None if there is neither."""
    return store.queue(topic, queue_id) or store.queue(topic, queue_id, PathKind.BATCHCONSUMEQUEUE)
