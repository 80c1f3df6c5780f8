"""Tasks of an export: logs cut into pieces, and pieces written as files."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from rmqtool import rows
from rmqtool.columns.encoder import ColumnJob, filled
from rmqtool.columns.pieces import TASK_BYTES, LogPiece, PieceEnd, log_job, piece_rows, pieces_of
from rmqtool.commands.export.model import ExportRequest, StoreFinding
from rmqtool.errors import EnvironmentFailureError
from rmqtool.findings import Finding, FindingLog

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rmqtool.columns.names import ColumnFile, FileForm
    from rmqtool.rows.log_splits import Ranges
    from rmqtool.store import Store
    from rmqtool.store.staging import StagingHandle


@dataclass(frozen=True)
class StorePlan:
    """The plan that all tasks of one store share; picklable.

    ``folder`` is that of this store in the output, empty or with ``/`` at its end.
    """

    job: ColumnJob
    store: str
    form: FileForm
    staging: StagingHandle
    folder: str
    max_findings: int

    def finding(self, damage: rows.Damage) -> Finding:
        """Return the finding of damage, with the store if it is one of several."""
        found = damage.finding()
        return StoreFinding.of(found, self.store) if self.folder else found


@dataclass(frozen=True)
class ExportTask:
    """Pieces of a log, in order, that become files; only a piece alone may lack its first record."""

    plan: StorePlan
    pieces: tuple[LogPiece, ...]

    @property
    def name(self) -> str:
        """Return its unique name."""
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
class TaskDone:
    """Result of a task; small, as it travels.

    ``failure`` is why its store, one of several, cannot be read and is left out.
    """

    name: str
    ends: list[PieceEnd]
    files: list[ColumnFile]
    findings: FindingLog
    remarks: list[str] = field(default_factory=list)
    failure: str | None = None


def run_task(task: ExportTask) -> TaskDone:
    """Read the pieces of a task and write their files.

    Raises:
        FileNotSharedError: This machine does not see a file.
        EnvironmentFailureError: A file cannot be written; or, of one store alone, read.
    """
    from rmqtool.columns.arrow import Batches
    from rmqtool.columns.files import TableFiles, columns_needed

    plan = task.plan
    choice = plan.job.choice
    needed = columns_needed(choice, plan.form)
    done = TaskDone(task.name, [], [], FindingLog(plan.max_findings))
    batches = Batches(needed, any_time=plan.form.format.is_lines)
    with TableFiles(plan.staging, task.file_name, plan.folder, choice, plan.form) as files:
        for row in filled(_rows(task, replace(plan.job, choice=needed), done), needed):
            if isinstance(row, rows.Columns):
                done.remarks.extend(row.remarks)
                files.add(batches.batch(row))
            elif isinstance(row, rows.Damage):
                done.findings.add(plan.finding(row))
        done.files = files.finish()
    return done


def _rows(task: ExportTask, job: ColumnJob, done: TaskDone) -> Iterator[rows.Row]:
    try:
        for piece in task.pieces:
            yield from piece.lead
            end = PieceEnd(piece, piece.first)
            yield from piece_rows(piece, job, end)
            done.ends.append(end)
    except EnvironmentFailureError as failure:
        if not task.plan.folder:
            raise
        done.failure = str(failure)


def again(task: ExportTask, first: int) -> ExportTask:
    """Return a task whose first record is not the guessed one."""
    (piece,) = task.pieces
    return replace(task, pieces=(replace(piece, first=first),))


def plan_of(request: ExportRequest, store: Store, folder: str, staging: StagingHandle) -> StorePlan:
    """Return the plan that all tasks of a store share."""
    return StorePlan(
        job=log_job(store, request.messages, request.from_offset, request.to_offset, request.choice),
        form=request.form,
        store=str(store.place.path),
        staging=staging,
        folder=folder,
        max_findings=request.max_findings,
    )


def tasks_of(plan: StorePlan, ranges: Ranges | None) -> tuple[list[ExportTask], list[rows.Row]]:
    """Return the tasks of a store, and rows of files of its log in which nothing is to be read.

    Each task becomes one file, or one of each partition. ``ranges`` is where wanted messages can lie; None:
    anywhere.
    """
    tasks, others = pieces_of(plan.job, TASK_BYTES, ranges)
    return [ExportTask(plan, pieces) for pieces in tasks], others
