"""The private names of pyspark: all are there, and a session comes about without them."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tests.engine.cluster import REPOSITORY

pytestmark = pytest.mark.spark

WITHOUT_PRIVATE_NAMES = """
from rmqtool.engine import EngineOptions, spark_private
from rmqtool.engine.choice import open_engine
assert spark_private.has_private_names()
spark_private.has_private_names = lambda: False
for _ in range(2):
    with open_engine(EngineOptions("spark", jobs=2)) as engine:
        print(engine.map(len, ["", "ab"]))
        assert type(engine._started.result()) is spark_private.PublicSession
"""
"""For a process of its own: pyspark keeps the driver that it starts until the end."""


def test_spark_starts_by_its_public_builder() -> None:
    done = subprocess.run(
        [sys.executable, "-c", WITHOUT_PRIVATE_NAMES],
        cwd=REPOSITORY,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert (done.returncode, done.stdout) == (0, "[0, 2]\n[0, 2]\n"), done.stderr
