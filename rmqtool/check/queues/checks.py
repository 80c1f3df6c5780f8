"""Checks of queues: units on their own, against the log, and whether all are there."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from rmqtool.check.expected import ExpectedUnits, QueueCheck, QueueCheckTask
from rmqtool.check.lag import Lag
from rmqtool.check.model import Examined
from rmqtool.check.queues.fields import NO_EXT_TIME, ExtQueue
from rmqtool.check.queues.match import UnitMatch
from rmqtool.check.queues.missing import UnmatchedUnits, missing_ranges, report_missing
from rmqtool.check.queues.order import UnitOrder
from rmqtool.check.queues.report import Problem, QueueReport
from rmqtool.derived.queue_files import QueueReader, Units
from rmqtool.findings import FindingLog, Structure
from rmqtool.findings.codes import BQ_BAD_UNIT, CQ_BAD_UNIT, CQ_PHY_ORDER
from rmqtool.formats.consumequeue import BATCH_UNITS, UNITS
from rmqtool.store.unread import unreadable_findings

if TYPE_CHECKING:
    from rmqtool.arrays import Int64s
    from rmqtool.check.queues.missing import Ranges


_AGAINST_LOG, _COMPLETE = 2, 3
_UNKNOWN = Lag()


def check_queues(
    task: QueueCheckTask, *, lag: Lag = _UNKNOWN, log_cut: bool = False
) -> tuple[FindingLog, Examined]:
    """Check some queues.

    ``log_cut``: the log is known to have lost its end (the checkpoint is later), so units beyond it are
    errors.
    """
    unmatched = UnmatchedUnits(task.blocks)
    reports, examined = [], Examined()
    for check in task.queues:
        run = _QueueRun(task, check, unmatched, lag=lag, log_cut=log_cut)
        run.run()
        reports.append(run.report)
        examined += Examined(consume_queues=check.files is not None, units=run.order.counted)
    unmatched.flush()
    log = FindingLog(task.max_findings)
    for report in reports:
        log.merge(report.log)
    return log, examined


class _QueueRun:
    def __init__(
        self,
        task: QueueCheckTask,
        check: QueueCheck,
        unmatched: UnmatchedUnits,
        *,
        lag: Lag,
        log_cut: bool,
    ) -> None:
        self._task, self._check = task, check
        self._lag = lag
        self.report = QueueReport(check, task.max_findings)
        self.order = UnitOrder(self.report, task)
        # A queue alone does not show whether the others have ext units.
        self._ext = ExtQueue(check.ext_files, self.report, expected=task.ext or task.level < _AGAINST_LOG)
        self._expected = ExpectedUnits(check.expected, task.blocks)
        self._match: UnitMatch | None = None
        if task.level >= _AGAINST_LOG:
            self._match = UnitMatch(self.report, task, self._expected, unmatched, log_cut=log_cut)

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
        if self._match is None:
            confirmed = _last_step(problems)
        else:
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
            self.order.judge_tail()
            return
        ranges = missing_ranges(self._expected, self._match.matched, self._lag.dispatched)
        if self._match.finish(_slots(ranges, self._match.tail)):
            self.report.confirm_pending()
        else:
            self.report.drop_pending()
        if self._task.level >= _COMPLETE:
            report_missing(self.report, self._task, ranges, self._lag)

    def _tell_reading(self, reader: QueueReader) -> None:
        for segment, ranges in reader.unreadable:
            self.report.log.extend(unreadable_findings(segment, ranges, Structure.CONSUMEQUEUE))
        for segment, position, data in reader.ragged:
            self.report.add(
                BQ_BAD_UNIT if self._check.batch else CQ_BAD_UNIT,
                f"{segment.label} ends inside a unit",
                segment=segment,
                position=position,
                length=len(data),
            )


def _last_step(problems: list[Problem]) -> int | None:
    """Return the number of the unit before the last step back of a chunk: up to there, problems count."""
    steps = [
        problem.units.first_number + int(problem.rows[-1]) - 1
        for problem in problems
        if problem.code is CQ_PHY_ORDER
    ]
    return max(steps, default=None)


def _slots(ranges: Ranges, tail: tuple[int, int]) -> Int64s:
    """Return the queue offsets of missing records that are numbers of units in the tail."""
    current = ranges[~ranges["is_superseded"]]
    first = np.maximum(current["queue_offset"], tail[0])
    counts = np.minimum(current["queue_offset"] + current["records"] - 1, tail[1]) + 1 - first
    counts = np.maximum(counts, 0)
    before = np.cumsum(counts) - counts
    return np.asarray(np.repeat(first - before, counts) + np.arange(counts.sum()), np.int64)
