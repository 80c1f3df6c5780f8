"""Findings about the units of one queue, delayed where only later units show whether they count."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, NamedTuple

from rmqtool.findings import Finding, FindingCode, FindingLog, Observed, Severity
from rmqtool.findings.codes import ST_SETTINGS

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from rmqtool.arrays import Int64s
    from rmqtool.check.expected import QueueCheck
    from rmqtool.derived.queue_files import Units
    from rmqtool.store.segments import Segment


class Detail(NamedTuple):
    """The finding on one unit; the message goes on after ``unit N of TOPIC/QUEUE``."""

    message: str
    expected: Observed = None
    observed: Observed = None


@dataclass(frozen=True)
class Problem:
    """Units of a chunk, ``rows`` ``(n,)``, with the same defect; ``tell`` returns the detail of one row."""

    code: FindingCode
    units: Units
    rows: Int64s
    tell: Callable[[int], Detail]
    severity: Severity | None = None


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

    def report(self, problem: Problem) -> None:
        """Add a problem that counts."""
        self._note(problem, problem.rows, self.log)

    def flush(self, problems: Sequence[Problem], confirmed: int | None) -> None:
        """Add the problems of a chunk up to the last unit that belongs to the queue, keep the others.

        ``confirmed`` is the number of that unit; None if no unit does.
        """
        if confirmed is not None:
            self.confirm_pending()
        for problem in problems:
            numbers = problem.units.first_number + problem.rows
            is_early = numbers <= (-1 if confirmed is None else confirmed)
            self._note(problem, problem.rows[is_early], self.log)
            self._note(problem, problem.rows[~is_early], self._pending)

    def confirm_pending(self) -> None:
        """Add the kept problems."""
        self.log.merge(self._pending)
        self.drop_pending()

    def drop_pending(self) -> None:
        """Drop the kept problems."""
        self._pending = FindingLog(self.log.max_per_code)

    def _note(self, problem: Problem, rows: Int64s, log: FindingLog) -> None:
        log.add_rows(rows, lambda row: self._finding(problem, int(row)))

    def _finding(self, problem: Problem, row: int) -> Finding:
        units, telling = problem.units, problem.tell(row)
        number = units.first_number + row
        return Finding(
            code=problem.code,
            file=units.segment.label,
            position=units.position_of(row),
            length=units.unit_size,
            **self._queue,
            queue_offset=None if self.check.batch else number,
            physical_offset=int(units.rows["physicalOffset"][row]),
            expected=telling.expected,
            observed=telling.observed,
            message=f"unit {number} of {self.name} {telling.message}",
            severity_override=problem.severity,
        )


def tell_delay_table_once(findings: FindingLog) -> None:
    """Report once, not for every level, that the broker had another delay table."""
    levels = findings.counts.get(ST_SETTINGS.code, 0)
    if levels > 1:
        first = next(one for one in findings if one.code is ST_SETTINGS)
        message = (
            f"the deliver times of {levels} levels differ from messageDelayLevel, all of a level by the "
            f"same, the first level's by {first.observed} ms: the broker had another table"
        )
        findings.fold(ST_SETTINGS.code, replace(first, queue_id=None, message=message))
