"""Logs and queues in layouts that are not read: what every command answers about such a store."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING

import pytest

import rmqtool
from tests.store.fixture_stores import fixture

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.runs import Run

ASKED = [
    ["topics"],
    ["offsets"],
    ["info"],
    ["dump"],
    ["query", "--topic", "TopicTest", "--queue", "0", "--queue-offset", "0"],
    ["query", "--topic", "TopicTest", "--key", "k"],
    ["rebuild", "--dry-run"],
    ["verify"],
]


@pytest.mark.parametrize("command", ASKED, ids=" ".join)
def test_a_store_whose_only_log_is_of_dledger_is_not_judged(
    run: Callable[..., Run], command: list[str], tmp_path: Path
) -> None:
    root = tmp_path / "store"
    shutil.copytree(fixture("plain-5.3.3"), root)
    (root / "dledger-n0").mkdir()
    (root / "commitlog").rename(root / "dledger-n0" / "data")
    found = run(command[0], root, *command[1:])
    assert found.status == 3
    assert "dledger-n0" in found.out + found.err
    assert "DLedger store" in found.out + found.err


@pytest.mark.parametrize(
    "setting", ["rocksdbCQDoubleWriteEnable=true", "combineCQUseRocksdbForLmq=true"], ids=str
)
def test_a_database_of_queues_that_is_only_set_gets_no_advice_to_install(
    setting: str, tmp_path: Path
) -> None:
    store = rmqtool.open(fixture("plain-5.3.3"), properties=[setting])
    report = store.rebuild(out=tmp_path / "made", jobs=1)
    assert not report.is_installable
    assert "do not install" in report.install_hint
    assert "in that database" not in report.install_hint  # there is none
    assert "To install" not in report.install_hint
