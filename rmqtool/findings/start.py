"""Codes about a broker's next start, which ``--predict-recovery`` adds to the findings."""

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
