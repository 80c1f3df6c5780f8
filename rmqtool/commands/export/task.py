"""The work on one task of an export: pieces of a log become files."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import TYPE_CHECKING

from rmqtool import rows
from rmqtool.columns.encoder import COLUMN_SPLIT_BYTES, ColumnJob, filled
from rmqtool.findings import FindingLog
from rmqtool.rows.log_splits import LogSplit, read_split

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rmqtool.columns.names import ColumnChoice, ColumnFile, FileForm
    from rmqtool.javacompat import DelayLevels
    from rmqtool.rows.messages import MessageFilter
    from rmqtool.scan.log_edge import FoundEdge
    from rmqtool.store import FileQueue
    from rmqtool.store.staging import StagingHandle


@dataclass(frozen=True)
class StorePlan:
    """What all tasks of one store share; picklable.

    Attributes:
        log: The files.
        edge: What is known of the log as a whole.
        delay_levels: The broker's delay table.
        messages: Which messages.
        begin: Physical offset at which the export begins.
        end: Physical offset at which it ends; None: with the log.
        choice: Which columns.
        form: How files are written.
        staging: Where they go.
        folder: Of this store in the output, empty or with ``/`` at its end.
        max_findings: Findings of one code that are kept in full.
    """

    log: FileQueue
    edge: FoundEdge
    delay_levels: DelayLevels
    messages: MessageFilter
    begin: int
    end: int | None
    choice: ColumnChoice
    form: FileForm
    staging: StagingHandle
    folder: str
    max_findings: int

    def job(self, choice: ColumnChoice) -> ColumnJob:
        """Return what reads columns of this log."""
        return ColumnJob(
            self.log, self.delay_levels, self.messages, choice, begin=self.begin, end=self.end, edge=self.edge
        )


@dataclass(frozen=True)
class Piece:
    """A range of one file of the log.

    Attributes:
        number: Of the file in its log, from 0.
        start: Physical offset.
        stop: Physical offset.
        first: Physical offset of its first record; None if that is to be found.
        lead: Rows of what lies before the first piece of a file.
    """

    number: int
    start: int
    stop: int
    first: int | None
    lead: tuple[rows.Row, ...] = ()


@dataclass(frozen=True)
class ExportTask:
    """Pieces of a log, in order, that become files; only a piece alone may lack its first record.

    Attributes:
        plan: What all tasks share.
        pieces: What is read.
    """

    plan: StorePlan
    pieces: tuple[Piece, ...]

    @property
    def name(self) -> str:
        """Return its name, which is no other's."""
        return self.plan.folder + self.file_name

    @property
    def file_name(self) -> str:
        """Return the name of its files, without an ending."""
        return f"part-{self.pieces[0].start:020d}"

    @property
    def log_bytes(self) -> int:
        """Return how much log it reads."""
        return sum(piece.stop - piece.start for piece in self.pieces)


@dataclass
class PieceEnd:
    """What became of a piece; see ``rmqtool.rows.log_splits.ReadSplit``."""

    piece: Piece
    first_log_offset: int | None
    next_log_offset: int = 0
    closed: bool = True
    ended: bool = False

    @property
    def split_stop(self) -> int:
        """Return the physical offset after the piece."""
        return self.piece.stop


@dataclass
class TaskDone:
    """What became of a task; small, as it travels.

    Attributes:
        name: Of the task.
        ends: Of the pieces.
        files: What was written.
        findings: What is wrong in the pieces.
        remarks: What could not be done.
    """

    name: str
    ends: list[PieceEnd]
    files: list[ColumnFile]
    findings: FindingLog
    remarks: list[str] = field(default_factory=list)


def run_task(task: ExportTask) -> TaskDone:
    """Read the pieces of a task and write their files.

    Raises:
        EnvironmentFailureError: A file cannot be read or written.
    """
    from rmqtool.columns.arrow import Batches
    from rmqtool.columns.tables import TableFiles, columns_needed

    plan = task.plan
    needed = columns_needed(plan.choice, plan.form)
    done = TaskDone(task.name, [], [], FindingLog(plan.max_findings))
    batches = Batches(needed)
    with TableFiles(plan.staging, task.file_name, plan.folder, plan.choice, plan.form) as files:
        for row in filled(_rows(task, plan.job(needed), done), needed):
            if isinstance(row, rows.Columns):
                done.remarks.extend(row.remarks)
                files.add(batches.batch(row))
            elif isinstance(row, rows.Damage):
                done.findings.add(row.finding())
        done.files = files.finish()
    return done


def _rows(task: ExportTask, job: ColumnJob, done: TaskDone) -> Iterator[rows.Row]:
    for piece in task.pieces:
        yield from piece.lead
        end = PieceEnd(piece, piece.first)
        yield from _piece_rows(piece, job, task.plan.edge, end)
        done.ends.append(end)


def _piece_rows(piece: Piece, job: ColumnJob, edge: FoundEdge, end: PieceEnd) -> Iterator[rows.Row]:
    """Yield what a piece holds, split by split, each beginning where the one before it ended."""
    bounds = [*range(piece.start, piece.stop, COLUMN_SPLIT_BYTES), piece.stop]
    due = piece.first
    for start, stop in pairwise(bounds):
        if due is not None and due >= stop:
            continue
        read = read_split(LogSplit(job, edge, piece.number, start, stop, due))
        if read.first_log_offset is None:
            continue
        if end.first_log_offset is None:
            end.first_log_offset = read.first_log_offset
        yield from read.rows
        due = end.next_log_offset = read.next_log_offset
        end.closed, end.ended = read.closed, read.ended
        if read.ended:
            return


def again(task: ExportTask, first: int) -> ExportTask:
    """Return a task whose first record is not the one that was guessed."""
    (piece,) = task.pieces
    return replace(task, pieces=(replace(piece, first=first),))
