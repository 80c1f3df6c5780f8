"""The work on one split of a log: lines by kernels, rows of what is not plain."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from rmqtool import rows
from rmqtool.releases import LENIENT
from rmqtool.rows.messages import MessageRows
from rmqtool.scan.gaps import Outcome
from rmqtool.scan.line_kernels import Ended, write_lines
from rmqtool.scan.plain_kernels import MAX_PROPERTIES, Wanted
from rmqtool.scan.record_walk import Blank, ChainWalk
from rmqtool.scan.records import Record
from rmqtool.scan.rows import rules_of
from rmqtool.scan.sieve import EARLIEST_MS, LATEST_MS
from rmqtool.scan.walk import SegmentWalk

if TYPE_CHECKING:
    from collections.abc import Callable

    import numpy.typing as npt

    from rmqtool.javacompat import DelayLevels
    from rmqtool.rows.messages import MessageFilter
    from rmqtool.scan.classify import FoundEdge
    from rmqtool.scan.json_kernels import BodyForm
    from rmqtool.scan.record_walk import LogEvent
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
        first_place: Physical offset at which its chain of records begins; None if no record begins in it.
        next_place: Physical offset at which the next split has to begin.
        rows: Lines, and the rows of what is not plain.
        closed: Whether damage, not a message, came last.
        ended: Whether a BLANK ended the file.
    """

    split: LineSplit
    first_place: int | None
    next_place: int = 0
    rows: list[rows.Row] = field(default_factory=list)
    closed: bool = True
    ended: bool = False

    @property
    def split_stop(self) -> int:
        """Return the physical offset behind the split."""
        return self.split.stop


def write_split(split: LineSplit) -> Written:
    """Write the lines and rows of a split."""
    return _Writing(split).run()


class _Writing:
    """The work on one split."""

    def __init__(self, split: LineSplit) -> None:
        rules = rules_of(LENIENT)
        job = split.job
        self._split = split
        self._walk = SegmentWalk(split.segment, rules, stops_at_mismatch=True)
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
        split, done = self._split, self._done
        if done.first_place is None:
            if self._is_hole() or self._walk.find(split.start, split.stop) is Outcome.STOP:
                return done
            done.first_place = self._walk.place
        done.next_place = done.first_place
        while done.next_place < split.stop and not done.ended:
            for batch in self._walk.batches(done.next_place, split.stop):
                self._write(batch)
            done.next_place = self._walk.place
            if self._walk.outcome is Outcome.STOP:
                break
            self._tell(done.next_place, done.next_place + 1)
        if self._walk.unreadable:
            self._done = done = Written(split, done.first_place, done.first_place)
            self._tell(done.next_place, split.stop)
        return done

    def _is_hole(self) -> bool:
        """Whether no byte of the split was ever written, as most of a log's last file."""
        segment = self._split.segment
        return segment.next_data(self._split.start - segment.start) + segment.start >= self._split.stop

    def _write(self, batch: MessageBatch) -> None:
        first = 0
        self._done.closed = False
        while first < len(batch.rows):
            ended, first, size = self._lines(batch, first)
            if size:
                self._done.rows.append(rows.Lines(self._out[:size].tobytes().decode()))
            if ended == Ended.FULL and not size:
                self._out = np.empty(2 * len(self._out), np.uint8)
            if ended == Ended.ODD:
                place = int(batch.rows[first]["place"])
                self._tell(place, place + 1)
                first += 1

    def _lines(self, batch: MessageBatch, first: int) -> tuple[Ended, int, int]:
        if batch.cut:
            return Ended.ODD, first, 0
        ended, first, size = write_lines(
            batch.buffer,
            batch.rows,
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

    def _tell(self, place: int, stop: int) -> None:
        """Add the rows of what lies from ``place`` to ``stop``, read in plain Python."""
        done = self._done
        for event in self._chain.events(place, stop):
            if not isinstance(event, Record) or self._split.job.messages.admits(event):
                done.rows.append(self._make.row(event))
            if isinstance(event, Blank):
                done.ended = True
            elif isinstance(event, Record) or event.ends_chain or not event.of_record:
                done.next_place = max(done.next_place, _end_of(event))
                done.closed = not isinstance(event, Record)


def _end_of(event: LogEvent) -> int:
    if isinstance(event, Record):
        return event.physical_offset + len(event.raw)
    return event.physical_offset + (event.total_size if isinstance(event, Blank) else event.length)


def _bytes(text: str) -> npt.NDArray[np.uint8]:
    return np.frombuffer(text.encode(), np.uint8)


def _wanted(job: LineJob) -> npt.NDArray[np.int64]:
    messages = job.messages
    wanted = np.zeros(len(Wanted), np.int64)
    wanted[Wanted.BEGIN_MS] = EARLIEST_MS if messages.begin_ms is None else messages.begin_ms
    wanted[Wanted.END_MS] = LATEST_MS if messages.end_ms is None else messages.end_ms
    wanted[Wanted.QUEUE_OFFSET] = (
        EARLIEST_MS if messages.from_queue_offset is None else messages.from_queue_offset
    )
    wanted[Wanted.HAS_QUEUE] = messages.queue_id is not None
    wanted[Wanted.QUEUE_ID] = messages.queue_id or 0
    wanted[Wanted.HAS_TOPIC] = messages.topic is not None
    wanted[Wanted.HAS_TAG] = messages.tag is not None
    wanted[Wanted.HAS_KEY] = messages.key is not None
    wanted[Wanted.ODD_FLAGS] = job.odd_flags
    wanted[Wanted.BODY] = job.body
    return wanted
