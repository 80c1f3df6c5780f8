"""Time the questions of ``rmqtool query`` on a large store, whole processes.

``python -m tests.benchmarks.query STORE [--rounds 5] [--keys 10000]``

STORE is a log as ``make_log`` writes it; its queues and its index of full size are rebuilt beside it, in a
directory that is removed. Shown are the best and the median wall time and the processor time of the best run:
on a busy machine the last says more. The page cache and the kernel cache are warm.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

from rmqtool.scan.record_walk import walk
from rmqtool.scan.records import Record
from rmqtool.store import open_store
from tests.benchmarks.processes import check_run
from tests.benchmarks.rebuild import REPOSITORY, RMQTOOL, link_log

if TYPE_CHECKING:
    from collections.abc import Sequence

    Words = Sequence[str | Path]

_PLACES = 100
_FOUND = 0


@dataclass(frozen=True, slots=True)
class Timing:
    """One run: wall time, and processor time of the process."""

    seconds: float
    cpu_seconds: float


def build_store(log: Path, root: Path) -> None:
    """Make a whole store of a log: queues and index by ``rmqtool rebuild``."""
    words = [*RMQTOOL, "rebuild", str(log), "--out", str(root), "--engine", "local", "--quiet"]
    check_run([*words, "--timezone", "UTC"], REPOSITORY)
    link_log(log, root)


def sample_records(root: Path, count: int) -> list[Record]:
    """Take records from places spread over the log."""
    log = open_store(root).commitlog
    found: list[Record] = []
    for number in range(_PLACES):
        begin = log.start + (log.stop - log.start) * number // _PLACES
        records = (event for event in walk(log.segments, begin) if isinstance(event, Record))
        found += islice(records, count // _PLACES)
    log.close()
    return found


def questions(root: Path, records: list[Record], scratch: Path) -> dict[str, Words]:
    """Return the command line of every kind of question, about one record in the middle, or about all."""
    middle = records[len(records) // 2]
    topic, key, head = middle.topic, middle.properties["KEYS"].split()[0], middle.head
    many = scratch / "keys.ndjson"
    asked = [{"topic": one.topic, "key": one.properties["KEYS"].split()[0]} for one in records]
    many.write_text("".join(json.dumps(one) + "\n" for one in asked))
    times = ("-b", str(head.store_timestamp_ms), "-e", str(head.store_timestamp_ms + 1))
    queue = ("-t", topic, "--queue", str(head.queue_id))
    return {
        "--key": ("-t", topic, "-k", key),
        "--key --explain": ("-t", topic, "-k", key, "--explain"),
        "--key (nothing)": ("-t", topic, "-k", f"no {key}"),
        "--msg-id (unique id)": ("-i", middle.properties["UNIQ_KEY"]),
        "--offset": ("--offset", str(middle.physical_offset)),
        "--queue-offset": (*queue, "--queue-offset", str(head.queue_offset)),
        "--queue --begin --end": (*queue, *times),
        "--topic --begin --end": ("-t", topic, *times),
        f"--keys-file, {len(asked)} keys": ("--keys-file", many),
        f"--keys-file --scan, {len(asked)} keys": ("--keys-file", many, "--scan"),
        "--key --scan": ("-t", topic, "-k", key, "--scan"),
    }


def run_query(root: Path, words: Words) -> Timing:
    """Run one question.

    Raises:
        CalledProcessError: It failed; finding nothing is no failure.
    """
    command = [*RMQTOOL, "query", str(root), *map(str, words), "--format", "ndjson", "--progress", "never"]
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    start = time.perf_counter()
    ended = subprocess.run(command, cwd=REPOSITORY, capture_output=True, check=False)
    seconds = time.perf_counter() - start
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    if ended.returncode not in {_FOUND, 1}:
        raise subprocess.CalledProcessError(ended.returncode, command, ended.stdout, ended.stderr)
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return Timing(seconds, cpu)


def report(name: str, timings: list[Timing]) -> str:
    """Return one line of the table."""
    best = min(timings, key=lambda one: one.seconds)
    median = statistics.median(one.seconds for one in timings)
    return f"{name:<34} {best.seconds:8.2f} {median:8.2f} {best.cpu_seconds:8.2f}"


def main(arguments: Sequence[str]) -> None:
    """Measure every question and print a table."""
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks.query")
    parser.add_argument("store", type=Path)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--keys", type=int, default=10_000)
    options = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory(dir=options.store.parent) as folder:
        root = Path(folder) / "store"
        build_store(options.store, root)
        asked = questions(root, sample_records(root, options.keys), Path(folder))
        index_bytes = sum(file.stat().st_size for file in (root / "index").iterdir())
        log_bytes = sum(file.stat().st_size for file in (root / "commitlog").iterdir())
        sys.stdout.write(
            f"log {log_bytes / 2**30:.2f} GiB, index {index_bytes / 1e6:.0f} MB, {os.cpu_count()} cores\n"
        )
        sys.stdout.write(f"{'seconds':<34} {'best':>8} {'median':>8} {'cpu':>8}\n")
        for name, words in asked.items():
            run_query(root, words)
            timings = [run_query(root, words) for _ in range(options.rounds)]
            sys.stdout.write(report(name, timings) + "\n")
            sys.stdout.flush()


if __name__ == "__main__":
    main(sys.argv[1:])
