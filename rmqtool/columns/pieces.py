"""Parts of a large log: those that can hold the messages of a filter, and pieces of them for tasks.

``export``'s files and Spark's partitions are made of pieces. No structure alone rules a part out. Files are
left out by the store times that they begin with, if these ascend over the whole log. Parts of files are left
out where the units of all queues lie end to end over them, record by record, and none of those records is of
a wanted queue. A missing, repeated, cut or altered unit leaves a hole there, and holes are read; so are
records that no broker gives a unit. Samples of records of every queue test the units; if one does not agree,
all is read. A key alone rules nothing out: ``query`` looks it up.

To read the log itself, name its directory, not the store.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import accumulate, chain, pairwise
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from rmqtool.columns.encoder import COLUMN_SPLIT_BYTES, ColumnJob
from rmqtool.derived.queues import queues_of
from rmqtool.formats.consumequeue import PREBLANK_SIZE
from rmqtool.rows.log_splits import Ranges, ReadSplit, before_segment, number_of, within
from rmqtool.scan.classify import FoundEdge
from rmqtool.scan.log_pass import Split, SplitTask, read_split
from rmqtool.scan.record_walk import first_record
from rmqtool.scan.records import record_at
from rmqtool.store.kinds import UNIT_QUEUE_KINDS, PathKind
from rmqtool.topics import LMQ_PREFIX

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from rmqtool import rows
    from rmqtool.arrays import Bools, Int64s
    from rmqtool.columns import ColumnChoice
    from rmqtool.derived.queues import Queue
    from rmqtool.progress import Progress
    from rmqtool.rows.messages import MessageFilter
    from rmqtool.store import Segment, Store

TASK_BYTES = 256 << 20
"""Bytes that one task reads; smaller files of the log are combined."""


def log_job(
    store: Store, messages: MessageFilter, begin: int | None, end: int | None, choice: ColumnChoice
) -> ColumnJob:
    """Return the job that reads columns of a store's log between two physical offsets."""
    levels, edge = store.settings.delay_levels, FoundEdge.of(store)
    return ColumnJob(store.own_log, levels, messages, choice, begin=begin or 0, end=end, edge=edge)


class LogPiece(NamedTuple):
    """Split of a log for a task of its own.

    ``first`` is the physical offset of the first record, None if that is to be found; ``range`` is the part
    of the file that it belongs to; ``lead`` are rows of bytes before the first piece of a file.
    """

    split: Split
    first: int | None
    range: tuple[int, int]
    lead: tuple[rows.Row, ...] = ()


def trimmed(job: ColumnJob, pieces: Sequence[LogPiece]) -> ColumnJob:
    """Return a job with the files alone that pieces read or judge gaps by."""
    facts = job.facts
    last = len(facts.segments) - 1
    own = {number_of(facts.segments, piece.split.segment) for piece in pieces}
    wanted = {min(max(number + by, 0), last) for number in own for by in (-1, 0, 1)}
    segments = tuple(facts.segments[number] for number in sorted(wanted | {facts.last}))
    log = replace(job.log, segments=segments, strays=())
    return replace(job, log=log, edge=replace(facts, segments=segments))


def pieces_of(
    job: ColumnJob, task_bytes: int, ranges: Ranges | None = None
) -> tuple[list[tuple[LogPiece, ...]], list[rows.Row]]:
    """Return the pieces of each task, and rows of files of the log in which nothing is to be read.

    Only a piece that is alone in its task may lack its first record. Files outside of the wanted offsets are
    not read. ``ranges`` are where wanted messages can lie; None is anywhere.
    """
    tasks = _Tasks(task_bytes)
    others: list[rows.Row] = []
    for number, segment in enumerate(job.facts.segments):
        if segment.stop <= job.begin or (job.end is not None and segment.start >= job.end):
            continue
        lead, start = before_segment(job, number)
        stop = segment.stop if job.end is None else min(segment.stop, job.end)
        parts = () if start is None else within(ranges, start, max(start, stop))
        if not parts:
            others.extend(lead)
        for part in parts:
            tasks.add(list(_cut(segment, part, tuple(lead), task_bytes)))
            lead = []
    return tasks.finished(), others


