"""Codes of a broker's next start (``--predict-recovery``), and of its settings in ``config/``."""

from __future__ import annotations

from rmqtool.findings.model import FindingCode, Severity, Structure

NS_REFUSED = FindingCode(
    code="NS-REFUSED",
    severity=Severity.ERROR,
    structure=Structure.START,
    title="the broker will not start",
    meaning="The broker refuses to load the store, or never finishes its start.",
    broker_effect="Ends with an error, or repeats one record for ever.",
    remedy="Copy the store, remove the named files from the copy, and run verify --predict-recovery again.",
    origin="DefaultMessageStore#load, DefaultMessageStore#start",
)
NS_LOSES = FindingCode(
    code="NS-LOSES",
    severity=Severity.ERROR,
    structure=Structure.START,
    title="the next start loses messages",
    meaning="Intact records lie after the offset where recovery ends the log.",
    broker_effect="Deletes the files after that offset, and writes new messages over the rest.",
    remedy="Copy the store first, and compare it with a replica. Do not start a broker on it.",
    origin="CommitLog#recoverNormally, CommitLog#recoverAbnormally, MappedFileQueue#truncateDirtyFiles",
)
NS_FORGETS = FindingCode(
    code="NS-FORGETS",
    severity=Severity.ERROR,
    structure=Structure.START,
    title="the next start forgets settings",
    meaning="The broker cannot read a file in config/; it forgets the entries and overwrites the file.",
    broker_effect=(
        "Starts without topics and deletes their queues, or starts without offsets: groups restart at the"
        " start or the end of their queues, delayed messages are delivered again."
    ),
    remedy="Run rmqtool repair STORE --plan to see what is left of the file. Do not start a broker on it.",
    origin="ConfigManager#load, ConfigManager#loadBak",
)
NS_REBUILDS = FindingCode(
    code="NS-REBUILDS",
    severity=Severity.ERROR,
    structure=Structure.CATCH_UP,
    title="the next start changes queues or index",
    meaning=(
        "The start deletes files of the consume queues or of the index, or adds entries that they lack, as "
        "after every unclean stop. The commit log keeps all its records."
    ),
    broker_effect="Is slow to start, and a key that was found before may not be found.",
    remedy="None needed for the messages; keep a copy if the present queues or index matter.",
    origin="DefaultMessageStore#recover, IndexService#load",
)
NS_SKIPPED = FindingCode(
    code="NS-SKIPPED",
    severity=Severity.WARNING,
    structure=Structure.STORE,
    title="prediction skipped",
    meaning="rmqtool cannot predict the next start on this store: it cannot read parts of it, or a setting"
    " changes how a broker recovers.",
    broker_effect="Unknown.",
    remedy="Start a broker on a copy only.",
    origin="(none: rmqtool verify --predict-recovery)",
)


_REMEDY = (
    "Run rmqtool repair STORE --plan: it shows what is left of the file, and what each choice means for every"
    " group and topic. Start no broker before the file is repaired."
)

CF_REFUSED = FindingCode(
    code="CF-REFUSED",
    severity=Severity.ERROR,
    structure=Structure.STORE,
    title="settings that no broker starts with",
    meaning=(
        "Neither a JSON file in config/ nor its .bak can be decoded: both are cut, zero-filled or broken,"
        " as by a power failure while the broker wrote them."
    ),
    broker_effect="Does not start; 5.4.0 and later delete the file first.",
    remedy=_REMEDY,
    origin="ConfigManager#load, ConfigManager#loadBak, BrokerController#initialize",
)
CF_FORGETS = FindingCode(
    code="CF-FORGETS",
    severity=Severity.ERROR,
    structure=Structure.STORE,
    title="the broker starts and forgets its settings",
    meaning=(
        "A broker cannot read a JSON file in config/, and the file has no .bak, or the broker ignores the"
        " .bak: it takes a file of white space (up to 5.3.4), or null, for a file without entries."
    ),
    broker_effect=(
        "Starts without any entry, and overwrites the rest of the file within seconds: groups restart at the"
        " start or the end of their queues, delayed messages are delivered again, consume queues of topics"
        " without an entry are deleted."
    ),
    remedy=_REMEDY,
    origin="ConfigManager#load, ConfigManager#loadBak, ConfigManager#persist",
)
CF_BACKUP = FindingCode(
    code="CF-BACKUP",
    severity=Severity.WARNING,
    structure=Structure.STORE,
    title="the broker takes the .bak of a damaged file",
    meaning=(
        "A JSON file in config/ is missing or cannot be decoded, but its .bak, the version before, can. Later"
        " changes are lost, unless the file's own whole entries are put back."
    ),
    broker_effect=(
        "Goes on with the .bak: some messages are delivered again. Brokers up to 5.3.4 then copy the damaged"
        " file over the .bak; 5.4.0 and later delete it."
    ),
    remedy="Before the next start, run rmqtool repair STORE: it keeps the newer of both, entry by entry.",
    origin="ConfigManager#load, MixAll#string2File",
)
CF_TIMER = FindingCode(
    code="CF-TIMER",
    severity=Severity.WARNING,
    structure=Structure.STORE,
    title="the timer's checkpoint is lost",
    meaning="config/timercheck is cut, empty or zero-filled; there is no copy of it.",
    broker_effect="Reads the timer's queue from its start: messages that were due are delivered again.",
    remedy="Restore it from a backup or a replica if no message may be delivered twice.",
    origin="TimerCheckpoint#<init>, TimerMessageStore#recover (5.0.0+)",
)
