"""Catalogue of all that can be wrong with a store, and of what it means to its owner.

Every kind of finding is a `FindingCode`: ``catalog.txt`` has their texts, `CATALOG` all of them by id, and
``codes`` a name for each. A `Finding` is one of them at one place. Damage is data: no package raises for it.
Ids are append-only: scripts and baselines of users name them.
"""

from __future__ import annotations

from rmqtool.findings.log import FailOn, FindingLog, Findings, exit_status
from rmqtool.findings.model import CATALOG, Finding, FindingCode, Observed, Severity, Structure, code_of

__all__ = [
    "CATALOG",
    "FailOn",
    "Finding",
    "FindingCode",
    "FindingLog",
    "Findings",
    "Observed",
    "Severity",
    "Structure",
    "code_of",
    "exit_status",
]
