"""Codes of what the next start of a broker will do, which ``--predict-recovery`` adds to the findings."""

from __future__ import annotations

from rmqtool.findings.model import FindingCode, Severity, Structure

NS_REFUSED = FindingCode(
    code="NS-REFUSED",
    severity=Severity.ERROR,
    structure=Structure.START,
    title="the broker will not start",
    meaning="The broker refuses to load the store, or never gets through its start.",
    broker_effect="Ends with an error, or repeats one record for ever.",
    remedy="Copy the store, remove what it names from the copy, and ask again.",
    origin="DefaultMessageStore#load, DefaultMessageStore#start",
)
NS_LOSES = FindingCode(
    code="NS-LOSES",
    severity=Severity.ERROR,
    structure=Structure.START,
    title="the next start loses messages",
    meaning="True records lie after the place where recovery ends the log.",
    broker_effect="Deletes the files after that place, and writes new messages over the rest.",
    remedy="Do not start a broker on it: copy the store first, and compare it with a replica.",
    origin="CommitLog#recoverNormally, CommitLog#recoverAbnormally, MappedFileQueue#truncateDirtyFiles",
)
NS_FORGETS = FindingCode(
    code="NS-FORGETS",
    severity=Severity.ERROR,
    structure=Structure.START,
    title="the next start forgets settings",
    meaning="A file in config/ holds nothing that the broker can read: what it forgets so is overwritten.",
    broker_effect=(
        "Starts without topics and deletes their queues, or without offsets: groups begin anew at the start"
        " or the end of their queues, delayed messages are delivered again."
    ),
    remedy="Do not start a broker on it: rmqtool repair STORE --plan shows what is left of the file.",
    origin="ConfigManager#load, ConfigManager#loadBak",
)
NS_REBUILDS = FindingCode(
    code="NS-REBUILDS",
    severity=Severity.ERROR,
    structure=Structure.CATCH_UP,
    title="the next start changes queues or index",
    meaning=(
        "Files of the consume queues or of the index are deleted, or get what the log has and they lack, as "
        "always after an unclean stop. The commit log keeps all its records."
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
    meaning="What the next start will do is not known for this store: parts of it cannot be read here, or"
    " a setting changes how a broker recovers.",
    broker_effect="Is not known.",
    remedy="Start a broker on a copy only.",
    origin="(none: rmqtool verify --predict-recovery)",
)
