"""The broker's switches that decide the queues and index of a message."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING

import numpy as np

from rmqtool.dispatch.index_keys import ALL_TAG_ITEMS, TagItems
from rmqtool.kernels.rows import Switch, Trait
from rmqtool.releases import DEFAULT, Release
from rmqtool.topics import SCHEDULE_TOPIC

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from rmqtool.arrays import Int64s
    from rmqtool.store import Settings

NEVER = (1 << 63) - 1
"""A time or offset that nothing reaches: no limit."""

_NO_ENTRY = -1


@dataclass(frozen=True)
class DispatchPolicy:
    """All that a dispatch depends on beside the message.

    Attributes:
        release: whose rules apply.
        delay_levels_ms: deliver delay of each level (``messageDelayLevel``).
        index_enabled: ``messageIndexEnable``.
        multi_dispatch: ``enableMultiDispatch``; where it is not known, true: INNER_MULTI_QUEUE_OFFSET is in a
            record only if the broker assigned it.
        lmq: ``enableLmq``.
        ext: ``enableConsumeQueueExt``.
        batch_topics: topics with ``queue.type=BatchCQ`` in ``topics.json``.
        topics: globs of the topics to take; empty takes all.
        exclude_topics: globs of the topics to leave out.
        until_timestamp_ms: messages stored later are left out.
        tag_items: the messages that have an index entry for TAGS; None: all or none, as the release does.
    """

    release: Release = DEFAULT
    delay_levels_ms: Mapping[int, int] = field(default_factory=dict)
    index_enabled: bool = True
    multi_dispatch: bool = True
    lmq: bool = True
    ext: bool = False
    batch_topics: frozenset[str] = frozenset()
    topics: tuple[str, ...] = ()
    exclude_topics: tuple[str, ...] = ()
    until_timestamp_ms: int = NEVER
    tag_items: TagItems | None = None

    @classmethod
    def from_settings(cls, settings: Settings) -> DispatchPolicy:
        """Return the policy of a broker that has a store's settings.

        Where a multi-dispatch switch is not known, the records decide: INNER_MULTI_QUEUE_OFFSET is there only
        if the broker assigned it.
        """
        return cls(
            release=settings.rules_of(settings.release),
            delay_levels_ms=settings.delay_levels.delay_ms,
            index_enabled=settings.message_index_enable,
            multi_dispatch=settings.enable_multi_dispatch is not False,
            lmq=settings.enable_lmq is not False,
            ext=settings.enable_consume_queue_ext,
            batch_topics=settings.batch_topics,
        )

    @classmethod
    def to_check(cls, settings: Settings) -> DispatchPolicy:
        """Return the policy by which derived files are checked.

        Entries of tags are demanded, though none is missed, unless the signs say that no broker of 5.4.0 or
        later had the store: then there are none.
        """
        policy = cls.from_settings(settings)
        return policy if settings.touched_by_5_4 is False else replace(policy, tag_items=ALL_TAG_ITEMS)

    def with_batch_topics(self, topics: Iterable[str]) -> DispatchPolicy:
        """Return the policy by which further topics have batch queues: `Dispatcher.unknown_batch_topics`.

        Brokers before 5.0.0 have none, whatever a record says.
        """
        if not self.release.batch_queues:
            return self
        return replace(self, batch_topics=self.batch_topics.union(topics))

    @property
    def partial(self) -> bool:
        """Whether the user left something out."""
        return bool(self.topics or self.exclude_topics) or self.until_timestamp_ms != NEVER

    @property
    def wide(self) -> bool:
        """Whether units need more than the 20 bytes say: store times, batch sizes."""
        return self.ext or bool(self.batch_topics)

    def switches(self) -> Int64s:
        """Return the switches as the kernel takes them, by ``Switch``."""
        switches = np.zeros(len(Switch), np.int64)
        switches[Switch.INDEX] = self.index_enabled
        switches[Switch.MULTI_DISPATCH] = self.multi_dispatch
        switches[Switch.LMQ] = self.lmq
        switches[Switch.SKIPS_SLASH] = self.release.skips_slash
        switches[Switch.MAX_DELAY_LEVEL] = max(self.delay_levels_ms, default=0)
        switches[Switch.UNTIL_TIMESTAMP] = self.until_timestamp_ms
        return switches

    def tag_turns(self) -> Int64s:
        """Return from which physical offsets on messages have an entry for TAGS, or have none, by turns."""
        chosen = TagItems.of(self.release) if self.tag_items is None else self.tag_items
        return np.array(chosen.turns, np.int64)

    def delay_table(self) -> Int64s:
        """Return the delay in ms by level, -1 where a level has no entry, ``(levels + 1,)``.

        A level can lack one where ``messageDelayLevel`` could not be parsed to its end
        (``DefaultMessageStore#parseDelayLevel``).
        """
        table = np.full(max(self.delay_levels_ms, default=0) + 1, _NO_ENTRY, np.int64)
        for level, delay_ms in self.delay_levels_ms.items():
            table[level] = delay_ms
        return table

    def traits(self, topic: str, *, unsafe: bool) -> int:
        """Return bits of `Trait`; for one see ``MultiDispatchUtils#isNeedHandleMultiDispatch``."""
        traits = 0
        if topic == SCHEDULE_TOPIC:
            traits |= Trait.SCHEDULE
        if topic in self.batch_topics:
            traits |= Trait.BATCH
        prefixes = self.release.no_multi_dispatch
        if topic.startswith(prefixes) or (prefixes and topic == SCHEDULE_TOPIC):
            traits |= Trait.NO_MULTI_DISPATCH
        if not self.takes(topic):
            traits |= Trait.EXCLUDED
        return traits | Trait.UNSAFE if unsafe else traits

    def takes(self, topic: str) -> bool:
        """Whether the user's globs take a topic."""
        if any(fnmatchcase(topic, glob) for glob in self.exclude_topics):
            return False
        return not self.topics or any(fnmatchcase(topic, glob) for glob in self.topics)
