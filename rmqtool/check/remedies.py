"""Remedies in the light of all findings: what mends files of a sound log can lose messages of another."""

from __future__ import annotations

import shlex
from dataclasses import replace
from typing import TYPE_CHECKING

from rmqtool.errors import ExitStatus
from rmqtool.findings import FailOn
from rmqtool.findings.model import Structure, advises_rebuild

if TYPE_CHECKING:
    from rmqtool.findings import FindingLog

_REMEDY = (
    "The commit log is damaged: installing a rebuild now can lose messages that consumers still get. Compare"
    " with a replica first. What a rebuild would lose: rmqtool rebuild {store} --dry-run"
)
_SALVAGE = " What is left of the log, as a new store: rmqtool salvage {store} --out DIR"
_OF_THE_LOG = frozenset({Structure.COMMITLOG, Structure.START})


def fit_remedies(findings: FindingLog, store: str) -> None:
    """Advise no rebuild of derived files while the log that they would be made of is damaged, but a salvage.

    Args:
        findings: of all structures; changed in place.
        store: path of the store, for the command to run.
    """
    if findings.exit_status(FailOn.ERROR) is not ExitStatus.LOG_DAMAGED:
        return
    place = shlex.quote(store)
    salvage = _SALVAGE.format(store=place)
    for finding in list(findings):
        if advises_rebuild(finding.remedy, finding.structure):
            remedy = _REMEDY.format(store=place) + salvage
        elif finding.structure in _OF_THE_LOG and "replica" in finding.remedy:
            remedy = finding.remedy + salvage
        else:
            continue
        findings.exchange(finding, replace(finding, remedy_override=remedy))
