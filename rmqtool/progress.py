"""Remarks and progress of a command while it works, and notices of kernels that compile."""

from __future__ import annotations

import time
from contextlib import contextmanager
from itertools import accumulate
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    Listener = Callable[[int, int, bool], None]


_MOST_WARNINGS = 20


def stage_of(progress: Progress, name: str, sizes: Iterable[int]) -> Callable[[int], None]:
    """Begin a stage of tasks of so many bytes each; return what shows it how many tasks are done."""
    done = list(accumulate(sizes, initial=0))
    progress.stage(name, done[-1])
    return lambda count: progress.advance(done[count])


@contextmanager
def timed(seconds: dict[str, float], stage: str) -> Iterator[None]:
    """Note the wall time of a stage."""
    start = time.perf_counter()
    yield
    seconds[stage] = round(time.perf_counter() - start, 3)


class Progress(Protocol):
    """Receiver of a command's stages and remarks; they go to standard error, never to the data."""

    def stage(self, name: str, total_bytes: int | None) -> None:
        """Begin a stage of ``total_bytes`` of work, None if that is not known."""

    def advance(self, done_bytes: int) -> None:
        """Report how many bytes of the stage are done so far."""

    def note(self, sentence: str) -> None:
        """Report something worth knowing."""

    def warn(self, sentence: str) -> None:
        """Report something that the user should not miss."""


class NullProgress:
    """A progress that reports nothing."""

    def stage(self, name: str, total_bytes: int | None) -> None:
        """Ignore it."""

    def advance(self, done_bytes: int) -> None:
        """Ignore it."""

    def note(self, sentence: str) -> None:
        """Ignore it."""

    def warn(self, sentence: str) -> None:
        """Ignore it."""


class _ForwardingProgress:
    """A progress that passes everything on."""

    def __init__(self, progress: Progress) -> None:
        self._progress = progress

    def stage(self, name: str, total_bytes: int | None) -> None:
        self._progress.stage(name, total_bytes)

    def advance(self, done_bytes: int) -> None:
        self._progress.advance(done_bytes)

    def note(self, sentence: str) -> None:
        self._progress.note(sentence)

    def warn(self, sentence: str) -> None:
        self._progress.warn(sentence)


class LimitedProgress(_ForwardingProgress):
    """Passes each sentence on once, and no more warnings than a person reads: a bad queue has one a unit."""

    def __init__(self, progress: Progress) -> None:
        super().__init__(progress)
        self._noted: set[str] = set()
        self._warned: set[str] = set()
        self._left_out = 0

    def note(self, sentence: str) -> None:
        """Report a new remark."""
        if sentence not in self._noted:
            self._noted.add(sentence)
            self._progress.note(sentence)

    def warn(self, sentence: str) -> None:
        """Report a new warning, within the limit."""
        if sentence in self._warned:
            return
        if len(self._warned) < _MOST_WARNINGS:
            self._warned.add(sentence)
            self._progress.warn(sentence)
        else:
            self._left_out += 1

    def finish(self) -> None:
        """Report how many warnings were left out."""
        if self._left_out:
            self._progress.warn(f"{self._left_out} more warnings like these were left out")
            self._left_out = 0


class RecordingProgress(_ForwardingProgress):
    """A progress that keeps notes and warnings, and passes everything on."""

    def __init__(self, forward_to: Progress | None = None) -> None:
        super().__init__(NullProgress() if forward_to is None else forward_to)
        self.notes: list[str] = []
        self.warnings: list[str] = []

    def note(self, sentence: str) -> None:
        """Keep it."""
        self.notes.append(sentence)
        super().note(sentence)

    def warn(self, sentence: str) -> None:
        """Keep it."""
        self.warnings.append(sentence)
        super().warn(sentence)


class Compilation:
    """Counts of the kernels of this process: in the modules loaded so far, ready on disk, being compiled.

    ``listener`` is called with ``ready``, ``kernels`` and whether one is under way at every change, by any
    thread.
    """

    def __init__(self) -> None:
        self.kernels = self.ready = self.under_way = 0
        self.listener: Listener | None = None

    def begin(self) -> None:
        """Count a kernel that is not on disk."""
        self.under_way += 1
        self._tell()

    def end(self) -> None:
        """Count a kernel that is compiled."""
        self.under_way -= 1
        self.ready += 1
        self._tell()

    def _tell(self) -> None:
        if self.listener is not None:
            self.listener(self.ready, self.kernels, self.under_way > 0)


_SECONDS_EACH = 0.08
"""On two cores: the 123 kernels of ``verify`` took 8 to 10 s; on one, 12."""
_ENOUGH = 8
_STEP_S = 5


def expected_s(done: int, left: int, elapsed_s: float) -> int:
    """Return how long compiling takes in all, in steps of five seconds.

    Once some kernels are done, this machine's own speed counts.
    """
    each_s = elapsed_s / done if done >= _ENOUGH else _SECONDS_EACH
    return max(1, round((elapsed_s + left * each_s) / _STEP_S)) * _STEP_S


COMPILATION = Compilation()
"""The counts of this process."""
