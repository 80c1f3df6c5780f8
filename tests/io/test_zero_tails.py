"""Zeros at the end of objects: not fetched, told of, and never a reason to call a store damaged."""

from __future__ import annotations

import json
import os
import shutil
import struct
import subprocess
from collections import Counter
from typing import TYPE_CHECKING, Any

import pytest

import rmqtool
from rmqtool.cli import main
from rmqtool.io.object_pieces import SHORTEST_BYTES, TailSampler
from rmqtool.io.object_store import OpenObject
from tests.engine.test_spark_plan import AwayEngine
from tests.io.directory import as_objects
from tests.runs import run_line
from tests.store.fixture_stores import fixture

if TYPE_CHECKING:
    from pathlib import Path

_MIB = 1 << 20


def _sampler(size: int, used: int, *others: int) -> tuple[TailSampler, list[int]]:
    """Return a sampler of a file whose first bytes are used, and single ones elsewhere; and what it reads."""
    fetched: list[int] = []

    def read(start: int, stop: int) -> bytearray:
        fetched.append(stop - start)
        data = bytearray(stop - start)
        data[: max(used - start, 0)] = b"\xff" * min(max(used - start, 0), len(data))
        for other in others:
            if start <= other < stop:
                data[other - start] = 1
        return data

    return TailSampler(size, read, lambda start, stop: None), fetched


@pytest.mark.parametrize("used", [0, 1, 65_535, 65_536, 5_000_000, 31 * _MIB, 1000 * _MIB])
def test_the_end_is_found_from_the_front_and_from_the_back(used: int) -> None:
    sampler, fetched = _sampler(1 << 30, used)
    assert not used or not sampler.begins_at(used - 1)
    assert sampler.begins_at(used)
    assert (sampler.start, sampler.begins_at(used + 7)) == (used, True)
    assert sum(fetched) < 11 * _MIB
    other, fetched = _sampler(1 << 30, used)
    assert used <= other.end_of_data() <= used + 65_536
    assert sum(fetched) < 13 * _MIB


def test_files_without_such_an_end_are_read() -> None:
    sampler, fetched = _sampler(4 * _MIB, 4 * _MIB)
    assert sampler.end_of_data() == 4 * _MIB
    assert not any(sampler.begins_at(position) for position in range(0, 4 * _MIB, 4096))
    assert len(fetched) < 100
    short, fetched = _sampler(SHORTEST_BYTES - 1, 0)
    assert not short.begins_at(0)
    assert (short.end_of_data(), fetched) == (SHORTEST_BYTES - 1, [])


@pytest.mark.parametrize("other", [51 * _MIB, 57 * _MIB, (1 << 30) - 1, 512 * _MIB - 1])
def test_bytes_in_the_first_stretch_at_the_end_or_in_a_piece_are_seen(other: int) -> None:
    sampler, _ = _sampler(1 << 30, 50 * _MIB, other)
    assert not sampler.begins_at(50 * _MIB)
    assert sampler.start is None


def test_bodies_of_zeros_do_not_mislead() -> None:
    """Four messages of almost 4 MiB, the most that a broker takes by default."""
    ends = [number * 4 * _MIB for number in range(1, 5)]
    assert _sampler(1 << 30, 100, *ends)[0].end_of_data() > ends[-1]


# Whole stores


