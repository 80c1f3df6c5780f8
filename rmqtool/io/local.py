"""Files of this machine, their owners and record locks.

Nothing is mapped, waited for, or marked as having been read. The lock of a store is a POSIX record lock on
the first byte of a file: ``F_GETLK`` on a read-only descriptor returns its holder, ``flock`` does not see it.
"""

from __future__ import annotations

import errno
import fcntl
import os
import stat
import struct
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

from rmqtool.errors import DeniedError, EnvironmentFailureError
from rmqtool.io.source import DirectoryEntry, FileKind, Status, is_object_url

_READ_FLAGS = os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY
_OWN = _READ_FLAGS | os.O_NOFOLLOW
_KINDS = {
    stat.S_IFREG: FileKind.FILE,
    stat.S_IFDIR: FileKind.DIRECTORY,
    stat.S_IFIFO: FileKind.FIFO,
    stat.S_IFCHR: FileKind.CHARACTER_DEVICE,
    stat.S_IFBLK: FileKind.BLOCK_DEVICE,
    stat.S_IFSOCK: FileKind.SOCKET,
}
_WANTED = {FileKind.FILE: "regular file", FileKind.BLOCK_DEVICE: "block device"}


@dataclass(frozen=True, slots=True)
class LocalFiles:
    """File systems of this machine; see `rmqtool.io.source.Source`."""

    OPENED: ClassVar[tuple[FileKind, ...]] = (FileKind.FILE,)

    def status(self, path: str) -> Status | None:
        """Return the status of a name, links followed; None if it does not exist."""
        try:
            return _status(os.stat(path))  # noqa: PTH116 - a `Path` would cost more than the call
        except (OSError, ValueError) as failure:
            return _unknown(failure) if os.path.lexists(path) or _is_denied(failure) else None

    def entries(self, path: str) -> list[DirectoryEntry]:
        """Return the entries of a directory by name; none if it is not one."""
        try:
            with os.scandir(path) as listing:
                return sorted(map(_entry, listing))
        except (OSError, ValueError) as failure:
            if isinstance(failure, PermissionError):
                raise _denied(path, "listed", failure) from failure
            if _is_denied(failure):
                raise EnvironmentFailureError(f"{path}: cannot be listed: {_reason(failure)}") from failure
            return []

    def open(self, path: str) -> Descriptor:
        """Open a file of one of ``OPENED`` for reading.

        All others are refused before the open, which can have effects on a device, and again after it; no
        FIFO is waited for. Links are followed. The access time is kept where the kernel permits it. Raises
        `DeniedError` if it may not be read; `EnvironmentFailureError` if it is of another kind, or missing.
        """
        try:
            self._require_kind(path, os.stat(path).st_mode)  # noqa: PTH116 - as in `status`
            descriptor = Descriptor(_open_without_trace(path))
        except PermissionError as failure:
            raise _denied(path, "opened", failure) from failure
        except (OSError, ValueError) as failure:
            raise EnvironmentFailureError(f"{path}: cannot be opened: {_reason(failure)}") from failure
        self._require_kind(path, os.fstat(descriptor.number).st_mode)
        return descriptor

    def _require_kind(self, path: str, mode: int) -> None:
        kind = _KINDS.get(stat.S_IFMT(mode), FileKind.OTHER)
        if kind not in self.OPENED:
            wanted = " or ".join(f"a {_WANTED[one]}" for one in self.OPENED)
            raise EnvironmentFailureError(
                f"{path}: is {kind}" + ("" if kind is FileKind.OTHER else f", not {wanted}")
            )

    def absolute(self, text: str) -> str:
        """Return a name from the top, by the working directory."""
        return os.path.abspath(text)  # noqa: PTH100 - Path.resolve would follow links and change names

    def real(self, path: str) -> str:
        """Return the path without links, as far as it exists; a circle of links stays as it is."""
        return os.path.realpath(path)

    def local_path(self, path: str) -> Path:
        """Return the path without links."""
        return Path(self.real(path))

    def lock_holder(self, path: str) -> int | None:
        """Return the process that holds a lock, see `rmqtool.io.local`.

        Closing the descriptor drops locks that this process holds on the file, see `rmqtool.store.lock`.
        """
        return lock_holder(self.open(path), path)


