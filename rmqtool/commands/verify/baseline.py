"""Known findings: reading an earlier run's output, and comparing a later run with it."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from rmqtool.errors import EnvironmentFailureError, UsageError
from rmqtool.findings import CATALOG, Finding, FindingLog, Findings, Severity
from rmqtool.projection import json_object

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path


Identity = tuple[str | int | None, ...]

_IDENTITY = ("code", "file", "position", "topic", "queueId", "queueOffset", "physicalOffset")
_RANKS = {Severity.INFO: 0, Severity.WARNING: 1, Severity.ERROR: 2}


def identity(finding: Mapping[str, Any]) -> Identity:
    """Return what a FINDING object is recognised by: its code and its place."""
    return tuple(finding.get(name) for name in _IDENTITY)


@dataclass
class Comparison:
    """A run's findings, told apart by a baseline.

    Attributes:
        known: for each kept finding, in the order of the log, whether the baseline has it.
        known_count: findings that the baseline has, listed or by number.
        new: what it does not have, with counts.
        by_number: findings of a code that are known by number only.
        gone: findings that the baseline lists and the run did not meet; None if it did not look everywhere.
    """

    known: tuple[bool, ...]
    known_count: int
    new: FindingLog
    by_number: dict[str, int]
    gone: int | None


@dataclass
class Baseline:
    """The findings of an earlier run.

    Attributes:
        listed: how often each identity is listed.
        counts: how many findings of a code that run met, listed or not.
    """

    listed: Counter[Identity] = field(default_factory=Counter)
    counts: Counter[str] = field(default_factory=Counter)

    @property
    def largest(self) -> int:
        """Return the largest number of findings listed for one code."""
        sums = Counter[str]()
        for key, count in self.listed.items():
            sums[str(key[0])] += count
        return max(sums.values(), default=0)

    def compare(self, findings: Findings, *, complete: bool = True) -> Comparison:
        """Tell the findings of a run apart; one that is not complete cannot miss any."""
        left = Counter(self.listed)
        known = tuple(_take(left, finding) for finding in findings)
        fresh: dict[str, list[Finding]] = {code: [] for code in findings.counts}
        for finding, is_known in zip(findings, known, strict=True):
            if not is_known:
                fresh[finding.code.code].append(finding)
        new, by_number = FindingLog(findings.max_per_code), {}
        for code, unlisted in fresh.items():
            suppressed = findings.suppressed(code)
            number = len(unlisted) + suppressed
            if number and number <= self._unlisted(code):
                by_number[code] = number
            elif number:
                new.extend(unlisted)
                new.add(_stand_in(findings, code, suppressed), count=suppressed)
        return Comparison(known, len(findings) - len(new), new, by_number, left.total() if complete else None)

    def _unlisted(self, code: str) -> int:
        """Return how many findings of a code that run counted without listing them."""
        return self.counts[code] - sum(count for key, count in self.listed.items() if key[0] == code)


def _take(left: Counter[Identity], finding: Finding) -> bool:
    key = identity(json_object(finding))
    if left[key] < 1:
        return False
    left[key] -= 1
    return True


def _stand_in(findings: Findings, code: str, count: int) -> Finding:
    """Return a finding for those that are only counted; it weighs as much as the worst that is kept."""
    kept = [finding for finding in findings if finding.code.code == code]
    worst = max(kept, key=lambda finding: _RANKS[finding.severity], default=Finding(code=CATALOG[code]))
    return Finding(
        code=worst.code,
        message=f"{count} more that are counted, not listed",
        severity_override=worst.severity,
        structure_override=worst.structure,
    )


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
