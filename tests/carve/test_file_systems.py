"""Segments deleted from ext4 (made without root), some of their blocks taken by other files."""

from __future__ import annotations

import random
import shutil
import subprocess
from typing import TYPE_CHECKING

import pytest

import rmqtool
from tests.carve.planting import Planted, carved, check_true, places, planted, whole_records

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

PROGRAMS = "/usr/sbin:/sbin:/usr/bin:/bin"
pytestmark = [
    pytest.mark.soak,
    pytest.mark.skipif(
        shutil.which("mke2fs", path="/usr/sbin:/sbin:/usr/bin") is None, reason="no e2fsprogs"
    ),
]

FILE = 1 << 20
IMAGE_MIB = 24


def _run(*words: object) -> None:
    done = subprocess.run(
        [str(word) for word in words],
        env={"PATH": PROGRAMS},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr


def _debugfs(image: Path, commands: Sequence[str], folder: Path) -> None:
    script = folder / "commands"
    script.write_text("\n".join(commands) + "\n")
    _run("debugfs", "-w", "-f", script, image)


def _made(folder: Path, logs: Sequence[Planted]) -> Path:
    """Return an ext4 image that holds the files of logs."""
    for number, log in enumerate(logs):
        (folder / f"root/{number}").mkdir(parents=True)
        for start, data in log.files.items():
            (folder / f"root/{number}/{start:020d}").write_bytes(data)
    image = folder / "disk.img"
    _run("mke2fs", "-q", "-t", "ext4", "-d", folder / "root", image, f"{IMAGE_MIB}M")
    return image


def _names(logs: Sequence[Planted]) -> list[str]:
    return [f"{number}/{start:020d}" for number, log in enumerate(logs) for start in log.files]


def _checked(image: Path, out: Path, logs: Sequence[Planted]) -> tuple[int, int]:
    """Return how many of the whole records were found, and how many there are; none found is false."""
    report = rmqtool.carve_images(image, out)
    data = image.read_bytes()
    layout = carved(data)
    check_true(layout, [data], logs)
    assert [one.records for one in report.logs] == [len(one.rows) for one in layout.logs]
    found = 0
    for number, one in enumerate(report.logs):
        (log,) = (log for log in logs if log.host == one.store_hosts[0])
        for place in places(layout, number):
            start = place - place % FILE
            with (out / one.directory / f"commitlog/{start:020d}").open("rb") as file:
                file.seek(place - start)
                assert file.read(len(log.records[place])) == log.records[place]
        found += len({*places(layout, number)} & whole_records([data], log))
    return found, sum(len(whole_records([data], log)) for log in logs)


@pytest.fixture
def logs() -> list[Planted]:
    rng = random.Random(1)
    return [planted(rng, 3000, file_size=FILE, broker=broker, largest_body=1500) for broker in (1, 2)]


def test_deleted_files_are_found_whole(tmp_path: Path, logs: list[Planted]) -> None:
    image = _made(tmp_path, logs)
    _debugfs(image, [f"rm {name}" for name in _names(logs)], tmp_path)
    found, whole = _checked(image, tmp_path / "out", logs)
    assert whole == 6_000
    assert found == whole


def test_of_deleted_files_a_fifth_of_which_is_overwritten_the_rest_is_found(
    tmp_path: Path, logs: list[Planted]
) -> None:
    """By files of noise, of text, and of another log's records, wherever the file system puts them."""
    rng = random.Random(2)
    image = _made(tmp_path, logs)
    size = sum(len(data) for log in logs for data in log.files.values())
    commands = [f"rm {name}" for name in _names(logs)]
    new = planted(rng, 600, file_size=FILE, broker=3, largest_body=1500)
    contents = [*new.files.values()]
    while sum(map(len, contents)) < size // 5:
        length = rng.randrange(1, 60_000)
        contents.append(rng.randbytes(length) if rng.random() < 0.5 else b"some text\n" * (length // 10))
    rng.shuffle(contents)
    for number, data in enumerate(contents):
        (tmp_path / f"new{number}").write_bytes(data)
        commands.append(f"write {tmp_path}/new{number} new{number}")
    _debugfs(image, commands, tmp_path)
    found, whole = _checked(image, tmp_path / "out", [*logs, new])
    assert whole > 4_500
    assert found >= 0.999 * whole
