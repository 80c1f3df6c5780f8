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
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

from rmqtool.engine.processes import end_processes

if TYPE_CHECKING:
    from collections.abc import Callable

ADDRESS = "RMQTOOL_SPARK_TWIN"
"""The variable that names the socket where a twin waits."""

_THREADS, _DESCRIPTORS = Path("/proc/self/task"), Path("/proc/self/fd")
_PIPES = (0, 1, 2)
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
        with socket.socket(socket.AF_UNIX) as listener:
            listener.bind(os.fspath(path))
            listener.listen()
            parent_ended, self._alive = os.pipe()
            self._pid = os.fork()
            if not self._pid:
                _live(listener, parent_ended, become)
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
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, signal.SIG_DFL)
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
    finally:
        os._exit(status)  # nothing of what the original would do at its end


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
    sys.stdin, sys.stdout, sys.stderr = (
        os.fdopen(number, mode, closefd=False) for number, mode in zip(_PIPES, "rww", strict=True)
    )
    with caller.makefile("rb") as told:
        sys.argv, environment = json.load(told)
    os.environ.clear()
    os.environ.update(environment)
    caller.sendall(_SIGN)
