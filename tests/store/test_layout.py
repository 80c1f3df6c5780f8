"""Level 0: what is wrong with names, sizes and places becomes findings, never an exception."""

from __future__ import annotations

import os
import shutil
from collections import Counter
from typing import TYPE_CHECKING

import pytest

from rmqtool.findings import Severity, Structure, exit_status
from rmqtool.io import location_of
from rmqtool.store import open_store
from rmqtool.store.kinds import is_rocksdb
from rmqtool.store.layout import layout_findings
from tests.store.fixture_stores import STORE_ROOTS, fixture

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from rmqtool.findings import Finding

HARMLESS = {"ST-ABORT", "IX-UNUSED", "CP-ZERO", "ST-TIMER", "ST-COMPACTION", "ST-POP"}


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A copy of an undamaged store."""
    return shutil.copytree(fixture("plain-4.9.8"), tmp_path / "store")


def _codes(root: Path, *properties: str) -> Counter[str]:
    return Counter(finding.code.code for finding in layout_findings(open_store(root, properties=properties)))


@pytest.mark.few(10)
@pytest.mark.parametrize("root", STORE_ROOTS, ids=lambda root: root.name)
def test_a_broker_s_store_is_clean_with_and_without_its_conf(root: Path) -> None:
    for conf in (None, root / "broker.conf"):
        found = {finding.code.code for finding in layout_findings(open_store(root, broker_conf=conf))}
        assert found <= HARMLESS
        assert ("ST-ABORT" in found) == root.name.startswith(("crash", "pagecopies"))


def _nth(root: Path, pattern: str, number: int) -> Path:
    return sorted(root.glob(pattern))[number]


def _truncate(path: Path) -> None:
    os.truncate(path, path.stat().st_size - 1)


def _replace_by_file(path: Path) -> None:
    shutil.rmtree(path)
    path.touch()


def _replace_by_fifo(path: Path) -> None:
    path.unlink()
    os.mkfifo(path)


def _replace_by_device(path: Path) -> None:
    shutil.rmtree(path)
    path.symlink_to("/dev/null")


def _replace_by_rocksdb(path: Path) -> None:
    shutil.rmtree(path)
    _rocksdb(path)


def _rocksdb(path: Path) -> None:
    path.mkdir(exist_ok=True)
    (path / "CURRENT").write_text("MANIFEST-000005\n")
    (path / "MANIFEST-000005").write_bytes(b"\0" * 50)
    (path / "000004.log").write_bytes(b"\0" * 50)


def _empty(path: Path) -> None:
    os.truncate(path, 0)


def _make(path: Path) -> None:
    path.mkdir(parents=True)


def _zero(path: Path) -> None:
    path.write_bytes(bytes(path.stat().st_size))


def _batch_orders(path: Path) -> None:
    path.write_text('{"topicConfigTable":{"Orders":{"attributes":{"queue.type":"BatchCQ"}}}}')


# What is done, to which path (a pattern and a number, or a new path), and the findings that must follow.
DAMAGE: dict[str, tuple[Callable[[Path], None], str, int, set[str]]] = {
    "log file missing": (os.unlink, "commitlog/*", 2, {"CL-GAP"}),
    "log file cut": (_truncate, "commitlog/*", 2, {"CL-STRAY"}),
    "log file empty": (_empty, "commitlog/*", -1, {"CL-STRAY"}),
    "backup in the log": (os.mknod, "commitlog/0.bak", 0, {"CL-STRAY"}),
    "directory in the log": (_make, f"commitlog/{1 << 40:020d}", 0, {"CL-STRAY"}),
    "fifo in the log": (os.mkfifo, f"commitlog/{1 << 40:020d}", 0, {"CL-STRAY"}),
    "log gone": (shutil.rmtree, "commitlog", 0, {"ST-NO-COMMITLOG"}),
    "log is a file": (_replace_by_file, "commitlog", 0, {"ST-NO-COMMITLOG", "ST-PATH"}),
    "queue file missing": (os.unlink, "consumequeue/Payments/0/*", 1, {"CQ-GAP-FILE"}),
    "queue file cut": (_truncate, "consumequeue/Orders/0/*", 0, {"CQ-STRAY"}),
    "file among topics": (os.mknod, "consumequeue/.DS_Store", 0, {"CQ-STRAY-DIR"}),
    "odd queue id": (_make, "consumequeue/Orders/00", 0, {"CQ-STRAY-DIR"}),
    "queues are a device": (_replace_by_device, "consumequeue", 0, {"ST-PATH"}),
    "index file cut": (_truncate, "index/*", 1, {"IX-SIZE"}),
    "backup in the index": (os.mknod, "index/x", 0, {"IX-STRAY"}),
    "checkpoint gone": (os.unlink, "checkpoint", 0, {"CP-MISSING"}),
    "checkpoint cut": (_truncate, "checkpoint", 0, {"CP-SIZE"}),
    "checkpoint zero": (_zero, "checkpoint", 0, {"CP-ZERO"}),
    "checkpoint is a fifo": (_replace_by_fifo, "checkpoint", 0, {"CP-STRAY"}),
    "abort": (os.mknod, "abort", 0, {"ST-ABORT"}),
    "lock is a fifo": (_replace_by_fifo, "lock", 0, {"ST-PATH"}),
    "dledger": (_make, "dledger-n0/data", 0, {"ST-DLEDGER"}),
    "tiered": (_make, "tiered_index_file", 0, {"ST-TIERED"}),
    "compaction": (_make, "compaction/compactionLog", 0, {"ST-COMPACTION"}),
    "timer": (_make, "timerlog", 0, {"ST-TIMER"}),
    "pop records": (_rocksdb, "kvStore", 0, {"ST-POP"}),
    "rocksdb settings": (_rocksdb, "config/topics", 0, {"ST-ROCKSDB"}),
    "rocksdb for all settings": (_rocksdb, "config/metadata", 0, {"ST-ROCKSDB"}),
    "rocksdb queues": (_replace_by_rocksdb, "consumequeue", 0, {"ST-ROCKSDB"}),
    "batch topic with simple queues": (_batch_orders, "config/topics.json", 0, {"CQ-TYPE"}),
}


def test_queues_that_are_written_twice(root: Path) -> None:
    """By rocksdbCQDoubleWriteEnable: RocksDB's files lie beside the topics; settings tell which are read."""
    sound, setting = _codes(root), "rocksdbCQDoubleWriteEnable=true"
    _rocksdb(root / "consumequeue")
    assert _codes(root) == sound + Counter(["ST-ROCKSDB"])
    copied = sound + Counter(["ST-ROCKSDB-BESIDE"])
    assert _codes(root, setting) == _codes(root, "storeType=default") == copied
    (root / "consumequeue" / "000004.txt").touch()
    assert _codes(root, setting) == copied + Counter(["CQ-STRAY-DIR"])
    _rocksdb(root / "consumequeue_rocksdb")
    assert _codes(root, setting)["ST-ROCKSDB-BESIDE"] == 2
    (root / "consumequeue" / "000004.log").unlink()  # and no table, though the broker stopped cleanly
    assert "ST-ROCKSDB" in _codes(root, setting)


