"""Codes of the store as a place: checkpoint, lock, other layouts, unreadable ranges, consumer offsets."""

from __future__ import annotations

from rmqtool.findings.model import FindingCode, Severity, Structure

CP_AHEAD = FindingCode(
    code="CP-AHEAD",
    severity=Severity.WARNING,
    structure=Structure.CHECKPOINT,
    title="checkpoint ahead of the log",
    meaning=(
        "Times in the checkpoint are later than the last record: a checkpoint copied from elsewhere, or a "
        "log cut back."
    ),
    broker_effect="An abnormal recovery starts too late and leaves queues and index incomplete.",
    remedy=(
        "Move the checkpoint aside before the next start, and keep it: it shows how far the log went. "
        "Recovery then begins at the first file, from 5.4.0 on at the 10th newest (commitLogRecoverMaxNum)."
    ),
    origin="CommitLog#recoverAbnormally, StoreCheckpoint#getMinTimestamp",
)
CP_ZERO = FindingCode(
    code="CP-ZERO",
    severity=Severity.INFO,
    structure=Structure.CHECKPOINT,
    title="checkpoint without times",
    meaning="physicMsgTimestamp is 0: the broker stopped, or died, before its first flush noted a time.",
    broker_effect=(
        "Scans the whole log after an unclean stop, from 5.4.0 on its newest 10 files "
        "(commitLogRecoverMaxNum)."
    ),
    remedy="None needed.",
    origin="StoreCheckpoint#getMinTimestamp",
)
CP_SIZE = FindingCode(
    code="CP-SIZE",
    severity=Severity.WARNING,
    structure=Structure.CHECKPOINT,
    title="checkpoint of the wrong size",
    meaning="The checkpoint is shorter or longer than 4096 bytes: cut, or another file.",
    broker_effect="Maps it at 4096 bytes, which extends it with zeros.",
    remedy="Move it away; a broker writes a new one.",
    origin="StoreCheckpoint#<init>",
)
CP_MISSING = FindingCode(
    code="CP-MISSING",
    severity=Severity.WARNING,
    structure=Structure.CHECKPOINT,
    title="no checkpoint",
    meaning="There is no checkpoint file beside the commit log.",
    broker_effect=(
        "Reads it as zeros: after an unclean stop all index files are deleted and the whole log is scanned, "
        "from 5.4.0 on its newest 10 files (commitLogRecoverMaxNum)."
    ),
    remedy="None needed for a clean start.",
    origin="StoreCheckpoint#<init>, IndexService#load",
)
CP_STRAY = FindingCode(
    code="CP-STRAY",
    severity=Severity.WARNING,
    structure=Structure.CHECKPOINT,
    title="checkpoint is not a file",
    meaning="The checkpoint is a directory, a FIFO, a device or a dangling link.",
    broker_effect="Does not start.",
    remedy="Move it away; a broker writes a new one.",
    origin="StoreCheckpoint#<init>",
)
IO_UNREADABLE = FindingCode(
    code="IO-UNREADABLE",
    severity=Severity.ERROR,
    structure=Structure.STORE,
    title="unreadable range",
    meaning="The disk could not read a range of a file (EIO); the run takes it as zeros and continues.",
    broker_effect="Crashes on the mapped read, or takes the range for the end of the log.",
    remedy="Copy the file with a tool that retries (ddrescue), work on the copy, replace the disk.",
    origin="DefaultMappedFile#selectMappedBuffer",
)
IO_DENIED = FindingCode(
    code="IO-DENIED",
    severity=Severity.ERROR,
    structure=Structure.UNREAD,
    title="no permission to read a file",
    meaning="This user has no permission to read a file or directory; it was left out.",
    broker_effect="Does not start, or treats the directory as empty.",
    remedy="Run rmqtool as the owner of the file, or on a copy.",
    origin="MappedFileQueue#load",
)
IO_CHANGED = FindingCode(
    code="IO-CHANGED",
    severity=Severity.WARNING,
    structure=Structure.STORE,
    title="file changed while being read",
    meaning=(
        "A file became shorter or longer during the run: a broker is running, or a copy is not finished."
    ),
    broker_effect="Writes the file.",
    remedy="Stop the broker, or work on a snapshot.",
    origin="DefaultMappedFile#truncate",
)
ST_ROCKSDB = FindingCode(
    code="ST-ROCKSDB",
    severity=Severity.WARNING,
    structure=Structure.STORE,
    title="RocksDB instead of files",
    meaning=(
        "The directory is a RocksDB database (CURRENT, MANIFEST-*, *.sst): storeType=defaultRocksDB keeps "
        "consume queues there, some versions the index too, and combineCQUseRocksdbForLmq the light queues. "
        "It was not examined. If consumers read their queues from it, there is no verdict on the store."
    ),
    broker_effect="Reads it with its own library.",
    remedy=(
        "Pass the broker's settings (-c broker.conf): they say where it reads queues. Leave the database and "
        "consumequeue/ in place, and install no rebuilt queues: the broker would write a new database from "
        "the newest files of the log alone."
    ),
    origin="RocksDBConsumeQueueStore (5.2.0+), CombineConsumeQueueStore (5.3.4+)",
)
ST_ROCKSDB_BESIDE = FindingCode(
    code="ST-ROCKSDB-BESIDE",
    severity=Severity.INFO,
    structure=Structure.STORE,
    title="RocksDB beside the files",
    meaning=(
        "A RocksDB database with rows lies beside the files, which are complete without it: rocksdbstore/ "
        "(indexRocksDBEnable, timerRocksDBEnable, transRocksDBEnable; every 5.4.0+ broker creates it, and "
        "mostly leaves it empty), or a copy of the consume queues (rocksdbCQDoubleWriteEnable). It was not "
        "examined."
    ),
    broker_effect="Uses it as its settings say.",
    remedy="None needed.",
    origin="MessageRocksDBStorage (5.4.0+), CombineConsumeQueueStore (5.3.4+)",
)
ST_DLEDGER = FindingCode(
    code="ST-DLEDGER",
    severity=Severity.WARNING,
    structure=Structure.UNREAD_LOG,
    title="DLedger store",
    meaning=(
        "There is a dledger-* directory, or enableDLegerCommitLog is set: the commit log is a DLedger log "
        "with its own framing. It was not examined: there is no verdict, and nothing is compared with "
        "commitlog/, which has older messages at most."
    ),
    broker_effect="Reads messages from the DLedger log, and old ones from commitlog/.",
    remedy=(
        "Compare with the group's other members. Leave queues and index in place, and generate nothing from "
        "commitlog/ alone."
    ),
    origin="DLedgerCommitLog",
)
ST_TIERED = FindingCode(
    code="ST-TIERED",
    severity=Severity.INFO,
    structure=Structure.STORE,
    title="tiered storage",
    meaning="The store has parts of tiered storage; they were not examined.",
    broker_effect="Reads old messages from the second tier.",
    remedy="None needed.",
    origin="TieredMessageStore (5.1.0+)",
)
ST_COMPACTION = FindingCode(
    code="ST-COMPACTION",
    severity=Severity.INFO,
    structure=Structure.STORE,
    title="compaction topics",
    meaning="There is a compaction/ directory; logs of compacted topics were not examined.",
    broker_effect="Reads compacted topics from this directory.",
    remedy="None needed.",
    origin="CompactionStore (5.1.0+)",
)
ST_COMPACTION_PAIRS = FindingCode(
    code="ST-COMPACTION-PAIRS",
    severity=Severity.ERROR,
    structure=Structure.STORE,
    title="compaction files do not pair",
    meaning=(
        "A file of compaction/compactionLog has no partner of its name in compactionCq, or the reverse, or a "
        "name is not a number (.delete): the broker stopped between the renames of a compaction."
    ),
    broker_effect=(
        "Does not start (enableCompaction, on by default, 5.1.0+), or deletes files of the log after the "
        "queue's last unit, or, where a size does not fit or the queue's directory is not there, serves "
        "nothing of the queue: verify --predict-recovery says which."
    ),
    remedy=(
        "In a copy, move the file without partner, or named .delete, out of the directory, and start the "
        "broker on the copy."
    ),
    origin="CompactionLog.TopicPartitionLog#sanityCheck, CompactionStore#load",
)
ST_TIMER_GAP = FindingCode(
    code="ST-TIMER-GAP",
    severity=Severity.ERROR,
    structure=Structure.STORE,
    title="timer log file missing",
    meaning=(
        "Names or sizes of timerlog/ leave a gap, or it ends before the position in config/timercheck: units "
        "of timed messages are missing. The commit log may still have the messages."
    ),
    broker_effect="Starts without an error, and never delivers messages whose chain crosses the gap.",
    remedy=(
        "Restore timerlog/, timerwheel and config/timercheck from a backup or a replica, all three of one "
        "moment: a start does not regenerate them from the commit log."
    ),
    origin="TimerLog#load, TimerMessageStore#recover (5.0.0+)",
)
ST_UNCONFIRMED = FindingCode(
    code="ST-UNCONFIRMED",
    severity=Severity.INFO,
    structure=Structure.STORE,
    title="records that replicas have not confirmed",
    meaning=(
        "The broker runs in controller mode (epochFileCheckpoint, enableControllerMode), and records lie "
        "after the confirm offset of the checkpoint: not confirmed yet, or confirmed since it was written."
    ),
    broker_effect="Delivers no record that is not confirmed, and may cut it when it becomes a slave.",
    remedy="None needed. The replicas show which of them they have; a rebuild ends at the confirm offset.",
    origin="CommitLog#getConfirmOffset, AutoSwitchHAService#truncateInvalidMsg (5.0.0+)",
)
ST_ONE_PATH = FindingCode(
    code="ST-ONE-PATH",
    severity=Severity.ERROR,
    structure=Structure.UNREAD_LOG,
    title="one of several log directories",
    meaning=(
        "The names of the commit log's files skip the same number of files each time: a broker with n "
        "directories in storePathCommitLog puts each n-th file into one of them. Without the others the log "
        "is incomplete, and there is no verdict on the store."
    ),
    broker_effect="With this directory alone does not start, or loses the records in the others.",
    remedy="Pass all directories: -c broker.conf, or -p storePathCommitLog=A,B.",
    origin="MultiPathMappedFileQueue#tryCreateMappedFile, MultiPathMappedFileQueue#load (4.9.2+)",
)
ST_TIMER = FindingCode(
    code="ST-TIMER",
    severity=Severity.INFO,
    structure=Structure.STORE,
    title="timer wheel",
    meaning="There are timer files (timerwheel, timerlog/); they were not examined.",
    broker_effect="Rebuilds what it needs from rmq_sys_wheel_timer.",
    remedy="None needed.",
    origin="TimerMessageStore (5.0.0+)",
)
ST_POP = FindingCode(
    code="ST-POP",
    severity=Severity.INFO,
    structure=Structure.STORE,
    title="pop records in RocksDB",
    meaning=(
        "kvStore is a RocksDB database of the messages that pop consumers hold and have not acknowledged "
        "(popConsumerKVServiceInit); it was not examined. It holds nothing of the log, queues or index."
    ),
    broker_effect="Sends these messages to the retry topics when their invisible time is over.",
    remedy="None needed.",
    origin="PopConsumerService, PopConsumerRocksdbStore (5.3.2+)",
)
ST_ABORT = FindingCode(
    code="ST-ABORT",
    severity=Severity.WARNING,
    structure=Structure.STORE,
    title="abort file present",
    meaning="The store was not stopped cleanly, or its broker is running.",
    broker_effect="Runs abnormal recovery at the next start, and deletes the newest index files.",
    remedy="Copy the store before the next start if there are other findings.",
    origin="DefaultMessageStore#isTempFileExist",
)
ST_WINDOW = FindingCode(
    code="ST-WINDOW",
    severity=Severity.WARNING,
    structure=Structure.STORE,
    title="a start writes units of the newest files only",
    meaning=(
        "The queues are damaged or missing, and the log has more files than a start of 5.4.0 and later reads "
        "(commitLogRecoverMaxNum, 10). Up to 5.3.4 a clean start rebuilt a deleted consumequeue/; now that "
        "loses the units of all older files. It is an error if the queues are already missing."
    ),
    broker_effect=(
        "Writes units and index entries from the 10th newest file on, and pre-blank units before them: "
        "consumers and queries never see the older messages."
    ),
    remedy=(
        "Before the next start, rebuild the consume queues and the index (rmqtool rebuild), or set "
        "commitLogRecoverMaxNum to the number of log files."
    ),
    origin="CommitLog#recoverNormally, CommitLog#recoverAbnormally (5.4.0+)",
)
ST_LOCKED = FindingCode(
    code="ST-LOCKED",
    severity=Severity.WARNING,
    structure=Structure.STORE,
    title="a broker holds the store",
    meaning="Another process holds the record lock on the file lock: the files change while they are read.",
    broker_effect="Is running.",
    remedy="Stop the broker, or work on a snapshot.",
    origin="DefaultMessageStore#start",
)
ST_NO_COMMITLOG = FindingCode(
    code="ST-NO-COMMITLOG",
    severity=Severity.ERROR,
    structure=Structure.COMMITLOG,
    title="no commit log",
    meaning="The store has derived files, but no commit log at the path of the settings.",
    broker_effect="Starts empty and deletes the consume queues (4.5.0+).",
    remedy="Pass storePathCommitLog (4.x keeps it in <user home>/store/commitlog whatever the root is).",
    origin="MessageStoreConfig#getStorePathCommitLog",
)
ST_PATH = FindingCode(
    code="ST-PATH",
    severity=Severity.ERROR,
    structure=Structure.STORE,
    title="path is not a regular file or directory",
    meaning="A path of the store is not a directory or file: a FIFO, a device, or a dangling link.",
    broker_effect="Does not start, or waits for ever.",
    remedy="Replace it by a regular file or directory.",
    origin="DefaultMessageStore#load",
)
ST_SETTINGS = FindingCode(
    code="ST-SETTINGS",
    severity=Severity.ERROR,
    structure=Structure.STORE,
    title="settings contradict the files",
    meaning="A given setting does not fit the present files.",
    broker_effect="Refuses to start (4.5.0+), or ignores the files.",
    remedy="Pass the settings of the broker that wrote the store.",
    origin="MappedFileQueue#doLoad",
)
ST_DOUBT = FindingCode(
    code="ST-DOUBT",
    severity=Severity.WARNING,
    structure=Structure.STORE,
    title="an inferred setting is in doubt",
    meaning=(
        "An inferred size contradicts some files: they are damaged, or belong to another store. All findings "
        "on that structure depend on the size."
    ),
    broker_effect="None: a broker knows its settings, and takes other files for damaged.",
    remedy="Pass the settings of the broker that wrote the store: -c broker.conf, or -p NAME=VALUE.",
    origin="MessageStoreConfig",
)
ST_CONFIG = FindingCode(
    code="ST-CONFIG",
    severity=Severity.WARNING,
    structure=Structure.STORE,
    title="config file not readable",
    meaning="dump cannot decode a JSON file in config/; verify reports the consequences as CF-….",
    broker_effect="Takes the .bak file, forgets all of it, or does not start: see CF-BACKUP, CF-FORGETS.",
    remedy="Run rmqtool repair STORE --plan to see what is left of the file.",
    origin="ConfigManager#load",
)
OF_AHEAD = FindingCode(
    code="OF-AHEAD",
    severity=Severity.WARNING,
    structure=Structure.STORE,
    title="consumer offset beyond the queue",
    meaning="A group's consumer offset lies above the queue's maximum offset.",
    broker_effect=(
        "Answers OFFSET_OVERFLOW_BADLY; the client corrects its offset by its own rule and may skip messages."
        " A delay level has no client: the broker continues at the queue's end, or (before 4.9.2) delivers"
        " nothing more of the level."
    ),
    remedy="Reset the group's offset by time.",
    origin="DefaultMessageStore#getMessage, ConsumerOffsetManager",
)
OF_BEHIND = FindingCode(
    code="OF-BEHIND",
    severity=Severity.WARNING,
    structure=Structure.STORE,
    title="consumer offset below the queue",
    meaning=(
        "A group's consumer offset lies below the queue's minimum offset: the messages between have expired "
        "unread."
    ),
    broker_effect="Answers OFFSET_TOO_SMALL; the client continues at the minimum.",
    remedy="None for the expired messages; watch the group's lag.",
    origin="DefaultMessageStore#getMessage, ConsumerOffsetManager",
)
MF_MISMATCH = FindingCode(
    code="MF-MISMATCH",
    severity=Severity.ERROR,
    structure=Structure.STORE,
    title="file differs from the manifest",
    meaning="A file's SHA-256 differs from the manifest.",
    broker_effect="None.",
    remedy="Find out who changed the evidence.",
    origin="(none: rmqtool verify --manifest)",
)
MF_MISSING = FindingCode(
    code="MF-MISSING",
    severity=Severity.ERROR,
    structure=Structure.STORE,
    title="file of the manifest is missing",
    meaning="A file in the manifest does not exist.",
    broker_effect="None.",
    remedy="Find out who changed the evidence.",
    origin="(none: rmqtool verify --manifest)",
)
MF_EXTRA = FindingCode(
    code="MF-EXTRA",
    severity=Severity.WARNING,
    structure=Structure.STORE,
    title="file not in the manifest",
    meaning="A file of the store is not listed in the manifest.",
    broker_effect="None.",
    remedy="Find out who changed the evidence.",
    origin="(none: rmqtool verify --manifest)",
)
RM_INTERNAL = FindingCode(
    code="RM-INTERNAL",
    severity=Severity.ERROR,
    structure=Structure.STORE,
    title="a check failed with an internal error",
    meaning="A check stopped with an error that is a defect of rmqtool; the other checks continued.",
    broker_effect="None.",
    remedy="Run again with --debug and report it with the file's name and the traceback.",
    origin="(none: rmqtool)",
)
