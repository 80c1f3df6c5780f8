"""The contract's basics on a real standalone cluster, on loopback."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest

from rmqtool.engine import EngineOptions, open_engine
from rmqtool.engine.spark_java import find_java
from rmqtool.errors import EnvironmentFailureError
from tests.engine import tasks
from tests.engine.cluster import REPOSITORY, SETTINGS, Cluster
from tests.engine.contract import Basics

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from rmqtool.engine import Engine

STORES = REPOSITORY / "fixtures" / "stores"

pytestmark = [pytest.mark.spark, pytest.mark.matrix]


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
