"""Rows of a large log, on all cores: kernels encode the plain messages, Python makes rows of the rest.

The log is cut into splits. Each but the first of a file begins at the first intact record that it finds; if
the split before did not end there, it is read again from that end, so the result is that of one walk. An
``Encoder`` decides the form: lines of ndjson, or columns.
"""

from __future__ import annotations

from abc import abstractmethod
from bisect import bisect_left, bisect_right
from contextlib import closing
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import pairwise
from operator import attrgetter, itemgetter
from typing import TYPE_CHECKING, Protocol, TypeAlias

import numpy as np

from rmqtool.engine import usable_cpus
from rmqtool.engine.threads import Threads
from rmqtool.findings import Finding, codes
from rmqtool.formats.message import Outcome
from rmqtool.io.location import RETRY_BYTES
from rmqtool.javacompat import string_hash
from rmqtool.kernels.filters import GLOBS_APART, KernelFilter, queue_key
from rmqtool.kernels.rows import frame_starts
from rmqtool.progress import NullProgress
from rmqtool.releases import LENIENT
from rmqtool.rows.messages import MessageFilter, MessageRows
from rmqtool.scan.classify import FoundEdge, classified, is_of_record, missing_blank, stop_of
from rmqtool.scan.gap_walk import GapWalk, gap_of
from rmqtool.scan.log_pass import ReadJob, Split, SplitRead, SplitTask, read_ahead, read_split, stitch
from rmqtool.scan.record_walk import BlankRecord, ChainWalk
from rmqtool.scan.records import Gap, Record
from rmqtool.times import EARLIEST_MS, LATEST_MS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from rmqtool import rows
    from rmqtool.javacompat import DelayLevels
    from rmqtool.kernels.rows import MessageBatch
    from rmqtool.store import FileQueue, Segment


def kernel_filter(messages: MessageFilter, odd_flags: int) -> KernelFilter:
    """Return a filter for which messages with one of ``odd_flags`` in SYSFLAG are not plain.

    A text that is not UTF-8 raises UnicodeEncodeError.
    """
    is_shown_otherwise, messages = messages.stored_topic is not None, messages.as_stored
    unread = sorted(
        (queue_key(string_hash(topic), queue_id), min(offset, LATEST_MS))
        for topic, queues in (messages.unread or {}).items()
        for queue_id, offset in queues.items()
        if queue_id < 1 << 31  # no record has another
    )
    keys, offsets = np.array(unread, np.int64).reshape(-1, 2).T
    least, globs = messages.from_queue_offset, bytes([GLOBS_APART]).join(map(str.encode, messages.topics))
    return KernelFilter(
        begin_ms=EARLIEST_MS if messages.begin_ms is None else int(messages.begin_ms),
        end_ms=LATEST_MS if messages.end_ms is None else int(messages.end_ms),
        queue_offset=EARLIEST_MS if least is None else int(least),
        has_queue=int(messages.queue_id is not None),
        queue_id=int(messages.queue_id or 0),
        has_topic=int(messages.topic is not None),
        topic=np.frombuffer(globs, np.uint8),
        has_tag=int(messages.tag is not None),
        tag=np.frombuffer((messages.tag or "").encode(), np.uint8),
        has_key=int(messages.key is not None),
        key=np.frombuffer((messages.key or "").encode(), np.uint8),
        odd_flags=odd_flags,
        no_meaning=0,
        has_unread=int(messages.unread is not None),
        queues=np.ascontiguousarray(keys),
        least=np.ascontiguousarray(offsets),
        has_places=int(messages.places is not None),
        places=np.array(sorted(messages.places or ()), np.int64),
        has_text=int(messages.contains is not None),
        text=np.frombuffer(messages.text, np.uint8),
        is_shown_otherwise=int(is_shown_otherwise),
    )


SPLIT_BYTES = 8 << 20

Ranges: TypeAlias = tuple[tuple[int, int], ...]
"""Parts of a log, physical offsets, ascending; each lies in one file, and begins with a record."""


class Encoder(Protocol):
    """Takes the messages of one split, in order, and the other rows between them."""

    def encode(self, batch: MessageBatch, first: int, stop: int) -> int:
        """Take the wanted rows of a batch from ``first`` on, up to one that is not plain, for `add`.

        Returns its index; ``stop`` if there is none.
        """

    def add(self, row: rows.Row) -> None:
        """Take a row that plain Python made: a message that is not plain, damage, an end mark."""

    def finish(self) -> list[rows.Row]:
        """Return everything taken, in order."""


