"""Remedies in the light of all findings: a rebuild from a damaged log can lose messages."""

from __future__ import annotations

import shlex
from dataclasses import replace
from typing import TYPE_CHECKING

from rmqtool.errors import ExitStatus
from rmqtool.findings import FailOn
from rmqtool.findings.model import Structure, advises_rebuild

if TYPE_CHECKING:
    from rmqtool.findings import FindingLog
    from rmqtool.store import Store

_REMEDY = (
    "The commit log is damaged: installing a rebuild now can lose messages that consumers still get. Compare"
    " with a replica first. To see what a rebuild would lose: rmqtool rebuild {store} --dry-run"
)
_SALVAGE = " To turn what is left into a new store: rmqtool salvage {store} --out DIR"
_KEEP = "Leave the queues in place, and install no rebuild: it would lack {what}."
_OF_THE_LOG = frozenset({Structure.COMMITLOG, Structure.START})


def fit_remedies(findings: FindingLog, store: Store) -> None:
    """Advise no rebuild that loses messages: of a damaged log, or beside parts that it does not build."""
    if (elsewhere := (*store.unread, *store.queue_databases)) and store.root is not None:
        _advise_no_rebuild(findings, _KEEP.format(what=elsewhere[0].sentence), store)
    elif findings.exit_status(FailOn.ERROR) is ExitStatus.LOG_DAMAGED:
        _advise_salvage(findings, shlex.quote(str(store.base)))


def _advise_no_rebuild(findings: FindingLog, remedy: str, store: Store) -> None:
    for finding in list(findings):
        is_alone = finding.structure is Structure.INDEX and not store.is_log_unread
        if advises_rebuild(finding.remedy, finding.structure) and not is_alone:
            findings.exchange(finding, replace(finding, remedy_override=remedy))


def _advise_salvage(findings: FindingLog, place: str) -> None:
    salvage = _SALVAGE.format(store=place)
    for finding in list(findings):
        if advises_rebuild(finding.remedy, finding.structure):
            remedy = _REMEDY.format(store=place) + salvage
        elif finding.structure in _OF_THE_LOG and "replica" in finding.remedy:
            remedy = finding.remedy + salvage
        else:
            continue
        findings.exchange(finding, replace(finding, remedy_override=remedy))
