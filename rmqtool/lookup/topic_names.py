"""Names of the topics of a store, and suggestions for an unknown one."""

from __future__ import annotations

from fnmatch import fnmatchcase
from itertools import islice
from typing import TYPE_CHECKING, NamedTuple

from rmqtool.findings import counted, near_names
from rmqtool.scan.record_walk import walk
from rmqtool.scan.records import Record
from rmqtool.store.broker_json import ConfigFileError, ConfigSource
from rmqtool.store.kinds import UNIT_QUEUE_KINDS
from rmqtool.topics import HALF_TOPIC, ROCKSDB_HALF_TOPIC, SCHEDULE_TOPIC, TIMER_TOPIC

if TYPE_CHECKING:
    from rmqtool.lookup.context import QueryContext
    from rmqtool.progress import Progress
    from rmqtool.store import Store

_LOG_FILES, _OF_LOG_FILE = 50, 200  # newest files of the log, and messages at the start of each
_WAITING = frozenset({HALF_TOPIC, ROCKSDB_HALF_TOPIC, SCHEDULE_TOPIC, TIMER_TOPIC})


class KnownTopics(NamedTuple):
    """The topics under which a message may lie, ascending; ``of_log`` are known by the log alone."""

    names: list[str]
    of_log: int

    def __str__(self) -> str:
        more = (
            f", {self.of_log} of them known by the log alone (the first {_OF_LOG_FILE} messages of its newest"
            f" {_LOG_FILES} files)"
        )
        return counted(len(self.names), "topic") + (more if self.of_log else "")


def known_topics(context: QueryContext) -> KnownTopics:
    """Return every topic that the queues, ``config/topics.json`` or the log's beginnings of files name.

    With those of the broker's own in which a message waits for its delivery.
    """
    known = _WAITING.union(topics_of(context.store, context.progress))
    met: set[str] = set()
    for segment in context.store.commitlog.segments[-_LOG_FILES:]:
        events = islice(walk([segment], segment.start, on_damage="stop"), _OF_LOG_FILE)
        met.update(event.topic for event in events if isinstance(event, Record))
    return KnownTopics(sorted(known | met), len(met - known))


def topics_of(store: Store, progress: Progress) -> list[str]:
    """Return the topics that have queues in the store, or that its ``config/topics.json`` names."""
    names = {topic for kind in UNIT_QUEUE_KINDS for topic in store.topics(kind)}
    return sorted(names | _configured(store, progress))


def _configured(store: Store, progress: Progress) -> set[str]:
    try:
        document = ConfigSource(store.root).document("topics.json")
    except ConfigFileError as failure:
        progress.warn(f"{failure}; topics are known by their queues only")
        return set()
    table = document.get("topicConfigTable") if isinstance(document, dict) else None
    return {str(topic) for topic in table} if isinstance(table, dict) else set()


def missing_topic(store: Store, glob: str, progress: Progress) -> str | None:
    """Return a sentence with topics near a glob that matches none; None if it does, or none is known."""
    known = topics_of(store, progress)
    if not known or any(fnmatchcase(name, glob) for name in known):
        return None
    return unknown_topic(glob, known)


def unknown_topic(topic: str, known: list[str]) -> str:
    """Return the sentence that there is no such topic, and which may be meant."""
    return f"the store has no topic {topic}; {near_names(topic, known)}"
