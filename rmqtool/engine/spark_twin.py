"""A copy of this process that becomes the daemon of Spark's Python workers, with all imported that they need.

Importing it once more, in a process that Spark starts, takes more than half a second of a small store's
three. Spark does start one; that hands over its pipes, and waits for the copy's end.
"""

from __future__ import annotations

import contextlib
import gc
import json
import os
import select
import signal
import socket
import sys
import tempfile
import traceback
from io import TextIOWrapper
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

from rmqtool.engine.processes import end_processes

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

ADDRESS = "RMQTOOL_SPARK_TWIN"
"""The variable that names the socket where a twin waits."""

_THREADS, _DESCRIPTORS = Path("/proc/self/task"), Path("/proc/self/fd")
_PIPES = (0, 1, 2)
_ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
_SIGN = b"."


class Twin:
    """A copy of this process, made now; it ends with this process, if not before.

    Args:
        path: of the socket where it waits, in a private folder.
        become: what it becomes once it has the pipes.

    Raises:
        OSError: there is no place for the socket, or for one more process.
    """

    def __init__(self, path: Path, become: Callable[[], None]) -> None:
        with socket.socket(socket.AF_UNIX) as listener, _interrupts_held():
            listener.bind(os.fspath(path))
            listener.listen()
            parent_ended, self._alive = os.pipe()
            try:
                self._pid = os.fork()
            except OSError:
                os.close(self._alive)
                raise
            else:
                if not self._pid:
                    _live(listener, parent_ended, become)
            finally:
                os.close(parent_ended)

    def close(self) -> None:
        """End it, and all that it has started."""
        os.close(self._alive)
        end_processes(self._pid)
        with contextlib.suppress(ChildProcessError):  # where SIGCHLD is ignored, nobody has to wait
            os.waitpid(self._pid, 0)


def can_be_copied() -> bool:
    """Say whether this process has no second thread, whose locks would stay locked in a copy."""
    return _THREADS.is_dir() and len(list(_THREADS.iterdir())) == 1


def hand_over() -> bool:
    """Give this process's pipes, arguments and environment to the twin, and wait for its end.

    Returns:
        False if there is no twin.
    """
    with socket.socket(socket.AF_UNIX) as twin:
        try:
            twin.connect(os.environ[ADDRESS])
            socket.send_fds(twin, [_SIGN], _PIPES)
            twin.sendall(json.dumps([sys.argv, dict(os.environ)]).encode())
            twin.shutdown(socket.SHUT_WR)
            taken = twin.recv(1)
        except (KeyError, OSError):  # there is none, or another process was faster
            return False
        with contextlib.suppress(OSError):
            twin.recv(1)
        return bool(taken)


def _live(listener: socket.socket, parent_ended: int, become: Callable[[], None]) -> NoReturn:
    status = 1
    try:
        os.setpgid(0, 0)  # so that a terminal's Ctrl-C does not reach it
        for number in _ENDING:
            signal.signal(number, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, _ENDING)
        _let_go(listener.fileno(), parent_ended)
        ready, _, _ = select.select([listener.fileno(), parent_ended], [], [])
        if listener.fileno() in ready:
            caller, _ = listener.accept()  # who waits until this end of it is gone
            listener.close()
            _take_over(caller)
            gc.freeze()
            become()
    except SystemExit as end:
        status = end.code if isinstance(end.code, int) else 1
    except BaseException:
        traceback.print_exc()  # to whoever has asked; else to nobody, and Spark's own process does the work
    finally:
        os._exit(status)  # nothing of what the original would do at its end


@contextlib.contextmanager
def _interrupts_held() -> Iterator[None]:
    """Hold back what ends this process: amid the start of a copy, that would clean up after the original."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, _ENDING)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _let_go(*kept: int) -> None:
    """Let go of all files; their numbers stay taken, as objects of the original will close them."""
    nothing = os.open(os.devnull, os.O_RDWR)
    for number in [int(entry.name) for entry in _DESCRIPTORS.iterdir()]:
        if number not in {nothing, *kept}:
            os.dup2(nothing, number, inheritable=number in _PIPES)


def _take_over(caller: socket.socket) -> None:
    _, pipes, _, _ = socket.recv_fds(caller, len(_SIGN), len(_PIPES))
    for pipe, number in zip(pipes, _PIPES, strict=True):
        os.dup2(pipe, number)
        os.close(pipe)
    sys.stdin = os.fdopen(0, closefd=False)
    sys.stdout, sys.stderr = map(_unbuffered, _PIPES[1:])
    with caller.makefile("rb") as told:
        sys.argv, environment = json.load(told)
    os.environ.clear()
    os.environ.update(environment)
    tempfile.tempdir = None  # the environment names another
    caller.sendall(_SIGN)


def _unbuffered(number: int) -> TextIOWrapper:
    """Return a stream that keeps nothing back: workers end without asking it."""
    raw = os.fdopen(number, "wb", 0, closefd=False)
    return TextIOWrapper(raw, errors="backslashreplace", write_through=True)
