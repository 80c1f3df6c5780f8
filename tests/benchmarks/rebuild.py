"""Time ``rmqtool rebuild`` beside the real broker's rebuild of the same log and beside ``cat``.

``python -m tests.benchmarks.rebuild STORE [--rounds 3] [--runs local,spark,5.3.3,cat] [--check]``

Whole processes, in turn, several rounds, page cache and kernel cache warm. A broker's time is that of its
JVM's start, its loading and its dispatch, without the seconds it sleeps when it stops; ours includes the
flush to the disk. Brokers see hard links of the log in a directory of their own, on the same file system.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import statistics
import sys
import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from tests.benchmarks.processes import Cost, check_run, measure
from tests.broker import jvm
from tests.broker.compare import compare_derived

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    Stages = dict[str, float]
    # Takes the store and a directory that does not exist yet, for what is written.
    Runner = Callable[[Path, Path], "Run"]

REPOSITORY = Path(__file__).resolve().parents[2]
RMQTOOL = (sys.executable, "-m", "rmqtool")
PEER: jvm.Version = "5.3.3"

_HEAP = ("-Xms4g", "-Xmx4g")
_BROKER_SECONDS = 1800
_HELP_RUNS = 10
_GIB = 1 << 30
_MIB = 1 << 20


@dataclass(frozen=True, slots=True)
class Run:
    """One run: what it cost, and the seconds of its parts."""

    cost: Cost
    stages: Stages = field(default_factory=dict)


def run_rmqtool(engine: str, store: Path, out: Path) -> Run:
    """Rebuild with ``rmqtool``; the parts are those of its own report."""
    words: list[str | Path] = [*RMQTOOL, "rebuild", store, "--out", out, "--engine", engine]
    cost = measure(lambda: check_run([*words, "--timezone", "UTC", "--progress", "never"], REPOSITORY))
    return Run(cost, json.loads((out / "rebuild.json").read_text())["seconds"])


def run_broker(version: jvm.Version, store: Path, root: Path) -> Run:
    """Let a broker start on the log alone; its time ends with the dispatch."""
    link_log(store, root)
    conf = store / "broker.conf"
    start = measure(lambda: _refuse(version, root, conf)).seconds
    rows: list[jvm.Row] = []
    whole = measure(lambda: rows.append(_judge(version, "rebuild", root, conf)))
    load, dispatch = rows[0]["seconds_load"], rows[0]["seconds_dispatch"]
    seconds = start + load + dispatch
    stages = {"jvm": start, "load": load, "dispatch": dispatch, "stop (not counted)": whole.seconds - seconds}
    return Run(Cost(seconds, whole.processes), stages)


def run_cat(store: Path, out: Path) -> Run:
    """Read the log to /dev/null: the limit."""
    words: list[str | Path] = ["sh", "-c", 'exec cat "$0"/* > /dev/null', store / "commitlog"]
    return Run(measure(lambda: check_run(words, out.parent)))


def _judge(version: jvm.Version, *arguments: str | Path) -> jvm.Row:
    return jvm.judge(version, *arguments, timeout=_BROKER_SECONDS, options=_HEAP)[0]


def _refuse(version: jvm.Version, root: Path, conf: Path) -> None:
    """Start the JVM for nothing: the judge refuses a task that it does not know."""
    try:
        _judge(version, "nothing", root, conf)
    except jvm.BrokerFailure:
        return
    raise AssertionError("the judge takes any task")


def link_log(store: Path, root: Path) -> None:
    """Make a store root of hard links to another's log, with its configuration."""
    (root / "commitlog").mkdir(parents=True)
    for segment in (store / "commitlog").iterdir():
        os.link(segment, root / "commitlog" / segment.name)
    if (store / "config").exists():
        shutil.copytree(store / "config", root / "config")


def runner_of(name: str) -> Runner:
    """Return what a word of ``--runs`` stands for: an engine, a broker version or ``cat``."""
    if name == "cat":
        return run_cat
    if name in jvm.VERSIONS:
        return lambda store, root: run_broker(name, store, root)
    return lambda store, out: run_rmqtool(name, store, out)


