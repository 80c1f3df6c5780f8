"""The topics that a key may belong to."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rmqtool.store import PathKind
from rmqtool.store.broker_json import ConfigFileError, load_broker_json

if TYPE_CHECKING:
    from rmqtool.progress import Progress
    from rmqtool.store import Store


def topics_of(store: Store, progress: Progress) -> list[str]:
    """Return the topics that the store has queues of, or that its ``config/topics.json`` names."""
    kinds = (PathKind.CONSUMEQUEUE, PathKind.BATCHCONSUMEQUEUE)
    names = {topic for kind in kinds for topic in store.topics(kind)}
    return sorted(names | _configured(store, progress))


def _configured(store: Store, progress: Progress) -> set[str]:
    if store.config is None:
        return set()
    try:
        document = load_broker_json(store.config / "topics.json")
    except ConfigFileError as failure:
        progress.warn(f"{failure}; topics are known by their queues only")
        return set()
    table = document.get("topicConfigTable") if isinstance(document, dict) else None
    return {str(topic) for topic in table} if isinstance(table, dict) else set()