class _Tasks:
    def __init__(self, task_bytes: int) -> None:
        self._done: list[tuple[LogPiece, ...]] = []
        self._waiting: list[LogPiece] = []
        self._room = self._task_bytes = task_bytes

    def add(self, pieces: list[LogPiece]) -> None:
        """Add the pieces of one range."""
        size = sum(piece.split.size_bytes for piece in pieces)
        if self._waiting and (len(pieces) > 1 or size > self._room):
            self.finished()
        if len(pieces) > 1:
            self._done.extend((piece,) for piece in pieces)
        else:
            self._waiting += pieces
            self._room -= size

    def finished(self) -> list[tuple[LogPiece, ...]]:
        """Return all tasks."""
        if self._waiting:
            self._done.append(tuple(self._waiting))
        self._waiting, self._room = [], self._task_bytes
        return self._done


def _cut(
    segment: Segment, part: tuple[int, int], lead: tuple[rows.Row, ...], task_bytes: int
) -> Iterator[LogPiece]:
    """Yield the pieces of a part of one file, the first of which begins with a record."""
    start, stop = part
    yield LogPiece(Split(segment, start, min(start + task_bytes, stop)), start, part, lead)
    for begin in range(start + task_bytes, stop, task_bytes):
        yield LogPiece(Split(segment, begin, min(begin + task_bytes, stop)), None, part)


def piece_rows(piece: LogPiece, job: ColumnJob, end: ReadSplit) -> Iterator[rows.Row]:
    """Yield the rows of a piece, split by split, each from the end of the one before; update ``end``."""
    split, due = piece.split, piece.first
    for start, stop in pairwise([*range(split.start, split.stop, COLUMN_SPLIT_BYTES), split.stop]):
        if due is not None and due >= stop:
            continue
        read = read_split(SplitTask(job, Split(split.segment, start, stop), due))
        if read.first_log_offset is None:
            continue
        if end.first_log_offset is None:
            end.first_log_offset = read.first_log_offset
        yield from read.rows
        due = end.next_log_offset = read.next_log_offset
        end.closed, end.ended = read.closed, read.ended
        if read.ended:
            return


CLOCK_SLACK_MS = 3_600_000
"""A broker's clock may have been set back by so much without a message being left out."""


class ReadLimits(NamedTuple):
    """Limits within which it pays to read queues before the log.

    Attributes:
        least_bytes: A smaller log is read as a whole.
        join_bytes: Bytes between two ranges that are read with them, at most.
        window_bytes: Bytes of log that are examined together, unless a file is larger.
        least_units: Units that must lie end to end before they account for what they cover.
        most_read: Where ranges are a larger part of the log than this, all of it is read.
    """

    least_bytes: int = 64 << 20
    join_bytes: int = 1 << 20
    window_bytes: int = 4 << 30
    least_units: int = 8
    most_read: float = 0.5


def ranges_of(
    store: Store,
    wanted: MessageFilter,
    begin: int | None,
    end: int | None,
    progress: Progress,
    limits: ReadLimits | None = None,
) -> Ranges | None:
    """Return where wanted messages can lie: physical offsets ``(start, stop)``, ascending; None: anywhere.

    Each range lies in one file and begins at a record. Only messages from physical offset ``begin`` to before
    ``end`` are wanted. Of a part of a store, the log is read as a whole.
    """
    limits, wanted = limits or ReadLimits(), wanted.as_stored
    log = store.own_log
    segments = list(log.between(begin or 0, log.stop if end is None else end))
    total = sum(segment.size_bytes for segment in segments)
    if (
        PathKind.CONSUMEQUEUE not in store.roots
        or total < limits.least_bytes
        or any(segment.stop > two.start for segment, two in pairwise(segments))
    ):
        return None
    timely = _in_time(log.segments, segments, wanted)
    if (wanted.topic, wanted.queue_id, wanted.from_queue_offset) == (None, None, None):
        ranges: Ranges = tuple((segment.start, segment.stop) for segment in timely)
    else:
        account = QueueCoverage(store, wanted, limits)
        windows = _windows(timely, limits.window_bytes)
        ranges = tuple(range_ for window in windows for range_ in account.ranges(window))
    read = sum(stop - start for start, stop in ranges)
    if read == total:
        return None
    progress.note(f"{read:,} of {total:,} bytes of log can hold a match; the rest is not read")
    return ranges


def _in_time(log: Sequence[Segment], segments: list[Segment], wanted: MessageFilter) -> list[Segment]:
    """Return the files that can hold messages of wanted times; all if the times do not ascend."""
    if wanted.begin_ms is None and wanted.end_ms is None:
        return segments
    times = [_first_time(segment) for segment in log]
    known = [time_ms for time_ms in times if time_ms is not None]
    if any(after < before for before, after in pairwise(known)):
        return segments
    following = [*accumulate(reversed(times), _nearest)][::-1]
    spans = zip(accumulate(times, _nearest), [*following[1:], None], strict=True)
    timely = {segment.start for segment, span in zip(log, spans, strict=True) if _may_hold(wanted, *span)}
    return [segment for segment in segments if segment.start in timely]


