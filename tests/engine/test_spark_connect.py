"""Sessions of Spark Connect: the same bytes, findings and sentences by functions over DataFrames."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from functools import partial
from typing import TYPE_CHECKING, Any

import pytest

import rmqtool
import rmqtool.spark
from rmqtool.engine import EngineOptions
from rmqtool.engine.choice import open_engine
from rmqtool.errors import EnvironmentFailureError, UsageError
from tests.builders import read_result
from tests.engine import tasks
from tests.engine.cluster import REPOSITORY, required_java
from tests.engine.connect_server import connect_server
from tests.engine.contract import Basics
from tests.extra import library
from tests.store.fixture_stores import fixture

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from rmqtool.engine import Engine

STORE = "plain-5.5.1"


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    for name in ("grpc_status", "zstandard", "pandas"):
        library(name)
    java = required_java()
    with connect_server(java, tmp_path_factory.mktemp("connect")) as url:
        yield url


@pytest.fixture(scope="class")
def engine(url: str) -> Iterator[Engine]:
    with open_engine(EngineOptions("spark", master=url)) as engine:
        yield engine


@pytest.mark.spark
@pytest.mark.matrix
class TestOnConnect(Basics):
    """Everything in ``Basics``, and what DataFrames could do otherwise."""

    def test_many_items_and_large_results(self, engine: Engine) -> None:
        assert engine.map(tasks.square, range(50)) == [number * number for number in range(50)]
        arrays = engine.map(tasks.count_up, [1_000_000] * 2)
        assert [int(array[-1]) for array in arrays] == [999_999] * 2

    def test_a_task_is_tried_again(self, engine: Engine, tmp_path: Path) -> None:
        assert engine.map(partial(tasks.fail_once, tmp_path), range(3)) == [0, 1, 2]

    def test_what_is_interrupted_ends(self, engine: Engine) -> None:
        with pytest.raises(KeyboardInterrupt):
            engine.map(tasks.slow_square, range(200), interrupt)
        assert engine.map(tasks.square, [3]) == [9]


def interrupt(completed: int) -> None:
    raise KeyboardInterrupt(completed)


@pytest.fixture(scope="module")
def session(url: str) -> Iterator[Any]:
    from pyspark.sql.connect.session import SparkSession

    session = SparkSession.builder.remote(url).create()
    yield session
    session.stop()
    with pytest.raises(UsageError, match="has been stopped"):
        rmqtool.open_engine(session)


@pytest.mark.spark
@pytest.mark.matrix
class TestALiveSession:
    """What users do with a session of theirs."""

    def test_a_rebuild_gives_the_same_bytes(self, session: Any, tmp_path: Path) -> None:  # noqa: ANN401
        store = rmqtool.open(fixture(STORE))
        store.rebuild(tmp_path / "here")
        store.rebuild(tmp_path / "there", engine=session)
        assert read_result(tmp_path / "there") == read_result(tmp_path / "here") != {}

    def test_stores_are_tables(self, session: Any) -> None:  # noqa: ANN401
        rmqtool.spark.register(session)
        frame = session.read.format("rocketmq-store").load(str(fixture(STORE)))
        found = [(one.physicalOffset, one.topic, bytes(one.body)) for one in frame.collect()]
        messages = rmqtool.open(fixture(STORE)).messages()
        assert sorted(found) == sorted((one.physical_offset, one.topic, one.body) for one in messages)


@pytest.mark.spark
@pytest.mark.matrix
def test_a_command_finds_what_it_finds_here(url: str, tmp_path: Path) -> None:
    store = shutil.copytree(fixture(STORE), tmp_path / "store")
    for name, place in ((f"commitlog/{8192:020d}", 300), (f"consumequeue/TopicTest/0/{0:020d}", 5)):
        data = bytearray((store / name).read_bytes())
        data[place] ^= 1
        (store / name).write_bytes(data)
    (scratch := tmp_path / "scratch").mkdir()
    here = verified(store, "--engine", "local")
    assert len(here["findings"]) > 2
    assert verified(store, "--engine", "spark", "--master", url, "--scratch", str(scratch)) == here
    assert list(scratch.iterdir()) == []


def verified(store: Path, *words: str) -> dict[str, Any]:
    done = subprocess.run(
        [sys.executable, "-m", "rmqtool", "verify", str(store), "--format", "json", *words],
        cwd=REPOSITORY,
        capture_output=True,
        check=False,
    )
    assert done.stderr == b""
    assert done.returncode in {1, 5}
    document: dict[str, Any] = json.loads(done.stdout)
    del document["run"]
    return document


@pytest.mark.spark
def test_a_server_that_is_not_there_is_named_at_once() -> None:
    """Port 1 of loopback is nobody's."""
    with pytest.raises(EnvironmentFailureError, match=r"^no server of Spark Connect answers at sc://127"):
        open_engine(EngineOptions("spark", master="sc://127.0.0.1:1/;token=x"))


@pytest.mark.spark
def test_the_server_has_its_own_cores() -> None:
    with pytest.raises(UsageError, match="--jobs does not apply to Spark Connect"):
        open_engine(EngineOptions("spark", master="sc://127.0.0.1", jobs=2))