# Settings, and whether the rest can be judged.
ELSEWHERE = {
    "storeType=defaultRocksDB": Structure.UNREAD,
    "rocksdbCQDoubleWriteEnable=true": None,
    "rocksdbCQDoubleWriteEnable=true combineCQPreferCQType=defaultRocksDB": Structure.UNREAD,
    "rocksdbCQDoubleWriteEnable=true combineCQUseRocksdbForLmq=true": Structure.UNREAD,
    "combineCQUseRocksdbForLmq=true": None,
    "enableDLegerCommitLog=true dLegerSelfId=n0": Structure.UNREAD_LOG,
}


@pytest.mark.parametrize("properties", ELSEWHERE)
def test_settings_that_put_log_or_queues_where_nothing_is_read(root: Path, properties: str) -> None:
    unread = ELSEWHERE[properties]
    store = open_store(root, properties=properties.split())
    assert [one.unread for one in store.unread] == ([] if unread is None else [unread])
    assert exit_status(layout_findings(store)) == (0 if unread is None else 3)


@pytest.mark.parametrize("lost", ["CURRENT", "MANIFEST-000005"])
def test_what_is_left_of_a_database_is_one(root: Path, lost: str) -> None:
    shutil.rmtree(root / "consumequeue")
    _rocksdb(root / "consumequeue")
    (root / "consumequeue" / lost).unlink()
    assert exit_status(layout_findings(open_store(root))) == 3