@dataclass
class ReadSplit(SplitRead):
    """Result of a split.

    Attributes:
        next_log_offset: Physical offset at which the next split has to begin.
        rows: Lines, and the rows of messages that are not plain.
        closed: Whether damage, not a message, came last.
        ended: Whether an end mark ended the file.
    """

    next_log_offset: int = 0
    rows: list[rows.Row] = field(default_factory=list)
    closed: bool = True
    ended: bool = False


@dataclass(frozen=True)
class LogJob(ReadJob[ReadSplit]):
    """Job that reads a range of a log; if ``begin`` is inside a record, the next one is the first.

    Attributes:
        messages: The requested messages; a topic is a glob of ``*`` and ``?``.
        edge: Facts about the log as a whole; None: its files alone.
        advance: Called with the physical offset up to which pieces have been yielded.
        ranges: Where wanted messages can lie; None: anywhere.
    """

    log: FileQueue
    delay_levels: DelayLevels
    messages: MessageFilter
    begin: int = field(default=0, kw_only=True)
    end: int | None = field(default=None, kw_only=True)
    split_bytes: int = field(default=SPLIT_BYTES, kw_only=True)
    edge: FoundEdge | None = field(default=None, kw_only=True)
    advance: Callable[[int], None] = field(default=NullProgress().advance, kw_only=True)
    ranges: Ranges | None = field(default=None, kw_only=True)

    @abstractmethod
    def encoder(self, segment: Segment) -> Encoder:
        """Return a new encoder for a split of a file."""

    @cached_property
    def facts(self) -> FoundEdge:
        """Return the facts about the log by which damage is judged."""
        return self.edge or FoundEdge(self.log.segments)

    def walk(self, segment: Segment) -> GapWalk:
        """Return a new walk over a file; gaps are followed to their end."""
        return _RowWalk(segment, LENIENT, self.facts.stale_from)

    def sink(self, split: Split, walk: GapWalk) -> _RowSink:
        """Return a new sink for a split."""
        del walk
        return _RowSink(self, split)


def number_of(segments: Sequence[Segment], segment: Segment) -> int:
    """Return the place of a segment in a log."""
    return segments.index(segment, bisect_left(segments, segment.start, key=attrgetter("start")))


class _RowWalk(GapWalk):
    def parts(self, start: int, stop: int, reach: int | None = None) -> Iterator[MessageBatch | Gap]:
        return super().parts(start, stop, self.segment.stop if reach is None else reach)


def within(ranges: Ranges | None, start: int, stop: int) -> Ranges:
    """Return the ranges to read between two physical offsets of one file; all of it without ranges."""
    if ranges is None:
        return ((start, stop),)
    first = bisect_right(ranges, start, key=itemgetter(1))
    last = bisect_left(ranges, stop, key=itemgetter(0))
    return tuple((max(start, one), min(stop, end)) for one, end in ranges[first:last])


