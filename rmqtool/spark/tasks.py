"""Tasks that read parts of a store; picklable, with locations of files, so that executors can prove them.

Partitions of Spark know nothing of each other, and nothing joins them afterwards. So a task that ends inside
a file finds the first record of the tasks after it, as they do themselves, and follows its chain of records
to there. Where the two do not meet, it fails: rows are never read twice, nor left out.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

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
    from collections.abc import Callable, Iterator

    from rmqtool.columns.encoder import ColumnJob
    from rmqtool.commands.dump import DumpRequest
    from rmqtool.rows import Row
    from rmqtool.store import QueueFiles, Segment, StoreFile
    from rmqtool.store.geometry import Geometry

    Task = Callable[[], Iterator[Row | "SegmentFact"]]
    """Reader of a part of a store: messages come as columns, damage as rows."""


@dataclass(frozen=True)
class LogTask:
    """Reads pieces of a log, in order: messages as columns, and damage.

    ``split_bytes`` is the length of pieces of one file; with ``ends_at_record``, the job's end is a record's
    start, unless there is damage.
    """

    job: ColumnJob
    pieces: tuple[LogPiece, ...]
    split_bytes: int
    ends_at_record: bool = False

    def __call__(self) -> Iterator[Row]:
        """Yield the rows."""
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
