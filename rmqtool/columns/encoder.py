"""Encoders of columns: from a log by kernels, or from rows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from rmqtool import rows
from rmqtool.columns.buffers import BATCH_BYTES, BATCH_ROWS, ColumnBuffers
from rmqtool.progress import RecordingProgress
from rmqtool.rows.bodies import COMPRESSED_FLAG, decompressed
from rmqtool.rows.log_splits import KernelFilter, LogJob
from rmqtool.scan.column_kernels import encode_columns
from rmqtool.scan.column_layout import Stopped

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from rmqtool.columns.names import ColumnChoice
    from rmqtool.scan.walk import MessageBatch
    from rmqtool.store import Segment

COLUMN_SPLIT_BYTES = 16 << 20


@dataclass(frozen=True)
class ColumnJob(LogJob):
    """Job that reads a log as columns; damage comes as rows."""

    choice: ColumnChoice

    def encoder(self, segment: Segment) -> ColumnEncoder:
        """Return a new encoder for a split of a file."""
        wanted = None
        if self.messages.is_for_kernels:
            is_unpacked = self.choice.decompress and "body" in self.choice.names
            wanted = KernelFilter.of(self.messages, COMPRESSED_FLAG if is_unpacked else 0)
        return ColumnEncoder(self.choice, segment, wanted)


class ColumnEncoder:
    """Encoder of one split; ``wanted`` is None if kernels cannot filter."""

    def __init__(self, choice: ColumnChoice, segment: Segment, wanted: KernelFilter | None) -> None:
        self._segment = segment
        self._wanted = wanted
        self._rows: list[rows.Row] = []
        self._filling = Filling(choice)

    def encode(self, batch: MessageBatch, first: int, stop: int) -> int:
        """Fill columns; see `Encoder.encode`."""
        while first < stop and self._wanted is not None:
            stopped, first = self._fill(self._wanted, batch, first, stop)
            if stopped == Stopped.FULL:
                self._rows.extend(self._filling.flushed())
            if stopped == Stopped.ODD:
                break
        return first

    def add(self, row: rows.Row) -> None:
        """Add a row: messages go into the columns, damage beside them."""
        if isinstance(row, rows.Message):
            self._rows.extend(self._filling.add(row))
        else:
            self._rows.append(row)

    def finish(self) -> list[rows.Row]:
        """Return columns and rows."""
        return [*self._rows, *self._filling.finished()]

    def _fill(self, wanted: KernelFilter, batch: MessageBatch, first: int, stop: int) -> tuple[int, int]:
        room = self._filling.room(self._segment.label)
        return encode_columns(
            batch.buffer,
            batch.rows[:stop],
            batch.values,
            first,
            self._segment.start,
            wanted.numbers,
            wanted.topic,
            wanted.tag,
            wanted.key,
            room.takes,
            room.parts,
            room.counts,
            room.longs,
            room.numbers,
            room.texts,
            room.stops,
            room.used,
            room.list_stops,
            room.slots,
            room.word_stops,
            room.words,
        )


class Filling:
    """Columns being filled, batch after batch."""

    def __init__(self, choice: ColumnChoice) -> None:
        self._choice = choice
        self._buffers: ColumnBuffers | None = None
        self._room_bytes = BATCH_BYTES
        self._remarks = RecordingProgress(None)

    def room(self, file: str) -> ColumnBuffers:
        """Return the buffers for messages of a file."""
        if self._buffers is None:
            self._buffers = ColumnBuffers(file, self._choice, BATCH_ROWS, self._room_bytes)
        return self._buffers

    def add(self, message: rows.Message) -> Iterator[rows.Columns]:
        """Add a message; yield the batches that were full before."""
        if self._buffers is not None and self._buffers.file != message.file:
            yield from self.finished()
        if self._choice.decompress and "body" in self._choice.names:
            (unpacked,) = decompressed([message], self._remarks)
            message = unpacked if isinstance(unpacked, rows.Message) else message
        while not self.room(message.file).add(message):
            yield from self.flushed()

    def flushed(self) -> Iterator[rows.Columns]:
        """Yield the full batch; enlarge the room if not even one message fits."""
        if self._buffers is not None and not len(self._buffers):
            self._room_bytes *= 2
            self._buffers = None
        yield from self.finished()

    def finished(self) -> Iterator[rows.Columns]:
        """Yield the current batch, if it has messages."""
        buffers, self._buffers = self._buffers, None
        if buffers is not None and len(buffers):
            remarks, self._remarks = tuple(self._remarks.warnings), RecordingProgress(None)
            yield buffers.columns(remarks)


def filled(found: Iterable[rows.Row], choice: ColumnChoice) -> Iterator[rows.Row]:
    """Yield columns instead of messages; other rows, and existing columns, as they come."""
    filling = Filling(choice)
    for row in found:
        if isinstance(row, rows.Message):
            yield from filling.add(row)
        else:
            if isinstance(row, rows.Columns):
                yield from filling.finished()
            yield row
    yield from filling.finished()
