"""Where images are read: any place, bad sectors, maps of ddrescue; what is refused."""

from __future__ import annotations

import errno
import os
import random
import stat
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rmqtool.carve.images import (
    length_of,
    map_lines,
    merged,
    open_image,
    outside,
    ranges_of,
    search,
    within,
)
from rmqtool.carve.layout import lay_out
from rmqtool.errors import EnvironmentFailureError, RefusedError
from rmqtool.io import FileKind, local, location
from rmqtool.io.local import LocalImages
from rmqtool.io.location import image_at, is_part_of, refuse_same_device
from tests.builders import InlineEngine
from tests.carve.planting import carved, places, planted, whole_records

if TYPE_CHECKING:
    from pathlib import Path

FILE = 1 << 15


def test_ranges() -> None:
    ranges = ranges_of([(5, 9), (0, 2), (9, 12), (1, 3), (20, 20)])
    assert ranges.tolist() == [[0, 3], [5, 12]]
    assert outside(ranges, 1, 30).tolist() == [[3, 5], [12, 30]]
    assert (length_of(ranges), length_of(ranges_of([]))) == (10, 0)
    assert within(ranges, 2, 6) == [(2, 3), (5, 6)]
    assert merged(outside(ranges_of([]), 0, 4)).tolist() == [[0, 4]]


