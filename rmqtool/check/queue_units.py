"""Units of one queue: findings about them, ext units, and checks without the log (level 1).

A unit that a broker takes for valid has an offset that is not negative and a positive size
(``ConsumeQueue#recover``, 4.9.8 and 5.3.3); the first other one ends the queue. Records do not overlap, so
each unit's record begins after the end of the one before.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from rmqtool.derived.ext_files import ExtColumns, ExtFile
from rmqtool.dispatch.policy import NEVER
from rmqtool.findings import Finding, FindingCode, FindingLog, Observed, Severity, Structure, codes, counted
from rmqtool.formats import consumequeue as formats
from rmqtool.formats.consumequeue import BATCH_COMPACTED_OFFSET, PREBLANK_SIZE, UNIT_SIZE
from rmqtool.store.segments import FileQueue, Segment, unreadable_findings

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rmqtool.arrays import Array, Bools, Int64s
    from rmqtool.check.expected import QueueCheck, QueueCheckTask
    from rmqtool.derived.queue_files import Units
    from rmqtool.io.location import UnreadableRange


class Problem(NamedTuple):
    """Units of a chunk that break one rule, with a sentence on each after ``unit N of TOPIC/QUEUE``.

    Attributes:
        code: of the rule.
        units: the chunk.
        rows: which of them, ``(n,)``.
        message: one for all, or each one's; ``{expected}``, ``{observed}`` and ``{offset}`` stand for values.
        expected: ``(n,)``, as the rule has it; None if that is no number.
        observed: ``(n,)``, likewise.
        severity: other than the code's.
    """

    code: FindingCode
    units: Units
    rows: Int64s
    message: str | Array
    expected: Int64s | None = None
    observed: Int64s | None = None
    severity: Severity | None = None

    def where(self, chosen: Bools) -> Problem:
        """Return the problem of some of the units, ``(n,)``."""
        columns: dict[str, Any] = {
            name: column[chosen] for name, column in self._asdict().items() if isinstance(column, np.ndarray)
        }
        return self._replace(**columns)


_OF_UNITS = (
    codes.CQ_PHY_ORDER,
    codes.CQ_SUPERFLUOUS,
    codes.CQ_DANGLING,
    codes.CQ_MISPLACED,
    codes.CQ_SIZE_TAG,
    codes.CQ_EXT_DANGLING,
    codes.CQ_STALE_TAIL,
    codes.BQ_BASE_GAP,
)
"""Codes of single units, which nearly all of a queue have where its files are another's."""


class QueueReport:
    """The findings of one queue.

    After the end of a queue may lie units that a truncation left, whose problems do not count. So problems
    wait until a unit that belongs to the queue is met after them (`flush`).
    """

    def __init__(self, check: QueueCheck, max_findings: int) -> None:
        self.check = check
        self._queue: dict[str, Any] = {"topic": check.topic, "queue_id": check.queue_id}
        self.log = FindingLog(max_findings)
        self._pending = FindingLog(max_findings)

    @property
    def name(self) -> str:
        """Return topic and queue id."""
        return f"{self.check.topic}/{self.check.queue_id}"

    def add(
        self,
        code: FindingCode,
        message: str,
        *,
        segment: Segment | None = None,
        position: int | None = None,
        count: int = 1,
        severity: Severity | None = None,
        **fields: Observed,
    ) -> None:
        """Add a finding about the queue; ``fields`` are those of `Finding`."""
        finding = Finding(
            code=code,
            file=None if segment is None else segment.label,
            position=position,
            **self._queue,
            message=f"{self.name}: {message}",
            severity_override=severity,
            **fields,  # type: ignore[arg-type]
        )
        self.log.add(finding, count=count)

    def stale_tail(self, units: Units, row: int, count: int) -> None:
        """Report units that a truncation left after the queue's end."""
        self.add(
            codes.CQ_STALE_TAIL,
            f"{counted(count, 'unit')} after its end, from unit {units.first_number + row} on",
            segment=units.segment,
            position=units.position_of(row),
            physical_offset=int(units.rows["physicalOffset"][row]),
            count=count,
        )

    def of_another_queue(self, first: Problem, strange: int, real: int) -> None:
        """Report once, not for every unit, that most units of the queue are not its own."""
        for code in _OF_UNITS:
            self.log.drop(code.code)
            self._pending.drop(code.code)
        finding = self._finding(first, 0)
        message = (
            f"{strange:,} of the {real:,} units of {self.name} lead to no record of it: its files are another"
            " queue's, or another store's"
        )
        self.log.add(replace(finding, message=message, expected=0, observed=strange), count=strange)

    def report(self, problem: Problem) -> None:
        """Add a problem that counts."""
        self._note(problem, self.log)

    def flush(self, problems: Sequence[Problem], confirmed: int | None) -> None:
        """Add the problems of a chunk up to the last unit that belongs to the queue, keep the others.

        ``confirmed`` is the number of that unit; None if no unit does.
        """
        if confirmed is not None:
            self.log.merge(self._pending)
            self._pending = FindingLog(self.log.max_per_code)
        for problem in problems:
            numbers = problem.units.first_number + problem.rows
            is_early = numbers <= (-1 if confirmed is None else confirmed)
            self._note(problem.where(is_early), self.log)
            self._note(problem.where(~is_early), self._pending)

    def _note(self, problem: Problem, log: FindingLog) -> None:
        log.add_rows(range(len(problem.rows)), partial(self._finding, problem))

    def _finding(self, problem: Problem, place: int) -> Finding:
        units, row, message = problem.units, int(problem.rows[place]), problem.message
        number, offset = units.first_number + row, int(units.rows["physicalOffset"][row])
        columns = problem.expected, problem.observed
        expected, observed = (None if column is None else int(column[place]) for column in columns)
        message = str(message if isinstance(message, str) else message[place])
        return Finding(
            code=problem.code,
            file=units.segment.label,
            position=units.position_of(row),
            length=units.unit_size,
            **self._queue,
            queue_offset=None if self.check.batch else number,
            physical_offset=offset,
            expected=expected,
            observed=observed,
            message=f"unit {number} of {self.name} "
            + message.format(expected=expected, observed=observed, offset=offset),
            severity_override=problem.severity,
        )