class LocalImages(LocalFiles):
    """File systems of this machine, with block devices that the user named readable, too.

    FIFOs and character devices stay refused: they have no positions to read at.
    """

    OPENED: ClassVar[tuple[FileKind, ...]] = (FileKind.FILE, FileKind.BLOCK_DEVICE)


@dataclass(frozen=True, slots=True)
class LinklessFiles(LocalFiles):
    """File systems of this machine, where links below a directory, ``top``, are named and not followed."""

    top: str

    def status(self, path: str) -> Status | None:
        """Return the status of a name; None if it does not exist."""
        return LocalFiles.status(self, path) if self._is_own(path) else Status(FileKind.LINK)

    def entries(self, path: str) -> list[DirectoryEntry]:
        """Return the entries of a directory by name; none if it is not one, or is reached by a link."""
        entries = LocalFiles.entries(self, path) if self._is_own(path) else []
        link = Status(FileKind.LINK, is_link=True)
        return [entry._replace(status=link) if entry.status.is_link else entry for entry in entries]

    def open(self, path: str) -> Descriptor:
        """Open a regular file, each part of its path in its parent, whatever is renamed meanwhile."""
        *parts, name = os.path.relpath(path, self.top).split("/")
        try:
            directory = Descriptor(os.open(self.top, _READ_FLAGS | os.O_DIRECTORY))
            for part in parts:
                directory = Descriptor(os.open(part, _OWN | os.O_DIRECTORY, dir_fd=directory.number))
            mode = os.stat(name, dir_fd=directory.number, follow_symlinks=False).st_mode
            if not stat.S_ISLNK(mode):
                self._require_kind(path, mode)
            descriptor = Descriptor(_open_without_trace(name, _OWN, directory.number))
        except PermissionError as failure:
            raise _denied(path, "opened", failure) from failure
        except OSError as failure:
            is_link = failure.errno in {errno.ELOOP, errno.ENOTDIR}
            raise DeniedError(path, f"is {FileKind.LINK}" if is_link else _reason(failure)) from failure
        self._require_kind(path, os.fstat(descriptor.number).st_mode)
        return descriptor

    def _is_own(self, path: str) -> bool:
        below = os.path.relpath(path, self.top)
        return self.real(path) == os.path.normpath(f"{self.real(self.top)}/{below}")


class Descriptor:
    """A descriptor that is closed with its last reference, so never during a read."""

    __slots__ = ("number",)

    def __init__(self, number: int) -> None:
        self.number = number

    def __del__(self) -> None:
        os.close(self.number)

    def size_bytes(self) -> int:
        """Return the current size."""
        status = os.fstat(self.number)
        if stat.S_ISBLK(status.st_mode):
            return os.lseek(self.number, 0, os.SEEK_END)  # no read here depends on the file position
        return status.st_size

    def read_into(self, position: int, view: memoryview[Any]) -> int:
        """Read once."""
        return os.preadv(self.number, [view], position)

    def next_written(self, position: int) -> int:
        """Return the next position that is not in a hole."""
        try:
            return os.lseek(self.number, position, os.SEEK_DATA)
        except OSError as failure:
            # ENXIO: nothing but holes from there on; anything else: this file system does not know
            return self.size_bytes() if failure.errno == errno.ENXIO else position


def _denied(path: str, done: str, failure: PermissionError) -> DeniedError:
    return DeniedError(path, f"cannot be {done}: {failure.strerror}: {who_may_read(Path(path))}")


def _open_without_trace(path: str, flags: int = _READ_FLAGS, directory: int | None = None) -> int:
    try:
        return os.open(path, flags | getattr(os, "O_NOATIME", 0), dir_fd=directory)
    except PermissionError:  # O_NOATIME is for the file's owner only
        return os.open(path, flags, dir_fd=directory)


def _entry(entry: os.DirEntry[str]) -> DirectoryEntry:
    try:
        status = _status(entry.stat())
    except OSError as failure:
        status = _unknown(failure)
    return DirectoryEntry(entry.name, status._replace(is_link=True) if entry.is_symlink() else status)


