"""Level 3 of a queue: records that have no unit."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from rmqtool.dispatch.append import MAX_QUEUE_OFFSET
from rmqtool.findings import Severity
from rmqtool.findings.consumequeue import CQ_MISSING_MSG, CQ_TOPIC_GONE
from rmqtool.findings.wording import counted
from rmqtool.formats.consumequeue import UNIT_SIZE

if TYPE_CHECKING:
    from collections.abc import Iterator

    import numpy.typing as npt

    from rmqtool.commands.verify.expected import ExpectedUnits
    from rmqtool.commands.verify.queue_report import QueueReport
    from rmqtool.commands.verify.tasks import QueueCheckTask
    from rmqtool.store.segments import Segment

    Int64s = npt.NDArray[np.int64]
    Bools = npt.NDArray[np.bool_]

_NEVER = (1 << 63) - 1


@dataclass(frozen=True, slots=True)
class MissingRange:
    """Consecutive records of a queue that have no unit.

    Attributes:
        physical_offset: of the first record.
        queue_offset: of the first record.
        count: records.
        is_head: no record before them has a unit: the queue begins behind them, if it is there.
        is_tail: no record behind them has a unit: the queue lags.
        is_superseded: later records have the same queue offsets: the topic was deleted and created again.
    """

    physical_offset: int
    queue_offset: int
    count: int
    is_head: bool
    is_tail: bool
    is_superseded: bool

    def continues(self, before: MissingRange) -> bool:
        """Tell whether only the border of two windows parts it from the range before."""
        ours, theirs = ((one.is_head, one.is_tail, one.is_superseded) for one in (self, before))
        return ours == theirs and (self.is_head or self.is_tail)


def missing_ranges(expected: ExpectedUnits, met: tuple[int, int]) -> list[MissingRange]:
    """Return the records without unit, in log order.

    Those that the append rule never puts are left out: queue offsets that no file can have.

    Args:
        expected: all records, those with units marked.
        met: numbers of the first and the last that have one, -1 if none has.

    Raises:
        OSError: a block file cannot be read.
    """
    if not expected.is_unseen():
        return []
    ranges: list[MissingRange] = []
    least_later = _NEVER
    for window in range(len(expected.spans) - 1, -1, -1):
        queue_offsets = expected.queue_offsets(window)
        rows = expected.unseen(window)
        if len(rows):
            found = list(_ranges_of(expected, window, rows, queue_offsets, least_later, met))
            ranges[:0] = found
        least_later = min(least_later, int(queue_offsets[_is_possible(queue_offsets)].min(initial=_NEVER)))
    return _joined(ranges)


def _ranges_of(
    expected: ExpectedUnits,
    window: int,
    rows: Int64s,
    queue_offsets: Int64s,
    least_later: int,
    met: tuple[int, int],
) -> Iterator[MissingRange]:
    offsets = expected.rows(window).physical_offsets
    possible = _is_possible(queue_offsets)
    later = np.append(np.where(possible, queue_offsets, _NEVER)[1:], least_later)
    later = np.minimum.accumulate(later[::-1])[::-1]
    is_own = np.diff(offsets, prepend=-1) != 0  # a record put twice into one queue has one unit
    rows = rows[(is_own & possible)[rows]]
    if not len(rows):
        return
    is_superseded = (queue_offsets >= later)[rows]
    numbers = rows + expected.firsts[window]
    is_head, is_tail = (numbers < met[0]) | (met[0] < 0), numbers > met[1]
    kind = is_head * 4 + is_superseded * 2 + is_tail
    cuts = np.flatnonzero((np.diff(rows) != 1) | (np.diff(kind) != 0)) + 1
    for piece in np.split(np.arange(len(rows)), cuts):
        first = int(piece[0])
        yield MissingRange(
            int(offsets[rows[first]]),
            int(queue_offsets[rows[first]]),
            len(piece),
            bool(is_head[first]),
            bool(is_tail[first]),
            bool(is_superseded[first]),
        )


def _is_possible(queue_offsets: Int64s) -> Bools:
    return np.asarray((queue_offsets >= 0) & (queue_offsets <= MAX_QUEUE_OFFSET))


def _joined(ranges: list[MissingRange]) -> list[MissingRange]:
    """Join what only the border of two windows parts."""
    joined: list[MissingRange] = []
    for one in ranges:
        last = joined[-1] if joined else None
        if last is not None and one.continues(last):
            joined[-1] = replace(last, count=last.count + one.count)
        else:
            joined.append(one)
    return joined


def report_missing(
    report: QueueReport, task: QueueCheckTask, ranges: list[MissingRange], redispatch_start: int | None
) -> None:
    """Report records without unit.

    What lies at the end of an unclean log is dispatched again by the next start; in a clean store no start
    does that, or loses the first of them (5.3.2+).

    Args:
        report: of the queue.
        task: what is known of the store.
        ranges: the records.
        redispatch_start: physical offset from which the next start dispatches anew. None if no start does
            that, or it is not known.
    """
    if report.check.deleted:
        _report_deleted(report, [one for one in ranges if one.is_head])
        ranges = [one for one in ranges if not one.is_head]
    for missing in ranges:
        is_lag = task.unclean and missing.is_tail
        if redispatch_start is not None and missing.physical_offset < redispatch_start:
            is_lag = False
        segment = _file_of(report, missing)
        report.add(
            CQ_MISSING_MSG,
            _sentence(missing, is_lag=is_lag),
            segment=segment,
            position=None if segment is None else missing.queue_offset * UNIT_SIZE - segment.start,
            count=missing.count,
            severity=Severity.WARNING if is_lag or missing.is_superseded else None,
            length=None if segment is None else missing.count * UNIT_SIZE,
            queue_offset=missing.queue_offset,
            physical_offset=missing.physical_offset,
            expected=missing.count,
            observed=0,
        )


def _report_deleted(report: QueueReport, ranges: list[MissingRange]) -> None:
    """Say once that the queue was deleted with its topic."""
    if not ranges:
        return
    count, first = sum(one.count for one in ranges), ranges[0]
    report.add(
        CQ_TOPIC_GONE,
        f"{counted(count, 'record has no unit', 'records have no unit')}, and topics.json has no such topic:"
        f" it was deleted; {_place_of(first)}",
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
        without = counted(missing.count, "record has no unit", "records have no unit")
        return f"{without}; the queue offsets came again, as if the topic had been created anew; {first}"
    one, many = "record has no unit", "records have no unit"
    if is_lag:
        one, many = "of the last records has no unit yet", "of the last records have no unit yet"
    return f"{counted(missing.count, one, many)}; {first}"


def _file_of(report: QueueReport, missing: MissingRange) -> Segment | None:
    files = report.check.files
    if files is None or report.check.batch:
        return None
    return files.segment_at(missing.queue_offset * UNIT_SIZE)
