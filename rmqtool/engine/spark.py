"""The engine on Spark: one task an item, results collected in order."""

from __future__ import annotations

import atexit
import os
import shutil
import tempfile
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from rmqtool.engine.interface import EngineError, EngineOptions, MapInterruptedError
from rmqtool.engine.spark_java import find_java
from rmqtool.engine.spark_jvm import DriverJvm
from rmqtool.engine.spark_settings import driver_command, is_private, master_of, worker_python
from rmqtool.errors import EnvironmentFailureError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from types import TracebackType
    from typing import Self

    from rmqtool.engine.spark_session import Session

T = TypeVar("T")
R = TypeVar("R")

_PROGRESS_POLL_S = 0.1
_CLUSTER_GRACE_S = 10.0


class SparkEngine:
    """Run items as Spark tasks.

    The constructor starts the Java process and returns; a thread waits for it and creates the context
    meanwhile. Threads of its own do all the talking to Spark, so that the caller's stays free for
    progress and Ctrl-C.

    Args:
        options: see ``EngineOptions``.

    Raises:
        EnvironmentFailureError: there is no usable Java, no pyspark, or the process cannot be started.
    """

    name: str = "spark"

    def __init__(self, options: EngineOptions) -> None:
        self.options = options
        self._closed = False
        self._private = is_private(master_of(options))
        java = find_java(os.environ, launcher=not self._private)
        self._folder = _private_folder(options)
        try:
            command = driver_command(options, java, self._folder)
            self._jvm = DriverJvm(command, self._folder, options.log_file or self._folder / "spark.log")
        except BaseException:
            shutil.rmtree(self._folder, ignore_errors=True)
            raise
        # One thread runs the jobs, the other asks how far they are.
        self._threads = ThreadPoolExecutor(2, thread_name_prefix="rmqtool-spark")
        self._started: Future[Session] = self._threads.submit(
            _open_session, self._jvm, worker_python(options)
        )
        atexit.register(self.close)

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
            session = self._started.result()
            job = self._threads.submit(session.run, function, items)
            self._follow(job, session, progress)
        except KeyboardInterrupt:  # Spark hands over the results of a job in one piece, or none
            self.close()
            raise MapInterruptedError({}) from None
        except BaseException:  # progress raised: nobody waits for the job any more
            self.close()
            raise
        results = self._results(job)
        if progress is not None:
            progress(len(items))
        return results

    def close(self) -> None:
        """End the Java process and its workers, and remove their files."""
        if self._closed:
            return
        self._closed = True
        atexit.unregister(self.close)
        self._jvm.close(0 if self._private else _CLUSTER_GRACE_S)
        self._threads.shutdown()  # what it waited for has ended
        if self._started.exception() is None:
            self._started.result().close()
        shutil.rmtree(self._folder, ignore_errors=True)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _follow(self, job: Future[list[R]], session: Session, progress: Callable[[int], None] | None) -> None:
        """Wait for the job and report completed tasks on the way."""
        reported = 0
        while not wait([job], None if progress is None else _PROGRESS_POLL_S).done:
            asked = self._threads.submit(session.completed_tasks)
            either: list[Future[Any]] = [job, asked]
            wait(either, return_when=FIRST_COMPLETED)
            if progress is not None and asked.done() and asked.result() > reported:
                progress(reported := asked.result())

    def _results(self, job: Future[list[R]]) -> list[R]:
        try:
            return job.result()
        except EngineError as error:
            if self._jvm.running:
                raise
            raise EngineError(
                f"Spark's Java process ended during the work{self._jvm.complaint()}", error.remote_traceback
            ) from error


def _private_folder(options: EngineOptions) -> Path:
    """Make the folder for all that the driver writes, inside the user's ``spark.local.dir`` if given."""
    parent = options.spark_conf.get("spark.local.dir", "").split(",")[0] or None
    try:
        return Path(tempfile.mkdtemp(prefix="rmqtool-spark-", dir=parent)).resolve()
    except OSError as error:
        raise EnvironmentFailureError(f"Spark has no place for temporary files: {error}") from error


def _open_session(jvm: DriverJvm, python: str) -> Session:
    """Wait for the driver and create the context; runs in the engine's thread."""
    # Imported while Java starts, and only then.
    from rmqtool.engine.spark_session import Session

    return Session(jvm.address(), python)
