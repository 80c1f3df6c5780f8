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
        "Move the checkpoint away before the next start: recovery then begins at the first file, from 5.4.0 "
        "on at the 10th newest (commitLogRecoverMaxNum)."
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
    meaning="The checkpoint has not 4096 bytes: cut, or another file.",
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
    title="checkpoint is no file",
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
    meaning="The disk could not deliver a range of a file (EIO); it is read as zeros and the work goes on.",
    broker_effect="Dies of the mapped read, or takes it for the end of the log.",
    remedy="Copy the file with a tool that retries (ddrescue), work on the copy, replace the disk.",
    origin="DefaultMappedFile#selectMappedBuffer",
)
IO_DENIED = FindingCode(
    code="IO-DENIED",
    severity=Severity.ERROR,
    structure=Structure.UNREAD,
    title="file may not be read",
    meaning="The permissions of a file or directory do not allow this user to read it; it was left out.",
    broker_effect="Does not start, or treats the directory as empty.",
    remedy="Run rmqtool as the user it belongs to, or on a copy.",
    origin="MappedFileQueue#load",
)
IO_CHANGED = FindingCode(
    code="IO-CHANGED",
    severity=Severity.WARNING,
    structure=Structure.STORE,
    title="file changed while being read",
    meaning=(
        "A file became shorter or longer during the run: a broker is at work, or a copy is still going on."
    ),
    broker_effect="Is the one that writes.",
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
        "It was not examined; where consumers read their queues from it, the store is not judged."
    ),
    broker_effect="Reads it with its own library.",
    remedy=(
        "Leave the database and consumequeue/ where they are, and put no rebuilt queues in their place: the "
        "broker would make a new database, of the newest files of the log alone. Give its settings "
        "(-c broker.conf), which tell where it reads queues."
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
        "(indexRocksDBEnable, timerRocksDBEnable, transRocksDBEnable; every 5.4.0+ broker makes it, and "
        "mostly leaves it empty), or a copy of the consume queues (rocksdbCQDoubleWriteEnable). It was not "
        "examined."
    ),
    broker_effect="Uses it for what its settings say.",
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
        "with its own framing. It was not examined: the store is not judged, and nothing is compared with "
        "commitlog/, which has older messages at most."
    ),
    broker_effect="Reads messages from there, and old ones from commitlog/.",
    remedy=(
        "Let the group's other members show what it has; make nothing anew from commitlog/ alone, and leave "
        "queues and index where they are."
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
    broker_effect="Reads compacted topics from there.",
    remedy="None needed.",
    origin="CompactionStore (5.1.0+)",
)
ST_COMPACTION_PAIRS = FindingCode(
    code="ST-COMPACTION-PAIRS",
    severity=Severity.ERROR,
    structure=Structure.STORE,
    title="compaction files do not pair",
    meaning=(
        "A file of compaction/compactionLog has none of its name in compactionCq, or the other way round, or "
        "a name is no number (.delete): the broker was stopped between the renames of a compaction."
    ),
    broker_effect="Does not start (enableCompaction, on by default, 5.1.0+).",
    remedy=(
        "In a copy, move the file that has no partner, or is named .delete, out of the directory, and start "
        "the broker on the copy."
    ),
    origin="CompactionLog.TopicPartitionLog#sanityCheck, CompactionStore#load",
)
ST_TIMER_GAP = FindingCode(
    code="ST-TIMER-GAP",
    severity=Severity.ERROR,
    structure=Structure.STORE,
    title="timer log file missing",
    meaning=(
        "Names or sizes of timerlog/ leave a gap, or it ends before the position that config/timercheck has: "
        "units of timed messages are gone. The commit log may still have the messages."
    ),
    broker_effect="Starts without complaint, and never delivers messages whose chain leads through the gap.",
    remedy=(
        "Bring timerlog/, timerwheel and config/timercheck from a backup or a replica, all three of one "
        "moment: a start does not make them anew from the commit log."
    ),
    origin="TimerLog#load, TimerMessageStore#recover (5.0.0+)",
)
ST_UNCONFIRMED = FindingCode(
    code="ST-UNCONFIRMED",
    severity=Severity.INFO,
    structure=Structure.STORE,
    title="records that replicas have not confirmed",
    meaning=(
        "The store is of a broker in controller mode (epochFileCheckpoint, enableControllerMode); records "
        "lie behind the confirm offset of the checkpoint: not yet confirmed, or since it was written."
    ),
    broker_effect="Gives no consumer a record that is not confirmed, and may cut it when it becomes a slave.",
    remedy="None needed. Ask the replicas which of them they have; a rebuild ends at the confirm offset.",
    origin="CommitLog#getConfirmOffset, AutoSwitchHAService#truncateInvalidMsg (5.0.0+)",
)
ST_ONE_PATH = FindingCode(
    code="ST-ONE-PATH",
    severity=Severity.ERROR,
    structure=Structure.UNREAD_LOG,
    title="one of several log directories",
    meaning=(
        "The files of the commit log follow each other in one stride of several files: a broker with n "
        "directories in storePathCommitLog puts each n-th file into one of them. Without the others the log "
        "is not whole, and the store is not judged."
    ),
    broker_effect="With this directory alone it does not start, or loses what lies in the others.",
    remedy="Give all directories: -c broker.conf, or -p storePathCommitLog=A,B.",
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
        "(popConsumerKVServiceInit); it was not examined. It keeps nothing of the log, queues or index."
    ),
    broker_effect="Gives these messages to the retry topics when their invisible time is over.",
    remedy="None needed.",
    origin="PopConsumerService, PopConsumerRocksdbStore (5.3.2+)",
)
ST_ABORT = FindingCode(
    code="ST-ABORT",
    severity=Severity.WARNING,
    structure=Structure.STORE,
    title="abort file present",
    meaning="The store was not stopped cleanly, or its broker is running.",
    broker_effect="Takes the long way at the next start: abnormal recovery, newest index files deleted.",
    remedy="Copy the store before the next start if anything else is wrong with it.",
    origin="DefaultMessageStore#isTempFileExist",
)
ST_WINDOW = FindingCode(
    code="ST-WINDOW",
    severity=Severity.WARNING,
    structure=Structure.STORE,
    title="a start makes units of the newest files only",
    meaning=(
        "The queues are damaged or gone, and the log has more files than a start of 5.4.0 and later looks at "
        "(commitLogRecoverMaxNum, 10). Up to 5.3.4 deleting consumequeue/ made a clean start build it anew; "
        "now that loses the units of all older files. An error if the queues are gone already."
    ),
    broker_effect=(
        "Makes units and index entries from the 10th newest file on, and pre-blank units before them: "
        "consumers and queries never see the older messages."
    ),
    remedy=(
        "Before the next start, rebuild the consume queues and the index (rmqtool rebuild), or set "
        "commitLogRecoverMaxNum to the number of the log's files."
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
    meaning="The store has derived files but no commit log where the settings look for it.",
    broker_effect="Starts empty and deletes the consume queues (4.5.0+).",
    remedy="Give storePathCommitLog (4.x keeps it in <user home>/store/commitlog whatever the root is).",
    origin="MessageStoreConfig#getStorePathCommitLog",
)
ST_PATH = FindingCode(
    code="ST-PATH",
    severity=Severity.ERROR,
    structure=Structure.STORE,
    title="place is no regular file or directory",
    meaning=(
        "A directory or file of the store is something else: a FIFO, a device, or a link that leads nowhere."
    ),
    broker_effect="Does not start, or waits for ever.",
    remedy="Replace it by a regular file or directory.",
    origin="DefaultMessageStore#load",
)
ST_SETTINGS = FindingCode(
    code="ST-SETTINGS",
    severity=Severity.ERROR,
    structure=Structure.STORE,
    title="settings contradict the files",
    meaning="A setting that was given does not fit the files that are there.",
    broker_effect="Refuses to start (4.5.0+), or ignores the files.",
    remedy="Give the settings of the broker that wrote the store.",
    origin="MappedFileQueue#doLoad",
)
ST_DOUBT = FindingCode(
    code="ST-DOUBT",
    severity=Severity.WARNING,
    structure=Structure.STORE,
    title="an inferred setting is in doubt",
    meaning=(
        "A size that was not given had to be inferred, and files speak against it: they are damaged, or of "
        "another store. What is said of that structure rests on it."
    ),
    broker_effect="None: a broker is told its settings, and takes other files for damaged.",
    remedy="Give the settings of the broker that wrote the store: -c broker.conf, or -p NAME=VALUE.",
    origin="MessageStoreConfig",
)
ST_CONFIG = FindingCode(
    code="ST-CONFIG",
    severity=Severity.WARNING,
    structure=Structure.STORE,
    title="config file not readable",
    meaning="A JSON file in config/ cannot be decoded, says dump; verify tells what follows: CF-….",
    broker_effect="Takes the .bak file, forgets all of it, or does not start: see CF-BACKUP, CF-FORGETS.",
    remedy="rmqtool repair STORE --plan shows what is left of it.",
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
    broker_effect="Answers OFFSET_TOO_SMALL; the client goes on at the minimum.",
    remedy="None for the expired messages; watch the group's lag.",
    origin="DefaultMessageStore#getMessage, ConsumerOffsetManager",
)
MF_MISMATCH = FindingCode(
    code="MF-MISMATCH",
    severity=Severity.ERROR,
    structure=Structure.STORE,
    title="file differs from the manifest",
    meaning="A file's SHA-256 differs from the manifest.",
    broker_effect="Is not concerned.",
    remedy="Find out who changed the evidence.",
    origin="(none: rmqtool verify --manifest)",
)
MF_MISSING = FindingCode(
    code="MF-MISSING",
    severity=Severity.ERROR,
    structure=Structure.STORE,
    title="file of the manifest is gone",
    meaning="A file that the manifest lists is not there.",
    broker_effect="Is not concerned.",
    remedy="Find out who changed the evidence.",
    origin="(none: rmqtool verify --manifest)",
)
MF_EXTRA = FindingCode(
    code="MF-EXTRA",
    severity=Severity.WARNING,
    structure=Structure.STORE,
    title="file not in the manifest",
    meaning="A file of the store is not listed in the manifest.",
    broker_effect="Is not concerned.",
    remedy="Find out who changed the evidence.",
    origin="(none: rmqtool verify --manifest)",
)
RM_INTERNAL = FindingCode(
    code="RM-INTERNAL",
    severity=Severity.ERROR,
    structure=Structure.STORE,
    title="a check failed by itself",
    meaning=(
        "rmqtool met something in this file that its authors did not foresee; the rest of the work went on."
    ),
    broker_effect="Is not concerned.",
    remedy="Run again with --debug and report it with the file's name and the traceback.",
    origin="(none: rmqtool)",
)
