"""The broker's switches that decide the queues and index of a message, and the table of queues met so far."""

from __future__ import annotations

from copy import copy
from fnmatch import fnmatchcase
from hashlib import blake2b
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from rmqtool.dispatch.index_keys import ALL_TAG_ITEMS, TagItems, index_seeds
from rmqtool.javacompat import decode_utf8
from rmqtool.kernels.queues import QueueArrays, find_queue, hash_queue
from rmqtool.kernels.rows import KEY_ROW, QUEUE_ROW, Switch, Trait
from rmqtool.releases import DEFAULT, Release
from rmqtool.topics import SCHEDULE_TOPIC

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    import numpy.typing as npt

    from rmqtool.arrays import Buffer, Int32s, Int64s, Rows
    from rmqtool.store import Settings

NEVER = (1 << 63) - 1
"""A time or offset that nothing reaches: no limit."""

_NO_ENTRY = -1


class DispatchPolicy(NamedTuple):
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
    delay_levels_ms: Mapping[int, int] = {}
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
        return policy if settings.touched_by_5_4 is False else policy._replace(tag_items=ALL_TAG_ITEMS)

    def with_batch_topics(self, topics: Iterable[str]) -> DispatchPolicy:
        """Return the policy by which further topics have batch queues: `Dispatcher.unknown_batch_topics`.

        Brokers before 5.0.0 have none, whatever a record says.
        """
        if not self.release.batch_queues:
            return self
        return self._replace(batch_topics=self.batch_topics.union(topics))

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


_EMPTY = -1
_QUEUE_ID_BYTES = 4


class QueueTable:
    """Queues by (topic bytes, queue id), numbered in the order they were met.

    A kernel that meets a queue for the first time stops and says so; every rule about topics is then applied
    once, here, in plain Python, and the kernel goes on with the answer.

    Attributes:
        slots: ``(2^k,)`` int32, open addressing; -1 is empty.
        rows: ``(n,)`` of ``QUEUE_ROW``, the first ``len(self)`` in use.
        names: the topics' bytes one after the other, uint8.
        digests: ``(n, 2)`` uint64 of topic and queue id, long enough that no two queues have the same.
    """

    def __init__(self, policy: DispatchPolicy, is_safe_name: Callable[[str], bool]) -> None:
        self._policy = policy
        self._is_safe_name = is_safe_name
        self._count = 0
        self._names_used = 0
        self.slots: Int32s = np.full(256, _EMPTY, np.int32)
        self.rows: Rows = np.zeros(64, QUEUE_ROW)
        self.names: Buffer = np.zeros(4096, np.uint8)
        self.digests: npt.NDArray[np.uint64] = np.zeros((64, 2), np.uint64)

    def __len__(self) -> int:
        return self._count

    @property
    def arrays(self) -> QueueArrays:
        """Return the table as kernels take it, until a queue is added."""
        return QueueArrays(self.slots, self.rows, self.names)

    def copy(self) -> QueueTable:
        """Return a table of the same queues that goes its own way."""
        other = copy(self)
        other.slots, other.rows, other.names = self.slots.copy(), self.rows.copy(), self.names.copy()
        other.digests = self.digests.copy()
        return other

    def key(self, number: int) -> tuple[bytes, int]:
        """Return topic bytes and queue id of a queue."""
        row = self.rows[number]
        start = int(row["name_start"])
        return self.names[start : start + int(row["name_length"])].tobytes(), int(row["queue_id"])

    def by_digest(self, numbers: Int64s) -> Int64s:
        """Return queues in the order of their digests, which is the same in every table."""
        digests = self.digests[numbers]
        order: Int64s = np.lexsort((digests[:, 1], digests[:, 0]))
        return numbers[order]

    def keys(self, numbers: Int64s) -> tuple[Rows, Buffer]:
        """Return what names queues wherever they are met: ``(n,)`` of ``KEY_ROW``, and the names' bytes."""
        rows, keys = self.rows[numbers], np.zeros(len(numbers), KEY_ROW)
        keys["high"], keys["low"] = self.digests[numbers].T
        keys["queue_id"], keys["name_length"] = rows["queue_id"], rows["name_length"]
        lengths = rows["name_length"].astype(np.int64)
        stops = np.cumsum(lengths)
        keys["name_start"] = stops - lengths
        places = np.repeat(rows["name_start"] - keys["name_start"], lengths) + np.arange(lengths.sum())
        return keys, self.names[places]

    def add(self, raw_topic: bytes, queue_id: int) -> None:
        """Add a queue that is not in the table.

        Malformed bytes are one U+FFFD or another to Java, so different bytes can name one directory.
        """
        topic = decode_utf8(raw_topic)
        encoded = topic.encode()
        if encoded == raw_topic:
            self._add(raw_topic, topic, queue_id, self._count)
            return
        canonical = self._number(encoded, queue_id)
        if canonical == _EMPTY:
            self.add(encoded, queue_id)
            canonical = self._count - 1
        self._add(raw_topic, topic, queue_id, canonical)

    def _number(self, name: bytes, queue_id: int) -> int:
        buffer = np.frombuffer(name, np.uint8).copy()
        return int(find_queue(buffer, 0, len(buffer), queue_id, self.arrays))

    def _add(self, raw_topic: bytes, topic: str, queue_id: int, canonical: int) -> None:
        name = np.frombuffer(raw_topic, np.uint8)
        self._make_room(len(name))
        row = self.rows[self._count]
        row["name_start"], row["name_length"] = self._names_used, len(name)
        row["queue_id"], row["canonical"] = queue_id, canonical
        row["topic_seed"], row["tag_seed"] = index_seeds(raw_topic)
        row["traits"] = self._policy.traits(topic, unsafe=not self._is_safe_name(topic))
        self.names[self._names_used : self._names_used + len(name)] = name
        row["hash"] = hash_queue(self.names, self._names_used, self._names_used + len(name), queue_id)
        self._names_used += len(name)
        salt = queue_id.to_bytes(_QUEUE_ID_BYTES, "big", signed=True)
        digest = blake2b(raw_topic, digest_size=16, salt=salt).digest()
        self.digests[self._count] = np.frombuffer(digest, np.uint64)
        self._insert(self._count)
        self._count += 1

    def _make_room(self, name_bytes: int) -> None:
        if self._count == len(self.rows):
            self.rows = np.concatenate([self.rows, np.zeros_like(self.rows)])
            self.digests = np.concatenate([self.digests, np.zeros_like(self.digests)])
        while self._names_used + name_bytes > len(self.names):
            self.names = np.concatenate([self.names, np.zeros_like(self.names)])
        if 2 * self._count >= len(self.slots):
            self.slots = np.full(2 * len(self.slots), _EMPTY, np.int32)
            for number in range(self._count):
                self._insert(number)

    def _insert(self, number: int) -> None:
        mask = len(self.slots) - 1
        slot = int(self.rows[number]["hash"]) & mask
        while self.slots[slot] != _EMPTY:
            slot = (slot + 1) & mask
        self.slots[slot] = number
