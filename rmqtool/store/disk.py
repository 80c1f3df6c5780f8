"""The only module that changes a store: renames, times and new files below one root, for `repair` alone.

The kernel does each primitive as a whole or not at all; `rmqtool.store.journal` combines and undoes them.
None leaves the root, whatever is renamed meanwhile: each begins at the root's device and inode, and opens
each part of a path in its parent (``openat``, ``O_NOFOLLOW``), links not followed.
"""

from __future__ import annotations

import errno
import os
import stat
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator

_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC | os.O_NOFOLLOW
_FILE = os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK  # never wait for a pipe
_NEW_FILE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW
_PRIVATE = 0o700
_NOBODY_ELSE_WRITES = 0o755
_OTHERS_WRITE = stat.S_IWGRP | stat.S_IWOTH
_OTHERS_REACH = stat.S_IRWXG | stat.S_IRWXO


class Node(NamedTuple):
    """Status of a name, links not followed.

    ``size`` is None of anything but a regular file, ``names`` is ``st_nlink``, ``is_ours`` says that the
    root's owner or the caller owns it.
    """

    is_directory: bool
    mode: int
    modified_ns: int
    device: int = 0
    size: int | None = None
    names: int = 1
    is_ours: bool = True


Identity = tuple[int, int]
"""Device and inode."""


class Disk:
    """Names below a directory of this machine, its path without links, ``/`` between components.

    ``""`` is the directory itself. Every method may raise `OSError`.
    """

    def __init__(self, root: Path) -> None:
        self.root = root
        self._status = root.stat()

    def node(self, path: str) -> Node | None:
        """Return the status of a name; None if there is nothing."""
        try:
            with self._around(path) as (parent, name):
                status = os.stat(name, dir_fd=parent, follow_symlinks=False)
        except FileNotFoundError:
            return None
        mode = status.st_mode
        return Node(
            stat.S_ISDIR(mode),
            stat.S_IMODE(mode),
            status.st_mtime_ns,
            status.st_dev,
            status.st_size if stat.S_ISREG(mode) else None,
            status.st_nlink,
            status.st_uid in {os.geteuid(), self._status.st_uid},
        )

    def names(self, path: str) -> list[str]:
        """Return the names in a directory, sorted."""
        with self._opened(path) as directory:
            return _names(directory)

    def read(self, path: str, limit: int) -> bytes:
        """Return the bytes of a regular file (else ``EINVAL``) up to the limit (else ``EFBIG``)."""
        with self._around(path) as (parent, name):
            descriptor = os.open(name, _FILE, dir_fd=parent)
        with open(descriptor, "rb") as file:  # noqa: PTH123 - a descriptor
            if not stat.S_ISREG(os.fstat(descriptor).st_mode):
                raise OSError(errno.EINVAL, "Is not a regular file", str(self.root / path))
            data = file.read(limit + 1)
        if len(data) > limit:
            raise OSError(errno.EFBIG, f"Is larger than {limit:,} bytes", str(self.root / path))
        return data

    def make_private(self, path: str) -> Identity:
        """Make a directory that only the caller can read or write until it is handed over.

        Raises `OSError` if another directory has its name by then (``ESTALE``).
        """
        with self._around(path) as (parent, name):
            os.mkdir(name, _PRIVATE, dir_fd=parent)
        with self._opened(path) as directory:
            made = os.fstat(directory)
            is_own = made.st_uid == os.geteuid() and not made.st_mode & _OTHERS_REACH
            if self._others_can_rename and (not is_own or _names(directory)):
                raise _exchanged(self.root / path)
            return _identity_of(made)

    def make_directory(self, path: str) -> None:
        """Make a directory in an existing one."""
        with self._around(path) as (parent, name):
            os.mkdir(name, dir_fd=parent)

    def write_new(self, path: str, data: bytes, mode: int) -> None:
        """Write a file that does not exist yet."""
        with self._around(path) as (parent, name):
            descriptor = os.open(name, _NEW_FILE, mode, dir_fd=parent)
        try:
            while data:
                data = data[os.write(descriptor, data) :]
            os.fchmod(descriptor, mode)
        finally:
            os.close(descriptor)

    @contextmanager
    def writing_into(self, path: str, made: Identity) -> Iterator[Path]:
        """Yield a path of a private directory for code that opens files by name.

        Where another user can rename entries of the root, the path leads by a descriptor to that very
        directory (``/proc/PID/fd``). Raises `OSError` if another directory has its name (``ESTALE``), or this
        system has no such paths (``EPERM``).
        """
        with self._opened(path) as directory:
            _check_identity(directory, made, self.root / path)
            if not self._others_can_rename:
                yield self.root / path
                return
            place = Path(f"/proc/{os.getpid()}/fd/{directory}")
            if not place.is_dir():
                raise OSError(
                    errno.EPERM,
                    "Other users can rename its entries: run this as its owner, who alone may write there",
                    str(self.root),
                )
            yield place

    def hand_over(self, path: str, made: Identity) -> None:
        """Give a private directory, and all in it, to the root's owner, as a broker has to write there.

        Raises `OSError` if another directory has its name, or this user may not give it away.
        """
        owner = self._status
        with self._opened(path) as directory:
            _check_identity(directory, made, self.root / path)
            for name in _names(directory):
                _give(directory, name, owner)
            _chown(directory, owner)
            os.fchmod(directory, stat.S_IMODE(owner.st_mode) & _NOBODY_ELSE_WRITES)

    def rename(self, source: str, target: str) -> None:
        """Rename to a name that does not exist; `FileExistsError` if it does."""
        with self._around(source) as (before, old), self._around(target) as (after, new):
            try:
                os.stat(new, dir_fd=after, follow_symlinks=False)
            except FileNotFoundError:
                os.rename(old, new, src_dir_fd=before, dst_dir_fd=after)
            else:
                raise FileExistsError(errno.EEXIST, "File exists", str(self.root / target))

    def set_modified(self, path: str, modified_ns: int) -> None:
        """Set the modification time; the access time stays."""
        with self._around(path) as (parent, name):
            status = os.stat(name, dir_fd=parent, follow_symlinks=False)
            times = status.st_atime_ns, modified_ns
            os.utime(name, ns=times, dir_fd=parent, follow_symlinks=False)

    def sync(self, path: str) -> None:
        """Flush a file's bytes, or a directory's entries and times."""
        with self._around(path) as (parent, name):
            descriptor = os.open(name, _FILE, dir_fd=parent)
            try:
                os.fsync(descriptor)
            finally:
                os.close(descriptor)

    def remove(self, path: str) -> None:
        """Remove a file, or an empty directory."""
        with self._around(path) as (parent, name):
            if stat.S_ISDIR(os.stat(name, dir_fd=parent, follow_symlinks=False).st_mode):
                os.rmdir(name, dir_fd=parent)
            else:
                os.unlink(name, dir_fd=parent)

    @property
    def _others_can_rename(self) -> bool:
        return self._status.st_uid != os.geteuid() or bool(self._status.st_mode & _OTHERS_WRITE)

    @contextmanager
    def _around(self, path: str) -> Iterator[tuple[int, str]]:
        """Open the directory that holds a name; for the root itself, the root and ``.``."""
        _check_path(path)
        folder, _, name = path.rpartition("/")
        with self._opened(folder) as parent:
            try:
                yield parent, name or "."
            except OSError as failure:
                if failure.filename == name:  # which means nothing without its directory
                    failure.filename = str(self.root / path)
                raise

    @contextmanager
    def _opened(self, path: str) -> Iterator[int]:
        """Open a directory part by part, links not followed.

        Raises `OSError` if a part is a link or not a directory (``ENOTDIR``), the path leaves the root
        (``EINVAL``), or the root was exchanged (``ESTALE``).
        """
        _check_path(path)
        directory = os.open(self.root, _DIRECTORY)
        try:
            _check_identity(directory, _identity_of(self._status), self.root)
            for part in path.split("/") if path else ():
                try:
                    above, directory = directory, os.open(part, _DIRECTORY, dir_fd=directory)
                except OSError as failure:
                    failure.filename = str(self.root / path)
                    if failure.errno in {errno.ENOTDIR, errno.ELOOP}:
                        failure.strerror = f"{part} is a link, or not a directory: nothing is changed in it"
                    raise
                os.close(above)
            yield directory
        finally:
            os.close(directory)


