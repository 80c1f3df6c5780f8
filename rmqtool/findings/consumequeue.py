"""Codes of consume queues, their ext files and batch queues; all of them can be rebuilt from the log."""

from __future__ import annotations

from rmqtool.findings.model import FindingCode, Severity, Structure

CQ_PREBLANK = FindingCode(
    code="CQ-PREBLANK",
    severity=Severity.INFO,
    structure=Structure.CONSUMEQUEUE,
    title="pre-blank units",
    meaning=(
        "The queue begins with units (0, 0x7FFFFFFF, 0) in its first file: it was created for a message "
        "whose queue offset was not 0."
    ),
    broker_effect="Skips them when it corrects the minimum offset.",
    remedy="None needed.",
    origin="ConsumeQueue#fillPreBlank",
)
CQ_PREBLANK_VISIBLE = FindingCode(
    code="CQ-PREBLANK-VISIBLE",
    severity=Severity.WARNING,
    structure=Structure.CONSUMEQUEUE,
    title="pre-blank units that count",
    meaning=(
        "Pre-blank units although the log begins at 0, the trace of a partial rebuild; or after a queue's "
        "first unit, in a queue that was rebuilt under load. They pass as valid units."
    ),
    broker_effect=(
        "Keeps them and all later units; its minimum offset can lie among them, and pulls there find nothing."
    ),
    remedy="Rebuild the consume queues from the log (rmqtool rebuild).",
    origin="ConsumeQueue#correctMinOffset",
)
CQ_ZERO_INSIDE = FindingCode(
    code="CQ-ZERO-INSIDE",
    severity=Severity.ERROR,
    structure=Structure.CONSUMEQUEUE,
    title="zero unit before valid ones",
    meaning="A unit of zeros lies before later valid units: a page lost in a crash.",
    broker_effect="Ends the queue at the zero unit and drops the rest.",
    remedy="Rebuild the consume queues from the log (rmqtool rebuild).",
    origin="ConsumeQueue#recover",
)
CQ_STALE_TAIL = FindingCode(
    code="CQ-STALE-TAIL",
    severity=Severity.WARNING,
    structure=Structure.CONSUMEQUEUE,
    title="valid-looking units after the end",
    meaning=(
        "After the end of the queue lie units that look valid: truncation moves positions and clears nothing."
    ),
    broker_effect="Ignores them now; a later start accepts them once the log has grown past them.",
    remedy="Rebuild the consume queues from the log (rmqtool rebuild).",
    origin="ConsumeQueue#truncateDirtyLogicFiles",
)
CQ_MISPLACED = FindingCode(
    code="CQ-MISPLACED",
    severity=Severity.ERROR,
    structure=Structure.CONSUMEQUEUE,
    title="unit in another record's slot",
    meaning="The record that a unit points to carries another QUEUEOFFSET than the unit's number.",
    broker_effect="Delivers messages under wrong offsets; consumers skip or repeat.",
    remedy="Rebuild the consume queues from the log (rmqtool rebuild).",
    origin="ConsumeQueue#putMessagePositionInfo, CommitLog#recoverNormally (5.3.2+)",
)
CQ_PHY_ORDER = FindingCode(
    code="CQ-PHY-ORDER",
    severity=Severity.ERROR,
    structure=Structure.CONSUMEQUEUE,
    title="offsets not ascending",
    meaning="The physical offsets of a queue's units do not strictly ascend.",
    broker_effect="Searches by time and for the minimum offset return wrong results.",
    remedy="Rebuild the consume queues from the log (rmqtool rebuild).",
    origin="ConsumeQueue#correctMinOffset, ConsumeQueue#getOffsetInQueueByTime",
)
CQ_EXPIRED = FindingCode(
    code="CQ-EXPIRED",
    severity=Severity.INFO,
    structure=Structure.CONSUMEQUEUE,
    title="units of expired messages",
    meaning="Units point below the start of the log: their messages have expired, the queue file has not.",
    broker_effect="Hides them below the minimum offset; deletes the file once all of it has expired.",
    remedy="None needed.",
    origin="ConsumeQueue#deleteExpiredFile",
)
CQ_DANGLING = FindingCode(
    code="CQ-DANGLING",
    severity=Severity.ERROR,
    structure=Structure.CONSUMEQUEUE,
    title="unit points outside the log",
    meaning=(
        "A unit points at or beyond the end of the log, into a gap, or at an offset where no record starts."
    ),
    broker_effect="A pull answers MESSAGE_WAS_REMOVING or finds nothing and moves on.",
    remedy="Rebuild the consume queues from the log (rmqtool rebuild).",
    origin="DefaultMessageStore#getMessage",
)
CQ_SIZE_TAG = FindingCode(
    code="CQ-SIZE-TAG",
    severity=Severity.ERROR,
    structure=Structure.CONSUMEQUEUE,
    title="size or tags code differ",
    meaning=(
        "The unit's size or tags code differ from its record: damage, another messageDelayLevel table, or "
        "the delay defect of 4.9.2-4.9.8."
    ),
    broker_effect=(
        "Filters wrongly, delivers delayed messages at the wrong time, or fails to read the message."
    ),
    remedy=(
        "Check messageDelayLevel and enableConsumeQueueExt, then rebuild the consume queues (rmqtool "
        "rebuild)."
    ),
    origin="CommitLog#checkMessageAndReturnSize, MessageExtBrokerInner#tagsString2tagsCode",
)
CQ_BAD_UNIT = FindingCode(
    code="CQ-BAD-UNIT",
    severity=Severity.ERROR,
    structure=Structure.CONSUMEQUEUE,
    title="impossible unit",
    meaning="A unit with a negative offset, or a size that is not positive, before the end of the queue.",
    broker_effect="Ends the queue there and drops the rest.",
    remedy="Rebuild the consume queues from the log (rmqtool rebuild).",
    origin="ConsumeQueue#recover",
)
CQ_LAG = FindingCode(
    code="CQ-LAG",
    severity=Severity.ERROR,
    structure=Structure.CONSUMEQUEUE,
    title="queues end before the files that a start reads",
    meaning=(
        "All queues end before the oldest file that a start of 5.4.0 and later reads "
        "(commitLogRecoverMaxNum, 10): queues of an older copy, or cut back."
    ),
    broker_effect=(
        "Never dispatches the records between, and appends every later unit of their queues too early, in a "
        "wrong slot: consumers get the wrong messages for an offset."
    ),
    remedy=(
        "Before the next start, rebuild the consume queues (rmqtool rebuild), or set commitLogRecoverMaxNum "
        "to the number of log files."
    ),
    origin="CommitLog#recoverNormally (5.4.0+), ConsumeQueue#putMessagePositionInfo",
)
CQ_MISSING_MSG = FindingCode(
    code="CQ-MISSING-MSG",
    severity=Severity.ERROR,
    structure=Structure.CONSUMEQUEUE,
    title="record without unit",
    meaning="A record of the log has no unit in its queue: the queue lags, was cut, or was lost.",
    broker_effect="Consumers never see the message.",
    remedy="Rebuild the consume queues from the log (rmqtool rebuild).",
    origin="ConsumeQueue#putMessagePositionInfo",
)
CQ_TOPIC_GONE = FindingCode(
    code="CQ-TOPIC-GONE",
    severity=Severity.WARNING,
    structure=Structure.CONSUMEQUEUE,
    title="messages of a deleted topic",
    meaning=(
        "Records have no unit, and topics.json lacks their topic, or the present queue begins again at "
        "offset 0 after them. Deleting a topic deletes its queues at once; its messages stay until the "
        "log's file expires."
    ),
    broker_effect=(
        "Deleted the queues itself: 5.x those of the deleted topic, 4.x those of all topics that topics.json "
        "lacks. An unclean start dispatches some of the messages again."
    ),
    remedy="None if the topic was deleted on purpose; else find its messages with query --scan.",
    origin="DefaultMessageStore#cleanUnusedTopic (4.x), DefaultMessageStore#deleteTopics (5.x)",
)
CQ_SUPERFLUOUS = FindingCode(
    code="CQ-SUPERFLUOUS",
    severity=Severity.ERROR,
    structure=Structure.CONSUMEQUEUE,
    title="unit without record",
    meaning="The queue holds a unit for which the log has no record of that queue.",
    broker_effect="Delivers a message of another queue, or nothing, under that offset.",
    remedy="Rebuild the consume queues from the log (rmqtool rebuild).",
    origin="ConsumeQueue#putMessagePositionInfo",
)
CQ_GAP_FILE = FindingCode(
    code="CQ-GAP-FILE",
    severity=Severity.ERROR,
    structure=Structure.CONSUMEQUEUE,
    title="queue file missing",
    meaning="The names of a queue's files are not contiguous.",
    broker_effect="Loads them side by side, so every later offset shifts.",
    remedy="Rebuild the consume queues from the log (rmqtool rebuild).",
    origin="MappedFileQueue#load",
)
CQ_FILE_NAME = FindingCode(
    code="CQ-FILE-NAME",
    severity=Severity.ERROR,
    structure=Structure.CONSUMEQUEUE,
    title="queue file name is not a multiple of the file size",
    meaning=(
        "The number in the file's name is not a multiple of the file size: the file was renamed. All its "
        "units are present, at offsets that no broker reads."
    ),
    broker_effect="Loads it and serves none of its messages.",
    remedy="Restore its name: the queue offset of its first unit, times the size of a unit.",
    origin="MappedFileQueue#findMappedFileByOffset, DefaultMappedFile#selectMappedBuffer",
)
CQ_MIN_WRONG = FindingCode(
    code="CQ-MIN-WRONG",
    severity=Severity.WARNING,
    structure=Structure.CONSUMEQUEUE,
    title="minimum offset stays at 0",
    meaning="All units of the first file lie below the start of the log, but later files are fine.",
    broker_effect="4.x reports the first file's start as minimum offset; pulls there answer 'removed'.",
    remedy="Remove the expired first file while the broker is stopped, or rebuild.",
    origin="ConsumeQueue#correctMinOffset (4.x)",
)
CQ_STRAY = FindingCode(
    code="CQ-STRAY",
    severity=Severity.ERROR,
    structure=Structure.CONSUMEQUEUE,
    title="entry that is no queue file",
    meaning=(
        "An entry of a queue directory is not a queue file of the configured size: wrong size, empty, a name"
        " other than 20 digits, a directory, a FIFO, a device or a dangling link."
    ),
    broker_effect=(
        "4.0-4.4.0 and 4.9.2 ignore it and all later files; 4.5.0+ refuses to start (5.1.0+ skips "
        "directories, 5.1.3+ deletes an empty last file)."
    ),
    remedy="Move it out of the directory.",
    origin="MappedFileQueue#load, MappedFileQueue#doLoad",
)
CQ_STRAY_DIR = FindingCode(
    code="CQ-STRAY-DIR",
    severity=Severity.WARNING,
    structure=Structure.CONSUMEQUEUE,
    title="directory that is no queue",
    meaning=(
        "An entry of consumequeue/ is not a topic directory, or the name of an entry of a topic directory is"
        " not a queue ID."
    ),
    broker_effect="Ignores it; a directory whose name is a number too large for a queue ID stops the start.",
    remedy="Move it out of the directory.",
    origin="DefaultMessageStore#loadConsumeQueue (4.x), ConsumeQueueStore#loadConsumeQueues (5.x)",
)
CQ_TYPE = FindingCode(
    code="CQ-TYPE",
    severity=Severity.ERROR,
    structure=Structure.CONSUMEQUEUE,
    title="queue of the wrong kind",
    meaning="A topic of type BatchCQ has simple queue files, or the reverse.",
    broker_effect="5.x refuses to start.",
    remedy="Correct queue.type in topics.json, or rebuild the consume queues (rmqtool rebuild).",
    origin="ConsumeQueueStore#queueTypeShouldBe (5.x)",
)
CQ_EXT_UNIT = FindingCode(
    code="CQ-EXT-UNIT",
    severity=Severity.ERROR,
    structure=Structure.CONSUMEQUEUE,
    title="damaged ext unit",
    meaning="A consume queue ext unit has impossible lengths or differs from its record.",
    broker_effect="Filters by the wrong tags code or reads no filter data.",
    remedy="Rebuild the consume queues from the log (rmqtool rebuild).",
    origin="ConsumeQueueExt#recover",
)
CQ_EXT_DANGLING = FindingCode(
    code="CQ-EXT-DANGLING",
    severity=Severity.ERROR,
    structure=Structure.CONSUMEQUEUE,
    title="ext address without ext unit",
    meaning="The tags code of a unit is an ext address, but no ext unit has this address.",
    broker_effect="Falls back to no tags code: filtering lets nothing or everything pass.",
    remedy="Rebuild the consume queues from the log (rmqtool rebuild).",
    origin="ConsumeQueueExt#get",
)
CQ_EXT_ORPHAN = FindingCode(
    code="CQ-EXT-ORPHAN",
    severity=Severity.INFO,
    structure=Structure.CONSUMEQUEUE,
    title="ext unit without unit",
    meaning=(
        "No unit refers to an ext unit: a broker appends the ext unit before it checks the unit, so a "
        "skipped duplicate leaves one."
    ),
    broker_effect="Never reads it.",
    remedy="None needed.",
    origin="ConsumeQueue#putMessagePositionInfoWrapper",
)
BQ_BAD_UNIT = FindingCode(
    code="BQ-BAD-UNIT",
    severity=Severity.ERROR,
    structure=Structure.CONSUMEQUEUE,
    title="damaged batch unit",
    meaning="A batch consume queue unit is impossible or differs from its record.",
    broker_effect="Ends the queue there, or delivers the wrong messages.",
    remedy="Rebuild the consume queues from the log (rmqtool rebuild).",
    origin="BatchConsumeQueue#recover (5.0.0+)",
)
BQ_BASE_GAP = FindingCode(
    code="BQ-BASE-GAP",
    severity=Severity.ERROR,
    structure=Structure.CONSUMEQUEUE,
    title="batch offsets not contiguous",
    meaning="The base offset of a batch unit is not the one before plus its batch size.",
    broker_effect="Pulls inside the gap find nothing.",
    remedy="Rebuild the consume queues from the log (rmqtool rebuild).",
    origin="BatchConsumeQueue#putBatchMessagePositionInfo (5.0.0+)",
)
LMQ_COUNTER_RESET = FindingCode(
    code="LMQ-COUNTER-RESET",
    severity=Severity.ERROR,
    structure=Structure.CONSUMEQUEUE,
    title="light queue counter restarted",
    meaning="The %LMQ% offsets in the records begin again at 0: a restart of 4.9.3, 4.9.4 or 5.0.0.",
    broker_effect="Appends one unit and drops the following until the counter passes the old end.",
    remedy="Upgrade; find the messages by physical offset.",
    origin="MultiDispatch#updateMultiQueueOffset (4.9.3-5.0.0)",
)
LMQ_TWICE = FindingCode(
    code="LMQ-TWICE",
    severity=Severity.INFO,
    structure=Structure.CONSUMEQUEUE,
    title="message names a light queue more than once",
    meaning=(
        "INNER_MULTI_DISPATCH of a message names a queue more than once, each time with the same queue "
        "offset. From 5.0.0 on each name raises the queue's offset by one, so the queue offsets of later "
        "messages lie above the slots of their units until the next restart. No message is lost."
    ),
    broker_effect="Writes one unit for the message, and logs the other names as repetitions.",
    remedy="None needed in the store; the sender should name each queue once.",
    origin="LmqDispatch#updateLmqOffsets (5.x), MultiDispatch#updateMultiQueueOffset (4.9)",
)
LMQ_STALL = FindingCode(
    code="LMQ-STALL",
    severity=Severity.ERROR,
    structure=Structure.CONSUMEQUEUE,
    title="dispatch stops at one record",
    meaning=(
        "All queues stop at one record. With multi dispatch, every version fails for ever on a value in "
        "INNER_MULTI_QUEUE_OFFSET that is not a number, 4.9.3 on a record without properties, 5.3.2+ on a "
        "name without %LMQ%. The record has its own unit, but no index entries."
    ),
    broker_effect="Queues and index no longer grow while the log does.",
    remedy="Upgrade, or switch enableMultiDispatch off: rebuild -p enableMultiDispatch=false passes it.",
    origin="ConsumeQueue#multiDispatchLmqQueue (4.9.3, 5.3.2+)",
)
