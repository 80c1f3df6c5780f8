"""Write the consume queues' files: units out of the blocks, one queue after the other."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from rmqtool.formats import consumequeue as formats
from rmqtool.kernels.rows import NO_EXT_UNIT
from rmqtool.kernels.units import QueueState, append_units, appended_batches, new_state
from rmqtool.reput.blocks import UNIT_DTYPE
from rmqtool.reput.queues import EmittedFiles, QueueBundle, QueuePlan
from rmqtool.reput.units import QueueUnits, by_queue

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from rmqtool.arrays import Array, Int64s
    from rmqtool.store.staging import StagedFile, StagingHandle


class FileQueueWriter:
    """Appends bytes to a file queue, creating each file at its full size when its first byte comes.

    ``directory`` is relative to the staging area; the first file begins at address ``first_start``.
    """

    def __init__(self, staging: StagingHandle, directory: str, file_size: int, first_start: int = 0) -> None:
        self._staging = staging
        self._directory = directory
        self._file_size = file_size
        self._start = first_start  # of the next file to create
        self._file: StagedFile | None = None
        self._position = file_size  # in the current file: full, so that the first byte opens one
        self.files = 0

    def append(self, data: memoryview) -> None:
        """Append bytes, over file ends if need be."""
        while data:
            if self._position == self._file_size:
                self._create()
            piece = data[: self._file_size - self._position]
            self._current.write_at(self._position, piece)
            self._position += len(piece)
            data = data[len(piece) :]

    @property
    def room(self) -> int:
        """Return the bytes left in the current file; 0 when the next byte opens one."""
        return self._file_size - self._position

    @property
    def address(self) -> int:
        """Return the address of the next byte that is appended."""
        return self._start - self.room

    def end_file(self) -> None:
        """Leave the rest of the current file as it is: the next byte opens the next one."""
        self._position = self._file_size

    def create_up_to(self, stop: int) -> None:
        """Create the empty files that end at ``stop`` or before it."""
        while self._start < stop:
            self._create()

    def close(self) -> None:
        """Close the current file."""
        if self._file is not None:
            self._file.finish()
            self._file = None

    @property
    def _current(self) -> StagedFile:
        if self._file is None:
            raise ValueError("no file is open")
        return self._file

    def _create(self) -> None:
        self.close()
        sign = "-" if self._start < 0 else ""  # a damaged queue offset can begin a queue there
        name = f"{sign}{abs(self._start):020d}"
        self._file = self._staging.create_file(f"{self._directory}/{name}", self._file_size)
        self._start += self._file_size
        self._position = 0
        self.files += 1


_PREBLANK = np.array([(0, formats.PREBLANK_SIZE, 0)], UNIT_DTYPE)
_PREBLANK_UNITS = 1 << 18


def emit_queues(bundle: QueueBundle) -> EmittedFiles:
    """Write all files of a bundle's queues."""
    totals = EmittedFiles()
    for plan, pieces in by_queue(bundle.plans, bundle.blocks):
        emit = _emit_batch_queue if plan.batch else _emit_queue
        emit(bundle, plan, pieces, totals)
    return totals


def _emit_queue(
    bundle: QueueBundle, plan: QueuePlan, pieces: Iterable[QueueUnits], totals: EmittedFiles
) -> None:
    state = new_state()
    place = f"{plan.topic}/{plan.queue_id}"
    writer: FileQueueWriter | None = None
    ext = _ExtWriter(bundle, place) if bundle.ext else None
    kept_units = 0
    for units in _appended(bundle, plan, pieces, state, ext):
        if writer is None:
            writer = _begin_queue(bundle, place, state)
        writer.append(units.data.cast("B"))
        kept_units += len(units)
    if writer is None and state[QueueState.STARTED]:
        writer = _begin_queue(bundle, place, state)  # a file was created, and then no unit was appended
    if writer is not None:
        writer.create_up_to(int(state[QueueState.STOP]))
        writer.close()
        totals.files["consumequeue"] += writer.files
    if ext is not None:
        totals.files["consumequeue_ext"] += ext.close()
    totals.units += kept_units
    _note_left_out(totals, plan, kept_units)
    if state[QueueState.ABSURD]:
        totals.absurd_units[plan.topic, plan.queue_id] = int(state[QueueState.ABSURD])


