"""How far a dump is: json lines, or a bar where no data scrolls by."""

from __future__ import annotations

import json
import os
import pty
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.cli.conftest import STORES

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.runs import Run

ROOT = Path(__file__).parents[2]
STORE = STORES / "plain-5.3.3"


@pytest.mark.parametrize("large_log_bytes", [0, 1 << 30])
def test_stages_name_the_structures(
    run: Callable[..., Run], monkeypatch: pytest.MonkeyPatch, large_log_bytes: int
) -> None:
    monkeypatch.setattr("rmqtool.commands.dump.run.LARGE_LOG_BYTES", large_log_bytes)
    found = run("dump", STORE, "--format", "ndjson", "--progress", "json")
    told = [json.loads(line) for line in found.err.splitlines()]
    stages = {one["stage"]: one["totalBytes"] for one in told if one["type"] == "progress"}
    assert list(stages)[:2] == ["commitlog", "consumequeue"]
    assert stages["commitlog"] == sum(path.stat().st_size for path in (STORE / "commitlog").iterdir())
    assert [one for one in told if one.get("stage") == "commitlog" and one["doneBytes"] == 0]
    assert all(0 <= one["doneBytes"] <= (one["totalBytes"] or one["doneBytes"]) for one in told)


@pytest.mark.parametrize("ahead", [2, 16])
def test_the_total_of_queues_is_told_whenever_it_is_known(
    run: Callable[..., Run], monkeypatch: pytest.MonkeyPatch, ahead: int
) -> None:
    monkeypatch.setattr("rmqtool.commands.dump.derived._LISTED_AHEAD", ahead)
    found = run(
        "dump", STORE / "consumequeue", "--topic", "TopicTest", "--format", "ndjson", "--progress", "json"
    )
    told = [json.loads(line) for line in found.err.splitlines()]
    sizes = [path.stat().st_size for path in (STORE / "consumequeue" / "TopicTest").glob("*/*")]
    assert len(sizes) > 1
    assert {one["totalBytes"] for one in told} == {None, sum(sizes)}
    assert told[-1]["totalBytes"] == sum(sizes)
    assert told[-1]["doneBytes"] <= sum(sizes)


@pytest.mark.few(1)
@pytest.mark.parametrize("to_terminal", [True, False])
def test_a_bar_is_drawn_unless_rows_scroll_by(to_terminal: bool) -> None:
    ours, theirs = pty.openpty()
    words = [sys.executable, "-m", "rmqtool", "dump", str(STORE / "commitlog"), "--limit", "1"]
    process = subprocess.Popen(
        words, cwd=ROOT, stderr=theirs, stdout=theirs if to_terminal else subprocess.DEVNULL
    )
    os.close(theirs)
    seen = b""
    try:
        while data := os.read(ours, 1 << 16):
            seen += data
    except OSError:  # the other end of a terminal was closed
        pass
    finally:
        os.close(ours)
    assert process.wait(120) == 0
    assert (b"commitlog " in seen and b"\x1b[" in seen) is not to_terminal
