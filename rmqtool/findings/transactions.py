"""Codes about what half messages, op messages and commits of the log say of each other."""

from __future__ import annotations

from rmqtool.findings.model import FindingCode, Severity, Structure

CL_PREPARED = FindingCode(
    code="CL-PREPARED",
    severity=Severity.WARNING,
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
CL_HALF = FindingCode(
    code="CL-HALF",
    severity=Severity.ERROR,
    structure=Structure.COMMITLOG,
    title="half message that cannot be checked",
    meaning=(
        "A record in RMQ_SYS_TRANS_HALF_TOPIC lacks REAL_TOPIC, has no number in REAL_QID, or has a "
        "transaction type: a broker writes all half messages with both properties and none of the types."
    ),
    broker_effect="Fails when it asks the producer what became of it, or when it is committed.",
    remedy="Treat the record as damaged; find the message by physical offset and ask its producer.",
    origin="TransactionalMessageBridge#parseHalfMessageInner, AbstractTransactionalMessageCheckListener",
)
CL_OP = FindingCode(
    code="CL-OP",
    severity=Severity.ERROR,
    structure=Structure.COMMITLOG,
    title="op message without half message",
    meaning=(
        "A record in RMQ_SYS_TRANS_OP_HALF_TOPIC names a half message that was not written before it into the"
        " half queue of that number, is no list of queue offsets, or has not the tag d. What lies below the "
        "first half message of the log has expired: no finding."
    ),
    broker_effect=(
        "Ignores it, so the half message that it settled stays in doubt: the producer is asked again, and the"
        " message may be delivered twice or, in the end, be dropped."
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
        "No op message names these half messages, no later copy of them was written, and the broker's check "
        "has not passed them: producers have not answered yet, or a crash took op messages along."
    ),
    broker_effect="Asks the producers, until transactionCheckMax answers fail or the message has expired.",
    remedy="None if the producers run; else find out from them what was to become of the messages.",
    origin="TransactionalMessageServiceImpl#check",
)
