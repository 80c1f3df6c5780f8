"""The POSIX record lock on the first byte of a file: who holds it, which changes nothing, and taking it.

``F_GETLK`` on a read-only descriptor asks who would be in the way of a write lock; ``flock`` does not see it.
"""

from __future__ import annotations

import fcntl
import os
import struct
import sys

from rmqtool.errors import EnvironmentFailureError

# struct flock: Linux has (type, whence, start, length, pid), the BSDs and macOS the other order.
_LINUX = sys.platform.startswith("linux")
_FLOCK = struct.Struct("@hhqqi4x" if _LINUX else "@qqihh")


def lock_holder(descriptor: int, path: str) -> int | None:
    """Return the process that holds the lock, as `rmqtool.io.source.Source.lock_holder`.

    A lock that this process holds itself is not reported.

    Args:
        descriptor: Of the open file.
        path: Its name, for the error.

    Raises:
        EnvironmentFailureError: The file system cannot tell.
    """
    try:
        answer = fcntl.fcntl(descriptor, fcntl.F_GETLK, _pack_write_lock())
    except OSError as failure:
        raise EnvironmentFailureError(f"{path}: cannot be probed for a lock: {failure.strerror}") from failure
    kind, pid = _unpack(answer)
    return None if kind == fcntl.F_UNLCK else pid


def take_lock(descriptor: int, path: str) -> bool:
    """Take the lock, for as long as this process closes no descriptor of the file; tell whether it was free.

    Args:
        descriptor: Of the file, open for writing.
        path: Its name, for the error.

    Raises:
        EnvironmentFailureError: The file system knows no such locks.
    """
    try:
        fcntl.lockf(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, 0, os.SEEK_SET)
    except (BlockingIOError, PermissionError):
        return False
    except OSError as failure:
        raise EnvironmentFailureError(f"{path}: cannot be locked: {failure.strerror}") from failure
    return True


def _pack_write_lock() -> bytes:
    """Return a ``struct flock`` for a write lock on byte 0."""
    if _LINUX:
        return _FLOCK.pack(fcntl.F_WRLCK, os.SEEK_SET, 0, 1, 0)
    return _FLOCK.pack(0, 1, 0, fcntl.F_WRLCK, os.SEEK_SET)


def _unpack(answer: bytes) -> tuple[int, int]:
    """Return lock type and pid of a ``struct flock``."""
    fields = _FLOCK.unpack(answer)
    return (fields[0], fields[4]) if _LINUX else (fields[3], fields[2])
