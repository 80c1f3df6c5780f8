"""Registering notices a Python that cannot plan."""

from __future__ import annotations

import sys
import warnings
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests.extra import library

library("pyspark")
pytestmark = pytest.mark.spark


class Registry:
    def __init__(self) -> None:
        self.known: list[object] = []

    def register(self, source: object) -> None:
        self.known.append(source)


def session(python: str) -> Any:  # noqa: ANN401 - what stands for pyspark's
    """Return what stands for a session of pyspark that plans with a Python."""
    kind = type("SparkSession", (SimpleNamespace,), {"__module__": "pyspark.sql.session"})
    context = SimpleNamespace(pythonExec=python, environment={})
    return kind(sparkContext=context, conf={}, dataSource=Registry())


def test_a_python_without_rmqtool_is_told_of(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As in an environment that is not activated: ``python3`` of PATH is another."""
    import rmqtool.spark

    other = tmp_path / "python3"
    other.write_text(f'#!/bin/sh\nexec {sys.executable} -I -S "$@"\n')
    other.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr("pyspark.SparkFiles.getRootDirectory", lambda: str(tmp_path / "none"))
    for python, reason in (("python3", "No module named 'rmqtool'"), ("/no/python", "there is none")):
        spark = session(python)
        with pytest.warns(RuntimeWarning, match=f"PYSPARK_PYTHON={sys.executable}") as told:
            rmqtool.spark.register(spark)
        assert reason in str(told[0].message)
        assert told[0].filename == __file__
        assert len(spark.dataSource.known) == 1


@pytest.mark.parametrize("python", [sys.executable, str(Path(sys.executable).with_name("python3"))])
def test_this_python_is_not(python: str) -> None:
    import rmqtool.spark

    spark = session(python)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        rmqtool.spark.register(spark)
    assert len(spark.dataSource.known) == 1
