"""A salvage copies the target of no link: whoever owns a store may have put it there, for root to follow."""

from __future__ import annotations

import json
import shutil
from typing import TYPE_CHECKING

import pytest

import rmqtool
from tests.recovery.compactions import STATES
from tests.store.fixture_stores import fixture

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from rmqtool.commands.salvage import SalvageReport

SECRET = b"A-SECRET-OF-ROOT"
TEXT = b'{"offsetTable":{"A-SECRET-OF-ROOT@g":{0:1}}}'
NEXT_LOG_FILE = f"commitlog/{57344:020d}"
FIRST = f"{0:020d}"

PLACES = [
    "config",
    "config/acl.json",
    "config/broker.properties",
    "config/consumerOffset.json",
    "config/timercheck",
    "config/topics.json",
    "timerlog",
    f"timerlog/{FIRST}",
    "timerwheel",
    "commitlog/" + FIRST,
    NEXT_LOG_FILE,
    "compaction/compactionCq/Orders/0",
    "compaction/compactionLog/Orders",
    f"compaction/compactionLog/Orders/0/{FIRST}",
    "compaction/position-checkpoint",
]


@pytest.fixture
def root(tmp_path: Path) -> Path:
    root = shutil.copytree(fixture("plain-5.3.3"), tmp_path / "store")
    for name in ("timerwheel", "config/timercheck", f"timerlog/{FIRST}", f"timerlog/{100:020d}"):
        (root / name).parent.mkdir(exist_ok=True)
        (root / name).write_bytes(b"its own")
    STATES[0].make(root)
    topics = root / "config" / "topics.json"
    document = json.loads(topics.read_text())
    document["topicConfigTable"]["Orders"]["attributes"] = {"cleanup.policy": "COMPACTION"}
    topics.write_text(json.dumps(document))
    (root / "compaction" / "position-checkpoint").write_bytes(b"its own")
    return root


def plant(root: Path, place: str) -> None:
    """Put a link there, to a file or a directory of secrets with the names that are looked for."""
    outside = root.with_name("outside")
    for name in ("topics.json", "timercheck", "position-checkpoint", FIRST, f"0/{FIRST}"):
        (outside / name).parent.mkdir(parents=True, exist_ok=True)
        (outside / name).write_bytes(TEXT if name.endswith("json") else SECRET * 512)
    (outside / "text").write_bytes(TEXT)
    path = root / place
    target = outside / ("text" if path.suffix in {".json", ".properties"} else FIRST)
    if path.is_dir():
        shutil.rmtree(path)
        target = outside
    path.unlink(missing_ok=True)
    path.symlink_to(target)


def bytes_of(root: Path) -> Iterator[tuple[Path, bytes]]:
    for path in root.rglob("*"):
        assert not path.is_symlink()
        if path.is_file():
            yield path, path.read_bytes()


def refused(report: SalvageReport) -> list[str]:
    """Return what is not copied though it is there."""
    return [one.problem for one in report.config if one.problem and "is not there" not in one.problem]


@pytest.mark.parametrize("place", PLACES)
def test_nothing_of_its_target_is_copied(root: Path, place: str) -> None:
    plant(root, place)
    report = rmqtool.open(root).salvage(root.with_name("out"))
    found = dict(bytes_of(root.with_name("out")))
    assert [path for path, data in found.items() if SECRET in data] == []
    assert any("link" in problem for problem in refused(report)), report.config


def test_what_is_no_link_is_copied(root: Path) -> None:
    report = rmqtool.open(root).salvage(root.with_name("out"))
    assert refused(report) == []
    for name in ("timerwheel", "config/timercheck", f"timerlog/{FIRST}", f"timerlog/{100:020d}"):
        assert (root.with_name("out") / name).read_bytes() == b"its own"


def test_a_store_that_is_itself_reached_by_a_link(root: Path) -> None:
    """Only links below its root are not followed."""
    (root.with_name("link")).symlink_to(root)
    report = rmqtool.open(root.with_name("link")).salvage(root.with_name("out"))
    assert refused(report) == []


def test_records_of_a_log_file_that_is_a_link_are_copied(root: Path) -> None:
    """An operator moves files of the log to another disk so; a broker follows."""
    path = root / "commitlog" / FIRST
    (root.parent / "disk").mkdir()
    moved = path.rename(root.parent / "disk" / FIRST)
    path.symlink_to(moved)
    report = rmqtool.open(root).salvage(root.with_name("out"))
    assert report.is_whole
    assert (root.with_name("out") / "commitlog" / FIRST).read_bytes() == moved.read_bytes()
