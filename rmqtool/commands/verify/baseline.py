"""Known findings: an earlier run's output, against which a later run is compared.

A finding is recognised by where it is (`identity`), never by its sentence, so that better wording does not
make old damage new. An output lists the first findings of a code and counts the rest: those rest are known by
their number only.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from rmqtool.findings import CATALOG, Finding, FindingLog, Findings, Severity
from rmqtool.projection import json_object

if TYPE_CHECKING:
    from collections.abc import Mapping

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
