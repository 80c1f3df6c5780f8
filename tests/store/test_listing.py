"""Directory listings tell segments from strays, and file queues know their gaps."""

from __future__ import annotations

import os
import pickle
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rmqtool.io import location_of
from rmqtool.store.files import queue_id_of
from rmqtool.store.inference import infer_file_size
from rmqtool.store.names import digits_of, list_file_queue, list_index_files

if TYPE_CHECKING:
    from pathlib import Path


def _name(start: int) -> str:
    return f"{start:020d}"


def _make(directory: Path, *starts: int, size: int = 100) -> None:
    directory.mkdir(exist_ok=True)
    for start in starts:
        (directory / _name(start)).write_bytes(bytes(size))


def test_segments_by_start_and_everything_else_a_stray(tmp_path: Path) -> None:
    log = tmp_path / "commitlog"
    _make(log, 200, 0, 100)
    (log / "notes.bak").write_bytes(b"x")
    (log / _name(300)).touch()
    (log / _name(400)).mkdir()
    os.mkfifo(log / _name(500))
    (log / _name(600)).symlink_to("nowhere")
    (log / _name(700)).symlink_to("/dev/zero")
    (log / "9").write_bytes(b"x")
    (log / ("9" * 20)).write_bytes(b"x")
    (log / ("\u0663" * 20)).write_bytes(b"x")
    queue = list_file_queue([location_of(log)], location_of(tmp_path))
    assert [(one.label, one.start, one.stop) for one in queue] == [
        (f"commitlog/{_name(start)}", start, start + 100) for start in (0, 100, 200)
    ]
    reasons = {stray.label.removeprefix("commitlog/"): stray.reason for stray in queue.strays}
    assert reasons.pop(_name(600)).startswith("is a dangling link")
    assert reasons == {
        "notes.bak": "is not named by 20 digits",
        _name(300): "is empty",
        _name(400): "is a directory",
        _name(500): "is a FIFO",
        _name(700): "is a character device",
        "9": "is not named by 20 digits",
        "9" * 20: "is not named by 20 digits",
        "\u0663" * 20: "is not named by 20 digits",
    }


def test_linked_segments_are_legal(tmp_path: Path) -> None:
    _make(tmp_path / "disk2", 100)
    _make(tmp_path / "commitlog", 0)
    (tmp_path / "commitlog" / _name(100)).symlink_to(tmp_path / "disk2" / _name(100))
    assert len(list_file_queue([location_of(tmp_path / "commitlog")], location_of(tmp_path))) == 2


def test_several_paths_are_one_queue(tmp_path: Path) -> None:
    """`MultiPathMappedFileQueue`: sorted by name across directories; a name that comes twice is a stray."""
    _make(tmp_path / "a", 0, 200)
    _make(tmp_path / "b", 100, 200)
    queue = list_file_queue(
        [location_of(tmp_path / name) for name in ("a", "b", "absent")], location_of(tmp_path)
    )
    assert [one.label for one in queue] == [f"a/{_name(0)}", f"b/{_name(100)}", f"a/{_name(200)}"]
    assert [stray.reason for stray in queue.strays] == [
        f"has the name of a/{_name(200)}, and holds no record"
    ]
    assert list(queue.gaps(100)) == []


def test_look_up_by_address(tmp_path: Path) -> None:
    _make(tmp_path / "q", 100, 300)
    queue = list_file_queue([location_of(tmp_path / "q")], location_of(tmp_path))
    starts = {offset: queue.segment_at(offset) for offset in (99, 100, 199, 200, 299, 300, 399, 400, -1)}
    assert {offset: one.start if one else None for offset, one in starts.items()} == {
        99: None, 100: 100, 199: 100, 200: None, 299: None, 300: 300, 399: 300, 400: None, -1: None,
    }  # fmt: skip
    assert (queue.start, queue.stop, queue.size_bytes) == (100, 400, 200)


@pytest.mark.parametrize(
    ("start", "stop", "found"),
    [
        (0, 100, []),
        (0, 101, [100]),
        (199, 200, [100]),
        (200, 300, []),
        (150, 301, [100, 300]),
        (399, 9999, [300]),
        (400, 9999, []),
    ],
)
def test_segments_between_two_addresses(tmp_path: Path, start: int, stop: int, found: list[int]) -> None:
    _make(tmp_path / "q", 100, 300)
    queue = list_file_queue([location_of(tmp_path / "q")], location_of(tmp_path))
    assert [segment.start for segment in queue.between(start, stop)] == found


