"""The store's ``lock`` file, by which a running broker is found; no other module may open it.

A broker holds a POSIX record lock on byte 0 of ``<store>/lock`` (``DefaultMessageStore#start``, 4.9.8 and
5.3.3: ``FileChannel#tryLock(0, 1, false)``). The store's source finds the holder and changes nothing. A
process loses *all* its record locks on a file when it closes *any* descriptor of it. So this process never
probes a lock that `held_lock` holds.
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
    """Process that holds the lock.

    ``pid`` is None where the kernel cannot name it here (another machine or pid namespace); ``command`` is
    its program, if it may be read.
    """

    pid: int | None
    command: str | None = None

    def __str__(self) -> str:
        if self.pid is None:
            return "a process of another machine or container"
        return f"process {self.pid} ({self.command})" if self.command else f"process {self.pid}"


def lock_holder(store_root: Location) -> LockHolder | None:
    """Return the holder of the store's lock; None if it is free, held by this process, or has no file."""
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

    Raises `RefusedError` if another process holds it; `EnvironmentFailureError` if it may not be opened for
    writing, or the file system knows no locks.
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
