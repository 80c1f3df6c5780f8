"""Division of the logs of an export into tasks."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rmqtool.columns.pieces import TASK_BYTES, pieces_of
from rmqtool.commands.export.task import ExportTask, StorePlan
from rmqtool.scan.log_edge import FoundEdge

if TYPE_CHECKING:
    from rmqtool import rows
    from rmqtool.commands.export.model import ExportRequest
    from rmqtool.rows.log_splits import Ranges
    from rmqtool.store import Store
    from rmqtool.store.staging import StagingHandle


def plan_of(request: ExportRequest, store: Store, folder: str, staging: StagingHandle) -> StorePlan:
    """Return the plan that all tasks of a store share."""
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
    tasks, others = pieces_of(plan, TASK_BYTES, ranges)
    return [ExportTask(plan, pieces) for pieces in tasks], others
