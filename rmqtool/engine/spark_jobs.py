"""Maps as jobs of Spark, by a Spark context or by a session without one.

`MappingEngine` is common to all Spark engines: a thread runs the map, the caller's thread handles progress
and Ctrl-C.
"""

from __future__ import annotations

import base64
import gc
import os
import pickle
import re
import time
import traceback
import uuid
from abc import ABC, abstractmethod
from contextlib import contextmanager, suppress
from functools import partial
from queue import Empty, SimpleQueue
from threading import Event
from typing import TYPE_CHECKING, Any, TypeVar

from rmqtool.engine import Engine, EngineError, EngineOptions, MapInterruptedError
from rmqtool.engine.spark_plan import TaskPacker, names_objects, run_planned
from rmqtool.engine.spark_settings import is_private
from rmqtool.engine.threads import Threads, put_as_ended
from rmqtool.errors import EnvironmentFailureError, FileNotSharedError, RefusedError, RmqtoolError
from rmqtool.io.object_store import LENT

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from concurrent.futures import Future

    import pyarrow as pa
    from pyspark import SparkContext
    from pyspark.sql import DataFrame


T = TypeVar("T")
R = TypeVar("R")

_MARK = "rmqtool-task-failure:"

_NEEDED = frozenset(
    {"rmqtool", "numpy", "numba", "llvmlite", "construct", "lz4", "backports", "pyspark", "pyarrow"}
)
"""Modules that an executor imports."""


class CarriedFailureError(Exception):
    """A failure on its way through Spark; its text holds the pickled error after a mark.

    Raising it, rather than returning it, keeps Spark's own handling of failures: another attempt, perhaps on
    an executor that has what this one lacks, and the end of the job if none helps.
    """


def run_task(function: Callable[[T], R], item: T) -> R:
    """Run the function; a failure becomes a `CarriedFailureError`, which ``failure_of`` unpacks."""
    try:
        return function(item)
    except Exception as error:
        raise CarriedFailureError(_pack(_as_ours(error))) from error
    finally:
        _keep_modules(function)


_KEPT: set[str] = set()
"""Functions that this process has run."""


def _keep_modules(function: Callable[[T], R]) -> None:
    """Exclude a function's modules from garbage collection, which Spark runs after every task.

    ``pyspark/daemon.py`` collects each time, 35 ms with our modules loaded.
    """
    name = repr(function)
    if name not in _KEPT:
        _KEPT.add(name)
        gc.collect()
        gc.freeze()


_NONE_LEFT = "due to node and executor excludeOnFailure"
_SENTENCES = {
    "stopped SparkContext": "Spark's master does not answer or ended the application: its logs say why",
    "Python worker exited unexpectedly": "a Python worker of Spark was killed, perhaps for lack of memory",
    _NONE_LEFT: (
        "Spark has no executor left for a task: each has failed before, and its settings"
        " spark.excludeOnFailure.* exclude those; its logs say with what"
    ),
}
"""Explanations of failures, by words of Spark's report."""


def failure_of(report: str) -> RmqtoolError:
    """Return the failure in Spark's report of a failed job: the text of its Java exception."""
    if carried := re.search(_MARK + r"([A-Za-z0-9+/=]+)", report):
        error: RmqtoolError = pickle.loads(base64.b64decode(carried[1]))
        return error
    if missing := re.search(r"No module named '?([\w.]+)", report):
        return _missing_module(missing[1], report)
    if re.search(r"PYTHON_VERSION_MISMATCH|Cannot run program", report):
        return EnvironmentFailureError(
            "the executors cannot run this Python: every one needs the same version, at the path that"
            f" --spark-conf spark.pyspark.python names ({_reason(report)})"
        )
    known = next((sentence for sign, sentence in _SENTENCES.items() if sign in report), None)
    return EngineError(known or f"Spark failed: {_reason(report)}", report)


def _as_ours(error: Exception) -> RmqtoolError:
    if isinstance(error, ModuleNotFoundError) and error.name:
        return _missing_module(error.name, traceback.format_exc())
    if isinstance(error, RmqtoolError) and _survives_pickling(error):
        return error
    summary = "".join(traceback.format_exception_only(error)).strip()
    return EngineError(f"a task failed: {summary}", traceback.format_exc())


def _missing_module(name: str, report: str) -> RmqtoolError:
    if name.partition(".")[0] not in _NEEDED:
        return EngineError(f"a task failed: no Python module {name} where it ran", report)
    return EnvironmentFailureError(
        f"the Spark executors have no Python module {name}: every one needs the same Python with rmqtool "
        "and its dependencies, installed or from an archive that rmqtool spark pack makes; or use "
        "--engine local"
    )


