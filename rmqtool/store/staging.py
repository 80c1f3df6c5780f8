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
import errno
import os
import secrets
import shutil
import stat
from dataclasses import dataclass
from typing import TYPE_CHECKING

from rmqtool.errors import RefusedError
from rmqtool.io import Location, location_of
from rmqtool.store.lock import area_prefix, remove_dead_areas, write_marker
from rmqtool.store.names import directory_around, real_path
from rmqtool.store.segments import StoreFile
from rmqtool.store.staged_file import StagedFile, failure_of, remove_tree, sync_directory, sync_tree

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from pathlib import Path

    Hashing = Callable[[Callable[[StoreFile], str], Sequence[StoreFile]], list[str]]
    """Runs a function on files, as the map of an engine."""

_RESULT = "result"
_BLOCKS = "blocks"
_OCCUPIED = {errno.ENOTEMPTY, errno.EEXIST, errno.ENOTDIR}


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

    def digests(self, files: Sequence[StoreFile], run: Hashing) -> list[str]:
        """Return the SHA-256 of files that `finished` returned, in their order."""
        largest_first = sorted(files, key=lambda file: -file.size_bytes)  # so that the last ones end together
        found = dict(zip(largest_first, run(StoreFile.sha256, largest_first), strict=True))
        return [found[file] for file in files]

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

    def create_block(self, name: str) -> StagedFile:
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
            with contextlib.suppress(OSError):  # another process uses it by now
                parent.rmdir()

    def _unlock(self) -> None:
        marker, self._marker = self._marker, None
        if marker is not None:
            os.close(marker)


def refuse_inside(out: Path, evidence_roots: Iterable[Path], what: str = "the evidence") -> None:
    """Refuse an output inside the evidence; ``what`` names that in the `RefusedError`."""
    evidence = directory_around(out, evidence_roots)
    if evidence is not None:
        raise RefusedError(f"{out}: lies inside {what} {evidence}; nothing is written there")


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
        raise failure_of(failure, missing[0]) from failure
    return missing
