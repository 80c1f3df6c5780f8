"""Who is told of kernels that are compiled; apart from the compiler, so that asking for it loads nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    Listener = Callable[[int, int, bool], None]


class Compilation:
    """How far the kernels of this process are.

    Attributes:
        kernels: how many there are in the modules loaded so far.
        ready: how many were compiled, or found on disk.
        under_way: how many are being compiled; one that calls others waits for them.
        listener: is told ``ready``, ``kernels`` and whether one is under way at every change; it may be
            called by any thread.
    """

    def __init__(self) -> None:
        self.kernels = self.ready = self.under_way = 0
        self.listener: Listener | None = None

    def begin(self) -> None:
        """Note that a kernel is not on disk."""
        self.under_way += 1
        self._tell()

    def end(self) -> None:
        """Note that a kernel is compiled."""
        self.under_way -= 1
        self.ready += 1
        self._tell()

    def _tell(self) -> None:
        if self.listener is not None:
            self.listener(self.ready, self.kernels, self.under_way > 0)


_SECONDS_EACH = 0.28
"""Of one core: the 123 kernels of ``verify`` took 35 s."""
_ENOUGH = 8
_STEP_S = 5


def expected_s(done: int, left: int, elapsed_s: float) -> int:
    """Return how long compiling takes in all, in steps of five seconds.

    Args:
        done: kernels compiled so far; when they are some, this machine's own speed counts.
        left: kernels that may have to be compiled.
        elapsed_s: what those done took.
    """
    each_s = elapsed_s / done if done >= _ENOUGH else _SECONDS_EACH
    return max(1, round((elapsed_s + left * each_s) / _STEP_S)) * _STEP_S


COMPILATION = Compilation()
"""That of this process."""
