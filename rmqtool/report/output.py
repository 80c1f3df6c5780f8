"""The stream that data goes to: standard output, or a new file that does not lie in the evidence."""

from __future__ import annotations

import io
import os
import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING

from rmqtool.errors import EnvironmentFailureError, RefusedError
from rmqtool.store.names import directory_around

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path
    from typing import BinaryIO, TextIO


@contextmanager
def open_output(path: Path | None, evidence_roots: Iterable[Path]) -> Iterator[TextIO]:
    """Open the output for text.

    Names of files need not be UTF-8 and decoded text may hold lone surrogates; both are written as escapes.
    A file is gone again if the command fails before its first row; later, what is written stays.

    Args:
        path: A file that must not exist yet, a device or a FIFO; None is standard output.
        evidence_roots: Directories that nothing is written into.

    Raises:
        RefusedError: The file exists, or lies in the evidence.
        EnvironmentFailureError: It cannot be created.
    """
    if path is None:
        with _standard_output() as stream:
            yield stream
        return
    refuse_evidence(path, evidence_roots)
    is_special = path.exists() and not path.is_file()
    try:
        buffer = path.open("wb" if is_special else "xb")
    except FileExistsError as failure:
        raise RefusedError(f"{path}: exists; remove it or give -o another name") from failure
    except OSError as failure:
        raise EnvironmentFailureError(f"{path}: cannot be created: {failure.strerror}") from failure
    try:
        with _OutputStream(buffer, str(path)) as stream:
            yield stream
    except BaseException:
        if path.is_file() and not path.stat().st_size:
            path.unlink()
        raise


class _OutputStream(io.TextIOWrapper):
    """Text as UTF-8 whatever the locale says; says what it was that could not be written.

    Args:
        buffer: Receives the bytes.
        place: Its name for the user.
    """

    def __init__(self, buffer: BinaryIO, place: str) -> None:
        super().__init__(buffer, encoding="utf-8", errors="backslashreplace", newline="\n")
        self._place = place

    def write(self, text: str) -> int:
        """Write as every stream does.

        Raises:
            EnvironmentFailureError: It cannot be written.
            BrokenPipeError: The reader has gone.
        """
        try:
            return super().write(text)
        except BrokenPipeError:
            raise
        except OSError as failure:
            raise self._named(failure) from failure

    def flush(self) -> None:
        """Flush as every stream does; raises what `write` does."""
        try:
            super().flush()
        except BrokenPipeError:
            raise
        except OSError as failure:
            raise self._named(failure) from failure

    def _named(self, failure: OSError) -> EnvironmentFailureError:
        return EnvironmentFailureError(
            f"{self._place}: cannot be written: {failure.strerror}; what was written is incomplete,"
            " -o FILE writes elsewhere"
        )


def refuse_evidence(path: Path, evidence_roots: Iterable[Path]) -> None:
    """Refuse to write to a path inside the store that is read.

    Raises:
        RefusedError: It lies there.
    """
    root = directory_around(path, evidence_roots)
    if root is not None:
        raise RefusedError(f"{path}: lies in {root}, which is only read; write elsewhere")


@contextmanager
def _standard_output() -> Iterator[TextIO]:
    """Write to standard output; the buffer under ``sys.stdout`` stays open."""
    sys.stdout.flush()
    buffer = getattr(sys.stdout, "buffer", None)
    if buffer is None:
        yield sys.stdout
        return
    stream = _OutputStream(buffer, "standard output")
    try:
        yield stream
        stream.flush()
    finally:
        _detach(stream)


def _detach(stream: io.TextIOWrapper) -> None:
    try:
        stream.detach()
    except (BrokenPipeError, EnvironmentFailureError):  # the caller was told, or ends quietly
        silence_standard_output()


def silence_standard_output() -> None:
    """Let the interpreter's last flush of a broken standard output go nowhere."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, sys.stdout.fileno())
    os.close(nowhere)
