"""Output of a command: its stream, and files that appear whole and lie in no evidence."""

from __future__ import annotations

import io
import os
import sys
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, BinaryIO, TextIO

from rmqtool.errors import EnvironmentFailureError, RefusedError, UsageError, writing
from rmqtool.store.names import directory_around, real_path

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from pathlib import Path

    from rmqtool.rows import InnerMessage, Message


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
    with staged_file(path, sync=sync) as file, writing(path):
        file.write(data)


@contextmanager
def staged_file(path: Path, *, sync: bool = True) -> Iterator[BinaryIO]:
    """Open a file that appears after success; a device or a FIFO receives bytes as they come.

    It keeps the permissions of the file that it replaces; a link stays, and its target is replaced. Raises
    `EnvironmentFailureError` if it cannot be created or completed; the old file stays.
    """
    if _is_special(path):
        with writing(path):
            device = path.open("wb")
        with _closed_after(device):
            yield device
            with writing(path):
                device.flush()
        return
    target = real_path(path)
    attempt = target.with_name(f".{target.name[:100]}.{os.urandom(4).hex()}")
    try:
        with writing(path):
            descriptor = os.open(attempt, _FLAGS, _MODE)
            if target.exists():
                os.fchmod(descriptor, target.stat().st_mode & _PERMISSIONS)
        with _closed_after(os.fdopen(descriptor, "wb")) as file:
            yield file
            with writing(path):
                file.flush()
                if sync:
                    os.fsync(file.fileno())
        with writing(path):
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


def _is_special(path: Path) -> bool:
    """Return whether a path is a device or a FIFO, such as ``/dev/stdout``, which receives bytes."""
    return path.exists() and not path.is_file() and not path.is_dir()


_STANDARD_OUTPUT = "standard output"


@contextmanager
def open_output(path: Path | None, evidence_roots: Sequence[Path]) -> Iterator[TextIO]:
    """Open the output for text; a file appears when the command has written all of it.

    ``path`` is a file, which is replaced, a device or a FIFO; None is standard output. Names of files need
    not be UTF-8, and decoded text may hold lone surrogates; both are written as escapes. Raises
    `RefusedError` if the file lies in the evidence; `EnvironmentFailureError` if it cannot be created.
    """
    if path is None:
        with _standard_output() as stream:
            yield stream
        return
    check_output_files([path], evidence_roots)
    with staged_file(path) as file:
        stream = _OutputStream(file, str(path))
        try:
            yield stream
            stream.flush()
        finally:
            with suppress(BrokenPipeError, EnvironmentFailureError):  # the first failure has been raised
                stream.detach()


class _OutputStream(io.TextIOWrapper):
    """Text as UTF-8 in any locale, whose errors name the ``place`` that could not be written."""

    def __init__(self, buffer: BinaryIO, place: str) -> None:
        super().__init__(buffer, encoding="utf-8", errors="backslashreplace", newline="\n")
        self._place = place

    def write(self, text: str) -> int:
        """Write; `EnvironmentFailureError` if that fails, `BrokenPipeError` if the reader has gone."""
        try:
            return super().write(text)
        except BrokenPipeError:
            raise
        except OSError as failure:
            raise self._named(failure) from failure

    def flush(self) -> None:
        """Flush as every stream does; raises as `write`."""
        try:
            super().flush()
        except BrokenPipeError:
            raise
        except OSError as failure:
            raise self._named(failure) from failure

    def _named(self, failure: OSError) -> EnvironmentFailureError:
        incomplete = "the output is incomplete, " if self._place == _STANDARD_OUTPUT else ""
        return EnvironmentFailureError(
            f"{self._place}: cannot be written: {failure.strerror}; {incomplete}-o FILE writes elsewhere"
        )


@contextmanager
def _standard_output() -> Iterator[TextIO]:
    """Write to standard output; the buffer under ``sys.stdout`` stays open."""
    sys.stdout.flush()
    buffer = getattr(sys.stdout, "buffer", None)
    if buffer is None:
        yield sys.stdout
        return
    stream = _OutputStream(buffer, _STANDARD_OUTPUT)
    try:
        yield stream
        stream.flush()
    finally:
        _detach(stream)


def _detach(stream: io.TextIOWrapper) -> None:
    try:
        stream.detach()
    except (BrokenPipeError, EnvironmentFailureError):  # the caller knows, or ends quietly
        silence_standard_output()


def silence_standard_output() -> None:
    """Send the interpreter's last flush of a broken standard output to nowhere."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, sys.stdout.fileno())
    os.close(nowhere)


class BodyFiles:
    """A directory that receives one file for each body, named by the message's physical offset.

    It is created if missing; `RefusedError` if it lies in the evidence.
    """

    def __init__(self, directory: Path, evidence_roots: Iterable[Path]) -> None:
        refuse_evidence(directory, evidence_roots)
        try:
            directory.mkdir(parents=True, exist_ok=True)
        except OSError as failure:
            raise EnvironmentFailureError(f"{directory}: cannot be created: {failure.strerror}") from failure
        self._directory = directory

    def add(self, message: Message | InnerMessage) -> None:
        """Write the body of one message, if it has one.

        A message of an inner batch adds its index to the name. Raises `RefusedError` if the file exists;
        `EnvironmentFailureError` if it cannot be written, with nothing left behind.
        """
        if not message.body:
            return
        number = getattr(message, "index", None)
        index = "" if number is None else f"-{number}"
        path = self._directory / f"{message.physical_offset:020d}{index}.body"
        if path.exists():  # perhaps of another store's record at this offset
            raise RefusedError(f"{path}: exists; give --body-dir a new directory")
        write_whole(path, message.body, sync=False)