def _nearest(other: int | None, own: int | None) -> int | None:
    return other if own is None else own


def _may_hold(wanted: MessageFilter, first_ms: int | None, after_ms: int | None) -> bool:
    """Whether a file can hold wanted messages that begins at one time, and the next file at another."""
    if wanted.end_ms is not None and first_ms is not None and first_ms - CLOCK_SLACK_MS > wanted.end_ms:
        return False
    return wanted.begin_ms is None or after_ms is None or after_ms + CLOCK_SLACK_MS >= wanted.begin_ms


def _first_time(segment: Segment) -> int | None:
    record = first_record([segment])
    segment.close()
    return None if record is None else record.head.store_timestamp_ms


def _windows(segments: list[Segment], window_bytes: int) -> Iterator[list[Segment]]:
    window: list[Segment] = []
    for segment in segments:
        if window and segment.stop - window[0].start > window_bytes:
            yield window
            window = []
        window.append(segment)
    if window:
        yield window


_SIZE_BITS = 31
_SIZES = (1 << _SIZE_BITS) - 1
_TRIED = 512  # records that test units, of wanted queues and of others


class _Units(NamedTuple):
    """Units of one queue: numbers, physical offsets and sizes, ``(n,)`` each."""

    numbers: Int64s
    starts: Int64s
    sizes: Int64s


class _Trial(NamedTuple):
    """A unit to test by its record, whose own number does not matter if the unit has none."""

    queue: Queue
    number: int | None
    start: int
    size: int


