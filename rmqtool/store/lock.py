"""Processes at work: a broker on the store (its ``lock``), and another run on an output."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from rmqtool.errors import EnvironmentFailureError, RefusedError, write_failure
from rmqtool.io.local import take_lock

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from rmqtool.io import Location


_HELD: set[Path] = set()
"""Roots whose lock this process holds."""


class LockHolder(NamedTuple):
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


_MARKER = "marker"
_TOOL = "rmqtool"
_LARGEST_MARKER = 4096


def area_prefix(out: Path) -> str:
    """Return the prefix of the names of an output's staging areas."""
    return f".{out.name}.{_TOOL}-"


def write_marker(path: Path, out: Path) -> int:
    """Write and lock the marker of a staging area; return its descriptor, which holds the lock."""
    owner = owner_of(out.name)
    descriptor = os.open(path / _MARKER, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o644)
    with contextlib.suppress(OSError):  # a file system without flock: id and start time decide
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    os.write(descriptor, json.dumps(owner).encode())
    return descriptor


def remove_dead_areas(out: Path) -> None:
    """Remove what killed runs for the same output left; `RefusedError` if one is alive."""
    import shutil  # and all that it packs with, which look-ups do without

    prefix = area_prefix(out)
    try:
        areas = [path for path in out.parent.iterdir() if path.name.startswith(prefix)]
        owned = [(path, owner) for path in areas if (owner := _marked_owner(path)) is not None]
        alive = {path for path, owner in owned if _is_alive(path / _MARKER, owner)}
    except OSError as failure:
        raise write_failure(failure, out.parent) from failure
    for path, owner in owned:
        if path in alive:
            who = f"process {owner.get('pid')} on {owner.get('host')}"
            raise RefusedError(f"{out}: {who} is writing this output ({path}); wait or choose another")
        shutil.rmtree(path, ignore_errors=True)


def _marked_owner(path: Path) -> dict[str, object] | None:
    if path.is_symlink() or not (path / _MARKER).is_file():
        return None
    try:
        with (path / _MARKER).open("rb") as marker:
            owner = json.loads(marker.read(_LARGEST_MARKER))
    except (OSError, ValueError):
        return None
    return owner if isinstance(owner, dict) and owner.get("tool") == _TOOL else None


def _is_alive(marker: Path, owner: dict[str, object]) -> bool:
    descriptor = os.open(marker, os.O_RDONLY | os.O_CLOEXEC)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:
        return is_owner_alive(owner)
    finally:
        os.close(descriptor)
    return False


def owner_of(target: str) -> dict[str, object]:
    """Return this process's entry for a marker."""
    pid = os.getpid()
    start = _start_time(pid)
    return {"tool": _TOOL, "host": os.uname().nodename, "pid": pid, "target": target, "start": start}


def is_owner_alive(owner: Mapping[str, object]) -> bool:
    """Return whether the process of a marker is alive, or may be: on another machine that is unknown."""
    pid = owner.get("pid")
    foreign = owner.get("host") != os.uname().nodename
    return foreign or (isinstance(pid, int) and _start_time(pid) == owner.get("start") is not None)


def _start_time(pid: int) -> str | None:
    """Return when a process started, in clock ticks since boot; None if it has ended."""
    try:
        status = Path(f"/proc/{pid}/stat").read_text("ascii", "replace")
    except OSError:
        return None
    return status.rpartition(")")[2].split()[19]  # field 22; the command before may contain anything
