"""Is a broker at work on this store? The only module that lets the file ``lock`` be opened.

A broker holds a POSIX record lock on byte 0 of ``<store>/lock`` (``DefaultMessageStore#start``, 4.9.8 and
5.3.3: ``FileChannel#tryLock(0, 1, false)``). The source of the store tells who holds it, and changes nothing.

The trap: a process loses *all* its record locks on a file when it closes *any* descriptor of it. So while
`held_lock` holds one, nobody here probes it.
"""

from __future__ import annotations

import os
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from rmqtool.errors import EnvironmentFailureError, RefusedError
from rmqtool.io.local import take_lock

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rmqtool.io import Location

_HELD: set[Path] = set()
"""Roots whose lock this process holds."""


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
    if not path.is_regular() or store_root.local_path() in _HELD:
        return None
    pid = path.source.lock_holder(path.text)
    if pid is None:
        return None
    return LockHolder(pid, _command_of(pid)) if pid > 0 else LockHolder(None)


@contextmanager
def held_lock(root: Location) -> Iterator[None]:
    """Hold a store's lock as a broker does, so that none starts; a store without the file has none.

    Raises:
        RefusedError: Somebody holds it.
        EnvironmentFailureError: The file may not be opened for writing, or the file system knows no locks.
    """
    holder, place = lock_holder(root), root.local_path()
    if holder is not None:
        raise RefusedError(f"{root}: {holder} holds the store's lock; stop the broker, nothing was changed")
    if place is None or not (root / "lock").is_regular():
        yield
        return
    path = place / "lock"
    try:
        descriptor = os.open(path, os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW)
    except OSError as failure:
        raise EnvironmentFailureError(f"{path}: cannot be opened to lock it: {failure.strerror}") from failure
    try:
        if not take_lock(descriptor, str(path)):
            raise RefusedError(f"{root}: a process has just taken the store's lock; nothing was changed")
        _HELD.add(place)
        yield
    finally:
        _HELD.discard(place)
        os.close(descriptor)


def _command_of(pid: int) -> str | None:
    try:
        words = Path(f"/proc/{pid}/cmdline").read_bytes().decode("utf-8", "replace").split("\0")
    except OSError:
        return None  # no /proc, or the process has just ended
    return words[0] or None
