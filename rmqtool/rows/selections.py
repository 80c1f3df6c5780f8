"""Selections of messages that the messages alone do not show: a group's backlog, transactions in doubt."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import replace
from typing import TYPE_CHECKING

from rmqtool.derived.positions import checked_half_offsets, consumed_offsets
from rmqtool.errors import EnvironmentFailureError, UsageError
from rmqtool.findings import near_names
from rmqtool.store.broker_json import ConfigFileError, ConfigSource
from rmqtool.topics import LMQ_PREFIX

if TYPE_CHECKING:
    from rmqtool.progress import Progress
    from rmqtool.rows.messages import MessageFilter
    from rmqtool.store import Store

_GROUP, _OFFSETS = "group ", "consumerOffset.json"
_ELSEWHERE = "their messages lie under other topics, whose backlog this is not"


def resolved(store: Store, messages: MessageFilter, progress: Progress) -> MessageFilter:
    """Return a filter with what the store knows of the messages that it selects.

    Raises:
        UsageError: The selections exclude each other.
        EnvironmentFailureError: The store does not have the offsets of the group.
    """
    given = {
        "--backlog-of": messages.backlog_of is not None,
        "--in-doubt": messages.in_doubt,
        "--dead-letters": messages.dead_letters,
    }
    if sum(given.values()) > 1:
        chosen = " and ".join(name for name, is_given in given.items() if is_given)
        raise UsageError(f"{chosen}: give one of them, no message is both")
    if messages.contains == "":
        raise UsageError("--contains: give a text that is not empty")
    if messages.backlog_of is not None:
        return _with_backlog(store, messages, messages.backlog_of, progress)
    return _with_doubts(store, messages) if messages.in_doubt else messages


def _with_backlog(store: Store, messages: MessageFilter, group: str, progress: Progress) -> MessageFilter:
    unread = {
        topic: queues
        for topic, queues in _offsets_of(store, group).items()
        if messages.admits_queue(topic, messages.queue_id)
    }
    light = sorted(topic for topic in unread if topic.startswith(LMQ_PREFIX))
    if light:
        progress.warn(f"left out: light queues of group {group}, such as {light[0]}: {_ELSEWHERE}")
    unread = {topic: queues for topic, queues in unread.items() if not topic.startswith(LMQ_PREFIX)}
    if not unread and light:
        raise EnvironmentFailureError(
            f"{store.place.path}: group {group} reads light queues only: {_ELSEWHERE}"
        )
    places = None if unread else frozenset[int]()  # of no topic, nothing
    return replace(messages, topic=tuple(unread), unread=unread, places=places)


def _offsets_of(store: Store, group: str) -> dict[str, dict[int, int]]:
    """Return the next queue offsets of a group, by topic and queue."""
    by_group: dict[str, dict[str, dict[int, int]]] = defaultdict(lambda: defaultdict(dict))
    for offset in consumed_offsets(store):
        if offset.reader.startswith(_GROUP):
            by_group[offset.reader.removeprefix(_GROUP)][offset.topic][offset.queue_id] = offset.offset
    if group not in by_group:
        raise EnvironmentFailureError(f"{store.place.path}: {_why_unknown(store, group, list(by_group))}")
    return by_group[group]


def _why_unknown(store: Store, group: str, known: list[str]) -> str:
    """Return why the offsets of a group are not known, and what to do."""
    config = store.config
    if config is None:
        return f"no config/ here, which has the offsets of group {group}: name the root of a store"
    from rmqtool.doctor import OFFSET_DATABASES, database_in

    if name := database_in(config, OFFSET_DATABASES):
        return f"config/{name}/ holds the offsets of groups, a RocksDB database, which is not read"
    source = ConfigSource(store.root)
    try:
        if source.load(_OFFSETS) is None:
            return f"no config/{_OFFSETS}: what group {group} has consumed is not known"
        groups = source.document("subscriptionGroup.json")
    except ConfigFileError as failure:
        return f"{failure}: rmqtool repair STORE --plan shows what is left of it"
    table = groups.get("subscriptionGroupTable") if isinstance(groups, dict) else None
    if isinstance(table, dict) and group in table:
        return (
            f"group {group} has no offsets here: it has consumed nothing yet, or it broadcasts, and its"
            " clients keep them"
        )
    return f"config/{_OFFSETS} has no group {group}; {near_names(group, known) if known else 'it has none'}"


def _with_doubts(store: Store, messages: MessageFilter) -> MessageFilter:
    from rmqtool.check.transactions import halves_in_doubt  # loads the kernels
    from rmqtool.engine import LocalEngine
    from rmqtool.scan.classify import FoundEdge

    if not len(store.commitlog):
        return replace(messages, places=frozenset())
    with LocalEngine() as engine:
        places = halves_in_doubt(FoundEdge.of(store), checked_half_offsets(store), engine)
    return replace(messages, places=frozenset(places.tolist()))
