"""Codes of DLedger commit logs: messages framed by the entries of a Raft log."""

from __future__ import annotations

from rmqtool.findings.model import FindingCode, Severity, Structure

DL_POS = FindingCode(
    code="DL-POS",
    severity=Severity.ERROR,
    structure=Structure.COMMITLOG,
    title="DLedger entry claims another place",
    meaning="The pos field of a DLedger entry differs from its address.",
    broker_effect="dledger refuses to start or truncates the log there.",
    remedy="Restore from another member of the group.",
    origin="DLedgerMmapFileStore#recover",
)
DL_INDEX = FindingCode(
    code="DL-INDEX",
    severity=Severity.ERROR,
    structure=Structure.COMMITLOG,
    title="DLedger index not consecutive",
    meaning="The index of a DLedger entry is not the one before plus 1.",
    broker_effect="dledger refuses to start or truncates the log there.",
    remedy="Restore from another member of the group.",
    origin="DLedgerMmapFileStore#recover",
)
DL_TERM = FindingCode(
    code="DL-TERM",
    severity=Severity.ERROR,
    structure=Structure.COMMITLOG,
    title="DLedger term decreases",
    meaning="The term of a DLedger entry is lower than the one before.",
    broker_effect="dledger refuses to start or truncates the log there.",
    remedy="Restore from another member of the group.",
    origin="DLedgerMmapFileStore#recover",
)
