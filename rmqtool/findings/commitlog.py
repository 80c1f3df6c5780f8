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
        " clean stop; after a crash it remains."
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
        "written. The next start takes copies of older records among them into the log; no broker "
        "dispatches them."
    ),
    broker_effect=(
        "Overwrites them as it appends; the next unclean start may accept old records among them again."
    ),
    remedy=(
        "Read the bytes with dump before anything is appended. To cut the log here, zero the tail of a copy."
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
        "The property __CRC32# does not match the record before it: a header field, the topic or a property "
        "changed after the write. It is a warning in a file where most records lack this property: a broker "
        "with enabledAppendPropCRC=false stores the old property of a message that is sent again."
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
        "Copy the store before a restart, and compare with a replica. --on-corrupt resync reads the records "
        "after the hole."
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
        "Check mappedFileSizeCommitLog first. Then compare with a replica; --on-corrupt resync reads the "
        "records after it."
    ),
    origin="CommitLog#checkMessageAndReturnSize",
)
CL_BLANK_LEN = FindingCode(
    code="CL-BLANK-LEN",
    severity=Severity.WARNING,
    structure=Structure.COMMITLOG,
    title="BLANK of the wrong length",
    meaning=(
        "The BLANK at the end of a file holds a length that differs from the bytes left in the file: a cut or"
        " copied file, or a wrong file size setting."
    ),
    broker_effect="Ignores the length and jumps to the next file.",
    remedy="Compare mappedFileSizeCommitLog with the size of the files.",
    origin="CommitLog.DefaultAppendMessageCallback#doAppend",
)
CL_NO_BLANK = FindingCode(
    code="CL-NO-BLANK",
    severity=Severity.ERROR,
    structure=Structure.COMMITLOG,
    title="full file without BLANK",
    meaning="A file before the last one ends without BLANK. A broker closes every full file with a BLANK.",
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
    title="record names another physical offset",
    meaning=(
        "PHYSICALOFFSET differs from the record's own offset: a renamed or copied file, or stale bytes. With "
        "writeWithoutMmap (5.5.0+) these may be copies of older records that a start took into the log; a "
        "broker dispatches none of them."
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
    meaning="The file names are not contiguous: bytes between two files are missing.",
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
        "The log does not begin at 0: its first files expired, or somebody removed them. Two things show "
        "which: the age of the first record, compared with fileReservedTime, and queue or index files that a "
        "broker would have deleted with the log."
    ),
    broker_effect="Serves none of these messages; consumers that lag continue at the first remaining one.",
    remedy=(
        "None if they expired. Else first put the files back, from where they were moved or from a replica. "
        "Keep the queues and the index: only they still prove those messages."
    ),
    origin="CleanCommitLogService#deleteExpiredFiles",
)
CL_LOST = FindingCode(
    code="CL-LOST",
    severity=Severity.ERROR,
    structure=Structure.COMMITLOG,
    title="log that ends before what its queues list",
    meaning=(
        "Units of the consume queues point beyond the log's last record: files at its end are missing or cut"
        " short. If abort exists, a power failure took bytes that were not flushed."
    ),
    broker_effect="Cuts the queues back to the log, and assigns their queue offsets to new messages.",
    remedy=(
        "Keep the queues: they are the proof, and a rebuild leaves it out. Restore the missing files from a"
        " replica or a backup. To list the lost messages: rmqtool rebuild STORE --dry-run --lost FILE."
    ),
    origin="CommitLog#recoverNormally, ConsumeQueue#truncateDirtyLogicFiles",
)
CL_STRAY = FindingCode(
    code="CL-STRAY",
    severity=Severity.ERROR,
    structure=Structure.COMMITLOG,
    title="entry that is no log file",
    meaning=(
        "An entry of the commit log directory is not a log file of the configured size: wrong size, empty, "
        "a name other than 20 digits, a directory, a FIFO, a device or a dangling link."
    ),
    broker_effect=(
        "4.0-4.4.0 and 4.9.2 ignore it and all later files; 4.5.0+ refuses to start (5.1.0+ skips "
        "directories, 5.1.3+ deletes an empty last file)."
    ),
    remedy=(
        "A log file of the wrong size: restore it from a replica or a backup; moving it out loses its "
        "records. If it is the last file and too short, extend it with zeros. Anything else: move it out of "
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
        "A file ends in zeros, and later files hold records: data of the transient store pool was not "
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
        "Before 5.3.2 tries to allocate that much memory and may run out of it; later versions treat the "
        "record as damaged."
    ),
    remedy="Compare with a replica; --on-corrupt resync reads the records after it.",
    origin="CommitLog#checkMessageAndReturnSize",
)
