"""Levels 2 and 3 of a queue: its units and their fields against the records of the log.

Every unit is looked up by its physical offset among the queue's records; one whose record exists belongs to
the queue. A broker serves what follows it as well, whatever it leads to, up to a unit without size or one at
the log's end or beyond it. Units from there on were left by a truncation, which moves the queue's end and
clears nothing (``MappedFileQueue#truncateDirtyFiles``).
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from rmqtool.check.log_findings import OTHER_TAGS
from rmqtool.check.queue_units import NO_EXT_TIME, Problem, QueueReport
from rmqtool.dispatch.policy import NEVER
from rmqtool.findings import FindingCode, Severity, codes, counted
from rmqtool.kernels.compare import match_units
from rmqtool.kernels.rows import UNKNOWN_QUEUE_OFFSET
from rmqtool.topics import SCHEDULE_TOPIC

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rmqtool.arrays import Array, Bools, Int64s
    from rmqtool.check.expected import ExpectedUnits, QueueCheck, QueueCheckTask, UnitRows
    from rmqtool.derived.queue_files import Units
    from rmqtool.reput.blocks import Block
    from rmqtool.store.segments import Segment


_SECOND_MS = 1000
_INT_MIN, _INT_MAX = -(1 << 31), (1 << 31) - 1
_AND_RECORD = "{observed}, its record {expected}"
_HASH_FOR_TIME = (
    "has a hash of tags, {observed}, for deliver time {expected}: recovery of 4.9.2-4.9.8 wrote it"
)
_REPEAT = "points at a record that already has an earlier unit"
_OTHER_QUEUE = "points at a record of another queue"
_NO_RECORD = "points at an offset where no record begins"


@dataclass
class _Delays:
    held: QueueReport
    shifts: set[int]
    differing: int = 0
    agreeing: int = 0

    @property
    def is_other_table(self) -> bool:
        """Whether one other delay explains them all; delays are whole seconds."""
        return not self.agreeing and len(self.shifts) == 1 and min(self.shifts) % _SECOND_MS == 0


class FieldCheck:
    """Compares the fields of a queue's units with those of their records."""

    def __init__(self, report: QueueReport) -> None:
        self._report = report
        self._delays: _Delays | None = None
        if report.check.topic == SCHEDULE_TOPIC:
            self._delays = _Delays(QueueReport(report.check, report.log.max_per_code), set())

    def check(
        self, units: Units, rows: Int64s, tags: Int64s, times_ms: Int64s, wanted: UnitRows, hits: Int64s
    ) -> None:
        """Compare units, ``rows`` ``(n,)`` of a chunk, with rows ``hits`` of a window of expected ones.

        ``tags`` and ``times_ms`` are as `ExtQueue.resolve` returns them.
        """
        if self._report.check.batch:
            self._check_batch(units, rows, wanted, hits)
            return
        sizes = units.column("size")[rows]
        self._differ(units, rows, sizes, wanted.sizes[hits], "size")
        is_ext = times_ms >= 0
        # An address without an ext unit is a finding of its own.
        for code, chosen in ((codes.CQ_SIZE_TAG, times_ms == NO_EXT_TIME), (codes.CQ_EXT_UNIT, is_ext)):
            self._check_tags(code, units, rows[chosen], tags[chosen], wanted.tags_codes[hits[chosen]])
        if wanted.store_timestamps_ms is not None:
            expected = np.where(is_ext, np.maximum(wanted.store_timestamps_ms[hits], 0), times_ms)
            wrong = times_ms != expected
            message = "has an ext unit of another time"
            self._report.report(Problem(codes.CQ_EXT_UNIT, units, rows[wrong], message))

    def finish(self) -> None:
        """Report once that another delay table explains the deliver times, else each kept finding."""
        delays = self._delays
        if delays is None or not delays.differing:
            return
        if not delays.is_other_table:
            self._report.log.merge(delays.held.log)
            return
        shift_ms = min(delays.shifts)
        sentence = (
            f"{counted(delays.differing, 'deliver time')}, all differing by {shift_ms} ms from the "
            f"messageDelayLevel of level {self._report.check.queue_id + 1}: the broker had another table"
        )
        self._report.add(
            codes.ST_SETTINGS, sentence, severity=Severity.WARNING, expected=0, observed=shift_ms
        )

    def _check_tags(
        self, code: FindingCode, units: Units, rows: Int64s, tags: Int64s, wanted: Int64s
    ) -> None:
        wrong = tags != wanted
        if not wrong.any():
            if self._delays:
                self._delays.agreeing += len(rows)
            return
        observed = tags[wrong]
        message: str | Array = f"{OTHER_TAGS} {_AND_RECORD}"
        if self._delays is not None:
            is_hash = (observed >= _INT_MIN) & (observed <= _INT_MAX)
            message = np.where(is_hash, _HASH_FOR_TIME, f"has deliver time {_AND_RECORD}")
        problem = Problem(code, units, rows[wrong], message, wanted[wrong], observed)
        if self._delays is None:
            self._report.report(problem)
            return
        self._delays.held.report(problem)
        self._delays.differing += int(wrong.sum())
        self._delays.agreeing += int((~wrong).sum())
        shifts = np.unique(tags[wrong] - wanted[wrong])
        self._delays.shifts.update(shifts[:2].tolist())

    def _check_batch(self, units: Units, rows: Int64s, wanted: UnitRows, hits: Int64s) -> None:
        columns = {
            "size": wanted.sizes,
            "tagsCode": wanted.tags_codes,
            "storeTimestamp": wanted.store_timestamps_ms,
            "msgBaseOffset": wanted.queue_offsets,
            "batchSize": wanted.batch_sizes,
        }
        for name, column in columns.items():
            if column is not None:
                self._differ(units, rows, units.column(name)[rows], column[hits], name)

    def _differ(self, units: Units, rows: Int64s, values: Int64s, wanted: Int64s, name: str) -> None:
        code = codes.BQ_BAD_UNIT if self._report.check.batch else codes.CQ_SIZE_TAG
        if (wrong := values != wanted).any():
            message = f"has {name} {_AND_RECORD}"
            self._report.report(Problem(code, units, rows[wrong], message, wanted[wrong], values[wrong]))


