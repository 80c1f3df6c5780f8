"""Put the checked splits together: one trail of records and damage through the whole log.

Each split was read from a guessed first record. Its report is taken if the records before it end exactly
there, or if everything up to it is damage (then the guess is what a search from the damage would have
found). Otherwise the split is read again from where the records before it end; splits that a long record or
a BLANK jumped over are left out. So the trail is the same however the log was cut.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from rmqtool.check.log.record_runs import Damage, Stretch
from rmqtool.reput.survey import first_nonzero
from rmqtool.scan.rows import Outcome

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from rmqtool.check.log.check_split import CheckReport
    from rmqtool.reput.splits import Split
    from rmqtool.store.segments import Segment

    Recheck = Callable[[Split, int], CheckReport]


@dataclass
class SegmentTrail:
    """What is in one file of the log.

    Attributes:
        segment: the file.
        reports: the splits that count.
        parts: stretches and damage in log order, without the splits' seams.
        end: STOP: records up to the file's end, or to where reading was to end; BLANK; else damage.
        place: physical offset of that end; of a BLANK, its own.
    """

    segment: Segment
    reports: list[CheckReport] = field(default_factory=list)
    parts: list[Stretch | Damage] = field(default_factory=list)
    end: Outcome = Outcome.STOP
    place: int = 0

    @property
    def stretches(self) -> list[Stretch]:
        """Return the stretches."""
        return [part for part in self.parts if isinstance(part, Stretch)]

    @property
    def damages(self) -> list[Damage]:
        """Return the damage."""
        return [part for part in self.parts if isinstance(part, Damage)]

    @property
    def ghosts(self) -> bool:
        """Whether something lies behind the BLANK."""
        return self.end == Outcome.BLANK and self.reports[-1].ghosts

    @property
    def records_stop(self) -> int | None:
        """Return the physical offset behind the last record; None if there is none."""
        stretches = self.stretches
        return stretches[-1].stop if stretches else None


def follow_segment(segment: Segment, reports: Sequence[CheckReport], recheck: Recheck) -> SegmentTrail:
    """Put the splits of one file together.

    Args:
        segment: the file.
        reports: of its splits, in log order.
        recheck: reads a split again from a given physical offset on.
    """
    trail = SegmentTrail(segment, place=segment.start)
    for report in reports:
        if trail.end == Outcome.BLANK:
            break
        if trail.end != Outcome.STOP:
            _join_damage(trail, report)
        elif trail.place < report.split.stop:
            taken = report if report.first_place == trail.place else recheck(report.split, trail.place)
            _take(trail, taken)
    return trail


def _take(trail: SegmentTrail, report: CheckReport) -> None:
    trail.reports.append(report)
    trail.end, trail.place = report.outcome, report.place
    parts = report.parts
    if parts and trail.parts and _continues(trail.parts[-1], parts[0]):
        trail.parts[-1] = _joined(trail.parts[-1], parts[0])
        parts = parts[1:]
    trail.parts += parts


def _continues(before: Stretch | Damage, after: Stretch | Damage) -> bool:
    return (
        isinstance(before, Stretch)
        and isinstance(after, Stretch)
        and before.stop == after.start
        and before.last_ms <= after.first_ms
    )


def _joined(before: Stretch | Damage, after: Stretch | Damage) -> Stretch:
    if not isinstance(before, Stretch) or not isinstance(after, Stretch):
        raise TypeError("only stretches are joined")
    return Stretch(before.start, after.stop, before.records + after.records, before.first_ms, after.last_ms)


def _join_damage(trail: SegmentTrail, report: CheckReport) -> None:
    """Go on behind damage that reached the split's start: it ends at the split's first true record."""
    stop = report.split.stop if report.first_place is None else report.first_place
    last = trail.parts[-1] if trail.parts else None
    if isinstance(last, Damage) and last.stop == report.split.start:
        data_start = last.data_start
        if last.zero:
            data_start = first_nonzero(trail.segment, report.split.start, stop)
        trail.parts[-1] = replace(last, stop=stop, data_start=data_start)
    trail.place = stop
    if report.first_place is not None:
        _take(trail, report)
    else:
        trail.reports.append(report)  # without records, but with what it could not read
