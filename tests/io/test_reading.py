"""Evidence is read robustly: bad sectors, shrinking files, things that are no files."""

from __future__ import annotations

import errno
import os
import pickle
import socket
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from rmqtool.errors import EnvironmentFailureError
from rmqtool.io import location_of
from rmqtool.io.location import ReadOnlyFile, UnreadableRange

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

DATA = bytes(range(256)) * 256  # 64 KiB


@pytest.fixture
def file(tmp_path: Path) -> ReadOnlyFile:
    path = tmp_path / "00000000000000000000"
    path.write_bytes(DATA)
    return location_of(path).reader()


def _break(monkeypatch: pytest.MonkeyPatch, bad: Callable[[int, int], int | None]) -> None:
    """Let reads fail with what ``bad(position, length)`` returns."""
    real = os.preadv

    def preadv(descriptor: int, buffers: Sequence[memoryview], position: int) -> int:
        code = bad(position, sum(len(buffer) for buffer in buffers))
        if code is not None:
            raise OSError(code, os.strerror(code))
        return real(descriptor, buffers, position)

    monkeypatch.setattr("rmqtool.io.local.os.preadv", preadv)


def _bad_sectors(*positions: int) -> Callable[[int, int], int | None]:
    def bad(position: int, length: int) -> int | None:
        return errno.EIO if any(position <= one < position + length for one in positions) else None

    return bad


@pytest.mark.parametrize(
    ("position", "length", "expected"),
    [
        (0, 10, DATA[:10]),
        (100, 0, b""),
        (65530, 100, DATA[65530:]),
        (65536, 5, b""),
        (1 << 62, 5, b""),
        (-5, 10, b""),
        (0, 1 << 60, DATA),
        (0, -1, b""),
    ],
)
def test_reads_end_at_the_end(file: ReadOnlyFile, position: int, length: int, expected: bytes) -> None:
    assert file.read_at(position, length) == expected


def test_a_file_that_shrinks_gives_a_short_read(file: ReadOnlyFile) -> None:
    assert file.read_at(0, 1) == DATA[:1]
    os.truncate(str(file.path), 1000)
    buffer = bytearray(b"\xee" * 4096)
    assert file.read_into(500, buffer) == 500
    assert file.read_at(2000, 10) == b""


def test_bad_blocks_become_zeros_with_their_exact_range(
    file: ReadOnlyFile, monkeypatch: pytest.MonkeyPatch
) -> None:
    _break(monkeypatch, _bad_sectors(5000, 9000, 40_000))
    unreadable: list[UnreadableRange] = []
    data = file.read_at(100, 60_000, unreadable)
    assert unreadable == [UnreadableRange(4096, 8192), UnreadableRange(36_864, 4096)]
    expected = bytearray(DATA)
    for bad in unreadable:
        expected[bad.position : bad.stop] = bytes(bad.length)
    assert data == expected[100:60_100]


def test_a_bad_block_at_the_edge_is_reported_as_far_as_it_was_asked_for(
    file: ReadOnlyFile, monkeypatch: pytest.MonkeyPatch
) -> None:
    _break(monkeypatch, _bad_sectors(4096, 65_535))
    unreadable: list[UnreadableRange] = []
    assert file.read_at(4090, 10, unreadable) == DATA[4090:4096] + bytes(4)
    assert len(file.read_at(65_000, 10_000, unreadable)) == 536
    assert unreadable == [UnreadableRange(4096, 4), UnreadableRange(65_000, 536)]


def test_an_unreadable_range_nobody_takes_is_an_error(
    file: ReadOnlyFile, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Zeros must never pass for contents unnoticed."""
    _break(monkeypatch, _bad_sectors(0))
    with pytest.raises(EnvironmentFailureError, match="position 0 failed"):
        file.read_at(0, 10)


def test_other_failures_are_of_the_environment(file: ReadOnlyFile, monkeypatch: pytest.MonkeyPatch) -> None:
    _break(monkeypatch, lambda *_: errno.ESTALE)
    with pytest.raises(EnvironmentFailureError, match="position 7 failed"):
        file.read_at(7, 10, [])


def test_reads_into_a_part_of_a_larger_buffer(file: ReadOnlyFile) -> None:
    buffer = bytearray(100)
    assert file.read_into(10, memoryview(buffer)[20:30]) == 10
    assert buffer == bytes(20) + DATA[10:20] + bytes(70)


def test_travels_by_path_and_is_shared_by_threads(file: ReadOnlyFile) -> None:
    file.read_at(0, 1)
    copy = pickle.loads(pickle.dumps(file))
    with ThreadPoolExecutor(8) as pool:
        pieces = list(pool.map(lambda position: copy.read_at(position, 256), range(0, len(DATA), 256)))
    assert b"".join(pieces) == DATA


def test_opens_again_after_close(file: ReadOnlyFile) -> None:
    with file:
        file.read_at(0, 1)
    file.close()
    assert file.read_at(1, 2) == DATA[1:3]


def test_neither_a_fifo_nor_a_device_nor_a_socket_is_opened(tmp_path: Path) -> None:
    """Nobody writes to the FIFO: opening it without care would wait for ever."""
    os.mkfifo(tmp_path / "fifo")
    (tmp_path / "to-device").symlink_to("/dev/zero")
    (tmp_path / "to-nowhere").symlink_to("nowhere")
    (tmp_path / "circle").symlink_to("circle")
    (tmp_path / "directory").mkdir()
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(os.path.relpath(tmp_path / "socket"))
        for name, reason in {
            "fifo": "a FIFO",
            "to-device": "a character device",
            "to-nowhere": "No such file",
            "circle": "symbolic links",
            "directory": "a directory",
            "socket": "a socket",
            "absent": "No such file",
        }.items():
            with pytest.raises(EnvironmentFailureError, match=reason):
                location_of(tmp_path / name).reader().read_at(0, 1)


def test_links_to_files_are_followed(file: ReadOnlyFile, tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(str(file.path))
    assert location_of(tmp_path / "link").reader().read_at(0, 4) == DATA[:4]


def test_works_without_the_right_to_leave_the_access_time_alone(
    file: ReadOnlyFile, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = os.open

    def refuse(path: Path, flags: int, *, dir_fd: int | None) -> int:
        if flags & os.O_NOATIME:
            raise PermissionError(errno.EPERM, "not yours")
        return real(path, flags, dir_fd=dir_fd)

    monkeypatch.setattr("rmqtool.io.local.os.open", refuse)
    assert file.read_at(0, 2) == DATA[:2]


def test_descriptors_do_not_leak(tmp_path: Path) -> None:
    path = tmp_path / "x"
    path.write_bytes(b"x")
    before = len(list(Path("/proc/self/fd").iterdir()))
    for _ in range(50):
        location_of(path).reader().read_at(0, 1)
    assert len(list(Path("/proc/self/fd").iterdir())) <= before + 1


def test_few_of_many_files_stay_open(tmp_path: Path) -> None:
    """A log of thousands of files is read by a process that may have 256 open."""
    files = []
    for number in range(400):
        (tmp_path / str(number)).write_bytes(b"%d" % number)
        files.append(location_of(tmp_path / str(number)).reader())
    with ThreadPoolExecutor(3) as threads:
        for _ in range(2):
            assert [*threads.map(lambda one: one.read_at(0, 3), files)] == [b"%d" % one for one in range(400)]
    opened = [os.path.realpath(entry) for entry in Path("/proc/self/fd").iterdir()]
    assert sum(path.startswith(f"{tmp_path}/") for path in opened) <= 128