class _RowSink:
    """Sink of one split: kernels encode the plain messages, Python makes rows of the rest."""

    def __init__(self, job: LogJob, split: Split) -> None:
        self._job = job
        self._segment = segment = split.segment
        self._number = number_of(job.facts.segments, segment)
        self._chain = ChainWalk(self._number, job.facts)
        self._make = MessageRows(job.log, job.delay_levels)
        self._encoder = job.encoder(segment)
        self._done = ReadSplit(split, None)

    def result(self, read: SplitRead) -> ReadSplit:
        """Return the rows."""
        self._done = done = replace(self._done, **vars(read))
        if read.first_log_offset is None:
            return done
        done.next_log_offset = read.log_offset
        if read.outcome is Outcome.FILE_END:
            self._add_events(read.log_offset)
        if read.unreadable:
            self._encoder = self._job.encoder(self._segment)
            first = read.first_log_offset
            self._done = done = ReadSplit(**vars(read), next_log_offset=first)
            self._add_events(first, read.split.stop)
        done.rows = self._encoder.finish()
        return done

    def batch(self, batch: MessageBatch) -> None:
        """Encode messages, and name the gaps between them."""
        row = 0
        for gap in batch.gaps:
            self._encode_rows(batch, row, int(gap["row"]))
            self.gap(gap_of(gap))
            row = int(gap["row"])
        self._encode_rows(batch, row, len(batch.rows))

    def _encode_rows(self, batch: MessageBatch, first: int, stop: int) -> None:
        if first < stop:
            self._done.closed = False
        while first < stop:
            if not batch.cut:
                first = self._encoder.encode(batch, first, stop)
            if first < stop:
                self._add_events(int(frame_starts(batch.rows[first])))
                first += 1

    def gap(self, gap: Gap) -> None:
        """Add the rows that name a gap."""
        segment, done = self._segment, self._done
        for defect in classified(gap, segment, self._number, self._job.facts):
            self._encoder.add(self._make.row(defect))
        done.closed = True
        if gap.is_end and gap.stop == segment.stop:
            self._encoder.add(self._make.row(BlankRecord(gap.start, gap.total_size)))
            done.ended = True

    def _add_events(self, log_offset: int, stop: int | None = None) -> None:
        """Add the rows of what lies at ``log_offset``, or from there to ``stop``, read in plain Python."""
        done, stop, later = self._done, log_offset + 1 if stop is None else stop, []
        for event in self._chain.events(log_offset, stop):
            if isinstance(event, Finding) and event.code is codes.IO_UNREADABLE:
                if (event.physical_offset or 0) >= stop:
                    later.append(event)
                else:
                    self._add_unreadable(event)
                continue
            for row in self._make.selected(event, self._job.messages):
                self._encoder.add(row)
            if isinstance(event, BlankRecord):
                done.ended = True
            elif isinstance(event, Record) or not is_of_record(event):
                stop_of_event = event.frame_stop if isinstance(event, Record) else stop_of(event)
                done.next_log_offset = max(done.next_log_offset, stop_of_event)
                done.closed = not isinstance(event, Record)
        for event in later:  # met by reading ahead
            if (event.physical_offset or 0) < done.next_log_offset:
                self._add_unreadable(event)

    def _add_unreadable(self, event: Finding) -> None:
        """Add the row of an unreadable range, unless it goes on from before and has one."""
        if not (event.position or 0) % RETRY_BYTES:
            self._encoder.add(self._make.row(event))


def log_pieces(job: LogJob) -> Iterator[rows.Row]:
    """Yield the rows of a job, in the order of the log."""
    threads = usable_cpus()
    with Threads(threads) as pool:
        for number, segment in enumerate(job.facts.segments):
            if job.end is not None and segment.start >= job.end:
                return
            if segment.stop > job.begin:
                yield from _file_pieces(job, number, pool, 2 * threads)


def _file_pieces(job: LogJob, number: int, pool: Threads, ahead: int) -> Iterator[rows.Row]:
    """Yield pieces of one file, with at most ``ahead`` splits read in advance."""
    segment = job.facts.segments[number]
    lead, log_offset = before_segment(job, number)
    yield from lead
    if log_offset is None:
        return
    end = segment.stop if job.end is None else min(segment.stop, job.end)
    for start, stop in within(job.ranges, log_offset, max(log_offset, end)):
        tasks = [
            SplitTask(job, Split(segment, begin, end_of_split), start if begin == start else None)
            for begin, end_of_split in pairwise([*range(start, stop, job.split_bytes), stop])
        ]
        none = Split(segment, start, start)
        last = ReadSplit(none, start, next_log_offset=start, closed=start == segment.start)
        with closing(read_ahead(tasks, pool, ahead, job.advance)) as results:
            for last in stitch(
                results, start, lambda split, due: read_split(SplitTask(job, split.split, due))
            ):
                yield from last.rows
        yield from after_segment(job, last)


def before_segment(job: LogJob, number: int) -> tuple[list[rows.Row], int | None]:
    """Return the rows before the first split of a file, and the physical offset at which that begins.

    The rows name the bytes missing before the file. Where the job begins inside of it, they go up to the
    first message. The offset is None if there is no split.
    """
    edge, make = job.facts, MessageRows(job.log, job.delay_levels)
    segment = edge.segments[number]
    if segment.start >= job.begin:
        gap = edge.missing_before(number)
        is_named = gap is not None and segment.start > job.begin
        return [make.row(gap)] if gap is not None and is_named else [], segment.start
    lead: list[rows.Row] = []
    for event in ChainWalk(number, edge).run(job.begin, job.end):
        lead += make.selected(event, job.messages)
        if isinstance(event, Record):
            return lead, event.frame_stop
    return lead, None


def after_segment(job: LogJob, last: ReadSplit) -> list[rows.Row]:
    """Return the row of a missing end mark at the end of a file, by the last split that counts."""
    segment = last.split.segment
    is_wanted = job.end is None or segment.stop <= job.end
    if last.ended or last.closed or last.next_log_offset != segment.stop or not is_wanted:
        return []
    return [MessageRows(job.log, job.delay_levels).row(missing_blank(segment))]
