"""Threads that wait for a service: so many at a time, and none that keeps a process from its end."""

from __future__ import annotations

import atexit
import threading
import time
from concurrent.futures import Future
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable

T = TypeVar("T")

THREADS = 16
_GRACE_S = 15.0
"""For requests on their way when the process ends: more than a silent server is given."""

_slots = threading.Semaphore(THREADS)
_ending = threading.Event()


def begin(function: Callable[..., T], *arguments: object) -> Future[T]:
    """Begin to do what takes requests."""
    future: Future[T] = Future()
    threading.Thread(target=_run, args=(future, function, arguments), daemon=True).start()
    return future


def pause(seconds: float) -> bool:
    """Wait before another attempt; tell whether there may be one, as nobody ends the process."""
    return not _ending.wait(seconds)


def _run(future: Future[T], function: Callable[..., T], arguments: tuple[object, ...]) -> None:
    with _slots:
        if _ending.is_set():
            future.cancel()
            return
        try:
            future.set_result(function(*arguments))
        except BaseException as failure:
            future.set_exception(failure)


def end() -> None:
    """Let nothing be tried again, and wait for what is on its way: no thread may outlive the interpreter."""
    _ending.set()
    until = time.monotonic() + _GRACE_S
    for _ in range(THREADS):
        _slots.acquire(timeout=max(until - time.monotonic(), 0))


atexit.register(end)
