"""Committed offsets of a group, and whether the store knows the group.

Origin: ``ConsumerOffsetManager``, ``LmqConsumerOffsetManager``, ``SubscriptionGroupManager``,
``MessageRequestModeManager`` (4.9.8, 5.3.3).
"""

from __future__ import annotations

from difflib import get_close_matches
from functools import cached_property
from typing import TYPE_CHECKING

from rmqtool.derived.positions import offsets_in
from rmqtool.store.broker_json import ConfigFileError, load_config
from rmqtool.topics import DEAD_LETTER_PREFIX, RETRY_PREFIX

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from rmqtool.progress import Progress
    from rmqtool.store import Store

_OFFSETS, _LIGHT_OFFSETS = "consumerOffset.json", "lmqConsumerOffset.json"
_READER = "group "
_NAMED = 5


class GroupOffsets:
    """The committed offsets of one group.

    Attributes:
        file: Their file, relative to the store; None without one.
        offsets: By topic and queue: the next queue offset to be consumed.
    """

    def __init__(self, store: Store, group: str, topics: Iterable[str], progress: Progress) -> None:
        self._store = store
        self._group = group
        self._progress = progress
        self._topics = list(topics)
        self.file: str | None = None
        self.offsets: dict[tuple[str, int], int] = {}
        self._groups: set[str] = set()
        self._read_offsets()

    def _read_offsets(self) -> None:
        """Read the first table that exists; with ``enableLmq`` a broker reads that of light queues alone."""
        names = [_OFFSETS, _LIGHT_OFFSETS]
        for name in reversed(names) if self._store.settings.enable_lmq else names:
            found = self._document(name)
            if found is None:
                continue
            self.file, document = found
            for consumed in offsets_in(self.file, document):
                reader = consumed.reader.removeprefix(_READER)
                self._groups.add(reader)
                if reader == self._group:
                    self.offsets[consumed.topic, consumed.queue_id] = consumed.offset
            return

    def _document(self, name: str) -> tuple[str, object] | None:
        """Return a config file and its name: ``.bak`` where the other cannot be used."""
        if self._store.config is None:
            return None
        try:
            found = load_config(self._store.config / name)
        except ConfigFileError as failure:
            self._progress.warn(str(failure))
            return None
        if found is None:
            return None
        if found.problem is not None:
            self._progress.warn(f"{found.problem}; {found.path.name} is read instead")
        return f"config/{found.path.name}", found.document

    @cached_property
    def known(self) -> frozenset[str]:
        """Return the groups that offsets, subscriptions and topics of retries name."""
        document = self._document("subscriptionGroup.json")
        table = None if document is None else _member(document[1], "subscriptionGroupTable")
        prefixes = (RETRY_PREFIX, DEAD_LETTER_PREFIX)
        of_topics = {
            topic.removeprefix(one) for one in prefixes for topic in self._topics if topic.startswith(one)
        }
        return frozenset({*self._groups, *(table or ()), *of_topics})

    @property
    def is_known(self) -> bool:
        """Whether anything in the store names the group."""
        return self._group in self.known

    def near(self) -> str:
        """Return the groups that an unknown name may mean, as a sentence goes on."""
        folded = {one.casefold(): one for one in sorted(self.known)}
        near = [folded[one] for one in get_close_matches(self._group.casefold(), folded)]
        if near:
            return f"near it: {', '.join(near)}"
        some = sorted(self.known)[:_NAMED]
        more = f" and {len(self.known) - _NAMED} more" if len(self.known) > _NAMED else ""
        return f"it has {', '.join(some)}{more}" if some else "it names no group"

    def is_popping(self, topic: str) -> bool:
        """Whether ``messageRequestMode.json`` (5.0.0+) gives the group a topic by pop."""
        document = self._document("messageRequestMode.json")
        modes = None if document is None else _member(document[1], "messageRequestModeMap")
        mode = _member(_member(modes, topic), self._group)
        return mode is not None and mode.get("mode") == "POP"

    @property
    def are_all(self) -> bool:
        """Whether the group has committed no offsets elsewhere."""
        return self.file is not None and self.elsewhere is None

    @cached_property
    def elsewhere(self) -> str | None:
        """Return the database that may hold offsets and is not read; None without one."""
        return next(self._unread("config/"), None)

    @cached_property
    def popped_elsewhere(self) -> str | None:
        """Return the database of popped messages (5.4.0+) that is not read; None without one."""
        return next(self._unread("kvStore"), None)

    def _unread(self, start: str) -> Iterator[str]:
        return (one.label for one in self._store.features if one.label.startswith(start))


def _member(document: object, name: str) -> dict[str, object] | None:
    found = document.get(name) if isinstance(document, dict) else None
    return found if isinstance(found, dict) else None
