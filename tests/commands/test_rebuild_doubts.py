"""Sizes that damaged or foreign files speak against are said to be in doubt, and nothing rests on them."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from typing import TYPE_CHECKING, Any

import pytest

import rmqtool
from rmqtool.cli import main
from rmqtool.commands.rebuild import PARTS
from rmqtool.commands.repair.plan import swap_refusal
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
    doubtful = {one.name for one in open_store(root).settings.doubtful_sizes(PARTS)}
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
    doubtful = open_store(root).settings.doubtful_sizes(PARTS)
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


SIZES = {"mappedFileSizeConsumeQueue": 6_000_000, "maxHashSlotNum": 5_000_000, "maxIndexNum": 20_000_000}


@pytest.fixture
def bare(tmp_path: Path) -> Path:
    """Return a store of other sizes than the defaults, without the files that show them."""
    root = tmp_path / "bare"
    left_out = shutil.ignore_patterns("consumequeue", "index", "broker.conf")
    return shutil.copytree(fixture("plain-5.3.3"), root, ignore=left_out)


def rebuilt(root: Path, out: Path, *words: str) -> dict[str, Any]:
    assert main(["rebuild", str(root), "--engine", "local", "-q", *words, "--out", str(out)]) == 0
    return dict(json.loads((out / "rebuild.json").read_text()))


def test_what_a_result_assumes_stands_in_it(bare: Path, tmp_path: Path) -> None:
    document = rebuilt(bare, tmp_path / "out")
    assert set(document["assumed"]) == set(SIZES)
    assert document["verdict"].endswith(f"; assumed: {', '.join(SIZES)}")
    assert "Complete" not in document["verdict"]
    given = [word for name, value in SIZES.items() for word in ("-p", f"{name}={value}")]
    document = rebuilt(bare, tmp_path / "sure", *given)
    assert document["assumed"] == {}
    assert document["verdict"].startswith("Complete: ")


def test_the_install_text_and_the_verdicts_after_it_say_it_too(
    bare: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    report = rebuild_store(bare, None, tmp_path / "out", engine=ONE_THREAD)
    hint = report.install_hint
    assert "This result rests on assumptions:\n  mappedFileSizeConsumeQueue=6000000" in hint
    line = hint.splitlines()[hint.splitlines().index(f"  rmqtool verify {bare}") + 1]
    subprocess.run(["sh", "-c", line], check=True)
    assert (bare / "rebuild.json").is_file()

    predicted = ["verify", str(bare), "--predict-recovery", "-q"]
    assert main(predicted) == ExitStatus.CLEAN
    first, second, *_ = capsys.readouterr().out.splitlines()
    assert first.startswith("No damage found, settings in doubt; a 5.3.3 broker will start")
    assert "mappedFileSizeConsumeQueue=6000000" in second
    assert open_store(bare).settings.doubtful_sizes(PARTS) != []

    conf = ["-c", str(fixture("plain-5.3.3") / "broker.conf")]
    main([*predicted, *conf])
    assert "a 5.3.3 broker will not start on it" in capsys.readouterr().out.splitlines()[0]


def test_the_files_alone_do_not_make_it_sure(
    bare: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The report was not copied: the sizes are taken for the broker's, and the verdict says that."""
    rebuilt(bare, tmp_path / "out")
    for name in ("consumequeue", "index"):
        shutil.copytree(tmp_path / "out" / name, bare / name)
    capsys.readouterr()
    assert main(["verify", str(bare), "--predict-recovery", "-q"]) == ExitStatus.CLEAN
    _, second, *_ = capsys.readouterr().out.splitlines()
    assert second.split()[0] == "assumes"
    assert "mappedFileSizeConsumeQueue=6000000" in second


