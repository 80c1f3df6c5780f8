"""Faults at many instants: a result is whole and right, or there is none, and nothing else is left."""

from __future__ import annotations

import os
import random
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from contextlib import suppress
from typing import TYPE_CHECKING

import pytest

import rmqtool
from rmqtool.engine import EngineOptions, open_engine
from rmqtool.engine.spark_java import find_java
from rmqtool.errors import EnvironmentFailureError, RmqtoolError
from tests.engine.cluster import REPOSITORY, SETTINGS, Cluster
from tests.engine.test_spark_plan import files_of
from tests.store.fixture_stores import fixture

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = [pytest.mark.spark, pytest.mark.soak]

SEED = 13
INSTANTS = 50
LONGEST_S = 30.0
"""After which no further fault is made: a slow machine sees fewer."""
PATIENCE_S = 300

WORKERS = ("one", "two")
FAULTS = {"executor": "CoarseGrainedExecutorBackend", "python": "pyspark.daemon"}
"""What is killed, by a part of its command line: executors with all their tasks, or Python workers alone."""


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    try:
        java = find_java(os.environ, launcher=True)
    except EnvironmentFailureError as error:
        pytest.skip(str(error))
    cluster = Cluster(java, tmp_path_factory.mktemp("faults"))
    try:
        cluster.start_master()
        for name in WORKERS:
            cluster.add_worker(name)
        yield cluster
    finally:
        cluster.stop()


def kill_below(cluster: Cluster, worker: str, fault: str) -> None:
    """Kill the newest process of a kind; Python's daemon has forked the workers, which are newer."""
    found = [pid for pid, command in cluster.below(worker) if FAULTS[fault] in command]
    if found:
        with suppress(ProcessLookupError):
            os.kill(found[-1], signal.SIGKILL)


def test_a_rebuild_is_whole_or_nothing(cluster: Cluster, tmp_path: Path) -> None:
    chance, outcomes = random.Random(SEED), Counter[str]()
    store, shared = rmqtool.open(fixture("plain-5.5.1")), tmp_path / "shared"
    store.rebuild(tmp_path / "expected")
    expected = files_of(tmp_path / "expected")
    conf = SETTINGS | {"spark.speculation": "true", "spark.speculation.interval": "50ms"}
    start = time.monotonic()
    with open_engine(EngineOptions("spark", master=cluster.master, spark_conf=conf)) as engine:
        store.rebuild(shared / "first", engine=engine)
        assert files_of(shared / "first") == expected
        begun = time.monotonic()
        store.rebuild(shared / "second", engine=engine)
        usual_s = time.monotonic() - begun
        for name in ("first", "second"):
            shutil.rmtree(shared / name)
        for number in range(INSTANTS):
            if number and time.monotonic() - start > LONGEST_S:
                break
            fault = chance.choice(sorted(FAULTS))
            arguments = (cluster, chance.choice(WORKERS), fault)
            timer = threading.Timer(chance.uniform(0, usual_s), kill_below, arguments)
            timer.start()
            try:
                store.rebuild(shared / "out", engine=engine)
            except RmqtoolError as failure:
                outcomes[f"{fault}: {failure}"] += 1
            else:
                outcomes[f"{fault}: whole"] += 1
                assert files_of(shared / "out") == expected
                shutil.rmtree(shared / "out")
            timer.join()
            assert [*shared.iterdir()] == []
    print(dict(outcomes))  # noqa: T201 - with -s: how many instants there were
    assert outcomes


@pytest.mark.parametrize("instant", range(1))
def test_a_killed_command_leaves_no_secret_and_nothing_that_counts(
    cluster: Cluster, tmp_path: Path, instant: int
) -> None:
    """What is left in the output's directory goes away with the next run."""
    chance = random.Random(SEED + instant)
    temporary, out = tmp_path / "t", tmp_path / "shared" / "out"
    temporary.mkdir()
    words = ["rebuild", str(fixture("plain-5.5.1")), "--out", str(out), "--engine", "spark"]
    words += ["--master", cluster.master]
    words += [word for pair in SETTINGS.items() for word in ("--spark-conf", "=".join(pair))]
    command = [sys.executable, "-m", "rmqtool", *words]
    environment = os.environ | {"TMPDIR": str(temporary)}
    process = subprocess.Popen(command, cwd=REPOSITORY, env=environment, stderr=subprocess.PIPE)
    deadline = time.monotonic() + PATIENCE_S
    while not [*temporary.glob("rmqtool-spark-*")]:
        assert time.monotonic() < deadline
        time.sleep(0.05)
    time.sleep(chance.uniform(1, 10))
    process.kill()
    process.communicate()
    assert not out.exists()
    assert [*temporary.rglob("gateway-address")] == []
    subprocess.run(command, cwd=REPOSITORY, check=True, capture_output=True, timeout=PATIENCE_S)
    assert [path.name for path in out.parent.iterdir()] == ["out"]
