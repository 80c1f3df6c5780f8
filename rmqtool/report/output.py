"""The stream of a command's data: standard output, or a file outside of the evidence."""

from __future__ import annotations

import io
import os
import sys
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

from rmqtool.errors import EnvironmentFailureError
from rmqtool.report.whole_file import check_output_files, staged_file

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path
    from typing import BinaryIO, TextIO

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
