"""Export: logs cut into tasks, pieces written as files, results joined by the chain of records."""

from __future__ import annotations

import json
import time
from dataclasses import dataclass, field, replace
from itertools import groupby
from typing import TYPE_CHECKING, NamedTuple

from rmqtool import rows
from rmqtool.columns import ColumnFile, FileForm, require_library
from rmqtool.columns.encoder import ColumnJob, filled
from rmqtool.columns.pieces import TASK_BYTES, LogPiece, log_job, piece_rows, pieces_of, ranges_of, trimmed
from rmqtool.commands.export import REPORT_NAME, ExportReport, ExportRequest, LeftOut
from rmqtool.engine.choice import opened_engine, runs_elsewhere
from rmqtool.errors import EnvironmentFailureError
from rmqtool.findings import Finding, FindingLog, StoreFinding, counted
from rmqtool.progress import LimitedProgress, Progress, stage_of
from rmqtool.projection import json_object
from rmqtool.rows import Damage
from rmqtool.rows.log_splits import ReadSplit, after_segment
from rmqtool.rows.selections import resolved
from rmqtool.scan.log_pass import stitch
from rmqtool.scan.record_walk import LogExtent
from rmqtool.store.results import folder_names, output_area

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from rmqtool.engine import Engine
    from rmqtool.store import Store
    from rmqtool.store.staging import StagingHandle


class StorePlan(NamedTuple):
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
        finding = damage.finding()
        return StoreFinding.of(finding, self.store) if self.folder else finding


class ExportTask(NamedTuple):
    """Pieces of a log, in order, that become files; only a piece alone may lack its first record."""

    plan: StorePlan
    pieces: tuple[LogPiece, ...]

    @property
    def file_name(self) -> str:
        """Return the name of its files, without an ending."""
        return f"part-{self.pieces[0].split.start:020d}"

    @property
    def log_bytes(self) -> int:
        """Return how much log it reads."""
        return sum(piece.split.size_bytes for piece in self.pieces)


@dataclass
class TaskDone:
    """Result of a task; small, as it travels.

    ``failure`` is why its store, one of several, cannot be read and is left out.
    """

    findings: FindingLog
    ends: list[ReadSplit] = field(default_factory=list)
    files: list[ColumnFile] = field(default_factory=list)
    remarks: list[str] = field(default_factory=list)
    failure: str | None = None


_Done = tuple[ExportTask, TaskDone]


def run_task(task: ExportTask) -> TaskDone:
    """Read the pieces of a task and write their files."""
    from rmqtool.columns.files import TableFiles

    plan = task.plan
    choice = plan.job.choice
    needed = choice._replace(names=(*choice.names, "topic"))  # which may name folders
    done = TaskDone(FindingLog(plan.max_findings))
    with TableFiles(plan.staging, task.file_name, plan.folder, choice, plan.form) as files:
        for row in _rows(task, replace(plan.job, choice=needed), done):
            if isinstance(row, rows.Columns):
                done.remarks.extend(row.remarks)
                files.add(row)
            elif isinstance(row, rows.Damage):
                done.findings.add(plan.finding(row))
        done.files = files.finish()
    return done


def _rows(task: ExportTask, job: ColumnJob, done: TaskDone) -> Iterator[rows.Row]:
    try:
        for piece in task.pieces:
            yield from filled(piece.lead, job.choice)
            end = ReadSplit(piece.split, piece.first)
            yield from piece_rows(piece, job, end)
            done.ends.append(end)
    except EnvironmentFailureError as failure:
        if not task.plan.folder:
            raise
        done.failure = str(failure)


def export(request: ExportRequest, progress: Progress) -> ExportReport:
    """Write the messages of stores to files in ``request.out``, which appears complete or not at all.

    An open engine stays open.
    """
    start = time.perf_counter()
    if not request.form.format.is_lines:
        require_library("pyarrow")
    place = output_area(request.out, request.stores, REPORT_NAME, elsewhere=runs_elsewhere(request.engine))
    with place as area, opened_engine(request.engine) as working:
        made = _Export(request, area.handle, working, LimitedProgress(progress))
        made.run()
        report = made.report(time.perf_counter() - start)
        progress.stage("publish", None)
        with area.create_file(REPORT_NAME) as file:
            file.write_at(0, (json.dumps(json_object(report), indent=1) + "\n").encode())
        area.publish()
    return report


