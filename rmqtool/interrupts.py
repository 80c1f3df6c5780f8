"""Interrupts, kept away from code that takes locks."""

from __future__ import annotations

import signal
import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator


@contextmanager
def interrupts_later() -> Iterator[None]:
    """Keep signals for the main thread until the end.

    An interrupt inside numba or `concurrent.futures` can leave a lock of theirs taken: other threads wait for
    it, and the command for them.
    """
    came: list[int] = []
    kept = {}
    if threading.current_thread() is threading.main_thread():
        for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT):
            if callable(signal.getsignal(number)):
                kept[number] = signal.signal(number, lambda number, _frame: came.append(number))
    try:
        yield
    finally:
        for number, handler in kept.items():
            signal.signal(number, handler)
        for signal_number in came:
            signal.raise_signal(signal_number)
