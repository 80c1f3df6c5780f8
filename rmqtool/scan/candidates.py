"""Candidates in one split of the log: messages that a prefilter keeps, and the gaps between records.

As ``record_walk`` does for people, this takes records that a broker would refuse for a property that is no
number.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from rmqtool.releases import LENIENT
from rmqtool.scan.gap_walk import GapWalk, SplitEnd, gap_of
from rmqtool.scan.gaps import Gap, Outcome
from rmqtool.scan.prefilter import EARLIEST_MS, Prefilter
from rmqtool.scan.prefilter_kernels import PrefilterField, find_candidates

if TYPE_CHECKING:
    import numpy.typing as npt

    from rmqtool.io.reading import UnreadableRange
    from rmqtool.scan.splits import Split
    from rmqtool.scan.walk import MessageBatch

MAX_GAPS = 100
"""Gaps of one split that are told apart; the others are counted."""

_BATCH = 4096


@dataclass(frozen=True)
class CandidateTask:
    """A range of one segment, and what to look for.

    Attributes:
        split: what is looked at.
        prefilter: what to keep.
        first_log_offset: physical offset of the first record; None to search the first true one.
        stale_from: see ``GapWalk``.
    """

    split: Split
    prefilter: Prefilter
    first_log_offset: int | None = None
    stale_from: int | None = None


@dataclass
class Candidates(SplitEnd):
    """What was found in a split.

    Attributes:
        split: the examined part.
        first_log_offset: physical offset of the first record; None if no record begins in the split.
        outcome: as `GapWalk` has it.
        log_offset: likewise.
        log_offsets: physical offsets of the messages that stay, ascending.
        gaps: the first ones, at most ``MAX_GAPS``, and one that reaches the split's end.
        more_gaps: how many more there were.
        unreadable: ranges of the file that the disk did not deliver.
    """

    split: Split
    first_log_offset: int | None
    outcome: Outcome = Outcome.STOP
    log_offset: int = 0
    log_offsets: list[int] = field(default_factory=list)
    gaps: list[Gap] = field(default_factory=list)
    more_gaps: int = 0
    unreadable: list[UnreadableRange] = field(default_factory=list)


def find_split_candidates(task: CandidateTask) -> Candidates:
    """Walk a split.

    Raises:
        EnvironmentFailureError: the segment cannot be opened or read.
    """
    return _SplitSearch(task).run()


class _SplitSearch:
    def __init__(self, task: CandidateTask) -> None:
        self._task = task
        self._walk = GapWalk(task.split.segment, LENIENT, task.stale_from)
        self._fields = _fields_of(task.prefilter)
        self._keys = np.array(task.prefilter.key_hashes or (), np.int64)
        self._unique = np.array(task.prefilter.unique_hashes or (), np.int64)
        self._log_offsets = np.empty(_BATCH, np.int64)

    def run(self) -> Candidates:
        walk, split, first = self._walk, self._task.split, self._task.first_log_offset
        found = Candidates(split, walk.guess(split.start, split.stop) if first is None else first)
        if found.first_log_offset is not None:
            for part in walk.parts(found.first_log_offset, split.stop):
                if isinstance(part, Gap):
                    self._add_gap(part, found)
                else:
                    self._add_batch(part, found)
            found.outcome, found.log_offset = walk.outcome, walk.log_offset
        found.unreadable = walk.unreadable
        return found

    def _add_batch(self, batch: MessageBatch, found: Candidates) -> None:
        if len(batch.rows) > len(self._log_offsets):
            self._log_offsets = np.empty(len(batch.rows), np.int64)
        count = find_candidates(
            batch.buffer, batch.rows, batch.values, self._fields, self._keys, self._unique, self._log_offsets
        )
        found.log_offsets += self._log_offsets[:count].tolist()
        room = max(MAX_GAPS - len(found.gaps), 0)
        found.gaps += [gap_of(row) for row in batch.gaps[:room]]
        found.more_gaps += max(len(batch.gaps) - room, 0)

    def _add_gap(self, gap: Gap, found: Candidates) -> None:
        if len(found.gaps) < MAX_GAPS or gap.stop == self._task.split.stop:
            found.gaps.append(gap)
        else:
            found.more_gaps += 1


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
