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


COMPILATION = Compilation()
"""That of this process."""
