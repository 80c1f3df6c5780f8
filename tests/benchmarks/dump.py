"""Time ``rmqtool dump --format ndjson`` of a whole log beside ``cat`` of the same log.

``python -m tests.benchmarks.dump STORE [--rounds 3] [--body none|text|hex]``

Whole processes writing to a file's worth of nothing (``/dev/null``), page cache and kernel cache warm.
"""

from __future__ import annotations

import argparse
import statistics
import subprocess
import sys
from pathlib import Path

from tests.benchmarks.processes import check_run, measure

REPOSITORY = Path(__file__).resolve().parents[2]
_TO_NOWHERE = ("sh", "-c", '"$@" > /dev/null', "sh")


def main() -> None:
    """Print seconds of each, records a second, and the ratio."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("store", type=Path)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--body", default="none")
    chosen = parser.parse_args()
    log = chosen.store / "commitlog"
    dump = [sys.executable, "-m", "rmqtool", "dump", str(log), "--format", "ndjson", "--body", chosen.body]
    files = sorted(str(path) for path in log.iterdir())
    counted = subprocess.run(dump, cwd=REPOSITORY, stdout=subprocess.PIPE, check=True).stdout.count(b"\n")
    ours, cats = [], []
    for _ in range(chosen.rounds):
        ours.append(measure(lambda: check_run([*_TO_NOWHERE, *dump], REPOSITORY)).seconds)
        cats.append(measure(lambda: check_run([*_TO_NOWHERE, "cat", *files], REPOSITORY)).seconds)
    seconds, cat = statistics.median(ours), statistics.median(cats)
    sys.stdout.write(
        f"dump {seconds:.2f} s, {counted / seconds:,.0f} rows/s; cat {cat:.2f} s; ratio {seconds / cat:.1f}\n"
    )


if __name__ == "__main__":
    main()
