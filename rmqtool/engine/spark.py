"""The engine on Spark: on one of its own, on a session, under ``spark-submit``, or by Spark Connect."""

from __future__ import annotations

import atexit
import contextlib
import os
import re
import shlex
import signal
import struct
import subprocess
import time
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from rmqtool.engine import EngineError, EngineOptions
from rmqtool.engine.spark_java import ADVICE, Java, StartCache, find_java
from rmqtool.engine.spark_jobs import FrameJobs, Jobs, MappingEngine, RddJobs
from rmqtool.engine.spark_private import (
    ADDRESS_VARIABLE,
    DriverConnection,
    GatewayAddress,
    PublicSession,
    is_stopped,
    submitted_conf,
)
from rmqtool.engine.spark_settings import (
    CLUSTER_SETTINGS,
    DriverCommand,
    another_line,
    check_master,
    class_path,
    driver_command,
    driver_settings,
    is_private,
    master_of,
    worker_python,
)
from rmqtool.engine.threads import Threads, result_of
from rmqtool.errors import EnvironmentFailureError, UsageError
from rmqtool.store.results import TemporaryFolder

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from concurrent.futures import Future

    from pyspark import SparkContext


_TIMEOUT_S, _END_POLL_S = 2, 0.005


def end_processes(leader: int) -> None:
    """Kill all of a session or process group, and wait until they have ended: none may write after this."""
    deadline = time.monotonic() + _TIMEOUT_S
    while (members := list(_living_members(leader))) and time.monotonic() < deadline:
        for pid in members:
            with contextlib.suppress(ProcessLookupError):  # it has just ended
                os.kill(pid, signal.SIGKILL)
        time.sleep(_END_POLL_S)


def _living_members(leader: int) -> Iterator[int]:
    """Yield the processes of a session or group that are not zombies; nothing without ``/proc``.

    There workers end on their own: their daemon reads a pipe from the Java process.
    """
    for entry in Path("/proc").glob("[0-9]*/stat"):
        try:
            text = entry.read_text(errors="replace")
        except OSError:  # it ended while we looked
            continue
        # The fields after the command's name, which may hold anything: state, parent, group, session.
        state, _, group, session = text.rpartition(")")[2].split()[:4]
        if leader in {int(group), int(session)} and state != "Z":
            yield int(entry.parent.name)


_POLL_S = 0.005
_START_TIMEOUT_S = 180
_LONGEST_QUOTE = 300


class DriverJvm:
    """The driver's Java process; the constructor starts it and does not wait.

    It reads a pipe that only we hold open, and exits at its end, so it never outlives us. It leads a session
    of its own, so that Ctrl-C in the terminal does not reach it, and so that its Python workers can be found
    and ended with it, however deep they are.

    ``folder`` is a private one for the address file; output is appended to ``log_path``. Raises
    `EnvironmentFailureError` if it cannot be started, or the log cannot be written.
    """

    def __init__(self, command: DriverCommand, folder: Path, log_path: Path) -> None:
        self._log_path = log_path
        self._program = command.arguments[0]
        self._address_path = folder / "gateway-address"
        environment = {**command.environment, ADDRESS_VARIABLE: str(self._address_path)}
        try:
            with log_path.open("ab") as log:
                self._log_start = log.tell()
                self._process = subprocess.Popen(
                    command.arguments,
                    env=environment,
                    stdin=subprocess.PIPE,
                    stdout=log,
                    stderr=log,
                    start_new_session=True,
                )
        except OSError as error:
            raise EnvironmentFailureError(f"Spark could not be started ({error}): {ADVICE}") from error

    def address(self) -> GatewayAddress:
        """Wait until the process listens, and return its address.

        Spark writes a big-endian int32 port, an int32 length and the secret into a file
        (``PythonGatewayServer``, 4.3). Raises `EnvironmentFailureError` if the process ended, or took
        minutes.
        """
        deadline = time.monotonic() + _START_TIMEOUT_S
        while not self._address_path.exists():
            if self._process.poll() is not None or time.monotonic() > deadline:
                raise EnvironmentFailureError(
                    f"Spark did not start with {self._program}{self.complaint()}: {ADVICE}"
                )
            time.sleep(_POLL_S)
        port, length = struct.unpack_from(">ii", content := self._address_path.read_bytes())
        self._address_path.unlink()  # no file may keep the secret, however this process ends
        return GatewayAddress(port, content[8 : 8 + length].decode())

    @property
    def running(self) -> bool:
        """Whether the process lives."""
        return self._process.poll() is None

    def output(self) -> str:
        """Return the output of the process so far."""
        with self._log_path.open("rb") as log:
            log.seek(self._log_start)
            return log.read().decode(errors="replace")

    def complaint(self) -> str:
        """Quote the first error of the process's output, else its last line, in parentheses; may be empty."""
        lines = [line.strip() for line in self.output().splitlines()]
        lines = [line for line in lines if line and " WARN " not in line]  # Spark always has some
        complaint = next((line for line in lines if re.search(r"error|exception", line, re.IGNORECASE)), None)
        quote = complaint or (lines[-1] if lines else "")
        return f" ({quote[:_LONGEST_QUOTE]})" if quote else ""

    def close(self, grace_s: float) -> None:
        """End the process and its workers; ``grace_s`` seconds let a cluster's master be informed."""
        if self._process.stdin is not None:
            self._process.stdin.close()
        if grace_s:
            with contextlib.suppress(
                subprocess.TimeoutExpired
            ):  # then it is ended by force, like everything else
                self._process.wait(grace_s)
        if self._process.returncode is None:
            self._process.kill()
        end_processes(self._process.pid)
        self._process.wait()


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
        return result_of(self._started).jobs

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


