"""Codes of the commit log, the only part of a store that cannot be rebuilt."""

from __future__ import annotations

from rmqtool.findings.model import FindingCode, Severity, Structure

CL_TAIL_ZERO = FindingCode(
    code="CL-TAIL-ZERO",
    severity=Severity.INFO,
    structure=Structure.COMMITLOG,
    title="zeros after the last record",
    meaning=(
        "After the last record of the log only zero bytes follow, up to the end of the file. Files are "
        "created at full size, so this is the normal end."
    ),
    broker_effect="Takes the first zero word as the end of the log and appends there.",
    remedy="None needed.",
    origin="CommitLog#checkMessageAndReturnSize, DefaultMappedFile#init",
)
CL_PREALLOC = FindingCode(
    code="CL-PREALLOC",
    severity=Severity.INFO,
    structure=Structure.COMMITLOG,
    title="pre-allocated last file",
    meaning=(
        "The last file holds only zeros: the broker allocates one file ahead and deletes the unused one at a"
        " clean stop; a crash leaves it behind."
    ),
    broker_effect="Keeps it and writes into it once the file before is full.",
    remedy="None needed.",
    origin="AllocateMappedFileService#mmapOperation",
)
CL_TAIL_DIRTY = FindingCode(
    code="CL-TAIL-DIRTY",
    severity=Severity.WARNING,
    structure=Structure.COMMITLOG,
    title="bytes after the logical end",
    meaning=(
        "After the logical end of the log there are bytes that are not zero. Recovery truncates by moving "
        "positions and clears nothing. If old records follow at a fitting boundary they are a resurrected "
        "tail: store times step back and queue offsets repeat. With writeWithoutMmap (5.5.0+) stale bytes up "
        "to the file's next multiple of 4096 are normal, and only a note where such a broker may have "
        "written; copies of older records among them are taken into the log by the next start, and "
        "dispatched by none."
    ),
    broker_effect=(
        "Overwrites them as it appends; the next unclean start may accept old records among them again."
    ),
    remedy=(
        "Read the bytes with dump before anything is appended; zero the tail of a copy if the log is to be "
        "cut here."
    ),
    origin="MappedFileQueue#truncateDirtyFiles",
)
CL_HALF_RECORD = FindingCode(
    code="CL-HALF-RECORD",
    severity=Severity.ERROR,
    structure=Structure.COMMITLOG,
    title="record cut short",
    meaning=(
        "A legal header whose lengths do not add up to its TOTALSIZE, or a record that runs past the end of "
        "its file: a torn write."
    ),
    broker_effect=(
        "Recovery ends the log here; the dispatch of a running broker skips by TOTALSIZE, or to the end of "
        "the file."
    ),
    remedy="Compare with a replica, and fetch the message from there; do not restart on the only copy.",
    origin="CommitLog#checkMessageAndReturnSize, DefaultMessageStore.ReputMessageService#doReput",
)
CL_CRC = FindingCode(
    code="CL-CRC",
    severity=Severity.ERROR,
    structure=Structure.COMMITLOG,
    title="body checksum differs",
    meaning="The CRC-32 of the body differs from the record's BODYCRC: bit rot or a torn page.",
    broker_effect=(
        "Recovery, if the file is in the range it scans, cuts the log here and drops everything after; "
        "otherwise nobody notices and consumers receive the damaged body."
    ),
    remedy="Compare with a replica before the next restart; do not restart on the only copy.",
    origin="CommitLog#checkMessageAndReturnSize, UtilAll#crc32",
)
CL_PROP_CRC = FindingCode(
    code="CL-PROP-CRC",
    severity=Severity.ERROR,
    structure=Structure.COMMITLOG,
    title="record checksum property differs",
    meaning=(
        "The property __CRC32# does not match the record in front of it: some header field, the topic or a "
        "property changed after the write. A warning in a file most of whose records carry no such property: "
        "a broker with enabledAppendPropCRC=false stores that of a message sent again as it comes."
    ),
    broker_effect="Checked only with forceVerifyPropCRC=true (5.2.0+): then recovery ends the log here.",
    remedy="Compare the record with a replica.",
    origin="MessageDecoder#createCrc32, CommitLog#checkMessageAndReturnSize (5.2.0+)",
)
CL_HOLE = FindingCode(
    code="CL-HOLE",
    severity=Severity.ERROR,
    structure=Structure.COMMITLOG,
    title="zeros between records",
    meaning=(
        "A zero region lies between records, often on page boundaries: a page that never reached the disk "
        "before a crash."
    ),
    broker_effect="Meets an illegal magic: recovery ends the log here, dispatch skips the rest of the file.",
    remedy=(
        "Copy the store before a restart, and compare with a replica; records after the hole are readable "
        "with --on-corrupt resync."
    ),
    origin="CommitLog#checkMessageAndReturnSize",
)
CL_BAD_MAGIC = FindingCode(
    code="CL-BAD-MAGIC",
    severity=Severity.ERROR,
    structure=Structure.COMMITLOG,
    title="no record at a record boundary",
    meaning=(
        "At a record boundary there is neither a message, nor a BLANK, nor zeros. Damage, a wrong file size "
        "setting, or a 4.9 broker's view of V2 records."
    ),
    broker_effect=(
        "Recovery ends the log here; the dispatch of a master skips the rest of the file, a slave stalls."
    ),
    remedy=(
        "Check mappedFileSizeCommitLog first; then compare with a replica, and read on with --on-corrupt "
        "resync."
    ),
    origin="CommitLog#checkMessageAndReturnSize",
)
CL_BLANK_LEN = FindingCode(
    code="CL-BLANK-LEN",
    severity=Severity.WARNING,
    structure=Structure.COMMITLOG,
    title="BLANK of the wrong length",
    meaning=(
        "The BLANK that closes a file does not say how many bytes are left in it: a cut or copied file, or a"
        " wrong file size setting."
    ),
    broker_effect="Jumps to the next file whatever the length says.",
    remedy="Check mappedFileSizeCommitLog against the files.",
    origin="CommitLog.DefaultAppendMessageCallback#doAppend",
)
CL_NO_BLANK = FindingCode(
    code="CL-NO-BLANK",
    severity=Severity.ERROR,
    structure=Structure.COMMITLOG,
    title="full file without BLANK",
    meaning="A file that others follow ends without the BLANK that closes every full file.",
    broker_effect="Recovery ends the log in this file.",
    remedy="Treat the end of the file as damaged; compare with a replica.",
    origin="CommitLog.DefaultAppendMessageCallback#doAppend",
)
CL_GHOST = FindingCode(
    code="CL-GHOST",
    severity=Severity.INFO,
    structure=Structure.COMMITLOG,
    title="old bytes after a BLANK",
    meaning=(
        "Record fragments lie in the unused rest after a BLANK: the writer's buffer was not cleared "
        "(4.0-4.9.0)."
    ),
    broker_effect="Never reads them.",
    remedy="None needed; never count them as messages.",
    origin="CommitLog.DefaultAppendMessageCallback#doAppend (4.0-4.9.0)",
)
CL_PHY_MISMATCH = FindingCode(
    code="CL-PHY-MISMATCH",
    severity=Severity.ERROR,
    structure=Structure.COMMITLOG,
    title="record claims another place",
    meaning=(
        "PHYSICALOFFSET differs from the place of the record: a renamed or copied file, or stale bytes. With "
        "writeWithoutMmap (5.5.0+) also copies of older records that a start took into the log; a broker "
        "dispatches none of these."
    ),
    broker_effect="Dispatches by the field, so queues and index point elsewhere.",
    remedy="Check the file names; restore the file of the named offset.",
    origin="CommitLog#checkMessageAndReturnSize, DispatchRequest",
)
CL_GAP = FindingCode(
    code="CL-GAP",
    severity=Severity.ERROR,
    structure=Structure.COMMITLOG,
    title="file missing between files",
    meaning="The file names are not contiguous: bytes between two files are not there.",
    broker_effect="Loads the files and logs an error; reads inside the gap fail.",
    remedy="Restore the missing file from a replica or a backup.",
    origin="MappedFileQueue#checkSelf, MappedFileQueue#load",
)
CL_EXPIRED = FindingCode(
    code="CL-EXPIRED",
    severity=Severity.INFO,
    structure=Structure.COMMITLOG,
    title="messages before the log's first byte",
    meaning=(
        "The log does not begin at 0: its first files are gone. Expiry does that, and a hand that removes "
        "files. The age of the first record against fileReservedTime, and queue or index files that a broker "
        "deletes with the log, tell them apart."
    ),
    broker_effect="Serves nothing of what lay there; consumers behind begin at what is left.",
    remedy=(
        "None if it has expired. Else put the files back from where they were moved, or from a replica, "
        "before anything else is done: the queues and the index are what still proves those messages."
    ),
    origin="CleanCommitLogService#deleteExpiredFiles",
)
CL_LOST = FindingCode(
    code="CL-LOST",
    severity=Severity.ERROR,
    structure=Structure.COMMITLOG,
    title="log that ends before what its queues list",
    meaning=(
        "Units of the consume queues lead to messages beyond the log's last record: files of its end are"
        " gone, or were cut short. With abort, a power cut took what was not flushed."
    ),
    broker_effect="Cuts the queues back to the log, and gives the queue offsets to new messages.",
    remedy=(
        "Keep the queues: they are the proof, and a rebuild leaves it out. Bring the missing files from a"
        " replica or a backup. Which messages are lost: rmqtool rebuild STORE --dry-run --lost FILE."
    ),
    origin="CommitLog#recoverNormally, ConsumeQueue#truncateDirtyLogicFiles",
)
CL_STRAY = FindingCode(
    code="CL-STRAY",
    severity=Severity.ERROR,
    structure=Structure.COMMITLOG,
    title="entry that is no log file",
    meaning=(
        "An entry of the commit log directory is no log file of the configured size: wrong size, empty, not "
        "named by 20 digits, a directory, a FIFO, a device or a dangling link."
    ),
    broker_effect=(
        "4.0-4.4.0 and 4.9.2 ignore it and all later files; 4.5.0+ refuses to start (5.1.0+ skips "
        "directories, 5.1.3+ deletes an empty last file)."
    ),
    remedy=(
        "A log file of the wrong size: restore it from a replica or a backup (moved out, its records are "
        "lost); if it is the last one and too short, lengthen it with zeros. Anything else: move it out of "
        "the directory."
    ),
    origin="MappedFileQueue#load, MappedFileQueue#doLoad",
)
CL_TRANSIENT = FindingCode(
    code="CL-TRANSIENT",
    severity=Severity.WARNING,
    structure=Structure.COMMITLOG,
    title="uncommitted buffer lost",
    meaning=(
        "A file ends in zeros although later files go on: data of the transient store pool that was not "
        "committed before a crash."
    ),
    broker_effect="Recovery ends the log at the zeros; the later files are deleted.",
    remedy="Copy the store before a restart, and compare with a replica.",
    origin="TransientStorePool, DefaultMappedFile#commit",
)
CL_HUGE_SIZE = FindingCode(
    code="CL-HUGE-SIZE",
    severity=Severity.ERROR,
    structure=Structure.COMMITLOG,
    title="absurd record size",
    meaning="A legal magic with a TOTALSIZE that no broker would write.",
    broker_effect=(
        "Before 5.3.2 tries to allocate that much memory and may die of it; later versions treat the record "
        "as damaged."
    ),
    remedy="Compare with a replica; read on after it with --on-corrupt resync.",
    origin="CommitLog#checkMessageAndReturnSize",
)
