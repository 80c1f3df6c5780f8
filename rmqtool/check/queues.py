"""Checks of queues: units on their own (level 1), against the log (2), and records that have no unit (3)."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from rmqtool.check import Examined
from rmqtool.check.expected import ExpectedUnits, QueueCheck, QueueCheckTask
from rmqtool.check.queue_match import UnitMatch, UnmatchedUnits
from rmqtool.check.queue_units import NO_EXT_TIME, ExtQueue, Problem, QueueReport, UnitOrder
from rmqtool.derived.queue_files import QueueReader, Units
from rmqtool.findings import FindingLog, Severity, Structure, codes, counted
from rmqtool.formats.consumequeue import BATCH_UNITS, UNIT_SIZE, UNITS
from rmqtool.kernels.units import MAX_QUEUE_OFFSET
from rmqtool.store.segments import Segment, unreadable_findings

if TYPE_CHECKING:
    from rmqtool.arrays import Bools, Int64s, Row, Rows
    from rmqtool.check.lag import Lag


_NEVER = (1 << 63) - 1


RANGE_ROW = np.dtype(
    [
        ("physical_offset", np.int64),
        ("queue_offset", np.int64),
        ("records", np.int64),
        ("is_head", np.bool_),
        ("is_tail", np.bool_),
        ("is_superseded", np.bool_),
        ("is_dispatched", np.bool_),
    ]
)
"""Ranges as rows: where every other unit was deleted there are half as many of them as records."""

_CREATED_AGAIN = (
    "Rebuild the consume queues from the log: rmqtool rebuild STORE --generations live if the topic was"
    " deleted and created again on purpose, --generations all if its queues were lost."
)


class MissingRange(NamedTuple):
    """Consecutive records of a queue that have no unit, with the offsets of the first; see ``RANGE_ROW``.

    Attributes:
        is_head: no record before them has a unit: the queue, if present, begins after them.
        is_tail: no record after them has a unit: the queue lags.
        is_superseded: later records have the same queue offsets: the topic was deleted and created again.
        is_dispatched: it is certain that the dispatch came past them.
    """

    physical_offset: int
    queue_offset: int
    records: int
    is_head: bool
    is_tail: bool
    is_superseded: bool
    is_dispatched: bool


def missing_ranges(expected: ExpectedUnits, matched: tuple[int, int], dispatched: int = 0) -> Rows:
    """Return the records without unit, ``(n,)`` of ``RANGE_ROW`` in log order.

    Those that the append rule never puts are left out: queue offsets that no file can have. ``matched`` are
    the numbers of the first and the last record with a unit, -1 if none has; ``dispatched`` is the physical
    offset that the dispatch has certainly reached.
    """
    if not expected.is_unseen():
        return np.empty(0, RANGE_ROW)
    ranges: list[Rows] = []
    least_later = _NEVER
    for window in range(len(expected.spans) - 1, -1, -1):
        queue_offsets = expected.queue_offsets(window)
        rows = expected.unseen(window)
        if len(rows):
            ranges.append(_ranges_of(expected, window, rows, queue_offsets, least_later, matched, dispatched))
        least_later = min(least_later, int(queue_offsets[_is_possible(queue_offsets)].min(initial=_NEVER)))
    return _joined(np.concatenate(ranges[::-1]))


def _ranges_of(
    expected: ExpectedUnits,
    window: int,
    rows: Int64s,
    queue_offsets: Int64s,
    least_later: int,
    matched: tuple[int, int],
    dispatched: int,
) -> Rows:
    offsets = expected.rows(window).physical_offsets
    possible = _is_possible(queue_offsets)
    later = np.append(np.where(possible, queue_offsets, _NEVER)[1:], least_later)
    later = np.minimum.accumulate(later[::-1])[::-1]
    is_own = np.diff(offsets, prepend=-1) != 0  # a record put twice into one queue has one unit
    rows = rows[(is_own & possible)[rows]]
    is_superseded = (queue_offsets >= later)[rows]
    numbers = rows + expected.firsts[window]
    is_head, is_tail = (numbers < matched[0]) | (matched[0] < 0), numbers > matched[1]
    is_dispatched = offsets[rows] < dispatched
    kind = is_dispatched * 8 + is_head * 4 + is_superseded * 2 + is_tail
    is_first = np.ones(len(rows), np.bool_)
    is_first[1:] = (np.diff(rows) != 1) | (np.diff(kind) != 0)
    firsts = np.flatnonzero(is_first)
    ranges = np.empty(len(firsts), RANGE_ROW)
    ranges["physical_offset"] = offsets[rows[firsts]]
    ranges["queue_offset"] = queue_offsets[rows[firsts]]
    ranges["records"] = np.diff(firsts, append=len(rows))
    ranges["is_head"], ranges["is_tail"] = is_head[firsts], is_tail[firsts]
    ranges["is_superseded"], ranges["is_dispatched"] = is_superseded[firsts], is_dispatched[firsts]
    return ranges


def _is_possible(queue_offsets: Int64s) -> Bools:
    return np.asarray((queue_offsets >= 0) & (queue_offsets <= MAX_QUEUE_OFFSET))


def _joined(ranges: Rows) -> Rows:
    """Join ranges before the first unit, and after the last: the border of two windows may split them."""
    if not len(ranges):
        return ranges
    is_first = ~(ranges["is_head"] | ranges["is_tail"])
    is_first[:1] = True
    for name in ("is_head", "is_tail", "is_superseded", "is_dispatched"):
        is_first[1:] |= ranges[name][1:] != ranges[name][:-1]
    firsts = np.flatnonzero(is_first)
    joined = ranges[firsts]
    joined["records"] = np.add.reduceat(ranges["records"], firsts)
    return joined


def report_missing(report: QueueReport, task: QueueCheckTask, ranges: Rows) -> None:
    """Report records without unit, ``(n,)`` of ``RANGE_ROW``.

    The next start dispatches records at the end of an unclean log again; in a clean store no start does that,
    or it loses the first of them (5.3.2+).
    """
    lag, is_gone = task.lag, ranges["is_head"] & report.check.deleted
    if report.check.since is not None:
        is_gone |= ranges["physical_offset"] < report.check.since
    _report_deleted(report, ranges[is_gone])
    ranges = ranges[~is_gone]
    if lag.is_controlled:  # nobody was to see them
        ranges = ranges[~ranges["is_tail"] | ranges["is_dispatched"]]
    is_lag = ranges["is_tail"] & task.unclean
    if lag.redispatched is not None:
        is_lag &= ranges["physical_offset"] >= lag.redispatched
    against = {int(row): _against_lag(report, ranges[row], lag) for row in np.flatnonzero(is_lag)}
    is_lag[[row for row, reason in against.items() if reason]] = False
    is_late = is_lag | ranges["is_superseded"]
    shown = report.log.max_per_code
    for number, row in enumerate(ranges[:shown]):
        severity = Severity.WARNING if is_late[number] else None
        sentence = _sentence(MissingRange._make(row.item()), is_lag=bool(is_lag[number]))
        _report_range(report, MissingRange._make(row.item()), severity, sentence + against.get(number, ""))
    for severity, rest in ((None, ~is_late[shown:]), (Severity.WARNING, is_late[shown:])):
        count = int(ranges["records"][shown:][rest].sum())
        report.add(codes.CQ_MISSING_MSG, "more records without unit", severity=severity, count=count)


def _against_lag(report: QueueReport, row: Row, lag: Lag) -> str:
    """Return why no kill explains that records at a queue's end have no unit; empty if one does."""
    if row["physical_offset"] < (lag.unflushed if row["is_dispatched"] else lag.behind):
        return f"; a kill explains no more than the last {lag.flush_ms / 1000:g} s"
    if not row["is_dispatched"]:
        return ""
    files, last = report.check.files, int(row["queue_offset"] + row["records"] - 1)
    if files is None or not len(files):
        return "; a kill does not explain the missing queue"
    if not report.check.batch and files.segment_at(last * UNIT_SIZE) is None:
        return "; a kill does not explain the missing file of their units"
    return ""


