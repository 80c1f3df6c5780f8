"""Candidates in the log: messages that a prefilter keeps, and the gaps between records."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from rmqtool.kernels.filters import PrefilterField, find_candidates
from rmqtool.scan.file_pass import GapJob, GapSink
from rmqtool.scan.prefilter import EARLIEST_MS, Prefilter

if TYPE_CHECKING:
    import numpy.typing as npt

    from rmqtool.scan.gap_walk import GapWalk
    from rmqtool.scan.log_pass import Split
    from rmqtool.scan.walk import MessageBatch

_BATCH = 4096


@dataclass(frozen=True, slots=True)
class CandidateJob(GapJob[list[int]]):
    """Search for what a prefilter keeps: physical offsets of messages, ascending; picklable."""

    prefilter: Prefilter

    def sink(self, split: Split, walk: GapWalk) -> _Candidates:
        """Return a new sink for a split."""
        del walk
        return _Candidates(split, self.prefilter)


class _Candidates(GapSink[list[int]]):
    def __init__(self, split: Split, prefilter: Prefilter) -> None:
        super().__init__(split, [])
        self._fields = _fields_of(prefilter)
        self._keys = np.array(prefilter.key_hashes or (), np.int64)
        self._unique = np.array(prefilter.unique_hashes or (), np.int64)
        self._log_offsets = np.empty(_BATCH, np.int64)

    def take(self, batch: MessageBatch, found: list[int]) -> None:
        """Add the messages that stay."""
        if len(batch.rows) > len(self._log_offsets):
            self._log_offsets = np.empty(len(batch.rows), np.int64)
        count = find_candidates(
            batch.buffer, batch.rows, batch.values, self._fields, self._keys, self._unique, self._log_offsets
        )
        found += self._log_offsets[:count].tolist()


def _fields_of(prefilter: Prefilter) -> npt.NDArray[np.int64]:
    fields = np.zeros(len(PrefilterField), np.int64)
    fields[PrefilterField.BEGIN_MS], fields[PrefilterField.END_MS] = prefilter.begin_ms, prefilter.end_ms
    fields[PrefilterField.QUEUE_OFFSET] = (
        EARLIEST_MS if prefilter.queue_offset is None else prefilter.queue_offset
    )
    if prefilter.topic_hash is not None:
        fields[PrefilterField.HAS_TOPIC], fields[PrefilterField.TOPIC_HASH] = 1, prefilter.topic_hash
    if prefilter.queue_id is not None:
        fields[PrefilterField.HAS_QUEUE], fields[PrefilterField.QUEUE_ID] = 1, prefilter.queue_id
    fields[PrefilterField.HAS_KEYS] = prefilter.key_hashes is not None
    fields[PrefilterField.OF_ANY_TOPIC] = prefilter.of_any_topic
    fields[PrefilterField.HAS_UNIQUE] = prefilter.unique_hashes is not None
    return fields