_MOST_STRANGE = 3  # units without a record of their queue that are reported one by one
_LONGEST_TAIL = 1 << 20  # units; what a truncation leaves is a few seconds of messages


class _Foreign(NamedTuple):
    """Units of a chunk that do not belong to the queue as far as it was read."""

    units: Units
    rows: Int64s
    is_repeat: Bools

    def where(self, chosen: Bools) -> _Foreign:
        return _Foreign(self.units, self.rows[chosen], self.is_repeat[chosen])

    @property
    def offsets(self) -> Int64s:
        return self.units.column("physicalOffset")[self.rows]


_FILES_RECOVERED = 3


class _ServedEnd:
    """The end of a queue that is cut at physical offset ``log_end``, as a start of a broker finds it.

    Java: ``ConsumeQueue#recover`` reads the last three files up to a unit that is not valid, and
    ``#truncateDirtyLogicFiles`` cuts at the log's end; the same of ``BatchConsumeQueue`` (4.9.8 to 5.5.1).
    """

    def __init__(self, check: QueueCheck, log_end: int) -> None:
        segments = check.files.segments[-_FILES_RECOVERED:] if check.files is not None else ()
        self._from = segments[0].start if segments else 0  # all before are full for a broker
        self._before = {two.start: segment.stop for segment, two in pairwise(segments)}
        self._log_end, self._batch = log_end, check.batch
        self._end = self._from  # of the served units, in bytes

    def serves(self, units: Units, *, are_known: bool) -> Bools:
        """Return which units of the next chunk a broker serves, ``(n,)``; known are those with a record."""
        start = units.segment.start + units.position
        if are_known and (start < self._from or start == self._end):
            self._end = max(self._end, start + len(units) * units.unit_size)
            return np.ones(len(units), np.bool_)
        offsets = units.column("physicalOffset")
        serves = (offsets >= 0) & (units.column("size") > 0) & (offsets < self._log_end)
        if self._batch:
            serves &= (units.column("msgBaseOffset") >= 0) & (units.column("batchSize") > 0)
        if start < self._from:
            return serves
        if self._end == self._before.get(start):
            self._end = start
        if start != self._end:
            return np.zeros(len(units), np.bool_)
        served: Bools = np.logical_and.accumulate(serves)
        self._end += int(served.sum()) * units.unit_size
        return served


