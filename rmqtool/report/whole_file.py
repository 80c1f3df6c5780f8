"""Files of output: each appears complete or not at all, replaces a regular file, and lies in no evidence."""

from __future__ import annotations

import os
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

from rmqtool.errors import EnvironmentFailureError, RefusedError, UsageError
from rmqtool.store.names import directory_around, real_path

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from pathlib import Path
    from typing import BinaryIO

_FLAGS = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
_MODE = 0o644  # minus umask
_PERMISSIONS = 0o777


def refuse_evidence(path: Path, evidence_roots: Iterable[Path]) -> None:
    """Raise `RefusedError` for a path inside the store that is read."""
    root = directory_around(path, evidence_roots)
    if root is not None:
        raise RefusedError(f"{path}: lies in {root}, which is only read; write elsewhere")


def check_output_files(
    paths: Iterable[Path | None], evidence_roots: Sequence[Path], new: Iterable[Path | None] = ()
) -> None:
    """Check, before the work begins, that results can be written to some paths.

    Args:
        paths: Reports, which replace existing files; None is none.
        evidence_roots: Directories that nothing is written into.
        new: Files that prove something, such as a manifest or lost messages; they replace nothing.

    Raises:
        RefusedError: One lies in the evidence, or a new one exists.
        UsageError: Two are one file, or one is a directory.
        EnvironmentFailureError: There is no directory for one.
    """
    proofs = [path for path in new if path is not None]
    for path in proofs:
        if path.is_symlink() or (path.exists() and not _is_special(path)):
            raise RefusedError(f"{path}: exists; remove it or give another name")
    every = [path for path in paths if path is not None] + proofs
    for number, path in enumerate(every):
        refuse_evidence(path, evidence_roots)
        if path.is_dir():
            raise UsageError(f"{path}: is a directory; give the name of a file")
        real = real_path(path)
        if not real.parent.is_dir():
            raise EnvironmentFailureError(f"{path}: cannot be created: no directory {real.parent}")
        if not _is_special(path) and real in map(real_path, every[:number]):
            raise UsageError(f"{path}: two outputs cannot be one file")


def write_whole(path: Path, data: bytes, *, sync: bool = True) -> None:
    """Write a file under a hidden name beside it, and rename it when it is complete.

    ``sync`` makes it outlive a loss of power, for some milliseconds. Raises `EnvironmentFailureError` if it
    fails; the old file stays, and nothing else is left.
    """
    with staged_file(path, sync=sync) as file, _named(path):
        file.write(data)


@contextmanager
def staged_file(path: Path, *, sync: bool = True) -> Iterator[BinaryIO]:
    """Open a file that appears after success; a device or a FIFO receives bytes as they come.

    It keeps the permissions of the file that it replaces; a link stays, and its target is replaced. Raises
    `EnvironmentFailureError` if it cannot be created or completed; the old file stays.
    """
    if _is_special(path):
        with _named(path):
            device = path.open("wb")
        with _closed_after(device):
            yield device
            with _named(path):
                device.flush()
        return
    target = real_path(path)
    attempt = target.with_name(f".{target.name[:100]}.{os.urandom(4).hex()}")
    try:
        with _named(path):
            descriptor = os.open(attempt, _FLAGS, _MODE)
            if target.exists():
                os.fchmod(descriptor, target.stat().st_mode & _PERMISSIONS)
        with _closed_after(os.fdopen(descriptor, "wb")) as file:
            yield file
            with _named(path):
                file.flush()
                if sync:
                    os.fsync(file.fileno())
        with _named(path):
            attempt.replace(target)
    finally:
        attempt.unlink(missing_ok=True)


@contextmanager
def _closed_after(file: BinaryIO) -> Iterator[BinaryIO]:
    """Close a file that was flushed; after a failure, closing would try to write once more."""
    try:
        yield file
    finally:
        with suppress(OSError):
            file.close()


@contextmanager
def _named(path: Path) -> Iterator[None]:
    """Name the file in the error of an operation on it."""
    try:
        yield
    except BrokenPipeError:  # the reader has gone
        raise
    except OSError as failure:
        raise EnvironmentFailureError(f"{path}: cannot be written: {failure.strerror}") from failure


def _is_special(path: Path) -> bool:
    """Return whether a path is a device or a FIFO, such as ``/dev/stdout``, which receives bytes."""
    return path.exists() and not path.is_file() and not path.is_dir()
