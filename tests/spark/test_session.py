"""The data source in a session of Spark."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.extra import library

REPOSITORY = Path(__file__).parents[2]


@pytest.mark.matrix
@pytest.mark.spark
def test_a_session_reads_stores_as_tables(tmp_path: Path) -> None:
    for name in ("duckdb", "pandas"):
        library(name)
    done = subprocess.run(
        [sys.executable, "-m", "tests.spark.session", str(tmp_path)],
        cwd=REPOSITORY,
        env=os.environ | {"PYSPARK_PYTHON": sys.executable, "SPARK_LOCAL_IP": "127.0.0.1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stdout) == (0, "done\n"), done.stderr
