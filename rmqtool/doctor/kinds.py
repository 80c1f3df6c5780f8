"""The table of the broker's JSON files: what their entries are, and what a broker does without them."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ConfigKind:
    """One file in ``config/``.

    Attributes:
        name: of the file.
        tables: members of its root object that hold entries, one for each topic, group or level.
        loses: what a broker that starts without it has forgotten, as a sentence goes on.
        depth: how deep whole members lie: 2 for ``table.entry``, 3 where entries are maps of numbers.
        numbers: tables whose entries are maps of numbers, or numbers.
        stops: whether a broker does not start that finds no copy that can be decoded.
    """

    name: str
    tables: tuple[str, ...]
    loses: str
    depth: int = 2
    numbers: bool = False
    stops: bool = True


_OFFSETS = "how far its groups have come: they begin anew, at the start or at the end of their queues"

CONFIG_KINDS: dict[str, ConfigKind] = {
    one.name: one
    for one in (
        ConfigKind("consumerOffset.json", ("offsetTable",), _OFFSETS, depth=3, numbers=True),
        ConfigKind(
            "lmqConsumerOffset.json", ("offsetTable", "lmqOffsetTable"), _OFFSETS, depth=3, numbers=True
        ),
        ConfigKind(
            "delayOffset.json",
            ("offsetTable",),
            "which delayed messages are delivered: all that are still there come again",
            numbers=True,
        ),
        ConfigKind("topics.json", ("topicConfigTable",), "its topics, and deletes their consume queues"),
        ConfigKind(
            "subscriptionGroup.json",
            ("subscriptionGroupTable", "forbiddenTable"),
            "the settings of its groups",
        ),
        ConfigKind("consumerFilter.json", ("filterDataByTopic",), "the filters of its groups"),
        ConfigKind("topicQueueMapping.json", ("topicQueueMappingInfoMap",), "the queues of static topics"),
        ConfigKind("consumerOrderInfo.json", ("table",), "which ordered messages are being consumed"),
        ConfigKind(
            "messageRequestMode.json", ("messageRequestModeMap",), "which groups pop messages", stops=False
        ),
        ConfigKind("timermetrics", ("timingCount",), "how many timed messages wait, which it only shows"),
        ConfigKind(
            "transactionMetrics",
            ("transactionCount",),
            "how many half messages wait, which it only shows",
            stops=False,
        ),
    )
}
"""By name. A broker loads them by ``ConfigManager#load`` (4.9.8 to 5.5.1; some are only in 5.x)."""

ONLY_SHOWN = frozenset({"config/timermetrics", "config/transactionMetrics"})
"""Counts that a broker reports, and makes anew."""

OFFSET_DATABASES = ("consumerOffsets", "rdb", "metadata")
"""Those of them that hold offsets."""

OTHER_KEEPERS = ("topics", "subscriptionGroups", *OFFSET_DATABASES)
"""Directories in ``config/`` where RocksDB keeps the same; JSON files beside them are old."""
