"""Conditions by which kernels choose the messages to look at closely; without numpy, so it costs nothing."""

from __future__ import annotations

from dataclasses import dataclass

EARLIEST_MS, LATEST_MS = -(1 << 63), (1 << 63) - 1


@dataclass(frozen=True, slots=True)
class Prefilter:
    """A coarse filter: what falls through is no answer, what stays may be one.

    Attributes:
        begin_ms: STORETIMESTAMP, inclusive.
        end_ms: STORETIMESTAMP, inclusive.
        topic_hash: hash code of the topic; None for any. A message of light queues, too, stays whatever
            its own topic, queue and offset are.
        queue_id: QUEUEID; None for any.
        queue_offset: least QUEUEOFFSET; None for any.
        key_hashes: ascending; a key hash of the index, of UNIQ_KEY or one of KEYS. None for any.
        of_any_topic: whether those are the hashes of keys alone, without their topic.
        unique_hashes: ascending; hash codes of UNIQ_KEY, whatever the topic. None for any.
    """

    begin_ms: int = EARLIEST_MS
    end_ms: int = LATEST_MS
    topic_hash: int | None = None
    queue_id: int | None = None
    queue_offset: int | None = None
    key_hashes: tuple[int, ...] | None = None
    of_any_topic: bool = False
    unique_hashes: tuple[int, ...] | None = None
