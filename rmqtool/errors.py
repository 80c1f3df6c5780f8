"""Errors of usage and environment, each with the exit status that the command line returns for it.

Damage in a store is never an exception: it is data (see ``rmqtool.findings``).
"""

from __future__ import annotations

from contextlib import contextmanager
from enum import IntEnum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


class ExitStatus(IntEnum):
    """Exit status of every command; the one table that the manual and the command line share."""

    CLEAN = 0
    NEGATIVE = 1
    USAGE = 2
    FAILED = 3
    REFUSED = 4
    LOG_DAMAGED = 5
    INTERRUPTED = 130

    def __call__(self) -> ExitStatus:
        """Return itself, so that `FleetReport.exit_status` can be called as that of any other report."""
        return self


class RmqtoolError(Exception):
    """Something the tool could not do; the message names the path and the next step."""

    status = ExitStatus.FAILED


class UsageError(RmqtoolError):
    """A request that makes no sense."""

    status = ExitStatus.USAGE


class EnvironmentFailureError(RmqtoolError):
    """I/O, permission, not a store, out of space, engine not available."""

    status = ExitStatus.FAILED


def write_failure(failure: OSError, path: Path) -> EnvironmentFailureError:
    """Return the error for the user about a failed write."""
    return EnvironmentFailureError(f"{path}: cannot be written: {failure.strerror}")


@contextmanager
def writing(path: Path) -> Iterator[None]:
    """Name a file in the error about a failed write; `BrokenPipeError` of a pipe without reader stays."""
    try:
        yield
    except BrokenPipeError:
        raise
    except OSError as failure:
        raise write_failure(failure, path) from failure


class _PathError(RmqtoolError):
    """An error about a file or directory; ``reason`` goes on after its path."""

    def __init__(self, path: str, reason: str) -> None:
        super().__init__(path, reason)
        self.path, self.reason = path, reason

    def __str__(self) -> str:
        return f"{self.path}: {self.reason}"


class DeniedError(_PathError, EnvironmentFailureError):
    """A file or directory whose permissions do not allow to read it; ``reason`` has the next step."""


class FileNotSharedError(_PathError):
    """A task does not see a file that it was sent to read, or sees another one: the fault of its machine.

    Not an `EnvironmentFailureError`, so that no check takes it for the file's own fault. ``reason`` is a
    whole sentence that names the machine, the path and the next step.
    """

    def __str__(self) -> str:
        return self.reason


class SourceFailureError(_PathError):
    """A source did not deliver a file, or delivered another state of it than before.

    Not an `EnvironmentFailureError`, so that no check takes it for the file's own fault. ``reason``, what
    happened and what to do, is the rest of a sentence that begins with the path.
    """


class SourceUnreachableError(SourceFailureError):
    """A source has never answered this process, or denied it what another has read; ``cause`` is why."""

    def __init__(self, path: str, reason: str, cause: str) -> None:
        super().__init__(path, reason)
        self.args = (path, reason, cause)
        self.cause = cause


class ExecutorCannotReachError(RmqtoolError):
    """A task cannot reach the source of its store, perhaps by the fault of its machine.

    Not an `EnvironmentFailureError`, so that no check takes it for the file's own fault. ``service`` is the
    prefix of the names of all files there, such as ``s3://bucket``; ``reason`` a whole sentence that names
    the machine, the service and the next step.
    """

    def __init__(self, service: str, reason: str) -> None:
        super().__init__(service, reason)
        self.service, self.reason = service, reason

    def __str__(self) -> str:
        return self.reason


class UnansweredError(EnvironmentFailureError):
    """A structure that should answer a query but cannot; the log itself may."""


class LogDamagedError(RmqtoolError):
    """A damaged log, of which a command makes nothing; the message names the first place."""

    status = ExitStatus.LOG_DAMAGED


class RefusedError(RmqtoolError):
    """Refused for safety: a broker holds the lock, the output exists or lies inside the evidence."""

    status = ExitStatus.REFUSED
