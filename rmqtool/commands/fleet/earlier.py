"""Results of an earlier run, so that one over many stores goes on where that ended."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, TypeVar

from rmqtool.errors import ExitStatus, RefusedError
from rmqtool.findings import CATALOG, FailOn, Severity
from rmqtool.findings.status import status_of
from rmqtool.store.results import read_result

if TYPE_CHECKING:
    from collections.abc import Mapping

    from rmqtool.store.scratch import Target

R = TypeVar("R")

_WAY_OUT = "delete it to have it made again, or give another --out"


class ResumedReport(NamedTuple, Generic[R]):
    """JSON document of one store's report, and the report itself; None if an earlier run made it."""

    document: dict[str, Any]
    report: R | None


def earlier_report(out: Target, name: str, wanted: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return the report of a result that is there; None if there is none.

    Args:
        out: The result.
        name: Of the report in it.
        wanted: Members that it must have, with these values.

    Raises:
        RefusedError: The result was made otherwise, or of another log; or it is not what it was.
        DeniedError: It may not be read.
        SourceFailureError: The object store does not answer.
    """
    data = read_result(out, name)
    try:
        document = None if data is None else json.loads(data)
    except ValueError:
        return None
    if not isinstance(document, dict):
        return None
    for member, one in wanted.items():
        if document.get(member) != one:
            raise RefusedError(f"{out}: {_difference(member, document.get(member), one)}; {_WAY_OUT}")
    return document


def _difference(name: str, then: object, now: object) -> str:
    """Say in what a result differs from what is asked for; of members, name the first that does."""
    if isinstance(then, list) and isinstance(now, list) and len(then) == len(now):
        then, now = next(pair for pair in zip(then, now, strict=True) if pair[0] != pair[1])
    if isinstance(then, dict) and isinstance(now, dict):
        names = (one for one in (*now, *then) if then.get(one) != now.get(one))
        inner = next(names)
        return _difference(f"{name}.{inner}", then.get(inner), now.get(inner))
    words = (json.dumps(one, ensure_ascii=False) for one in (then, now))
    return "an earlier run made it with {} {}, now it is {}".format(name, *words)


def earlier_status(document: Mapping[str, Any], fail_on: FailOn) -> ExitStatus:
    """Return the exit status that such a report stands for: that of its findings, or its own negative one."""
    weights = [(Severity(one["severity"]), CATALOG[one["code"]].structure) for one in document["findings"]]
    status = status_of(weights, fail_on)
    is_negative = document["exitStatus"] == ExitStatus.NEGATIVE and fail_on is not FailOn.NEVER
    return max(status, ExitStatus.NEGATIVE) if is_negative else status
