"""Findings of a run: the first few of each code, a count of the rest, and the exit status."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from enum import StrEnum
from typing import TYPE_CHECKING, Any

from rmqtool.errors import ExitStatus
from rmqtool.findings.model import Finding, FindingCode, Severity, Structure

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Sequence

    import numpy.typing as npt


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


class Findings:
    """The first findings of every code, at most ``max_per_code``, and their number, as in reports."""

    def __init__(self, max_per_code: int = 100) -> None:
        self.max_per_code = max_per_code
        self._kept: dict[str, list[Finding]] = {}
        self._counts: Counter[str] = Counter()
        self._weights: Counter[tuple[Severity, Structure]] = Counter()

    def __iter__(self) -> Iterator[Finding]:
        for findings in self._kept.values():
            yield from findings

    def __len__(self) -> int:
        return self._counts.total()

    @property
    def counts(self) -> dict[str, int]:
        """Number of findings of each code, kept or not."""
        return dict(self._counts)

    @property
    def errors(self) -> dict[Structure, int]:
        """Number of errors in each structure, kept or not."""
        return {one: count for (severity, one), count in self._weights.items() if severity is Severity.ERROR}

    def suppressed(self, code: str) -> int:
        """Return how many findings of ``code`` are counted but not kept."""
        return self._counts[code] - len(self._kept.get(code, ()))

    def exit_status(
        self, fail_on: FailOn = FailOn.ERROR, *, without: Collection[Structure] = ()
    ) -> ExitStatus:
        """Return the exit status of all findings, kept or only counted, but for some structures."""
        return status_of((one for one in self._weights if one[1] not in without), fail_on)


class FindingLog(Findings):
    """Log that keeps the first ``max_per_code`` findings of every code, and counts all of them.

    A damaged store can hold more findings than memory; the kept ones are bounded by the catalogue's length
    times the cap. Logs of parallel tasks are picklable; `merge` joins them in the order of the log.
    """

    @classmethod
    def of(cls, findings: Findings) -> FindingLog:
        """Return a log that continues a report's findings, which stay as they are."""
        log = cls(findings.max_per_code)
        log.merge(findings)
        return log

    def add(self, finding: Finding, *, count: int = 1) -> None:
        """Add a finding that stands for ``count`` equal ones (a kernel reports the first and the number)."""
        if count < 1:
            return
        code = finding.code.code
        self._counts[code] += count
        self._weights[finding.severity, finding.structure] += count
        kept = self._kept.setdefault(code, [])
        if len(kept) < self.max_per_code:
            kept.append(finding if count == 1 else replace(finding, count=count))

    def add_rows(self, rows: Sequence[Any] | npt.NDArray[Any], finding: Callable[[Any], Finding]) -> None:
        """Add a finding for each of many rows with the same fault; those above the cap only count.

        ``finding`` makes one, of the same code, severity and structure; it is not called for rows that are
        not kept.
        """
        if not len(rows):
            return
        first = finding(rows[0])
        room = max(self.max_per_code - len(self._kept.get(first.code.code, ())), 1)
        self.add(first)
        self.extend(finding(row) for row in rows[1:room])
        self.add(first, count=len(rows) - room)

    def extend(self, findings: Iterable[Finding]) -> None:
        """Add findings one by one."""
        for finding in findings:
            self.add(finding)

    def fold(self, code: str, finding: Finding) -> None:
        """Replace all findings of a code, which have one severity and structure, by one finding."""
        kept = self._kept.pop(code)
        self._weights[kept[0].severity, kept[0].structure] -= self._counts.pop(code)
        self._weights = +self._weights
        self.add(finding)

    def exchange(self, finding: Finding, other: Finding) -> None:
        """Replace a kept finding by another of the same code."""
        kept = self._kept[finding.code.code]
        kept[kept.index(finding)] = other
        self._weights[finding.severity, finding.structure] -= finding.count
        self._weights[other.severity, other.structure] += finding.count
        self._weights = +self._weights  # which drops what is 0

    def merge(self, other: Findings) -> None:
        """Append the findings of another log; its counts add up, the cap stays this log's."""
        for code, findings in other._kept.items():
            kept = self._kept.setdefault(code, [])
            kept.extend(findings[: max(0, self.max_per_code - len(kept))])
        self._counts.update(other._counts)
        self._weights.update(other._weights)

    def soften(self, code: FindingCode, severity: Severity) -> None:
        """Change the severity of every finding of a code, kept or only counted."""
        count = self._counts[code.code]
        if not count:
            return
        kept = self._kept[code.code]
        self._kept[code.code] = [replace(finding, severity_override=severity) for finding in kept]
        self._weights[severity, code.structure] += count
        self._weights -= Counter({(code.severity, code.structure): count})  # which drops what is 0
