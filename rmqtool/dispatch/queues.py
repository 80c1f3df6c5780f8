"""Queues met in a scan, a hash table that kernels look up and Python fills; and totals of the log by queue.

A kernel that meets a queue for the first time stops and says so; every rule about topics is then applied
once, here, in plain Python, and the kernel goes on with the answer.
"""

from __future__ import annotations

from copy import copy
from hashlib import blake2b
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from rmqtool.dispatch.index_keys import index_seeds
from rmqtool.javacompat import decode_utf8
from rmqtool.kernels.queues import TOTAL_ROW, QueueArrays, add_up, fill_slots, find_queue, hash_queue
from rmqtool.kernels.rows import KEY_ROW, QUEUE_ROW, MessageBatch

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    import numpy.typing as npt

    from rmqtool.arrays import Buffer, Int32s, Int64s, Rows
    from rmqtool.dispatch.policy import DispatchPolicy


_EMPTY = -1
_QUEUE_ID_BYTES = 4


class QueueTable:
    """Queues by (topic bytes, queue id), numbered in the order they were met.

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
        rows, found = self.rows[numbers], np.zeros(len(numbers), KEY_ROW)
        found["high"], found["low"] = self.digests[numbers].T
        found["queue_id"], found["name_length"] = rows["queue_id"], rows["name_length"]
        lengths = rows["name_length"].astype(np.int64)
        stops = np.cumsum(lengths)
        found["name_start"] = stops - lengths
        places = np.repeat(rows["name_start"] - found["name_start"], lengths) + np.arange(lengths.sum())
        return found, self.names[places]

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


_QUEUES = 64
_NAME_BYTES = 4096


class Total(NamedTuple):
    """Records of one topic, or of one of its queues.

    Attributes:
        messages: how many records.
        bytes: their size.
        oldest_ms: least STORETIMESTAMP.
        newest_ms: greatest STORETIMESTAMP.
        largest: bytes of the largest record.
        largest_at: its physical offset.
        first: queue offset of the first record that has one; -1 without, as half messages.
        stop: queue offset after the last one.
        breaks: records whose queue offset does not follow the one before; of one queue only.
        strangers: records that claim another place, and hide what was there.
    """

    messages: int
    bytes: int
    oldest_ms: int
    newest_ms: int
    largest: int
    largest_at: int
    first: int
    stop: int
    breaks: int
    strangers: int

    def plus(self, other: Total | None) -> Total:
        """Return both together, ``other`` being in front; of two records of one size the first one."""
        if other is None:
            return self
        breaks = self.breaks + other.breaks + (-1 < self.first != other.stop > -1)
        return Total(
            self.messages + other.messages,
            self.bytes + other.bytes,
            min(self.oldest_ms, other.oldest_ms),
            max(self.newest_ms, other.newest_ms),
            *max((self[4:6], other[4:6]), key=lambda one: (one[0], -one[1])),
            other.first if other.first > -1 else self.first,
            self.stop if self.stop > -1 else other.stop,
            breaks,
            self.strangers + other.strangers,
        )


class QueueTotals:
    """Totals by topic and queue, filled batch by batch.

    Attributes:
        table: Of ``TOTAL_ROW``, with room for more than are in use.
    """

    def __init__(self) -> None:
        slots, names = np.full(4 * _QUEUES, -1, np.int32), np.empty(_NAME_BYTES, np.uint8)
        self.table = QueueArrays(slots, np.empty(_QUEUES, TOTAL_ROW), names)
        self._used = np.zeros(2, np.int64)

    def add(self, batch: MessageBatch) -> Int64s:
        """Add all messages of a batch; return the number of each one's queue, ``(n,)``."""
        row, numbers = 0, np.empty(len(batch.rows), np.int64)
        while True:
            row = add_up(batch, row, self.table, self._used, numbers)
            if row == len(batch.rows):
                return numbers
            one = batch.rows[row]
            self._make_room(int(one["topic_stop"]) - int(one["topic_start"]))

    def __iter__(self) -> Iterator[tuple[tuple[str, int], Total]]:
        """Yield topic, as Java decodes it, with queue id, and total; malformed names may come twice."""
        for row in self.table.rows[: int(self._used[0])].tolist():
            _, start, length, queue_id, *numbers = row
            yield (decode_utf8(self.table.names[start : start + length].tobytes()), queue_id), Total(*numbers)

    def _make_room(self, name_bytes: int) -> None:
        count, names_used = self._used.tolist()
        slots, rows, names = self.table
        if count == len(rows):
            rows = np.concatenate((rows, np.empty_like(rows)))
            slots = np.full(2 * len(slots), -1, np.int32)
            fill_slots(rows, count, slots)
        while names_used + name_bytes > len(names):
            names = np.concatenate((names, np.empty_like(names)))
        self.table = QueueArrays(slots, rows, names)