def _check_path(path: str) -> None:
    if path and ("\0" in path or not {"", ".", ".."}.isdisjoint(path.split("/"))):
        raise OSError(errno.EINVAL, "Is no path below the root", path)


def _names(directory: int) -> list[str]:
    return sorted(os.listdir(directory))


def _identity_of(status: os.stat_result) -> Identity:
    return status.st_dev, status.st_ino


def _check_identity(descriptor: int, expected: Identity, place: Path) -> None:
    if _identity_of(os.fstat(descriptor)) != expected:
        raise _exchanged(place)


def _exchanged(place: Path) -> OSError:
    return OSError(errno.ESTALE, "Is another directory than before: somebody has exchanged it", str(place))


def _give(parent: int, name: str, owner: os.stat_result) -> None:
    """Give away an entry of a private directory; it is this run's own, with one name."""
    status = os.stat(name, dir_fd=parent, follow_symlinks=False)
    flags = _DIRECTORY if stat.S_ISDIR(status.st_mode) else _FILE
    descriptor = os.open(name, flags, dir_fd=parent)
    try:
        if stat.S_ISDIR(status.st_mode):
            for below in _names(descriptor):
                _give(descriptor, below, owner)
        _chown(descriptor, owner)
    finally:
        os.close(descriptor)


def _chown(descriptor: int, owner: os.stat_result) -> None:
    status = os.fstat(descriptor)
    if (status.st_uid, status.st_gid) != (owner.st_uid, owner.st_gid):
        os.fchown(descriptor, owner.st_uid, owner.st_gid)
