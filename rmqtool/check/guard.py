"""Guard that makes one file's trouble a finding, so that the work on all others goes on."""

from __future__ import annotations

import traceback
from typing import TYPE_CHECKING, TypeVar

from rmqtool.errors import DeniedError, EnvironmentFailureError, RmqtoolError
from rmqtool.findings import Finding, Severity, Structure
from rmqtool.findings.places import IO_CHANGED, IO_DENIED, RM_INTERNAL

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from rmqtool.store.segments import StoreFile

T = TypeVar("T")
R = TypeVar("R")

_LAST_FRAMES = 3


def run_guarded(
    function: Callable[[T], R], evidence: Callable[[T], Sequence[StoreFile]], structure: Structure, task: T
) -> R | Finding:
    """Run a check; return a finding instead of its result if the evidence or the check itself fails.

    ``evidence`` returns the files of the store that a task reads. Failures of our own scratch files or of the
    engine are raised.
    """
    try:
        return function(task)
    except EnvironmentFailureError as failure:
        found = _evidence_failure(evidence(task), structure)
        if found is None:
            raise failure from None
        return found
    except RmqtoolError:
        raise
    except Exception as failure:
        return _internal(evidence(task), structure, failure)


def _evidence_failure(files: Sequence[StoreFile], structure: Structure) -> Finding | None:
    for file in files:
        try:
            file.read_at(0, 1, [])
        except DeniedError as failure:
            return Finding(code=IO_DENIED, file=file.label, message=failure.reason)
        except EnvironmentFailureError as failure:
            return Finding(
                code=IO_CHANGED,
                file=file.label,
                message=str(failure),
                severity_override=Severity.ERROR,  # its content is unknown
                structure_override=structure,
            )
    return None


def _internal(files: Sequence[StoreFile], structure: Structure, failure: Exception) -> Finding:
    frames = traceback.extract_tb(failure.__traceback__)[-_LAST_FRAMES:]
    places = " < ".join(f"{frame.name}:{frame.lineno}" for frame in reversed(frames))
    return Finding(
        code=RM_INTERNAL,
        file=files[0].label if files else None,
        message=f"{type(failure).__name__}: {failure} ({places})",
        structure_override=structure,
    )
