"""What is wrong with a store, what a broker would do with it, what differs, and what it should contain."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

import rmqtool

if TYPE_CHECKING:
    from pathlib import Path


def test_verify(plain: Path, damaged: Path) -> None:
    assert rmqtool.open(plain).verify().result == "clean"
    report = rmqtool.open(damaged).verify(level=1, jobs=1)
    assert report.result == "log-damage"
    assert report.findings.counts["CL-CRC"] == 1
    assert report.examined.records == 163
    assert rmqtool.open(plain).verify(level=0).seconds.keys() == {"layout"}
    wrong: list[tuple[dict[str, Any], str]] = [
        ({"level": 4}, "--level 4"),
        ({"engine": "flink"}, "give local or spark"),
        ({"jobs": 0}, "jobs=0: must be at least 1"),
        ({"max_findings": 0}, "max_findings=0"),
    ]
    for options, message in wrong:
        with pytest.raises(rmqtool.UsageError, match=message):
            rmqtool.open(plain).verify(**options)


def test_predict_recovery(damaged: Path) -> None:
    store = rmqtool.open(damaged)
    assert store.predict_recovery().release.name == "5.3.3"
    (damaged / "abort").touch()
    cut = rmqtool.open(damaged).predict_recovery("5.3.3").cut
    assert cut is not None
    assert (cut.physical_offset, cut.code) == (52045, "CL-CRC")
    assert store.predict_recovery(release="4.9").release.name == "4.9.8"
    with pytest.raises(rmqtool.UsageError, match="give one of"):
        store.predict_recovery("3.2.6")
    with pytest.raises(rmqtool.UsageError, match="give the store root"):
        rmqtool.open(damaged / "index").predict_recovery()


def test_diff(plain: Path, damaged: Path) -> None:
    store = rmqtool.open(plain)
    same = store.diff(rmqtool.open(plain))
    assert same.is_equal()
    assert same.comparison.compared["records"] == 163
    differences = store.diff(rmqtool.open(damaged))
    (difference,) = differences
    assert isinstance(difference, rmqtool.Difference)
    assert (difference.structure, difference.physical_offset) == ("commitlog", 52045)
    assert not differences.is_equal()
    assert repr(differences) == "<rmqtool.Differences, 1 counted so far>"
    with pytest.raises(rmqtool.UsageError, match="compare like with like"):
        next(store.diff(rmqtool.open(plain / "index")))


def test_rebuild_is_what_the_broker_wrote(plain: Path, tmp_path: Path) -> None:
    """One engine for several calls; the report is beside the result, which is a store to open again."""
    store, out = rmqtool.open(plain), tmp_path / "rebuilt"
    with rmqtool.open_engine("local", jobs=2) as engine:
        report = store.rebuild(out, engine=engine)
        assert store.verify(level=1, engine=engine).result == "clean"
        with pytest.raises(rmqtool.UsageError, match="an open engine has its own jobs"):
            store.verify(engine=engine, jobs=1)
    assert (report.records, report.partial) == (163, False)
    assert json.loads((out / "rebuild.json").read_text())["records"] == 163
    assert store.diff(rmqtool.open(out)).is_equal()
    assert store.rebuild(compare=True).differences == ()


def test_a_partial_rebuild(plain: Path, tmp_path: Path) -> None:
    store = rmqtool.open(plain)
    report = store.rebuild(tmp_path / "part", parts="consumequeue", topic="TopicTest", until_timestamp="now")
    assert report.partial
    assert sorted(path.name for path in (tmp_path / "part").iterdir()) == ["consumequeue", "rebuild.json"]
    assert {queue.topic for queue in rmqtool.open(tmp_path / "part").queues()} == {"TopicTest"}


def test_rebuild_refuses(plain: Path, tmp_path: Path) -> None:
    store = rmqtool.open(plain)
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "file").touch()
    with pytest.raises(rmqtool.RefusedError):
        store.rebuild(tmp_path / "full")
    with pytest.raises(rmqtool.RefusedError):
        store.rebuild(plain / "rebuilt")
    with pytest.raises(rmqtool.UsageError, match="nothing to do"):
        store.rebuild()
    with pytest.raises(rmqtool.UsageError, match="give consumequeue or index, or both"):
        store.rebuild(dry_run=True, parts="commitlog")
    with pytest.raises(rmqtool.UsageError, match="are for --engine spark"):
        rmqtool.open_engine("local", master="local[1]")
