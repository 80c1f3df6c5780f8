"""What every Spark engine does with a map: a thread runs it, the caller's hears of progress and Ctrl-C."""

from __future__ import annotations

from abc import abstractmethod
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from typing import TYPE_CHECKING, Any, TypeVar

from rmqtool.engine.interface import Engine, EngineError, EngineOptions, MapInterruptedError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from rmqtool.engine.spark_jobs import Jobs

T = TypeVar("T")
R = TypeVar("R")

_PROGRESS_POLL_S = 0.1


class MappingEngine(Engine):
    """Run items as Spark tasks.

    Threads of its own do all the talking to Spark, so that the caller's stays free for progress and Ctrl-C.

    Args:
        options: see ``EngineOptions``.
    """

    name: str = "spark"

    def __init__(self, options: EngineOptions) -> None:
        self.options = options
        self._closed = False
        # One thread runs the jobs, the other asks how far they are.
        self._threads = ThreadPoolExecutor(2, thread_name_prefix="rmqtool-spark")

    def map(
        self, function: Callable[[T], R], items: Sequence[T], progress: Callable[[int], None] | None = None
    ) -> list[R]:
        """Run the function on every item, see ``Engine.map``.

        After a failure other attempts may still run for a moment; ``close`` ends them.
        """
        if self._closed:
            raise EngineError("the Spark engine is closed already")
        if not items:
            return []
        try:
            jobs = self._jobs()
            job = self._threads.submit(jobs.run, function, items)
            self._follow(job, jobs, progress)
        except KeyboardInterrupt:  # Spark hands over the results of a job in one piece, or none
            self._abandon()
            raise MapInterruptedError({}) from None
        except BaseException:  # progress raised: nobody waits for the job any more
            self._abandon()
            raise
        results = self._results(job)
        if progress is not None:
            progress(len(items))
        return results

    @abstractmethod
    def close(self) -> None:
        """Give back what is the engine's own; see ``Engine.close``."""

    @abstractmethod
    def _jobs(self) -> Jobs:
        """Return what runs maps, once Spark is ready."""

    @abstractmethod
    def _abandon(self) -> None:
        """End a map that nobody waits for."""

    def _results(self, job: Future[list[R]]) -> list[R]:
        return job.result()

    def _follow(self, job: Future[list[R]], jobs: Jobs, progress: Callable[[int], None] | None) -> None:
        """Wait for the job and report completed tasks on the way."""
        reported = 0
        while not wait([job], None if progress is None else _PROGRESS_POLL_S).done:
            asked = self._threads.submit(jobs.completed_tasks)
            either: list[Future[Any]] = [job, asked]
            wait(either, return_when=FIRST_COMPLETED)
            if progress is not None and asked.done() and asked.result() > reported:
                progress(reported := asked.result())
