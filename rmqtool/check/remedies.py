"""Remedies in the light of all findings: what mends files of a sound log can lose messages of another."""

from __future__ import annotations

import shlex
from dataclasses import replace
from typing import TYPE_CHECKING

from rmqtool.errors import ExitStatus
from rmqtool.findings import FailOn
from rmqtool.findings.model import advises_rebuild

if TYPE_CHECKING:
    from rmqtool.findings import FindingLog

_REMEDY = (
    "The commit log is damaged: installing a rebuild now can lose messages that consumers still get. Compare"
    " with a replica first. What a rebuild would lose: rmqtool rebuild {store} --dry-run"
)


def fit_remedies(findings: FindingLog, store: str) -> None:
    """Advise no rebuild of derived files while the log that they would be made of is damaged.

    Args:
        findings: of all structures; changed in place.
        store: path of the store, for the command to run.
    """
    if findings.exit_status(FailOn.ERROR) is not ExitStatus.LOG_DAMAGED:
        return
    remedy = _REMEDY.format(store=shlex.quote(store))
    for finding in list(findings):
        if advises_rebuild(finding.remedy, finding.structure):
            findings.exchange(finding, replace(finding, remedy_override=remedy))