def _status(status: os.stat_result) -> Status:
    identity = status.st_dev, status.st_ino
    kind = _KINDS.get(stat.S_IFMT(status.st_mode), FileKind.OTHER)
    return Status(kind, status.st_size, status.st_mtime_ns, identity)


def _unknown(failure: OSError | ValueError) -> Status:
    return Status(FileKind.HIDDEN if _is_denied(failure) else FileKind.LOST, reason=_reason(failure))


def _is_denied(failure: OSError | ValueError) -> bool:
    """Return whether a failure is more than a missing file; no file here has a name that is a ValueError."""
    return isinstance(failure, OSError) and failure.errno not in {
        errno.ENOENT,
        errno.ENOTDIR,
        errno.ELOOP,
        errno.ENAMETOOLONG,
    }


def _reason(failure: OSError | ValueError) -> str:
    """Return the system's message; a name that no file can have is a ValueError."""
    return (failure.strerror if isinstance(failure, OSError) else None) or str(failure)


def as_owner(name: str) -> list[str]:
    """Return the prefix of a command that runs it as the user who may read a path.

    That is the owner of the nearest readable directory above, where the path itself may not be examined. Of
    an object, credentials decide: no user may read what another may not.
    """
    if is_object_url(name):
        return []
    place = _nearest(Path(name))
    return ["sudo", "-u", "root" if place is None else _user(place[1].st_uid)]


def who_may_read(path: Path) -> str:
    """Return the end of a sentence on the owner of a path that may not be read, and what to run.

    Where a directory above keeps the path from being examined, the sentence names that directory.
    """
    nearest = _nearest(path)
    if nearest is None:
        return "run rmqtool as the broker's user"
    place, status = nearest
    user, mode = _user(status.st_uid), stat.filemode(status.st_mode)
    what = "it belongs" if place == path else f"{place} belongs"
    owner = f"{what} to {user}:{_group(status.st_gid)}, {mode}"
    return f"{owner}; run rmqtool as that user: sudo -u {user} rmqtool …"


def _nearest(path: Path) -> tuple[Path, os.stat_result] | None:
    for place in (path, *path.absolute().parents):
        try:
            return place, place.stat()
        except OSError:
            continue
    return None


def _user(number: int) -> str:
    import pwd

    try:
        return pwd.getpwuid(number).pw_name
    except KeyError:
        return f"#{number}"  # as sudo -u takes it


def _group(number: int) -> str:
    import grp

    try:
        return grp.getgrgid(number).gr_name
    except KeyError:
        return str(number)


# struct flock: Linux has (l_type, l_whence, l_start, l_len, l_pid), the BSDs and macOS the other order.
_LINUX = sys.platform.startswith("linux")
_FLOCK = struct.Struct("@hhqqi4x" if _LINUX else "@qqihh")


def lock_holder(descriptor: Descriptor, path: str) -> int | None:
    """Return the process that holds the lock, as `Source.lock_holder`, but not this process."""
    try:
        answer = fcntl.fcntl(descriptor.number, fcntl.F_GETLK, _pack_write_lock())
    except OSError as failure:
        raise EnvironmentFailureError(f"{path}: cannot be probed for a lock: {failure.strerror}") from failure
    kind, pid = _unpack(answer)
    return None if kind == fcntl.F_UNLCK else pid


def take_lock(descriptor: int, path: str) -> bool:
    """Take the lock, for as long as this process closes no descriptor of the file; False if it is held."""
    try:
        fcntl.lockf(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, 0, os.SEEK_SET)
    except (BlockingIOError, PermissionError):
        return False
    except OSError as failure:
        raise EnvironmentFailureError(f"{path}: cannot be locked: {failure.strerror}") from failure
    return True


def _pack_write_lock() -> bytes:
    if _LINUX:
        return _FLOCK.pack(fcntl.F_WRLCK, os.SEEK_SET, 0, 1, 0)
    return _FLOCK.pack(0, 1, 0, fcntl.F_WRLCK, os.SEEK_SET)


def _unpack(answer: bytes) -> tuple[int, int]:
    fields = _FLOCK.unpack(answer)
    return (fields[0], fields[4]) if _LINUX else (fields[3], fields[2])
