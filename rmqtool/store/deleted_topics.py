"""Topics that a broker has deleted: their queues no longer exist, their messages are still in the log.

Java: ``DefaultMessageStore#cleanUnusedTopic`` (4.9.8, 5.3.3) and ``AdminBrokerProcessor#deleteTopic`` delete
the queues of topics that ``topics.json`` does not name, but for the broker's own topics and light queues.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from rmqtool.store.broker_json import ConfigFileError, load_broker_json, topic_names
from rmqtool.topics import BROKERS_OWN, LMQ_PREFIX, SYSTEM_PREFIX

if TYPE_CHECKING:
    from rmqtool.io import Location

# In config/: RocksDB keeps the topics, a topics.json beside it is old.
_OTHER_KEEPERS = ("topics", "rdb", "metadata")


class ListedTopics:
    """Topics in a store's ``topics.json``."""

    def __init__(self, root: Location | None) -> None:
        self._known = frozenset[str]() if root is None else _known_topics(root / "config")

    def is_deleted(self, topic: str) -> bool:
        """Whether a topic with messages was deleted; False without a list of topics."""
        if not self._known or topic in BROKERS_OWN or topic.startswith((SYSTEM_PREFIX, LMQ_PREFIX)):
            return False
        return topic not in self._known


def _known_topics(config: Location) -> frozenset[str]:
    """Return the topics of ``topics.json``; none if it is missing, unreadable, or superseded by RocksDB."""
    path = config / "topics.json"
    if not path.is_regular() or any((config / name).is_directory() for name in _OTHER_KEEPERS):
        return frozenset()
    try:
        return topic_names(load_broker_json(path))
    except ConfigFileError:
        return frozenset()  # CF-FORGETS or CF-REFUSED of level 0 reports it
