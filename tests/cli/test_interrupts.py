"""Ctrl-C and SIGTERM as real processes meet them: status 130, the report so far, nothing left behind."""

from __future__ import annotations

import csv
import io
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.cli.conftest import STORES
from tests.cli.spoiling import spoil_queue, state_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

ROOT = Path(__file__).parents[2]
LOG_BYTES = 16384
WAIT_S = 240.0


class Held:
    """A command that waits in the middle of its work."""

    def __init__(self, folder: Path, moment: str, *words: object) -> None:
        self._marks = folder / "marks"
        self.temporary = folder / "temporary"
        for path in (self._marks, self.temporary):
            path.mkdir()
        script = "from tests.cli.holding import main; main()"
        self.process = subprocess.Popen(
            [sys.executable, "-c", script, moment, str(self._marks), *map(str, words)],
            cwd=ROOT,
            env=os.environ | {"TMPDIR": str(self.temporary)},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
        )

    def end(self, how: signal.Signals = signal.SIGINT) -> tuple[int, str, str]:
        """Wait for the moment, send the signal; return status, standard output and standard error."""
        deadline = time.monotonic() + WAIT_S
        while not any(self._marks.iterdir()):
            assert self.process.poll() is None, self.process.communicate()
            assert time.monotonic() < deadline
            time.sleep(0.02)
        os.kill(self.process.pid, how)
        out, err = self.process.communicate(timeout=WAIT_S)
        assert list(self.temporary.iterdir()) == []
        assert b"Traceback" not in err
        return self.process.returncode, out.decode(), err.decode()

    def kill(self) -> None:
        self.process.kill()
        self.process.communicate()


@pytest.fixture
def held(tmp_path: Path) -> Iterator[Callable[..., Held]]:
    """Start a command that waits at a moment."""
    started: list[Held] = []

    def start(moment: str, *words: object) -> Held:
        started.append(Held(tmp_path, moment, *words))
        return started[-1]

    yield start
    for one in started:
        one.kill()


@pytest.mark.full
@pytest.mark.parametrize("jobs", [1, 2])
@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGTERM], ids=lambda how: how.name)
def test_amid_the_log(
    held: Callable[..., Held], plain_copy: Path, how: signal.Signals, jobs: int, tmp_path: Path
) -> None:
    before = state_of(plain_copy)
    reports = ["--report", f"junit:{tmp_path / 'j'}", "--manifest", f"write:{tmp_path / 'm'}"]
    run = held("log", "verify", plain_copy, "--jobs", jobs, "--format", "json", *reports)
    status, out, err = run.end(how)
    assert status == 130
    found = json.loads(out)
    assert (found["result"], found["interrupted"], found["exitStatus"]) == ("incomplete", "log", 130)
    assert 0 < found["examined"]["bytes"] < LOG_BYTES
    assert found["examined"]["records"] > 0
    assert found["examined"]["units"] == 0
    assert err.startswith("error: interrupted; ")
    assert f"not written to {tmp_path / 'j'}" in err
    assert not {"j", "m"} & {path.name for path in tmp_path.iterdir()}
    assert state_of(plain_copy) == before


@pytest.mark.full
@pytest.mark.parametrize("format_name", ["text", "json", "ndjson", "csv"])
def test_every_format_has_the_report_so_far(
    held: Callable[..., Held], plain_copy: Path, format_name: str
) -> None:
    (plain_copy / "abort").touch()
    status, out, err = held("derived", "verify", plain_copy, "--jobs", "2", "--format", format_name).end()
    assert (status, err.count("\n")) == (130, 1)
    assert "ST-ABORT" in out
    if format_name == "text":
        assert out.startswith("Interrupted: no verdict")
        assert "derived; the findings below are those until then" in out
    elif format_name == "csv":
        assert next(csv.DictReader(io.StringIO(out)))["code"] == "ST-ABORT"
    else:
        found = json.loads(out if format_name == "json" else out.splitlines()[-1])
        assert (found["result"], found["interrupted"]) == ("incomplete", "derived")
        assert found["examined"]["records"] > 0


