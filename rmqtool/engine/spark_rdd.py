"""Maps over an RDD: one partition an item, by the Spark context of whoever made that."""

from __future__ import annotations

import traceback
from functools import partial
from typing import TYPE_CHECKING, TypeVar

from py4j.protocol import Py4JError, Py4JJavaError

from rmqtool.engine.interface import EngineError
from rmqtool.engine.spark_jobs import Jobs
from rmqtool.engine.spark_settings import is_private
from rmqtool.engine.spark_task import failure_of, run_task

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from pyspark import SparkContext

T = TypeVar("T")
R = TypeVar("R")


class RddJobs(Jobs):
    """Run maps by a context.

    Args:
        context: an open one.
    """

    def __init__(self, context: SparkContext) -> None:
        super().__init__(elsewhere=not is_private(context.master))
        self._context = context

    def completed_tasks(self) -> int:
        """Count the tasks of the running map that are done; 0 when Spark cannot tell."""
        try:
            tracker = self._context.statusTracker()
            jobs = (tracker.getJobInfo(number) for number in tracker.getJobIdsForGroup(self.name))
            running = [stage for job in jobs if job and job.status == "RUNNING" for stage in job.stageIds]
            stages = (tracker.getStageInfo(stage) for stage in running)
            return sum(stage.numCompletedTasks for stage in stages if stage is not None)
        except (Py4JError, OSError):  # the job itself will tell what happened
            return 0

    def cancel(self) -> None:
        """End the running map; it fails."""
        self._context.cancelJobGroup(self.name)

    def _collect(self, function: Callable[[T], R], items: Sequence[T]) -> list[R]:
        try:
            self._context.setJobGroup(self.name, "rmqtool", interruptOnCancel=True)
            tasks = self._context.parallelize(list(items), len(items))
            results: list[R] = tasks.map(partial(run_task, function)).collect()
        except Py4JJavaError as error:
            raise failure_of(error.java_exception.toString()) from None
        except (Py4JError, OSError, EOFError) as error:
            raise EngineError("the connection to Spark broke", traceback.format_exc()) from error
        return results
