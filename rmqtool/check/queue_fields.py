"""Check of the fields of units against their records: size, tags code and, in ext and batch units, more."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from rmqtool.check.queue_report import Detail, Problem, QueueReport
from rmqtool.derived.ext_files import ExtColumns, ExtFile
from rmqtool.findings import FindingCode, Severity, Structure, codes, counted
from rmqtool.formats import consumequeue as formats
from rmqtool.store.segments import unreadable_findings
from rmqtool.topics import SCHEDULE_TOPIC

if TYPE_CHECKING:
    from rmqtool.arrays import Bools, Int64s
    from rmqtool.check.expected import UnitRows
    from rmqtool.derived.queue_files import Units
    from rmqtool.io.location import UnreadableRange
    from rmqtool.store.segments import FileQueue, Segment


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
        problem = Problem(codes.CQ_EXT_DANGLING, units, rows[missing], lambda row: _tell_dangling(units, row))
        return tags, times, [problem]

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


def _tell_dangling(units: Units, row: int) -> Detail:
    address = int(units.rows["tagsCode"][row]) - formats.EXT_ADDRESS_BASE
    return Detail(f"refers to a missing ext unit at {address}", observed=address)


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
        for code, chosen in ((codes.CQ_SIZE_TAG, times_ms == NO_EXT_TIME), (codes.CQ_EXT_UNIT, is_ext)):
            self._check_tags(code, units, rows[chosen], tags[chosen], wanted.tags_codes[hits[chosen]])
        if wanted.store_timestamps_ms is not None:
            expected = np.where(is_ext, wanted.store_timestamps_ms[hits], times_ms)
            wrong = times_ms != expected
            self._report.report(
                Problem(
                    codes.CQ_EXT_UNIT, units, rows[wrong], lambda _: Detail("has an ext unit of another time")
                )
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
        code = codes.BQ_BAD_UNIT if self._report.check.batch else codes.CQ_SIZE_TAG
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
