"""Run a whole process and measure it: wall time, and the greatest memory of any process it starts."""

from __future__ import annotations

import os
import subprocess
import threading
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

_SAMPLE_SECONDS = 0.05


@dataclass(frozen=True, slots=True)
class Cost:
    """What a run cost.

    Attributes:
        seconds: wall time from the start of the process to its end.
        peak_bytes: greatest resident memory of any one process, mapped files that are in memory included.
    """

    seconds: float
    peak_bytes: int = 0


class ProcessFailure(RuntimeError):
    """A measured process failed; the message ends in what it said."""


def measure(run: Callable[[], object]) -> Cost:
    """Measure a function that starts processes and waits for them.

    Every process below this one is looked at several times a second: a kernel's own account (``wait4``)
    lacks those that nobody waits for, such as Spark's Java.
    """
    done = threading.Event()
    peak = [0]
    watch = threading.Thread(target=_watch, args=(done, peak), daemon=True)
    watch.start()
    start = time.perf_counter()
    try:
        run()
        seconds = time.perf_counter() - start
    finally:
        done.set()
        watch.join()
    return Cost(seconds, peak[0])


def check_run(command: Sequence[str | Path], cwd: Path) -> None:
    """Run a command to its end.

    Raises:
        ProcessFailure: It ended with another status than 0.
    """
    ended = subprocess.run(
        [str(word) for word in command], cwd=cwd, capture_output=True, text=True, check=False
    )
    if ended.returncode:
        raise ProcessFailure(f"{' '.join(map(str, command))} ended with {ended.returncode}:\n{ended.stderr}")


def _watch(done: threading.Event, peak: list[int]) -> None:
    while not done.wait(_SAMPLE_SECONDS):
        for process in _descendants(os.getpid()):
            peak[0] = max(peak[0], _peak_bytes(process))


def _descendants(process: int) -> list[int]:
    """Return the ids of all processes below one; any of them may end meanwhile."""
    found = []
    for children in Path(f"/proc/{process}/task").glob("*/children"):
        try:
            ids = [int(word) for word in children.read_text().split()]
        except OSError:
            continue
        for child in ids:
            found += [child, *_descendants(child)]
    return found


def _peak_bytes(process: int) -> int:
    """Return VmHWM of a process, 0 if it is gone."""
    try:
        status = Path(f"/proc/{process}/status").read_text()
    except OSError:
        return 0
    peaks = [line.split()[1] for line in status.splitlines() if line.startswith("VmHWM:")]
    return int(peaks[0]) << 10 if peaks else 0
