"""WALK: bytes of log to messages and gaps.

``records`` reads one record at a time in plain Python, for look-ups and dumps; `rmqtool.kernels.walk` does
the same for whole windows at memory speed, and ``walk`` drives it over a segment. Both follow
``CommitLog#checkMessageAndReturnSize`` and are tested against each other.

Where a broker's reput gives up, an examiner continues at the next intact record: ``record_walk`` in plain
Python, ``gap_walk`` by the kernels. Both yield what lies between as a `records.Gap`, to which ``classify``
gives its name: the only judge of that, for every command. ``loose`` finds the records in any bytes, whatever
place they claim.

``log_pass`` reads a whole log: cut into splits, which an engine walks into sinks, and stitched; for a
broker's reput as for an examiner. ``file_pass`` does so for one file, for sinks that also want its gaps,
as the search for messages that a ``Prefilter`` keeps.

A record counts as *intact* only if its PHYSICALOFFSET is the place it lies at: valid but stale bytes (after
BLANK, in dirty tails, in pooled buffers) are normal in a store.
"""

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