def _survives_pickling(error: RmqtoolError) -> bool:
    """A constructor that needs more than its message fails to unpickle."""
    try:
        return type(pickle.loads(pickle.dumps(error))) is type(error)
    except (pickle.PicklingError, AttributeError, TypeError, ValueError):  # it travels as text then
        return False


def _pack(error: RmqtoolError) -> str:
    return _MARK + base64.b64encode(pickle.dumps(error)).decode()


def _reason(report: str) -> str:
    """Return the most informative line: of nested messages the last cause, else the first sentence."""
    lines = [line.strip() for line in report.splitlines() if line.strip()]
    causes = [line for line in lines if line.startswith("Caused by:")]
    if causes:
        return causes[-1][:300]
    said = next((n for n, line in enumerate(lines, start=1) if not line.endswith(":")), len(lines))
    return " ".join(lines[:said])[:300] or "no reason given"


_PROGRESS_POLL_S = 0.1
_LATE_S, _LATE_POLL_S = 20.0, 1.0
"""Time after the start of a session in which executors may come that have what the first ones lack."""
_PIECE_BYTES = 1 << 20


class MappingEngine(Engine):
    """Engine of tasks on Spark.

    Threads of its own talk to Spark, so that the caller's stays free for progress and Ctrl-C.
    """

    name: str = "spark"

    def __init__(self, options: EngineOptions) -> None:
        self.options = options
        self._closed = False
        # One thread runs the jobs, the other polls their progress.
        self._threads = Threads(2)

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
        except KeyboardInterrupt:  # Spark returns the results of a job in one piece, or none
            self._abandon()
            raise MapInterruptedError({}) from None
        except BaseException:  # progress raised: the job's results are not needed
            self._abandon()
            raise
        results = self._results(job)
        if progress is not None:
            progress(len(items))
        return results

    @abstractmethod
    def close(self) -> None:
        """Release the engine's own resources; see ``Engine.close``."""

    @abstractmethod
    def _jobs(self) -> Jobs:
        """Return the runner of maps, once Spark is ready."""

    @abstractmethod
    def _abandon(self) -> None:
        """End a map whose results are no longer needed."""

    def _results(self, job: Future[list[R]]) -> list[R]:
        return job.result()

    def _follow(self, job: Future[list[R]], jobs: Jobs, progress: Callable[[int], None] | None) -> None:
        ended: SimpleQueue[Future[Any]] = SimpleQueue()
        put_as_ended(ended, job)
        reported = 0
        while True:
            with suppress(Empty):
                ended.get(timeout=None if progress is None else _PROGRESS_POLL_S)
                return
            polled = self._threads.submit(jobs.completed_tasks)
            put_as_ended(ended, polled)
            if ended.get() is job:
                return
            if progress is not None and polled.result() > reported:
                progress(reported := polled.result())


class Jobs(ABC):
    """Runner of one map after the other on a Spark; with ``elsewhere``, executors may be other machines."""

    def __init__(self, *, elsewhere: bool) -> None:
        self.name = f"rmqtool-{uuid.uuid4().hex}"
        self._elsewhere = elsewhere
        self._lent: dict[str, str] = {}

    def run(self, function: Callable[[T], R], items: Sequence[T]) -> list[R]:
        """Run a map to its end and return the results in the order of the items.

        Where executors are other machines, or read an object store, their files are proven. Such a failure is
        final unless the file has changed here meanwhile, too.
        """
        objects = names_objects(items)
        if not self._elsewhere and not objects:
            return self._collect(function, items)
        planner = TaskPacker()
        self._lent = {name: os.environ[name] for name in LENT if name in os.environ} if objects else {}
        while True:
            try:
                run = partial(run_planned, function, elsewhere=self._elsewhere)
                done = self._collect(run, planner.tasks(items))
                return planner.values(done)
            except FileNotSharedError as failure:
                if not planner.is_outdated(failure.path):
                    raise

    @abstractmethod
    def completed_tasks(self) -> int:
        """Count the completed tasks of the running map; fewer where Spark does not know."""

    @abstractmethod
    def cancel(self) -> None:
        """End the running map; it fails."""

    @abstractmethod
    def _collect(self, function: Callable[[T], R], items: Sequence[T]) -> list[R]:
        """Run a map, each item as a task of its own that Spark balances and retries."""


