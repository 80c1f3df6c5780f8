"""The window: right bytes at any place, zeros skipped, unreadable ranges told once."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rmqtool.io import UnreadableRange, location_of
from rmqtool.io.location import ReadOnlyFile
from rmqtool.kernels.rows import rules_of
from rmqtool.releases import LENIENT
from rmqtool.scan.records import find_true
from rmqtool.scan.walk import SegmentWalk
from rmqtool.store.segments import WINDOW_BYTES, StoreFile, Window
from tests.scan.log_builder import blank, record, segment

if TYPE_CHECKING:
    from collections.abc import Callable, MutableSequence
    from pathlib import Path

    from rmqtool.store.segments import Segment

    Finder = Callable[[Segment, int], int | None]


def file_of(folder: Path, data: bytes) -> StoreFile:
    path = folder / "file"
    path.write_bytes(data)
    return StoreFile(location_of(path), "file", len(data))


@given(data=st.data())
def test_reads_are_slices_wherever_the_focus_is(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    content = bytes(range(256)) * 60
    window = Window(file_of(tmp_path_factory.mktemp("w"), content), 6000)
    for _ in range(6):
        position = data.draw(st.integers(0, len(content) + 10))
        if data.draw(st.booleans()):
            window.focus(position)
        length = data.draw(st.integers(-1, 9000))
        assert window.read_at(position, length) == content[position : position + max(length, 0)]


def test_zeros_are_skipped_over_windows(tmp_path: Path) -> None:
    size = 2 * WINDOW_BYTES + 777
    window = Window(file_of(tmp_path, b"x" + bytes(size) + b"y"))
    assert window.skip_zeros(0) == 0
    assert window.skip_zeros(1) == size + 1
    assert window.skip_zeros(size + 2) == size + 2


def test_a_file_that_shrinks_gives_fewer_bytes(tmp_path: Path) -> None:
    file = file_of(tmp_path, bytes(5000))
    window = Window(file)
    (tmp_path / "file").write_bytes(b"short")
    assert window.read_at(0, 5000) == b"short"
    assert window.skip_zeros(10) == 5000


def test_unreadable_ranges_are_told_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    bad = UnreadableRange(4096, 4096)

    def read_into(
        _: ReadOnlyFile,
        position: int,
        buffer: bytearray,
        unreadable: MutableSequence[UnreadableRange] | None = None,
    ) -> int:
        if unreadable is not None and position < bad.stop and position + len(buffer) > bad.position:
            unreadable.append(bad)
        return len(buffer)

    monkeypatch.setattr(ReadOnlyFile, "read_into", read_into)
    window = Window(file_of(tmp_path, bytes(20_000)))
    window.read_at(0, 20_000)
    assert window.take_unreadable() == [bad]
    window.read_at(4000, 10_000)
    assert window.take_unreadable() == []


def in_plain_python(segment: Segment, start: int) -> int | None:
    return find_true(Window(segment), start, 0)


def by_kernels(segment: Segment, start: int) -> int | None:
    walk = SegmentWalk(segment, rules_of(LENIENT), stops_at_mismatch=True)
    return walk.next_intact(start, segment.stop)


FINDERS = pytest.mark.parametrize("find", [in_plain_python, by_kernels])


@FINDERS
@pytest.mark.parametrize("zeros", [0, 1, 7, 8, 9, 4085, 4096, 4097, WINDOW_BYTES, 3 * WINDOW_BYTES + 5])
@pytest.mark.parametrize("is_record", [True, False])
def test_what_follows_zeros_is_found_wherever_it_lies(
    tmp_path: Path, zeros: int, is_record: bool, find: Finder
) -> None:
    """Also the mark that ends a file, whose first bytes can be zeros, too."""
    place = 11 + zeros
    following = record(place) if is_record else blank(5000)
    assert find(segment(tmp_path, 0, b"\x01" * 11 + bytes(zeros) + following), 1) == place


@FINDERS
def test_a_hole_behind_damage_is_not_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, find: Finder
) -> None:
    """As after a record that a crash has torn, in a file of which a broker has written little."""
    size, read, read_into = 1 << 28, list[int](), ReadOnlyFile.read_into
    file = segment(tmp_path, 0, b"\x01" * 11)
    with (tmp_path / file.path.name).open("r+b") as written:
        written.truncate(size)

    def counted(
        file: ReadOnlyFile,
        position: int,
        buffer: memoryview,
        unreadable: MutableSequence[UnreadableRange] | None = None,
    ) -> int:
        read.append(len(buffer))
        return read_into(file, position, buffer, unreadable)

    monkeypatch.setattr(ReadOnlyFile, "read_into", counted)
    assert find(replace(file, size_bytes=size), 1) is None
    assert sum(read) < 8 * WINDOW_BYTES
