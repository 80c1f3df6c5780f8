"""Catalogue of all that can be wrong with a store, and of what it means to its owner.

Every kind of finding is a `FindingCode` constant in the module of its structure; `CATALOG` has them all by
id. A `Finding` is one of them at one place. Damage is data: no package raises for it. Ids are append-only:
scripts and baselines of users name them.
"""

from __future__ import annotations

from rmqtool.findings.catalog import CATALOG, code_of
from rmqtool.findings.log import FailOn, FindingLog, Findings, exit_status
from rmqtool.findings.model import Finding, FindingCode, Observed, Severity, Structure

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
