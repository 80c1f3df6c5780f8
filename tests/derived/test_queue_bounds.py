"""Bounds of queues by binary search, against counting."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from rmqtool.derived.queue_files import QueueFile
from rmqtool.derived.queues import Bounds, queue_in
from rmqtool.formats.consumequeue import BATCH_UNITS, PREBLANK_SIZE, UNITS, BatchUnitFields
from rmqtool.io import location_of
from rmqtool.store import PathKind, QueueFiles

if TYPE_CHECKING:
    from pathlib import Path


PREBLANK = UNITS.encode((0, PREBLANK_SIZE, 0))
PER_FILE = 10


def queue_of(folder: Path, kind: PathKind, first_file: int, data: bytes, unit_size: int) -> QueueFiles:
    width = PER_FILE * unit_size
    for number in range(0, max(len(data), 1), width):
        part = data[number : number + width].ljust(width, b"\0")
        (folder / f"{(first_file * width + number):020d}").write_bytes(part)
    return QueueFiles(kind, "T", 0, location_of(folder), location_of(folder))


def units(first: int, count: int) -> bytes:
    return b"".join(UNITS.encode((100 * number, 100, 0)) for number in range(first, first + count))


@pytest.mark.parametrize("count", [0, 1, 9, 10, 11, 35])
@pytest.mark.parametrize("log_start", [0, 100, 1500, 10_000])
def test_plain_queues(tmp_path: Path, count: int, log_start: int) -> None:
    queue = queue_of(tmp_path, PathKind.CONSUMEQUEUE, 0, units(0, count), UNITS.size)
    alive = [number for number in range(count) if 100 * number >= log_start]
    assert queue_in(queue).bounds(log_start) == Bounds(alive[0] if alive else count, count)


def test_preblank_units_never_count(tmp_path: Path) -> None:
    data = 4 * PREBLANK + units(24, 8)
    queue = queue_of(tmp_path, PathKind.CONSUMEQUEUE, 2, data, UNITS.size)
    assert queue_in(queue).bounds(0) == Bounds(24, 32)


def test_a_file_allocated_ahead_does_not_hide_the_end(tmp_path: Path) -> None:
    queue = queue_of(tmp_path, PathKind.CONSUMEQUEUE, 0, units(0, 10) + bytes(200), UNITS.size)
    assert queue_in(queue).bounds(0) == Bounds(0, 10)


def test_batch_queues(tmp_path: Path) -> None:
    data = b"".join(
        BATCH_UNITS.encode((100 * number, 100, 0, 1, 5 + 3 * number, 3, -1, 0)) for number in range(12)
    )
    queue = queue_of(tmp_path, PathKind.BATCHCONSUMEQUEUE, 0, data, BATCH_UNITS.size)
    assert queue_in(queue).bounds(0) == Bounds(5, 41)
    assert queue_in(queue).bounds(150) == Bounds(11, 41)
    assert queue_in(queue).bounds(10_000) == Bounds(41, 41)


def test_empty_queues(tmp_path: Path) -> None:
    for kind in (PathKind.CONSUMEQUEUE, PathKind.BATCHCONSUMEQUEUE):
        queue = QueueFiles(kind, "T", 0, location_of(tmp_path), location_of(tmp_path))
        assert queue_in(queue).bounds(0) == Bounds(0, 0)


def test_a_batch_queue_of_many_units_takes_few_reads(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """All but the last are expired; a file may hold 300,000."""
    data = b"".join(BATCH_UNITS.encode((100 * number, 100, 0, 1, number, 1, -1, 0)) for number in range(5000))
    (tmp_path / ("0" * 20)).write_bytes(data)
    queue = QueueFiles(PathKind.BATCHCONSUMEQUEUE, "T", 0, location_of(tmp_path), location_of(tmp_path))
    reads, read = 0, QueueFile[BatchUnitFields].unit

    def counted(file: QueueFile[BatchUnitFields], number: int) -> BatchUnitFields:
        nonlocal reads
        reads += 1
        return read(file, number)

    monkeypatch.setattr(QueueFile, "unit", counted)
    assert queue_in(queue).bounds(100 * 4999) == Bounds(4999, 5000)
    assert reads < 60
