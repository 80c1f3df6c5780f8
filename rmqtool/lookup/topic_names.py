"""Which topics a store has, and which of them may be meant by a name that is none."""

from __future__ import annotations

from difflib import get_close_matches
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING

from rmqtool.store import PathKind
from rmqtool.store.broker_json import ConfigFileError, load_broker_json

if TYPE_CHECKING:
    from collections.abc import Iterable

    from rmqtool.progress import Progress
    from rmqtool.store import Store

_NAMED = 10


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


def missing_topic(store: Store, glob: str, progress: Progress) -> str | None:
    """Say which topics a glob may mean that none fits; None if one does, or the store does not tell."""
    known = topics_of(store, progress)
    if not known or any(fnmatchcase(name, glob) for name in known):
        return None
    return unknown_topic(glob, known)


def unknown_topic(topic: str, known: list[str]) -> str:
    """Say that there is no such topic, and which may be meant."""
    by_folded = {name.casefold(): name for name in known}
    near = [by_folded[one] for one in get_close_matches(topic.casefold(), by_folded)]
    others = f"near it: {', '.join(near)}" if near else f"it has {some(known)}"
    return f"the store has no topic {topic}; {others}"


def some(names: Iterable[str]) -> str:
    """Return the first names, and how many more there are."""
    kept = list(names)
    more = f" and {len(kept) - _NAMED} more" if len(kept) > _NAMED else ""
    return ", ".join(kept[:_NAMED]) + more
