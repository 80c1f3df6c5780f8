"""Rebuild the same bytes in few and many files, of few and many queues, and tell what each process cost.

``python -m tests.benchmarks.scale [--mib 512] [--segments 1,2048] [--queues 128,20000] [--engine local,spark]
[--source DIR]``

Every table row is one whole run of ``rmqtool rebuild STORE --out DIR``, kernels on disk and page cache warm:
processor seconds of all processes together; of the driver, the process that was started, its own and its
greatest memory; and the greatest memory of any other process, as of Spark's Java.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from tests.benchmarks.make_log import LogShape, write_store
from tests.benchmarks.processes import Cost, ProcessFailure, measure

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

_MIB = 1 << 20
_QUEUES_A_TOPIC = 8
_BODY = 20
_HEAD = "| segments | queues | messages | engine | processor s | driver s | driver MiB | others MiB |"


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure every shape on every engine, and print a table."""
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks.scale", description=__doc__)
    parser.add_argument("--mib", type=int, default=512, help="MiB of log, whatever it is cut into")
    parser.add_argument("--segments", default="1,2048", help="how many files that makes")
    parser.add_argument("--queues", default="128,20000", help="how many queues, eight to a topic")
    parser.add_argument("--engine", default="local", help="local, spark or both")
    parser.add_argument("--source", type=Path, help="where the rmqtool lies that is measured; else this one")
    given = parser.parse_args(arguments)
    print(_HEAD)  # noqa: T201
    print("| ---: | ---: | ---: | --- | ---: | ---: | ---: | ---: |")  # noqa: T201
    for segments in _numbers(given.segments):
        for queues in _numbers(given.queues):
            with tempfile.TemporaryDirectory(prefix="rmqtool-scale-") as folder:
                shape = LogShape(_BODY, queues // _QUEUES_A_TOPIC, _QUEUES_A_TOPIC, keys=0, tags=False)
                size_bytes = given.mib * _MIB // segments
                count = write_store(Path(folder, "store"), shape, size_bytes * segments, size_bytes)
                for engine in given.engine.split(","):
                    cost = _rebuild(Path(folder), engine, given.source)
                    print(_line(segments, queues, count, engine, cost), flush=True)  # noqa: T201


def _numbers(text: str) -> Iterator[int]:
    yield from map(int, text.split(","))


def _rebuild(folder: Path, engine: str, source: Path | None) -> Cost:
    """Run one rebuild to its end and remove what it made.

    Raises:
        ProcessFailure: It ended with another status than 0.
    """
    command = [sys.executable, "-m", "rmqtool", "rebuild", str(folder / "store"), "--engine", engine]
    command += ["--out", str(folder / "out"), "--timezone", "UTC", "--progress", "never"]
    environment = os.environ | ({} if source is None else {"PYTHONPATH": str(source)})

    def run() -> None:
        ended = subprocess.run(
            command, cwd=folder, env=environment, capture_output=True, text=True, check=False
        )
        if ended.returncode:
            raise ProcessFailure(f"{' '.join(command)} ended with {ended.returncode}:\n{ended.stderr}")

    cost = measure(run)
    shutil.rmtree(folder / "out")
    return cost


def _line(segments: int, queues: int, count: int, engine: str, cost: Cost) -> str:
    driver, *others = cost.processes
    cells = (
        f"{segments:,}",
        f"{queues:,}",
        f"{count:,}",
        engine,
        f"{cost.cpu_seconds:.1f}",
        f"{driver.cpu_seconds:.1f}",
        f"{driver.peak_bytes // _MIB:,}",
        f"{max((one.peak_bytes for one in others), default=0) // _MIB:,}",
    )
    return f"| {' | '.join(cells)} |"


if __name__ == "__main__":
    main()