class UnitMatch:
    """Matches the units of one queue with records.

    ``matched`` are the numbers of the first and the last expected row that a unit matched, -1 if none did.
    """

    def __init__(
        self,
        report: QueueReport,
        task: QueueCheckTask,
        expected: ExpectedUnits,
        unmatched: UnmatchedUnits,
    ) -> None:
        self._report, self._task, self._expected, self._unmatched = report, task, expected, unmatched
        self._fields = FieldCheck(report)
        self._live_from: Segment | None = None  # file of the first unit at or above the log's start
        self._expired: list[tuple[Units, int]] = []
        self._expired_count = 0
        self._tail: list[_Foreign] = []
        self._real = self._strange = 0  # units that lead into the log, and to no record of the queue
        self._first: Problem | None = None
        self._end = _ServedEnd(report.check, NEVER if task.live else task.log_end)
        self.matched = -1, -1

    def feed(self, units: Units, real: Int64s, tags: Int64s, times_ms: Int64s) -> int | None:
        """Look up the real units of a chunk; return the number of the last that counts, or None."""
        offsets = units.column("physicalOffset")[real]
        first = self._skip_expired(units, real, offsets)
        confirmed = units.first_number + int(real[first - 1]) if first else None
        chosen: Int64s = np.arange(first, len(real))
        if self._task.live:  # later than the reading of the log
            chosen = chosen[offsets[first:] < self._task.log_end]
        rows = real[chosen]
        matched, belongs, places = self._look_up(units, rows, offsets[chosen], tags[chosen], times_ms[chosen])
        self._misplaced(units, rows, places, belongs & (places != units.first_number + rows))
        if belongs.any():
            numbers = matched[belongs]
            first = int(numbers.min())
            first = first if self.matched[0] < 0 else min(self.matched[0], first)
            self.matched = first, max(self.matched[1], int(numbers.max()))
        are_known = len(rows) == len(units) and bool(belongs.all())
        counting = np.flatnonzero(belongs | self._end.serves(units, are_known=are_known)[rows])
        if len(counting):
            confirmed = units.first_number + int(rows[counting[-1]])
        is_inside = offsets[chosen] < self._task.log_end
        strange = rows[is_inside & (matched < 0)]
        self._real, self._strange = self._real + int(is_inside.sum()), self._strange + len(strange)
        if len(strange) and self._first is None:
            self._first = Problem(codes.CQ_SUPERFLUOUS, units, strange, _OTHER_QUEUE)
        self._settle(_Foreign(units, rows[~belongs], matched[~belongs] >= 0), confirmed)
        return confirmed

    def finish(self) -> None:
        """Report the units after the last one that counts."""
        self._fields.finish()
        self._tell_expired()
        are_strange = self._strange > _MOST_STRANGE and 2 * self._strange > self._real
        if are_strange and self._task.is_log_sound and self._first is not None:
            self._unmatched.drop(self._report)
            self._report.of_another_queue(self._first, self._strange, self._real)
            return
        if self._task.log_cut:
            self._foreign_all()
        if self._tail:
            count = sum(len(piece.rows) for piece in self._tail)
            self._report.stale_tail(self._tail[0].units, int(self._tail[0].rows[0]), count)

    def _skip_expired(self, units: Units, real: Int64s, offsets: Int64s) -> int:
        """Count the units of expired messages at the queue's head; return how many of the chunk are."""
        if self._live_from is not None:
            return 0
        live = np.flatnonzero(offsets >= self._task.log_start)
        count = int(live[0]) if len(live) else len(real)
        self._live_from = units.segment if len(live) else None
        if count:
            self._expired_count += count
            self._expired = [*self._expired[:1], (units, int(real[count - 1]))]
            if len(self._expired) == 1:
                self._expired.insert(0, (units, int(real[0])))
        return count

    def _look_up(
        self, units: Units, rows: Int64s, offsets: Int64s, tags: Int64s, times_ms: Int64s
    ) -> tuple[Int64s, Bools, Int64s]:
        """Return rows among all expected ones, whether a unit belongs, and queue offsets.

        A unit belongs if it is the first of its record or is at its place.
        """
        matched, places = np.full(len(rows), -1, np.int64), np.full(len(rows), -1, np.int64)
        belongs = np.zeros(len(rows), np.bool_)
        numbers = units.first_number + rows
        for window, tried in self._expected.by_window(offsets):
            wanted = self._expected.rows(window)
            hits, is_repeat = np.empty(len(tried), np.int64), np.empty(len(tried), np.bool_)
            seen = self._expected.seen(window)
            match_units(offsets[tried], wanted.physical_offsets, seen, hits, is_repeat)
            self._expected.flush(window)
            at, hit = tried[hits >= 0], hits[hits >= 0]
            matched[at] = hit + self._expected.firsts[window]
            anywhere = (wanted.queue_offsets[hit] == UNKNOWN_QUEUE_OFFSET) | self._report.check.batch
            places[at] = np.where(anywhere, numbers[at], wanted.queue_offsets[hit])
            in_place = (places[at] == numbers[at]) & ~anywhere
            belongs[at] = own = in_place | ~is_repeat[hits >= 0]
            self._fields.check(units, rows[at[own]], tags[at[own]], times_ms[at[own]], wanted, hit[own])
        return matched, belongs, places

    def _misplaced(self, units: Units, rows: Int64s, places: Int64s, is_misplaced: Bools) -> None:
        ahead = places - (units.first_number + rows)
        is_misplaced = is_misplaced & ~((ahead > 0) & (ahead <= self._report.check.skipped))
        if self._task.level < 3 or not is_misplaced.any():
            return
        numbers = units.first_number + rows
        is_appended = is_misplaced & (places == 0)
        for chosen, said, severity in (
            (is_misplaced & ~is_appended, "", None),
            (is_appended, ", which a broker appends where the queue ends", Severity.WARNING),
        ):
            columns = rows[chosen], f"has a record of queue offset {{expected}}{said}", places[chosen]
            self._report.report(Problem(codes.CQ_MISPLACED, units, *columns, numbers[chosen], severity))

    def _settle(self, foreign: _Foreign, confirmed: int | None) -> None:
        """Report foreign units before one that belongs; keep those after it."""
        if confirmed is not None:
            self._foreign_all()
        numbers = foreign.units.first_number + foreign.rows
        is_early = numbers <= (-1 if confirmed is None else confirmed)
        self._foreign(foreign.where(is_early))
        if not is_early.all():
            self._tail.append(foreign.where(~is_early))
        if sum(len(piece.rows) for piece in self._tail) > _LONGEST_TAIL:
            self._foreign_all()

    def _foreign_all(self) -> None:
        for piece in self._tail:
            self._foreign(piece)
        self._tail = []

    def _foreign(self, piece: _Foreign) -> None:
        units, log_end = piece.units, self._task.log_end
        repeats, rows = piece.rows[piece.is_repeat], piece.rows[~piece.is_repeat]
        if self._task.level >= 3 or self._report.check.batch:
            self._report.report(Problem(codes.CQ_MISPLACED, units, repeats, _REPEAT))
        offsets = units.column("physicalOffset")[rows]
        outside = (offsets >= log_end) | (offsets < self._task.log_start)
        message = f"points outside the log, which has {self._task.log_start} to {self._task.log_end}"
        self._report.report(Problem(codes.CQ_DANGLING, units, rows[outside], message))
        self._unmatched.add(self._report, units, rows[~outside])

    def _tell_expired(self) -> None:
        if not self._expired:
            return
        (units, row), (last_units, last_row) = self._expired[0], self._expired[-1]
        numbers = units.first_number + row, last_units.first_number + last_row
        self._report.add(
            codes.CQ_EXPIRED,
            f"units {numbers[0]} to {numbers[1]} point below {self._task.log_start}, the log's start",
            segment=units.segment,
            position=units.position_of(row),
            count=self._expired_count,
        )
        files = self._report.check.files
        first = files.segments[0] if files else units.segment
        if self._live_from not in {None, first}:
            self._report.add(
                codes.CQ_MIN_WRONG, f"all units of {first.label} are expired", segment=first, position=0
            )