HOW_TO_GET_CONNECT = "pip install 'rmqtool[connect]'"
REMOTE = "sc://"
"""Beginning of the URL of a server of Spark Connect."""
_RETRIES = {"max_retries": 8, "max_backoff": 5000}
"""Half a minute for a server that does not answer; pyspark's default is more than ten."""
_GATEWAY = ("PYSPARK_GATEWAY_PORT", "PYSPARK_GATEWAY_SECRET")
"""Variables by which ``spark-submit`` passes the port of its driver to the application."""


def is_submitted(environment: Mapping[str, str]) -> bool:
    """Return whether ``spark-submit`` has started this process; its Spark is used then."""
    return all(environment.get(name) for name in _GATEWAY)


def is_session(thing: object) -> bool:
    """Return whether a thing is a session or context of pyspark's, of any kind; nothing is imported."""
    names = {(base.__module__.partition(".")[0], base.__name__) for base in type(thing).__mro__}
    return bool(names & {("pyspark", "SparkSession"), ("pyspark", "SparkContext")})


class LiveSparkEngine(MappingEngine):
    """Engine on an open ``SparkSession``, also of Spark Connect, or ``SparkContext``, which stays open.

    An abandoned map is cancelled by its job group: other jobs of the session go on. Of the options, only
    ``scratch`` counts. Raises `UsageError` if the session is stopped.
    """

    def __init__(self, session: Any, options: EngineOptions | None = None) -> None:  # noqa: ANN401 - pyspark's
        self._runner, master = _jobs_of(session)
        super().__init__(replace(options or EngineOptions("spark"), master=master))

    def close(self) -> None:
        """Refuse further work; the session stays open."""
        if not self._closed:
            self._closed = True
            self._threads.shutdown()

    def _jobs(self) -> Jobs:
        return self._runner

    def _abandon(self) -> None:
        self._runner.cancel()


def submitted_engine(options: EngineOptions) -> LiveSparkEngine:
    """Return an engine on the Spark of ``spark-submit``; `UsageError` if the options name another."""
    if options.master or options.spark_conf:
        raise UsageError(
            "spark-submit has set the master and Spark's settings: pass them to spark-submit, not as "
            "--master and --spark-conf"
        )
    # In a thread, because in the main one pyspark would replace the handler of Ctrl-C.
    with Threads(1) as thread:
        context = result_of(thread.submit(_submitted_context))
    return LiveSparkEngine(context, options)


def _submitted_context() -> SparkContext:
    from pyspark import SparkContext

    conf = submitted_conf()
    for name, value in {"spark.app.name": "rmqtool", **CLUSTER_SETTINGS}.items():
        conf.setIfMissing(name, value)
    return SparkContext.getOrCreate(conf)


def _jobs_of(session: Any) -> tuple[Jobs, str]:  # noqa: ANN401 - pyspark's
    context = session if type(session).__name__ == "SparkContext" else getattr(session, "sparkContext", None)
    if session.is_stopped if context is None else is_stopped(context):
        raise UsageError("that Spark session has been stopped: pass an open one, or engine='local'")
    if context is None:
        return FrameJobs(session), REMOTE
    return RddJobs(context), context.master


class ConnectEngine(LiveSparkEngine):
    """Engine of tasks on a cluster, through a server of Spark Connect; no Java runs here.

    The settings are those that a session may have.

    Raises:
        UsageError: jobs are given, which the server's cluster decides.
        EnvironmentFailureError: Spark Connect's packages are not installed, no server answers, or the server
            rejects a setting.
    """

    def __init__(self, options: EngineOptions) -> None:
        if options.jobs is not None:
            raise UsageError("--jobs does not apply to Spark Connect: the server's cluster has its own cores")
        url = master_of(options)
        check_master(url, options.spark_conf, os.environ)
        self._session = _connected_session(url, options)
        super().__init__(self._session, options)

    def close(self) -> None:
        """Release the session, which ends what still runs in it."""
        if not self._closed:
            super().close()
            self._session.stop()


def _connected_session(url: str, options: EngineOptions) -> Any:  # noqa: ANN401 - pyspark's
    try:
        from pyspark.sql.connect.client.retries import DefaultPolicy
        from pyspark.sql.connect.session import SparkSession
    except ImportError as error:
        raise EnvironmentFailureError(
            f"Spark Connect is not installed ({error}): {HOW_TO_GET_CONNECT} adds it"
        ) from error
    from pyspark.errors import PySparkException

    try:
        session = SparkSession.builder.remote(url).create()
        session.client.set_retry_policies([DefaultPolicy(**_RETRIES)])
        str(session.version)  # the first request to the server
        for name in options.spark_conf.keys() - {"spark.master"}:
            session.conf.set(name, options.spark_conf[name])
    except PySparkException as error:
        reason = str(error).strip().partition("\n")[0]
        raise EnvironmentFailureError(f"{url} returns no session of Spark Connect ({reason})") from error
    return session
