"""Every line of Spark that pyproject admits gives the bytes that threads give."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from tests.engine.cluster import REPOSITORY
from tests.engine.test_spark_plan import files_of
from tests.store.fixture_stores import fixture

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = [pytest.mark.spark, pytest.mark.package]

_PATIENCE_S = 900


@pytest.mark.parametrize("release", ["4.0.5"])
def test_a_rebuild_gives_the_same_bytes(release: str, tmp_path: Path) -> None:
    """The oldest line; the newest is the one that all other tests run on. 4.1.4 and 4.2.1 passed by hand."""
    site, store = tmp_path / "site", str(fixture("plain-5.5.1"))
    install = [
        sys.executable,
        "-m",
        "pip",
        "install",
        "--quiet",
        "--target",
        str(site),
        f"pyspark=={release}",
    ]
    subprocess.run(install, check=True, capture_output=True, timeout=_PATIENCE_S)
    environment = os.environ | {"PYTHONPATH": os.pathsep.join((str(site), str(REPOSITORY)))}
    for engine in ("local", "spark"):
        words = ["rebuild", store, "--engine", engine, "--jobs", "2", "--out", str(tmp_path / engine)]
        done = subprocess.run(
            [sys.executable, "-m", "rmqtool", *words],
            cwd=tmp_path,
            env=environment,
            capture_output=True,
            text=True,
            timeout=_PATIENCE_S,
            check=False,
        )
        assert done.returncode == 0, done.stderr
    assert files_of(tmp_path / "spark") == files_of(tmp_path / "local") != {}
    seen = [sys.executable, "-c", "import pyspark; print(pyspark.__version__)"]
    told = subprocess.run(seen, env=environment, cwd=tmp_path, capture_output=True, text=True, check=True)
    assert told.stdout.strip() == release
