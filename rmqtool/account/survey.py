"""One pass over a log: runs of queue offsets, and bytes without an intact record."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np

from rmqtool.account.lost import OffsetGaps
from rmqtool.findings import Finding, codes, counted
from rmqtool.formats.message import PLACED_STARTS, Outcome
from rmqtool.kernels.compare import are_among
from rmqtool.kernels.continuity import (
    RUN_ROW,
    STATE_WIDTH,
    QueueProgress,
    RunState,
    follow_places,
    follow_rows,
    judge_last,
)
from rmqtool.kernels.rows import frame_starts, frame_stops
from rmqtool.kernels.totals import QueueTotals
from rmqtool.releases import LENIENT
from rmqtool.scan.gap_walk import GapWalk
from rmqtool.scan.records import Gap
from rmqtool.store.segments import ENDLESS

if TYPE_CHECKING:
    from collections.abc import Container, Iterator, Mapping, Sequence

    from rmqtool.arrays import Bools, Int64s, Rows
    from rmqtool.genuine.reading import Reading
    from rmqtool.genuine.records import LogCopy
    from rmqtool.kernels.rows import MessageBatch
    from rmqtool.store.segments import FileQueue, Segment


@dataclass(frozen=True)
class SurveyedLog:
    """Content of a log, and its gaps.

    Attributes:
        gaps: queue offsets between those of its intact records.
        runs: queue offsets that follow each other, by topic and queue id, ``(n,)`` of ``RUN_ROW``.
        starts: ``(n,)`` ascending, physical offsets at which bytes without an intact record begin; those
            between files and after the last are among them.
        stops: ``(n,)``, physical offsets at which such bytes end; ranges neither touch nor overlap.
        blanks: ``(k, 2)`` ascending, start and stop of the end marks, which are among those bytes.
        displaced: ``(m,)`` physical offsets of records that claim to lie elsewhere, likewise.
        claims: ``(m,)`` where they claim to lie.
        latest_ms: highest store time of its records; None without any.
        log: the log itself.
        records: how many intact records it has.
        marked: of them, those at or after the place that the survey was to mark.
        false: ``(f,)`` physical offsets of false frames, though they lie where they say.
        unreached: ``(u,)`` those of intact records beyond a broker's walk: below a false frame, or in
            a file under another's name.
        unreached_bytes: their size.
        goes_back: whether store times do.
        undecided: ``(d,)`` of the false frames those that only their own checksum contradicts.
        unplaced: ``(p, 2)`` ascending, start and stop of the records that are not in the queue they name.
        readable: ``(r, 2)`` ascending, places of the other records that are not as stored, and how many
            messages each has; none of a log that nothing points to damage of.
        foreign: labels of files that are those of another log, and from which physical offset on.
    """

    gaps: OffsetGaps
    runs: Mapping[tuple[str, int], Rows]
    starts: Int64s
    stops: Int64s
    blanks: Int64s
    displaced: Int64s
    claims: Int64s
    latest_ms: int | None
    log: FileQueue
    records: int
    marked: int
    false: Int64s | None
    unreached: Int64s
    unreached_bytes: int
    goes_back: bool
    undecided: Int64s
    unplaced: Int64s
    readable: Int64s
    foreign: Mapping[str, int]

    @property
    def start(self) -> int:
        """Return the physical offset of its first byte."""
        return self.log.start

    @property
    def is_odd(self) -> bool:
        """Whether anything but records that follow each other, and end marks, lies before the end."""
        ends_odd = self.goes_back or len(self.displaced) > 0 or self.gaps.offsets > 0
        blanks = self.blanks[self.blanks[:, 0] < self.end]
        holes = int(self._sums[-1]) - int((blanks[:, 1] - blanks[:, 0]).sum())
        return ends_odd or holes > 0 or any(len(runs) > 1 for runs in self.runs.values())

    @property
    def end(self) -> int:
        """Return the physical offset after the last intact record."""
        return int(self.starts[-1])

    def without_record(self, physical_offsets: Int64s) -> Bools:
        """Return which places, ``(n,)``, lie in bytes without an intact record, or before the log."""
        number = np.searchsorted(self.starts, physical_offsets, "right") - 1
        is_free = (number >= 0) & (physical_offsets < self.stops[number])
        return np.asarray(is_free | (physical_offsets < self.start))

    def is_free(self, physical_offsets: Int64s, sizes: Int64s) -> Bools:
        """Return which ranges, ``(n,)``, lie in bytes without an intact record from end to end."""
        number = np.searchsorted(self.starts, physical_offsets, "right") - 1
        return np.asarray((number >= 0) & (physical_offsets + sizes <= self.stops[number]))

    def meets_unplaced(self, physical_offsets: Int64s, sizes: Int64s) -> Bools:
        """Return which ranges, ``(n,)``, meet a record that is not in the queue it names."""
        number = np.searchsorted(self.unplaced[:, 1], physical_offsets, "right")
        starts = np.append(self.unplaced[:, 0], ENDLESS)[number]
        return np.asarray(starts < physical_offsets + sizes)

    def holds_none(self, physical_offsets: Int64s, sizes: Int64s) -> Bools:
        """Return which ranges, ``(n,)``, meet neither an intact record nor an end mark."""
        number = np.searchsorted(self.blanks[:, 1], physical_offsets, "right")
        starts = np.append(self.blanks[:, 0], ENDLESS)[number]
        return self.is_free(physical_offsets, sizes) & (physical_offsets + sizes <= starts)

    def room(self, start: int, stop: int) -> int:
        """Return the bytes between two places that neither an intact record nor an end mark takes."""
        first, last = np.searchsorted(self.blanks[:, 0], [start, stop])
        blank = int((self.blanks[first:last, 1] - self.blanks[first:last, 0]).sum())
        return self._free_before(stop) - self._free_before(start) - blank

    def _free_before(self, place: int) -> int:
        number = int(np.searchsorted(self.starts, place, "left")) - 1
        if number < 0:
            return 0
        whole = int(self._sums[number])
        return whole + min(place, int(self.stops[number])) - int(self.starts[number])

    @cached_property
    def _sums(self) -> Int64s:
        """Bytes of the ranges before each."""
        lengths = (self.stops - self.starts)[:-1]  # the last has no end
        return np.concatenate([np.zeros(1, np.int64), np.cumsum(lengths)])


class OffsetWalk:
    """Follows the queue offsets along a log, and adds its records up by queue, in ``queues``."""

    def __init__(self, *, from_zero: bool) -> None:
        self._from_zero = from_zero
        self.queues = QueueTotals()
        self._states: Int64s = np.zeros((0, STATE_WIDTH), np.int64)
        self._runs: list[Rows] = []

    def add(self, batch: MessageBatch) -> None:
        """Take messages, in log order."""
        numbers = self.queues.add(batch)
        self._make_room(len(self.queues.table.rows))
        runs = np.empty(len(batch.rows), RUN_ROW)  # each record ends one run at most
        filled = follow_rows(batch, numbers, self._states, runs)
        if filled:
            self._runs.append(runs[:filled].copy())

    def add_found(self, copy: LogCopy, unplaced: Int64s) -> None:
        """Take the records of a survey, but for those at some places; `runs` then has its queues' numbers."""
        self._make_room(len(copy.queues))
        starts = np.ascontiguousarray(copy.records["log_offset"])
        for first in range(0, len(copy.units), _FOLLOWED):
            units = copy.units[first : first + _FOLLOWED]
            units = units[~units["light"] & ~are_among(units["log_offset"], unplaced)]
            stops = frame_stops(copy.records[np.searchsorted(starts, units["log_offset"])])
            columns = (units[name] for name in ("queue", "queue_offset", "count", "log_offset"))
            places = np.stack([*columns, stops], axis=1, dtype=np.int64)
            runs = np.empty(len(units), RUN_ROW)
            self._runs.append(runs[: follow_places(places, self._states, runs)].copy())

    def _make_room(self, queues: int) -> None:
        missing = queues - len(self._states)
        if missing > 0:
            more = np.zeros((missing, STATE_WIDTH), np.int64)
            more[:, QueueProgress.STARTED] = self._from_zero
            self._states = np.concatenate((self._states, more))

    def finish(self) -> OffsetGaps:
        """Return the count of missing queue offsets; nothing can be taken after that."""
        runs = np.empty(2 * len(self._states), RUN_ROW)
        self._runs.append(runs[: judge_last(self._states, runs)])
        missing = self._states[:, RunState.MISSING]
        return OffsetGaps(int(missing.sum()), int(np.count_nonzero(missing)))

    def runs(self, keys: Sequence[tuple[str, int]] = ()) -> dict[tuple[str, int], Rows]:
        """Return the runs of each queue in log order, ``(n,)`` of ``RUN_ROW``, once it is finished."""
        runs = np.concatenate([np.empty(0, RUN_ROW), *self._runs])
        runs = runs[np.argsort(runs["queue"], kind="stable")]
        bounds = np.searchsorted(runs["queue"], np.arange(len(self._states) + 1))
        by_queue: dict[tuple[str, int], Rows] = {}
        for number, key in enumerate(keys or [key for key, _ in self.queues]):
            mine = runs[bounds[number] : bounds[number + 1]]
            if len(mine):
                by_queue[key] = np.concatenate((by_queue[key], mine)) if key in by_queue else mine
        return by_queue


