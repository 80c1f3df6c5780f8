"""Time commands on a store of many queues, whose files are large and almost empty.

``python -m tests.benchmarks.many_queues [--queues 2000] [--mib 16] [--rounds 3] [--source DIR] [--room DIR]``

The log is short; each queue has one file of the default 6,000,000 bytes, most of it a hole, as on brokers
with many topics. Processor seconds are of whole processes, kernels on disk and page cache warm, the least of
all rounds; the last column is their share of ``verify``. Memory is resident, the greatest.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from tests.benchmarks.make_log import LogShape, write_store
from tests.benchmarks.processes import check_run

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

_MIB = 1 << 20
_QUEUES_A_TOPIC = 8
_BODY = 1024
_COMMANDS = {
    "verify": (),
    "verify --predict-recovery": (),
    "report --output": ("out.html",),
    "salvage --out": ("out",),
    "rebuild --dry-run --engine local": (),
    "topics": (),
    "info": (),
    "offsets": (),
}


class _Cost(NamedTuple):
    seconds: float
    peak_bytes: int


def main(arguments: Sequence[str] | None = None) -> None:
    """Make the store, measure every command in turn, and print a table."""
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks.many_queues", description=__doc__)
    parser.add_argument("--queues", type=int, default=2000, help="how many, eight to a topic")
    parser.add_argument("--mib", type=int, default=16, help="MiB of log")
    parser.add_argument("--rounds", type=int, default=3, help="how often each command is run")
    parser.add_argument("--source", type=Path, help="where the rmqtool lies that is measured; else this one")
    parser.add_argument("--room", type=Path, help="where the store lies; it is kept there, and used again")
    given = parser.parse_args(arguments)
    environment = os.environ | ({} if given.source is None else {"PYTHONPATH": str(given.source)})
    with tempfile.TemporaryDirectory(prefix="rmqtool-queues-", dir=given.room) as folder:
        store = (given.room or Path(folder)) / f"store-{given.queues}-{given.mib}"
        if not store.exists():
            make_store(store, given.queues, given.mib * _MIB)
        costs: dict[str, list[_Cost]] = {}
        for number in range(given.rounds + 1):
            for command, more in _COMMANDS.items():
                words = ["-m", "rmqtool", *command.split(), *more, str(store)]
                cost = _measured([sys.executable, *words], Path(folder), environment)
                if number:  # the first compiles kernels, and warms the page cache
                    costs.setdefault(command, []).append(cost)
    least = {command: min(one.seconds for one in ran) for command, ran in costs.items()}
    _print(("command", "processor s", "MiB", "of verify"))
    _print(("---", "---:", "---:", "---:"))
    for command, ran in costs.items():
        peak, share = max(one.peak_bytes for one in ran) // _MIB, least[command] / least["verify"]
        _print((command, f"{least[command]:.2f}", str(peak), f"{share:.2f}"))


def make_store(root: Path, queues: int, log_bytes: int) -> None:
    """Write a store with its queues and the index, as a broker leaves it that was stopped."""
    shape = LogShape(_BODY, queues // _QUEUES_A_TOPIC, _QUEUES_A_TOPIC)
    write_store(root, shape, log_bytes, log_bytes)
    out = root.with_name(root.name + ".made")
    words = [sys.executable, "-m", "rmqtool", "rebuild", str(root), "--out", str(out), "--engine", "local"]
    check_run([*words, "-p", "mappedFileSizeConsumeQueue=6000000"], root.parent)
    for name in ("consumequeue", "index"):
        (out / name).rename(root / name)
    topics = {
        path.name: {
            "topicName": path.name,
            "readQueueNums": _QUEUES_A_TOPIC,
            "writeQueueNums": _QUEUES_A_TOPIC,
            "perm": 6,
        }
        for path in (root / "consumequeue").iterdir()
    }
    (root / "config").mkdir(exist_ok=True)
    (root / "config" / "topics.json").write_text(json.dumps({"topicConfigTable": topics}))
    shutil.rmtree(out)


def _measured(command: Sequence[str], folder: Path, environment: Mapping[str, str]) -> _Cost:
    for place in (folder / "out", folder / "out.html"):
        if place.is_dir():
            shutil.rmtree(place)
        place.unlink(missing_ok=True)
    process = subprocess.Popen(
        command, cwd=folder, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    _, _, used = os.wait4(process.pid, 0)
    return _Cost(used.ru_utime + used.ru_stime, used.ru_maxrss << 10)


def _print(cells: Sequence[str]) -> None:
    print(f"| {' | '.join(cells)} |", flush=True)  # noqa: T201


if __name__ == "__main__":
    main()
