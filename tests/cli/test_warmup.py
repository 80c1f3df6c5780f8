"""``warmup``: afterwards no command compiles anything."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from tests.cli.conftest import STORES

if TYPE_CHECKING:
    from pathlib import Path

STORE = str(STORES / "plain-5.3.3")


def run(cache: Path, *words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "rmqtool", *words],
        env=os.environ | {"RMQTOOL_CACHE_DIR": str(cache)},
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )


def kernels(cache: Path) -> set[str]:
    return {path.name for path in cache.rglob("*.nbc")}


@pytest.mark.soak
def test_nothing_is_compiled_afterwards(tmp_path: Path) -> None:
    done = run(tmp_path, "warmup")
    assert done.returncode == 0, done.stderr
    assert str(tmp_path) in done.stdout
    assert len(done.stderr.splitlines()) == 6
    before = kernels(tmp_path)
    assert before
    for words in (
        ("rebuild", STORE, "--engine", "local", "--compare"),
        ("verify", STORE, "--predict-recovery"),
        ("dump", f"{STORE}/commitlog", "--format", "ndjson"),
        ("query", STORE, "--scan", "--topic", "TopicTest", "--key", "order-1"),
    ):
        assert run(tmp_path, *words).returncode == 0
        assert kernels(tmp_path) - before == set(), words
