"""Threads of this process, none of which waits for a lock that an interrupt of the main thread left taken.

`concurrent.futures` takes its locks in Python, and an interrupt there can leave one taken. So the main thread
takes those that others need only while interrupts are kept back, and waits in a queue, which is written in C.
"""

from __future__ import annotations

from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from queue import SimpleQueue
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar

from rmqtool.interrupts import interrupts_later

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

P = ParamSpec("P")
T = TypeVar("T")
R = TypeVar("R")


class Threads(ThreadPoolExecutor):
    """A pool of threads; wait for its futures with `result_of` or `as_ended`."""

    def __init__(self, count: int) -> None:
        super().__init__(count, thread_name_prefix="rmqtool")

    def submit(self, function: Callable[P, R], /, *arguments: P.args, **named: P.kwargs) -> Future[R]:
        """Begin work when a thread is free."""
        with interrupts_later():
            return super().submit(function, *arguments, **named)

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """Refuse further work, and wait for what is under way."""
        with interrupts_later():
            super().shutdown(wait, cancel_futures=cancel_futures)


def put_as_ended(ended: SimpleQueue[Future[Any]], *futures: Future[Any]) -> None:
    """Put each future into a queue when it has ended."""
    with interrupts_later():
        for future in futures:
            future.add_done_callback(ended.put)


def as_ended(*futures: Future[R]) -> Iterator[Future[R]]:
    """Yield futures as they end."""
    ended: SimpleQueue[Future[R]] = SimpleQueue()
    put_as_ended(ended, *futures)
    for _ in futures:
        yield ended.get()


def result_of(future: Future[R]) -> R:
    """Wait, and return what the work returned, or raise what it raised."""
    return next(as_ended(future)).result()


def cancel(futures: Iterable[Future[Any]]) -> None:
    """Leave out work that has not begun."""
    with interrupts_later():
        for future in futures:
            future.cancel()


def follow(futures: Sequence[Future[R]], progress: Callable[[int], None] | None = None) -> list[R]:
    """Wait for all, and return their results; once one has failed, no further ones begin.

    Raises what the first of them raised, by their order.
    """
    failed = False
    for completed, future in enumerate(as_ended(*futures), start=1):
        if failed:
            continue
        if future.exception() is not None:
            failed = True
            cancel(futures)
        elif progress is not None:
            progress(completed)
    return [future.result() for future in futures if not future.cancelled()]


@contextmanager
def at_work(
    function: Callable[[T], R], items: Sequence[T], count: int, futures: list[Future[R]]
) -> Iterator[None]:
    """Run a function on every item, and add their futures; at the end, leave out what has not begun."""
    threads = Threads(count)
    try:
        futures.extend(threads.submit(function, item) for item in items)
        yield
    finally:
        threads.shutdown(cancel_futures=True)
