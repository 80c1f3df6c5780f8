"""Sizes that damaged or foreign files speak against are said to be in doubt, and nothing rests on them."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING

import pytest

from rmqtool.cli import main
from rmqtool.errors import ExitStatus
from rmqtool.projection import json_object
from rmqtool.store import open_store
from tests.commands.rebuilding import Listener, rebuild_store
from tests.damage.doubts import mutated, with_foreign_file, wrong_sizes
from tests.damage.running import ONE_THREAD
from tests.store.fixture_stores import STORE_ROOTS, fixture

if TYPE_CHECKING:
    from pathlib import Path

STORES = ("plain-5.3.3", "indexroll-4.9.8", "segments-5.3.3", "lmq-5.3.3", "expiredhead-4.9.8")
by_name = pytest.mark.parametrize("root", STORE_ROOTS, ids=lambda root: root.name)


UNTOLD = {"indexempty-4.9.8", "indexempty-5.3.3"}
"""Stores whose only index file holds nothing, and is divided in no default ratio."""


@pytest.mark.few(8)
@by_name
def test_sound_stores_leave_no_doubt(root: Path) -> None:
    doubtful = {one.name for one in open_store(root).settings.doubtful_sizes()}
    assert doubtful == ({"maxHashSlotNum", "maxIndexNum"} if root.name in UNTOLD else set())


@pytest.mark.parametrize("name", STORES)
def test_no_damage_is_taken_for_a_setting(name: str, tmp_path: Path) -> None:
    """Files cut, extended, swapped, renamed, doubled, and blocks of an index overwritten."""
    wrong = []
    for mutation, root in mutated(name, tmp_path, range(40)):
        wrong += [(str(mutation), size) for size in wrong_sizes(root, fixture(name))]
        shutil.rmtree(root)
    assert wrong == []


@pytest.mark.parametrize("label", ["index", "consumequeue", "commitlog"])
@pytest.mark.parametrize("other", ["plain-5.3.3", "indexfull-5.3.3"])
def test_no_file_of_another_store_is_taken_for_a_setting(other: str, label: str, tmp_path: Path) -> None:
    root = with_foreign_file("indexroll-4.9.8", other, label, tmp_path)
    assert wrong_sizes(root, fixture("indexroll-4.9.8")) == []


@pytest.fixture
def alone(tmp_path: Path) -> Path:
    """Return a store whose only index file is one of another store, divided otherwise."""
    root = tmp_path / "store"
    shutil.copytree(fixture("plain-5.3.3"), root)
    shutil.rmtree(root / "index")
    (root / "index").mkdir()
    stranger = min((fixture("indexroll-4.9.8") / "index").iterdir())
    shutil.copyfile(stranger, root / "index" / stranger.name)
    (root / "broker.conf").unlink()
    return root


def test_nothing_is_compared_or_installed_by_a_size_in_doubt(alone: Path, tmp_path: Path) -> None:
    listener = Listener()
    report = rebuild_store(alone, None, tmp_path / "out", engine=ONE_THREAD, compare=True, listener=listener)
    assert set(report.doubtful_settings) == {"maxHashSlotNum", "maxIndexNum"}
    assert not report.compared
    assert any("maxHashSlotNum is in doubt" in text for text in listener.warnings)
    assert report.verdict.startswith("Settings in doubt (maxHashSlotNum, maxIndexNum): ")
    assert "Do not install this result before maxHashSlotNum and maxIndexNum are sure" in report.install_hint
    assert json_object(report)["settings"]["maxHashSlotNum"]["doubt"]


def test_verify_and_info_tell_of_the_doubt(alone: Path, capsys: pytest.CaptureFixture[str]) -> None:
    doubt = "maxHashSlotNum=20 and maxIndexNum=20 are in doubt: index/"
    for command in (("verify", "--level", "1"), ("info",)):
        assert main([*command, str(alone)]) == ExitStatus.CLEAN
        out = capsys.readouterr().out
        assert doubt in " ".join(out.split())
        assert "in doubt" in out.splitlines()[0] or command == ("info",)
    assert main(["info", str(alone), "--fail-on", "warning"]) == ExitStatus.NEGATIVE
    capsys.readouterr()
    given = ("-p", "maxHashSlotNum=25", "-p", "maxIndexNum=40")
    assert main(["info", str(alone), *given]) != ExitStatus.FAILED
    assert "in doubt" not in capsys.readouterr().out


def test_what_is_given_is_not_in_doubt(alone: Path) -> None:
    given = ("maxHashSlotNum=25", "maxIndexNum=40")
    report = rebuild_store(alone, None, None, engine=ONE_THREAD, dry_run=True, properties=given)
    assert report.doubtful_settings == {}
    assert report.exit_status() == ExitStatus.CLEAN


def test_an_index_whose_only_header_is_gone_is_in_doubt(tmp_path: Path) -> None:
    root = tmp_path / "store"
    shutil.copytree(fixture("plain-5.3.3"), root)
    (root / "broker.conf").unlink()
    first, *others = sorted((root / "index").iterdir())
    for path in others:
        path.unlink()
    first.write_bytes(bytes(40) + first.read_bytes()[40:])
    doubtful = open_store(root).settings.doubtful_sizes()
    assert [one.name for one in doubtful] == ["maxHashSlotNum", "maxIndexNum"]


def test_a_log_file_of_another_size_does_not_outvote_those_of_the_log(tmp_path: Path) -> None:
    """Two files, one of another store and longer: the tie once went to the longer one."""
    root = tmp_path / "store"
    shutil.copytree(fixture("indexfull-5.3.3"), root)
    files = sorted((root / "commitlog").iterdir())
    stranger = min((fixture("plain-5.3.3") / "commitlog").iterdir()).read_bytes()
    files[-1].write_bytes(stranger * 2)
    for path in files[1:-1]:
        path.unlink()
    (root / "broker.conf").unlink()
    assert open_store(root).settings["mappedFileSizeCommitLog"].value == 8192
