"""Run a whole process and measure it: wall and processor time, and the greatest memory of all it starts."""

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
class ProcessCost:
    """What one process cost, as it was last seen.

    Attributes:
        name: of its program.
        peak_bytes: greatest resident memory, mapped files that are in memory included.
        cpu_seconds: processor time, of all its threads.
    """

    name: str
    peak_bytes: int
    cpu_seconds: float


@dataclass(frozen=True, slots=True)
class Cost:
    """What a run cost.

    Attributes:
        seconds: wall time from the start of the process to its end.
        processes: all that were seen, in the order in which they were.
    """

    seconds: float
    processes: tuple[ProcessCost, ...] = ()

    @property
    def peak_bytes(self) -> int:
        """Return the greatest resident memory of any one process."""
        return max((one.peak_bytes for one in self.processes), default=0)

    @property
    def cpu_seconds(self) -> float:
        """Return the processor time of all processes; what each did after its last look is missing."""
        return sum(one.cpu_seconds for one in self.processes)


class ProcessFailure(RuntimeError):
    """A measured process failed; the message ends in what it said."""


def measure(run: Callable[[], object]) -> Cost:
    """Measure a function that starts processes and waits for them.

    Every process below this one is looked at several times a second: a kernel's own account (``wait4``)
    lacks those that nobody waits for, such as Spark's Java.
    """
    done = threading.Event()
    seen: dict[int, ProcessCost] = {}
    watch = threading.Thread(target=_watch, args=(done, seen), daemon=True)
    watch.start()
    start = time.perf_counter()
    try:
        run()
        seconds = time.perf_counter() - start
    finally:
        done.set()
        watch.join()
    return Cost(seconds, tuple(seen.values()))


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


def _watch(done: threading.Event, seen: dict[int, ProcessCost]) -> None:
    while not done.wait(_SAMPLE_SECONDS):
        for process in _descendants(os.getpid()):
            if (cost := _cost_of(process)) is not None:
                seen[process] = cost


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


def _cost_of(process: int) -> ProcessCost | None:
    """Return what a process cost by now; None if it was deleted, or has ended and waits to be asked."""
    try:
        status = Path(f"/proc/{process}/status").read_text()
        name, _, rest = Path(f"/proc/{process}/stat").read_text().partition("(")[2].rpartition(")")
    except OSError:
        return None
    peaks = [line.split()[1] for line in status.splitlines() if line.startswith("VmHWM:")]
    ticks = sum(map(int, rest.split()[11:13]))  # utime and stime
    return ProcessCost(name, int(peaks[0]) << 10, ticks / os.sysconf("SC_CLK_TCK")) if peaks else None
