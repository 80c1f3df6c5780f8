"""Maps as jobs of a Spark context, whoever made that."""

from __future__ import annotations

import traceback
import uuid
from functools import partial
from typing import TYPE_CHECKING, TypeVar

from py4j.protocol import Py4JError, Py4JJavaError

from rmqtool.engine.interface import EngineError
from rmqtool.engine.spark_plan import Planner, names_objects, run_planned
from rmqtool.engine.spark_settings import is_private
from rmqtool.engine.spark_task import failure_of, run_task
from rmqtool.errors import UnseenFileError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from pyspark import SparkContext

T = TypeVar("T")
R = TypeVar("R")


class Jobs:
    """Run one map after the other.

    Args:
        context: an open context; whoever made it ends it.
    """

    def __init__(self, context: SparkContext) -> None:
        self._context = context
        self._group = f"rmqtool-{uuid.uuid4().hex}"
        self._elsewhere = not is_private(context.master)

    def run(self, function: Callable[[T], R], items: Sequence[T]) -> list[R]:
        """Run a map to its end and return the results in the order of the items.

        Where executors are other machines, or read an object store, what they read is proven. A failure of
        that is final unless the file has changed here meanwhile, too.

        Raises:
            RmqtoolError: what the function raised, if it is one of ours.
            EngineError: any other failure of a task, or the connection broke.
        """
        if not self._elsewhere and not names_objects(items):
            return self._collect(function, items)
        planner = Planner()
        while True:
            try:
                done = self._collect(partial(run_planned, function), planner.tasks(items))
                return planner.values(done)
            except UnseenFileError as failure:
                if not planner.is_outdated(failure.path):
                    raise

    def completed_tasks(self) -> int:
        """Count the tasks of the running map that are done; 0 when Spark cannot tell."""
        try:
            tracker = self._context.statusTracker()
            jobs = (tracker.getJobInfo(number) for number in tracker.getJobIdsForGroup(self._group))
            running = [stage for job in jobs if job and job.status == "RUNNING" for stage in job.stageIds]
            stages = (tracker.getStageInfo(stage) for stage in running)
            return sum(stage.numCompletedTasks for stage in stages if stage is not None)
        except (Py4JError, OSError):  # the job itself will tell what happened
            return 0

    def cancel(self) -> None:
        """End the running map; it fails."""
        self._context.cancelJobGroup(self._group)

    def _collect(self, function: Callable[[T], R], items: Sequence[T]) -> list[R]:
        try:
            self._context.setJobGroup(self._group, "rmqtool", interruptOnCancel=True)
            # One partition an item: Spark balances and retries items, not groups of them.
            tasks = self._context.parallelize(list(items), len(items))
            results: list[R] = tasks.map(partial(run_task, function)).collect()
        except Py4JJavaError as error:
            raise failure_of(error.java_exception.toString()) from None
        except (Py4JError, OSError, EOFError) as error:
            raise EngineError("the connection to Spark broke", traceback.format_exc()) from error
        return results
