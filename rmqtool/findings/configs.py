"""Codes of the broker's settings in ``config/`` after a power failure."""

from __future__ import annotations

from rmqtool.findings.model import FindingCode, Severity, Structure

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
