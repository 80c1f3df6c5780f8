"""The contract's basics on a real standalone cluster, on loopback."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from rmqtool import ask_stores
from rmqtool.commands import fleet
from rmqtool.engine import EngineOptions
from rmqtool.engine.choice import open_engine
from rmqtool.errors import EnvironmentFailureError
from rmqtool.projection import json_object
from tests.builders import read_result
from tests.engine import tasks
from tests.engine.cluster import REPOSITORY, SETTINGS, Cluster, required_java
from tests.engine.contract import Basics

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from rmqtool import FleetReport, RebuildReport, Store, VerifyReport
    from rmqtool.engine import Engine

STORES = REPOSITORY / "fixtures" / "stores"

pytestmark = [pytest.mark.spark, pytest.mark.matrix]


@pytest.fixture(scope="module")
def master(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    java = required_java()
    cluster = Cluster(java, tmp_path_factory.mktemp("cluster"))
    try:
        url = cluster.start(cores=1)
        cluster.add_worker("Another")
        yield url
    finally:
        cluster.stop()


@pytest.fixture(scope="class")
def engine(master: str) -> Iterator[Engine]:
    with open_engine(EngineOptions("spark", master=master, spark_conf=SETTINGS)) as cluster_engine:
        yield cluster_engine


class TestOnACluster(Basics):
    """Everything in ``Basics``, and many stores in one session."""

    def test_many_stores_are_verified_and_rebuilt_as_here(
        self, engine: Engine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """By executors of two workers; one that is no store stops nothing."""
        monkeypatch.setattr(fleet, "_SMALL_BYTES", 0)  # smaller stores stay on this machine
        for name in ("plain-5.3.3", "ext-5.5.1"):
            shutil.copytree(STORES / name, tmp_path / "stores" / name)
        for name in ("stores/none", "scratch"):
            (tmp_path / name).mkdir()

        def rebuilt(name: str, working: Engine) -> FleetReport[RebuildReport]:
            def ask(store: Store, working: Engine) -> RebuildReport:
                return store.rebuild(tmp_path / name / store.path.name, engine=working)

            return ask_stores(tmp_path / "stores" / "*", ask, engine=working)

        def verified(working: Engine) -> list[Any]:
            found = ask_stores(
                tmp_path / "stores" / "*", lambda store, working: store.verify(engine=working), engine=working
            )
            return [(one.store, one.status, one.failure, one.report and steady(one.report)) for one in found]

        with open_engine(EngineOptions("local")) as local:
            rebuilt("here", local)
            here = verified(local)
        made = rebuilt("there", engine)
        monkeypatch.setattr(engine, "options", replace(engine.options, scratch=tmp_path / "scratch"))
        assert verified(engine) == here
        assert [one[1] for one in here] == [0, 3, 0]
        assert [one.report and one.report.engine for one in made] == ["spark", None, "spark"]
        files = read_result(tmp_path / "there")
        assert len(files) > 30
        assert files == read_result(tmp_path / "here")
        assert list((tmp_path / "scratch").iterdir()) == []


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


def test_many_small_stores_are_one_job_that_finds_what_is_found_here(master: str, tmp_path: Path) -> None:
    """Without ``--scratch``, as executors hand each other nothing."""
    for name in ("plain-5.3.3", "ext-5.5.1", "plain-4.9.8"):
        shutil.copytree(STORES / name, tmp_path / "stores" / name)
    damaged = tmp_path / "stores/plain-5.3.3/commitlog" / f"{8192:020d}"
    damaged.write_bytes(damaged.read_bytes()[:300])
    (tmp_path / "stores/none").mkdir()
    words = ["--engine", "spark", "--master", master]
    for name, value in SETTINGS.items():
        words += ["--spark-conf", f"{name}={value}"]
    here, there = (stores_verified(tmp_path, *more) for more in (["--engine", "local"], words))
    assert [one["exitStatus"] for one in here] == [0, 3, 0, 5]
    assert there == here


def stores_verified(folder: Path, *words: str) -> list[dict[str, Any]]:
    """Return what is said of each store, but how long it took."""
    program = [sys.executable, "-m", "rmqtool", "verify", "stores/*", "--format", "json", *words]
    done = subprocess.run(
        program,
        cwd=folder,
        env=os.environ | {"PYTHONPATH": str(REPOSITORY)},
        capture_output=True,
        check=False,
    )
    stores: list[dict[str, Any]] = json.loads(done.stdout)["stores"]
    for one in stores:
        for told in (one, one["document"] or {}):
            told.pop("seconds", None)
            told.pop("engine", None)
    return stores


def steady(report: VerifyReport) -> dict[str, Any]:
    """Return what is said of a store, but how long it took."""
    return {name: value for name, value in json_object(report).items() if name != "seconds"}


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
    del document["run"]
    return document