def _begin_queue(bundle: QueueBundle, place: str, state: Int64s) -> FileQueueWriter:
    first_start = int(state[QueueState.FIRST_START])
    writer = FileQueueWriter(
        bundle.staging, f"consumequeue/{place}", bundle.geometry.consumequeue, first_start
    )
    size_bytes = int(state[QueueState.PREBLANK])
    for done in range(0, size_bytes, _PREBLANK_UNITS * formats.UNIT_SIZE):
        count = min(_PREBLANK_UNITS, (size_bytes - done) // formats.UNIT_SIZE)
        writer.append(np.repeat(_PREBLANK, count).data.cast("B"))
    return writer


def _note_left_out(totals: EmittedFiles, plan: QueuePlan, kept: int) -> None:
    if plan.units > kept:
        totals.skipped_units[plan.topic, plan.queue_id] = plan.units - kept


def _appended(
    bundle: QueueBundle,
    plan: QueuePlan,
    pieces: Iterable[QueueUnits],
    state: Int64s,
    ext: _ExtWriter | None,
) -> Iterator[Array]:
    """Yield the units that the append rule keeps, never empty, in pieces; ``state`` is the queue's."""
    file_size = bundle.geometry.consumequeue
    for piece in pieces:
        units = piece.column("units")
        if ext is not None:
            ext.address(units, piece.column("store_timestamps"))
        if plan.joined:
            _append_joined(state, int(piece.runs["first_queue_offset"][0]), len(piece), file_size)
            yield units
            continue
        keep = np.zeros(len(piece), np.bool_)
        physical_offsets = units["physicalOffset"].astype(np.int64)
        sizes = units["size"].astype(np.int64)
        if append_units(piece.column("queue_offsets"), physical_offsets, sizes, file_size, state, keep):
            yield units[keep]


def _append_joined(state: Int64s, queue_offset: int, count: int, file_size: int) -> None:
    """Do what ``append_units`` does, for units of which each is appended after the one before."""
    if not state[QueueState.STARTED]:
        expected = queue_offset * formats.UNIT_SIZE
        state[QueueState.STARTED] = 1
        state[QueueState.PREBLANK] = expected % file_size
        state[QueueState.FIRST_START] = expected - expected % file_size
        state[QueueState.CURRENT] = expected
    state[QueueState.CURRENT] += count * formats.UNIT_SIZE
    state[QueueState.STOP] = -(-state[QueueState.CURRENT] // file_size) * file_size


class _ExtWriter:
    """Writes a queue's ext units and gives its units their addresses (``ConsumeQueueExt#put``).

    A message's ext unit is written before the append rule reads its unit, so a skipped unit leaves an ext
    unit that nothing points to. Without SQL filters, whose bit maps are not in the log, a unit has 20 bytes.
    """

    def __init__(self, bundle: QueueBundle, place: str) -> None:
        self._file_size = bundle.geometry.consumequeue_ext
        self._writer = FileQueueWriter(bundle.staging, f"consumequeue_ext/{place}", self._file_size)

    def address(self, units: Array, store_timestamps_ms: Array) -> None:
        """Write the ext units of units and put their addresses where the tags codes were."""
        own = np.flatnonzero(store_timestamps_ms != NO_EXT_UNIT)
        ext_units = np.zeros(len(own), formats.EXT_HEADS.dtype)
        ext_units["size"] = formats.EXT_HEAD_SIZE
        ext_units["tagsCode"] = units["tagsCode"][own]
        ext_units["storeTimestamp"] = store_timestamps_ms[own]
        done = 0
        while done < len(own):
            room = self._writer.room or self._file_size
            count = min(max(room - formats.EXT_END_ROOM, 0) // formats.EXT_HEAD_SIZE, len(own) - done)
            if count == 0:
                self._writer.append(memoryview(formats.EXT_END.build({})))
                self._writer.end_file()
                continue
            first = formats.EXT_ADDRESS_BASE + self._writer.address
            addresses = first + np.arange(count) * formats.EXT_HEAD_SIZE
            units["tagsCode"][own[done : done + count]] = addresses
            self._writer.append(ext_units[done : done + count].data.cast("B"))
            done += count

    def close(self) -> int:
        """Finish the last file; return how many there are."""
        self._writer.close()
        return self._writer.files


def _emit_batch_queue(
    bundle: QueueBundle, plan: QueuePlan, pieces: Iterable[QueueUnits], totals: EmittedFiles
) -> None:
    """Write a batch queue."""
    place = f"batchconsumequeue/{plan.topic}/{plan.queue_id}"
    writer = FileQueueWriter(bundle.staging, place, bundle.geometry.batchconsumequeue)
    last_offset, kept_units = -1, 0
    for piece in pieces:
        units = piece.column("units")
        keep, last_offset = appended_batches(units["physicalOffset"].astype(np.int64), last_offset)
        batch_units = np.zeros(len(piece), formats.BATCH_UNITS.dtype)
        for name in UNIT_DTYPE.names or ():
            batch_units[name] = units[name]
        batch_units["storeTimestamp"] = piece.column("store_timestamps")
        batch_units["msgBaseOffset"] = piece.column("queue_offsets")
        batch_units["batchSize"] = piece.column("batch_sizes")
        batch_units["compactedOffset"] = formats.BATCH_COMPACTED_OFFSET
        writer.append(batch_units[keep].data.cast("B"))
        kept_units += int(keep.sum())
    writer.close()
    totals.files["batchconsumequeue"] += writer.files
    totals.units += kept_units
    _note_left_out(totals, plan, kept_units)