@dataclass
class Surveyor:
    """A survey in the making: what is fed to it must come in log order.

    Attributes:
        log: whose.
        reached: physical offset up to which it was taken in.
        records: how many intact records were taken.
        mark: how many had been taken when the place was reached from which on they are counted, too.
        reading: what the evidence bears out; None: what lies there.
        moved: labels of the files that are read as others.
    """

    log: FileQueue
    reading: Reading | None = None
    moved: Container[str] = ()
    reached: int = 0
    records: int = 0
    mark: int | None = None
    _offsets: OffsetWalk = field(init=False)
    _ranges: list[Int64s] = field(default_factory=list)
    _blanks: list[tuple[int, int]] = field(default_factory=list)
    _displaced: list[Int64s] = field(default_factory=lambda: [np.empty((0, 2), np.int64)])
    _latest_ms: int | None = None
    _goes_back: bool = False
    _unreached: list[Int64s] = field(default_factory=lambda: [np.empty(0, np.int64)])
    _unreached_bytes: int = 0
    _covered: int = 0

    def __post_init__(self) -> None:
        self._offsets = OffsetWalk(from_zero=self.log.start == 0)

    def batches(self, segment: Segment, start: int, stop: int) -> Iterator[MessageBatch]:
        """Yield the intact records of a part of a file, and take them."""
        walk = GapWalk(segment, LENIENT, false=self.false)
        self.reached = stop
        first = walk.guess(start, stop)
        self._add(start, stop if first is None else first)
        for part in () if first is None else walk.parts(first, stop):
            if isinstance(part, Gap):
                self._add(part.start, part.stop)
                is_false = self.false is not None and segment.framing.record_at(part.start) in self.false
                if is_false and part.start >= self._covered:
                    self._covered = segment.framing.frame_stop(part.start, part.total_size)
            elif len((batch := self._true(part)).rows):
                self._offsets.add(self._placed(batch))
                self._count(batch.rows, is_moved=segment.label in self.moved)
                yield batch
        if walk.outcome is Outcome.FILE_END:
            self._add(walk.log_offset, stop)
            if self.reading is None or segment.label not in self.reading.foreign:
                self._blanks.append((walk.log_offset, segment.stop))

    @property
    def false(self) -> Int64s | None:
        """Return the physical offsets of frames that are none."""
        return None if self.reading is None else self.reading.false

    def _placed(self, batch: MessageBatch) -> MessageBatch:
        """Return the records of a batch whose place in their queue nothing contradicts."""
        if self.reading is None or not len(self.reading.unplaced):
            return batch
        placed = ~are_among(batch.rows["log_offset"], self.reading.unplaced[:, 0])
        return batch.only(placed)

    def _count(self, rows: Rows, *, is_moved: bool) -> None:
        self.records += len(rows)
        times = rows["store_timestamp_ms"]
        latest_ms = int(times.max())
        before = latest_ms if self._latest_ms is None else self._latest_ms
        self._goes_back |= int(times[0]) < before and self._latest_ms is not None
        self._goes_back |= bool((times[1:] < times[:-1]).any())
        self._latest_ms = max(latest_ms, before)
        if is_moved or self._covered > rows["log_offset"][0]:
            below = rows if is_moved else rows[rows["log_offset"] < self._covered]
            self._unreached.append(below["log_offset"].copy())
            self._unreached_bytes += int(below["total_size"].sum())

    def pass_over(self, start: int, stop: int) -> None:
        """Take all of a range in, without reading it closer."""
        for segment in self.log:
            if segment.stop > start and segment.start < stop:
                for _ in self.batches(segment, max(start, segment.start), min(stop, segment.stop)):
                    pass
                segment.close()

    def finish(self) -> SurveyedLog:
        """Return the results; nothing can be taken after that."""
        self._add(self.log.stop, ENDLESS)
        for segment, two in pairwise(self.log.segments):
            self._add(segment.stop, two.start)
        ranges = np.concatenate(self._ranges)
        ranges = ranges[np.argsort(ranges[:, 0], kind="stable")]
        reach = np.maximum.accumulate(ranges[:, 1])
        first = np.concatenate([[True], ranges[1:, 0] > reach[:-1]])
        last = np.concatenate([first[1:], [True]])
        gaps = self._offsets.finish()
        runs = self._offsets.runs()
        blanks = np.array(sorted(self._blanks), np.int64).reshape(-1, 2)
        displaced, read = np.concatenate(self._displaced), self.reading
        return SurveyedLog(
            gaps=gaps,
            runs=runs,
            starts=ranges[first, 0],
            stops=reach[last],
            blanks=blanks,
            displaced=displaced[:, 0],
            claims=displaced[:, 1],
            latest_ms=self._latest_ms,
            log=self.log,
            records=self.records,
            marked=0 if self.mark is None else self.records - self.mark,
            false=self.false,
            unreached=np.concatenate(self._unreached),
            unreached_bytes=self._unreached_bytes,
            goes_back=self._goes_back,
            undecided=_NOTHING if read is None else read.undecided,
            unplaced=_NO_RANGES if read is None else read.unplaced,
            readable=_NO_RANGES if read is None else read.readable,
            foreign={} if read is None else read.foreign,
        )

    def _add(self, start: int, stop: int) -> None:
        if start < stop:
            self._ranges.append(np.array([[start, stop]], np.int64))

    def _true(self, batch: MessageBatch) -> MessageBatch:
        """Return the intact records of a batch; other bytes hold none."""
        rows = batch.rows
        if len(batch.gaps):
            self._ranges.append(np.column_stack((batch.gaps["start"], batch.gaps["stop"])))
        true = rows["log_offset"] == rows["physical_offset"]
        if self.false is not None:
            true &= ~are_among(rows["log_offset"], self.false)
        if true.all():
            return batch
        others = rows[~true]
        strange = others["log_offset"] != others["physical_offset"]
        self._displaced.append(
            np.column_stack((others["log_offset"][strange], others["physical_offset"][strange]))
        )
        self._ranges.append(np.column_stack((frame_starts(others), frame_stops(others))))
        return batch.only(true)


