"""Sessions that are somebody else's, and what is said of those that cannot be used."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import pytest

import rmqtool
from rmqtool.engine import EngineOptions, live_engine, open_engine
from rmqtool.engine.spark_live import is_session
from rmqtool.errors import UsageError
from tests.engine import tasks
from tests.engine.test_spark_plan import files_of
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


def test_a_session_of_spark_connect_is_refused() -> None:
    store = rmqtool.open(fixture("plain-5.5.1"))
    with pytest.raises(UsageError, match="Spark Connect"):
        store.verify(engine=SparkSession())  # type: ignore[arg-type]


def test_what_is_no_engine_is_named() -> None:
    store = rmqtool.open(fixture("plain-5.5.1"))
    with pytest.raises(UsageError, match=r"^list is no engine: give 'local'"):
        store.verify(engine=[])  # type: ignore[arg-type]


def test_settings_of_a_live_session_are_its_own() -> None:
    with pytest.raises(UsageError, match="those of the Spark session"):
        rmqtool.open_engine(SparkSession(), jobs=2)  # type: ignore[arg-type]


def test_under_spark_submit_master_and_settings_are_given_there(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYSPARK_GATEWAY_PORT", "1")
    monkeypatch.setenv("PYSPARK_GATEWAY_SECRET", "x")
    with pytest.raises(UsageError, match=r"^spark-submit has set the master"):
        open_engine(EngineOptions("spark", master="local"))


@pytest.mark.full
@pytest.mark.spark
def test_a_live_session_is_an_engine_and_stays_open(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from pyspark.sql import SparkSession as Builder

    monkeypatch.setenv("PYSPARK_PYTHON", sys.executable)
    session = Builder.builder.master("local[2]").config("spark.ui.enabled", "false").getOrCreate()
    try:
        store = rmqtool.open(fixture("plain-5.5.1"))
        store.rebuild(tmp_path / "here")
        store.rebuild(tmp_path / "there", engine=session)
        assert files_of(tmp_path / "there") == files_of(tmp_path / "here") != {}
        with rmqtool.open_engine(session, scratch=tmp_path) as engine:
            assert store.verify(engine=engine).exit_status() == store.verify().exit_status()
            with pytest.raises(KeyboardInterrupt):
                engine.map(tasks.slow_square, range(200), interrupt)
            assert engine.map(tasks.square, [3]) == [9]
        assert session.sparkContext.parallelize([1, 2]).sum() == 3
    finally:
        session.stop()
    with pytest.raises(UsageError, match="has been stopped"):
        rmqtool.open_engine(session)


def interrupt(completed: int) -> None:
    raise KeyboardInterrupt(completed)