def compare_runs(store: Path, names: Sequence[str], rounds: int, scratch: Path) -> dict[str, list[Run]]:
    """Run everything in turn, ``rounds`` times; what is written is removed before the next begins."""
    runs: dict[str, list[Run]] = {name: [] for name in names}
    for _ in range(rounds):
        for name in names:
            os.sync()  # nobody pays for the pages that another left to be written
            runs[name].append(runner_of(name)(store, scratch / name))
            shutil.rmtree(scratch / name, ignore_errors=True)
    return runs


def check_results(store: Path, names: Sequence[str], scratch: Path) -> list[str]:
    """Compare what each writes with what the peer does; return the differences."""
    runner_of(PEER)(store, scratch / PEER)
    differences = []
    for name in names:
        if name not in ("cat", *jvm.VERSIONS):
            runner_of(name)(store, scratch / name)
            differences += [f"{name}: {text}" for text in compare_derived(scratch / PEER, scratch / name)]
            shutil.rmtree(scratch / name)
    shutil.rmtree(scratch / PEER)
    return differences


def table(runs: dict[str, list[Run]], log_bytes: int) -> list[str]:
    """Return the lines of a markdown table; ratios are of medians."""
    medians = {name: statistics.median(run.cost.seconds for run in done) for name, done in runs.items()}
    lines = [
        f"| run | median s | least s | {PEER} / run | GiB/s | peak RSS MiB |",
        "|---|---|---|---|---|---|",
    ]
    for name, done in runs.items():
        least = min(run.cost.seconds for run in done)
        ratio = f"{medians[PEER] / medians[name]:.2f}" if PEER in medians else "-"
        rate = log_bytes / _GIB / medians[name]
        peak = max(run.cost.peak_bytes for run in done) // _MIB
        lines.append(f"| {name} | {medians[name]:.2f} | {least:.2f} | {ratio} | {rate:.2f} | {peak} |")
    return lines


def stage_lines(runs: dict[str, list[Run]]) -> list[str]:
    """Return a line for each run that has stages: the median of each, and what the process takes beside."""
    lines = []
    for name, done in runs.items():
        stages = {
            stage: statistics.median(run.stages.get(stage, 0.0) for run in done) for stage in done[0].stages
        }
        if "total" in stages:
            beside = statistics.median(run.cost.seconds - run.stages["total"] for run in done)
            stages["before and after"] = beside
        if stages:
            parts = ", ".join(f"{stage} {seconds:.2f}" for stage, seconds in stages.items())
            lines.append(f"{name}, seconds: {parts}")
    return lines


def help_line() -> str:
    """Time ``rmqtool --help``."""
    runs = [measure(lambda: check_run([*RMQTOOL, "--help"], REPOSITORY)).seconds for _ in range(_HELP_RUNS)]
    return f"--help: median {statistics.median(runs) * 1000:.0f} ms, least {min(runs) * 1000:.0f} ms"


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the comparison that the command line asks for; 1 if results differ."""
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks.rebuild", description=__doc__)
    parser.add_argument("store", type=Path)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--runs", default="local,spark,5.3.3,cat", help="engines, broker versions, cat")
    parser.add_argument("--check", action="store_true", help="first compare results with the broker's")
    given = parser.parse_args(arguments)
    names = given.runs.split(",")
    store = given.store.resolve()
    log_bytes = sum(segment.stat().st_blocks * 512 for segment in (store / "commitlog").iterdir())
    with tempfile.TemporaryDirectory(dir=store.parent, prefix="bench-") as folder:
        differences = check_results(store, names, Path(folder)) if given.check else []
        warm = [name for name in names if name not in jvm.VERSIONS]
        compare_runs(store, warm, 1, Path(folder))
        runs = compare_runs(store, names, given.rounds, Path(folder))
    lines = [*table(runs, log_bytes), "", *stage_lines(runs), help_line(), *differences]
    sys.stdout.write("\n".join(lines) + "\n")
    return 1 if differences else 0


if __name__ == "__main__":
    sys.exit(main())
