"""Codes about what well-framed records of the log say: times, queue offsets, names, transactions."""

from __future__ import annotations

from rmqtool.findings.model import FindingCode, Severity, Structure

CL_TS_BACK = FindingCode(
    code="CL-TS-BACK",
    severity=Severity.WARNING,
    structure=Structure.COMMITLOG,
    title="store time steps back",
    meaning=(
        "STORETIMESTAMP is lower than in the record before: a clock step, a resurrected tail, or DLedger of "
        "4.9.3."
    ),
    broker_effect=(
        "Accepts it; look-ups by time may miss messages, recovery may choose another file to begin with."
    ),
    remedy="Look for repeated queue offsets: they mean a resurrected tail, not a clock step.",
    origin="CommitLog#asyncPutMessage",
)
CL_QOFF_GAP = FindingCode(
    code="CL-QOFF-GAP",
    severity=Severity.WARNING,
    structure=Structure.COMMITLOG,
    title="queue offset skipped",
    meaning="Queue offsets of one queue are not consecutive in the log.",
    broker_effect="The queue's later units are appended one slot early ('order maybe wrong').",
    remedy="Look for damage between the two records.",
    origin="ConsumeQueue#putMessagePositionInfo",
)
CL_QOFF_DUP = FindingCode(
    code="CL-QOFF-DUP",
    severity=Severity.ERROR,
    structure=Structure.COMMITLOG,
    title="queue offset used twice",
    meaning="Two records of one queue carry the same queue offset: usually a resurrected tail.",
    broker_effect="The second one is dropped silently when queues are built; consumers never see it.",
    remedy="Find the message by physical offset and send it again.",
    origin="ConsumeQueue#putMessagePositionInfo",
)
CL_QOFF_RESET = FindingCode(
    code="CL-QOFF-RESET",
    severity=Severity.WARNING,
    structure=Structure.COMMITLOG,
    title="queue offset falls back to 0",
    meaning=(
        "The queue offsets of a queue begin again at 0: the topic was deleted and created again, or its "
        "queue directory was lost (4.0-4.4, 5.0-5.3.1)."
    ),
    broker_effect=(
        "A rebuild drops the low offsets until they pass the old end; offset 0 is appended where the queue "
        "ends."
    ),
    remedy="None if the topic was recreated; else find the messages by physical offset.",
    origin="ConsumeQueue#putMessagePositionInfo",
)
CL_QOFF_RANGE = FindingCode(
    code="CL-QOFF-RANGE",
    severity=Severity.ERROR,
    structure=Structure.COMMITLOG,
    title="absurd queue offset",
    meaning=(
        "QUEUEOFFSET is negative or so large that its byte address in the queue does not fit in 63 bits or "
        "lies absurdly far from the queue's other units."
    ),
    broker_effect=(
        "Creates the first file of an empty queue at that address, in arithmetic that wraps around; in any "
        "other queue a lower offset is skipped and a higher one appended at the end."
    ),
    remedy="Treat the record as damaged.",
    origin="ConsumeQueue#putMessagePositionInfo",
)
CL_QUEUE_ID = FindingCode(
    code="CL-QUEUE-ID",
    severity=Severity.ERROR,
    structure=Structure.COMMITLOG,
    title="illegal queue id",
    meaning="QUEUEID is negative, or absurdly high for the topic.",
    broker_effect="Creates a queue directory of that name, and loads it as a queue at every start.",
    remedy="Treat the record as damaged.",
    origin="ConsumeQueueStore#findOrCreateConsumeQueue (5.x), DefaultMessageStore#findConsumeQueue (4.x)",
)
CL_TOPIC_NAME = FindingCode(
    code="CL-TOPIC-NAME",
    severity=Severity.ERROR,
    structure=Structure.COMMITLOG,
    title="hostile topic name",
    meaning=(
        "The topic of a record is not a safe directory name: empty, '.', '..', with '/' or NUL, or longer "
        "than 255 bytes."
    ),
    broker_effect="Builds a path from it: the queue lands elsewhere or cannot be created.",
    remedy="Treat the record as damaged or hostile; rebuild leaves its queue out.",
    origin="DefaultMessageStore#findConsumeQueue (4.x), ConsumeQueueStore#findOrCreateConsumeQueue (5.x)",
)
CL_PROPERTIES = FindingCode(
    code="CL-PROPERTIES",
    severity=Severity.WARNING,
    structure=Structure.COMMITLOG,
    title="malformed properties",
    meaning="The property string does not consist of name 0x01 value 0x02 pieces, or its length is negative.",
    broker_effect="Ignores the pieces that it cannot read: keys or tags may be missing in index and queue.",
    remedy=(
        "None if the record's checksums match: its sender wrote it so. If they do not, or zeros stand for "
        "text, compare with a replica: the record is torn, as by a full disk."
    ),
    origin="MessageDecoder#string2messageProperties",
)
CL_NUMBER = FindingCode(
    code="CL-NUMBER",
    severity=Severity.ERROR,
    structure=Structure.COMMITLOG,
    title="property is not a number",
    meaning=(
        "DELAY of a record in SCHEDULE_TOPIC_XXXX, or INNER_NUM or INNER_BASE of an inner batch, is not a "
        "number in the range of its type."
    ),
    broker_effect=(
        "Treats the record as broken: recovery ends the log here, dispatch skips the rest of the file."
    ),
    remedy="Compare with a replica, and fetch the message from there; do not restart on the only copy.",
    origin="CommitLog#checkMessageAndReturnSize, CommitLog#setBatchSizeIfNeeded (5.x)",
)
CL_EMPTY_BODY = FindingCode(
    code="CL-EMPTY-BODY",
    severity=Severity.ERROR,
    structure=Structure.COMMITLOG,
    title="impossible length or checksum of a body",
    meaning="The length of the body is negative, or BODYCRC of a record without body is not 0.",
    broker_effect="None: it reads a negative length as 0, and checks no checksum of an empty body.",
    remedy="Treat the record's header as damaged; compare with a replica.",
    origin="UtilAll#crc32, CommitLog#checkMessageAndReturnSize",
)
CL_SYSFLAG = FindingCode(
    code="CL-SYSFLAG",
    severity=Severity.WARNING,
    structure=Structure.COMMITLOG,
    title="SYSFLAG contradicts the record",
    meaning=(
        "SYSFLAG has bits that no version defines, or marks a body as compressed that does not begin like "
        "zlib, LZ4 or zstd, or marks an inner batch without INNER_NUM: a damaged field, a foreign client, or "
        "pop retries of 5.0-5.1, which unpacked the body and kept the flag."
    ),
    broker_effect="Delivers the message; a client that cannot decompress the body fails to decode it.",
    remedy="Compare the record with a replica, or with what the producer sent.",
    origin="MessageSysFlag, MessageDecoder#decode, DefaultMessageStore#asyncPutMessage",
)
CL_PORT = FindingCode(
    code="CL-PORT",
    severity=Severity.ERROR,
    structure=Structure.COMMITLOG,
    title="port beyond 16 bits",
    meaning="The port of BORNHOST or STOREHOST, a field of 32 bits, is negative or above 65535.",
    broker_effect="Fails to decode the message for a client or an ID (InetSocketAddress refuses the port).",
    remedy="Treat the record's header as damaged; compare with a replica.",
    origin="MessageDecoder#decode, MessageExt#socketAddress2ByteBuffer",
)
CL_TIME = FindingCode(
    code="CL-TIME",
    severity=Severity.WARNING,
    structure=Structure.COMMITLOG,
    title="implausible time",
    meaning=(
        "STORETIMESTAMP or BORNTIMESTAMP lies before 2010 or after 2100: a clock that was never set, a "
        "foreign client, or a damaged field. Or several messages were born after they were stored: clocks of "
        "senders and broker disagree."
    ),
    broker_effect=(
        "Accepts it; look-ups by time, the index's time differences and delayed deliveries go wrong, and "
        "half messages that were born in the future are checked back at once."
    ),
    remedy="Compare with the records around it, and with a replica.",
    origin="CommitLog#asyncPutMessage, SendMessageProcessor#sendMessage",
)
CL_INNER_BATCH = FindingCode(
    code="CL-INNER-BATCH",
    severity=Severity.ERROR,
    structure=Structure.COMMITLOG,
    title="inner batch cannot be decoded",
    meaning=(
        "SYSFLAG marks the body as several messages, but it holds none, or another number than INNER_NUM "
        "says. dump and query show it with --unpack-batches."
    ),
    broker_effect="Delivers it; the client logs an error and hands on the whole batch as one message.",
    remedy="Read the body with dump --body-dir; if its CRC holds, the producer sent it so.",
    origin="MessageDecoder#decodeMessages, PullAPIWrapper#processPullResult (5.x)",
)


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
