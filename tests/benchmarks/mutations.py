"""How much of random damage verify finds, by field.

Run from the repository's root: ``python -m tests.benchmarks.mutations --count 6000``.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections import Counter, defaultdict
from pathlib import Path

from tests.damage.probing import UNGUARDED, Probe, probes

_OUTCOMES = ("error", "warning", "info", "nothing")


def main() -> None:
    """Damage stores, verify them, print a table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=6000, help="mutations")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--temp", type=Path, help="folder for copies of stores, best in memory")
    options = parser.parse_args()
    start = time.perf_counter()
    table: dict[str, Counter[str]] = defaultdict(Counter)
    with tempfile.TemporaryDirectory(dir=options.temp) as folder:
        found = probes(Path(folder), options.seed, options.count)
        trouble = [line for probe in found if (line := _note(table, probe))]
    _print(table, time.perf_counter() - start)
    print(*trouble, sep="\n")  # noqa: T201


def _note(table: dict[str, Counter[str]], probe: Probe) -> str:
    """Count a probe; return a sentence if it is one that must not be."""
    table[probe.mutation.what][probe.severity or "nothing"] += 1
    if "RM-INTERNAL" in probe.codes:
        return f"a check failed by itself: {probe.store}: {probe.mutation}"
    return f"missed: {probe.store}: {probe.mutation}: {sorted(probe.fields)}" if probe.is_missed else ""


def _print(table: dict[str, Counter[str]], seconds: float) -> None:
    print(f"{sum(row.total() for row in table.values())} mutations in {seconds:.0f} s\n")  # noqa: T201
    print(f"| What | {' | '.join(_OUTCOMES)} | Why nothing guards it |")  # noqa: T201
    print("| --- |" + " ---: |" * len(_OUTCOMES) + " --- |")  # noqa: T201
    for what, row in sorted(table.items()):
        counts = " | ".join(str(row[outcome]) for outcome in _OUTCOMES)
        print(f"| {what} | {counts} | {UNGUARDED.get(what, '') if row['nothing'] else ''} |")  # noqa: T201


if __name__ == "__main__":
    main()
