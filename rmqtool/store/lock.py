"""Is a broker at work on this store? The only module that opens the file ``lock``.

A broker holds a POSIX record lock on byte 0 of ``<store>/lock`` (``DefaultMessageStore#start``, 4.9.8 and
5.3.3: ``FileChannel#tryLock(0, 1, false)``). ``F_GETLK`` on a read-only descriptor asks the kernel who would
be in the way and changes nothing; ``flock`` would not see it.

The trap: a process loses *all* its record locks on a file when it closes *any* descriptor of it. A process
that comes to hold this lock itself (work in place) must not probe it, here or anywhere else.
"""

from __future__ import annotations

import fcntl
import os
import struct
import sys
from dataclasses import dataclass
from pathlib import Path

from rmqtool.errors import EnvironmentFailureError
from rmqtool.store.reading import open_regular

# struct flock: Linux has (type, whence, start, length, pid), the BSDs and macOS the other order.
_LINUX = sys.platform.startswith("linux")
_FLOCK = struct.Struct("@hhqqi4x" if _LINUX else "@qqihh")


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


def lock_holder(store_root: Path) -> LockHolder | None:
    """Return who holds the store's lock, or None if nobody does or there is no lock file.

    A lock that this process holds itself is not reported.

    Raises:
        EnvironmentFailureError: The lock file may not be opened, or the file system cannot tell.
    """
    path = store_root / "lock"
    if not path.is_file():
        return None
    descriptor = open_regular(path)
    try:
        answer = fcntl.fcntl(descriptor, fcntl.F_GETLK, _pack_write_lock())
    except OSError as failure:
        raise EnvironmentFailureError(f"{path}: cannot be probed for a lock: {failure.strerror}") from failure
    finally:
        os.close(descriptor)
    kind, pid = _unpack(answer)
    if kind == fcntl.F_UNLCK:
        return None
    return LockHolder(pid, _command_of(pid)) if pid > 0 else LockHolder(None)


def _pack_write_lock() -> bytes:
    """Return a ``struct flock`` for a write lock on byte 0."""
    if _LINUX:
        return _FLOCK.pack(fcntl.F_WRLCK, os.SEEK_SET, 0, 1, 0)
    return _FLOCK.pack(0, 1, 0, fcntl.F_WRLCK, os.SEEK_SET)


def _unpack(answer: bytes) -> tuple[int, int]:
    """Return lock type and pid of a ``struct flock``."""
    fields = _FLOCK.unpack(answer)
    return (fields[0], fields[4]) if _LINUX else (fields[3], fields[2])


def _command_of(pid: int) -> str | None:
    try:
        words = Path(f"/proc/{pid}/cmdline").read_bytes().decode("utf-8", "replace").split("\0")
    except OSError:
        return None  # no /proc, or the process has just ended
    return words[0] or None
