"""A log as a report shows it: what lies where in its files, where clocks and queue offsets leap, a census."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, NamedTuple

from rmqtool.check.census import Census, Period, census_of
from rmqtool.check.log_findings import steps_back
from rmqtool.check.splits import RecordRun, SegmentScan
from rmqtool.findings import codes
from rmqtool.formats.message import Outcome

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from rmqtool.check.queue_offsets import Break, Breaks

MAX_STRETCHES = 240
"""Stretches listed per file; a more torn file is shown in as many equal pieces."""

_MAX_STEPS = 50


class Content(StrEnum):
    """Content of a stretch of the log, the gravest first."""

    DAMAGED = "damaged"
    REST = "rest"  # after the log's end, from before a truncation or of a page's buffer
    RECORDS = "records"
    FILE_END = "blank"
    ZEROS = "zeros"


@dataclass(frozen=True, slots=True)
class Stretch:
    """Bytes of one kind.

    Attributes:
        what: lies there.
        start: physical offset.
        stop: physical offset after it.
        records: how many.
        first_ms: STORETIMESTAMP of the first record; None without any.
        last_ms: of the last.
    """

    what: Content
    start: int
    stop: int
    records: int = 0
    first_ms: int | None = None
    last_ms: int | None = None


@dataclass(frozen=True, slots=True)
class LogFile:
    """A file of the log: ``stretches`` fill it from ``start`` to ``stop``, unless it could not be read."""

    file: str
    start: int
    stop: int
    stretches: tuple[Stretch, ...]


@dataclass(frozen=True, slots=True)
class ClockStep:
    """A record that was stored before the one in front of it: its physical offset, and both times."""

    physical_offset: int
    before_ms: int
    after_ms: int


@dataclass(frozen=True, slots=True)
class OffsetGap:
    """Queue offsets that no record carries, in front of the record at ``physical_offset``."""

    topic: str
    queue_id: int
    first: int
    missing: int
    physical_offset: int


@dataclass(frozen=True, slots=True)
class LogPicture:
    """Picture of a log for a report.

    Attributes:
        files: in log order.
        end: physical offset after the last record.
        census: what it is made of.
        clock_steps: the widest, in log order.
        more_clock_steps: how many are not listed.
        offset_gaps: in order of queue and log.
        more_offset_gaps: how many are not listed.
    """

    files: tuple[LogFile, ...]
    end: int
    census: Census
    clock_steps: tuple[ClockStep, ...] = ()
    more_clock_steps: int = 0
    offset_gaps: tuple[OffsetGap, ...] = ()
    more_offset_gaps: int = 0


class PictureFrame(NamedTuple):
    """Period of the census, and the physical offsets after a log's last record and the old ones."""

    period: Period
    end: int
    stale_stop: int


def picture_of(scans: Sequence[SegmentScan], breaks: Breaks, frame: PictureFrame) -> LogPicture:
    """Return the picture of a log that has been checked."""
    unsorted = (ClockStep(run.start, before.last_ms, run.first_ms) for _, before, run in steps_back(scans))
    steps = sorted(unsorted, key=lambda step: step.after_ms - step.before_ms)
    gaps = tuple(_gaps(breaks.kept))
    counted = sum(fault.code is codes.CL_QOFF_GAP for fault in breaks.kept)
    taken = [report.census for scan in scans for report in scan.reports if report.census is not None]
    return LogPicture(
        files=tuple(_file(scan, frame) for scan in scans),
        end=frame.end,
        census=census_of(frame.period, taken),
        clock_steps=tuple(sorted(steps[:_MAX_STEPS], key=lambda one: one.physical_offset)),
        more_clock_steps=max(0, len(steps) - _MAX_STEPS),
        offset_gaps=gaps,
        more_offset_gaps=breaks.totals[codes.CL_QOFF_GAP] - counted,
    )