class _Export:
    def __init__(
        self, request: ExportRequest, staging: StagingHandle, engine: Engine, progress: LimitedProgress
    ) -> None:
        self._request, self._staging = request, staging
        self._engine, self._progress = engine, progress
        self._findings = FindingLog(request.max_findings)
        self._files: list[ColumnFile] = []
        self._log_bytes = 0
        self._stores: list[Store] = []
        self._by_folder = dict(zip(_folders(request), request.stores, strict=True))
        self._logs: dict[Store, LogExtent] = {}
        self._left_out = [*request.left_out]

    def run(self) -> None:
        """Run the tasks of all stores as one job, and keep the results that count."""
        tasks: list[ExportTask] = []
        for folder, store in self._by_folder.items():
            tasks += self._planned(store, folder)
        self._require_stores()
        self._log_bytes = sum(task.log_bytes for task in tasks)
        advance = stage_of(self._progress, "export", (task.log_bytes for task in tasks))
        done = self._done(tasks, advance)
        for _, of_store in groupby(done, key=lambda pair: pair[0].plan.folder):
            self._take_store(list(of_store))
        self._require_stores()
        topics = {file.topic for file in self._files if file.topic is not None}
        if topics:
            folders = counted(len(topics), "topic has", "topics have", spec=",")
            self._progress.warn(
                f"{folders} a longer name than a folder can have: it is cut, and ends with ~ and a digest;"
                f" {REPORT_NAME} has all of it, in topic of the file"
            )
        for store in self._stores:
            store.commitlog.close()
        self._progress.finish()

    def _require_stores(self) -> None:
        if not self._stores:
            raise EnvironmentFailureError("; ".join(store.reason for store in self._left_out))

    def _planned(self, store: Store, folder: str) -> list[ExportTask]:
        """Return the tasks of a store; one of several stores that cannot be read has none, with a reason."""
        try:
            store.require_log("export")
            request = self._request
            messages = resolved(store, request.messages, self._progress)
            wanted = messages, request.from_offset, request.to_offset
            plan = StorePlan(
                log_job(store, *wanted, request.choice),
                store=str(store.place.path),
                form=request.form,
                staging=self._staging,
                folder=folder,
                max_findings=request.max_findings,
            )
            pieces, others = pieces_of(plan.job, TASK_BYTES, ranges_of(store, *wanted, self._progress))
            self._logs[store] = LogExtent.of(store)
        except EnvironmentFailureError as failure:
            if not folder:
                raise
            self._left_out.append(LeftOut(str(store.place.path), str(failure)))
            return []
        self._stores.append(store)
        self._note(plan, others)
        return [ExportTask(plan, piece) for piece in pieces]

    def report(self, seconds: float) -> ExportReport:
        """Return the report."""
        request = self._request
        return ExportReport(
            stores=tuple(str(store.place.path) for store in self._stores),
            left_out=tuple(self._left_out),
            out=str(request.out),
            format=request.form.format.value,
            partition=None if request.form.partition is None else request.form.partition.value,
            columns=request.choice.names,
            asked=request.asked,
            logs=tuple(self._logs[store] for store in self._stores),
            engine=self._engine.name,
            messages=sum(file.messages for file in self._files),
            log_bytes=self._log_bytes,
            files=tuple(self._files),
            findings=self._findings,
            seconds=round(seconds, 3),
        )

    def _done(
        self, tasks: Sequence[ExportTask], progress: Callable[[int], None] | None = None
    ) -> list[_Done]:
        """Run tasks, each of which travels without the files of the log that it does not read."""
        slim = [
            task._replace(plan=task.plan._replace(job=trimmed(task.plan.job, task.pieces))) for task in tasks
        ]
        return list(zip(tasks, self._engine.map(run_task, slim, progress), strict=True))

    def _take_store(self, done: Sequence[_Done]) -> None:
        """Keep the results of one store's tasks; of a store that could not be read, none."""
        failure = next((task.failure for _, task in done if task.failure is not None), None)
        if failure is None:
            self._take(done)
            return
        for _, task in done:
            self._drop(task)
        store = self._by_folder[done[0][0].plan.folder]
        self._stores.remove(store)
        store.commitlog.close()
        self._left_out.append(LeftOut(str(store.place.path), failure))

    def _take(self, done: Sequence[_Done]) -> None:
        """Keep the results of one store's tasks that count: the chain of records decides."""
        ends = [
            (pair, piece, end)
            for pair in done
            for piece, end in zip(pair[0].pieces, pair[1].ends, strict=True)
        ]
        taken: dict[int, TaskDone] = {}
        for _, of_range in groupby(ends, key=lambda part: (part[1].split.segment.start, part[1].range)):
            taken |= {id(task): task for task in self._take_range(list(of_range))}
        for _, task in done:
            if id(task) not in taken:
                self._drop(task)
        for task in taken.values():
            self._findings.merge(task.findings)
            self._files.extend(task.files)
            for remark in task.remarks:
                self._progress.warn(remark)

    def _take_range(self, parts: list[tuple[_Done, LogPiece, ReadSplit]]) -> Iterator[TaskDone]:
        """Yield the results that count of the pieces of one range."""
        whose = {id(end): pair for pair, _, end in parts}

        def reread(end: ReadSplit, first: int) -> ReadSplit:
            task, done = whose[id(end)]
            self._drop(done)
            (piece,) = task.pieces  # its first record was guessed
            (again,) = self._done([task._replace(pieces=(piece._replace(first=first),))])
            if again[1].failure is not None:
                raise EnvironmentFailureError(again[1].failure)
            (split,) = again[1].ends
            whose[id(split)] = again
            return split

        last: ReadSplit | None = None
        for last in stitch((end for _, _, end in parts), parts[0][1].split.start, reread):
            yield whose[id(last)][1]
        if last is not None:
            plan = parts[0][0][0].plan
            self._note(plan, after_segment(plan.job, last))

    def _drop(self, done: TaskDone) -> None:
        for file in done.files:
            self._staging.remove(file.name)
        done.files.clear()

    def _note(self, plan: StorePlan, every: Iterable[rows.Row]) -> None:
        self._findings.extend(plan.finding(row) for row in every if isinstance(row, Damage))


def _folders(request: ExportRequest) -> list[str]:
    paths = [str(store.place.path) for store in request.stores]
    if len(paths) + len(request.left_out) == 1:
        return [""]
    return [f"store={name}/" for name in folder_names(paths)]
