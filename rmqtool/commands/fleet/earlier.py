"""Results of an earlier run, so that one over many stores goes on where that ended."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, TypeVar

from rmqtool.errors import ExitStatus
from rmqtool.findings import CATALOG, FailOn, Severity
from rmqtool.findings.status import status_of

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

R = TypeVar("R")

_LARGEST_REPORT = 256 << 20


class Made(NamedTuple, Generic[R]):
    """What was made of one store.

    Attributes:
        document: the report, as JSON has it.
        report: itself; None where an earlier run made it.
    """

    document: dict[str, Any]
    report: R | None


def earlier_report(path: Path, wanted: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return the report of a result that is there; None if there is none, or one that was made otherwise.

    A result appears by one rename, with its report in it: where the report is, all of it is.

    Args:
        path: Of the report.
        wanted: Members that it must have, with these values.
    """
    try:
        with path.open("rb") as file:
            document = json.loads(file.read(_LARGEST_REPORT))
    except (OSError, ValueError):
        return None
    if not isinstance(document, dict) or any(document.get(name) != one for name, one in wanted.items()):
        return None
    return document


def earlier_status(document: Mapping[str, Any], fail_on: FailOn) -> ExitStatus:
    """Return the exit status that such a report stands for: that of its findings, or its own negative one."""
    weights = [(Severity(one["severity"]), CATALOG[one["code"]].structure) for one in document["findings"]]
    status = status_of(weights, fail_on)
    is_negative = document["exitStatus"] == ExitStatus.NEGATIVE and fail_on is not FailOn.NEVER
    return max(status, ExitStatus.NEGATIVE) if is_negative else status