def tell_delay_table_once(findings: FindingLog) -> None:
    """Report once, not for every level, that the broker had another delay table."""
    levels = findings.counts.get(codes.ST_SETTINGS.code, 0)
    if levels > 1:
        first = next(finding for finding in findings if finding.code is codes.ST_SETTINGS)
        message = (
            f"the deliver times of {levels} levels differ from messageDelayLevel, all of a level by the "
            f"same, the first level's by {first.observed} ms: the broker had another table"
        )
        findings.fold(codes.ST_SETTINGS.code, replace(first, queue_id=None, message=message))


_VISIBLE = "is a pre-blank unit after the first unit: it counts as valid, and points to no message"
_NO_PREBLANK = "has the size of a pre-blank unit after the first unit, but is not one"
_IMPOSSIBLE = "cannot be: offset {offset}, size {observed}"
_OUT_OF_ORDER = "points at {observed}, before {expected}, where the record of the unit before it ends"
_BASE_GAP = "begins at offset {observed}, the one before it ends at {expected}"


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
                Problem(codes.CQ_PREBLANK_VISIBLE, units, np.flatnonzero(is_visible), _VISIBLE)
            )
        self.counted += int(np.count_nonzero(~is_zero))
        self._zero_runs(units, is_zero)
        bad = np.flatnonzero(is_bad)
        messages = np.where(sizes[bad] == PREBLANK_SIZE, _NO_PREBLANK, _IMPOSSIBLE)
        code = codes.BQ_BAD_UNIT if self._report.check.batch else codes.CQ_BAD_UNIT
        self._report.report(Problem(code, units, bad, messages, observed=sizes[bad]))
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
        columns = real[broken], _OUT_OF_ORDER, ends_before[broken], starts[broken]
        return [*problems, Problem(codes.CQ_PHY_ORDER, units, *columns)]

    def _bases(self, units: Units, real: Int64s) -> list[Problem]:
        """Check that each base offset is the one before plus its batch."""
        if not self._report.check.batch:
            return []
        bases = units.column("msgBaseOffset")[real]
        ends = bases + units.column("batchSize")[real]
        first = bases[0] if self._base_end is None else self._base_end
        before = np.concatenate([[first], ends[:-1]])
        self._base_end = int(ends[-1])
        wrong = bases != before
        return [Problem(codes.BQ_BASE_GAP, units, real[wrong], _BASE_GAP, before[wrong], bases[wrong])]


