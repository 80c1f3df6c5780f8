"""The only writer of store files: results grow in a hidden directory and appear by one rename.

Beside ``OUT`` a directory ``.OUT.rmqtool-XXXXXXXX`` holds::

    marker     the run's process; locked with flock as long as that lives
    result/    becomes OUT
    blocks/    scratch of the pipeline, dropped before the rename

The next run for the same target removes what a killed run left, which it recognises by its marker: that
lock died with the process (``owners``).
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import os
import secrets
import shutil
import stat
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol, Self

from rmqtool.errors import RefusedError, write_failure
from rmqtool.io import Location, location_of
from rmqtool.store.lock import area_prefix, remove_dead_areas, write_marker
from rmqtool.store.names import component_problem, directory_around, real_path
from rmqtool.store.segments import StoreFile

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
        for folder, _, files in os.walk(directory):
            for name in files:
                _sync(directory.joinpath(folder, name))
            _sync(directory / folder)
        return
    descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        if syncfs(descriptor) != 0:
            code = ctypes.get_errno()
            raise OSError(code, os.strerror(code), str(directory))
    finally:
        os.close(descriptor)


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
            raise write_failure(failure, self.path) from failure

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
            raise write_failure(failure, self.path) from failure

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
            raise write_failure(failure, self.path) from failure

    def write_back(self, position: int, size_bytes: int) -> None:
        """Begin to flush a range, so that publishing waits for less of it: a hint, on Linux."""
        if _sync_file_range is not None:
            _sync_file_range(self.fileno(), position, size_bytes, _WRITE)

    def finish(self) -> Path:
        """Close the file, rename it and return its name; `EnvironmentFailureError` if that fails."""
        self._close()
        try:
            _make_directories(self.path.parent, self._base)
            self._attempt.rename(self.path)
        except OSError as failure:
            self._attempt.unlink(missing_ok=True)
            raise write_failure(failure, self.path) from failure
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


if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from pathlib import Path

    Hashing = Callable[[Callable[[StoreFile], str], Sequence[StoreFile]], list[str]]
    """Runs a function on files, as the map of an engine."""

_RESULT = "result"
_BLOCKS = "blocks"
_OCCUPIED = {errno.ENOTEMPTY, errno.EEXIST, errno.ENOTDIR}


_HOLLOW_BYTES = 1 << 20


def _is_hollow(path: Path, size_bytes: int) -> bool:
    """Return whether less than half of a large file was ever written, as its file system knows."""
    if size_bytes < _HOLLOW_BYTES:
        return False
    written = position = 0
    with path.open("rb") as file:
        while written < size_bytes // 2:
            try:
                start = os.lseek(file.fileno(), position, os.SEEK_DATA)
                position = os.lseek(file.fileno(), start, os.SEEK_HOLE)
            except OSError as failure:
                return failure.errno == errno.ENXIO  # nothing but a hole from there on
            written += position - start
    return False


class BlockFile(Protocol):
    """A file of a block as its task writes it; others read it by its ``name``."""

    @property
    def name(self) -> str | bytearray:
        """The name of a finished file, or the bytes themselves."""

    def __enter__(self) -> Self: ...

    def __exit__(self, *exc: Any) -> None: ...  # noqa: ANN401 - as in every context manager

    def write_at(self, position: int, data: Buffer) -> None:
        """Write bytes at a position."""


@dataclass(frozen=True, slots=True)
class StagingHandle:
    """The path of a staging area, as tasks need it to write there. Picklable."""

    path: Path

    @property
    def result(self) -> Path:
        """Directory that becomes the output."""
        return self.path / _RESULT

    @property
    def blocks(self) -> Path:
        """Scratch directory, not part of the output."""
        return self.path / _BLOCKS

    @property
    def results(self) -> Location:
        """Location of the files of the result that are written so far."""
        return location_of(self.result)

    def finished(self, directory: str) -> list[StoreFile]:
        """Return the finished files of the result below one of its directories, by name."""
        place, base = self.results, self.result
        paths = sorted(path for path in (base / directory).rglob("*") if path.is_file())
        sizes = {path.relative_to(base).as_posix(): path.stat().st_size for path in paths}
        return [StoreFile(place / label, label, size) for label, size in sizes.items()]

    def digests(self, files: Sequence[StoreFile], run: Hashing) -> dict[StoreFile, str]:
        """Return the SHA-256 of files that `finished` returned, but for large ones that are mostly a hole.

        Thousands of queues with a few messages each have gigabytes of holes, which would all be hashed.
        """
        solid = [file for file in files if not _is_hollow(self.result / file.label, file.size_bytes)]
        solid.sort(key=lambda file: -file.size_bytes)  # so that the last ones end together
        return dict(zip(solid, run(StoreFile.sha256, solid), strict=True))

    def remove(self, relative: str) -> None:
        """Remove a file of the result that does not count, and its folder if it is then empty."""
        path = self.result / relative
        path.unlink(missing_ok=True)
        if path.parent != self.result:
            with contextlib.suppress(OSError):  # others are in it
                path.parent.rmdir()

    def create_file(self, relative: str, size_bytes: int | None = None) -> StagedFile:
        """Begin a file of the result, which appears when it is closed without an error.

        A task that is tried again, or twice at once, writes a file of its own each time; the last to finish
        is renamed, with the same bytes. ``size_bytes`` extends the file at once, sparse; None lets it grow.
        Raises `RefusedError` if the path would leave the output.
        """
        return StagedFile(self.blocks, self.result, relative, size_bytes)

    def create_block(self, name: str) -> BlockFile:
        """Begin a scratch file; as `create_file`, but below ``blocks``."""
        return StagedFile(self.blocks, self.blocks, name, None)


class StagingArea:
    """A staging area for one output directory; a context manager.

    Leaving the block without `publish` discards everything, also after an interrupt.

    Args:
        out: The output directory; must not exist, or be empty.
        evidence_roots: Directories that nothing may be written into.
        own: The caller's directory inside of them that may be written, as that of a repair.

    Raises:
        RefusedError: ``out`` has contents, lies inside the evidence or around it, or another run is at work
            on it.
        EnvironmentFailureError: The file system refuses.
    """

    def __init__(self, out: Path, evidence_roots: Iterable[Path] = (), own: Path | None = None) -> None:
        if own is not None and out.is_relative_to(own):
            self.out = out  # as it is: it can lead by a descriptor, which no link replaces
        else:
            self.out = real_path(out)
            _refuse_evidence(self.out, evidence_roots)
        _refuse_contents(self.out)
        self._made_parents = _make_parents(self.out.parent)
        self._marker: int | None = None
        self._published = False
        try:
            remove_dead_areas(self.out)
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
        """Flush the result to the disk and publish it as ``out`` by one rename.

        On failure the staging area is removed: `RefusedError` if ``out`` has contents by now,
        `EnvironmentFailureError` if out of space, or for an I/O error at the flush.
        """
        try:
            remove_tree(self.handle.blocks)  # first: removed files need no flush
            if self.out.is_dir():
                self.handle.result.chmod(stat.S_IMODE(self.out.stat().st_mode))
            sync_tree(self.handle.result)
            self.handle.result.rename(self.out)
            _sync(self.out.parent)  # so that the rename survives a power cut
        except OSError as failure:
            self.discard()
            if failure.errno in _OCCUPIED:
                raise RefusedError(
                    f"{self.out}: got contents while the result was made; nothing was changed"
                ) from None
            raise write_failure(failure, self.out) from failure
        self._published = True
        self._remove()

    def discard(self) -> None:
        """Remove the staging area, and the parents of ``out`` that were made for it."""
        self._remove()
        self._remove_parents()

    def _create(self) -> Path:
        path = self.out.parent / f"{area_prefix(self.out)}{secrets.token_hex(4)}"
        try:
            path.mkdir()
            self._marker = write_marker(path, self.out)
            (path / _RESULT).mkdir()
            (path / _BLOCKS).mkdir()
        except BaseException as failure:
            shutil.rmtree(path, ignore_errors=True)
            self._unlock()
            if isinstance(failure, OSError):
                raise write_failure(failure, path) from failure
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
            with contextlib.suppress(OSError):  # another process uses it by now
                parent.rmdir()

    def _unlock(self) -> None:
        marker, self._marker = self._marker, None
        if marker is not None:
            os.close(marker)


def refuse_inside(out: Path, evidence_roots: Iterable[Path]) -> None:
    """Refuse an output inside the evidence."""
    evidence = directory_around(out, evidence_roots)
    if evidence is not None:
        raise RefusedError(f"{out}: lies inside the evidence {evidence}; nothing is written there")


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
        raise write_failure(failure, out) from failure
    if occupied:
        raise RefusedError(f"{out}: exists and is not an empty directory; choose another output or remove it")


def _make_parents(parent: Path) -> list[Path]:
    missing = []
    while not parent.exists():
        missing.append(parent)
        parent = parent.parent
    try:
        for path in reversed(missing):
            path.mkdir(exist_ok=True)
    except OSError as failure:
        raise write_failure(failure, missing[0]) from failure
    return missing