def test_a_broker_that_ran_on_them_has_settled_it(bare: Path, tmp_path: Path) -> None:
    rebuilt(bare, tmp_path / "out")
    shutil.copytree(tmp_path / "out", bare, dirs_exist_ok=True)
    assert {one.name for one in open_store(bare).settings.doubtful_sizes(PARTS)} == set(SIZES)
    made_ns = (bare / "rebuild.json").stat().st_mtime_ns
    os.utime(bare / "checkpoint", ns=(made_ns, made_ns + 1))
    assert open_store(bare).settings.doubtful_sizes(PARTS) == []


@pytest.mark.parametrize("content", ["", "[]", '{"assumed": 7}', '{"assumed": {"brokerRole": "x"}}', "{"])
def test_a_report_that_is_none_says_nothing(tmp_path: Path, content: str) -> None:
    root = shutil.copytree(fixture("plain-5.3.3"), tmp_path / "store")
    (root / "rebuild.json").write_text(content)
    assert open_store(root).settings.doubtful_sizes(PARTS) == []


def test_salvage_says_what_it_assumes(bare: Path, tmp_path: Path) -> None:
    out = tmp_path / "salvaged"
    assert main(["salvage", str(bare), "--out", str(out), "-q"]) == ExitStatus.CLEAN
    document = json.loads((out / "salvage" / "salvage.json").read_text())
    assert set(document["assumed"]) == set(SIZES)
    assert {one.name for one in open_store(out).settings.doubtful_sizes(PARTS)} == set(SIZES)


@pytest.mark.parametrize(
    ("parts", "value", "is_open"),
    [
        (("config", "rocksdbstore"), "all", False),  # the index shows it
        (("config", "rocksdbstore", "index"), "none", True),
        (("rocksdbstore", "index"), "all", False),  # the form of the offsets does
    ],
)
def test_tag_items_are_made_or_the_release_is_said_to_be_open(
    tmp_path: Path, parts: tuple[str, ...], value: str, is_open: bool
) -> None:
    root = tmp_path / "store"
    shutil.copytree(fixture("plain-5.4.0"), root, ignore=shutil.ignore_patterns(*parts))
    sizes = ("-p", "maxHashSlotNum=25", "-p", "maxIndexNum=40")
    document = rebuilt(root, tmp_path / "out", *sizes)
    assert document["tagItems"]["value"] == value
    assert ("brokerVersion" in document["assumed"]) is is_open
    assert document["verdict"].startswith("Complete: ") is not is_open
    assert ("--broker-version" in document["assumed"].get("brokerVersion", "")) is is_open
    if is_open:
        told = rebuilt(root, tmp_path / "told", *sizes, "--broker-version", "5.4.0")
        assert (told["assumed"], told["tagItems"]["value"]) == ({}, "all")
        assert told["indexEntries"] == 620
    else:
        assert main(["verify", str(root), "-q"]) == ExitStatus.CLEAN


def test_no_advice_rests_on_a_release_that_the_files_leave_open(
    tmp_path: Path,
) -> None:
    """Neither repair installs an index by it, nor is a start foretold as if it were known."""
    root = tmp_path / "store"
    left_out = shutil.ignore_patterns("config", "rocksdbstore", "index")
    shutil.copytree(fixture("plain-5.4.0"), root, ignore=left_out)
    sizes = {"maxHashSlotNum": 25, "maxIndexNum": 40}
    with rmqtool.open(root, properties=sizes) as store:
        refusal = swap_refusal(store.rebuild(dry_run=True, engine=ONE_THREAD), is_foreseen=False)
        assert refusal is not None
        assert refusal.startswith("a rebuild rests on brokerVersion=5.3.3; no file shows")
        assert any(one.startswith("the release, 5.3.3 (") for one in store.predict_recovery().assumes)
    with rmqtool.open(root, properties=sizes, broker_version="5.4.0") as store:
        assert swap_refusal(store.rebuild(dry_run=True, engine=ONE_THREAD), is_foreseen=False) is None
        assert store.predict_recovery().assumes == ()
