"""What is known of a run when it begins: who, where, when, with what."""

from __future__ import annotations

import getpass
import os
import platform
import pwd
import socket
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from rmqtool.commands.case.model import Operator, RunFacts

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from rmqtool.commands.case.model import CaseOption

_NS_A_S = 1_000_000_000


def facts_now(version: str, command: Iterable[str], options: Mapping[str, CaseOption]) -> RunFacts:
    """Return the facts of a run that begins in this process.

    Args:
        version: Of this tool.
        command: Its words.
        options: By name.
    """
    return RunFacts(
        rmqtool=version,
        python=platform.python_version(),
        platform=f"{platform.system()} {platform.release()} {platform.machine()}",
        command=tuple(command),
        directory=str(Path.cwd()),
        operator=Operator(_login(), os.getuid(), os.environ.get("SUDO_USER"), socket.gethostname()),
        started=utc_text(time.time_ns()),
        options=options,
    )


def _login() -> str:
    """Return the user's name by the number, which no variable of the environment can change."""
    try:
        return pwd.getpwuid(os.getuid()).pw_name
    except KeyError:  # as in a container
        pass
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return str(os.getuid())


def utc_text(time_ns: int) -> str:
    """Return a time in nanoseconds since 1970 as ISO 8601 has it, in UTC and without loss."""
    seconds, rest = divmod(time_ns, _NS_A_S)
    try:
        return f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%dT%H:%M:%S}.{rest:09d}Z"
    except (OverflowError, ValueError, OSError):  # a file's time may be of any year
        return f"{time_ns} ns"
