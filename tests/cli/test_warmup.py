"""``warmup``: afterwards no command compiles anything."""

from __future__ import annotations

import os
import pty
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from rmqtool.kernels.jit import KERNEL_PACKAGES
from tests.cli.conftest import STORES
from tests.test_kernels import PACKAGE, kernel_modules

if TYPE_CHECKING:
    from pathlib import Path

STORE = str(STORES / "plain-5.3.3")
AS_LARGE = """
import sys
from rmqtool.cli import main
from rmqtool.commands.dump import run as dump_run
from rmqtool.commands.query import scan
dump_run.LARGE_LOG_BYTES = 0
scan.LogScan.__init__.__defaults__ = (0, 1 << 20)
sys.exit(main(sys.argv[1:]))
"""
"""A small log as a large one, which kernels walk and write as rows."""


def run(cache: Path, *words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, *words],
        env=os.environ | {"RMQTOOL_CACHE_DIR": str(cache)},
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )


def kernels(cache: Path) -> set[str]:
    return {path.name for path in cache.rglob("*.nbc")}


@pytest.mark.full
def test_every_kernel_is_in_a_room_that_is_looked_through() -> None:
    assert {path.relative_to(PACKAGE).parts[0] for path in kernel_modules()} <= {*KERNEL_PACKAGES}


@pytest.mark.soak
def test_nothing_is_compiled_afterwards(tmp_path: Path) -> None:
    done = run(tmp_path, "-m", "rmqtool", "warmup")
    assert done.returncode == 0, done.stderr
    assert str(tmp_path) in done.stdout
    assert done.stderr.startswith("compiling once, about ")
    before = kernels(tmp_path)
    assert before
    for words in (
        ("-m", "rmqtool", "rebuild", STORE, "--engine", "local", "--compare"),
        ("-m", "rmqtool", "verify", STORE, "--predict-recovery"),
        ("-m", "rmqtool", "diff", STORE, STORE),
        ("-m", "rmqtool", "export", STORE, "--out", str(tmp_path / "out")),
        ("-c", AS_LARGE, "dump", f"{STORE}/commitlog", "--format", "ndjson"),
        ("-c", AS_LARGE, "dump", STORE, "--format", "ndjson", "-t", "TopicTest", "--key", "order-1"),
        ("-c", AS_LARGE, "query", STORE, "--scan", "--topic", "TopicTest", "--key", "order-1"),
    ):
        assert run(tmp_path, *words).returncode == 0
        assert kernels(tmp_path) - before == set(), words


@pytest.mark.soak
def test_the_first_run_says_what_it_waits_for(tmp_path: Path) -> None:
    """On a terminal: in words, with a bar that moves and how long it takes."""
    terminal, inside = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, "-m", "rmqtool", "diff", STORE, STORE],
        env=os.environ | {"RMQTOOL_CACHE_DIR": str(tmp_path), "TERM": "xterm", "COLUMNS": "100"},
        stdout=subprocess.DEVNULL,
        stderr=inside,
    )
    os.close(inside)
    shown = b""
    try:
        while data := os.read(terminal, 65536):
            shown += data
    except OSError:  # the end of a terminal whose other side is closed
        assert process.wait(600) == 0
    os.close(terminal)
    text = shown.decode()
    assert "compiling once, about" in text
    assert len({one for one in range(200) if f"{one}/" in text and "kernels" in text}) > 5
