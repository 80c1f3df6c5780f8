"""Findings by code, the gravest first."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rmqtool.findings import Severity

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from rmqtool.findings import Finding


def grouped(findings: Iterable[Finding]) -> list[list[Finding]]:
    """Return the findings of each code, errors first, else in their order."""
    groups: dict[str, list[Finding]] = {}
    for finding in findings:
        groups.setdefault(finding.code.code, []).append(finding)
    ranks = list(Severity)
    return sorted(groups.values(), key=lambda group: ranks.index(worst_of(group)))


def worst_of(group: Sequence[Finding]) -> Severity:
    """Return the gravest severity in a group."""
    return min((finding.severity for finding in group), key=list(Severity).index)