def test_only_what_lies_behind_the_size_of_a_file_is_excess(tmp_path: Path) -> None:
    """A file longer than its size and the distance to the next; no short one, no last one."""
    _make(tmp_path / "q", 0, 90, 190, 300)
    queue = list_file_queue([location_of(tmp_path / "q")], location_of(tmp_path))
    assert [one.size_bytes for one in queue.without_excess(90)] == [90, 100, 100, 100]
    assert queue.without_excess(110) is queue
    assert queue.without_excess(50) is queue


@pytest.mark.parametrize(
    ("starts", "size", "gaps"),
    [
        ((0, 100, 200), 100, []),
        ((0, 200), 100, [(100, 200)]),
        ((0, 50), 100, [(100, 50)]),
        ((0, 100), None, []),
        ((300, 700, 800), 100, [(400, 700)]),
        ((), 100, []),
    ],
)
def test_gaps(tmp_path: Path, starts: tuple[int, ...], size: int | None, gaps: list[tuple[int, int]]) -> None:
    _make(tmp_path / "q", *starts)
    queue = list_file_queue([location_of(tmp_path / "q")], location_of(tmp_path))
    assert [(gap.expected, gap.found) for gap in queue.gaps(size)] == gaps


def test_an_empty_queue_begins_and_ends_at_zero(tmp_path: Path) -> None:
    queue = list_file_queue([location_of(tmp_path / "absent")], location_of(tmp_path))
    assert (queue.start, queue.stop, len(queue), queue.segment_at(0)) == (0, 0, 0, None)


def test_segments_travel_by_path_with_open_files_left_behind(tmp_path: Path) -> None:
    _make(tmp_path / "q", 0)
    segment = list_file_queue([location_of(tmp_path / "q")], location_of(tmp_path)).segments[0]
    assert segment.read_at(0, 5) == bytes(5)
    copy = pickle.loads(pickle.dumps(segment))
    assert copy == segment
    assert copy.read_at(95, 50) == bytes(5)


def test_index_files_by_name(tmp_path: Path) -> None:
    index = tmp_path / "index"
    index.mkdir()
    for name in ("20220415132000124", "20220415132000123", "2022041513200012", "CURRENT"):
        (index / name).write_bytes(b"x")
    files, strays = list_index_files(location_of(index), location_of(tmp_path))
    assert [file.label for file in files] == ["index/20220415132000123", "index/20220415132000124"]
    assert {stray.reason for stray in strays} == {"is not named by 17 digits"}


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("0", 0),
        ("12", 12),
        ("2147483647", 2**31 - 1),
        ("2147483648", None),
        ("007", None),
        ("-1", -1),
        ("-2147483648", -(2**31)),
        ("-2147483649", None),
        ("-0", None),
        ("+1", None),
        ("", None),
        ("\u0661", None),
        ("9" * 5000, None),
    ],
)
def test_queue_ids_in_the_broker_s_own_form(name: str, expected: int | None) -> None:
    assert queue_id_of(name) == expected


@given(st.text(max_size=25))
def test_names_are_digits_or_nothing(name: str) -> None:
    number = digits_of(name, 20)
    assert number is None or f"{number:020d}" == name


@pytest.mark.parametrize(
    ("files", "unit", "expected"),
    [
        ([], 1, None),
        ([(0, 8192)], 1, 8192),
        ([(0, 1024), (1024, 600)], 1, 1024),
        ([(0, 600), (1024, 1024)], 1, 1024),
        ([(0, 1023), (1024, 1023)], 1, 1024),
        ([(0, 1024), (1024, 20), (2048, 1024), (3072, 1024)], 1, 1024),
        ([(2048, 1024), (4096, 1024)], 1, 1024),
        ([(0, 200), (200, 200), (400, 199)], 20, 200),
        ([(0, 199)], 20, None),
        ([(0, 1 << 40)], 1, None),
    ],
)
def test_size_of_a_queue_s_files(files: list[tuple[int, int]], unit: int, expected: int | None) -> None:
    assert infer_file_size([files], unit) == expected


@given(
    st.integers(1, 1 << 31).filter(lambda size: size < 1 << 31),
    st.integers(0, 1 << 20),
    st.integers(1, 8),
    st.data(),
)
def test_one_damaged_file_is_outvoted(size: int, first: int, count: int, data: st.DataObject) -> None:
    files = [((first + number) * size, size) for number in range(count + 2)]
    victim = data.draw(st.integers(0, len(files) - 1))
    files[victim] = (files[victim][0], data.draw(st.integers(1, size)))
    assert infer_file_size([files]) == size