class _Failing:
    """A handle that does not deliver some blocks."""

    def __init__(self, handle: Any, bad: set[int]) -> None:  # noqa: ANN401 - any handle
        self._handle, self._bad = handle, bad
        self.size_bytes, self.next_written = handle.size_bytes, handle.next_written

    def read_into(self, position: int, view: memoryview[Any]) -> int:
        if any(position // 4096 <= block <= (position + len(view) - 1) // 4096 for block in self._bad):
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        count: int = self._handle.read_into(position, view)
        return count


def test_bad_sectors_are_passed_and_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = random.Random(2)
    log = planted(rng, 150, file_size=FILE)
    data = b"".join(log.files.values())
    (tmp_path / "disk").write_bytes(data)
    bad = {0, 5, 6, 12}
    opened = LocalImages.open
    monkeypatch.setattr(LocalImages, "open", lambda self, path: _Failing(opened(self, path), bad))
    image = open_image(0, image_at(tmp_path / "disk"))
    found = search([image], InlineEngine())
    layout = lay_out(found.rows, [image])
    assert found.unreadable[0].tolist() == [[0, 4096], [20480, 28672], [49152, 53248]]
    damaged = bytearray(data)
    for block in bad:
        damaged[block * 4096 : (block + 1) * 4096] = bytes(4096)
    assert set(places(layout)) <= whole_records([bytes(damaged)], log)
    assert len(places(layout)) >= len(whole_records([bytes(damaged)], log)) - 1


def test_holes_of_a_sparse_file_are_not_read(tmp_path: Path) -> None:
    rng = random.Random(3)
    log = planted(rng, 40, file_size=FILE)
    data = b"".join(log.files.values())
    path = tmp_path / "sparse"
    with path.open("wb") as file:
        file.truncate(1 << 33)
        for at in (0, 1 << 32):
            file.seek(at)
            file.write(data)
    image = open_image(0, image_at(path))
    found = search([image], InlineEngine(), range_bytes=1 << 33)
    assert len(found.rows) == 80
    assert lay_out(found.rows, [image]).logs[0].duplicates == 40


def test_what_has_no_positions_is_refused(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "fifo")
    for path, kind in (
        (tmp_path / "fifo", "FIFO"),
        ("/dev/null", "character device"),
        (tmp_path, "directory"),
    ):
        with pytest.raises(EnvironmentFailureError, match=kind):
            image_at(path)
        with pytest.raises(EnvironmentFailureError, match="regular file or a block device"):
            LocalImages().open(str(path))
    with pytest.raises(EnvironmentFailureError, match="No such file"):
        image_at(tmp_path / "absent")


def test_a_block_device_is_read_by_carve_and_by_nobody_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "device"
    path.write_bytes(bytes(5000))
    monkeypatch.setitem(local._KINDS, stat.S_IFREG, FileKind.BLOCK_DEVICE)
    monkeypatch.setattr("stat.S_ISBLK", lambda _: True)
    with image_at(path).reader() as file:
        assert (file.current_size(), file.read_at(4990, 100)) == (5000, bytes(10))
    with pytest.raises(EnvironmentFailureError, match="block device, not a regular file"):
        local.LocalFiles().open(str(path))


def test_nothing_is_written_on_the_device_that_is_carved(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nor on a partition of it, nor on what is made of one."""
    numbers = {"disk": (8, 0), "disk/part": (8, 1), "mapper": (254, 0), "other": (8, 16)}
    links = tmp_path / "block"
    links.mkdir()
    for name, (major, minor) in numbers.items():
        (tmp_path / name).mkdir()
        (links / f"{major}:{minor}").symlink_to(tmp_path / name)
    (tmp_path / "disk/part/partition").touch()
    (tmp_path / "mapper/slaves").mkdir()
    (tmp_path / "mapper/slaves/part").symlink_to(tmp_path / "disk/part")
    device = {name: os.makedev(*number) for name, number in numbers.items()}
    told = {one: {two for two in device if is_part_of(device[one], device[two], links)} for one in device}
    assert told == {
        "disk": {"disk"},
        "disk/part": {"disk/part", "disk"},
        "mapper": {"mapper", "disk/part", "disk"},
        "other": {"other"},
    }
    image = image_at(__file__)
    refuse_same_device(image, tmp_path / "out")
    monkeypatch.setitem(local._KINDS, stat.S_IFREG, FileKind.BLOCK_DEVICE)
    monkeypatch.setattr(location, "is_part_of", lambda *_: True)
    with pytest.raises(RefusedError, match="choose another device"):
        refuse_same_device(image, tmp_path / "out")


def test_an_image_that_shrinks_is_said_to(tmp_path: Path) -> None:
    (tmp_path / "image").write_bytes(bytes(9000))
    image = open_image(0, image_at(tmp_path / "image"))
    (tmp_path / "image").write_bytes(bytes(100))
    with pytest.raises(EnvironmentFailureError, match="ends at 100, and was 9000 bytes long"):
        search([image], InlineEngine())


def test_the_cut_into_ranges_does_not_matter() -> None:
    rng = random.Random(4)
    log = planted(rng, 60, file_size=FILE)
    data = b"".join(log.files.values())
    expected = places(carved(data))
    for range_bytes in (100, 1000, 4096, 33_333):
        assert places(carved(data, range_bytes=range_bytes)) == expected == [*log.records]


@given(st.lists(st.tuples(st.integers(0, 40), st.integers(0, 40))), st.integers(0, 40), st.integers(0, 40))
def test_ranges_are_sets_of_positions(pairs: list[tuple[int, int]], low: int, high: int) -> None:
    """And a map keeps them, the strongest status first."""
    ranges, expected = ranges_of(pairs), {one for start, stop in pairs for one in range(start, stop)}
    assert {one for start, stop in ranges for one in range(start, stop)} == expected
    assert (ranges[1:, 0] > ranges[:-1, 1]).all()
    others = {one for start, stop in outside(ranges, low, high) for one in range(start, stop)}
    assert others == set(range(low, high)) - expected
    strong = ranges_of([(min(low, high), max(low, high))])
    text = "".join(map_lines(40, [("-", strong), ("+", ranges)]))
    lines = [line.split() for line in text.splitlines() if not line.startswith("#")][1:]
    kept = {int(at, 0) + one for at, size, status in lines if status == "+" for one in range(int(size, 0))}
    assert kept == expected - set(range(min(low, high), max(low, high)))
