"""A file that appears complete or not at all."""

from __future__ import annotations

import io
import os
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

from rmqtool.errors import EnvironmentFailureError, RefusedError
from rmqtool.report.output import refuse_evidence

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from pathlib import Path
    from typing import BinaryIO, TextIO

_FLAGS = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
_MODE = 0o644  # minus umask


def check_new_file(path: Path, evidence_roots: Iterable[Path]) -> None:
    """Check, before the work begins, that a result can be written to a path.

    Raises:
        RefusedError: The file exists, or lies in the evidence.
        EnvironmentFailureError: There is no directory for it.
    """
    refuse_evidence(path, evidence_roots)
    if os.path.lexists(path) and not _is_special(path):
        raise RefusedError(f"{path}: exists; remove it or give another name")
    if not path.absolute().parent.is_dir():
        raise EnvironmentFailureError(f"{path}: cannot be created: there is no directory {path.parent}")


@contextmanager
def whole_output(path: Path, evidence_roots: Iterable[Path]) -> Iterator[TextIO]:
    """Collect text, and write it as a new file when all of it is there; a command that fails writes none.

    Raises:
        RefusedError: The file exists, or lies in the evidence.
        EnvironmentFailureError: It cannot be written; nothing is left behind.
    """
    check_new_file(path, evidence_roots)
    text = io.StringIO()
    yield text
    write_whole(path, text.getvalue().encode("utf-8", "backslashreplace"))


def write_whole(path: Path, data: bytes, *, sync: bool = True) -> None:
    """Write a new file under a hidden name beside it, and give it its own name when it is complete.

    Args:
        path: The file.
        data: All of it.
        sync: Whether it must outlive a loss of power; costs some milliseconds.

    Raises:
        RefusedError: The file exists by now.
        EnvironmentFailureError: It cannot be written; nothing is left behind.
    """
    with staged_file(path, sync=sync) as write:
        write(data)


@contextmanager
def staged_file(path: Path, *, sync: bool = True) -> Iterator[Callable[[bytes], object]]:
    """Take a new file piece by piece; it gets its name when all went well, and never exists in part.

    Args:
        path: The file; to a device or a FIFO the pieces are passed as they come.
        sync: Whether it must outlive a loss of power.

    Yields:
        What writes a piece.

    Raises:
        RefusedError: The file exists by now.
        EnvironmentFailureError: It cannot be written; nothing is left behind.
    """
    if _is_special(path):
        with _told(path):
            device = path.open("wb")
        with _closed_after(device):
            yield _writer(path, device)
            with _told(path):
                device.flush()
        return
    attempt = path.with_name(f".{path.name[:100]}.{os.urandom(4).hex()}")
    try:
        with _told(path):
            descriptor = os.open(attempt, _FLAGS, _MODE)
        with _closed_after(os.fdopen(descriptor, "wb")) as file:
            yield _writer(path, file)
            with _told(path):
                file.flush()
                if sync:
                    os.fsync(file.fileno())
        with _told(path):
            _publish(attempt, path)
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


def _writer(path: Path, file: BinaryIO) -> Callable[[bytes], object]:
    def write(data: bytes) -> None:
        with _told(path):
            file.write(data)

    return write


@contextmanager
def _told(path: Path) -> Iterator[None]:
    """Say of what failed which file it was."""
    try:
        yield
    except FileExistsError as failure:
        raise RefusedError(f"{path}: exists; remove it or give another name") from failure
    except BrokenPipeError:  # the reader has gone
        raise
    except OSError as failure:
        raise EnvironmentFailureError(f"{path}: cannot be written: {failure.strerror}") from failure


def _publish(attempt: Path, path: Path) -> None:
    """Give a complete file its name, without replacing another's; some file systems know no hard links."""
    try:
        path.hardlink_to(attempt)
    except FileExistsError:
        raise
    except OSError:
        if os.path.lexists(path):
            raise
        attempt.rename(path)


def _is_special(path: Path) -> bool:
    """Tell whether a path is a device or a FIFO, such as ``/dev/stdout``, that bytes are passed to."""
    return path.exists() and not path.is_file() and not path.is_dir()
