"""Read-only access to one file of evidence, robust against bad sectors and shrinking files.

Never mmap: a mapped file that shrinks, or a sector that cannot be read, kills the process with SIGBUS. The
file ``lock`` must not be opened here but in `rmqtool.store.lock` only: closing any descriptor of it drops a
record lock that this process might hold.
"""

from __future__ import annotations

import errno
import os
import stat
import threading
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from rmqtool.errors import DeniedError, EnvironmentFailureError
from rmqtool.store.owners import who_may_read

if TYPE_CHECKING:
    from collections.abc import MutableSequence
    from pathlib import Path

RETRY_BYTES = 4096
"""Smallest piece that is tried on its own when a read fails: a page, and whole sectors of any disk."""

_READ_FLAGS = os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY


@dataclass(frozen=True, slots=True, order=True)
class UnreadableRange:
    """Bytes of a file that the disk could not deliver; they were read as zeros.

    Attributes:
        position: Bytes from the start of the file.
        length: Bytes.
    """

    position: int
    length: int

    @property
    def stop(self) -> int:
        """Return the position after the range."""
        return self.position + self.length


def kind_of_non_file(mode: int) -> str:
    """Name what a mode of ``stat`` stands for when it is no regular file."""
    for test, name in (
        (stat.S_ISDIR, "a directory"),
        (stat.S_ISFIFO, "a FIFO"),
        (stat.S_ISCHR, "a character device"),
        (stat.S_ISBLK, "a block device"),
        (stat.S_ISSOCK, "a socket"),
    ):
        if test(mode):
            return name
    return "no regular file"


def open_regular(path: Path) -> int:
    """Open a regular file for reading and return its descriptor.

    Anything else is refused before it is opened (opening a device can have effects), and once more after it,
    without ever waiting for the other end of a FIFO. Links to regular files are followed. The access time is
    left alone where the kernel permits it.

    Raises:
        DeniedError: It may not be read.
        EnvironmentFailureError: It is no regular file, or is gone.
    """
    try:
        _require_regular(path, path.stat().st_mode)
        descriptor = _open_without_trace(path)
    except PermissionError as failure:
        raise denied(path, "opened", failure) from failure
    except OSError as failure:
        raise EnvironmentFailureError(f"{path}: cannot be opened: {failure.strerror}") from failure
    try:
        _require_regular(path, os.fstat(descriptor).st_mode)
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor


def denied(path: Path, done: str, failure: PermissionError) -> DeniedError:
    """Return what to raise where permissions keep a path from being opened or listed."""
    return DeniedError(str(path), f"cannot be {done}: {failure.strerror}: {who_may_read(path)}")


def _require_regular(path: Path, mode: int) -> None:
    if not stat.S_ISREG(mode):
        raise EnvironmentFailureError(f"{path}: is {kind_of_non_file(mode)}, not a regular file")


def _open_without_trace(path: Path) -> int:
    try:
        return os.open(path, _READ_FLAGS | getattr(os, "O_NOATIME", 0))
    except PermissionError:  # O_NOATIME is for the file's owner only
        return os.open(path, _READ_FLAGS)


class _Descriptor:
    """A descriptor that is closed when the last who uses it lets go of it, so never under a running read."""

    __slots__ = ("number",)

    def __init__(self, number: int) -> None:
        self.number = number

    def __del__(self) -> None:
        os.close(self.number)


