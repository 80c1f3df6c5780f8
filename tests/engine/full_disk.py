"""Rebuilds and verifies on a disk that gets full: a result is whole, or nothing is.

Run as ``python -m tests.engine.full_disk FOLDER COUNT`` by who may mount; at FOLDER there is a file system in
memory.
"""

from __future__ import annotations

import json
import os
import random
import shutil
import subprocess
import sys
import tempfile
from collections import Counter
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import rmqtool
from rmqtool.engine import EngineOptions
from rmqtool.engine.choice import open_engine
from rmqtool.errors import EnvironmentFailureError
from tests.builders import read_result
from tests.store.fixture_stores import fixture

if TYPE_CHECKING:
    from collections.abc import Callable

    from rmqtool.engine import Engine

_PAGE = 4096


def main(folder: Path, count: int) -> None:
    outcomes = Counter[str]()
    with open_engine(EngineOptions("spark", jobs=2)) as engine:
        engine.map(len, [""])  # Spark's own files lie elsewhere
        tempfile.tempdir = str(folder)
        for act in (rebuilt, verified):
            work = partial(act, folder, engine)
            expected = work()
            needed = needed_by(folder, work)
            chance = random.Random(count)
            for _ in range(count):
                resize(folder, chance.randrange(1, 2 * needed // _PAGE + 2) * _PAGE)
                try:
                    assert work() == expected
                except EnvironmentFailureError as failure:
                    reason = "no space" if "No space left" in str(failure) else str(failure)
                    outcomes[f"{act.__name__}: {reason}"] += 1
                else:
                    outcomes[f"{act.__name__}: whole"] += 1
                assert [*folder.iterdir()] == []
    print(json.dumps(outcomes))  # noqa: T201 - what the test reads


def rebuilt(folder: Path, engine: Engine) -> dict[str, bytes]:
    out = folder / "out"
    rmqtool.open(fixture("plain-5.5.1")).rebuild(out, engine=engine)
    found = read_result(out)
    shutil.rmtree(out)
    return found


def verified(_folder: Path, engine: Engine) -> list[str]:
    return [str(one) for one in rmqtool.open(fixture("plain-4.9.8")).verify(engine=engine).findings]


def needed_by(folder: Path, work: Callable[[], object]) -> int:
    """Return the bytes of a disk, a power of two, on which it can be done."""
    size = 1 << 30
    while True:
        resize(folder, size // 2)
        try:
            work()
        except EnvironmentFailureError:
            return size
        size //= 2


def resize(folder: Path, size: int) -> None:
    """Change what fits onto the disk."""
    subprocess.run(["mount", "-o", f"remount,size={size}", str(folder)], check=True)
    assert os.statvfs(folder).f_blocks * _PAGE == size


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]))