@pytest.mark.full
def test_a_file_gets_the_report_so_far(held: Callable[..., Held], plain_copy: Path, tmp_path: Path) -> None:
    held("log", "verify", plain_copy, "--format", "json", "-o", tmp_path / "o").end()
    assert json.loads((tmp_path / "o").read_text())["result"] == "incomplete"


@pytest.mark.full
@pytest.mark.parametrize("moment", ["manifest", "prediction"])
def test_behind_the_checks(held: Callable[..., Held], plain_copy: Path, moment: str, tmp_path: Path) -> None:
    """All levels are through: their findings are there, what comes after it is not, and nothing is half."""
    spoil_queue(plain_copy)
    more = ["--manifest", f"write:{tmp_path / 'm'}", "--predict-recovery", "4.9.8"]
    baseline = tmp_path / "baseline"
    baseline.write_text('{"schema": "rmqtool.verify/1", "findings": [], "counts": {}}')
    words = ["--baseline", baseline, "--format", "json", *more]
    status, out, _ = held(moment, "verify", plain_copy, *words).end()
    found = json.loads(out)
    assert (status, found["exitStatus"], found["interrupted"]) == (130, 130, moment)
    assert found["examined"]["units"] > 0
    assert found["counts"]["CQ-DANGLING"] > 0
    assert "predictions" not in found
    assert found["baseline"]["gone"] is None
    assert (tmp_path / "m").exists() is (moment == "prediction")


@pytest.mark.full
def test_stores_behind_it_are_not_begun(held: Callable[..., Held], plain: Path, plain_copy: Path) -> None:
    status, out, _ = held("log", "verify", plain, plain_copy, "--format", "json").end()
    assert status == json.loads(out)["exitStatus"] == 130
    first, second = json.loads(out)["stores"]
    assert (first["document"]["interrupted"], first["exitStatus"]) == ("log", 130)
    assert (second["document"], second["failure"]) == (None, "interrupted before it was examined")


@pytest.mark.full
@pytest.mark.spark
@pytest.mark.parametrize("moment", ["log", "derived"])
def test_on_spark(held: Callable[..., Held], plain_copy: Path, moment: str) -> None:
    """Spark hands over a stage in one piece: only the stages before it are in the report."""
    (plain_copy / "abort").touch()
    words = ["--engine", "spark", "--jobs", "2", "--format", "json"]
    status, out, err = held(moment, "verify", plain_copy, *words).end()
    found = json.loads(out)
    assert (status, found["interrupted"], err.count("\n")) == (130, moment, 1), err
    assert "ST-ABORT" in found["counts"]
    assert bool(found["examined"]["records"]) is (moment == "derived")


@pytest.mark.full
@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP], ids=lambda how: how.name)
def test_a_rebuild_leaves_nothing(held: Callable[..., Held], how: signal.Signals, tmp_path: Path) -> None:
    out = tmp_path / "result" / "out"
    run = held("emit", "rebuild", STORES / "plain-4.9.8", "--out", out, "--engine", "local")
    status, shown, err = run.end(how)
    assert (status, shown) == (130, "")
    tag_items, *interrupted = err.splitlines()
    assert tag_items.startswith("no tag index entries: written by ")
    assert interrupted == ["error: interrupted; nothing was written"]
    assert not out.parent.exists()


def test_an_interrupt_while_libraries_are_loaded_is_no_traceback() -> None:
    """They take most of the time that a short command needs."""
    script = (
        "import sys\n"
        "class Interrupter:\n"
        "    def find_spec(self, name, path=None, target=None):\n"
        "        if name == 'click': raise KeyboardInterrupt\n"
        "sys.meta_path.insert(0, Interrupter())\n"
        "from rmqtool.cli import main\n"
        "sys.exit(main(['completion', 'bash']))\n"
    )
    done = subprocess.run([sys.executable, "-c", script], cwd=ROOT, capture_output=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (130, b"", b"")
