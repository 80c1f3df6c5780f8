"""Codes of the hash index; it can be rebuilt from the log."""

from __future__ import annotations

from rmqtool.findings.model import FindingCode, Severity, Structure

IX_COUNT = FindingCode(
    code="IX-COUNT",
    severity=Severity.ERROR,
    structure=Structure.INDEX,
    title="item count wrong",
    meaning=(
        "indexCount is above the number of items a file holds, or items after it are not zero: a torn header."
    ),
    broker_effect="Overwrites items, or refuses to add any.",
    remedy="Rebuild the index from the log (rmqtool rebuild-index).",
    origin="IndexHeader#load, IndexFile#putKey",
)
IX_HEADER = FindingCode(
    code="IX-HEADER",
    severity=Severity.ERROR,
    structure=Structure.INDEX,
    title="header contradicts the items",
    meaning="The header's first or last offset or time differs from the first or last item.",
    broker_effect=(
        "Chooses the wrong files for a query by time; skips or repeats entries when dispatch goes on."
    ),
    remedy="Rebuild the index from the log (rmqtool rebuild-index).",
    origin="IndexFile#putKey, IndexFile#isTimeMatched",
)
IX_HDR_TIME = FindingCode(
    code="IX-HDR-TIME",
    severity=Severity.INFO,
    structure=Structure.INDEX,
    title="first item measured from the previous file",
    meaning=(
        "The time difference of a follow-up file's first item counts from the end of the previous file, "
        "although the header begins with the item's own time."
    ),
    broker_effect="Writes it so.",
    remedy="None needed.",
    origin="IndexService#getAndCreateLastIndexFile, IndexFile#putKey",
)
IX_SLOT = FindingCode(
    code="IX-SLOT",
    severity=Severity.ERROR,
    structure=Structure.INDEX,
    title="slot points to a wrong item",
    meaning=(
        "A slot's value is above indexCount, or the item it points to belongs to another slot: a stale slot "
        "after a crash."
    ),
    broker_effect="Treats a value above indexCount as empty: the chain's messages are not found by key.",
    remedy="Rebuild the index from the log (rmqtool rebuild-index).",
    origin="IndexFile#selectPhyOffset, IndexFile#putKey",
)
IX_CHAIN = FindingCode(
    code="IX-CHAIN",
    severity=Severity.ERROR,
    structure=Structure.INDEX,
    title="item chain does not descend",
    meaning="An item's previous item number is not lower than its own: danger of a cycle.",
    broker_effect="Walks it until enough results are collected, or stops early.",
    remedy="Rebuild the index from the log (rmqtool rebuild-index).",
    origin="IndexFile#selectPhyOffset",
)
IX_DUP = FindingCode(
    code="IX-DUP",
    severity=Severity.WARNING,
    structure=Structure.INDEX,
    title="entry repeated",
    meaning=(
        "Neighbouring items have the same hash and offset: the last message before a stop was dispatched "
        "again."
    ),
    broker_effect="Finds the message twice.",
    remedy="None needed.",
    origin="IndexService#buildIndex",
)
IX_ORDER = FindingCode(
    code="IX-ORDER",
    severity=Severity.WARNING,
    structure=Structure.INDEX,
    title="items not in log order",
    meaning="The physical offsets of the items do not ascend. A broker writes items in log order.",
    broker_effect="Finds the messages all the same.",
    remedy="Rebuild the index from the log (rmqtool rebuild-index).",
    origin="IndexService#buildIndex",
)
IX_SIZE = FindingCode(
    code="IX-SIZE",
    severity=Severity.WARNING,
    structure=Structure.INDEX,
    title="file size differs from the settings",
    meaning=(
        "The file is shorter or longer than maxHashSlotNum and maxIndexNum require: wrong settings, or a cut "
        "copy."
    ),
    broker_effect="Extends a short file and misreads a file of another geometry without noticing.",
    remedy="Pass the broker's own settings (-c broker.conf).",
    origin="IndexService#load, IndexFile#<init>",
)
IX_GEOMETRY = FindingCode(
    code="IX-GEOMETRY",
    severity=Severity.WARNING,
    structure=Structure.INDEX,
    title="number of slots not recognised",
    meaning=(
        "The number of hash slots could not be derived from the files, or differs from the given setting. If "
        "the default fits the size, it is assumed; else the files are damaged, and are not read any further."
    ),
    broker_effect="Uses its configuration; the file does not hold the number.",
    remedy="Pass maxHashSlotNum and maxIndexNum (-c broker.conf or -p).",
    origin="IndexFile#<init>",
)
IX_GONE = FindingCode(
    code="IX-GONE",
    severity=Severity.WARNING,
    structure=Structure.INDEX,
    title="index does not reach the log's end",
    meaning=(
        "The index lacks a range of the log, at the end or inside: deleted after a crash and not rebuilt. "
        "From 5.4.0 on a start after a crash usually leaves a hole inside, because it dispatches only the "
        "last files of the log."
    ),
    broker_effect="Never rebuilds it; the messages are not found by key.",
    remedy="Rebuild the index from the log (rmqtool rebuild-index).",
    origin="IndexService#load, DefaultMessageStore#recover",
)
IX_MISSING = FindingCode(
    code="IX-MISSING",
    severity=Severity.ERROR,
    structure=Structure.INDEX,
    title="key without item",
    meaning="A key of a record inside the indexed range has no item.",
    broker_effect="Does not find the message by that key.",
    remedy="Rebuild the index from the log (rmqtool rebuild-index).",
    origin="IndexService#buildIndex",
)
IX_WRONG = FindingCode(
    code="IX-WRONG",
    severity=Severity.ERROR,
    structure=Structure.INDEX,
    title="item differs from the record",
    meaning=(
        "An item's key hash, offset or time differs from its record; or an item for tags exists in a store "
        "that no broker of 5.4.0 or later wrote."
    ),
    broker_effect="Does not find the message, or finds another one.",
    remedy="Rebuild the index from the log (rmqtool rebuild-index).",
    origin="IndexFile#putKey",
)
IX_SUPERFLUOUS = FindingCode(
    code="IX-SUPERFLUOUS",
    severity=Severity.ERROR,
    structure=Structure.INDEX,
    title="item without key",
    meaning="An item belongs to no key of its record.",
    broker_effect="Returns messages that do not have the key.",
    remedy="Rebuild the index from the log (rmqtool rebuild-index).",
    origin="IndexService#buildIndex",
)
IX_DANGLING = FindingCode(
    code="IX-DANGLING",
    severity=Severity.ERROR,
    structure=Structure.INDEX,
    title="item points outside the log",
    meaning="An item points at or beyond the end of the log, or at an offset where no record starts.",
    broker_effect="Skips it when it cannot read the message.",
    remedy="Rebuild the index from the log (rmqtool rebuild-index).",
    origin="DefaultMessageStore#queryMessage",
)
IX_EXPIRED = FindingCode(
    code="IX-EXPIRED",
    severity=Severity.INFO,
    structure=Structure.INDEX,
    title="items of expired messages",
    meaning="Items point below the start of the log: their messages have expired, the index file has not.",
    broker_effect="Skips them; deletes the file once all of it has expired.",
    remedy="None needed.",
    origin="IndexService#deleteExpiredFile",
)
IX_UNUSED = FindingCode(
    code="IX-UNUSED",
    severity=Severity.INFO,
    structure=Structure.INDEX,
    title="index file without items",
    meaning="A created but unused file: header of zeros, indexCount 0 or 1.",
    broker_effect="Fills it with the next keys.",
    remedy="None needed.",
    origin="IndexService#getAndCreateLastIndexFile",
)
IX_STRAY = FindingCode(
    code="IX-STRAY",
    severity=Severity.WARNING,
    structure=Structure.INDEX,
    title="entry that is no index file",
    meaning=(
        "An entry of index/ is not an index file: a name other than 17 digits, empty, a directory, a FIFO, a "
        "device or a dangling link."
    ),
    broker_effect=(
        "Skips a name that is not a number; extends an empty file; an I/O error stops the start from 5.1.0 "
        "on."
    ),
    remedy="Move it out of the directory.",
    origin="IndexService#load",
)
IX_NAME_ORDER = FindingCode(
    code="IX-NAME-ORDER",
    severity=Severity.WARNING,
    structure=Structure.INDEX,
    title="names and contents in different order",
    meaning=(
        "The files' names are not in the order of the offsets in them: a clock step or the end of summer "
        "time."
    ),
    broker_effect="Treats the name order as the order of time; queries may stop too early.",
    remedy="Rebuild the index from the log (rmqtool rebuild-index).",
    origin="IndexService#load, IndexService#queryOffset",
)
IX_TAG_MIX = FindingCode(
    code="IX-TAG-MIX",
    severity=Severity.INFO,
    structure=Structure.INDEX,
    title="messages with tag items and without",
    meaning=(
        "Some messages have an item for their tags, others have none: brokers before and since 5.4.0 wrote "
        "the index. Each message is checked by itself; both kinds are sound."
    ),
    broker_effect="Finds all messages by key, but only those with tag items by their tags.",
    remedy=(
        "None needed. rmqtool rebuild writes the same items again, or tag items for all messages "
        "(--tag-items all)."
    ),
    origin="IndexService#buildIndex",
)