def _report_range(
    report: QueueReport, missing: MissingRange, severity: Severity | None, sentence: str
) -> None:
    segment = _file_of(report, missing)
    report.add(
        codes.CQ_MISSING_MSG,
        sentence,
        segment=segment,
        position=None if segment is None else missing.queue_offset * UNIT_SIZE - segment.start,
        count=missing.records,
        severity=severity,
        length=None if segment is None else missing.records * UNIT_SIZE,
        queue_offset=missing.queue_offset,
        physical_offset=missing.physical_offset,
        expected=missing.records,
        observed=0,
        remedy_override=_CREATED_AGAIN if missing.is_superseded else None,
    )


def _report_deleted(report: QueueReport, ranges: Rows) -> None:
    if not len(ranges):
        return
    count, first = int(ranges["records"].sum()), MissingRange._make(ranges[0].item())
    since, reason = report.check.since, "topics.json has no such topic: it was deleted"
    if since is not None:
        reason = f"the topic was deleted and created again before the message at {since}"
    report.add(
        codes.CQ_TOPIC_GONE,
        f"{counted(count, 'record has no unit', 'records have no unit')}, and {reason}; {_place_of(first)}",
        count=count,
        queue_offset=first.queue_offset,
        physical_offset=first.physical_offset,
        expected=count,
        observed=0,
    )


