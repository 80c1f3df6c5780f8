"""Time ``rmqtool salvage`` beside three rebuilds and a copy of the same log, and ``carve`` over noise.

``python -m tests.benchmarks.salvage STORE [--rounds 3] [--mib 1024]``

Whole processes, in turn, several rounds, page cache and kernel cache warm; what is written lies in the
directory for temporary files. The noise is random bytes, in which a carve finds nothing.
"""

from __future__ import annotations

import argparse
import os
import random
import shutil
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from tests.benchmarks.processes import Cost, ProcessFailure, check_run, measure

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

_RMQTOOL = (sys.executable, "-m", "rmqtool")
_REPOSITORY = Path(__file__).resolve().parents[2]
_MIB = 1 << 20
_FINDS_NOTHING = 1
"""Exit status."""


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure all of them in turn, and print a table and two rates."""
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks.salvage", description=__doc__)
    parser.add_argument("store", type=Path, help="root of a store; it is only read")
    parser.add_argument("--rounds", type=int, default=3, help="how often each is run")
    parser.add_argument("--mib", type=int, default=1024, help="MiB of noise")
    given = parser.parse_args(arguments)
    costs: dict[str, list[Cost]] = {}
    with tempfile.TemporaryDirectory(prefix="rmqtool-salvage-") as folder:
        noise, out = Path(folder, "noise"), Path(folder, "out")
        with noise.open("wb") as file:
            file.writelines(random.Random(number).randbytes(_MIB) for number in range(given.mib))
        runs = _runs(given.store, noise, out)
        for run in runs.values():  # compiles kernels, and warms the page cache
            _measured(run, out)
        for _ in range(given.rounds):
            for name, run in runs.items():
                costs.setdefault(name, []).append(_measured(run, out))
    print("| run | s | processor s | greatest MiB |\n| --- | ---: | ---: | ---: |")  # noqa: T201
    for name, found in costs.items():
        seconds, cpu = _median(found, "seconds"), _median(found, "cpu_seconds")
        print(f"| {name} | {seconds:.2f} | {cpu:.2f} | {_median(found, 'peak_bytes') / _MIB:,.0f} |")  # noqa: T201
    allowed = 3 * _median(costs["rebuild"], "seconds") + _median(costs["copy"], "seconds")
    share = _median(costs["salvage"], "seconds") / allowed
    rate = given.mib / 1024 / _median(costs["carve"], "seconds")
    print(f"\nsalvage: {share:.0%} of three rebuilds and a copy; carve: {rate:.2f} GiB/s")  # noqa: T201


def _runs(store: Path, noise: Path, out: Path) -> dict[str, Callable[[], None]]:
    def ours(*words: str | Path) -> Callable[[], None]:
        return lambda: check_run([*_RMQTOOL, *words, "--out", out, "--progress", "never"], _REPOSITORY)

    def copy() -> None:
        check_run(["cp", "-r", "--reflink=never", store, out], _REPOSITORY)

    def carve() -> None:
        words = [*_RMQTOOL, "carve", str(noise), "--out", str(out), "--progress", "never"]
        ended = subprocess.run(words, cwd=_REPOSITORY, capture_output=True, text=True, check=False)
        if ended.returncode != _FINDS_NOTHING:
            raise ProcessFailure(f"carve ended with {ended.returncode}:\n{ended.stderr}")

    return {
        "rebuild": ours("rebuild", store),
        "copy": copy,
        "salvage": ours("salvage", store),
        "carve": carve,
    }


def _measured(run: Callable[[], None], out: Path) -> Cost:
    cost = measure(run)
    os.sync()  # so that nobody waits for what another wrote
    shutil.rmtree(out, ignore_errors=True)
    return cost


def _median(costs: list[Cost], name: str) -> float:
    return float(statistics.median(getattr(cost, name) for cost in costs))


if __name__ == "__main__":
    main()
