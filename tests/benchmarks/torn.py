"""How long a heavily damaged log takes, by kind of damage, beside an undamaged one of the same size.

Run from the repository's root: ``python -m tests.benchmarks.torn --mib 128``.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from rmqtool.formats import message
from tests.benchmarks.make_log import LogShape, Messages
from tests.benchmarks.processes import measure

if TYPE_CHECKING:
    from collections.abc import Callable

    Bytes = np.ndarray[Any, np.dtype[np.uint8]]

_COMMANDS = {
    "rebuild": ("rebuild", "--engine", "local", "--dry-run"),
    "verify 1": ("verify", "--level", "1"),
    "verify 3": ("verify",),
    "query": ("query", "--scan", "--topic", "Nothing", "--key", "none"),
    "info": ("info",),
}
_MAGIC_AT = message.HEAD_OFFSETS[0]["magic"]
_CRC_AT = message.HEAD_OFFSETS[0]["bodyCrc"]


def _none(records: Bytes) -> None:
    """Leave the log as it is."""


def _magics(records: Bytes) -> None:
    records[1::2, _MAGIC_AT] = 0x11


def _crcs(records: Bytes) -> None:
    records[:, _CRC_AT + 3] ^= 0x55


def _sizes(records: Bytes) -> None:
    records[1::2, 3] += 1


def _holes(records: Bytes) -> None:
    records[np.arange(len(records)) // 1000 % 2 == 1] = 0


def _noise(records: Bytes) -> None:
    records[:] = np.random.default_rng(1).integers(0, 256, records.shape, np.uint8)


_DAMAGE: dict[str, Callable[[Bytes], None]] = {
    "none": _none,
    "every other magic": _magics,
    "every CRC": _crcs,
    "every other TOTALSIZE": _sizes,
    "every other 1000 records zero": _holes,
    "random bytes": _noise,
}


def main() -> None:
    """Measure every command on every kind of damage, and print a table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--mib", type=int, default=128, help="size of the log")
    given = parser.parse_args()
    print("| Damage |", " | ".join(_COMMANDS), "|")  # noqa: T201
    print("| --- |" + " ---: |" * len(_COMMANDS))  # noqa: T201
    with tempfile.TemporaryDirectory() as folder:
        for name, damage in _DAMAGE.items():
            store = Path(folder) / "store"
            _write(store, given.mib << 20, damage)
            cells = (_cell(store, words) for words in _COMMANDS.values())
            print(f"| {name} |", " | ".join(cells), "|", flush=True)  # noqa: T201


def _write(store: Path, size_bytes: int, damage: Callable[[Bytes], None]) -> None:
    """Write a store of one file that small messages fill."""
    messages = Messages(LogShape(body=1, topics=4, queues=2, keys=0, tags=False))
    length = messages.record_bytes
    log = np.zeros(size_bytes, np.uint8)
    records = log[: size_bytes // length * length].reshape(-1, length)
    while messages.drawn < len(records):
        first = messages.drawn
        drawn = messages.draw(len(records) - first, first * length)
        records[first : messages.drawn] = drawn.view(np.uint8).reshape(-1, length)
    damage(records)
    (store / "commitlog").mkdir(parents=True, exist_ok=True)
    log.tofile(store / "commitlog" / f"{0:020d}")
    (store / "broker.conf").write_text(f"mappedFileSizeCommitLog={size_bytes}\n")


def _cell(store: Path, words: tuple[str, ...]) -> str:
    """Return time and memory of one command."""
    command = [sys.executable, "-m", "rmqtool", words[0], str(store), *words[1:]]
    cost = measure(lambda: subprocess.run(command, capture_output=True, check=False))
    return f"{cost.seconds:.1f} s, {cost.peak_bytes >> 20} MiB"


if __name__ == "__main__":
    main()
