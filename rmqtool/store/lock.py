"""Is a broker at work on this store? The only module that lets the file ``lock`` be opened.

A broker holds a POSIX record lock on byte 0 of ``<store>/lock`` (``DefaultMessageStore#start``, 4.9.8 and
5.3.3: ``FileChannel#tryLock(0, 1, false)``). The source of the store tells who holds it, and changes nothing.

The trap: a process loses *all* its record locks on a file when it closes *any* descriptor of it. A process
that comes to hold this lock itself (work in place) must not probe it, here or anywhere else.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rmqtool.io import Location


@dataclass(frozen=True, slots=True)
class LockHolder:
    """The process that holds the lock.

    Attributes:
        pid: Its process id; None where the kernel cannot name it here (another machine or pid namespace).
        command: Its program and first arguments, if they may be read.
    """

    pid: int | None
    command: str | None = None

    def __str__(self) -> str:
        if self.pid is None:
            return "a process of another machine or container"
        return f"process {self.pid} ({self.command})" if self.command else f"process {self.pid}"


def lock_holder(store_root: Location) -> LockHolder | None:
    """Return who holds the store's lock, or None if nobody does or there is no lock file.

    A lock that this process holds itself is not reported.

    Raises:
        EnvironmentFailureError: The lock file may not be opened, or the file system cannot tell.
    """
    path = store_root / "lock"
    if not path.is_regular():
        return None
    pid = path.source.lock_holder(path.text)
    if pid is None:
        return None
    return LockHolder(pid, _command_of(pid)) if pid > 0 else LockHolder(None)


def _command_of(pid: int) -> str | None:
    try:
        words = Path(f"/proc/{pid}/cmdline").read_bytes().decode("utf-8", "replace").split("\0")
    except OSError:
        return None  # no /proc, or the process has just ended
    return words[0] or None
