"""``rmqtool repair`` at the command line: it shows, asks, does, and takes back."""

from __future__ import annotations

import json
import os
import pty
import shutil
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from tests.store.fixture_stores import fixture

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.runs import Run


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A store whose consumer offsets are zeros, beside a sound ``.bak``."""
    copy = shutil.copytree(fixture("plain-5.3.3"), tmp_path / "store")
    path = copy / "config" / "consumerOffset.json"
    shutil.copyfile(path, path.with_name("consumerOffset.json.bak"))
    path.write_bytes(bytes(92))
    return copy


def test_a_plan_shows_all_choices_and_changes_nothing(run: Callable[..., Run], root: Path) -> None:
    before = sorted(map(str, root.rglob("*")))
    shown = run("repair", root, "--plan")
    assert shown.status == 1
    assert "nothing is changed yet" in shown.out
    assert "config/consumerOffset.json: a broker starting now reads .bak" in shown.out
    assert "group billing in Orders/0 (0 to 12): resumes at 9; redelivers at most 3, skips none" in shown.out
    assert sorted(map(str, root.rglob("*"))) == before


def test_a_choice_that_is_due_comes_first(run: Callable[..., Run], root: Path) -> None:
    (root / "config" / "consumerOffset.json.bak").unlink()
    (root / "config" / "topics.json").write_bytes(b"x{")
    shown = run("repair", root, "--plan", "--only", "config")
    assert shown.status == 1
    first = shown.out.partition("\n")[0]
    assert "nothing is repaired before you choose the content of config/" in first
    assert "2 parts stay as they are" in first


def test_without_a_log_it_advises_what_salvage_would_not_refuse(run: Callable[..., Run], root: Path) -> None:
    shutil.rmtree(root / "commitlog")
    (root / "abort").touch()
    shown = run("repair", root, "--plan")
    assert shown.status == 5
    assert shown.out.count("restore the log from a replica or a backup, or use the replica itself") == 2
    assert "salvage" not in shown.out


def test_it_is_told_in_json(run: Callable[..., Run], root: Path) -> None:
    planned = json.loads(run("repair", root, "--plan", "--format", "json").out)
    assert (planned["schema"], planned["outcome"], planned["journal"]) == (
        "rmqtool.repair/1",
        "planned",
        None,
    )
    (config,) = planned["configs"]
    assert (config["file"], config["broker"], config["obvious"]) == (
        "config/consumerOffset.json",
        "bak",
        True,
    )
    assert [one["name"] for one in config["choices"]] == ["bak", "oldest", "newest"]
    assert config["choices"][0]["effects"][0] == {
        "reader": "group billing",
        "topic": "Orders",
        "queueId": 0,
        "offset": 9,
        "proven": 9,
        "minOffset": 0,
        "maxOffset": 12,
        "againAtLeast": 0,
        "againAtMost": 3,
        "skippedAtMost": 0,
    }
    done = json.loads(run("repair", root, "--yes", "--format", "json").out)
    assert (done["outcome"], done["journal"], done["exitStatus"]) == ("done", "rmqtool-repair-0001", 0)
    assert "CF-BACKUP" in done["before"]
    assert "CF-BACKUP" not in done["after"]


def test_done_and_undone(run: Callable[..., Run], root: Path) -> None:
    done = run("repair", root, "--yes")
    assert done.status == 0
    assert "repaired" in done.out
    assert f"rmqtool repair {root} --undo" in done.out
    assert run("verify", root, "--level", "0").status == 0
    undone = run("repair", root, "--undo")
    assert (undone.status, "taken back" in undone.out) == (0, True)
    assert (root / "config" / "consumerOffset.json").read_bytes() == bytes(92)
    assert run("repair", root, "--undo").status == 4


def test_a_remark_is_said_once(run: Callable[..., Run], tmp_path: Path) -> None:
    """The queues are rebuilt twice: for the plan, and then."""
    root = shutil.copytree(fixture("downgrade-5.3.3"), tmp_path / "store")
    shutil.rmtree(next((root / "consumequeue").glob("*/*")))
    done = run("repair", root, "--yes")
    assert "consumequeue: rebuilt from the log" in done.out
    assert done.err.count("tag index entries for to:7706: ") == 1


@pytest.mark.parametrize("words", [("--config", "consumerOffset.json"), ("--plan", "--undo")], ids=" ".join)
def test_what_makes_no_sense(run: Callable[..., Run], root: Path, words: tuple[str, ...]) -> None:
    assert run("repair", root, *words).status == 2


@pytest.mark.parametrize(
    ("answer", "status"), [(b"n\n", 1), pytest.param(b"y\n", 0, marks=pytest.mark.mutation)]
)
def test_it_asks(root: Path, answer: bytes, status: int) -> None:
    """On a terminal; without one, nothing is done that was not agreed to."""
    command = [sys.executable, "-m", "rmqtool", "repair", str(root)]
    alone = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, check=False)
    assert (alone.returncode, b"--yes" in alone.stderr) == (4, True)
    ours, theirs = pty.openpty()
    try:
        os.write(ours, answer)
        asked = subprocess.run(command, stdin=theirs, capture_output=True, check=False, timeout=300)
    finally:
        os.close(ours)
        os.close(theirs)
    assert b"Do this?" in asked.stderr
    assert asked.returncode == status
    assert (root / "rmqtool-repair-0001").exists() == (status == 0)