class ReadOnlyFile:
    """One file, opened at the first read, shared by threads (``pread`` has no position), picklable by path.

    Args:
        path: The file.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._descriptor: _Descriptor | None = None
        self._opening = threading.Lock()

    def __getstate__(self) -> Path:
        return self.path

    def __setstate__(self, path: Path) -> None:
        self.__init__(path)  # type: ignore[misc]

    def __enter__(self) -> ReadOnlyFile:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the file, after reads of other threads; the next read opens it again."""
        self._descriptor = None

    def size_bytes(self) -> int:
        """Return the file's size as it is now."""
        descriptor = self._open()  # held by name while its number is in use
        return os.fstat(descriptor.number).st_size

    def next_data(self, position: int) -> int:
        """Return the first position from ``position`` on where bytes were ever written; else the file's end.

        What lies between is a hole of a sparse file: zeros. A file system that cannot tell has no holes.

        Raises:
            EnvironmentFailureError: The file cannot be opened.
        """
        try:
            descriptor = self._open()  # held by name while its number is in use
            return os.lseek(descriptor.number, position, os.SEEK_DATA)
        except OSError as failure:
            return self.size_bytes() if failure.errno == errno.ENXIO else position

    def read_at(
        self, position: int, length: int, unreadable: MutableSequence[UnreadableRange] | None = None
    ) -> bytes:
        """Return up to ``length`` bytes from ``position`` on, fewer at the end of the file.

        Memory is taken for the bytes that the file has, whatever ``length`` says.

        Args:
            position: Bytes from the start of the file; a negative one reads nothing.
            length: Bytes wanted.
            unreadable: Receives the ranges that the disk could not deliver.

        Raises:
            EnvironmentFailureError: The file cannot be opened, or a read fails for another reason than EIO;
                or for EIO, when ``unreadable`` is not given.
        """
        available = min(length, self.size_bytes() - position)
        if position < 0 or available <= 0:
            return b""
        buffer = bytearray(available)
        return bytes(memoryview(buffer)[: self.read_into(position, buffer, unreadable)])

    def read_into(
        self,
        position: int,
        buffer: bytearray | memoryview[Any],
        unreadable: MutableSequence[UnreadableRange] | None = None,
    ) -> int:
        """Fill a writable buffer of bytes from ``position`` on and return how many came, fewer at the end.

        Args:
            position: Bytes from the start of the file.
            buffer: Receives the bytes; unreadable ones become zeros.
            unreadable: Receives the ranges that the disk could not deliver, ascending, 4 KiB exact.

        Raises:
            EnvironmentFailureError: As for `read_at`.
        """
        view = memoryview(buffer).cast("B")
        descriptor = self._open()
        done = 0
        while done < len(view):
            try:
                count = os.preadv(descriptor.number, [view[done:]], position + done)
            except OSError as failure:
                if failure.errno != errno.EIO or unreadable is None:
                    raise self._failure(failure, position + done) from failure
                count = _read_around(descriptor.number, position + done, view[done:], unreadable)
            if count == 0:
                break
            done += count
        return done

    def _open(self) -> _Descriptor:
        descriptor = self._descriptor
        if descriptor is None:
            with self._opening:
                descriptor = self._descriptor
                if descriptor is None:
                    descriptor = self._descriptor = _Descriptor(open_regular(self.path))
        return descriptor

    def _failure(self, failure: OSError, position: int) -> EnvironmentFailureError:
        return EnvironmentFailureError(f"{self.path}: read at position {position} failed: {failure.strerror}")


def _read_around(
    descriptor: int, position: int, view: memoryview[Any], unreadable: MutableSequence[UnreadableRange]
) -> int:
    """Read what can be read of a range that failed as a whole: halve it until the bad blocks are found.

    Returns:
        Bytes of ``view`` that were filled, with data or with zeros; fewer at the end of the file.
    """
    try:
        return os.preadv(descriptor, [view], position)
    except OSError as failure:
        if failure.errno != errno.EIO:
            raise
    first_block = position // RETRY_BYTES
    blocks = (position + len(view) - 1) // RETRY_BYTES - first_block + 1
    if blocks == 1:
        view[:] = bytes(len(view))
        _note(unreadable, UnreadableRange(position, len(view)))
        return len(view)
    middle = (first_block + blocks // 2) * RETRY_BYTES - position
    count = _read_around(descriptor, position, view[:middle], unreadable)
    if count < middle:
        return count
    return middle + _read_around(descriptor, position + middle, view[middle:], unreadable)


def _note(unreadable: MutableSequence[UnreadableRange], bad: UnreadableRange) -> None:
    """Append a range, joined with the last one if they touch."""
    if unreadable and unreadable[-1].stop == bad.position:
        bad = UnreadableRange(unreadable[-1].position, unreadable[-1].length + bad.length)
        unreadable.pop()
    unreadable.append(bad)