def survey(
    log: FileQueue,
    marked_from: int | None = None,
    reading: Reading | None = None,
    moved: Container[str] = (),
) -> SurveyedLog:
    """Read all of a log.

    Records from physical offset ``marked_from`` on are counted by themselves, too; ``moved`` are labels of
    the files that are read as others.
    """
    made = Surveyor(log, reading, moved)
    if marked_from is not None and marked_from < log.stop:
        made.pass_over(log.start, max(log.start, marked_from))
        made.mark = made.records
        made.pass_over(max(log.start, marked_from), log.stop)
    else:
        made.pass_over(log.start, log.stop)
    return made.finish()


_NOTHING, _NO_RANGES = np.empty(0, np.int64), np.empty((0, 2), np.int64)
_FOLLOWED = 1 << 20
"""Units that are followed at a time."""


def survey_of(reading: Reading, marked_from: int | None = None) -> SurveyedLog:
    """Return what `survey` does, of a log that was read whole by evidence, and lies where its names say."""
    copy = reading.copy
    log, rows = copy.log, copy.records
    places, times = np.ascontiguousarray(rows["log_offset"]), rows["store_timestamp_ms"]
    ends = np.concatenate([[log.start], frame_stops(rows)])
    nexts = np.concatenate([frame_starts(rows), [ENDLESS]])
    is_free = nexts > ends
    blanks = [
        (at, segment.stop)
        for at in copy.blanks.values()
        if (segment := log.segment_at(at)) is not None and segment.label not in reading.foreign
    ]
    walk = OffsetWalk(from_zero=log.start == 0)
    walk.add_found(copy, reading.unplaced[:, 0])
    gaps = walk.finish()
    below = np.zeros(len(places), np.bool_)
    for start, stop in _frames(log, reading.false):
        low, high = np.searchsorted(places, [start + 1, stop])
        below[low:high] = True
    return SurveyedLog(
        gaps=gaps,
        runs=walk.runs(copy.queues) if copy.queues else {},
        starts=ends[is_free],
        stops=nexts[is_free],
        blanks=np.array(sorted(blanks), np.int64).reshape(-1, 2),
        displaced=copy.displaced[:, 0],
        claims=copy.displaced[:, 1],
        latest_ms=int(times.max()) if len(times) else None,
        log=log,
        records=len(rows),
        marked=0 if marked_from is None else int(np.count_nonzero(places >= marked_from)),
        false=reading.false,
        unreached=places[below],
        unreached_bytes=int(rows["total_size"][below].sum()),
        goes_back=bool((times[1:] < times[:-1]).any()),
        undecided=reading.undecided,
        unplaced=reading.unplaced,
        readable=reading.readable,
        foreign=reading.foreign,
    )


