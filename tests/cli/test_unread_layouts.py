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
    ["salvage", "--plan", "plan.json"],
    ["diff", fixture("plain-5.3.3")],
    ["verify"],
]


@pytest.mark.parametrize("command", ASKED, ids=lambda words: words[0])
def test_a_store_whose_only_log_is_of_dledger_is_not_judged(
    run: Callable[..., Run], command: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    root = tmp_path / "store"
    shutil.copytree(fixture("plain-5.3.3"), root)
    (root / "dledger-n0").mkdir()
    shutil.copytree(root / "commitlog", root / "dledger-n1" / "data")  # nothing says which member's it is
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


def test_a_log_that_was_converted_to_dledger_does_not_show_that_a_message_is_nowhere(
    run: Callable[..., Run], tmp_path: Path
) -> None:
    """Its older part is found in ``commitlog/``; what is not there may be in the other."""
    root = tmp_path / "store"
    shutil.copytree(fixture("plain-5.3.3"), root)
    shutil.copytree(root / "commitlog", root / "dledger-n0" / "data")
    place = ["--topic", "TopicTest", "--queue", "0", "--queue-offset", "0"]
    assert run("query", root, *place).status == 0
    assert run("query", root, "--topic", "TopicTest", "--key", "unknown").status == 3
    compared = run("diff", root, root)
    assert compared.status == 3
    assert compared.out.startswith("No verdict, not all of it was read")


def test_the_second_of_several_log_directories_lacks_no_expired_messages(
    run: Callable[..., Run], tmp_path: Path
) -> None:
    """It begins with the log's second file, and that is no damage."""
    root = tmp_path / "store"
    shutil.copytree(fixture("plain-5.3.3"), root)
    for file in sorted((root / "commitlog").iterdir())[::2]:
        file.unlink()
    found = run("verify", root, "--format", "json")
    assert found.status == 3
    counts = found.document["counts"]
    assert counts["ST-ONE-PATH"] == 1
    assert "CL-EXPIRED" not in counts


@pytest.mark.parametrize(("paths", "is_part"), [(3, True), (2, False), (1, False)])
def test_two_files_of_one_of_several_log_directories_have_no_gap(
    run: Callable[..., Run], paths: int, tmp_path: Path, *, is_part: bool
) -> None:
    """One gap shows no stride; that of as many directories as the settings name does."""
    root = tmp_path / "store"
    shutil.copytree(fixture("plain-5.3.3"), root)
    for number, file in enumerate(sorted((root / "commitlog").iterdir())):
        if number not in {0, 3}:
            file.unlink()
    conf = tmp_path / "broker.conf"
    conf.write_text(
        f"storePathRootDir=/live\nstorePathCommitLog={','.join(f'/disk{one}' for one in range(paths))}\n"
    )
    counts = run("verify", root, "-c", conf, "--format", "json").document["counts"]
    assert ("ST-ONE-PATH" in counts) == is_part
    assert ("CL-GAP" in counts) != is_part


def test_a_salvage_without_the_database_of_queues_does_not_say_that_nothing_was_lost(
    run: Callable[..., Run], tmp_path: Path
) -> None:
    """The queues alone prove what the log's last file held, and they are in the database."""
    root = tmp_path / "store"
    shutil.copytree(fixture("plain-5.3.3"), root)
    for name in ("consumequeue", "index"):
        shutil.rmtree(root / name)
    (root / "consumequeue").mkdir()
    for name in ("CURRENT", "MANIFEST-000005", "000012.sst"):
        (root / "consumequeue" / name).write_text("MANIFEST-000005")
    max((root / "commitlog").iterdir()).unlink()
    said = run("salvage", root, "--plan", tmp_path / "plan.json").out
    assert "Nothing was lost" not in said
    assert "144 records recovered; no message is proven to be lost" in said
    assert "RocksDB instead of files" in said
