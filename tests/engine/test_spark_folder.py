"""The folder of a driver goes away with it, and that of a killed one with the next start."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING

from rmqtool.engine.spark import DriverFolder
from tests.engine.cluster import REPOSITORY

if TYPE_CHECKING:
    from pathlib import Path

_KILLED = """
import os, signal, sys
from rmqtool.engine.spark import DriverFolder
folder = DriverFolder({"spark.local.dir": sys.argv[1]})
os.kill(os.getpid(), signal.SIGKILL)
"""


def test_what_a_killed_process_leaves_is_removed(tmp_path: Path) -> None:
    (tmp_path / "rmqtool-spark-not-ours").mkdir()
    subprocess.run([sys.executable, "-c", _KILLED, str(tmp_path)], cwd=REPOSITORY, check=False)
    (dead,) = tmp_path.glob("rmqtool-spark-*/marker")
    conf = {"spark.local.dir": str(tmp_path)}
    first = DriverFolder(conf)
    assert not dead.parent.exists()
    second = DriverFolder(conf)
    assert first.path.is_dir(), "its process lives"
    for one in (first, second):
        one.remove()
        one.remove()
    assert [one.name for one in tmp_path.iterdir()] == ["rmqtool-spark-not-ours"]
