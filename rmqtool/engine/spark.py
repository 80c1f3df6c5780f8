"""The engine on a Spark of its own: one task an item, results collected in order."""

from __future__ import annotations

import atexit
import os
from contextlib import ExitStack
from typing import TYPE_CHECKING, TypeVar

from rmqtool.engine.interface import EngineError, EngineOptions
from rmqtool.engine.spark_daemon import copied
from rmqtool.engine.spark_folder import DriverFolder
from rmqtool.engine.spark_java import find_java
from rmqtool.engine.spark_jvm import DriverJvm
from rmqtool.engine.spark_map import MappingEngine
from rmqtool.engine.spark_master import another_line, check_master
from rmqtool.engine.spark_settings import driver_command, is_private, master_of, worker_python
from rmqtool.errors import EnvironmentFailureError

if TYPE_CHECKING:
    from concurrent.futures import Future

    from rmqtool.engine.spark_jobs import Jobs
    from rmqtool.engine.spark_jvm import GatewayAddress
    from rmqtool.engine.spark_session import Session

R = TypeVar("R")

_CLUSTER_GRACE_S = 10.0
_UNREGISTERED = "All masters are unresponsive"
"""In the log of a driver that could connect, but got no answer for a minute (``StandaloneAppClient``)."""


class SparkEngine(MappingEngine):
    """Run items as tasks of a Spark whose driver is a Java process of ours.

    The constructor starts the Java process, imports what its workers need, and returns; a thread waits for
    the process, and creates the context.

    Args:
        options: see ``EngineOptions``.
        grace_s: seconds that Java has for an orderly end; by default a cluster's driver has some.

    Raises:
        EnvironmentFailureError: there is no usable Java, no pyspark, no master, or the process cannot be
            started.
    """

    def __init__(self, options: EngineOptions, grace_s: float | None = None) -> None:
        master = master_of(options)
        private = is_private(master)
        if not private:
            check_master(master, options.spark_conf, os.environ)
        self._grace_s = (0 if private else _CLUSTER_GRACE_S) if grace_s is None else grace_s
        java = find_java(os.environ, launcher=not private)
        super().__init__(options)
        with ExitStack() as undone:
            self._folder = DriverFolder(options.spark_conf)
            undone.callback(self._folder.remove)
            folder = self._folder.path
            command = driver_command(options, java, folder)
            self._jvm = DriverJvm(command, folder, options.log_file or folder / "spark.log")
            undone.callback(self._jvm.close, 0)
            self._twin = copied(folder) if private else None  # while Java starts
            undone.pop_all()
        # At once, beside all that is imported: where the address lies, nobody else needs to find a secret.
        address = self._threads.submit(self._jvm.address)
        self._started: Future[Session] = self._threads.submit(_open_session, address, worker_python(options))
        atexit.register(self.close)

    def close(self) -> None:
        """End the Java process and its workers, and remove their files."""
        if self._closed:
            return
        self._closed = True
        atexit.unregister(self.close)
        self._jvm.close(self._grace_s)
        if self._twin is not None:
            self._twin.close()
        self._threads.shutdown()  # what it waited for has ended
        if self._started.exception() is None:
            self._started.result().close()
        self._folder.remove()

    def _jobs(self) -> Jobs:
        return self._started.result().jobs

    def _abandon(self) -> None:
        self.close()

    def _results(self, job: Future[list[R]]) -> list[R]:
        try:
            return job.result()
        except EngineError as error:
            if _UNREGISTERED in self._jvm.output():
                raise EnvironmentFailureError(another_line(master_of(self.options))) from error
            if self._jvm.running:
                raise
            raise EngineError(
                f"Spark's Java process ended during the work{self._jvm.complaint()}", error.remote_traceback
            ) from error


def _open_session(address: Future[GatewayAddress], python: str) -> Session:
    """Wait for the driver and create the context; runs in the engine's thread."""
    # Imported while Java starts, and only then.
    from rmqtool.engine.spark_session import Session

    return Session(address.result(), python)
