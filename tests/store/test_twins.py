"""Which of two log files of one name is the log's, by content; what a repair never moves."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING

import pytest

import rmqtool
from rmqtool.store import open_store, twins
from rmqtool.store.segments import StoreFile
from rmqtool.store.twins import in_broker_order, lacking, whole_records
from tests.store.fixture_stores import fixture
from tests.store.several_paths import FILE_BYTES, Twin, lay_out

if TYPE_CHECKING:
    from pathlib import Path

    from rmqtool.api.store import Store

JAVA_ORDER = ["/a", "/b", "/data1/log", "/data2/log"]
JAVA_ORDER_OF_13 = [f"/data/{number}" for number in (4, 5, 2, 3, 0, 12, 1, 11, 10, 8, 9, 6, 7)]
TWINS = [
    Twin(number, content, swapped)
    for number in (0, 3, 6)
    for content in ("zeros", "cut", "same")
    for swapped in (False, True)
]


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return shutil.copytree(fixture("plain-5.3.3"), tmp_path / "store")


def laid_out(root: Path, twin: Twin) -> tuple[Store, Path, Path]:
    conf = root / "broker.conf"
    own, other = lay_out(root, conf, conf.read_text("utf-8"), twin)
    return rmqtool.open(root, broker_conf=conf), own, other


@pytest.mark.parametrize("twin", TWINS, ids=str)
def test_the_fuller_file_is_the_logs(root: Path, twin: Twin) -> None:
    data = {path.name: path.read_bytes() for path in (root / "commitlog").iterdir()}
    store, own, other = laid_out(root, twin)
    log = store.files.commitlog
    assert {one.path.name: one.read_at(0, FILE_BYTES) for one in log} == data
    (stray,) = log.strays
    if twin.content != "same":
        assert stray.label == other.relative_to(root).as_posix()
    assert stray.own_records == 0
    (kept,) = (one for one in log if one.start == int(own.name))
    holds = ", and holds no record" if twin.content == "zeros" else ", which has all its records"
    assert stray.reason == f"has the name of {kept.label}{holds}"
    assert sum(1 for _ in store.messages()) == 163
    report = store.verify()
    assert report.findings.counts["CL-STRAY"] == 1
    assert report.exit_status() == 1
    store.salvage(root.with_name("out"))
    assert {path.name: path.read_bytes() for path in root.with_name("out").glob("commitlog/*")} == data


@pytest.mark.parametrize("twin", TWINS[:6], ids=str)
def test_a_repair_moves_the_other_one(root: Path, twin: Twin) -> None:
    data = {path.name: path.read_bytes() for path in (root / "commitlog").iterdir()}
    store, _, _ = laid_out(root, twin)
    done = store.repair()
    assert (done.outcome, done.left) == ("done", ())
    assert {path.name: path.read_bytes() for path in root.glob("commitlog/*/*")} == data
    assert rmqtool.open(root, broker_conf=root / "broker.conf").verify().exit_status() == 0


def test_two_files_that_each_hold_messages_of_their_own_both_stay(root: Path) -> None:
    """The first half of one is gone, of the other the second: neither is spare."""
    store, own, other = laid_out(root, Twin(3))
    whole = own.read_bytes()
    own.write_bytes(bytes(4096) + whole[4096:])
    other.write_bytes(whole[:3000].ljust(FILE_BYTES, b"\0"))
    (stray,) = store.files.commitlog.strays
    assert stray.own_records
    assert f"{stray.own_records} whole records that the other lacks" in stray.reason
    plan = store.repair(plan=True)
    assert [step.path for step in plan.steps] == []
    assert any(one.path == stray.label and "rmqtool dump FILE" in one.why for one in plan.left)
    (finding,) = (one for one in store.verify().findings if one.code.code == "CL-STRAY")
    assert finding.remedy.startswith("Keep both")


def test_records_of_another_time_are_not_the_logs(root: Path) -> None:
    """A file of an earlier life, full, beside the one that fits between its neighbours."""
    earlier = (fixture("plain-4.9.8") / "commitlog" / f"{24576:020d}").read_bytes()
    store, own, other = laid_out(root, Twin(3))
    half = own.read_bytes()[:4000].ljust(FILE_BYTES, b"\0")
    own.write_bytes(half)
    other.write_bytes(earlier)
    log = store.files.commitlog
    assert log.segments[3].path.text == str(own)
    (stray,) = log.strays
    assert stray.own_records
    assert store.repair(plan=True).steps == ()


def test_one_flipped_bit(root: Path) -> None:
    store, own, other = laid_out(root, Twin(3, "same"))
    data = bytearray(own.read_bytes())
    data[120] ^= 1
    own.write_bytes(data)
    assert store.files.commitlog.segments[3].path.text == str(other)
    (stray,) = store.files.commitlog.strays
    assert stray.own_records == 0


def test_a_log_file_under_another_name_is_no_spare(root: Path) -> None:
    """It was renamed: what it holds is nowhere else."""
    path = root / "commitlog" / f"{24576:020d}"
    path.rename(path.with_suffix(".bak"))
    plan = rmqtool.open(root).repair(plan=True)
    assert [step.path for step in plan.steps] == []
    (left,) = (one for one in plan.left if one.path.endswith(".bak"))
    assert "whole records that the log lacks" in left.why
    shutil.copy(path.with_suffix(".bak"), path)
    assert [step.path for step in rmqtool.open(root).repair(plan=True).steps] == [left.path]


def test_all_records_are_whole(root: Path) -> None:
    log = open_store(root).commitlog
    assert sum(1 for one in log for _ in whole_records(one, one.start)) == 163
    assert sum(1 for one in log for _ in whole_records(one, one.start + 1)) == 0
    assert [lacking(StoreFile(one.path, "x", one.size_bytes), log) for one in log] == [0] * 7


def test_paths_come_in_the_order_of_a_java_set() -> None:
    """As ``new HashSet<>(Arrays.asList(paths))`` of JDK 17 iterates them."""
    names = [f"/data/{number}" for number in range(13)]
    assert in_broker_order([(name, name) for name in ("/b", "/a", "/data2/log", "/data1/log")]) == JAVA_ORDER
    assert in_broker_order([(name, name) for name in names]) == JAVA_ORDER_OF_13


@pytest.mark.parametrize("at", [0, 5000, FILE_BYTES - 1])
def test_a_copy_differs_from_a_byte_on(root: Path, monkeypatch: pytest.MonkeyPatch, at: int) -> None:
    """What a copy has in common with the log's file is compared by blocks; the record around counts."""
    monkeypatch.setattr(twins, "_SEARCHED", 1000)
    monkeypatch.setattr(twins, "_LONGEST_RECORD", 2000)
    own = root / "commitlog/00000000000000008192"
    log = open_store(root).commitlog
    data = own.read_bytes()
    copy = root / "commitlog/00000000000000008192.bak"
    copy.write_bytes(data)
    file = StoreFile(log.segments[0].path.parent / copy.name, copy.name, FILE_BYTES)
    assert lacking(file, log) == 0
    own.write_bytes(data[:at] + bytes(FILE_BYTES - at))
    expected = sum(1 for record in whole_records(file) if record.position + record.size > at)
    assert lacking(file, open_store(root).commitlog) == expected