def test_what_every_start_of_5_4_makes_is_named_and_no_finding(root: Path) -> None:
    sound = _codes(root)
    _rocksdb(root / "rocksdbstore")
    (root / "rocksdbstore" / "000004.log").write_bytes(b"")
    store = open_store(root)
    assert [(part.label, part.is_empty) for part in store.parts] == [("rocksdbstore", True)]
    assert (store.features, _codes(root)) == ((), sound)
    (root / "rocksdbstore" / "000012.sst").write_bytes(b"x")
    assert [feature.label for feature in open_store(root).features] == ["rocksdbstore"]
    assert _codes(root) == sound + Counter(["ST-ROCKSDB-BESIDE"])


def test_queues_in_a_database_of_their_own_directory(root: Path) -> None:
    shutil.rmtree(root / "consumequeue")
    _rocksdb(root / "consumequeue_rocksdb")
    assert _codes(root)["ST-ROCKSDB"] == 1
    assert is_rocksdb(location_of(root / "consumequeue"))


@pytest.mark.parametrize("name", ["timerwheel.1024", "timerwheel.1024.tmp"])
def test_snapshots_of_the_timer_wheel_are_its_own(root: Path, name: str) -> None:
    (root / name).touch()
    assert "ST-TIMER" in _codes(root)


@pytest.mark.parametrize("name", DAMAGE)
def test_each_damage_has_its_finding(root: Path, name: str) -> None:
    damage, pattern, number, expected = DAMAGE[name]
    damage(_nth(root, pattern, number) if "*" in pattern else root / pattern)
    assert set(_codes(root)) == expected


def test_settings_that_no_file_fits_are_one_contradiction(root: Path) -> None:
    codes = _codes(root, "mappedFileSizeCommitLog=4096")
    assert codes["ST-SETTINGS"] == 1
    assert "CL-STRAY" not in codes


@pytest.mark.parametrize("slots", [30, 50], ids=["same size", "other size"])
def test_a_wrong_number_of_slots_is_one_finding(root: Path, slots: int) -> None:
    """Whether or not it makes the files too large, the cause is one, and what the files prove is said."""
    given = (f"maxHashSlotNum={slots}", "maxIndexNum=39")
    found = [one for one in layout_findings(open_store(root, properties=given)) if one.code.code[:2] == "IX"]
    (finding,) = found
    assert (finding.code.code, finding.expected, finding.observed) == ("IX-GEOMETRY", slots, 25)
    assert "25 slots and 40 items" in finding.message


def test_findings_say_where(root: Path) -> None:
    victim = _nth(root, "commitlog/*", 2)
    victim.unlink()
    (finding,) = layout_findings(open_store(root))
    assert finding.file == f"commitlog/{int(victim.name) + 8192:020d}"
    assert (finding.expected, finding.observed, finding.length) == (16384, 24576, 8192)
    assert "8192 bytes are missing" in finding.message


@pytest.mark.parametrize("part", ["Orders/0", "Orders"])
def test_a_directory_that_may_not_be_read(root: Path, monkeypatch: pytest.MonkeyPatch, part: str) -> None:
    """Not by its mode: the superuser, who often runs such tools, reads everything."""
    denied = root / "consumequeue" / part
    real = os.scandir

    def refuse(path: str | Path) -> object:
        if str(path) == str(denied):
            raise PermissionError(13, "Permission denied", str(path))
        return real(path)

    monkeypatch.setattr("rmqtool.io.local.os.scandir", refuse)
    assert _codes(root) == {"IO-DENIED": 1}


def test_nothing_is_written(root: Path) -> None:
    before = {path: path.stat().st_mtime_ns for path in root.rglob("*")}
    _codes(root)
    assert {path: path.stat().st_mtime_ns for path in root.rglob("*")} == before


def test_a_store_that_lost_its_log_is_told_from_a_new_one(root: Path) -> None:
    """Queues, index or a checkpoint's times prove that there was a log; its loss is damage of the log."""
    for path in (root / "commitlog").iterdir():
        path.unlink()
    assert exit_status(_no_log(root)) == 5
    for name in ("consumequeue", "index"):
        shutil.rmtree(root / name)
    assert exit_status(_no_log(root)) == 5
    (root / "checkpoint").unlink()
    (new,) = _no_log(root)
    assert new.severity is Severity.WARNING
    assert str(root / "commitlog") in new.message


def test_the_log_of_a_dledger_store_lies_elsewhere(root: Path) -> None:
    """A group that began with DLedger has no commitlog/ at all: its log is named, and not missed."""
    shutil.rmtree(root / "commitlog")
    _make(root / "dledger-n0" / "data")
    assert _no_log(root) == []


def _no_log(root: Path) -> list[Finding]:
    return [one for one in layout_findings(open_store(root)) if one.code.code == "ST-NO-COMMITLOG"]
