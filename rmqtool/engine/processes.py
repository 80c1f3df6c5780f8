"""Processes that are to be gone, with all that they have started."""

from __future__ import annotations

import contextlib
import os
import signal
import time
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

_TIMEOUT_S, _POLL_S = 2, 0.005


def end_processes(leader: int) -> None:
    """Kill all of a session or process group, and see them gone: none may write after this.

    Args:
        leader: the process that began it.
    """
    deadline = time.monotonic() + _TIMEOUT_S
    while (members := list(_living_members(leader))) and time.monotonic() < deadline:
        for pid in members:
            with contextlib.suppress(ProcessLookupError):  # it was faster
                os.kill(pid, signal.SIGKILL)
        time.sleep(_POLL_S)


def _living_members(leader: int) -> Iterator[int]:
    """Yield the processes of a session or group that are no zombies; nothing where there is no ``/proc``.

    There workers end on their own: their daemon reads a pipe from the Java process.
    """
    for entry in Path("/proc").glob("[0-9]*/stat"):
        try:
            text = entry.read_text(errors="replace")
        except OSError:  # it ended while we looked
            continue
        # The fields after the command's name, which may hold anything: state, parent, group, session.
        state, _, group, session = text.rpartition(")")[2].split()[:4]
        if leader in {int(group), int(session)} and state != "Z":
            yield int(entry.parent.name)
