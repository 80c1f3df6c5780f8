"""Where the records of one log begin, stretch by stretch, and where its chain breaks."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from rmqtool.check.log.record_checks import RecordChecker
from rmqtool.findings import FindingLog, Severity
from rmqtool.releases import EXAMINER
from rmqtool.scan.rows import Outcome, rules_of
from rmqtool.scan.walk import SegmentWalk

if TYPE_CHECKING:
    import numpy.typing as npt

    from rmqtool.store import FileQueue, Segment

    Int64s = npt.NDArray[np.int64]

_BLANK_BYTES = 8


@dataclass(frozen=True)
class Starts:
    """Where records, BLANKs and damage begin in a stretch.

    Attributes:
        places: ``(n,)`` physical offsets, ascending.
        blank: Physical offset behind the header of a BLANK, from where nothing is read; None without one.
    """

    places: Int64s
    blank: int | None = None

    def has(self, place: int) -> bool:
        """Return whether something begins at a place."""
        at = int(np.searchsorted(self.places, place))
        return at < len(self.places) and int(self.places[at]) == place


@dataclass
class Chain:
    """Follows the records of a log; behind damage at the next true record.

    Attributes:
        files: The log.
        end: Physical offset behind its last record; what lies there is no damage.
        place: Where the next record begins.
        breaks: Physical offsets of damage that were not taken yet, with the offset behind it.
        findings: What is wrong with records that were checked.
    """

    files: FileQueue
    end: int
    place: int = 0
    breaks: list[tuple[int, int]] = field(default_factory=list)
    findings: FindingLog = field(default_factory=lambda: FindingLog(1))

    def __post_init__(self) -> None:
        self._segment: Segment | None = None
        self._walk: SegmentWalk | None = None
        self._blank: int | None = None  # of the open segment

    @property
    def has_bad_records(self) -> bool:
        """Return whether a checked record is damaged."""
        return any(finding.severity is Severity.ERROR for finding in self.findings)

    def starts(self, low: int, high: int, *, check: bool) -> Starts:
        """Return where records begin in a stretch of one file.

        Args:
            low: Physical offset.
            high: Physical offset.
            check: Hold every record against its checksums.
        """
        segment = self.files.segment_at(low)
        found = [np.empty(0, np.int64)]
        if segment is None:
            return Starts(found[0])
        walk = self._open(segment)
        checker = RecordChecker(segment, self.findings) if check else None
        high = min(high, self.end, segment.stop)
        while self.place < high:
            for batch in walk.batches(self.place, high):
                found.append(batch.rows["place"].copy())
                if checker is not None:
                    checker.check(batch)
            self.place = walk.place
            if walk.outcome is Outcome.STOP:
                continue
            found.append(np.array([walk.place], np.int64))
            if walk.outcome is Outcome.BLANK:
                self.place = segment.stop
                self._blank = walk.place + _BLANK_BYTES
                break
            self._resume(walk, segment)
        blank = self._blank if self._blank is not None and self.place >= segment.stop else None
        return Starts(np.concatenate(found), blank)

    def _open(self, segment: Segment) -> SegmentWalk:
        if self._walk is None or segment is not self._segment:
            if self._segment is not None:
                self._segment.close()
            rules = rules_of(EXAMINER)
            self._blank = None
            self._segment, self._walk = segment, SegmentWalk(segment, rules, stops_at_mismatch=True)
            self.place = max(self.place, segment.start)
        return self._walk

    def _resume(self, walk: SegmentWalk, segment: Segment) -> None:
        """Go on at the next true record behind damage, or in the next file."""
        broken, stop = walk.place, min(self.end, segment.stop)
        is_found = walk.find(broken + 1, stop) is not Outcome.STOP
        self.place = walk.place if is_found else segment.stop
        self.breaks.append((broken, min(self.place, stop)))
