"""Time whole processes of two checkouts in turn on the same store, and print the ratios.

``python -m tests.benchmarks.paired OLD NEW [--gib 1] [--rounds 5] [--only NAME,…] [--work DIR]``

The store is one of `make_log`, with the queues and the index that the old checkout rebuilds. Each round runs
every command of both, the one that goes first alternates, kernels on disk and page cache warm. A ratio is the
median of the rounds' ratios, new by old; memory is the greatest of any one process.
"""

from __future__ import annotations

import argparse
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from tests.benchmarks.make_log import LogShape, write_store
from tests.benchmarks.processes import Cost, ProcessFailure, measure

if TYPE_CHECKING:
    from collections.abc import Sequence

_TOPIC = LogShape().topic_names[3]
_LOCAL = ("--engine", "local")
_COMMANDS: dict[str, tuple[str, ...]] = {
    "rebuild": ("rebuild", "STORE", *_LOCAL, "--out", "OUT"),
    "verify 1": ("verify", "STORE", *_LOCAL, "--level", "1"),
    "verify 3": ("verify", "STORE", *_LOCAL, "--level", "3"),
    "query": ("query", "STORE", "--topic", _TOPIC, "--key", "NoSuchKey"),
    "dump": ("dump", "STORE/commitlog", "--format", "ndjson", "--topic", _TOPIC, "-o", "OUT"),
    "export": ("export", "STORE", *_LOCAL, "--format", "ndjson", "--topic", _TOPIC, "--out", "OUT"),
    "salvage": ("salvage", "STORE", "--out", "OUT"),
    "topics": ("topics", "STORE"),
    "info": ("info", "STORE"),
    "report": ("report", "STORE", "-o", "OUT"),
    "repair": ("repair", "STORE", "--plan"),
}
_MAY_FAIL = {"query": 1, "repair": 1}  # nothing has the key, and no broker wrote a checkpoint


def run_once(checkout: Path, words: Sequence[str], store: Path, out: Path, status: int = 0) -> Cost:
    """Run a command with the package of a checkout and remove what it made.

    Raises:
        ProcessFailure: It ended with another status.
    """
    filled = [word.replace("STORE", str(store)).replace("OUT", str(out)) for word in words]
    command = [sys.executable, "-m", "rmqtool", *filled, "--timezone", "UTC", "--progress", "never"]

    def run() -> None:
        own = {"PYTHONPATH": str(checkout)}
        ended = subprocess.run(
            command, cwd=out.parent, env=os.environ | own, capture_output=True, text=True, check=False
        )
        if ended.returncode != status:
            raise ProcessFailure(f"{' '.join(command)} ended with {ended.returncode}:\n{ended.stderr}")

    cost = measure(run)
    if out.is_dir():
        shutil.rmtree(out)
    out.unlink(missing_ok=True)
    return cost


def compare(checkouts: tuple[Path, Path], store: Path, names: Sequence[str], rounds: int) -> dict[str, str]:
    """Return a line of figures for each command."""
    lines = {}
    for name in names:
        costs: tuple[list[Cost], list[Cost]] = ([], [])
        for number in range(-1, rounds):  # one first that does not count
            for side in (0, 1) if number % 2 else (1, 0):
                out = store.parent / "out"
                cost = run_once(checkouts[side], _COMMANDS[name], store, out, _MAY_FAIL.get(name, 0))
                if number >= 0:
                    costs[side].append(cost)
        lines[name] = _line(name, *costs)
        print(lines[name], flush=True)  # noqa: T201
    return lines


def _line(name: str, old: list[Cost], new: list[Cost]) -> str:
    pairs = list(zip(old, new, strict=True))
    wall = statistics.median(b.seconds / a.seconds for a, b in pairs)
    cpu = statistics.median(b.cpu_seconds / max(a.cpu_seconds, 0.01) for a, b in pairs)
    memory = max(one.peak_bytes for one in new) / max(*(one.peak_bytes for one in old), 1)
    best = min(one.seconds for one in old), min(one.seconds for one in new)
    mib = max(one.peak_bytes for one in new) >> 20
    return (
        f"{name:9} wall {wall:5.3f}  processor {cpu:5.3f}  memory {memory:5.3f}  "
        f"(best {best[0]:.2f} and {best[1]:.2f} s, {mib} MiB)"
    )


def make_store(root: Path, checkout: Path, gib: float) -> None:
    """Write a log and rebuild its queues and index beside it."""
    write_store(root, LogShape(), int(gib * (1 << 30)))
    out = root.parent / "derived"
    words = ["-m", "rmqtool", "rebuild", str(root), "--engine", "local", "--out", str(out), "--quiet"]
    subprocess.run([sys.executable, *words], check=True, env=os.environ | {"PYTHONPATH": str(checkout)})
    for part in ("consumequeue", "index"):
        (out / part).rename(root / part)
    shutil.rmtree(out)


def main(arguments: Sequence[str] | None = None) -> None:
    """Compare what the command line names."""
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks.paired", description=__doc__)
    parser.add_argument("old", type=Path)
    parser.add_argument("new", type=Path)
    parser.add_argument("--gib", type=float, default=1.0)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--only", default=",".join(_COMMANDS), help="commands, by their names here")
    parser.add_argument(
        "--work", type=Path, help="where the store is made; stays, and is taken if it is there"
    )
    given = parser.parse_args(arguments)
    work = given.work or Path(tempfile.mkdtemp(prefix="paired-"))
    store = work.absolute() / "store"
    if not store.exists():
        work.mkdir(parents=True, exist_ok=True)
        make_store(store, given.old.resolve(), given.gib)
    try:
        compare((given.old.resolve(), given.new.resolve()), store, given.only.split(","), given.rounds)
    finally:
        if given.work is None:
            shutil.rmtree(work)


if __name__ == "__main__":
    main()
