"""Level 1 of a queue: checks of its units without the log.

A unit that a broker takes for valid has an offset that is not negative and a positive size
(``ConsumeQueue#recover``, 4.9.8 and 5.3.3); the first other one ends the queue. Records do not overlap, so
each unit's record begins after the end of the one before.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from rmqtool.check.queue_report import Detail, Problem, QueueReport
from rmqtool.dispatch.policy import NEVER
from rmqtool.findings import codes, counted
from rmqtool.formats.consumequeue import BATCH_COMPACTED_OFFSET, PREBLANK_SIZE, UNIT_SIZE

if TYPE_CHECKING:
    from rmqtool.arrays import Bools, Int64s
    from rmqtool.check.expected import QueueCheckTask
    from rmqtool.derived.queue_files import Units
    from rmqtool.findings import FindingCode
    from rmqtool.store.segments import Segment


_VISIBLE = Detail("is a pre-blank unit after the first unit: it counts as valid, and points to no message")


class UnitOrder:
    """Checks the order of the units of one queue, and counts those that are not zero."""

    def __init__(self, report: QueueReport, task: QueueCheckTask) -> None:
        self._report = report
        self._log_start, self._log_end = task.log_start, task.log_end  # NEVER: the log is not shown
        self._first_segment: Segment | None = None
        self._begun = False  # a unit that is not pre-blank was met
        self._preblank = 0
        self._zeros: tuple[Segment, int, int] | None = None  # file, position and number where zeros began
        self._end = -1  # of the record of the last unit
        self._base_end: int | None = None  # msgBaseOffset and batchSize of the last batch unit
        self._steps = _LastStep(task.log_end)
        self.counted = 0

    def zeros(self, hole: Units) -> None:
        """Note a hole."""
        self._begun = True
        self._note_zeros(hole, 0)

    def feed(self, units: Units) -> tuple[Int64s, list[Problem]]:
        """Check a chunk; return rows of real units, and problems that count if the queue goes on."""
        self._first_segment = self._first_segment or units.segment
        offsets, sizes = units.column("physicalOffset"), units.column("size")
        is_zero = (offsets == 0) & (sizes == 0) & (units.column("tagsCode") == 0)
        is_bad = ~is_zero & ((offsets < 0) | (sizes <= 0))
        if self._report.check.batch:
            is_zero &= units.column("batchSize") == 0
            is_bad |= ~is_zero & _is_bad_batch(units)
            is_preblank: Bools = np.zeros(len(units), np.bool_)
        else:
            is_preblank, is_misplaced = self._preblanks(units, offsets, sizes)
            is_visible = is_misplaced & (offsets == 0) & (units.column("tagsCode") == 0)
            is_bad |= is_misplaced & ~is_visible
            is_preblank |= is_visible
            self._report.report(
                Problem(codes.CQ_PREBLANK_VISIBLE, units, np.flatnonzero(is_visible), lambda _: _VISIBLE)
            )
        self.counted += int(np.count_nonzero(~is_zero))
        self._zero_runs(units, is_zero)
        self._report.report(
            Problem(self._bad_code, units, np.flatnonzero(is_bad), lambda row: _tell_bad(units, row))
        )
        real = np.flatnonzero(~(is_zero | is_bad | is_preblank))
        return real, self._order(units, real, offsets, sizes)

    def finish(self) -> None:
        """Report the findings that a queue has once."""
        if not self._preblank or self._first_segment is None:
            return
        first, count = self._first_segment, self._preblank
        sentence = f"{counted(count, 'pre-blank unit')} at the start of {first.label}"
        self._report.add(codes.CQ_PREBLANK, sentence, segment=first, position=0, length=count * UNIT_SIZE)
        if self._log_start == 0 and 0 < self._log_end < NEVER:
            self._report.add(
                codes.CQ_PREBLANK_VISIBLE,
                f"{sentence}, though the log begins at 0",
                segment=first,
                position=0,
            )

    def judge_tail(self) -> None:
        """Decide without the log whether a last step back is a left-over of a truncation, or damage."""
        step = self._steps
        if step.problem is None or not step.looks_stale:
            self._report.confirm_pending()
            return
        self._report.drop_pending()
        units, row = step.problem.units, int(step.problem.rows[-1])
        sentence = f"{counted(step.units, 'unit')} after its end, from unit {units.first_number + row} on"
        self._report.add(
            codes.CQ_STALE_TAIL,
            sentence,
            segment=units.segment,
            position=units.position_of(row),
            physical_offset=int(units.rows["physicalOffset"][row]),
            count=step.units,
        )

    @property
    def _bad_code(self) -> FindingCode:
        return codes.BQ_BAD_UNIT if self._report.check.batch else codes.CQ_BAD_UNIT

    def _preblanks(self, units: Units, offsets: Int64s, sizes: Int64s) -> tuple[Bools, Bools]:
        """Return which units are pre-blank in place, and which elsewhere (``ConsumeQueue#fillPreBlank``)."""
        is_wide = sizes == PREBLANK_SIZE  # a size that no record has
        legal = np.zeros(len(units), np.bool_)
        if not self._begun and units.segment is self._first_segment:
            others = np.flatnonzero(~is_wide)
            count = int(others[0]) if len(others) else len(units)
            legal[:count] = ((offsets == 0) & (units.column("tagsCode") == 0))[:count]
            self._preblank += int(legal.sum())
            self._begun = count < len(units)
        return legal, is_wide & ~legal

    def _zero_runs(self, units: Units, is_zero: Bools) -> None:
        """Report runs of zero units that others follow, and keep the last one."""
        if not is_zero.any() and self._zeros is None:
            return
        edges = np.flatnonzero(np.diff(is_zero.astype(np.int8), prepend=0, append=0))
        starts, stops = edges[::2].tolist(), edges[1::2].tolist()
        if not starts or starts[0] > 0:
            self._end_zeros(units, 0)
        runs = list(zip(starts, stops, strict=True))
        limit = self._report.log.max_per_code
        for start, stop in runs[:limit]:
            self._note_zeros(units, start)
            if stop < len(units):
                self._end_zeros(units, stop)
        inside = [run for run in runs[limit:] if run[1] < len(units)]
        if inside:
            self._note_zeros(units, inside[-1][0])
            self._end_zeros(units, inside[-1][1], len(inside))
        if runs and runs[-1][1] == len(units):
            self._note_zeros(units, runs[-1][0])

    def _note_zeros(self, units: Units, row: int) -> None:
        if self._zeros is None:
            self._zeros = units.segment, units.position_of(row), units.first_number + row

    def _end_zeros(self, units: Units, row: int, count: int = 1) -> None:
        if self._zeros is None:
            return
        segment, position, number = self._zeros
        self._zeros = None
        stop = units.first_number + row
        self._report.add(
            codes.CQ_ZERO_INSIDE,
            f"units {number} to {stop - 1} are zeros, and others follow",
            segment=segment,
            position=position,
            length=(stop - number) * units.unit_size,
            queue_offset=None if self._report.check.batch else number,
            count=count,
        )

    def _order(self, units: Units, real: Int64s, offsets: Int64s, sizes: Int64s) -> list[Problem]:
        if not len(real):
            return []
        starts, ends = offsets[real], offsets[real] + sizes[real]
        ends_before = np.concatenate([[self._end], ends[:-1]])
        broken = starts < ends_before
        self._end = int(ends[-1])
        problems = self._bases(units, real)
        if broken.any():
            rows = real[broken]
            before = dict(zip(rows.tolist(), ends_before[broken].tolist(), strict=True))
            problems.append(
                Problem(codes.CQ_PHY_ORDER, units, rows, lambda row: _tell_order(units, row, before[row]))
            )
        self._steps.feed(units, real, starts, broken)
        return problems

    def _bases(self, units: Units, real: Int64s) -> list[Problem]:
        """Check that each base offset is the one before plus its batch."""
        if not self._report.check.batch:
            return []
        bases = units.column("msgBaseOffset")[real]
        ends = bases + units.column("batchSize")[real]
        first = bases[0] if self._base_end is None else self._base_end
        before = np.concatenate([[first], ends[:-1]])
        self._base_end = int(ends[-1])
        rows = real[bases != before]
        wanted = dict(zip(real.tolist(), before.tolist(), strict=True)) if len(rows) else {}
        return [Problem(codes.BQ_BASE_GAP, units, rows, lambda row: _tell_base(units, row, wanted[row]))]


class _LastStep:
    """The last place where offsets do not go up, and whether the units after it look left over.

    A truncation moves the queue's end and clears nothing. Units written since lie before the step; those
    after it are older, and ascend: up to the highest new one, or beyond the log's end.
    """

    def __init__(self, log_end: int) -> None:
        self._log_end = log_end
        self._highest = -1
        self.problem: Problem | None = None
        self.units = 0
        self.looks_stale = False

    def feed(self, units: Units, real: Int64s, starts: Int64s, broken: Bools) -> None:
        steps = np.flatnonzero(broken)
        tail = starts
        if len(steps):
            first = int(steps[-1])
            self._highest = max(self._highest, int(starts[:first].max(initial=-1)))
            row = real[first : first + 1]
            self.problem = Problem(codes.CQ_PHY_ORDER, units, row, lambda _: Detail(""))
            self.units, self.looks_stale = 0, self._log_end <= 0 or self._highest < self._log_end
            tail = starts[first:]
        if self.problem is None:
            self._highest = max(self._highest, int(starts.max(initial=-1)))
        self.units += len(tail)
        if self.looks_stale:
            beyond = self._log_end if self._log_end > 0 else np.iinfo(np.int64).max
            self.looks_stale = bool(((tail <= self._highest) | (tail >= beyond)).all())


def _is_bad_batch(units: Units) -> Bools:
    """As ``BatchConsumeQueue#recover`` (5.3.3), and the two fields that are constants."""
    counts = (units.column("msgBaseOffset") < 0) | (units.column("batchSize") <= 0)
    constants = (units.column("compactedOffset") != BATCH_COMPACTED_OFFSET) | (units.column("reserved") != 0)
    return np.asarray(counts | constants)


def _tell_bad(units: Units, row: int) -> Detail:
    offset, size = int(units.rows["physicalOffset"][row]), int(units.rows["size"][row])
    if size == PREBLANK_SIZE:
        return Detail("has the size of a pre-blank unit after the first unit, but is not one", observed=size)
    return Detail(f"cannot be: offset {offset}, size {size}", observed=size)


def _tell_order(units: Units, row: int, end: int) -> Detail:
    offset = int(units.rows["physicalOffset"][row])
    sentence = f"points at {offset}, before {end}, where the record of the unit before it ends"
    return Detail(sentence, end, offset)


def _tell_base(units: Units, row: int, wanted: int) -> Detail:
    base = int(units.rows["msgBaseOffset"][row])
    return Detail(f"begins at offset {base}, the one before it ends at {wanted}", wanted, base)
