"""The work on one split of a log: lines by kernels, rows of what is not plain."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from rmqtool import rows
from rmqtool.formats.message import BLANK_MAGIC
from rmqtool.releases import LENIENT
from rmqtool.rows.messages import MessageRows
from rmqtool.scan.classify import classified
from rmqtool.scan.gap_walk import GapWalk, gap_of
from rmqtool.scan.gaps import Gap, Outcome
from rmqtool.scan.ndjson_kernels import Ended, encode_ndjson
from rmqtool.scan.plain_kernels import MAX_PROPERTIES, RowFilter
from rmqtool.scan.prefilter import EARLIEST_MS, LATEST_MS
from rmqtool.scan.record_walk import Blank, ChainWalk
from rmqtool.scan.records import Record

if TYPE_CHECKING:
    from collections.abc import Callable

    import numpy.typing as npt

    from rmqtool.javacompat import DelayLevels
    from rmqtool.rows.messages import MessageFilter
    from rmqtool.scan.classify import Defect
    from rmqtool.scan.json_kernels import BodyForm
    from rmqtool.scan.log_edge import FoundEdge
    from rmqtool.scan.walk import MessageBatch
    from rmqtool.store import FileQueue, Segment

_SPLIT_BYTES = 4 << 20
_OUT_BYTES = 4 << 20


@dataclass(frozen=True)
class LineJob:
    """What is written.

    Attributes:
        log: The files.
        delay_levels: The broker's delay table.
        messages: Which messages; a topic is a glob of ``*`` and ``?``.
        body: How bodies are written.
        odd_flags: Bits of SYSFLAG whose messages come as rows.
        begin: Physical offset; inside a record the next one is the first.
        end: Physical offset; what begins there or later is not written. None: to the end.
        split_bytes: What one core does at a time.
        edge: What is known of the log as a whole; None: its files alone.
        tell: Told up to which physical offset lines and rows have been yielded.
    """

    log: FileQueue
    delay_levels: DelayLevels
    messages: MessageFilter
    body: BodyForm
    odd_flags: int = 0
    begin: int = 0
    end: int | None = None
    split_bytes: int = _SPLIT_BYTES
    edge: FoundEdge | None = None
    tell: Callable[[int], None] = lambda _: None


@dataclass(frozen=True)
class LineSplit:
    """A range of one file, physical offsets; ``first`` is its first record, None if that is to be found."""

    job: LineJob
    edge: FoundEdge
    number: int
    start: int
    stop: int
    first: int | None = None

    @property
    def segment(self) -> Segment:
        """Return the file."""
        return self.edge.segments[self.number]


@dataclass
class Written:
    """What became of a split.

    Attributes:
        split: What was to be written.
        first_log_offset: Physical offset where its chain of records begins; None if no record begins in it.
        next_log_offset: Physical offset at which the next split has to begin.
        rows: Lines, and the rows of what is not plain.
        closed: Whether damage, not a message, came last.
        ended: Whether a BLANK ended the file.
    """

    split: LineSplit
    first_log_offset: int | None
    next_log_offset: int = 0
    rows: list[rows.Row] = field(default_factory=list)
    closed: bool = True
    ended: bool = False

    @property
    def split_stop(self) -> int:
        """Return the physical offset after the split."""
        return self.split.stop


def write_split(split: LineSplit) -> Written:
    """Write the lines and rows of a split."""
    return _Writing(split).run()


class _Writing:
    """The work on one split."""

    def __init__(self, split: LineSplit) -> None:
        job = split.job
        self._split = split
        self._walk = GapWalk(split.segment, LENIENT, split.edge.stale_from)
        self._chain = ChainWalk(split.number, split.edge)
        self._make = MessageRows(job.log, job.delay_levels)
        self._label = _bytes(json.dumps(split.segment.label))
        self._wanted = _wanted(job)
        messages = job.messages
        self._topic, self._tag = _bytes(messages.topic or ""), _bytes(messages.tag or "")
        self._key = _bytes(messages.key or "")
        self._parts = np.empty((MAX_PROPERTIES, 4), np.int64)
        self._out = np.empty(_OUT_BYTES, np.uint8)
        self._done = Written(split, split.first)

    def run(self) -> Written:
        """Write the split."""
        split, walk, done = self._split, self._walk, self._done
        if done.first_log_offset is None:
            done.first_log_offset = walk.guess(split.start, split.stop)
        if done.first_log_offset is None:
            return done
        for part in walk.parts(done.first_log_offset, split.stop, split.segment.stop):
            if isinstance(part, Gap):
                self._name(part)
            else:
                self._write(part)
        done.next_log_offset = walk.log_offset
        if walk.outcome is Outcome.BLANK:
            self._tell(walk.log_offset)
        if walk.unreadable:
            self._done = done = Written(split, done.first_log_offset, done.first_log_offset)
            self._tell(done.next_log_offset, split.stop)
        return done

    def _write(self, batch: MessageBatch) -> None:
        row = 0
        for gap in batch.gaps:
            self._write_rows(batch, row, int(gap["row"]))
            self._name(gap_of(gap))
            row = int(gap["row"])
        self._write_rows(batch, row, len(batch.rows))

    def _write_rows(self, batch: MessageBatch, first: int, stop: int) -> None:
        if first < stop:
            self._done.closed = False
        while first < stop:
            ended, first, size = self._lines(batch, first, stop)
            if size:
                self._done.rows.append(rows.Lines(self._out[:size].tobytes().decode()))
            if ended == Ended.FULL and not size:
                self._out = np.empty(2 * len(self._out), np.uint8)
            if ended == Ended.ODD:
                self._tell(int(batch.rows[first]["log_offset"]))
                first += 1

    def _name(self, gap: Gap) -> None:
        """Add the rows that say what a gap is."""
        split, done = self._split, self._done
        for defect in classified(gap, split.segment, split.number, split.edge):
            done.rows.append(self._make.row(defect))
        done.closed = True
        if gap.magic == BLANK_MAGIC and gap.stop == split.segment.stop:
            done.rows.append(self._make.row(Blank(gap.start, gap.total_size)))
            done.ended = True

    def _lines(self, batch: MessageBatch, first: int, stop: int) -> tuple[Ended, int, int]:
        if batch.cut:
            return Ended.ODD, first, 0
        ended, first, size = encode_ndjson(
            batch.buffer,
            batch.rows[:stop],
            batch.values,
            first,
            self._split.segment.start,
            self._label,
            self._wanted,
            self._topic,
            self._tag,
            self._key,
            self._parts,
            self._out,
        )
        return Ended(ended), first, size

    def _tell(self, log_offset: int, stop: int | None = None) -> None:
        """Add the rows of what lies at ``log_offset``, or from there to ``stop``, read in plain Python."""
        done = self._done
        for event in self._chain.events(log_offset, log_offset + 1 if stop is None else stop):
            if not isinstance(event, Record) or self._split.job.messages.admits(event):
                done.rows.append(self._make.row(event))
            if isinstance(event, Blank):
                done.ended = True
            elif isinstance(event, Record) or not event.of_record:
                done.next_log_offset = max(done.next_log_offset, _end_of(event))
                done.closed = not isinstance(event, Record)


def _end_of(event: Record | Defect) -> int:
    return event.physical_offset + (len(event.raw) if isinstance(event, Record) else event.length)


def _bytes(text: str) -> npt.NDArray[np.uint8]:
    return np.frombuffer(text.encode(), np.uint8)


def _wanted(job: LineJob) -> npt.NDArray[np.int64]:
    messages = job.messages
    wanted = np.zeros(len(RowFilter), np.int64)
    wanted[RowFilter.BEGIN_MS] = EARLIEST_MS if messages.begin_ms is None else messages.begin_ms
    wanted[RowFilter.END_MS] = LATEST_MS if messages.end_ms is None else messages.end_ms
    wanted[RowFilter.QUEUE_OFFSET] = (
        EARLIEST_MS if messages.from_queue_offset is None else messages.from_queue_offset
    )
    wanted[RowFilter.HAS_QUEUE] = messages.queue_id is not None
    wanted[RowFilter.QUEUE_ID] = messages.queue_id or 0
    wanted[RowFilter.HAS_TOPIC] = messages.topic is not None
    wanted[RowFilter.HAS_TAG] = messages.tag is not None
    wanted[RowFilter.HAS_KEY] = messages.key is not None
    wanted[RowFilter.ODD_FLAGS] = job.odd_flags
    wanted[RowFilter.BODY] = job.body
    return wanted