_MOST_PENDING = 1 << 20
_CHUNK_ROWS = 1 << 19


class UnmatchedUnits:
    """Collects units that point at no record of their queue, and compares all with the log's records."""

    def __init__(self, blocks: Sequence[Block]) -> None:
        self._blocks = blocks
        self._pending: list[tuple[QueueReport, Units, Int64s]] = []
        self._count = 0

    def add(self, report: QueueReport, units: Units, rows: Int64s) -> None:
        """Add units of a chunk; their finding comes with `flush`, or sooner when many have gathered."""
        if not len(rows):
            return
        self._pending.append((report, units, rows))
        self._count += len(rows)
        if self._count > _MOST_PENDING:
            self.flush()

    def drop(self, report: QueueReport) -> None:
        """Forget the units of a queue."""
        self._pending = [entry for entry in self._pending if entry[0] is not report]

    def flush(self) -> None:
        """Report all units that were added."""
        if not self._pending:
            return
        offsets = [units.column("physicalOffset")[rows] for _, units, rows in self._pending]
        records = self._records_among(np.unique(np.concatenate(offsets)))
        for (report, units, rows), places in zip(self._pending, offsets, strict=True):
            is_record = np.isin(places, records)
            report.report(Problem(codes.CQ_SUPERFLUOUS, units, rows[is_record], _OTHER_QUEUE))
            report.report(Problem(codes.CQ_DANGLING, units, rows[~is_record], _NO_RECORD))
        self._pending, self._count = [], 0

    def _records_among(self, offsets: Int64s) -> Int64s:
        """Return those of some offsets, ascending, at which a record with units begins."""
        are_there = np.zeros(len(offsets), np.bool_)
        for block in self._blocks:
            for first in range(0, block.count("units"), _CHUNK_ROWS):
                count = min(_CHUNK_ROWS, block.count("units") - first)
                places = block.read("units", first, count)["physicalOffset"].astype(np.int64)
                are_there |= np.isin(offsets, places)
        return offsets[are_there]
