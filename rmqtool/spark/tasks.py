"""Tasks that read parts of a store; picklable, with locations of files, so that executors can prove them.

Partitions of Spark know nothing of each other, and nothing joins them afterwards. So a task that ends inside
a file finds the first record of the tasks after it, as they do themselves, and follows its chain of records
to there. Where the two do not meet, it fails: rows are never read twice, nor left out.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from rmqtool.columns.pieces import LogPiece, PieceEnd, piece_rows
from rmqtool.commands.dump.derived import admits_unit, dump_index_file, dump_queue
from rmqtool.errors import EnvironmentFailureError
from rmqtool.releases import LENIENT
from rmqtool.rows import Damage, Item
from rmqtool.rows.log_splits import after_segment
from rmqtool.scan.gap_walk import GapWalk
from rmqtool.scan.log_pass import Split, SplitTask, read_split
from rmqtool.scan.record_walk import first_record

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rmqtool.columns.encoder import ColumnJob
    from rmqtool.commands.dump.request import DumpRequest
    from rmqtool.rows import Row
    from rmqtool.store import QueueFiles, Segment, StoreFile
    from rmqtool.store.geometry import Geometry


class Task(Protocol):
    """A part of a store."""

    def rows(self) -> Iterator[Row | SegmentFact]:
        """Yield its rows: messages as columns, damage as rows."""
        ...


@dataclass(frozen=True)
class LogTask:
    """Pieces of a log, in order.

    ``split_bytes`` is the length of pieces of one file; with ``ends_at_record``, the job's end is a record's
    start, unless there is damage.
    """

    job: ColumnJob
    pieces: tuple[LogPiece, ...]
    split_bytes: int
    ends_at_record: bool = False

    def rows(self) -> Iterator[Row]:
        """Yield messages as columns, and damage."""
        job = self.job
        for piece in self.pieces:
            yield from piece.lead
            end = PieceEnd(piece, piece.first)
            yield from piece_rows(piece, job, end)
            if end.first_log_offset is not None:
                yield from self._following(piece, job, end)

    def _following(self, piece: LogPiece, job: ColumnJob, end: PieceEnd) -> Iterator[Row]:
        """Yield the rows up to the first intact record of the next task that has one in this file.

        They are damage, and records that claim another offset: no task takes such a record for its first.
        """
        segment, edge = job.facts.segments[piece.number], job.facts
        walk = GapWalk(segment, LENIENT, edge.stale_from)
        _, last = piece.range
        crosses = piece.stop == job.end and end.next_log_offset > piece.stop and not end.closed
        if crosses and self.ends_at_record:
            raise _unclear(segment, piece.stop)
        for start in range(piece.stop, last, self.split_bytes):
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
        yield from after_segment(job, segment, end)


def _unclear(segment: Segment, log_offset: int) -> EnvironmentFailureError:
    return EnvironmentFailureError(
        f"{segment.path}: what lies at {log_offset - segment.start} looks like a record, and the records"
        " before it do not lead there, so its parts cannot be read apart; set the option splitBytes (of a"
        f" stream, maxBytesPerTrigger) to {segment.size_bytes}, that one task reads the file"
    )


@dataclass(frozen=True)
class FoundTask:
    """Rows of damage that the plan has found already."""

    found: tuple[Row, ...]

    def rows(self) -> Iterator[Row]:
        """Yield them."""
        yield from self.found


@dataclass(frozen=True)
class QueueTask:
    """Consume queues, with the selection of their units."""

    queues: tuple[QueueFiles, ...]
    request: DumpRequest

    def rows(self) -> Iterator[Row]:
        """Yield units and damage."""
        for queue in self.queues:
            for row in dump_queue(queue, self.request.messages.from_queue_offset or 0):
                if isinstance(row, Damage) or admits_unit(self.request, row):
                    yield row


@dataclass(frozen=True)
class IndexTask:
    """Files of the index, with the selection of their items.

    ``assumed`` says that the geometry is only the default.
    """

    files: tuple[StoreFile, ...]
    geometry: Geometry
    assumed: bool
    request: DumpRequest

    def rows(self) -> Iterator[Row]:
        """Yield items and damage."""
        for file in self.files:
            for row in dump_index_file(file, self.geometry, assumed=self.assumed):
                if not isinstance(row, Item) or self.request.admits_offset(row.physical_offset):
                    yield row
            file.close()


@dataclass(frozen=True, slots=True)
class SegmentFact:
    """A file of the log; the time is that of its first record, if it begins with one."""

    file: str
    physical_offset: int
    size_bytes: int
    first_store_timestamp_ms: int | None


@dataclass(frozen=True)
class SegmentTask:
    """Files of the log."""

    segments: tuple[Segment, ...]

    def rows(self) -> Iterator[SegmentFact]:
        """Yield a row for each file."""
        for segment in self.segments:
            record = first_record([segment])
            time_ms = None if record is None else record.head.store_timestamp_ms
            yield SegmentFact(segment.label, segment.start, segment.size_bytes, time_ms)
            segment.close()
