"""Codes about what half messages, op messages and commits of the log say of each other."""

from __future__ import annotations

from rmqtool.findings.model import FindingCode, Severity, Structure

CL_PREPARED = FindingCode(
    code="CL-PREPARED",
    severity=Severity.ERROR,
    structure=Structure.COMMITLOG,
    title="prepared offset without half message",
    meaning=(
        "PREPARED_TRANSACTION_OFFSET of a record that ends no transaction is not 0, or that of a commit does "
        "not lead to a half message of the same keys. Below the log's start that has expired: no finding."
    ),
    broker_effect="None: it writes the field and never reads it again.",
    remedy="Treat the record's header as damaged; compare with a replica.",
    origin="EndTransactionProcessor#processRequest",
)
