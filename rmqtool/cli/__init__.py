"""COMMAND LINE: options, one module per command, and the exit status; nothing else.

`main` is the outermost function. Commands are imported when they are called for, so that ``--help`` and a
wrong option cost a few milliseconds.
"""

from __future__ import annotations

import atexit
import gc
import os
import sys
import threading
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["main"]

_INTERRUPTED = 130
"""`rmqtool.errors.ExitStatus.INTERRUPTED`, before anything is loaded."""
_ALLOCATIONS_A_COLLECTION = 500_000
"""To look for cycles among classes being loaded finds none and costs some hundredths of the start."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command line and return the exit status, as `rmqtool.cli.entry.main` does.

    That an interrupt finds the libraries half loaded is no reason for a traceback.
    """
    gc.set_threshold(_ALLOCATIONS_A_COLLECTION)
    # numpy's BLAS, of which nothing is needed, starts threads that spin for some hundredths of a second
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    try:
        from rmqtool.cli import entry
    except KeyboardInterrupt:
        return _INTERRUPTED
    status = entry.main(arguments)
    if arguments is None:
        _end_process(status)
    return status


def _end_process(status: int) -> None:
    """End the process at once, where nothing but taking apart what it has loaded is left to do.

    That takes a twentieth of a small ``verify``, and a tenth of a ``query``. Returns where threads are still
    at work, or somebody watches: the interpreter ends as usual then.
    """
    run_exit_functions = getattr(atexit, "_run_exitfuncs", None)
    is_watched = sys.gettrace() is not None or sys.getprofile() is not None
    if run_exit_functions is None or is_watched or threading.active_count() > 1:
        return
    run_exit_functions()
    try:
        sys.stdout.flush()
        sys.stderr.flush()
    except (OSError, ValueError):
        return
    os._exit(status)
