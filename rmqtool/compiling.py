"""State of the compilation of kernels, apart from the compiler, so that reading it loads nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    Listener = Callable[[int, int, bool], None]


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


_SECONDS_EACH = 0.28
"""On one core: the 123 kernels of ``verify`` took 35 s."""
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
