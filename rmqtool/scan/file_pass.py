"""The pass over one file of a log, over all its gaps: what a sink found, and what is wrong with the file."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from rmqtool.releases import LENIENT
from rmqtool.scan.classify import FoundEdge, classified, missing_blank, unreadable_part
from rmqtool.scan.gap_walk import GapWalk, gap_of, joined_gap
from rmqtool.scan.log_pass import LogPass, ReadJob, Split, SplitRead, plan_splits, read_split, stitch

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from rmqtool.engine import Engine
    from rmqtool.findings import Finding
    from rmqtool.scan.records import Gap
    from rmqtool.scan.walk import MessageBatch
    from rmqtool.store.segments import Segment

F = TypeVar("F")

MAX_GAPS = 100
"""Gaps of one split that are listed; the others are counted."""


@dataclass(kw_only=True)
class SplitGaps(SplitRead, Generic[F]):
    """A split with its gaps, and what else a sink found in it.

    Attributes:
        found: what the sink found.
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

    def __init__(self, split: Split, found: F) -> None:
        self._read = SplitGaps(split, None, found=found)

    @abstractmethod
    def take(self, batch: MessageBatch, found: F) -> None:
        """Add what is in records to what was found."""

    def batch(self, batch: MessageBatch) -> None:
        """Take records, and list the gaps among them."""
        read = self._read
        self.take(batch, read.found)
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
        """Return what was found."""
        return replace(self._read, **vars(read))


@dataclass(frozen=True, slots=True)
class GapJob(ReadJob[SplitGaps[F]]):
    """Base of jobs of an examiner who takes records that a broker would refuse; picklable.

    Attributes:
        stale_from: see ``GapWalk``.
    """

    stale_from: int | None

    def walk(self, segment: Segment) -> GapWalk:
        """Return a new walk over a file."""
        return GapWalk(segment, LENIENT, self.stale_from)


class FilePass(Generic[F]):
    """The pass over one file.

    Args:
        number: of the file in its log, from 0.
        edge: of that log.
        engine: reads the splits.
        job: what is done with each split.
        split_bytes: what one task reads.

    Attributes:
        segment: the file.
        parts: its splits that count, in order.
        gaps: those that are listed, seams of splits joined.
        more_gaps: gaps that are only counted.
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
        results = stitch(reading.results, segment.start, lambda one, at: reading.reread(one.split, at))
        self.parts = list(results)
        self.gaps = list(_joined(segment, self.parts))
        self.more_gaps = sum(part.more_gaps for part in self.parts)

    def defects(self) -> Iterator[Finding]:
        """Yield what is wrong, in the words of the plain walk."""
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
