"""Worker processes of this machine, for items that are mostly Python, where threads would take turns.

A worker that dies loses one item, and another worker is started. They are new processes, not forks, which
would lack threads (of a progress bar, of a library) that their code relies on.
"""

from __future__ import annotations

import pickle
import signal
import subprocess
import sys
import time
from contextlib import contextmanager, suppress
from multiprocessing.connection import Connection, Pipe, wait
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from rmqtool.engine import MapInterruptedError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from types import FrameType


T = TypeVar("T")
R = TypeVar("R")

_PATIENCE_S = 20.0
"""Time for an interrupted item to clean up."""

_SERVE = """\
import sys
sys.path[:] = sys.argv[2:]
from rmqtool.engine.workers import serve
serve(int(sys.argv[1]))
"""


def map_in_workers(
    function: Callable[[T], R],
    items: Sequence[T],
    lost: Callable[[T, str], R],
    count: int,
    progress: Callable[[int], None],
) -> dict[int, R]:
    """Run a function on items, each in one of ``count`` worker processes; return the results by number.

    Missing results were not begun, as no process could be started. Function, items (the longest first) and
    results are pickled. Workers write nothing to this process's streams. An interrupt raises
    `KeyboardInterrupt` in the function. ``lost`` makes a result of an item without one, and the reason: its
    process ended, or it raised. Raises `MapInterruptedError` for Ctrl-C, or an interrupt that ``progress``
    raised.
    """
    workers = _Workers(function, items, lost, progress)
    try:
        workers.run(min(count, len(items)))
    except KeyboardInterrupt:
        workers.interrupt()
        raise MapInterruptedError(workers.results) from None
    finally:
        workers.end()
    return workers.results


class _Worker:
    def __init__(self, function: object) -> None:
        self.connection, theirs = Pipe()
        self.is_ready = False
        self.number: int | None = None
        with theirs, _interrupts_held():
            self._process = subprocess.Popen(
                [sys.executable or "", "-c", _SERVE, str(theirs.fileno()), *sys.path],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                pass_fds=[theirs.fileno()],
            )
        self.send(function)

    def send(self, value: object) -> None:
        """Send a value; a process that has ended is noticed when its answer is awaited."""
        with suppress(BrokenPipeError, ConnectionResetError):
            self.connection.send(value)

    def terminate(self) -> None:
        self._process.terminate()

    def end(self, patience_s: float) -> str:
        """Wait for the process, or kill it, and return how it ended."""
        self.connection.close()  # so that it stops waiting for items
        try:
            status = self._process.wait(patience_s)
        except subprocess.TimeoutExpired:
            self._process.kill()
            status = self._process.wait()
        if status >= 0:
            return f"its process ended with status {status}"
        known = {int(one): one.name for one in signal.Signals}
        reason = f"its process was killed by {known.get(-status, f'signal {-status}')}"
        return f"{reason}, perhaps for lack of memory" if -status == signal.SIGKILL else reason


class _Workers(Generic[T, R]):
    def __init__(
        self,
        function: Callable[[T], R],
        items: Sequence[T],
        lost: Callable[[T, str], R],
        progress: Callable[[int], None],
    ) -> None:
        self._function, self._items = function, items
        self._lost, self._progress = lost, progress
        self._next = 0
        self._at_work: dict[Connection[Any, Any], _Worker] = {}
        self._idle: list[_Worker] = []
        self.results: dict[int, R] = {}

    def run(self, count: int) -> None:
        """Run to the end, as long as there are workers."""
        for _ in range(count):
            self._start()
        while self._at_work:
            for connection in wait([*self._at_work]):
                self._hear(self._at_work[connection])  # type: ignore[index] # what was waited for

    def interrupt(self) -> None:
        """Interrupt the running items, and take the results that they still return."""
        for worker in self._at_work.values():
            worker.terminate()
        deadline = time.monotonic() + _PATIENCE_S
        for worker in self._at_work.values():
            with suppress(EOFError, OSError, pickle.UnpicklingError):
                if worker.number is not None and worker.connection.poll(deadline - time.monotonic()):
                    self._take(worker, worker.connection.recv())

    def end(self) -> None:
        """End the remaining processes."""
        while self._at_work:
            self._at_work.popitem()[1].end(0)
        while self._idle:
            self._idle.pop().end(_PATIENCE_S)

    def _start(self) -> None:
        with suppress(OSError):  # no memory for another one, or too many processes: the running ones do it
            worker = _Worker(self._function)
            self._at_work[worker.connection] = worker

    def _hear(self, worker: _Worker) -> None:
        try:
            message = worker.connection.recv()
        except (EOFError, OSError, pickle.UnpicklingError):
            self._bury(worker)
            return
        self._take(worker, message)
        if self._next < len(self._items):
            worker.number, self._next = self._next, self._next + 1
            worker.send(self._items[worker.number])
        else:
            self._idle.append(self._at_work.pop(worker.connection))
            worker.connection.close()

    def _take(self, worker: _Worker, message: Any) -> None:  # noqa: ANN401 - what was pickled
        worker.is_ready, number = True, worker.number
        if number is not None:
            result, reason = message
            self._done(number, result if reason is None else self._lost(self._items[number], reason))
            worker.number = None

    def _bury(self, worker: _Worker) -> None:
        """Note the item lost by a process that ended by itself; start another, if it ever was ready."""
        del self._at_work[worker.connection]
        reason = worker.end(_PATIENCE_S)
        if worker.number is not None:
            self._done(worker.number, self._lost(self._items[worker.number], reason))
        if worker.is_ready and self._next < len(self._items):
            self._start()

    def _done(self, number: int, result: R) -> None:
        self.results[number] = result
        self._progress(len(self.results))


@contextmanager
def _interrupts_held() -> Iterator[None]:
    """Block Ctrl-C, and in processes started meanwhile for ever: a terminal sends it to all."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT])
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def serve(descriptor: int) -> None:
    """Run a function on items as they come, and send back the results, or the failures.

    A request to end (`SIGTERM`) is a `KeyboardInterrupt` in the function, which may still return what it has;
    Ctrl-C is handled by the process that started this one. On the connection the function comes first, then
    items; `True` is sent when everything is loaded, then pairs of result and reason.
    """
    for number in (signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, _interrupt_once)
    with Connection(descriptor) as connection:
        try:
            function = connection.recv()
            connection.send(True)
            while True:
                connection.send_bytes(_answer(function, connection.recv()))
        except (EOFError, OSError, KeyboardInterrupt):
            return  # nothing more to do, or nobody to do it for


def _interrupt_once(_number: int, _frame: FrameType | None) -> None:
    """Interrupt the work once; its clean-up is not interrupted."""
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    raise KeyboardInterrupt


def _answer(function: Callable[[Any], Any], item: object) -> bytes:
    try:
        return pickle.dumps((function(item), None))
    except Exception as failure:
        return pickle.dumps((None, f"internal error: {type(failure).__name__}: {failure}"))