def _place_of(missing: MissingRange) -> str:
    return f"the first has queue offset {missing.queue_offset} and lies at {missing.physical_offset}"


def _sentence(missing: MissingRange, *, is_lag: bool) -> str:
    first = _place_of(missing)
    if missing.is_superseded:
        without = counted(missing.records, "record has no unit", "records have no unit")
        return f"{without}; the queue offsets are repeated, as if the topic had been created again; {first}"
    singular, plural = "record has no unit", "records have no unit"
    if is_lag:
        singular, plural = "of the last records has no unit yet", "of the last records have no unit yet"
    return f"{counted(missing.records, singular, plural)}; {first}"


def _file_of(report: QueueReport, missing: MissingRange) -> Segment | None:
    files = report.check.files
    if files is None or report.check.batch:
        return None
    return files.segment_at(missing.queue_offset * UNIT_SIZE)


_AGAINST_LOG, _COMPLETE = 2, 3


def check_queues(task: QueueCheckTask) -> tuple[FindingLog, Examined]:
    """Check some queues."""
    unmatched = UnmatchedUnits(task.blocks)
    reports, examined = [], Examined()
    for check in task.queues:
        run = _QueueRun(task, check, unmatched)
        run.run()
        reports.append(run.report)
        examined += Examined(consume_queues=check.files is not None, units=run.order.counted)
    unmatched.flush()
    log = FindingLog(task.max_findings)
    for report in reports:
        log.merge(report.log)
    return log, examined


class _QueueRun:
    def __init__(self, task: QueueCheckTask, check: QueueCheck, unmatched: UnmatchedUnits) -> None:
        self._task, self._check = task, check
        self.report = QueueReport(check, task.max_findings)
        self.order = UnitOrder(self.report, task)
        # A queue alone does not show whether the others have ext units.
        self._ext = ExtQueue(check.ext_files, self.report, expected=task.ext or task.level < _AGAINST_LOG)
        self._expected = ExpectedUnits(check.expected, task.blocks)
        self._match: UnitMatch | None = None
        if task.level >= _AGAINST_LOG:
            self._match = UnitMatch(self.report, task, self._expected, unmatched)

    def run(self) -> None:
        """Read the queue's files once and report."""
        if self._check.files is not None:
            reader = QueueReader(self._check.files, BATCH_UNITS if self._check.batch else UNITS)
            for units in reader:
                self._feed(units)
            self._tell_reading(reader)
        self._finish()

    def _feed(self, units: Units) -> None:
        if units.zeros:
            self.order.zeros(units)
            return
        real, problems = self.order.feed(units)
        tags, times_ms, dangling = self._resolve(units, real)
        confirmed: int | None = units.first_number + len(units)
        if self._match is not None:
            confirmed = self._match.feed(units, real, tags, times_ms)
        self.report.flush([*problems, *dangling], confirmed)

    def _resolve(self, units: Units, real: Int64s) -> tuple[Int64s, Int64s, list[Problem]]:
        if self._check.batch:
            return units.column("tagsCode")[real], np.full(len(real), NO_EXT_TIME, np.int64), []
        return self._ext.resolve(units, real)

    def _finish(self) -> None:
        self.order.finish()
        self._ext.finish()
        if self._match is None:
            return
        self._match.finish()
        if self._task.level >= _COMPLETE:
            ranges = missing_ranges(self._expected, self._match.matched, self._task.lag.dispatched)
            report_missing(self.report, self._task, ranges)

    def _tell_reading(self, reader: QueueReader) -> None:
        for segment, ranges in reader.unreadable:
            self.report.log.extend(unreadable_findings(segment, ranges, Structure.CONSUMEQUEUE))
        for segment, position, data in reader.ragged:
            self.report.add(
                codes.BQ_BAD_UNIT if self._check.batch else codes.CQ_BAD_UNIT,
                f"{segment.label} ends inside a unit",
                segment=segment,
                position=position,
                length=len(data),
            )
