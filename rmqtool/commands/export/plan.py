"""Cut the logs of an export into tasks."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rmqtool.commands.export.task import ExportTask, Piece, StorePlan
from rmqtool.rows.log_pieces import before_segment
from rmqtool.scan.log_edge import FoundEdge

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rmqtool import rows
    from rmqtool.commands.export.model import ExportRequest
    from rmqtool.store import Store
    from rmqtool.store.staging import StagingHandle

TASK_BYTES = 256 << 20
"""What becomes one file, or one of each partition; smaller files of the log are put together."""


def plan_of(request: ExportRequest, store: Store, folder: str, staging: StagingHandle) -> StorePlan:
    """Return what all tasks of a store share."""
    log = store.commitlog
    return StorePlan(
        log=log,
        edge=FoundEdge.of(store, log),
        delay_levels=store.settings.delay_levels,
        messages=request.messages,
        begin=request.from_offset or 0,
        end=request.to_offset,
        choice=request.choice,
        form=request.form,
        staging=staging,
        folder=folder,
        max_findings=request.max_findings,
    )


def tasks_of(plan: StorePlan) -> tuple[list[ExportTask], list[rows.Row]]:
    """Return the tasks of a store, and rows of files of its log in which nothing is to be read.

    Files of the log that lie outside of the wanted offsets are not looked at.
    """
    tasks: list[ExportTask] = []
    waiting: list[Piece] = []
    others: list[rows.Row] = []
    for number, segment in enumerate(plan.edge.segments):
        if segment.stop <= plan.begin or (plan.end is not None and segment.start >= plan.end):
            continue
        lead, start = before_segment(plan.job(plan.choice), plan.edge, number)
        if start is None:
            others.extend(lead)
            continue
        stop = segment.stop if plan.end is None else min(segment.stop, plan.end)
        pieces = list(_pieces(number, start, max(start, stop), tuple(lead)))
        room = TASK_BYTES - sum(one.stop - one.start for one in waiting)
        if waiting and (len(pieces) > 1 or pieces[0].stop - pieces[0].start > room):
            tasks.append(ExportTask(plan, tuple(waiting)))
            waiting = []
        if len(pieces) > 1:
            tasks.extend(ExportTask(plan, (piece,)) for piece in pieces)
        else:
            waiting += pieces
    if waiting:
        tasks.append(ExportTask(plan, tuple(waiting)))
    return tasks, others


def _pieces(number: int, start: int, stop: int, lead: tuple[rows.Row, ...]) -> Iterator[Piece]:
    """Yield the pieces of one file, the first of which begins with a record."""
    yield Piece(number, start, min(start + TASK_BYTES, stop), start, lead)
    for begin in range(start + TASK_BYTES, stop, TASK_BYTES):
        yield Piece(number, begin, min(begin + TASK_BYTES, stop), None)
