"""A real standalone cluster on loopback, whose workers can have a view of the file system of their own."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import time
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from rmqtool.engine.spark_java import StartCache, find_java
from rmqtool.engine.spark_settings import class_path
from rmqtool.errors import EnvironmentFailureError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rmqtool.engine.spark_java import Java

REPOSITORY = Path(__file__).parents[2]
START_TIMEOUT_S = 120


def _classes_and_cache() -> tuple[str, list[str]]:
    """Return the class path of a private driver, and Java's flags for what ``warmup --spark`` kept of it."""
    if find_spec("pyspark") is None:
        return "", []
    places = class_path({})
    try:
        java = find_java(os.environ, launcher=True)
    except EnvironmentFailureError:  # tests that need it are skipped
        return os.pathsep.join(places), []
    return os.pathsep.join(places), StartCache(java, places).flags


_CLASSES, _CACHE = _classes_and_cache()

SHORT_LIVED = shlex.join(["-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-XX:-UsePerfData", *_CACHE])
"""For Java that works for some seconds: what the better compiler makes would come too late."""

DRIVER_SETTINGS = {
    "spark.driver.extraJavaOptions": SHORT_LIVED,
    "spark.driver.extraClassPath": _CLASSES,  # first: Java takes the cache for a class path that begins so
}

SETTINGS = {
    **DRIVER_SETTINGS,
    "spark.executor.extraClassPath": _CLASSES,
    # Executors import the tests' modules from the working tree, as they would an installed package.
    "spark.executorEnv.PYTHONPATH": str(REPOSITORY),
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
}


class Cluster:
    """A master and workers; executors run under the workers, in their view of the file system.

    Args:
        java: runs them.
        folder: for their files.
    """

    def __init__(self, java: Java, folder: Path) -> None:
        self._java = java
        self._folder = folder
        self._processes: dict[str, subprocess.Popen[bytes]] = {}
        self.master = ""

    def start(self, cores: int = 2) -> str:
        """Start the master and a worker, and return the master's URL."""
        self.start_master()
        self.add_worker("Worker", cores)
        return self.master

    def start_master(self) -> str:
        """Start the master and return its URL."""
        place = ("--host", "127.0.0.1", "--port", "0", "--webui-port", "0")
        self._run("Master", "org.apache.spark.deploy.master.Master", *place)
        self.master = self._wait_for("Master", r"Starting Spark master at (spark://\S+)")
        return self.master

    def add_worker(self, name: str, cores: int = 1, view: str = "") -> None:
        """Start a worker.

        Args:
            name: of its log and its directory.
            cores: tasks at a time.
            view: a shell command that changes what it sees of the file system, and its executors.
        """
        size = ("--cores", str(cores), "--memory", "1g", "--work-dir", str(self._folder / f"work-{name}"))
        place = ("--host", "127.0.0.1", "--webui-port", "0")
        self._run(name, "org.apache.spark.deploy.worker.Worker", *place, *size, self.master, view=view)
        self._wait_for(name, r"(Successfully registered with master)")

    def kill(self, name: str) -> None:
        """Kill a worker; its executors end themselves."""
        process = self._processes.pop(name)
        process.kill()
        process.wait()

    def below(self, name: str) -> list[tuple[int, str]]:
        """Return the processes that a worker has started, with their command lines, parents first."""
        found, waiting = [], [self._processes[name].pid]
        while waiting:
            folder = Path("/proc", str(waiting.pop(0)), "task")
            with suppress(OSError):  # it ended while we looked
                children = [
                    int(word) for task in folder.glob("*/children") for word in task.read_text().split()
                ]
                waiting += children
                found += [(child, Path(f"/proc/{child}/cmdline").read_text()) for child in children]
        return found

    def stop(self) -> None:
        """End worker and master; the worker ends its executors."""
        for process in reversed(self._processes.values()):
            process.terminate()
            process.wait(START_TIMEOUT_S)

    def _run(self, name: str, program: str, *arguments: str, view: str = "") -> None:
        properties = self._folder / "log4j2.properties"
        properties.write_text(LOGGING)
        log = self._folder / name
        flags = [f"-Dlog4j2.configurationFile={properties}", "--add-opens=java.base/sun.nio.ch=ALL-UNNAMED"]
        command = [str(self._java.executable), "-cp", _CLASSES, *flags, program, *arguments]
        with log.open("wb") as output:
            self._processes[name] = subprocess.Popen(
                [*in_a_view(view), *command] if view else command,
                env={**os.environ, **CLUSTER_ENVIRONMENT, "SPARK_HOME": str(spark_home())},
                stdout=output,
                stderr=subprocess.STDOUT,
            )

    def _wait_for(self, name: str, pattern: str) -> str:
        deadline = time.monotonic() + START_TIMEOUT_S
        while not (found := re.search(pattern, (self._folder / name).read_text())):
            assert time.monotonic() < deadline, (self._folder / name).read_text()
            time.sleep(0.1)
        return found[1]


CLUSTER_ENVIRONMENT = {
    "SPARK_LOCAL_IP": "127.0.0.1",
    "SPARK_SCALA_VERSION": "2.13",
    "JAVA_TOOL_OPTIONS": SHORT_LIVED,
}
"""As Spark's start scripts would set it; executors inherit it."""

LOGGING = """\
rootLogger.level = info
rootLogger.appenderRef.out.ref = out
appender.out.type = Console
appender.out.name = out
appender.out.layout.type = PatternLayout
appender.out.layout.pattern = %m%n
"""


def required_java() -> Java:
    """Return the Java that runs Spark; a test that has none is skipped."""
    try:
        return find_java(os.environ, launcher=True)
    except EnvironmentFailureError as error:
        pytest.skip(str(error))


def require_views() -> None:
    """Skip a test where this user may have no views of the file system."""
    if not can_have_views():
        pytest.skip("this user may have no views of the file system")


def spark_home() -> Path:
    """Return where pyspark's files are."""
    spec = find_spec("pyspark")
    assert spec is not None
    assert spec.origin is not None
    return Path(spec.origin).parent


def in_a_view(change: str) -> Sequence[str]:
    """Return what begins a command line that sees the file system as a shell command has changed it."""
    user = [] if os.geteuid() == 0 else ["--map-root-user"]
    return ["unshare", *user, "--mount", "sh", "-c", f'{change} && exec "$0" "$@"']


def can_have_views() -> bool:
    """Tell whether this user may have views of the file system."""
    if shutil.which("unshare") is None:
        return False
    mount = in_a_view("mount -t tmpfs none /mnt")
    return subprocess.run([*mount, "true"], capture_output=True, check=False).returncode == 0
