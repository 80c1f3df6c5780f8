"""Pass over one file of a log and all its gaps: what a sink finds, as what a prefilter keeps, and damage."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Generic, TypeVar

import numpy as np

from rmqtool.releases import LENIENT
from rmqtool.scan.classify import FoundEdge, classified, missing_blank, unreadable_part
from rmqtool.scan.gap_walk import GapWalk, gap_of, joined_gap
from rmqtool.scan.log_pass import LogPass, ReadJob, Split, SplitRead, plan_splits, read_split, stitch
from rmqtool.times import EARLIEST_MS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from rmqtool.engine import Engine
    from rmqtool.findings import Finding
    from rmqtool.kernels.rows import MessageBatch
    from rmqtool.scan.records import Gap, Prefilter
    from rmqtool.store.segments import Segment

F = TypeVar("F")

MAX_GAPS = 100
"""Gaps of one split that are listed; the others are counted."""


@dataclass(kw_only=True)
class SplitGaps(SplitRead, Generic[F]):
    """A split with its gaps, and what else a sink found in it.

    Attributes:
        found: the results of the sink.
        gaps: the first ones, at most ``MAX_GAPS``, and one that reaches the split's end.
        more_gaps: how many more there were.
        more_gap_bytes: their size.
    """

    found: F
    gaps: list[Gap] = field(default_factory=list)
    more_gaps: int = 0
    more_gap_bytes: int = 0


class GapSink(ABC, Generic[F]):
    """Base of sinks that list gaps, and find something in the records."""

    def __init__(self, split: Split, taken: F) -> None:
        self._read = SplitGaps(split, None, found=taken)

    @abstractmethod
    def take(self, batch: MessageBatch, taken: F) -> None:
        """Add the records to the results."""

    def batch(self, batch: MessageBatch) -> None:
        """Take records, and list the gaps among them."""
        read = self._read
        self.take(batch, read.found)
        if not len(batch.gaps):
            return
        room = max(MAX_GAPS - len(read.gaps), 0)
        read.gaps += [gap_of(row) for row in batch.gaps[:room]]
        left = batch.gaps[room:]
        read.more_gaps += len(left)
        read.more_gap_bytes += int((left["stop"] - left["start"]).sum())

    def gap(self, gap: Gap) -> None:
        """List a gap, or count it."""
        read = self._read
        if len(read.gaps) < MAX_GAPS or gap.stop == read.split.stop:
            read.gaps.append(gap)
        else:
            read.more_gaps += 1
            read.more_gap_bytes += gap.length

    def result(self, read: SplitRead) -> SplitGaps[F]:
        """Return the results."""
        return replace(self._read, **vars(read))


@dataclass(frozen=True, slots=True)
class GapJob(ReadJob[SplitGaps[F]]):
    """Read of all splits by an examiner who takes records that a broker would refuse; picklable.

    ``make_sink`` makes the sink of a split; for ``stale_from`` see ``GapWalk``.
    """

    stale_from: int | None
    make_sink: Callable[[Split], GapSink[F]]

    def walk(self, segment: Segment) -> GapWalk:
        """Return a new walk over a file."""
        return GapWalk(segment, LENIENT, self.stale_from)

    def sink(self, split: Split, walk: GapWalk) -> GapSink[F]:
        """Return a new sink for a split."""
        del walk
        return self.make_sink(split)


class FilePass(Generic[F]):
    """The pass over the file of a ``number`` in its log, from 0.

    ``parts`` are its splits that count, in order; ``gaps`` those that are listed, seams of splits joined, and
    ``more_gaps`` is how many are only counted.
    """

    def __init__(
        self, number: int, edge: FoundEdge, engine: Engine, job: GapJob[F], split_bytes: int
    ) -> None:
        self._number = number
        self._edge = edge
        self.segment = segment = edge.segments[number]
        splits = plan_splits([segment], segment.stop, split_bytes)
        reading: LogPass[Any, SplitGaps[F]] = LogPass(engine, job, splits, read_split)
        reading.run()
        results = stitch(reading.results, segment.start, lambda gaps, at: reading.reread(gaps.split, at))
        self.parts = list(results)
        self.gaps = list(_joined(segment, self.parts))
        self.more_gaps = sum(part.more_gaps for part in self.parts)

    def defects(self) -> Iterator[Finding]:
        """Yield the findings, in the words of the plain walk."""
        segment = self.segment
        for part in self.parts:
            for bad in part.unreadable:
                yield unreadable_part(segment, bad)
        for gap in self.gaps:
            yield from classified(gap, segment, self._number, self._edge)
        if self.parts and self.parts[-1].next_log_offset == segment.stop:
            yield missing_blank(segment)


def _joined(segment: Segment, parts: Iterable[SplitGaps[F]]) -> Iterator[Gap]:
    """Yield the gaps of one file's splits, those over their seams put together."""
    last: Gap | None = None
    for part in parts:
        if last is not None and last.stop == part.split.start:
            first = part.split.stop if part.first_log_offset is None else part.first_log_offset
            last = joined_gap(segment, last, first)
        for gap in part.gaps:
            if last is not None:
                yield last
            last = gap
    if last is not None:
        yield last


_BATCH = 4096


class Candidates(GapSink[list[int]]):
    """Search for what a prefilter keeps: physical offsets of messages, ascending."""

    def __init__(self, prefilter: Prefilter, split: Split) -> None:
        from rmqtool.kernels.filters import KernelPrefilter, find_candidates  # no other sink needs these

        super().__init__(split, [])
        self._find = find_candidates
        self._wanted = KernelPrefilter(
            begin_ms=prefilter.begin_ms,
            end_ms=prefilter.end_ms,
            queue_offset=EARLIEST_MS if prefilter.queue_offset is None else prefilter.queue_offset,
            has_topic=int(prefilter.topic_hash is not None),
            topic_hash=prefilter.topic_hash or 0,
            has_queue=int(prefilter.queue_id is not None),
            queue_id=prefilter.queue_id or 0,
            has_keys=int(prefilter.key_hashes is not None),
            keys=np.array(prefilter.key_hashes or (), np.int64),
            of_any_topic=int(prefilter.of_any_topic),
            has_unique=int(prefilter.unique_hashes is not None),
            unique=np.array(prefilter.unique_hashes or (), np.int64),
        )
        self._log_offsets = np.empty(_BATCH, np.int64)

    def take(self, batch: MessageBatch, taken: list[int]) -> None:
        """Add the messages that stay."""
        if len(batch.rows) > len(self._log_offsets):
            self._log_offsets = np.empty(len(batch.rows), np.int64)
        count = self._find(batch, self._wanted, self._log_offsets)
        taken += self._log_offsets[:count].tolist()
