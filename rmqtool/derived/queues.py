"""Queues of a store: bounds, and units by their numbers, in whatever form a store keeps them.

Commands read a `Queue`. The files themselves, for their sizes, names, and bytes that are no units, are the
store's `QueueFiles`.
"""

from __future__ import annotations

from bisect import bisect_left
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from rmqtool.derived.queue_files import QueueFile, QueueReader, Units
from rmqtool.errors import EnvironmentFailureError
from rmqtool.formats.consumequeue import (
    BATCH_UNITS,
    PREBLANK,
    PREBLANK_SIZE,
    UNITS,
    BatchUnitFields,
    UnitFields,
)
from rmqtool.formats.message import SMALLEST_RECORD
from rmqtool.store.kinds import UNIT_QUEUE_KINDS, PathKind
from rmqtool.store.segments import Window

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from rmqtool.arrays import Array, Bools, Int64s
    from rmqtool.formats import Decoder
    from rmqtool.store import QueueFiles, Store
    from rmqtool.store.files import StoreFiles
    from rmqtool.store.segments import FileQueue
    from rmqtool.store.settings import Settings


class Bounds(NamedTuple):
    """Offsets of a queue: units from ``min_offset`` to before ``max_offset`` point into the log."""

    min_offset: int
    max_offset: int


class LiveUnits(NamedTuple):
    """Units of a queue, ``(n,)`` each.

    ``keys`` are numbers of the units, of a batch queue their base offsets; ``sizes`` are those of the records
    in bytes; ``messages`` are more than one in a batch queue.
    """

    keys: Array
    physical_offsets: Array
    sizes: Array
    tags_codes: Array
    messages: Array

    def only(self, which: Bools) -> LiveUnits:
        """Return some of them."""
        return LiveUnits(*(column[which] for column in self))

    @property
    def sane(self) -> LiveUnits:
        """Return units of a message whose size can be that of a record."""
        in_size = (self.sizes >= SMALLEST_RECORD) & (self.sizes < PREBLANK_SIZE)
        return self.only(in_size & (self.messages > 0))


class UnitPlace(NamedTuple):
    """Place of a unit: label of its file, and its number in that."""

    label: str
    row: int


class FileEnd(NamedTuple):
    """A file of a queue, and the physical offset in its last unit."""

    label: str
    size_bytes: int
    physical_offset: int


class Queue(Protocol):
    """One queue of ``kind``; a unit is a message, or a batch in a batch queue, and they are numbered from 0.

    Topic and queue id are None outside of a store. `EnvironmentFailureError` if it may not be read.
    """

    kind: PathKind
    topic: str | None
    queue_id: int | None

    @property
    def file_count(self) -> int:
        """Number of its files."""

    @property
    def first_number(self) -> int:
        """Number of the first unit that it has room for; 0 where it is empty."""

    def bounds(self, log_start: int) -> Bounds:
        """Return the bounds of a queue in order; ``log_start`` is a physical offset."""

    def units(self, start: int = 0, stop: int | None = None) -> Iterator[LiveUnits]:
        """Yield the units of numbers from ``start`` to before ``stop`` that lead to messages, in chunks."""

    def units_leading_to(self, start: int, stop: int) -> Iterator[LiveUnits]:
        """Yield the chunks with the units, in order, that lead to physical offsets in a range."""

    def newest_units(self) -> Iterator[LiveUnits]:
        """Yield all units in chunks, the newest chunk first."""

    def unit(self, number: int) -> UnitFields | BatchUnitFields | None:
        """Return a unit; zeros where none was written yet, None where there is no room for one."""

    def place(self, number: int) -> UnitPlace | None:
        """Return where a unit lies; None where there is no room for one."""

    def file_ends(self) -> Iterator[FileEnd]:
        """Yield its files, with the last unit that each has room for."""

    def holds(self, number: int, units: Array) -> bool:
        """Return whether its units from a number on are these, ``(n,)`` in their layout on disk."""

    def last_unit(self) -> UnitFields | BatchUnitFields | None:
        """Return the last unit of a queue in order that is not pre-blank; None without one."""

    def number_leading_to(self, physical_offset: int) -> int | None:
        """Return the last unit of a consume queue, in order, that leads to a physical offset or before it."""

    def batches(self, queue_offset: int) -> Iterator[tuple[int, BatchUnitFields]]:
        """Yield number and unit of a batch queue's batches from the one on that holds an offset."""

    def goes_on_after(self, number: int) -> bool:
        """Return whether something was written after a unit, or where there is no room for it."""

    def messages_from(self, physical_offset: int, max_offset: int | None = None) -> int:
        """Return how many messages at the end of a queue, in order, lie at a physical offset or after it.

        ``max_offset`` is its end by its bounds, if known. Most often the offset is after all of them: then
        only the last unit is read.
        """

    def ends_by(self, max_offset: int) -> bool:
        """Return whether a consume queue, with units in order, shows by one look that it ends by then."""

    def doubts(self, settings: Settings, log_start: int) -> Iterator[str]:
        """Yield a sentence for every sign that messages may be missed; ``log_start`` is a physical offset."""

    def close(self) -> None:
        """Release what was opened; the queue can be used again."""