@pytest.fixture(scope="module")
def large(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a store whose files are as long as brokers make them, almost all zeros: 1.5 GB, sparse."""
    folder = tmp_path_factory.mktemp("large")
    store = shutil.copytree(fixture("indexempty-4.9.8"), folder / "store")
    log = store / "commitlog/00000000000000000000"
    os.truncate(log, 1 << 30)
    for name in ("consumequeue", "index"):
        shutil.rmtree(store / name)
    assert main(["rebuild", str(store), "--out", str(folder / "made"), "--engine", "local", "-q"]) == 0
    for name in ("consumequeue", "index"):
        (folder / "made" / name).rename(store / name)
    return store


@pytest.fixture
def fetched(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """Count the bytes that are fetched."""
    counted: Counter[str] = Counter()
    real = OpenObject.read

    def read(self: OpenObject, start: int, stop: int) -> bytearray:
        counted["bytes"] += stop - start
        return real(self, start, stop)

    monkeypatch.setattr(OpenObject, "read", read)
    return counted


@pytest.fixture
def url(large: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    return str(as_objects(large.parent, monkeypatch) / "store")


COMMANDS = {
    "verify STORE --format json": 60,
    "verify STORE --predict-recovery all --format json": 60,
    "info STORE --format json": 20,
    "query STORE --topic Keyless --begin 2020-01-01 --format json": 40,
    "rebuild STORE --dry-run --engine local --format json": 60,
}
"""With how many MiB they may fetch of 1,440."""


@pytest.mark.few(1)
@pytest.mark.parametrize("words", COMMANDS)
def test_what_is_said_is_that_of_a_disk_without_the_tails(
    words: str, url: str, large: Path, fetched: Counter[str], capsys: pytest.CaptureFixture[str]
) -> None:
    status, out, err = run_line(capsys, *words.replace("STORE", url).split())
    assert fetched["bytes"] < COMMANDS[words] * _MIB
    assert "not fetched" in (out if words.startswith("verify") else err)
    expected = run_line(capsys, *words.replace("STORE", str(large)).split())
    assert (status, _told(out, url)) == (expected[0], _told(expected[1], str(large)))


def _told(text: str, store: str) -> dict[str, Any]:
    document: dict[str, Any] = json.loads(text.replace(store, "STORE"))
    for name in ("seconds", "notLookedAt", "verdict", "next", "then"):
        document.pop(name, None)
    return document


@pytest.mark.full
def test_a_rebuild_has_the_same_bytes(url: str, large: Path, fetched: Counter[str], tmp_path: Path) -> None:
    words = ("rebuild", url, "--out", str(tmp_path / "out"), "--engine", "local", "-q")
    assert main(list(words)) == 0
    assert fetched["bytes"] < 60 * _MIB
    for name in ("consumequeue", "index"):
        for file in (path for path in (large / name).rglob("*") if path.is_file()):
            assert (tmp_path / "out" / file.relative_to(large)).read_bytes() == file.read_bytes()


@pytest.fixture
def broken(large: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[Path, str]:
    """Return a store with a log of 64 MiB and a unit that leads to where nothing was, and its URL."""
    store = tmp_path / "store"
    store.mkdir()
    for name in ("consumequeue", "checkpoint", "commitlog"):
        subprocess.run(["cp", "-a", "--sparse=always", large / name, store], check=True)
    os.truncate(store / "commitlog/00000000000000000000", 64 * _MIB)
    with (store / "consumequeue/Keyless/0/00000000000000000000").open("r+b") as queue:
        queue.seek(15 * 20)
        queue.write(struct.pack(">qiq", 30 * _MIB, 116, 2598929))
    return store, str(as_objects(tmp_path, monkeypatch) / "store")


def _verified(capsys: pytest.CaptureFixture[str], store: object) -> tuple[dict[str, Any], list[str]]:
    text = run_line(capsys, "verify", store, "--format", "json")[1]
    told = _told(text, str(store))
    for one in ("outcomes", "findings", "next"):  # a store on no disk is not repaired
        told.pop(one, None)
    return told, json.loads(text).get("notLookedAt", [])


def test_no_damage_is_told_before_the_log_was_fetched(
    broken: tuple[Path, str], fetched: Counter[str], capsys: pytest.CaptureFixture[str]
) -> None:
    store, url = broken
    told, limits = _verified(capsys, url)
    assert told == _verified(capsys, store)[0]
    assert "CQ-STALE-TAIL" in told["counts"]
    assert fetched["bytes"] > 64 * _MIB
    assert "commitlog" not in str(limits)
    assert "consumequeue" in str(limits)


def test_records_in_what_was_not_fetched_are_found_after_all(
    broken: tuple[Path, str], capsys: pytest.CaptureFixture[str]
) -> None:
    """The record that the unit leads to is there, far from all pieces that are looked at."""
    store, url = broken
    with (store / "commitlog/00000000000000000000").open("r+b") as log:
        record = bytearray(log.read(116))
        record[20:28], record[28:36] = (15).to_bytes(8, "big"), (30 * _MIB).to_bytes(8, "big")
        log.seek(30 * _MIB)
        log.write(record)
    told, limits = _verified(capsys, url)
    assert told == _verified(capsys, store)[0]
    assert "CL-TAIL-DIRTY" in told["counts"]
    assert [one.split(":")[0] for one in limits] == ["without config/"]


@pytest.mark.full
def test_the_environment_has_all_fetched(
    broken: tuple[Path, str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("RMQTOOL_FETCH_TAILS", "1")
    limits = _verified(capsys, broken[1])[1]
    assert [one.split(":")[0] for one in limits] == ["without config/"]


@pytest.mark.full
def test_tasks_on_other_machines_tell_what_they_have_not_fetched(
    large: Path, url: str, tmp_path: Path
) -> None:
    del large
    with rmqtool.open(url) as store:
        report = store.verify(engine=AwayEngine(scratch=tmp_path))
    assert "tails of 4 files not fetched" in report.limits[0]


@pytest.mark.full
def test_a_salvage_fetches_all(broken: tuple[Path, str], fetched: Counter[str], tmp_path: Path) -> None:
    assert (
        main(["salvage", broken[1], "--out", str(tmp_path / "out"), "-q"]) == 0
    )  # a unit alone proves no loss
    assert fetched["bytes"] > 64 * _MIB
