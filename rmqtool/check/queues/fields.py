"""Check of the fields of units against their records: size, tags code and, in ext and batch units, more."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from rmqtool.check.queues.ext import NO_EXT_TIME
from rmqtool.check.queues.report import Detail, Problem, QueueReport
from rmqtool.findings import Severity
from rmqtool.findings.consumequeue import BQ_BAD_UNIT, CQ_EXT_UNIT, CQ_SIZE_TAG
from rmqtool.findings.places import ST_SETTINGS
from rmqtool.findings.wording import counted
from rmqtool.topics import SCHEDULE_TOPIC

if TYPE_CHECKING:
    from rmqtool.arrays import Int64s
    from rmqtool.check.expected import UnitRows
    from rmqtool.derived.queue_files import Units
    from rmqtool.findings import FindingCode


OTHER_TAGS = "has tagsCode"
"""Beginning of a finding about a unit that contradicts the tags of its record."""

_SECOND_MS = 1000
_INT_MIN, _INT_MAX = -(1 << 31), (1 << 31) - 1


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

        ``tags`` and ``times_ms`` are as `queues.ext` resolves them.
        """
        if self._report.check.batch:
            self._check_batch(units, rows, wanted, hits)
            return
        sizes = units.column("size")[rows]
        self._differ(units, rows, sizes, wanted.sizes[hits], "size")
        is_ext = times_ms >= 0
        # An address without an ext unit is a finding of its own.
        for code, chosen in ((CQ_SIZE_TAG, times_ms == NO_EXT_TIME), (CQ_EXT_UNIT, is_ext)):
            self._check_tags(code, units, rows[chosen], tags[chosen], wanted.tags_codes[hits[chosen]])
        if wanted.store_timestamps_ms is not None:
            expected = np.where(is_ext, wanted.store_timestamps_ms[hits], times_ms)
            wrong = times_ms != expected
            self._report.report(
                Problem(CQ_EXT_UNIT, units, rows[wrong], lambda _: Detail("has an ext unit of another time"))
            )

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
        self._report.add(ST_SETTINGS, sentence, severity=Severity.WARNING, expected=0, observed=shift_ms)

    def _check_tags(
        self, code: FindingCode, units: Units, rows: Int64s, tags: Int64s, wanted: Int64s
    ) -> None:
        wrong = tags != wanted
        if not wrong.any():
            if self._delays:
                self._delays.agreeing += len(rows)
            return
        pairs = dict(zip(rows[wrong].tolist(), zip(wanted[wrong].tolist(), tags[wrong].tolist())))  # noqa: B905
        tell = _tell_delay if self._delays else _tell_tags
        problem = Problem(code, units, rows[wrong], lambda row: tell(*pairs[row]))
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
        wrong = values != wanted
        if not wrong.any():
            return
        pairs = dict(zip(rows[wrong].tolist(), zip(wanted[wrong].tolist(), values[wrong].tolist())))  # noqa: B905
        code = BQ_BAD_UNIT if self._report.check.batch else CQ_SIZE_TAG
        self._report.report(
            Problem(
                code,
                units,
                rows[wrong],
                lambda row: Detail(f"has {name} {pairs[row][1]}, its record {pairs[row][0]}", *pairs[row]),
            )
        )


def _tell_tags(wanted: int, found: int) -> Detail:
    return Detail(f"{OTHER_TAGS} {found}, its record {wanted}", wanted, found)


def _tell_delay(wanted: int, found: int) -> Detail:
    if _INT_MIN <= found <= _INT_MAX:
        sentence = f"has a hash of tags, {found}, for deliver time {wanted}: recovery of 4.9.2-4.9.8 wrote it"
        return Detail(sentence, wanted, found)
    return Detail(f"has deliver time {found}, its record {wanted}", wanted, found)
