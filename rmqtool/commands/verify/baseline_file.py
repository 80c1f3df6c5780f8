"""Reading a baseline: the ``json`` or ``ndjson`` output of an earlier run, or lines picked from it."""

from __future__ import annotations

import json
from collections import Counter
from typing import TYPE_CHECKING, Any

from rmqtool.commands.verify.baseline import Baseline, identity
from rmqtool.errors import EnvironmentFailureError, UsageError
from rmqtool.findings import CATALOG

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

_Object = dict[str, Any]


class _NoBaselineError(Exception):
    """The text is something else; the message ends a sentence."""


def load_baseline(path: Path) -> Baseline:
    """Read a baseline.

    Raises:
        EnvironmentFailureError: The file cannot be read.
        UsageError: It is something else.
    """
    try:
        return parse_baseline(path.read_text(encoding="utf-8"))
    except OSError as failure:
        raise EnvironmentFailureError(f"{path}: cannot be read: {failure.strerror}") from failure
    except (_NoBaselineError, UnicodeDecodeError) as failure:
        raise UsageError(
            f"{path}: no baseline: {failure}; make one with verify --format ndjson -o FILE --fail-on never"
        ) from failure


def parse_baseline(text: str) -> Baseline:
    """Return the findings that a run's output lists and counts; without a summary, what is listed is all."""
    baseline = Baseline()
    listed: Counter[str] = Counter()
    is_summarised = False
    for value in _objects(text):
        if value.get("type") == "finding":
            _check_finding(value)
            baseline.listed[identity(value)] += 1
            listed[value["code"]] += 1
        elif "counts" in value:
            baseline.counts.update(_counts(value["counts"]))
            is_summarised = True
        elif value.get("type") != "prediction":
            raise _NoBaselineError("an object in it is neither a finding nor a summary")
    if not is_summarised:
        baseline.counts = listed
    return baseline


def _objects(text: str) -> Iterator[_Object]:
    """Yield findings and summaries of a json document, or of ndjson lines."""
    for value in _values(text):
        store = _object(value)
        if "stores" in store:
            raise _NoBaselineError("it covers several stores; keep one baseline for each")
        yield from map(_object, _array(store.get("findings", [])))
        yield store


def _values(text: str) -> list[Any]:
    if not text.strip():
        return []
    try:
        return [_parsed(text)]
    except json.JSONDecodeError:
        return list(_lines(text))


def _lines(text: str) -> Iterator[Any]:
    for number, line in enumerate(text.split("\n"), start=1):
        try:
            if line.strip():
                yield _parsed(line)
        except json.JSONDecodeError as failure:
            raise _NoBaselineError(f"line {number} is not JSON") from failure


def _parsed(text: str) -> Any:  # noqa: ANN401 - any JSON
    try:
        return json.loads(text)
    except RecursionError as failure:
        raise _NoBaselineError("it is nested too deeply") from failure


def _object(value: object) -> _Object:
    if not isinstance(value, dict):
        raise _NoBaselineError("it does not consist of JSON objects")
    return value


def _array(value: object) -> list[Any]:
    if not isinstance(value, list):
        raise _NoBaselineError("a member that must be an array is not one")
    return value


def _check_finding(value: _Object) -> None:
    _check_code(value.get("code"))
    if any(isinstance(part, list | dict) for part in identity(value)):
        raise _NoBaselineError("the place of a finding is not a number or text")


def _check_code(code: object) -> None:
    if not isinstance(code, str) or code not in CATALOG:
        raise _NoBaselineError(f"there is no finding code {code!r}")


def _counts(value: object) -> dict[str, int]:
    counts = _object(value)
    for code, count in counts.items():
        _check_code(code)
        if not isinstance(count, int):
            raise _NoBaselineError(f"the count of {code} is not a number")
    return counts