def _gaps(breaks: Sequence[Break]) -> Iterator[OffsetGap]:
    """Yield gaps; a queue that comes back from one single wild offset misses nothing after it."""
    for number, fault in enumerate(breaks):
        if fault.code is not codes.CL_QOFF_GAP:
            continue
        stop = fault.observed
        for after in breaks[number + 1 :]:
            if (after.topic, after.queue_id) != (fault.topic, fault.queue_id):
                break
            if after.code is codes.CL_QOFF_DUP and fault.expected <= after.observed < stop:
                stop = after.observed
        if stop > fault.expected:
            yield OffsetGap(
                fault.topic, fault.queue_id, fault.expected, stop - fault.expected, fault.log_offset
            )


def _file(scan: SegmentScan, frame: PictureFrame) -> LogFile:
    segment = scan.segment
    stretches = list(_stretches(scan, frame)) if scan.reports else []
    if len(stretches) > MAX_STRETCHES:
        stretches = list(_coarse(stretches, segment.start, segment.stop))
    return LogFile(segment.label, segment.start, segment.stop, tuple(stretches))


def _stretches(scan: SegmentScan, frame: PictureFrame) -> Iterator[Stretch]:
    """Yield what lies in a file, from its first byte to its last."""
    at, stop = scan.segment.start, scan.segment.stop
    for stretch in _parts(scan, frame.end):
        if stretch.start > at:
            yield Stretch(Content.ZEROS, at, stretch.start)
        yield stretch
        at = stretch.stop
    if at < stop and scan.end == Outcome.FILE_END:
        yield Stretch(Content.FILE_END, at, stop)
        return
    if at == frame.end < frame.stale_stop <= stop:
        yield Stretch(Content.REST, at, frame.stale_stop)
        at = frame.stale_stop
    if at < stop:
        yield Stretch(Content.ZEROS, at, stop)


def _parts(scan: SegmentScan, end: int) -> Iterator[Stretch]:
    """Yield runs, those that a step of the clock divides in one, and gaps; the log ends at ``end``."""
    run: Stretch | None = None
    for part in scan.parts:
        if isinstance(part, RecordRun):
            if run is not None and run.stop == part.start:
                run = Stretch(
                    Content.RECORDS,
                    run.start,
                    part.stop,
                    run.records + part.records,
                    run.first_ms,
                    part.last_ms,
                )
                continue
            if run is not None:
                yield run
            run = Stretch(Content.RECORDS, part.start, part.stop, part.records, part.first_ms, part.last_ms)
            continue
        if run is not None:
            yield run
            run = None
        if part.start < end:  # zeros inside the log are a hole, as any other bytes are
            yield Stretch(Content.DAMAGED, part.start, part.stop)
            continue
        if part.data_start > part.start and part.begins_with_zeros:
            yield Stretch(Content.ZEROS, part.start, min(part.data_start, part.stop))
        if not part.zero:
            start = part.data_start if part.begins_with_zeros else part.start
            yield Stretch(Content.REST, start, part.stop)
    if run is not None:
        yield run


def _coarse(stretches: Sequence[Stretch], start: int, stop: int) -> Iterator[Stretch]:
    """Yield equal pieces of a file: each as grave as the gravest in it, with the records that begin in it."""
    ranks = list(Content)
    size = -(-(stop - start) // MAX_STRETCHES)
    number = 0
    for low in range(start, stop, size):
        high = min(low + size, stop)
        while stretches[number].stop <= low:
            number += 1
        inside = [stretches[number]]
        for stretch in stretches[number + 1 :]:
            if stretch.start >= high:
                break
            inside.append(stretch)
        worst = min((one.what for one in inside), key=ranks.index)
        records = sum(one.records for one in inside if low <= one.start)
        times = [moment for one in inside for moment in (one.first_ms, one.last_ms) if moment is not None]
        yield Stretch(worst, low, high, records, times[0] if times else None, times[-1] if times else None)
