"""Copies of a process that take over from another one."""

from __future__ import annotations

import subprocess
import sys
import threading
from pathlib import Path

import pytest

from rmqtool.engine.spark_twin import ADDRESS, can_be_copied, hand_over
from tests.engine.cluster import REPOSITORY

pytestmark = pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="needs /proc to see threads")


def test_a_twin_takes_over_pipes_arguments_and_environment(tmp_path: Path) -> None:
    words = [sys.executable, "-m", "tests.engine.twins", "copy", str(tmp_path)]
    done = subprocess.run(words, cwd=REPOSITORY, capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_a_process_with_threads_is_not_copied() -> None:
    done = threading.Event()
    thread = threading.Thread(target=done.wait)
    thread.start()
    assert not can_be_copied()
    done.set()
    thread.join()


def test_nothing_is_handed_over_where_there_is_no_twin(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv(ADDRESS, raising=False)
    assert not hand_over()
    monkeypatch.setenv(ADDRESS, str(tmp_path / "gone"))
    assert not hand_over()
