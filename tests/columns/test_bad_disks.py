"""Columns and files of a log on a bad disk: damage is told, and reading goes on, as in ``dump``."""

from __future__ import annotations

import errno
import os
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import rmqtool
from rmqtool.columns import encoder, pieces
from rmqtool.commands.dump import run as dump_run
from rmqtool.commands.export import run as export_plan
from rmqtool.errors import EnvironmentFailureError
from rmqtool.rows import Damage, Message
from tests.extra import library
from tests.store.fixture_stores import fixture

if TYPE_CHECKING:
    from collections.abc import Callable

pq = library("pyarrow.parquet")

PLAIN = fixture("plain-5.5.1")
PAGE = 4096
PLACES = [pytest.param(0, marks=pytest.mark.full), 1]  # a file has two pages


@pytest.fixture
def spoiled(monkeypatch: pytest.MonkeyPatch) -> Callable[[int], None]:
    """Let the disk lose one page of the first file of the log."""
    plain, first = os.preadv, min((PLAIN / "commitlog").iterdir())

    def spoil(page: int) -> None:
        def failing(descriptor: int, buffers: list[memoryview], position: int) -> int:
            is_met = position < (page + 1) * PAGE and position + len(buffers[0]) > page * PAGE
            if is_met and Path(f"/proc/self/fd/{descriptor}").samefile(first):
                raise OSError(errno.EIO, os.strerror(errno.EIO))
            return plain(descriptor, buffers, position)

        monkeypatch.setattr("rmqtool.io.local.os.preadv", failing)

    return spoil


@pytest.fixture(
    params=[pytest.param((700, 1500), marks=pytest.mark.full), (2000, 5000)],
    ids=lambda sizes: f"{sizes[0]}-{sizes[1]}",
    autouse=True,
)
def small_pieces(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    split_bytes, task_bytes = request.param
    monkeypatch.setattr(dump_run, "LARGE_LOG_BYTES", 0)
    monkeypatch.setattr(encoder, "COLUMN_SPLIT_BYTES", split_bytes)
    monkeypatch.setattr(pieces, "COLUMN_SPLIT_BYTES", split_bytes)
    monkeypatch.setattr(export_plan, "TASK_BYTES", task_bytes)


def dumped() -> tuple[list[int], set[tuple[str, int | None, int | None]]]:
    """Return what ``dump`` shows: messages by their places, and what cannot be read."""
    rows = list(rmqtool.open(PLAIN / "commitlog").dump())
    bad = {(one.file, one.position, one.length) for one in rows if isinstance(one, Damage)}
    return [one.physical_offset for one in rows if isinstance(one, Message)], bad


@pytest.mark.parametrize("page", PLACES)
def test_export(page: int, spoiled: Callable[[int], None], tmp_path: Path) -> None:
    spoiled(page)
    offsets, bad = dumped()
    assert bad
    report = rmqtool.export(rmqtool.open(PLAIN / "commitlog"), tmp_path / "out", max_findings=1000)
    assert sorted(pq.read_table(tmp_path / "out")["physicalOffset"].to_pylist()) == sorted(offsets)
    assert {(one.file, one.position, one.length) for one in report.findings} == bad
    assert "IO-UNREADABLE" in report.findings.counts
    assert report.exit_status() == 5


@pytest.mark.parametrize("page", PLACES)
def test_export_of_several(page: int, spoiled: Callable[[int], None], tmp_path: Path) -> None:
    spoiled(page)
    stores = [rmqtool.open(PLAIN), rmqtool.open(fixture("unicode-5.5.1"))]
    report = rmqtool.export(stores, tmp_path / "out")
    assert report.left_out == ()
    assert report.findings.counts["IO-UNREADABLE"] >= 1
    assert report.exit_status() == 5


def test_one_of_several_whose_disk_is_gone(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    plain, last = os.preadv, max((PLAIN / "commitlog").iterdir())

    def failing(descriptor: int, buffers: list[memoryview], position: int) -> int:
        if len(buffers[0]) > PAGE and Path(f"/proc/self/fd/{descriptor}").samefile(last):
            raise OSError(errno.ENODEV, os.strerror(errno.ENODEV))
        return plain(descriptor, buffers, position)

    stores = [rmqtool.open(PLAIN), rmqtool.open(fixture("unicode-5.5.1"))]
    monkeypatch.setattr("rmqtool.io.local.os.preadv", failing)
    report = rmqtool.export(stores, tmp_path / "out")
    assert [(one.store, "No such device" in one.reason) for one in report.left_out] == [(str(PLAIN), True)]
    assert report.exit_status() == 3
    assert [path.name for path in (tmp_path / "out").iterdir() if path.is_dir()] == ["store=unicode-5.5.1"]
    assert {one.name.split("/")[0] for one in report.files} == {"store=unicode-5.5.1"}
    with pytest.raises(EnvironmentFailureError, match="No such device"):
        rmqtool.export(stores[0], tmp_path / "one")
    assert [path.name for path in tmp_path.iterdir()] == ["out"]


@pytest.mark.parametrize("page", PLACES)
def test_columns(page: int, spoiled: Callable[[int], None]) -> None:
    spoiled(page)
    offsets, bad = dumped()
    found = rmqtool.open(PLAIN).messages()
    assert found.to_arrow(["physicalOffset"])["physicalOffset"].to_pylist() == offsets
    assert {(one.file, one.position, one.length) for one in found.findings} == bad


@pytest.mark.spark
@pytest.mark.parametrize("page", PLACES)
def test_partitions_of_spark(page: int, spoiled: Callable[[int], None]) -> None:
    from tests.spark.tables import table

    spoiled(page)
    offsets, bad = dumped()
    assert [one["physicalOffset"] for one in table(PLAIN, splitBytes="5000")] == offsets
    told = table(PLAIN / "commitlog", splitBytes="5000", table="damage")
    assert {(one["file"], one["position"], one["length"]) for one in told} == bad
