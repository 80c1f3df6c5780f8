"""Markers of the processes that write outputs, and whether these are alive.

A lock by flock decides rather than the process id, because ids mean nothing across containers that share a
disk. Where a file system has no flock, the id and the start time of the process decide.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import shutil
import socket
from pathlib import Path
from typing import TYPE_CHECKING

from rmqtool.errors import RefusedError
from rmqtool.store.staged_file import failure_of

if TYPE_CHECKING:
    from collections.abc import Mapping

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
    prefix = area_prefix(out)
    try:
        areas = [path for path in out.parent.iterdir() if path.name.startswith(prefix)]
        owned = [(path, owner) for path in areas if (owner := _marked_owner(path)) is not None]
        alive = {path for path, owner in owned if _is_alive(path / _MARKER, owner)}
    except OSError as failure:
        raise failure_of(failure, out.parent) from failure
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
    return {"tool": _TOOL, "host": socket.gethostname(), "pid": pid, "target": target, "start": start}


def is_owner_alive(owner: Mapping[str, object]) -> bool:
    """Return whether the process of a marker is alive, or may be: on another machine that is unknown."""
    pid = owner.get("pid")
    foreign = owner.get("host") != socket.gethostname()
    return foreign or (isinstance(pid, int) and _start_time(pid) == owner.get("start") is not None)


def _start_time(pid: int) -> str | None:
    """Return when a process started, in clock ticks since boot; None if it has ended."""
    try:
        status = Path(f"/proc/{pid}/stat").read_text("ascii", "replace")
    except OSError:
        return None
    return status.rpartition(")")[2].split()[19]  # field 22; the command before may contain anything
