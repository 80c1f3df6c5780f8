"""Rebuild logs that are larger than the disk, and tell what each process cost.

``python -m tests.benchmarks.large [--gib 4,16,64] [--queues 128,20000] [--engine local] [--body 1024]
[--file-mib 1024] [--room DIR]``, or ``--runs 20000x2000`` for so many queues, each with one message in each
of so many files.

The log is one file that stands for all, see `tests.benchmarks.repeated`; the output is real, checked and
removed. Every row is one whole process, kernels on disk. Processor seconds are of all processes; ``making
the log`` is what of that a process takes that only reads it, by the first 4 GiB; ``driver`` is the process
that was started, ``others`` the largest of the rest, as Spark's Java. Memory is resident, the greatest.
"""

from __future__ import annotations

import argparse
import json
import shutil
import sys
import tempfile
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from tests.benchmarks.make_log import LogShape
from tests.benchmarks.processes import ProcessFailure, check_run, measure
from tests.benchmarks.repeated import write_first_file

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

_MIB = 1 << 20
_QUEUES_A_TOPIC = 8
_READ_BYTES = 4 << 30
_HEAD = (
    *("log GiB", "files", "queues", "messages", "engine", "wall s", "processor s", "making the log s"),
    *("driver s", "driver MiB", "others MiB"),
)


class _Log(NamedTuple):
    shape: LogShape
    file_bytes: int
    files: tuple[int, ...]


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure every size, and print a table."""
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks.large", description=__doc__)
    parser.add_argument("--gib", default="4,16,64", help="GiB of log")
    parser.add_argument("--queues", default="128,20000", help="how many queues, eight to a topic")
    parser.add_argument("--runs", help="QUEUESxFILES, instead of these two")
    parser.add_argument("--engine", default="local", help="local or spark")
    parser.add_argument("--body", type=int, default=1024, help="bytes of a body")
    parser.add_argument("--file-mib", type=int, default=1024, help="MiB of a file of the log")
    parser.add_argument("--room", type=Path, help="where the store and the output lie")
    given = parser.parse_args(arguments)
    _print(_HEAD)
    _print(["---:"] * len(_HEAD))
    for log in _logs(given):
        with tempfile.TemporaryDirectory(prefix="rmqtool-large-", dir=given.room) as folder:
            records = write_first_file(Path(folder, "store"), log.shape, log.file_bytes)
            making_s = _making_s(Path(folder), max(1, _READ_BYTES // log.file_bytes))
            for files in log.files:
                _print(_measured(Path(folder), log, files, records * files, given.engine, making_s * files))


def _logs(given: argparse.Namespace) -> Iterator[_Log]:
    if given.runs is not None:
        queues, files = map(int, given.runs.split("x"))
        shape = LogShape(given.body, queues // _QUEUES_A_TOPIC, _QUEUES_A_TOPIC, 0, tags=False, in_turn=True)
        yield _Log(shape, queues * len(shape.template) + 8, (files,))  # and a BLANK
        return
    for queues in map(int, given.queues.split(",")):
        shape = LogShape(given.body, queues // _QUEUES_A_TOPIC, _QUEUES_A_TOPIC, 0, tags=False)
        sizes = (int(float(text) * 1024) // given.file_mib for text in given.gib.split(","))
        yield _Log(shape, given.file_mib * _MIB, tuple(sizes))


def _making_s(folder: Path, files: int) -> float:
    """Return what it takes to make a file of the log, without the start of a process."""
    cost = [measure(partial(_run, folder, count, "--read")).cpu_seconds for count in (0, files)]
    return (cost[1] - cost[0]) / files


def _measured(
    folder: Path, log: _Log, files: int, messages: int, engine: str, making_s: float
) -> Sequence[str]:
    """Rebuild once, check what was made, remove it, and return the row.

    Raises:
        ProcessFailure: It failed, or did not make what it should.
    """
    out, told = folder / "out", folder / "told"
    cost = measure(lambda: _run(folder, files, "--engine", engine, "--out", str(out), "--told", str(told)))
    made = json.loads(told.read_text())
    if made != {"status": 0, "units": messages, "indexEntries": messages}:
        raise ProcessFailure(f"{messages} messages made {made}")
    shutil.rmtree(out)
    driver, *others = cost.processes
    return (
        f"{log.file_bytes * files / (1 << 30):.1f}",
        f"{files:,}",
        f"{log.shape.topics * log.shape.queues:,}",
        f"{messages:,}",
        engine,
        f"{cost.seconds:.1f}",
        f"{cost.cpu_seconds:.1f}",
        f"{making_s:.1f}",
        f"{driver.cpu_seconds:.1f}",
        f"{driver.peak_bytes // _MIB:,}",
        f"{max((one.peak_bytes for one in others), default=0) // _MIB:,}",
    )


def _run(folder: Path, files: int, *words: str) -> None:
    """Run a process on the log.

    Raises:
        ProcessFailure: It ended with another status than 0.
    """
    command = [
        sys.executable,
        "-m",
        "tests.benchmarks.repeated",
        str(folder / "store"),
        "--files",
        str(files),
    ]
    check_run([*command, *words], Path(__file__).parents[2])


def _print(cells: Sequence[str]) -> None:
    print(f"| {' | '.join(cells)} |", flush=True)  # noqa: T201


if __name__ == "__main__":
    main()
