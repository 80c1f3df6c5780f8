"""Faults at many instants: a result is whole and right, or there is none, and nothing else is left."""

from __future__ import annotations

import json
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
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import rmqtool
from rmqtool.engine import EngineOptions
from rmqtool.engine.choice import open_engine
from rmqtool.errors import RmqtoolError
from tests.builders import read_result
from tests.engine.cluster import REPOSITORY, SETTINGS, Cluster, can_have_views, in_a_view, required_java
from tests.store.fixture_stores import fixture

if TYPE_CHECKING:
    from collections.abc import Iterator


pytestmark = [pytest.mark.spark, pytest.mark.soak]

SEED = 13
INSTANTS = int(os.environ.get("RMQTOOL_FAULTS", "2"))
"""Of each test; 50 have been tried."""
PATIENCE_S = 300
STOPPED_S = 2.0
"""How long a straggler stands still; speculation has it overtaken."""

WORKERS = ("one", "two")
FAULTS = {
    "worker": "",
    "straggler": "pyspark.daemon",
    "python": "pyspark.daemon",
    "executor": "CoarseGrainedExecutorBackend",
}
"""What is killed, by a part of its command line: executors with all their tasks, or Python workers alone; or
stopped for a while. A worker of Spark's is known by its name, and takes its executors with it."""


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    java = required_java()
    cluster = Cluster(java, tmp_path_factory.mktemp("faults"))
    try:
        cluster.start_master()
        for name in WORKERS:
            cluster.add_worker(name)
        yield cluster
    finally:
        cluster.stop()


def make_fault(cluster: Cluster, worker: str, fault: str) -> None:
    """Kill the newest process of a kind; Python's daemon has forked the workers, which are newer."""
    if fault == "worker":
        cluster.kill(worker)
        return
    found = [pid for pid, command in cluster.below(worker) if FAULTS[fault] in command]
    with suppress(ProcessLookupError):
        for pid in found[-1:]:
            os.kill(pid, signal.SIGSTOP if fault == "straggler" else signal.SIGKILL)
    if fault == "straggler":
        time.sleep(STOPPED_S)
        with suppress(ProcessLookupError):
            for pid in found[-1:]:
                os.kill(pid, signal.SIGCONT)


def test_a_rebuild_is_whole_or_nothing(cluster: Cluster, tmp_path: Path) -> None:
    chance, outcomes = random.Random(SEED), Counter[str]()
    store, shared = rmqtool.open(fixture("plain-5.5.1")), tmp_path / "shared"
    store.rebuild(tmp_path / "expected")
    expected = read_result(tmp_path / "expected")
    conf = SETTINGS | {"spark.speculation": "true", "spark.speculation.interval": "50ms"}
    with open_engine(EngineOptions("spark", master=cluster.master, spark_conf=conf)) as engine:
        store.rebuild(shared / "first", engine=engine)
        begun = time.monotonic()
        store.rebuild(shared / "second", engine=engine)
        usual_s = time.monotonic() - begun
        for name in ("first", "second"):
            assert read_result(shared / name) == expected
            shutil.rmtree(shared / name)
        faults = [[*FAULTS][number % len(FAULTS)] for number in range(INSTANTS)]
        for fault in faults:
            worker = chance.choice(WORKERS)
            timer = threading.Timer(chance.uniform(0, usual_s), make_fault, (cluster, worker, fault))
            timer.start()
            try:
                store.rebuild(shared / "out", engine=engine)
            except RmqtoolError as failure:
                outcomes[f"{fault}: {failure}"] += 1
            else:
                outcomes[f"{fault}: whole"] += 1
                assert read_result(shared / "out") == expected
                shutil.rmtree(shared / "out")
            timer.join()
            assert [*shared.iterdir()] == []
            if fault == "worker":
                cluster.add_worker(worker)
    print(dict(outcomes))  # noqa: T201 - with -s: how many instants there were
    assert sum(outcomes.values()) == INSTANTS


@pytest.mark.skipif(not can_have_views(), reason="this user may mount nothing")
def test_a_full_disk_leaves_nothing(tmp_path: Path) -> None:
    """Of the output, or of what tasks hand to each other."""
    command = [sys.executable, "-m", "tests.engine.full_disk", str(tmp_path), str(INSTANTS)]
    done = subprocess.run(
        [*in_a_view(f"mount -t tmpfs none {tmp_path}"), *command],
        cwd=REPOSITORY,
        capture_output=True,
        text=True,
        timeout=PATIENCE_S + 20 * INSTANTS,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    print(done.stdout)  # noqa: T201 - with -s: how many instants there were
    outcomes = json.loads(done.stdout)
    assert sum(outcomes.values()) == 2 * INSTANTS
    endings = {"no space", "whole"}
    assert {one.partition(": ")[2] for one in outcomes} <= endings


@pytest.mark.parametrize("instant", range(-(-INSTANTS // 5)))
def test_a_killed_command_leaves_no_process_and_nothing_that_counts(
    cluster: Cluster, tmp_path: Path, instant: int
) -> None:
    """What is left in the output's directory, and of temporary files, goes away with the next run.

    A Java process that was just starting may still write its address, and ends: its secret opens nothing.
    """
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
    while [*_processes_with(temporary)]:
        assert time.monotonic() < deadline
        time.sleep(0.05)
    subprocess.run(
        command, cwd=REPOSITORY, env=environment, check=True, capture_output=True, timeout=PATIENCE_S
    )
    assert [path.name for path in out.parent.iterdir()] == ["out"]
    assert [*temporary.iterdir()] == []


def _processes_with(folder: Path) -> Iterator[int]:
    """Yield the processes whose environment names a folder."""
    for environ in Path("/proc").glob("[0-9]*/environ"):
        with suppress(OSError):  # it ended, or is another user's
            if os.fsencode(folder) in environ.read_bytes():
                yield int(environ.parent.name)
