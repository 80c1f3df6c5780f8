"""``--lost FILE``: complete or not there, and what the report says of it."""

from __future__ import annotations

import json
import re
import shutil
from typing import TYPE_CHECKING

import pytest

from tests.cli.conftest import STORES
from tests.damage.cases import load_cases
from tests.damage.running import damaged_copy

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.runs import Run


@pytest.fixture
def gap(tmp_path: Path) -> Path:
    """A store without a file of its log's middle."""
    root = tmp_path / "store"
    shutil.copytree(STORES / "plain-5.3.3", root)
    (root / "commitlog" / f"{16384:020d}").unlink()
    return root


def lines(path: Path) -> list[dict[str, object]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def test_of_a_prediction(run: Callable[..., Run], gap: Path, tmp_path: Path) -> None:
    file = tmp_path / "lost.ndjson"
    found = run("verify", gap, "--predict-recovery", "--lost", file)
    assert found.status == 5
    told = lines(file)
    assert {one["type"] for one in told} == {"lost"}
    assert re.search(f" lost +{len(told)} messages of ", found.out)
    missing = f"{len(told)} queue offsets in 8 queues have no message in the log"
    assert missing in found.out
    again = run("verify", gap, "--predict-recovery", "--lost", tmp_path / "two", "--format", "json").document
    totals = again["predictions"][0]["lostMessages"]
    assert (totals["messages"], totals["missingQueueOffsets"]) == (len(told), len(told))
    assert sum(one["messages"] for one in totals["topics"]) == len(told)
    assert {one["kind"] for one in totals["topics"]} >= {"ordinary"}
    plain = run("verify", gap, "--predict-recovery", "--format", "json").document
    assert "lostMessages" not in plain["predictions"][0]


def test_of_a_rebuild(run: Callable[..., Run], gap: Path, tmp_path: Path) -> None:
    file = tmp_path / "lost.ndjson"
    words = ("rebuild", gap, "--dry-run", "--engine", "local")
    found = run(*words, "--lost", file)
    assert found.status == 5
    told = lines(file)
    assert re.search(rf"^ lost +{len(told)} messages of ", found.out, re.MULTILINE)
    document = run(*words, "--lost", "-", "-o", tmp_path / "report", "--format", "json")
    assert [json.loads(line) for line in document.out.splitlines()] == told
    totals = json.loads((tmp_path / "report").read_text())["lostMessages"]
    assert totals["messages"] == len(told)
    assert totals["reasons"]["unreachable"] > 0


def test_what_makes_no_sense_is_told_before_any_work(
    run: Callable[..., Run], gap: Path, tmp_path: Path
) -> None:
    file = tmp_path / "lost"
    assert run("verify", gap, "--lost", file).status == 2
    assert run("verify", gap, gap, "--predict-recovery", "--lost", file).status == 2
    assert run("verify", gap, "--predict-recovery", "all", "--lost", file).status == 2
    assert run("verify", gap, "--predict-recovery", "--lost", "-").status == 2
    assert run("rebuild", gap, "--dry-run", "--engine", "local", "--lost", "-").status == 2
    assert run("rebuild", gap, "--dry-run", "--engine", "local", "--topic", "T", "--lost", file).status == 2
    assert run("verify", gap, "--predict-recovery", "--lost", gap / "lost").status == 4
    assert run("rebuild", gap, "--dry-run", "--engine", "local", "--lost", gap / "lost").status == 4
    file.write_text("mine")
    assert run("rebuild", gap, "--dry-run", "--engine", "local", "--lost", file).status == 4
    assert file.read_text() == "mine"
    assert sorted(one.name for one in tmp_path.iterdir()) == ["lost", "store"]


def test_a_run_that_fails_leaves_no_file(
    run: Callable[..., Run], gap: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not even after its first messages were told."""
    from rmqtool.account.log_losses import StoreAccount
    from rmqtool.errors import EnvironmentFailureError

    def fail(*_: object) -> None:
        raise EnvironmentFailureError("no more")

    monkeypatch.setattr(StoreAccount, "findings", fail)
    words = ("rebuild", gap, "--dry-run", "--engine", "local", "--lost", tmp_path / "lost")
    assert run(*words).status == 3
    assert [one.name for one in tmp_path.iterdir()] == ["store"]


def test_without_a_prediction_there_is_no_file(run: Callable[..., Run], tmp_path: Path) -> None:
    root = damaged_copy(next(case for case in load_cases() if case.code == "ST-ROCKSDB"), tmp_path)
    found = run("verify", root, "--predict-recovery", "--lost", tmp_path / "lost")
    assert "prediction skipped" in found.out
    assert not (tmp_path / "lost").exists()
