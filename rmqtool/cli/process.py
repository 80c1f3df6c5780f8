"""What a process brings along: closed streams, an odd locale, signals that would end it amid its work."""

from __future__ import annotations

import os
import signal
import sys


def take_over_process() -> None:
    """Prepare this process; the first thing that a command line does."""
    _stand_in_for_closed_streams()
    _read_names_as_utf8()
    _take_ends_for_interrupts()


def _stand_in_for_closed_streams() -> None:
    """Give closed standard streams their numbers back, before a file gets one, and what is meant for them.

    What is written to a closed standard output fails, as it does in other tools; remarks go nowhere.
    """
    for number, mode in ((0, os.O_RDONLY), (1, os.O_RDONLY), (2, os.O_WRONLY)):
        try:
            os.fstat(number)
        except OSError:
            opened = os.open(os.devnull, mode)
            if opened != number:
                os.dup2(opened, number)
                os.close(opened)
    if sys.stdout is None:
        sys.stdout = open(1, "w", encoding="utf-8", closefd=False)  # noqa: SIM115 - stays open
    if sys.stderr is None:
        sys.stderr = open(2, "w", encoding="utf-8", closefd=False)  # noqa: SIM115 - stays open


def _read_names_as_utf8() -> None:
    """Begin anew in Python's UTF-8 mode where the locale has another encoding.

    Directories are named after topics, which are UTF-8 in the log: read otherwise, they would not agree.
    """
    if sys.getfilesystemencoding() != "utf-8" and sys.executable:
        os.environ["PYTHONUTF8"] = "1"  # for workers
        os.execv(sys.executable, [sys.executable, "-X", "utf8", *sys.orig_argv[1:]])


def _take_ends_for_interrupts() -> None:
    """Let what ends a process (``timeout``, ``systemctl stop``, a lost terminal) clean up as Ctrl-C does."""
    for number in (signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(number) is signal.SIG_DFL:  # nohup ignores one of them
            signal.signal(number, signal.default_int_handler)
