"""Places where the records of one log begin, stretch by stretch, and where its chain breaks."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from rmqtool.findings import Finding, FindingLog, Severity
from rmqtool.formats.message import Outcome
from rmqtool.releases import LENIENT
from rmqtool.scan.classify import FoundEdge, classified
from rmqtool.scan.gap_walk import GapWalk, gap_of
from rmqtool.scan.gaps import Gap
from rmqtool.scan.record_checks import RecordChecker

if TYPE_CHECKING:
    from rmqtool.arrays import Int64s
    from rmqtool.store import FileQueue, Segment


_BLANK_BYTES = 8


@dataclass(frozen=True)
class Starts:
    """Places where records, BLANKs and damage begin in a stretch.

    Attributes:
        log_offsets: ``(n,)`` physical offsets, ascending.
        blank: Physical offset after the header of a BLANK, from where nothing is read; None without one.
    """

    log_offsets: Int64s
    blank: int | None = None

    def has(self, log_offset: int) -> bool:
        """Return whether something begins at a place."""
        at = int(np.searchsorted(self.log_offsets, log_offset))
        return at < len(self.log_offsets) and int(self.log_offsets[at]) == log_offset


@dataclass
class RecordChain:
    """Follows the records of a log; after damage at the next intact record.

    Attributes:
        end: Physical offset after its last record, from where on nothing is damage.
        breaks: Breaks of the chain that were not taken yet.
    """

    files: FileQueue
    end: int
    edge: FoundEdge
    log_offset: int = 0
    breaks: list[Finding] = field(default_factory=list)
    findings: FindingLog = field(default_factory=lambda: FindingLog(1))

    def __post_init__(self) -> None:
        self._walk: GapWalk | None = None
        self._blank: int | None = None  # of the open segment

    @property
    def has_bad_records(self) -> bool:
        """Return whether a checked record is damaged."""
        return any(finding.severity is Severity.ERROR for finding in self.findings)

    def starts(self, low: int, high: int, *, check: bool) -> Starts:
        """Return where records begin between two physical offsets of one file.

        ``check`` compares every record with its checksums.
        """
        segment = self.files.segment_at(low)
        found: list[Int64s] = [np.empty(0, np.int64)]
        if segment is None:
            return Starts(found[0])
        walk = self._open(segment)
        checker = RecordChecker(segment, self.findings) if check else None
        reach = min(self.end, segment.stop)
        high = min(high, reach)
        if self.log_offset < high:
            for part in walk.parts(self.log_offset, high, reach):
                if isinstance(part, Gap):
                    found.append(np.array([part.start], np.int64))
                    self._note(part)
                    continue
                found.append(np.sort(np.concatenate([part.rows["log_offset"], part.gaps["start"]])))
                for row in part.gaps:
                    self._note(gap_of(row))
                if checker is not None:
                    checker.check(part)
            self.log_offset = walk.log_offset
            if walk.outcome is Outcome.BLANK:
                found.append(np.array([walk.log_offset], np.int64))
                self.log_offset = segment.stop
                self._blank = walk.log_offset + _BLANK_BYTES
        blank = self._blank if self._blank is not None and self.log_offset >= segment.stop else None
        return Starts(np.concatenate(found), blank)

    def _open(self, segment: Segment) -> GapWalk:
        if self._walk is None or segment is not self._walk.segment:
            if self._walk is not None:
                self._walk.segment.close()
            self._blank = None
            self._walk = GapWalk(segment, LENIENT, self.edge.stale_from)
            self.log_offset = max(self.log_offset, segment.start)
        return self._walk

    def _note(self, gap: Gap) -> None:
        segment = self.files.segment_at(gap.start)
        if segment is not None:
            number = self.files.segments.index(segment)
            self.breaks += classified(gap, segment, number, self.edge)
