"""The only writer of store files: results grow in a hidden directory and appear by one rename.

Beside ``OUT`` a directory ``.OUT.rmqtool-XXXXXXXX`` holds::

    marker     who is at work; locked with flock as long as that process lives
    result/    becomes OUT
    blocks/    scratch of the pipeline, dropped before the rename

What a killed run leaves behind is recognised by its marker, whose lock died with the process, and is removed
by the next run for the same target. flock rather than the process id decides, because ids mean nothing across
containers that share a disk; where a file system has no flock, the id and the start time of the process do.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import json
import os
import secrets
import shutil
import socket
import stat
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from rmqtool.errors import RefusedError
from rmqtool.io import location_of
from rmqtool.store.names import directory_around, real_path
from rmqtool.store.staged_file import StagedFile, failure_of, remove_tree
from rmqtool.store.syncing import sync_directory, sync_tree

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from rmqtool.io import Location

_MARKER = "marker"
_RESULT = "result"
_BLOCKS = "blocks"
_TOOL = "rmqtool"
_LARGEST_MARKER = 4096
_OCCUPIED = {errno.ENOTEMPTY, errno.EEXIST, errno.ENOTDIR}


@dataclass(frozen=True, slots=True)
class StagingHandle:
    """What a task needs to write into a staging area: its path. Picklable.

    Attributes:
        path: The hidden directory.
    """

    path: Path

    @property
    def result(self) -> Path:
        """Return the directory that becomes the output."""
        return self.path / _RESULT

    @property
    def blocks(self) -> Path:
        """Return the scratch directory, which is no part of the output."""
        return self.path / _BLOCKS

    @property
    def results(self) -> Location:
        """Return the place of what has been written of the result so far."""
        return location_of(self.result)

    def remove(self, relative: str) -> None:
        """Remove a file of the result that does not count, and its folder if nothing else is in it."""
        path = self.result / relative
        path.unlink(missing_ok=True)
        if path.parent != self.result:
            with contextlib.suppress(OSError):  # others are in it
                path.parent.rmdir()

    def create_file(self, relative: str, size_bytes: int | None = None) -> StagedFile:
        """Begin a file of the result; it takes its name when it is closed without an error.

        A task that is tried again, or twice at once, writes a file of its own each time; the last to finish
        gives the name, with the same bytes.

        Args:
            relative: Path inside the output, ``/`` between its components.
            size_bytes: Size to extend the file to at once, sparse; None to let it grow.

        Raises:
            RefusedError: The path would leave the output.
            EnvironmentFailureError: It cannot be created.
        """
        return StagedFile(self.blocks, self.result, relative, size_bytes)

    def create_block(self, name: str) -> StagedFile:
        """Begin a scratch file; as `create_file`, but below ``blocks``."""
        return StagedFile(self.blocks, self.blocks, name, None)


class StagingArea:
    """A staging area for one output directory; use it as a context manager.

    Leaving the block without `publish` discards everything, also after an interrupt.

    Args:
        out: The output directory; must not exist, or be empty.
        evidence_roots: Directories that nothing may be written into.
        own: A directory inside of them that is the caller's to write into, as that of a repair.

    Raises:
        RefusedError: ``out`` has contents, lies inside the evidence or around it, or another run is at work
            on it.
        EnvironmentFailureError: The file system does not let us.
    """

    def __init__(self, out: Path, evidence_roots: Iterable[Path] = (), own: Path | None = None) -> None:
        self.out = real_path(out)
        if own is None or not self.out.is_relative_to(real_path(own)):
            _refuse_evidence(self.out, evidence_roots)
        _refuse_contents(self.out)
        self._made_parents = _make_parents(self.out.parent)
        self._marker: int | None = None
        self._published = False
        try:
            _remove_dead_areas(self.out)
            self.handle = StagingHandle(self._create())
        except BaseException:
            self._remove_parents()
            raise

    def __enter__(self) -> StagingArea:
        return self

    def __exit__(self, *exc: object) -> None:
        if not self._published:
            self.discard()
        elif self.handle.path.exists():  # an interrupt came between the rename and the removal
            self._remove()

    def create_file(self, relative: str, size_bytes: int | None = None) -> StagedFile:
        """Begin a file of the result; see `StagingHandle.create_file`."""
        return self.handle.create_file(relative, size_bytes)

    def publish(self) -> None:
        """Flush the result to the disk and let it appear as ``out`` by one rename.

        Raises:
            RefusedError: ``out`` has got contents meanwhile; the staging area is removed.
            EnvironmentFailureError: Out of space or an I/O error at the flush; the staging area is removed.
        """
        try:
            remove_tree(self.handle.blocks)  # first: what is gone needs no flush
            if self.out.is_dir():
                self.handle.result.chmod(stat.S_IMODE(self.out.stat().st_mode))
            sync_tree(self.handle.result)
            self.handle.result.rename(self.out)
            sync_directory(self.out.parent)
        except OSError as failure:
            self.discard()
            if failure.errno in _OCCUPIED:
                raise RefusedError(
                    f"{self.out}: got contents while the result was made; nothing was changed"
                ) from None
            raise failure_of(failure, self.out) from failure
        self._published = True
        self._remove()

    def discard(self) -> None:
        """Remove the staging area, and the parents of ``out`` that were made for it."""
        self._remove()
        self._remove_parents()

    def _create(self) -> Path:
        path = self.out.parent / f"{_prefix(self.out)}{secrets.token_hex(4)}"
        try:
            path.mkdir()
            self._marker = _write_marker(path, self.out)
            (path / _RESULT).mkdir()
            (path / _BLOCKS).mkdir()
        except BaseException as failure:
            shutil.rmtree(path, ignore_errors=True)
            self._unlock()
            if isinstance(failure, OSError):
                raise failure_of(failure, path) from failure
            raise
        return path

    def _remove(self) -> None:
        # Best effort: a directory that cannot be removed now is removed by the next run.
        try:
            remove_tree(self.handle.path)
        except OSError:
            shutil.rmtree(self.handle.path, ignore_errors=True)
        self._unlock()

    def _remove_parents(self) -> None:
        for parent in self._made_parents:
            with contextlib.suppress(OSError):  # somebody else uses it by now
                parent.rmdir()

    def _unlock(self) -> None:
        marker, self._marker = self._marker, None
        if marker is not None:
            os.close(marker)


def refuse_inside(out: Path, evidence_roots: Iterable[Path], what: str = "the evidence") -> None:
    """Refuse an output inside the evidence.

    Args:
        out: The output.
        evidence_roots: Directories that nothing is written into.
        what: What they are.

    Raises:
        RefusedError: It lies there.
    """
    evidence = directory_around(out, evidence_roots)
    if evidence is not None:
        raise RefusedError(f"{out}: lies inside {what} {evidence}; nothing is written there")


def _prefix(out: Path) -> str:
    return f".{out.name}.{_TOOL}-"


def _refuse_evidence(out: Path, evidence_roots: Iterable[Path]) -> None:
    roots = [real_path(root) for root in evidence_roots]
    refuse_inside(out, roots)
    for evidence in roots:
        if evidence.is_relative_to(out):
            raise RefusedError(f"{out}: the evidence {evidence} lies inside of it; choose another output")


def _refuse_contents(out: Path) -> None:
    try:
        mode = out.lstat().st_mode
        occupied = not stat.S_ISDIR(mode) or any(out.iterdir())
    except FileNotFoundError:
        return
    except OSError as failure:
        raise failure_of(failure, out) from failure
    if occupied:
        raise RefusedError(f"{out}: exists and is no empty directory; choose another output or remove it")


def _make_parents(parent: Path) -> list[Path]:
    """Create missing parent directories and return them, the deepest first."""
    missing = []
    while not parent.exists():
        missing.append(parent)
        parent = parent.parent
    try:
        for path in reversed(missing):
            path.mkdir(exist_ok=True)
    except OSError as failure:
        raise failure_of(failure, missing[0]) from failure
    return missing


def _write_marker(path: Path, out: Path) -> int:
    """Write and lock the marker; return its descriptor, which holds the lock."""
    owner = owner_of(out.name)
    descriptor = os.open(path / _MARKER, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o644)
    with contextlib.suppress(OSError):  # a file system without flock: id and start time decide
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    os.write(descriptor, json.dumps(owner).encode())
    return descriptor


def _remove_dead_areas(out: Path) -> None:
    """Remove what killed runs for the same target left; refuse if one is alive."""
    prefix = _prefix(out)
    try:
        areas = [path for path in out.parent.iterdir() if path.name.startswith(prefix)]
        owned = [(path, owner) for path in areas if (owner := _marked_owner(path)) is not None]
        alive = {path for path, owner in owned if _is_alive(path / _MARKER, owner)}
    except OSError as failure:
        raise failure_of(failure, out.parent) from failure
    for path, owner in owned:
        if path in alive:
            who = f"process {owner.get('pid')} on {owner.get('host')}"
            raise RefusedError(f"{out}: {who} is at work on this output ({path}); wait or choose another")
        shutil.rmtree(path, ignore_errors=True)


def _marked_owner(path: Path) -> dict[str, object] | None:
    """Return what the marker of a staging area says; None if it is none, or is just being made."""
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
    """Return what a marker says of this process."""
    pid = os.getpid()
    start = _start_time(pid)
    return {"tool": _TOOL, "host": socket.gethostname(), "pid": pid, "target": target, "start": start}


def is_owner_alive(owner: Mapping[str, object]) -> bool:
    """Tell whether the process that a marker names is alive, or may be: on another machine nobody knows."""
    pid = owner.get("pid")
    foreign = owner.get("host") != socket.gethostname()
    return foreign or (isinstance(pid, int) and _start_time(pid) == owner.get("start") is not None)


def _start_time(pid: int) -> str | None:
    """Return when a process started, in clock ticks since boot; None if it is gone."""
    try:
        status = Path(f"/proc/{pid}/stat").read_text("ascii", "replace")
    except OSError:
        return None
    return status.rpartition(")")[2].split()[19]  # field 22; the command before may contain anything
