"""The contract's basics on a real standalone cluster, on loopback."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import time
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from rmqtool.engine import EngineOptions, open_engine
from rmqtool.engine.spark_java import find_java
from rmqtool.errors import EnvironmentFailureError
from tests.engine import tasks
from tests.engine.contract import Basics

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rmqtool.engine import Engine
    from rmqtool.engine.spark_java import Java

REPOSITORY = Path(__file__).parents[2]
STORES = REPOSITORY / "fixtures" / "stores"
START_TIMEOUT_S = 120

pytestmark = [pytest.mark.spark, pytest.mark.matrix]


class Cluster:
    """A master and a worker with two cores; executors run under the worker."""

    def __init__(self, java: Java, folder: Path) -> None:
        self._java = java
        self._folder = folder
        self._processes: list[subprocess.Popen[bytes]] = []

    def start(self) -> str:
        """Start both and return the master's URL."""
        spark = "org.apache.spark.deploy"
        self._run(f"{spark}.master.Master", "--host", "127.0.0.1", "--port", "0", "--webui-port", "0")
        master = self._wait_for("Master", r"Starting Spark master at (spark://\S+)")
        size = ("--cores", "2", "--memory", "1g", "--work-dir", str(self._folder / "work"))
        self._run(f"{spark}.worker.Worker", "--host", "127.0.0.1", "--webui-port", "0", *size, master)
        self._wait_for("Worker", r"(Successfully registered with master)")
        return master

    def stop(self) -> None:
        """End worker and master; the worker ends its executors."""
        for process in reversed(self._processes):
            process.terminate()
            process.wait(START_TIMEOUT_S)

    def _run(self, program: str, *arguments: str) -> None:
        spec = find_spec("pyspark")
        assert spec is not None
        assert spec.origin is not None
        home = Path(spec.origin).parent
        properties = self._folder / "log4j2.properties"
        properties.write_text(LOGGING)
        log = self._folder / program.rpartition(".")[2]
        flags = [f"-Dlog4j2.configurationFile={properties}", "--add-opens=java.base/sun.nio.ch=ALL-UNNAMED"]
        with log.open("wb") as output:
            self._processes.append(
                subprocess.Popen(
                    [self._java.executable, "-cp", f"{home}/jars/*", *flags, program, *arguments],
                    env={**os.environ, **CLUSTER_ENVIRONMENT, "SPARK_HOME": str(home)},
                    stdout=output,
                    stderr=subprocess.STDOUT,
                )
            )

    def _wait_for(self, name: str, pattern: str) -> str:
        deadline = time.monotonic() + START_TIMEOUT_S
        while not (found := re.search(pattern, (self._folder / name).read_text())):
            assert time.monotonic() < deadline, (self._folder / name).read_text()
            time.sleep(0.1)
        return found[1]


CLUSTER_ENVIRONMENT = {"SPARK_LOCAL_IP": "127.0.0.1", "SPARK_SCALA_VERSION": "2.13"}
"""As Spark's start scripts would set it."""

LOGGING = """\
rootLogger.level = info
rootLogger.appenderRef.out.ref = out
appender.out.type = Console
appender.out.name = out
appender.out.layout.type = PatternLayout
appender.out.layout.pattern = %m%n
"""


@pytest.fixture(scope="module")
def master(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    try:
        java = find_java(os.environ, launcher=True)
    except EnvironmentFailureError as error:
        pytest.skip(str(error))
    cluster = Cluster(java, tmp_path_factory.mktemp("cluster"))
    try:
        yield cluster.start()
    finally:
        cluster.stop()


SETTINGS = {
    # Executors import the tests' modules from the working tree, as they would an installed package.
    "spark.executorEnv.PYTHONPATH": str(REPOSITORY),
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
}


@pytest.fixture(scope="class")
def engine(master: str) -> Iterator[Engine]:
    with open_engine(EngineOptions("spark", master=master, spark_conf=SETTINGS)) as cluster_engine:
        yield cluster_engine


class TestOnACluster(Basics):
    """Everything in ``Basics``."""


def test_executors_without_this_python_are_told_about_in_one_sentence(master: str) -> None:
    conf = {**SETTINGS, "spark.pyspark.python": "/nowhere/python"}
    with (
        open_engine(EngineOptions("spark", master=master, spark_conf=conf)) as engine,
        pytest.raises(EnvironmentFailureError, match=r"^the executors cannot run this Python[^\n]*$"),
    ):
        engine.map(tasks.square, [1])


def test_verify_finds_what_it_finds_here(master: str, tmp_path: Path) -> None:
    """In the same order; a store named by a relative path, too. Blocks go through ``--scratch``."""
    store = shutil.copytree(STORES / "plain-5.3.3", tmp_path / "store")
    for name, place in ((f"commitlog/{8192:020d}", 300), (f"consumequeue/TopicTest/0/{0:020d}", 5)):
        data = bytearray((store / name).read_bytes())
        data[place] ^= 1
        (store / name).write_bytes(data)
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    words = ["--engine", "spark", "--master", master, "--scratch", str(scratch)]
    for name, value in SETTINGS.items():
        words += ["--spark-conf", f"{name}={value}"]
    here = verified(tmp_path)
    assert len(here["findings"]) > 2
    assert verified(tmp_path, *words) == here
    assert list(scratch.iterdir()) == []


def verified(folder: Path, *words: str) -> dict[str, Any]:
    done = subprocess.run(
        [sys.executable, "-m", "rmqtool", "verify", "store", "--format", "json", *words],
        cwd=folder,
        env=os.environ | {"PYTHONPATH": str(REPOSITORY)},
        capture_output=True,
        timeout=120,
        check=False,
    )
    assert done.returncode in {1, 5}, done.stderr
    document: dict[str, Any] = json.loads(done.stdout)
    return document
