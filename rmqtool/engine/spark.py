"""The engine on a Spark of its own: one task an item, results collected in order."""

from __future__ import annotations

import atexit
import os
import shlex
from contextlib import ExitStack
from typing import TYPE_CHECKING, TypeVar

from rmqtool.engine.interface import EngineError, EngineOptions
from rmqtool.engine.spark_java import Java, StartCache, find_java
from rmqtool.engine.spark_jobs import Jobs, MappingEngine
from rmqtool.engine.spark_jvm import DriverJvm
from rmqtool.engine.spark_master import another_line, check_master
from rmqtool.engine.spark_settings import (
    class_path,
    driver_command,
    driver_settings,
    is_private,
    master_of,
    worker_python,
)
from rmqtool.errors import EnvironmentFailureError
from rmqtool.store.scratch import TemporaryFolder

if TYPE_CHECKING:
    from collections.abc import Mapping
    from concurrent.futures import Future
    from pathlib import Path

    from rmqtool.engine.spark_private import DriverConnection, GatewayAddress, PublicSession

R = TypeVar("R")

_PREFIX = "rmqtool-spark-"
_CLUSTER_GRACE_S = 10.0
_TRAINING_GRACE_S = 600.0
"""Seconds for the end of Java, at which it writes its cache for 20 s and more."""
_UNREGISTERED = "All masters are unresponsive"
"""In the log of a driver that could connect, but had no reply for a minute (``StandaloneAppClient``)."""


class DriverFolder(TemporaryFolder):
    """Folder inside the user's ``spark.local.dir``, if given."""

    def __init__(self, conf: Mapping[str, str]) -> None:
        try:
            super().__init__(_PREFIX, conf.get("spark.local.dir", "").split(",")[0] or None)
        except OSError as error:
            raise EnvironmentFailureError(f"Spark has no place for temporary files: {error}") from error


class SparkEngine(MappingEngine):
    """Engine of tasks on a Spark whose driver is a Java process of ours.

    The constructor starts the Java process and returns; a thread waits for the process, and creates the
    context. Where pyspark lacks a private name that this needs, the thread has it start a driver of its own.

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
            self._driver = DriverJvm(command, folder, options.log_file or folder / "spark.log")
            undone.callback(self._driver.close, 0)
            undone.pop_all()
        # At once, while modules are imported: the file with the secret is removed as soon as it is read.
        address = self._threads.submit(self._driver.address)
        self._started: Future[DriverConnection | PublicSession] = self._threads.submit(
            self._open_session, address, java
        )
        atexit.register(self.close)

    def close(self) -> None:
        """End the Java process and its workers, and remove their files."""
        if self._closed:
            return
        self._closed = True
        atexit.unregister(self.close)
        self._driver.close(self._grace_s)
        self._threads.shutdown()  # what it waited for has ended
        if self._started.exception() is None:
            self._started.result().close()
        self._folder.remove()

    def _open_session(self, address: Future[GatewayAddress], java: Java) -> DriverConnection | PublicSession:
        """Wait for the driver and create the context; runs in the engine's thread."""
        # Imported while Java starts, and only then.
        from rmqtool.engine.spark_private import DriverConnection, PublicSession, has_private_names

        python = worker_python(self.options)
        if has_private_names():
            return DriverConnection(address.result(), python)
        self._driver.close(0)
        return PublicSession(driver_settings(self.options, self._folder.path), java.home, python)

    def _jobs(self) -> Jobs:
        return self._started.result().jobs

    def _abandon(self) -> None:
        self.close()

    def _results(self, job: Future[list[R]]) -> list[R]:
        try:
            return job.result()
        except EngineError as error:
            if _UNREGISTERED in self._driver.output():
                raise EnvironmentFailureError(another_line(master_of(self.options))) from error
            if self._driver.running or self._started.result().has_own_driver:
                raise
            raise EngineError(
                f"Spark's Java process ended during the work{self._driver.complaint()}",
                error.remote_traceback,
            ) from error


def train_start() -> tuple[Path, int]:
    """Start Spark, run a map, end it in order, and return Java's cache file, and its bytes.

    Raises `EnvironmentFailureError` if no Java can be started, or it writes no such file.
    """

    def start(flag: str) -> None:
        conf = {"spark.driver.extraJavaOptions": shlex.quote(flag)}
        options = EngineOptions("spark", master="local[2]", spark_conf=conf)
        with SparkEngine(options, _TRAINING_GRACE_S) as engine:
            for _ in range(2):
                engine.map(len, ["", ""])

    java = find_java(os.environ, launcher=False)
    kept = StartCache(java, class_path({})).trained(start)
    return kept, kept.stat().st_size