class QueueCoverage:
    """Coverage by queues: ranges of the log where wanted messages lie."""

    def __init__(self, store: Store, wanted: MessageFilter, limits: ReadLimits) -> None:
        self._log, self._wanted, self._limits = store.own_log, wanted, limits
        queues = chain.from_iterable(queues_of(store, kind) for kind in UNIT_QUEUE_KINDS)
        own = [queue for queue in queues if not (queue.topic or "").startswith(LMQ_PREFIX)]
        self._asked = [queue for queue in own if wanted.admits_queue(queue.topic, queue.queue_id)]
        self._others = [queue for queue in own if not wanted.admits_queue(queue.topic, queue.queue_id)]

    def ranges(self, window: list[Segment]) -> Ranges:
        """Return where wanted messages can lie in adjacent files: the whole files if they can be anywhere."""
        everything = tuple((segment.start, segment.stop) for segment in window)
        size = sum(stop - start for start, stop in everything)
        if not self._asked:  # only a damaged record has such a topic, or a queue is missing
            return everything
        trials: list[_Trial] = []
        spans, own_keys = self._asked_units(window, trials)
        if self._cells(spans, window[0].start) > self._limits.most_read * size:
            return everything
        keys = np.concatenate([own_keys, *self._other_units(window, trials)])
        if not all(map(self._is_true, trials[:: len(trials) // (4 * _TRIED) + 1])):
            return everything
        keys.sort()
        runs = self._runs(keys, window)
        ranges = tuple(chain.from_iterable(self._ranges_of(segment, runs, spans) for segment in window))
        read = sum(stop - start for start, stop in ranges)
        return ranges if read <= self._limits.most_read * size else everything

    def _cells(self, spans: Int64s, base: int) -> int:
        """Return about how many bytes are read for spans, which need not be in order."""
        width = max(self._limits.join_bytes, 1)
        cells = np.sort((spans[:, 0] - base) // width)
        return int(np.count_nonzero(np.diff(cells)) + 1) * width if len(cells) else 0

    def _asked_units(self, window: list[Segment], trials: list[_Trial]) -> tuple[Int64s, Int64s]:
        """Return where wanted messages lie, ``(n, 2)``, and the keys of all units of their queues."""
        spans: list[Int64s] = [np.empty((0, 2), np.int64)]
        keys: list[Int64s] = [np.empty(0, np.int64)]
        least = self._wanted.from_queue_offset
        for queue in self._asked:
            units = _units_between(queue, window[0].start, window[-1].stop)
            keys.append(_keys(units, window[0].start))
            if least is not None and queue.kind is PathKind.CONSUMEQUEUE:
                units = _some(units, units.numbers >= least)
            spans.append(np.stack([units.starts, units.starts + units.sizes], axis=1))
            trials.extend(_trials(queue, units, _TRIED // (2 * len(self._asked)) + 2))
        return np.concatenate(spans), np.concatenate(keys)

    def _other_units(self, window: list[Segment], trials: list[_Trial]) -> Iterator[Int64s]:
        for queue in self._others:
            units = _units_between(queue, window[0].start, window[-1].stop)
            trials.extend(_trials(queue, units, 2))
            yield _keys(units, window[0].start)

    def _is_true(self, trial: _Trial) -> bool:
        record, queue = record_at(self._log, trial.start), trial.queue
        return (
            record is not None
            and (record.topic, record.head.queue_id) == (queue.topic, queue.queue_id)
            and len(record.raw) == trial.size
            and record.head.physical_offset == trial.start
            and trial.number in {None, record.head.queue_offset}
        )

    def _runs(self, keys: Int64s, window: list[Segment]) -> Int64s:
        """Return where units lie end to end in one file, ``(n, 2)`` physical offsets."""
        base = window[0].start
        starts = base + (keys >> _SIZE_BITS)
        stops = starts + (keys & _SIZES)
        firsts = np.array([segment.start for segment in window])
        file = np.searchsorted(firsts, starts, "right") - 1
        inside = stops <= np.array([segment.stop for segment in window])[file]
        starts, stops, file = starts[inside], stops[inside], file[inside]
        while (clash := stops[:-1] > starts[1:]).any():  # of two that overlap neither counts
            keep = ~(np.append(clash, False) | np.insert(clash, 0, False))
            starts, stops, file = starts[keep], stops[keep], file[keep]
        if not len(starts):
            return np.empty((0, 2), np.int64)
        cuts = np.flatnonzero((stops[:-1] != starts[1:]) | (file[:-1] != file[1:])) + 1
        first, last = np.insert(cuts, 0, 0), np.append(cuts, len(starts)) - 1
        runs = np.stack([starts[first], stops[last]], axis=1)
        return runs[last - first + 1 >= self._limits.least_units]

    def _ranges_of(self, segment: Segment, runs: Int64s, spans: Int64s) -> Ranges:
        """Return the ranges of a file to read: those that no run covers, and wanted messages."""
        own = runs[(runs[:, 0] >= segment.start) & (runs[:, 1] <= segment.stop)]
        holes = np.stack([np.insert(own[:, 1], 0, segment.start), np.append(own[:, 0], segment.stop)], axis=1)
        wanted = spans[(spans[:, 0] >= segment.start) & (spans[:, 1] <= segment.stop)]
        both = np.concatenate([holes[holes[:, 0] < holes[:, 1]], wanted])
        if not len(both):
            return ()
        both = both[np.argsort(both[:, 0], kind="stable")]
        reach = np.maximum.accumulate(both[:, 1])
        cuts = np.flatnonzero(both[1:, 0] > reach[:-1] + self._limits.join_bytes) + 1
        starts, stops = both[np.insert(cuts, 0, 0), 0], reach[np.append(cuts, len(both)) - 1]
        return tuple(zip(starts.tolist(), stops.tolist(), strict=True))


def _keys(units: _Units, base: int) -> Int64s:
    """Return numbers that sort units by their places, and hold their sizes."""
    return (units.starts - base) << _SIZE_BITS | units.sizes


def _some(units: _Units, wanted: Bools) -> _Units:
    return _Units(*(column[wanted] for column in units))


def _trials(queue: Queue, units: _Units, wanted: int) -> Iterator[_Trial]:
    count = len(units.starts)
    numbered = queue.kind is PathKind.CONSUMEQUEUE
    for row in np.unique(np.linspace(0, count - 1, min(wanted, count)).astype(np.int64)).tolist():
        number = int(units.numbers[row]) if numbered else None
        yield _Trial(queue, number, int(units.starts[row]), int(units.sizes[row]))


def _units_between(queue: Queue, start: int, stop: int) -> _Units:
    """Return the units that lead into a range of the log; of a queue out of order, some."""
    parts = [_Units(*(np.empty(0, np.int64) for _ in _Units._fields))]
    for units in queue.units_leading_to(start, stop):
        starts, sizes = units.physical_offsets, units.sizes
        inside = (starts >= start) & (starts < stop) & (sizes < PREBLANK_SIZE)
        parts.append(_some(_Units(units.keys, starts, sizes), inside))
    queue.close()
    return _Units(*map(np.concatenate, zip(*parts, strict=True)))
