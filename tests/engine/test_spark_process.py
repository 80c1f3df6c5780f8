"""The Spark engine from outside: it prints nothing and leaves nothing behind, however it ends."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
import uuid
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.engine.scenario import SLEEP_S

if TYPE_CHECKING:
    from collections.abc import Callable

REPOSITORY = Path(__file__).parents[2]

pytestmark = [
    pytest.mark.full,
    pytest.mark.spark,
    pytest.mark.skipif(not Path("/proc/self/environ").exists(), reason="needs /proc to see processes"),
]


class Scenario:
    """A running scenario and everything that it starts, known by a mark in the environment."""

    def __init__(self, way: str, folder: Path) -> None:
        self.mark = f"RMQTOOL_TEST_SCENARIO={uuid.uuid4()}"
        name, _, value = self.mark.partition("=")
        self.temporary = folder / "t"
        self.temporary.mkdir(parents=True)
        self.marks = folder / "marks"
        self.marks.mkdir()
        self.process = subprocess.Popen(
            [sys.executable, "-m", "tests.engine.scenario", way, str(self.marks)],
            cwd=REPOSITORY,
            env={
                **os.environ,
                name: value,
                "TMPDIR": str(self.temporary),
            },
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,  # a test's own process group, as a terminal gives
        )

    def finish(self) -> tuple[int, bytes, bytes]:
        """Wait for the end and return status, standard output and standard error."""
        out, err = self.process.communicate(timeout=SLEEP_S / 2)
        return self.process.returncode, out, err

    def wait_for_workers(self, count: int) -> None:
        """Wait until that many Python workers sleep in their tasks."""
        wait_until(lambda: len(list(self.marks.iterdir())) >= count, "workers have started")

    def living(self) -> list[int]:
        """Return the processes that carry the mark."""
        return [
            int(entry.parent.name) for entry in Path("/proc").glob("[0-9]*/environ") if self._is_ours(entry)
        ]

    def _is_ours(self, environ: Path) -> bool:
        try:
            return self.mark.encode() in environ.read_bytes()
        except OSError:  # ended meanwhile, or not ours to read
            return False


def wait_until(condition: Callable[[], bool], what: str, timeout_s: float = 120.0) -> None:
    deadline = time.monotonic() + timeout_s
    while not condition():
        assert time.monotonic() < deadline, f"not within {timeout_s} s: {what}"
        time.sleep(0.05)


@pytest.mark.parametrize(("way", "status"), [("succeed", 0), ("fail", 4), ("forget", 0)])
def test_nothing_is_printed_and_nothing_stays(tmp_path: Path, way: str, status: int) -> None:
    """``forget`` never closes its engine: the end of the process has to do."""
    scenario = Scenario(way, tmp_path)
    assert scenario.finish() == (status, b"", b"")
    assert scenario.living() == []
    assert list(scenario.temporary.iterdir()) == []


def test_ctrl_c_ends_everything_at_once(tmp_path: Path) -> None:
    scenario = Scenario("sleep", tmp_path)
    scenario.wait_for_workers(2)
    started = time.monotonic()
    os.killpg(scenario.process.pid, signal.SIGINT)
    assert scenario.finish() == (130, b"", b"")
    assert time.monotonic() - started < 5
    assert scenario.living() == []
    assert list(scenario.temporary.iterdir()) == []


def test_ctrl_c_while_java_starts(tmp_path: Path) -> None:
    scenario = Scenario("sleep", tmp_path)
    wait_until(lambda: len(scenario.living()) > 1, "Java has started")
    time.sleep(0.3)  # past the imports, amid the start of the session
    os.killpg(scenario.process.pid, signal.SIGINT)
    assert scenario.finish() == (130, b"", b"")
    assert scenario.living() == []
    assert list(scenario.temporary.iterdir()) == []


def test_a_killed_process_takes_java_and_workers_with_it(tmp_path: Path) -> None:
    scenario = Scenario("sleep", tmp_path)
    scenario.wait_for_workers(2)
    assert len(scenario.living()) >= 4, "ourselves, Java, and two workers"
    scenario.process.kill()
    scenario.finish()
    wait_until(lambda: scenario.living() == [], "all processes have ended")
    assert [*scenario.temporary.rglob("gateway-address")] == [], "it holds a secret"
