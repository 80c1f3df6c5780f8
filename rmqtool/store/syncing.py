"""Flushing of a result to the disk: once for all of it, not for every file."""

from __future__ import annotations

import ctypes
import os
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path


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