def _is_bad_batch(units: Units) -> Bools:
    """As ``BatchConsumeQueue#recover`` (5.3.3), and the two fields that are constants."""
    counts = (units.column("msgBaseOffset") < 0) | (units.column("batchSize") <= 0)
    constants = (units.column("compactedOffset") != BATCH_COMPACTED_OFFSET) | (units.column("reserved") != 0)
    return np.asarray(counts | constants)


NO_EXT_TIME, LOST_EXT_TIME = -1, -2
"""In place of an ext unit's store time: the unit has no ext address; its address has no ext unit."""


class ExtQueue:
    """Ext units by their address; one file's units are kept at a time.

    ``expected`` is whether a tags code in the range of addresses is one; it is not if no queue of this store
    has ext units.
    """

    def __init__(self, files: FileQueue | None, report: QueueReport, *, expected: bool) -> None:
        self._files = files
        self._expected = expected or files is not None
        self._report = report
        self._loaded: tuple[Segment, ExtColumns] | None = None
        self._used: dict[int, Bools] = {}

    def resolve(self, units: Units, rows: Int64s) -> tuple[Int64s, Int64s, list[Problem]]:
        """Look up the tags codes of real units, ``rows`` ``(n,)`` of a chunk, that are addresses.

        Returns:
            Tags codes, ``(n,)``, with those of ext units in place of addresses; store times of the ext units,
            `NO_EXT_TIME` or `LOST_EXT_TIME` where there is none; and addresses without a unit.
        """
        tags = units.column("tagsCode")[rows]
        times = np.full(len(rows), NO_EXT_TIME, np.int64)
        is_address = tags <= formats.EXT_ADDRESS_MAX
        if not (self._expected and is_address.any()):
            return tags, times, []
        missing = is_address.copy()
        addresses = tags - formats.EXT_ADDRESS_BASE
        for segment in self._files or ():
            inside = np.flatnonzero(is_address & (addresses >= segment.start) & (addresses < segment.stop))
            if not len(inside):
                continue
            file = self._load(segment)
            wanted = addresses[inside] - segment.start
            at = np.minimum(np.searchsorted(file.positions, wanted), max(len(file.positions) - 1, 0))
            hit = file.positions[at] == wanted if len(file.positions) else np.zeros(len(wanted), np.bool_)
            tags[inside[hit]] = file.tags_codes[at[hit]]
            times[inside[hit]] = np.maximum(file.times_ms[at[hit]], 0)  # -1 is for units without
            missing[inside[hit]] = False
            self._used[segment.start][at[hit]] = True
        times[missing] = LOST_EXT_TIME
        message = "refers to a missing ext unit at {observed}"
        lost = Problem(codes.CQ_EXT_DANGLING, units, rows[missing], message, observed=addresses[missing])
        return tags, times, [lost]

    def finish(self) -> None:
        """Check the files that nothing pointed into, and count the units that nobody refers to."""
        for segment in self._files or ():
            if segment.start not in self._used:
                self._load(segment)
            orphans = np.flatnonzero(~self._used[segment.start])
            if len(orphans):
                self._report.add(
                    codes.CQ_EXT_ORPHAN, f"ext units in {segment.label}", segment=segment, count=len(orphans)
                )
            segment.close()

    def _load(self, segment: Segment) -> ExtColumns:
        if self._loaded is None or self._loaded[0] is not segment:
            bad: list[UnreadableRange] = []
            file = ExtFile(segment).columns(bad)
            self._loaded = segment, file
            if segment.start not in self._used:
                self._used[segment.start] = np.zeros(len(file.positions), np.bool_)
                self._report.log.extend(unreadable_findings(segment, bad, Structure.CONSUMEQUEUE))
                self._check_end(segment, file.stop)
        return self._loaded[1]

    def _check_end(self, segment: Segment, stop: int) -> None:
        """Report a wrong end of a file's units; right are the end mark, or zeros in the last file."""
        size = ExtFile(segment).size_at(stop)
        is_last = self._files is None or segment is self._files.segments[-1]
        room = segment.size_bytes - stop
        if size == formats.EXT_END_SIZE or (size == 0 and is_last):
            return
        if size == 0:
            message = f"{segment.label} ends at {stop} without end mark, though another file follows"
        elif room < formats.EXT_END_ROOM:
            message = f"{segment.label} has no room for an end mark at {stop}"
        else:
            message = (
                f"ext unit at {stop} of {segment.label} has the size {size}, which contradicts its bit map"
            )
        self._report.add(
            codes.CQ_EXT_UNIT, message, segment=segment, position=stop, length=room, observed=size
        )
