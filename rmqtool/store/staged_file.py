"""One file in a staging area, written under an attempt's own name, flushed with the whole result."""

from __future__ import annotations

import ctypes
import errno
import os
import secrets
import shutil
from typing import TYPE_CHECKING

from rmqtool.errors import EnvironmentFailureError, RefusedError
from rmqtool.store.names import component_problem

if TYPE_CHECKING:
    from pathlib import Path

    from typing_extensions import Buffer


_WRITE = 2  # SYNC_FILE_RANGE_WRITE
_sync_file_range = getattr(ctypes.CDLL(None), "sync_file_range", None)
if _sync_file_range is not None:
    _sync_file_range.argtypes = (ctypes.c_int, ctypes.c_int64, ctypes.c_int64, ctypes.c_uint)


def sync_tree(directory: Path) -> None:
    """Flush everything below a directory.

    Uses ``syncfs`` (Linux), which flushes the file system in one call; elsewhere every file and directory.
    Raises `OSError` if it fails.
    """
    syncfs = getattr(ctypes.CDLL(None, use_errno=True), "syncfs", None)
    if syncfs is None:
        _sync_each(directory)
        return
    descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        if syncfs(descriptor) != 0:
            code = ctypes.get_errno()
            raise OSError(code, os.strerror(code), str(directory))
    finally:
        os.close(descriptor)


def begin_writeback(descriptor: int, position: int, size_bytes: int) -> None:
    """Begin to flush a range of a file, without waiting: a hint, by ``sync_file_range`` (Linux)."""
    if _sync_file_range is not None:
        _sync_file_range(descriptor, position, size_bytes, _WRITE)


def sync_directory(directory: Path) -> None:
    """Flush a directory's own entries, so that a rename in it survives a power cut. `OSError` if it fails."""
    _sync(directory)


def _sync_each(directory: Path) -> None:
    for folder, _, files in os.walk(directory):
        for name in files:
            _sync(directory.joinpath(folder, name))
        _sync(directory / folder)


def _sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


_FLAGS = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW
_REMOVALS = 20
_MODE = 0o644  # minus umask, like a broker's files


class StagedFile:
    """A file being written; a context manager that renames it to ``base/relative`` after success.

    Args:
        scratch: Directory for the file while it is written, on the same file system.
        base: Directory that ``relative`` is relative to.
        relative: Path of the finished file, ``/`` between its components.
        size_bytes: Size to extend it to at once, sparse; None to let it grow.

    Raises:
        RefusedError: The path would leave ``base``.
        EnvironmentFailureError: It cannot be created.
    """

    def __init__(self, scratch: Path, base: Path, relative: str, size_bytes: int | None) -> None:
        self._descriptor: int | None = None
        self._base = base
        self.path = base / checked_relative(relative)
        self._attempt = scratch / f".{secrets.token_hex(8)}.attempt"
        try:
            self._descriptor = os.open(self._attempt, _FLAGS, _MODE)
            if size_bytes is not None:
                os.ftruncate(self._descriptor, size_bytes)
        except OSError as failure:
            self.abandon()
            raise failure_of(failure, self.path) from failure

    def __enter__(self) -> StagedFile:
        return self

    def __exit__(self, exc_type: type[BaseException] | None, *exc: object) -> None:
        if exc_type is None:
            self.finish()
        else:
            self.abandon()

    def __del__(self) -> None:
        self.abandon()

    @property
    def name(self) -> str:
        """Name by which it is read when it is finished."""
        return str(self.path)

    def fileno(self) -> int:
        """Return the descriptor, for kernels that write by themselves; `ValueError` after the end."""
        if self._descriptor is None:
            raise ValueError(f"{self.path}: no longer being written")
        return self._descriptor

    def truncate(self, size_bytes: int) -> None:
        """Set the size; bytes that were never written stay holes."""
        try:
            os.ftruncate(self.fileno(), size_bytes)
        except OSError as failure:
            raise failure_of(failure, self.path) from failure

    def write_at(self, position: int, data: Buffer) -> None:
        """Write all of ``data``, any contiguous buffer, at a position in bytes."""
        missing = memoryview(data).nbytes
        try:
            while missing:
                count = os.pwrite(self.fileno(), data, position)
                missing, position = missing - count, position + count
                if missing:  # a full disk or a signal; the next write raises
                    data = memoryview(data).tobytes()[count:]
        except OSError as failure:
            raise failure_of(failure, self.path) from failure

    def write_back(self, position: int, size_bytes: int) -> None:
        """Begin to flush a range, so that publishing waits for less of it."""
        begin_writeback(self.fileno(), position, size_bytes)

    def finish(self) -> Path:
        """Close the file, rename it and return its name; `EnvironmentFailureError` if that fails."""
        self._close()
        try:
            _make_directories(self.path.parent, self._base)
            self._attempt.rename(self.path)
        except OSError as failure:
            self._attempt.unlink(missing_ok=True)
            raise failure_of(failure, self.path) from failure
        return self.path

    def abandon(self) -> None:
        """Close and remove the file, unless it is finished."""
        if self._descriptor is not None:
            self._close()
            self._attempt.unlink(missing_ok=True)

    def _close(self) -> None:
        descriptor, self._descriptor = self._descriptor, None
        if descriptor is not None:
            os.close(descriptor)


def _make_directories(directory: Path, base: Path) -> None:
    """Make a directory and its parents, but not the base: a late attempt must not make the area again."""
    if directory == base:
        return
    try:
        directory.mkdir(exist_ok=True)
    except FileNotFoundError:
        _make_directories(directory.parent, base)
        if not base.is_dir():
            raise
        directory.mkdir(exist_ok=True)


def remove_tree(directory: Path) -> None:
    """Remove a directory in which a late attempt at a task may be making or removing a file now."""
    for _ in range(_REMOVALS):
        try:
            shutil.rmtree(directory)
        except OSError as failure:
            if not os.path.lexists(directory):
                return
            if failure.errno not in {errno.ENOTEMPTY, errno.EEXIST, errno.ENOENT}:
                raise
        else:
            return
    shutil.rmtree(directory)


def checked_relative(relative: str) -> str:
    """Return a relative path all of whose components are plain names, else raise `RefusedError`."""
    for component in relative.split("/"):
        problem = component_problem(component)
        if problem is not None:
            raise RefusedError(
                f"output path {relative!r} is refused: in it, {component!r} is not a name, as {problem}"
            )
    return relative


def failure_of(failure: OSError, path: Path) -> EnvironmentFailureError:
    """Return the error for the user about a failed write."""
    return EnvironmentFailureError(f"{path}: cannot be written: {failure.strerror}")
