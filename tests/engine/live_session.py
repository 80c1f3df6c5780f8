"""A live session as an engine, in a process of its own: pyspark keeps its Java process for good.

Run as ``python -m tests.engine.live_session FOLDER``.
"""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

import rmqtool
from rmqtool.errors import UsageError
from tests.builders import read_result
from tests.engine import tasks
from tests.store.fixture_stores import fixture


def main(folder: Path) -> None:
    session = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false").getOrCreate()
    store = rmqtool.open(fixture("plain-5.5.1"))
    store.rebuild(folder / "here")
    store.rebuild(folder / "there", engine=session)
    assert read_result(folder / "there") == read_result(folder / "here") != {}
    with rmqtool.open_engine(session, scratch=folder) as engine:
        assert store.verify(engine=engine).exit_status() == store.verify().exit_status()
        with pytest.raises(KeyboardInterrupt):
            engine.map(tasks.slow_square, range(200), interrupt)
        assert engine.map(tasks.square, [3]) == [9]
    assert session.sparkContext.parallelize([1, 2]).sum() == 3
    session.stop()
    with pytest.raises(UsageError, match="has been stopped"):
        rmqtool.open_engine(session)
    print("done")  # noqa: T201 - what the test waits for


def interrupt(completed: int) -> None:
    raise KeyboardInterrupt(completed)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
