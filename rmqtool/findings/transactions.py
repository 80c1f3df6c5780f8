"""Codes about contradictions between half messages, op messages and commits of the log."""

from __future__ import annotations

from rmqtool.findings.model import FindingCode, Severity, Structure

CL_PREPARED = FindingCode(
    code="CL-PREPARED",
    severity=Severity.WARNING,
    structure=Structure.COMMITLOG,
    title="prepared offset without half message",
    meaning=(
        "PREPARED_TRANSACTION_OFFSET is not 0 in a record that ends no transaction, or in a commit does not "
        "point to a half message of the same keys. If it points below the log's start, the half message has "
        "expired, and there is no finding."
    ),
    broker_effect="None: it writes the field and never reads it again.",
    remedy="Treat the record's header as damaged; compare with a replica.",
    origin="EndTransactionProcessor#processRequest",
)
CL_HALF = FindingCode(
    code="CL-HALF",
    severity=Severity.ERROR,
    structure=Structure.COMMITLOG,
    title="half message that cannot be checked",
    meaning=(
        "A record in RMQ_SYS_TRANS_HALF_TOPIC lacks REAL_TOPIC, has no number in REAL_QID, or has a "
        "transaction type. A broker writes every half message with both properties and without a type."
    ),
    broker_effect="Fails to check its state with the producer, or to commit it.",
    remedy="Treat the record as damaged; find the message by physical offset and check with its producer.",
    origin="TransactionalMessageBridge#parseHalfMessageInner, AbstractTransactionalMessageCheckListener",
)
CL_OP = FindingCode(
    code="CL-OP",
    severity=Severity.ERROR,
    structure=Structure.COMMITLOG,
    title="op message without half message",
    meaning=(
        "A record in RMQ_SYS_TRANS_OP_HALF_TOPIC names a half message that is not before it in the half queue"
        " of that number, is not a list of queue offsets, or lacks the tag d. Half messages below the first "
        "one of the log have expired, and are no finding."
    ),
    broker_effect=(
        "Ignores it, so the half message that it settled stays in doubt: the broker checks with the producer"
        " again, and the message may be delivered twice or dropped in the end."
    ),
    remedy="Treat the record as damaged, or look for the half message in the log's other damage.",
    origin="TransactionalMessageServiceImpl#fillOpRemoveMap, #deletePrepareMessage",
)
CL_IN_DOUBT = FindingCode(
    code="CL-IN-DOUBT",
    severity=Severity.INFO,
    structure=Structure.COMMITLOG,
    title="half messages in doubt",
    meaning=(
        "No op message names these half messages, no later copy of them exists, and the broker's check has "
        "not passed them: producers have not answered yet, or a crash lost op messages."
    ),
    broker_effect="Checks with the producers until transactionCheckMax answers fail or the message expires.",
    remedy="None if the producers run; else ask their owners whether to commit or roll back the messages.",
    origin="TransactionalMessageServiceImpl#check",
)