def _frames(log: FileQueue, false: Int64s) -> Iterator[tuple[int, int]]:
    """Yield start and stop of false frames, but for those in others."""
    reach = 0
    for place in false.tolist():
        segment = log.segment_at(place)
        if segment is not None and place >= reach:
            data = segment.read_at(place - segment.start, PLACED_STARTS.size, [])
            reach = segment.framing.frame_stop(
                place - segment.framing.lead, PLACED_STARTS.padded(data).total_size
            )
            yield place, reach


def unreached_words(surveyed: SurveyedLog) -> str:
    """Return how many records no walk of a broker reaches, and why."""
    places, undecided = surveyed.unreached, surveyed.undecided
    records = counted(len(places), "whole record", spec=",")
    words = (
        f"{records} of the log, the first at {places[0]}, below a damaged frame, or in a file under another's"
        " name: no walk of a broker reaches them"
    )
    if not len(undecided):
        return words
    frames = counted(len(undecided), "frame", spec=",")
    return (
        f"{words}; of {frames}, the first at {undecided[0]}, nothing decides whether it is an intact record"
    )


def unreached_finding(surveyed: SurveyedLog) -> Finding:
    """Return that a log has records which no walk of a broker reaches."""
    from rmqtool.scan.classify import HIDDEN_REMEDY  # few logs need it

    return Finding(
        code=codes.CL_PHY_MISMATCH,
        physical_offset=int(surveyed.unreached[0]),
        observed=len(surveyed.unreached),
        message=unreached_words(surveyed),
        remedy_override=HIDDEN_REMEDY,
    )
