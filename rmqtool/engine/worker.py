"""The inside of a worker process: one item after the other, until the process that started it has no more."""

from __future__ import annotations

import pickle
import signal
from multiprocessing.connection import Connection
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import FrameType


def serve(descriptor: int) -> None:
    """Run a function on items as they come, and send back what it returns, or why it does not.

    An end that is asked for (`SIGTERM`) is a `KeyboardInterrupt` in the function, which may still return what
    it has; Ctrl-C is the business of the process that started this one.

    Args:
        descriptor: Of a connection: first comes the function, then items; `True` goes back when all is
            loaded, then pairs of result and reason.
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
    """Interrupt what goes on; what cleans up after that is left alone."""
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    raise KeyboardInterrupt


def _answer(function: Callable[[Any], Any], item: object) -> bytes:
    try:
        return pickle.dumps((function(item), None))
    except Exception as failure:
        return pickle.dumps((None, f"internal error: {type(failure).__name__}: {failure}"))
