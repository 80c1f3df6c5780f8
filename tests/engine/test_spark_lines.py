"""Every line of Spark that pyproject admits gives the bytes that threads give."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from tests.builders import read_result
from tests.engine.cluster import REPOSITORY
from tests.engine.test_spark_private import WITHOUT_PRIVATE_NAMES
from tests.store.fixture_stores import fixture

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = [pytest.mark.spark, pytest.mark.package]

_PATIENCE_S = 900


RELEASES = ["4.0.5"]
"""The oldest line; the newest is the one that all other tests run on. 4.1.4 and 4.2.1 passed by hand."""


@pytest.fixture(scope="module", params=RELEASES)
def environment(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Return the variables with which this Python imports another release of pyspark."""
    site = tmp_path_factory.mktemp("site")
    install = [sys.executable, "-m", "pip", "install", "--quiet", "--no-compile", "--target", str(site)]
    install.append(f"pyspark=={request.param}")
    subprocess.run(install, check=True, capture_output=True, timeout=_PATIENCE_S)
    found = os.environ | {
        "PYTHONPATH": os.pathsep.join((str(site), str(REPOSITORY))),
        "PYSPARK_PYTHON": sys.executable,
        "SPARK_LOCAL_IP": "127.0.0.1",
    }
    told = run(["-c", "import pyspark; print(pyspark.__version__)"], found, site)
    assert told.stdout.strip() == request.param
    return found


def run(words: list[str], environment: dict[str, str], folder: Path) -> subprocess.CompletedProcess[str]:
    done = subprocess.run(
        [sys.executable, *words],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        timeout=_PATIENCE_S,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done


def test_the_private_names_are_there_and_can_be_done_without(
    environment: dict[str, str], tmp_path: Path
) -> None:
    assert run(["-c", WITHOUT_PRIVATE_NAMES], environment, tmp_path).stdout == "[0, 2]\n[0, 2]\n"


def test_a_rebuild_gives_the_same_bytes(environment: dict[str, str], tmp_path: Path) -> None:
    for engine in ("local", "spark"):
        words = ["-m", "rmqtool", "rebuild", str(fixture("plain-5.5.1")), "--engine", engine, "--jobs", "2"]
        run([*words, "--out", str(tmp_path / engine)], environment, tmp_path)
    assert read_result(tmp_path / "spark") == read_result(tmp_path / "local") != {}


def test_stores_are_tables(environment: dict[str, str], tmp_path: Path) -> None:
    """Also filtered while they are read, and in batches of some bytes, where the line has that."""
    assert run(["-m", "tests.spark.line", str(tmp_path)], environment, tmp_path).stdout == "done\n"
