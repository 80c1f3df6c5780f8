"""Many queues with few messages each, whose large files are holes: nobody reads these."""

from __future__ import annotations

import shutil
from collections import Counter
from typing import TYPE_CHECKING, Any

import pytest

import rmqtool
from rmqtool.derived.queue_files import QueueFile
from rmqtool.formats.consumequeue import UNIT, UNIT_SIZE, UNITS
from rmqtool.io import location_of
from rmqtool.io.local import Descriptor, LocalFiles
from rmqtool.recovery.unit_queue import UnitQueue
from rmqtool.store.segments import Segment
from tests.benchmarks.many_queues import make_store
from tests.runs import run_line

if TYPE_CHECKING:
    from pathlib import Path

    from rmqtool.io.source import DirectoryEntry

_QUEUES = 16
_FILE_BYTES = 6_000_000


@pytest.fixture(scope="module")
def hollow(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store of many queues, whose files are of the default size."""
    root = tmp_path_factory.mktemp("queues") / "store"
    make_store(root, _QUEUES, 1 << 20)
    sizes = {path.stat().st_size for path in root.glob("consumequeue/*/*/*")}
    assert sizes == {_FILE_BYTES}
    return root


@pytest.mark.parametrize("words", [["verify", "--predict-recovery"], ["report", "-o"], ["salvage", "--out"]])
def test_holes_are_not_read_and_directories_listed_once(
    hollow: Path,
    words: list[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """A run reads of a queue what was written, several times at most."""
    read, listed = Counter[str](), Counter[str]()
    read_into, entries = Descriptor.read_into, LocalFiles.entries

    def counted(self: Descriptor, position: int, view: memoryview[Any]) -> int:
        count = read_into(self, position, view)
        read["queues" if self.size_bytes() == _FILE_BYTES else "others"] += count
        return count

    def noted(self: LocalFiles, path: str) -> list[DirectoryEntry]:
        listed[path] += 1
        return entries(self, path)

    monkeypatch.setattr(Descriptor, "read_into", counted)
    monkeypatch.setattr(LocalFiles, "entries", noted)
    out = [tmp_path / "out"] if words[-1].startswith("-o") or words[-1] == "--out" else []
    assert run_line(capsys, *words, *out, hollow).status == 0
    assert 0 < read["queues"] <= _QUEUES * 8 * 16_384
    below = f"{hollow}/consumequeue/"
    queues = Counter({path: count for path, count in listed.items() if path.startswith(below)})
    assert len(queues) == _QUEUES + _QUEUES // 8
    assert queues.total() <= len(queues) + 2  # of the first it is also looked whether it is one


def test_a_unit_behind_a_hole_is_not_missed(tmp_path: Path) -> None:
    """The disk lost pages in the midst of a queue, and a copy made holes of them."""
    path, last = tmp_path / f"{0:020d}", _FILE_BYTES // UNIT_SIZE - 7
    units = {0: (0, 100, 5), 1: (100, 100, 6), last: (200, 100, 7)}
    with path.open("wb") as file:
        file.truncate(_FILE_BYTES)
        for number, unit in units.items():
            file.seek(number * UNIT_SIZE)
            file.write(UNIT.build(dict(zip(("physicalOffset", "size", "tagsCode"), unit, strict=True))))
    segment = Segment(location_of(path), path.name, _FILE_BYTES, 0)
    rows = QueueFile(segment, UNITS).written(_FILE_BYTES)
    assert len(rows) == last + 1
    assert {int(row): tuple(rows[row].tolist()) for row in rows["size"].nonzero()[0]} == units
    queue = UnitQueue([segment], _FILE_BYTES)
    assert (queue.maximum, queue.max_physical_offset) == (2, 200)
    queue.truncate(150)
    assert (queue.maximum, queue.max_physical_offset) == (2, 200)
    assert queue.absent(rows["physicalOffset"][[0, last]], rows["size"][[0, last]]).tolist() == [False, True]


def test_a_queue_that_a_broker_adds_is_seen_where_queues_are_listed_anew(
    hollow: Path, tmp_path: Path
) -> None:
    """As for a running broker, once its log is read."""
    root = tmp_path / "store"
    shutil.copytree(hollow / "config", root / "config")
    (root / "consumequeue" / "Orders" / "0").mkdir(parents=True)
    (root / "commitlog").mkdir()
    with rmqtool.open(root) as store:
        assert [queue.queue_id for queue in store.files.queues()] == [0]
        (root / "consumequeue" / "Orders" / "1").mkdir()
        assert [queue.queue_id for queue in store.files.queues()] == [0]
        store.files.list_anew()
        assert [queue.queue_id for queue in store.files.queues()] == [0, 1]
