"""Exit status of findings."""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING

from rmqtool.errors import ExitStatus
from rmqtool.findings.model import Severity, Structure

if TYPE_CHECKING:
    from collections.abc import Iterable

    from rmqtool.findings.model import Finding


class FailOn(StrEnum):
    """Values of ``--fail-on``."""

    ERROR = "error"
    WARNING = "warning"
    NEVER = "never"


_FAILING: dict[FailOn, frozenset[Severity]] = {
    FailOn.ERROR: frozenset({Severity.ERROR}),
    FailOn.WARNING: frozenset({Severity.ERROR, Severity.WARNING}),
    FailOn.NEVER: frozenset(),
}
NOT_READ = frozenset({Structure.UNREAD, Structure.UNREAD_LOG})


def exit_status(findings: Iterable[Finding], fail_on: FailOn | str = FailOn.ERROR) -> ExitStatus:
    """Return the exit status of findings, see `status_of`; `ValueError` for an unknown ``fail_on``."""
    return status_of(((finding.severity, finding.structure) for finding in findings), FailOn(fail_on))


def status_of(weights: Iterable[tuple[Severity, Structure]], fail_on: FailOn) -> ExitStatus:
    """Return the exit status of (severity, structure) pairs.

    3 if a part of the log was not read; else 5 if the commit log is damaged, or the next start does harm;
    else 3 if something else was not read; no ``--fail-on`` changes a 3; 1 if only derived files are damaged;
    else 0.
    """
    weights = set(weights)
    if any(structure is Structure.UNREAD_LOG for _, structure in weights):
        return ExitStatus.FAILED
    failing = {structure for severity, structure in weights if severity in _FAILING[fail_on]}
    if failing & {Structure.COMMITLOG, Structure.START}:
        return ExitStatus.LOG_DAMAGED
    if any(structure in NOT_READ for _, structure in weights):
        return ExitStatus.FAILED
    return ExitStatus.NEGATIVE if failing else ExitStatus.CLEAN
