"""Outermost function: from arguments to an exit status, with the state of the process put in order first."""

from __future__ import annotations

import errno
import os
import signal
import sys
import traceback
from pathlib import Path
from typing import TYPE_CHECKING

import click

from rmqtool.cli.group import INTERNAL_ERROR, ROOT, SharedState
from rmqtool.errors import ExitStatus, RmqtoolError

if TYPE_CHECKING:
    from collections.abc import Sequence


_DEBUG_OPTION = "--debug"
_READER_GONE = 128 + signal.SIGPIPE
"""Status of a command whose rows nobody reads to the end (``head``), as shells have it for other programs."""
_COMPLETION = "_RMQTOOL_COMPLETE"
"""Variable of `rmqtool.cli.completion`, by which a shell requests completions."""

_WRITE_ERRORS = frozenset({errno.EBADF, errno.EDQUOT, errno.EFBIG, errno.EIO, errno.ENOSPC})
"""Without a file name they are of standard output: what else is written and read names its file."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command line and return the exit status."""
    words = list(sys.argv[1:] if arguments is None else arguments)
    state = SharedState()
    state.words = tuple(words)
    if arguments is None and os.environ.get(_COMPLETION):
        return _answer_shell(state, os.environ[_COMPLETION])
    if arguments is None:
        take_over_process()
    debug = _DEBUG_OPTION in words
    try:
        return _run(words, state, debug=debug)
    finally:
        state.close()


def _run(words: list[str], state: SharedState, *, debug: bool) -> int:
    """Run the command, and return the exit status, whatever happens."""
    try:
        with ROOT.make_context("rmqtool", words, obj=state) as context:
            status = ROOT.invoke(context)
        sys.stdout.flush()
        return int(status or ExitStatus.CLEAN)
    except click.exceptions.Exit as end:
        return end.exit_code
    except BrokenPipeError:
        from rmqtool.report.output import silence

        silence(sys.stdout)
        return _READER_GONE
    except BaseException as failure:
        return _explain(failure, state, debug=debug)


# Python keeps the frames of calls in pieces of 16 KiB, and maps and unmaps one for every call that crosses an
# edge: thousands of times where many imports lie there. A frame this large takes one piece for all of them.
_run.__code__ = _run.__code__.replace(co_stacksize=1 << 15)


def _answer_shell(state: SharedState, instruction: str) -> int:
    """Print completions of a line; nothing if one fails."""
    try:
        from rmqtool.cli.completion import answer_shell

        return answer_shell(ROOT, state, instruction)
    except Exception:
        return ExitStatus.FAILED
    finally:
        state.close()


def _drop_what_cannot_be_written() -> None:
    """Keep the interpreter's last flush of standard output from failing once more."""
    try:
        sys.stdout.flush()
    except OSError:
        from rmqtool.report.output import silence

        silence(sys.stdout)


def _explain(failure: BaseException, state: SharedState, *, debug: bool) -> int:
    """Say in one sentence why the command ended, and return the status that goes with it."""
    if debug:
        traceback.print_exception(failure)
    if isinstance(failure, KeyboardInterrupt | click.Abort):
        state.error(state.interrupted)
        return ExitStatus.INTERRUPTED
    if isinstance(failure, click.ClickException):
        failure.show()
        return ExitStatus.USAGE
    if isinstance(failure, RmqtoolError):
        state.error(str(failure))
        return failure.status
    if isinstance(failure, OSError):
        is_output = failure.filename is None and failure.errno in _WRITE_ERRORS
        place = "standard output" if is_output else failure.filename
        sentence = f"{place}: {failure.strerror}" if place else failure.strerror or str(failure)
        if isinstance(failure, PermissionError) and isinstance(failure.filename, str):
            from rmqtool.io.local import who_may_read

            sentence += f": {who_may_read(Path(failure.filename))}"
        state.error(sentence)
        _drop_what_cannot_be_written()
        return ExitStatus.FAILED
    if isinstance(failure, SystemExit | GeneratorExit):
        raise failure
    state.error(f"{INTERNAL_ERROR}: {type(failure).__name__}: {failure} (run again with --debug for details)")
    return ExitStatus.FAILED


def take_over_process() -> None:
    """Prepare this process; the first thing that a command line does."""
    _stand_in_for_closed_streams()
    _read_names_as_utf8()
    _take_ends_for_interrupts()


def _stand_in_for_closed_streams() -> None:
    """Open closed standard streams again, before a file gets their numbers, and output meant for them.

    Writing to a closed standard output fails, as it does in other tools; remarks go nowhere.
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
    """Restart in Python's UTF-8 mode where the locale has another encoding.

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