class _FileQueue:
    def __init__(self, listed: QueueFiles) -> None:
        self.kind, self.topic, self.queue_id = listed.kind, listed.topic, listed.queue_id
        self._listed = listed
        self._decoder: Decoder[Any] = BATCH_UNITS if self._is_of_batches else UNITS

    @property
    def _is_of_batches(self) -> bool:
        return self.kind is PathKind.BATCHCONSUMEQUEUE

    @property
    def _files(self) -> FileQueue:
        return self._listed.files

    @cached_property
    def _unit_files(self) -> list[QueueFile[Any]]:
        return [QueueFile(segment, self._decoder) for segment in self._files]

    @property
    def file_count(self) -> int:
        return len(self._files)

    @property
    def first_number(self) -> int:
        return self._files.start // self._decoder.size

    def bounds(self, log_start: int) -> Bounds:
        """Return the bounds of a queue whose units are in order, as in an undamaged store.

        Java: ``ConsumeQueue#recover``, ``ConsumeQueue#correctMinOffset`` (4.9.8, 5.3.3), but for two things
        that these miss: pre-blank units never count, and expired units are skipped in all files.
        """
        if not self.file_count:
            return Bounds(0, 0)
        if self._is_of_batches:
            return self._batch_bounds(log_start)
        last = _last_begun(self._unit_files)
        valid = _count_valid(last)
        max_offset = last.first_number + valid
        for file in self._unit_files:

            def is_alive(number: int) -> bool:
                unit = file.unit(number)  # noqa: B023 - used at once
                return bool(unit != PREBLANK and unit.physical_offset >= log_start)

            count = valid if file is last else _count_valid(file)
            alive = bisect_left(range(count), True, key=is_alive)
            if alive < count:
                return Bounds(file.first_number + alive, max_offset)
        return Bounds(max_offset, max_offset)

    def _batch_bounds(self, log_start: int) -> Bounds:
        """Return base of the first live unit, and last base with its batch."""
        last = _last_begun(self._unit_files)
        count = _count_used(last)
        if count == 0:
            return Bounds(0, 0)
        newest = last.unit(count - 1)
        max_offset = newest.msg_base_offset + newest.batch_size
        for file in self._unit_files:
            count = _count_used(file)
            alive = bisect_left(
                range(count), True, key=lambda number: file.unit(number).physical_offset >= log_start
            )
            if alive < count:
                return Bounds(file.unit(alive).msg_base_offset, max_offset)
        return Bounds(max_offset, max_offset)

    def units(self, start: int = 0, stop: int | None = None) -> Iterator[LiveUnits]:
        width = self._decoder.size
        end = None if stop is None else stop * width
        reader = QueueReader(self._files, self._decoder, start * width, end)
        yield from (self._live(units) for units in reader if len(units))

    def units_leading_to(self, start: int, stop: int) -> Iterator[LiveUnits]:
        files = self._unit_files

        def leads_to(file: QueueFile[Any], log_offset: int) -> bool:
            unit = file.unit(0)
            return bool(unit.size <= 0 or unit.physical_offset >= log_offset)

        first = bisect_left(files, True, key=lambda file: leads_to(file, start))
        last = bisect_left(files, True, key=lambda file: leads_to(file, stop))
        for file in files[max(first - 1, 0) : last]:
            yield from map(self._live, file.columns(file.segment.size_bytes, []))

    def newest_units(self) -> Iterator[LiveUnits]:
        for file in reversed(self._unit_files):
            for units in reversed([*file.columns(file.segment.size_bytes, [])]):
                if len(units):
                    yield self._live(units)

    def _live(self, units: Units) -> LiveUnits:
        import numpy as np

        offsets, sizes = units.column("physicalOffset"), units.column("size")
        numbers: Int64s = units.first_number + np.arange(len(units))
        messages: Int64s = np.ones(len(units), np.int64)
        if self._is_of_batches:
            numbers, messages = units.column("msgBaseOffset"), units.column("batchSize")
        is_preblank = (offsets == 0) & (sizes == PREBLANK_SIZE)
        valid = (sizes > 0) & (offsets >= 0) & ~is_preblank
        return LiveUnits(numbers, offsets, sizes, units.column("tagsCode"), messages).only(valid)

    def unit(self, number: int) -> UnitFields | BatchUnitFields | None:
        file = self._file_at(number)
        if file is None:
            return None
        unit: UnitFields | BatchUnitFields = file.unit(self._row(file, number))
        return unit

    def place(self, number: int) -> UnitPlace | None:
        file = self._file_at(number)
        return None if file is None else UnitPlace(file.segment.label, self._row(file, number))

    def holds(self, number: int, units: Array) -> bool:
        width = self._decoder.size
        while len(units) and (segment := self._files.segment_at(number * width)) is not None:
            position = number * width - segment.start
            part = units[: (segment.size_bytes - position) // width]
            if not len(part) or segment.read_at(position, part.nbytes, []) != part.tobytes():
                return False
            units, number = units[len(part) :], number + len(part)
        return not len(units)

    def file_ends(self) -> Iterator[FileEnd]:
        for file in self._unit_files:
            unit = file.unit(max(file.room - 1, 0))
            yield FileEnd(file.segment.label, file.segment.size_bytes, unit.physical_offset)

    def _file_at(self, number: int) -> QueueFile[Any] | None:
        segment = self._files.segment_at(number * self._decoder.size)
        return None if segment is None else QueueFile(segment, self._decoder)

    def _row(self, file: QueueFile[Any], number: int) -> int:
        return (number * self._decoder.size - file.segment.start) // self._decoder.size

    def last_unit(self) -> UnitFields | BatchUnitFields | None:
        for file in reversed(self._unit_files):
            count = _count_used(file)
            last: UnitFields | BatchUnitFields | None = file.unit(count - 1) if count else None
            if last is not None and last.size != PREBLANK_SIZE:
                return last
        return None

    def number_leading_to(self, physical_offset: int) -> int | None:
        if self._is_of_batches:
            return None

        def leads_past(unit: UnitFields) -> bool:
            return unit.size <= 0 or (unit.size != PREBLANK_SIZE and unit.physical_offset > physical_offset)

        past = bisect_left(self._unit_files, True, key=lambda file: leads_past(file.unit(0)))
        if not past:
            return None
        file = self._unit_files[past - 1]
        row = bisect_left(range(file.room), True, key=lambda number: leads_past(file.unit(number)))
        return file.first_number + row - 1

    def batches(self, queue_offset: int) -> Iterator[tuple[int, BatchUnitFields]]:
        for file in self._unit_files:

            def ends_after(row: int) -> bool:
                unit = file.unit(row)  # noqa: B023 - used at once
                return bool(unit.size <= 0 or unit.msg_base_offset + unit.batch_size > queue_offset)

            for row in range(bisect_left(range(file.room), True, key=ends_after), file.room):
                yield file.first_number + row, file.unit(row)

    def goes_on_after(self, number: int) -> bool:
        file = self._file_at(number)
        if file is None:
            return number * self._decoder.size < self._files.stop
        if any(
            unit_file.segment.start > file.segment.start and unit_file.is_begun
            for unit_file in self._unit_files
        ):
            return True
        after = Window(file.segment).skip_zeros(number * self._decoder.size - file.segment.start)
        return after < file.segment.size_bytes

    def messages_from(self, physical_offset: int, max_offset: int | None = None) -> int:
        if not self.file_count:
            return 0
        if not self._is_of_batches:
            if max_offset is None:
                last_file = _last_begun(self._unit_files)
                max_offset = last_file.first_number + _count_valid(last_file)
            last = self.unit(max_offset - 1)
            if last is None or last.physical_offset < physical_offset:
                return 0
        bounds = self.bounds(physical_offset)
        return bounds.max_offset - bounds.min_offset

    def ends_by(self, max_offset: int) -> bool:
        if self._is_of_batches or not self.file_count:
            return False
        file, position = self._unit_files[-1], max_offset * UNITS.size
        if not file.segment.start <= position < file.segment.stop:
            return bool(position == file.segment.stop)
        return _is_invalid(file.unit(max_offset - file.first_number))

    def doubts(self, settings: Settings, log_start: int) -> Iterator[str]:
        size = settings.consumequeue_file_size
        size = settings.batchconsumequeue_file_size if self._is_of_batches else size
        files = self._files
        for stray in files.strays:
            yield f"{stray.label} {stray.reason}"
        for segment in files:
            if segment.size_bytes != size:
                yield f"{segment.label} has {segment.size_bytes} bytes where the settings require {size}"
        for gap in files.gaps(size):
            yield f"between {gap.after.label} and {gap.before.label} files are missing"
        if len(files) and files.start > 0 and log_start == 0:
            yield f"the files before {files.segments[0].label} are missing, though the log goes back to 0"
        yield from self._edge_doubts()

    def _edge_doubts(self) -> Iterator[str]:
        """Yield which files lack a unit at their start or end, or lead back in the log."""
        highest = -1
        for file in self._unit_files:
            segment = file.segment
            units = [file.unit(0), file.unit(max(0, file.room - 1))]
            whole = [unit for unit in units if unit.size > 0]
            is_unused = not whole and Window(segment).skip_zeros(0) == segment.size_bytes
            is_last = file is self._unit_files[-1]
            if len(whole) < len(units) and not (is_last and (units[0].size > 0 or is_unused)):
                yield f"{segment.label} has no unit at its start, or none at its end"
            places = [-1 if one.size == PREBLANK_SIZE else int(one.physical_offset) for one in whole]
            if whole[:1] == units[:1] and 0 <= places[0] <= highest:
                yield f"{segment.label} points to an offset of the log before the end of the previous file"
            highest = max([highest, *places])

    def close(self) -> None:
        self._files.close()


def _last_begun(files: Sequence[QueueFile[Any]]) -> QueueFile[Any]:
    """Return the last file with a unit, or else the first one."""
    return next((file for file in reversed(files) if file.is_begun), files[0])


def _count_valid(file: QueueFile[Any]) -> int:
    """Return the units before the first invalid one, as if all after it were invalid."""
    return bisect_left(range(file.room), True, key=lambda number: _is_invalid(file.unit(number)))


def _is_invalid(unit: UnitFields | BatchUnitFields) -> bool:
    return unit.physical_offset < 0 or unit.size <= 0


def _count_used(file: QueueFile[Any]) -> int:
    return bisect_left(range(file.room), True, key=lambda number: file.unit(number).size <= 0)


def queue_in(files: QueueFiles) -> Queue:
    """Return the queue that lies in some files."""
    return _FileQueue(files)


def open_queue(
    store: StoreFiles, topic: str, queue_id: int, kind: PathKind = PathKind.CONSUMEQUEUE
) -> Queue | None:
    """Return one queue without listing the others; None if it does not exist."""
    listed = store.queue(topic, queue_id, kind)
    return None if listed is None else _FileQueue(listed)


def find_queue(store: StoreFiles, topic: str, queue_id: int) -> Queue | None:
    """Return the consume queue or batch consume queue; None if there is neither."""
    queues = (open_queue(store, topic, queue_id, kind) for kind in UNIT_QUEUE_KINDS)
    return next((queue for queue in queues if queue is not None), None)


def queues_of(
    store: StoreFiles, kind: PathKind = PathKind.CONSUMEQUEUE, topic: str | None = None
) -> Iterator[Queue]:
    """Yield the queues of a kind by topic name and queue id, of one topic or of all."""
    yield from map(_FileQueue, store.queues(kind, topic))


def bounds_of(store: Store, topic: str, queue_id: int) -> Bounds | None:
    """Return the bounds of a queue of any kind, against the log; None where there is none."""
    for kind in UNIT_QUEUE_KINDS:
        queue = open_queue(store, topic, queue_id, kind)
        if queue is not None and queue.file_count:
            try:
                return queue.bounds(store.commitlog.start)
            finally:
                queue.close()
    return None


def queue_ids_of(store: StoreFiles, topic: str) -> list[int]:
    """Return the ids of a topic's queues of any kind, ascending."""
    queues = (queue for kind in UNIT_QUEUE_KINDS for queue in store.queues(kind, topic))
    return sorted({queue.queue_id for queue in queues if queue.queue_id is not None})


def unit_of(store: StoreFiles, topic: str, queue_id: int, number: int) -> UnitFields | BatchUnitFields | None:
    """Return a unit of a consume queue; None where there is no room for it."""
    queue = open_queue(store, topic, queue_id)
    unit = None if queue is None else queue.unit(number)
    if queue is not None:
        queue.close()
    return unit


def all_units(queue: Queue) -> LiveUnits:
    """Return all units of a queue that lead to messages."""
    import numpy as np

    parts = [*queue.units()] or [LiveUnits(*(np.empty(0, np.int64) for _ in LiveUnits._fields))]
    return parts[0] if len(parts) == 1 else LiveUnits(*map(np.concatenate, zip(*parts, strict=True)))


def queue_units(store: StoreFiles, unread: list[str]) -> Iterator[tuple[Queue, LiveUnits]]:
    """Yield the queues of a store that can be read, each with its units."""
    for kind in UNIT_QUEUE_KINDS:
        if store.read_root(kind) is None:
            continue
        try:
            queues = list(queues_of(store, kind))
        except EnvironmentFailureError as failure:
            unread.append(str(failure))
            continue
        for queue in queues:
            try:
                units = all_units(queue)
            except EnvironmentFailureError as failure:
                unread.append(str(failure))
                continue
            yield queue, units
