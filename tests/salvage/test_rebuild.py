"""``rebuild --salvage``: queues and index over what is left of a log, where it lies."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING

import pytest

import rmqtool
from rmqtool.errors import EnvironmentFailureError, ExitStatus, UsageError
from rmqtool.formats import message
from tests.salvage.campaign import records_of, stands_in, topic_of
from tests.salvage.incidents import INCIDENTS, bit_rot
from tests.store.fixture_stores import fixture

if TYPE_CHECKING:
    from pathlib import Path

NAME = "plain-5.5.1"


@pytest.fixture
def damaged(tmp_path: Path) -> Path:
    papers = shutil.ignore_patterns("recipe.toml", "SHA256SUMS", "reference")
    return shutil.copytree(fixture(NAME), tmp_path / "damaged", ignore=papers)


def opened(root: Path) -> rmqtool.Store:
    return rmqtool.open(root, broker_conf=fixture(NAME) / "broker.conf")


def survivors(root: Path) -> dict[int, bytes]:
    """Return the records that are whole, by where they lie."""
    files = {int(path.name): path.read_bytes() for path in (root / "commitlog").iterdir()}
    return {
        place: raw
        for place, raw in records_of(fixture(NAME) / "commitlog").items()
        if any(data[place - start :][: len(raw)] == raw for start, data in files.items() if start <= place)
    }


@pytest.mark.few(1)
@pytest.mark.parametrize("incident", INCIDENTS)
def test_every_survivor_stands_in_its_place(incident: str, damaged: Path, tmp_path: Path) -> None:
    INCIDENTS[incident](damaged)
    before = {path: path.read_bytes() for path in damaged.rglob("*") if path.is_file()}
    report = opened(damaged).rebuild(tmp_path / "out", salvage=True)
    left = survivors(damaged)
    for place, raw in left.items():
        head = message.decode_head(raw)
        assert head is not None
        assert stands_in(tmp_path / "out", topic_of(raw), head.queue_id, head.queue_offset, place)
    assert report.records == len(left)
    assert report.exit_status() is ExitStatus.LOG_DAMAGED
    assert not (tmp_path / "out" / "commitlog").exists()
    assert {path: path.read_bytes() for path in damaged.rglob("*") if path.is_file()} == before


def test_the_first_line_says_what_a_start_would_do(damaged: Path, tmp_path: Path) -> None:
    bit_rot(damaged)
    (damaged / "abort").touch()
    (damaged / "checkpoint").unlink()
    report = opened(damaged).rebuild(tmp_path / "out", salvage=True)
    assert "cuts this log at physical offset" in report.verdict
    assert report.salvaged is not None
    assert report.verdict.startswith(report.salvaged.next_start)
    assert (report.salvaged.lost, report.salvaged.left_out, report.salvaged.repeated) == (1, 3, 4)
    assert report.units == report.records + report.salvaged.repeated


def test_a_whole_log_gives_what_a_broker_made(tmp_path: Path) -> None:
    report = opened(fixture(NAME)).rebuild(tmp_path / "out", salvage=True)
    for part in ("consumequeue", "index"):
        made = sorted((tmp_path / "out" / part).rglob("*"))
        there = sorted((fixture(NAME) / part).rglob("*"))
        assert [path.read_bytes() for path in made if path.is_file()] == [
            path.read_bytes() for path in there if path.is_file()
        ]
    assert report.salvaged is not None
    assert report.salvaged.lost == 0


def test_nothing_else_is_asked_with_it(damaged: Path, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="--salvage"):
        opened(damaged).rebuild(tmp_path / "out", salvage=True, topic="TopicTest")
    with pytest.raises(UsageError, match="--salvage"):
        opened(damaged).rebuild(salvage=True, dry_run=True)
    for path in (damaged / "commitlog").iterdir():
        path.write_bytes(bytes(path.stat().st_size))
    with pytest.raises(EnvironmentFailureError, match="no record of its log"):
        opened(damaged).rebuild(tmp_path / "out", salvage=True)
