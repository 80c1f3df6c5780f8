"""The queues met in a scan: a hash table that kernels look up and Python fills.

A kernel that meets a queue for the first time stops and says so; every rule about topics is then applied
once, here, in plain Python, and the kernel goes on with the answer.
"""

from __future__ import annotations

from copy import copy
from hashlib import blake2b
from typing import TYPE_CHECKING

import numpy as np

from rmqtool.dispatch.index_keys import index_seeds
from rmqtool.javacompat import decode_utf8
from rmqtool.kernels.queues import QueueArrays, find_queue, hash_queue
from rmqtool.kernels.rows import KEY_ROW, QUEUE_ROW

if TYPE_CHECKING:
    from collections.abc import Callable

    import numpy.typing as npt

    from rmqtool.arrays import Buffer, Int64s, Rows
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
        self.slots: npt.NDArray[np.int32] = np.full(256, _EMPTY, np.int32)
        self.rows: npt.NDArray[np.void] = np.zeros(64, QUEUE_ROW)
        self.names: npt.NDArray[np.uint8] = np.zeros(4096, np.uint8)
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
