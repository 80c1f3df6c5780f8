"""Sessions that are somebody else's, and what is said of those that cannot be used."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

import rmqtool
from rmqtool.engine import EngineOptions
from rmqtool.engine.choice import live_engine, open_engine
from rmqtool.engine.spark import is_session
from rmqtool.errors import UsageError
from tests.engine.cluster import REPOSITORY, required_java, spark_home
from tests.store.fixture_stores import fixture

if TYPE_CHECKING:
    from pathlib import Path


class SparkSession:
    """As that of Spark Connect, which has no context."""

    __module__ = "pyspark.sql.connect.session"


def test_a_session_is_known_without_pyspark() -> None:
    assert is_session(SparkSession())
    assert not is_session("spark")
    assert live_engine(object()) is None


def test_what_is_no_engine_is_named() -> None:
    store = rmqtool.open(fixture("plain-5.5.1"))
    with pytest.raises(UsageError, match=r"^list is not an engine: pass 'local'"):
        store.verify(engine=[])  # type: ignore[arg-type]


def test_settings_of_a_live_session_are_its_own() -> None:
    with pytest.raises(UsageError, match="the given Spark session has its own"):
        rmqtool.open_engine(SparkSession(), jobs=2)  # type: ignore[arg-type]


@pytest.mark.spark
def test_under_spark_submit_master_and_settings_are_given_there(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYSPARK_GATEWAY_PORT", "1")
    monkeypatch.setenv("PYSPARK_GATEWAY_SECRET", "x")
    with pytest.raises(UsageError, match=r"^spark-submit has set the master"):
        open_engine(EngineOptions("spark", master="local"))


@pytest.mark.full
@pytest.mark.spark
def test_a_live_session_is_an_engine_and_stays_open(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "tests.engine.live_session", str(tmp_path)],
        cwd=REPOSITORY,
        env=os.environ | {"PYSPARK_PYTHON": sys.executable, "SPARK_LOCAL_IP": "127.0.0.1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stdout) == (0, "done\n"), done.stderr


@pytest.mark.full
@pytest.mark.spark
def test_a_command_runs_under_spark_submit() -> None:
    words = ["verify", str(fixture("plain-5.5.1")), "--engine", "spark", "--format", "json"]
    java = required_java()
    program = [str(spark_home() / "bin" / "spark-submit"), "--master", "local[2]"]
    own = {"PYSPARK_PYTHON": sys.executable, "JAVA_HOME": str(java.home), "SPARK_LOCAL_IP": "127.0.0.1"}
    done = subprocess.run(
        [*program, str(REPOSITORY / "rmqtool" / "__main__.py"), *words],
        env=os.environ | own,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["result"] == "clean"
