"""Files that ``retention`` lists as deleted are those that a broker deletes."""

from __future__ import annotations

import itertools
import os
import random
import re
import shutil
import subprocess
import time
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import TYPE_CHECKING, NamedTuple

import pytest

import rmqtool
from tests.broker import jvm
from tests.cli.conftest import STORES

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = pytest.mark.broker

HOUR_S = 3600
VERSIONS = [version for version in jvm.VERSIONS if version != "5.4.0"]
_SEGMENT = re.compile(r"\d{17,20}")
_OTHER_HOUR = f"{(datetime.now(UTC).hour + 12) % 24:02d}"
_DISK_MIB = 768


class State(NamedTuple):
    """A store whose files have ages, and its broker's settings."""

    fixture: str
    settings: dict[str, str]
    hours: tuple[float, ...]


def _now() -> str:
    """Return the hours around this moment: a test may cross one."""
    hour = datetime.now(UTC).hour
    return f"{hour:02d};{(hour + 1) % 24}"


def _states(seed: int, *, by_hour: bool, step: int) -> list[State]:
    """Return states of all kinds: fixtures, ages of their files in order or not, settings."""
    chance = random.Random(seed)
    states = []
    names = ("plain", "segments", "batch", "expiredhead", "ext")
    for name, reserved, is_ordered in itertools.product(names, ("72", "24", "0"), (True, False)):
        hours = [chance.choice((1, 23.9, 24.1, 71.9, 72.1, 240, -5)) for _ in range(60)]
        settings = {"fileReservedTime": reserved, "deleteWhen": _now() if by_hour else _OTHER_HOUR}
        settings["cleanFileForciblyEnable"] = chance.choice(("true", "true", "false"))
        settings["diskMaxUsedSpaceRatio"] = chance.choice(("75", "95", "10"))
        if chance.random() < 0.1:
            settings["deleteWhen"] = chance.choice(("04:00", "24", ";", "+4", "04,16", "24;"))
        states.append(State(name, settings, tuple(sorted(hours, reverse=True) if is_ordered else hours)))
    return states[::step]


def _files(root: Path) -> set[str]:
    return {
        str(path.relative_to(root))
        for name in ("commitlog", "consumequeue", "index")
        for path in (root / name).rglob("*")
        if _SEGMENT.fullmatch(path.name)
    }


def _made(state: State, version: jvm.Version, root: Path) -> jvm.Found:
    shutil.copytree(STORES / f"{state.fixture}-{version}", root)
    conf = root / "broker.conf"
    own = conf.read_text("utf-8") if conf.exists() else ""
    conf.write_text(own + "".join(f"\n{name}={value}" for name, value in state.settings.items()), "utf-8")
    now = time.time()
    for path, hours in zip(sorted((root / "commitlog").iterdir()), state.hours, strict=False):
        os.utime(path, (now, now - hours * HOUR_S))
    return jvm.Found(root, conf)


def _judge(version: jvm.Version, states: list[State], folder: Path, used: float | None) -> int:
    """Compare the broker's deletions with the foretold ones; return how many files went."""
    found = [_made(state, version, folder / str(number)) for number, state in enumerate(states)]
    before = [_files(store.root) for store in found]
    foretold = []
    for store in found:
        opened = rmqtool.open(store.root, broker_conf=store.conf, broker_version=version, timezone="UTC")
        report = opened.retention(disk_ratio=used, at="now")
        foretold.append({file.file for file in report.files if file.deleted})
        assert {file.file for file in report.files} == _files(store.root)
    jvm.clean(version, found)
    for state, store, files, expected in zip(states, found, before, foretold, strict=True):
        assert sorted(files - _files(store.root)) == sorted(expected), (state, used)
    return sum(map(len, foretold))


@contextmanager
def _disk(folder: Path, percent: int) -> Iterator[tuple[Path, float]]:
    """Mount a small disk that is filled to a share; yields it and its fullness."""
    place = folder / "disk"
    place.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", f"size={_DISK_MIB}m", "tmpfs", place], capture_output=True, check=False
    )
    if mounted.returncode:
        pytest.skip(f"no disk can be mounted: {mounted.stderr.decode()}")
    try:
        with (place / "filler").open("wb") as filler:
            os.posix_fallocate(filler.fileno(), 0, _DISK_MIB * percent // 100 << 20)
        status = os.statvfs(place)
        used = status.f_blocks - status.f_bfree
        yield place, 100 * used / (used + status.f_bavail)
    finally:
        subprocess.run(["umount", "-l", place], check=True)


@pytest.mark.parametrize("version", VERSIONS)
def test_by_the_hour(version: jvm.Version, tmp_path: Path) -> None:
    used = shutil.disk_usage(tmp_path)
    share = 100 * used.used / (used.used + used.free)
    if share > 84:
        pytest.skip("this machine's disk is too full")
    assert _judge(version, _states(1, by_hour=True, step=2), tmp_path, share) > 50


@pytest.mark.parametrize("percent", [79, 87, 92])
@pytest.mark.parametrize("version", VERSIONS)
def test_by_a_filled_disk(version: jvm.Version, percent: int, tmp_path: Path) -> None:
    """Over 75 % by age, over 85 % by force, which 4.9.8 does not where diskMaxUsedSpaceRatio is higher."""
    with _disk(tmp_path, percent) as (folder, used):
        assert _judge(version, _states(percent, by_hour=False, step=5), folder, used) > 5