class RddJobs(Jobs):
    """Runner over an RDD, one partition an item, by a Spark context."""

    def __init__(self, context: SparkContext) -> None:
        super().__init__(elsewhere=not is_private(context.master))
        self._context = context
        self._late_until = time.monotonic() + _LATE_S
        self._cancelled = Event()

    def completed_tasks(self) -> int:
        """Count the completed tasks of the running map; 0 when Spark does not know."""
        from py4j.protocol import Py4JError

        try:
            tracker = self._context.statusTracker()
            jobs = (tracker.getJobInfo(number) for number in tracker.getJobIdsForGroup(self.name))
            running = [stage for job in jobs if job and job.status == "RUNNING" for stage in job.stageIds]
            stages = (tracker.getStageInfo(stage) for stage in running)
            return sum(stage.numCompletedTasks for stage in stages if stage is not None)
        except (Py4JError, OSError):  # the job itself will raise what happened
            return 0

    def cancel(self) -> None:
        """End the running map; it fails."""
        self._cancelled.set()
        self._context.cancelJobGroup(self.name)

    def _collect(self, function: Callable[[T], R], items: Sequence[T]) -> list[R]:
        from py4j.protocol import Py4JError, Py4JJavaError

        self._cancelled.clear()
        while True:
            try:
                self._context.setJobGroup(self.name, "rmqtool", interruptOnCancel=True)
                tasks = self._context.parallelize(list(items), len(items))
                with self._lending():
                    results: list[R] = tasks.map(partial(run_task, function)).collect()
            except Py4JJavaError as error:
                report = error.java_exception.toString()
                failure = failure_of(report)
                if _NONE_LEFT not in report or not self._waits_for_others(failure):
                    raise failure from None
            except (Py4JError, OSError, EOFError) as error:
                raise EngineError("the connection to Spark broke", traceback.format_exc()) from error
            else:
                return results

    def _waits_for_others(self, failure: RmqtoolError) -> bool:
        """Wait for executors that come late, and return whether they may do what those there cannot."""
        if isinstance(failure, EngineError | RefusedError) or time.monotonic() > self._late_until:
            return False
        return not self._cancelled.wait(_LATE_POLL_S)

    @contextmanager
    def _lending(self) -> Iterator[None]:
        """Pass variables to workers with a job's tasks, so that no command line and no setting shows them.

        A setting of Spark for executors wins.
        """
        before = self._context.environment
        self._context.environment = {**self._lent, **before}
        try:
            yield
        finally:
            self._context.environment = before


class FrameJobs(Jobs):
    """Runner over a DataFrame, for sessions without a Spark context: Spark Connect's, and serverless ones.

    Each number of a range is a partition, to which a broadcast join brings its item: a pickle. Results come
    in pieces, because a message of Spark Connect holds 128 MiB.
    """

    def __init__(self, session: Any) -> None:  # noqa: ANN401 - pyspark's
        super().__init__(elsewhere=True)
        self._session = session
        self._pieces: dict[int, list[bytes]] = {}

    def completed_tasks(self) -> int:
        """Count the completed tasks before the first one that is not: results come in order."""
        return len(self._pieces)

    def cancel(self) -> None:
        """End the running map; it fails."""
        self._session.interruptTag(self.name)

    def _collect(self, function: Callable[[T], R], items: Sequence[T]) -> list[R]:
        from pyspark.errors import PySparkException

        self._pieces = {}
        self._session.addTag(self.name)  # to what this thread runs
        try:
            for number, piece in self._frame(function, items).toLocalIterator():
                self._pieces.setdefault(number, []).append(piece)
        except PySparkException as error:
            raise failure_of(str(error)) from None
        except OSError as error:
            raise EngineError("the connection to Spark broke", traceback.format_exc()) from error
        finally:
            self._session.removeTag(self.name)
        return [pickle.loads(b"".join(self._pieces.pop(number))) for number in range(len(items))]

    def _frame(self, function: Callable[[T], R], items: Sequence[T]) -> DataFrame:
        from pyspark.sql.types import BinaryType, LongType, StructField, StructType

        number, binary = StructField("id", LongType(), nullable=False), BinaryType()
        rows = [(place, pickle.dumps(item, pickle.HIGHEST_PROTOCOL)) for place, item in enumerate(items)]
        packed = self._session.createDataFrame(rows, StructType([number, StructField("item", binary)]))
        tasks = self._session.range(0, len(items), 1, len(items)).join(packed.hint("broadcast"), "id")
        return tasks.mapInArrow(
            partial(_run_batches, function), StructType([number, StructField("piece", binary)])
        )


def _run_batches(function: Callable[[T], R], batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    import pyarrow as pa

    for batch in batches:
        for number, item in zip(*(column.to_pylist() for column in batch.columns), strict=True):
            result = pickle.dumps(run_task(function, pickle.loads(item)), pickle.HIGHEST_PROTOCOL)
            for begin in range(0, len(result), _PIECE_BYTES):
                piece = result[begin : begin + _PIECE_BYTES]
                yield pa.RecordBatch.from_pydict(
                    {"id": pa.array([number], pa.int64()), "piece": pa.array([piece], pa.binary())}
                )
