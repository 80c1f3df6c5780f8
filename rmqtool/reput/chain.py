"""Follow the chain of records through all splits, as the broker's reput does, damage included.

The splits of a file are put together by ``stitch``; a broker does not read on over a gap.

Over damage a running master goes by two counters (``ReputMessageService#doReput``, 4.9.8 and 5.3.3): it
reads on in the mapped region at its buffer's position, and sums up TOTALSIZEs in ``reputFromOffset``. A
record whose lengths do not add up moves the first by what was read and the second by TOTALSIZE, and they stay
apart until the region ends:

* a failure of size -1 adds the region's bytes that the second counter has not seen as good, so the next
  region begins after the segment by the TOTALSIZEs of all such records: in the middle of the next segment;
* BLANK rolls to the segment after the second counter.

One thing is not followed: 5.x stops where the second counter would pass the log's end, so after such a
record in the log's last file it leaves out the last good ones until more is written. That end moves as the
broker writes; the files are read as if it had gone on.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import numpy as np

from rmqtool.formats.message import Outcome
from rmqtool.scan.log_pass import LogPass, stitch

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    import numpy.typing as npt

    from rmqtool.reput.scan import ScanJob, SplitReport
    from rmqtool.store.segments import FileQueue, Segment

    Rescan = Callable[[SplitReport, int], SplitReport]

MAX_SKIPS = 10_000
"""Skips that are told apart; of a log that is torn more often the others are only counted."""


@dataclass(frozen=True, slots=True)
class Skip:
    """Bytes of the log that the broker does not dispatch.

    Attributes:
        log_offset: physical offset of the first of them.
        length: how many.
        reason: why, an outcome of the record there; STOP: the counters had come apart before; BLANK:
            one that does not say that the file ends there; MISMATCH: the lengths of that record, and of
            all after it to the end of the skip, do not add up.
    """

    log_offset: int
    length: int
    reason: Outcome


@dataclass
class ReputChain:
    """The broker's way through the log.

    Attributes:
        reports: the splits that count, in log order.
        skips: what was not dispatched, in log order, up to the end of the log's last file.
        more_skips: skips in front of dispatched records, each a MISMATCH, that ``skips`` had no room for.
        more_skipped_bytes: their length.
        end: physical offset after the last good record.
        stop: where the way ended: after the last file, at a gap, or at a record that stalls the broker.
        stalled: whether it is the latter.
        kept: bytes of the array that the reput thread keeps, see ``RecordRules.kept_array``.
    """

    reports: list[SplitReport] = field(default_factory=list)
    skips: list[Skip] = field(default_factory=list)
    more_skips: int = 0
    more_skipped_bytes: int = 0
    end: int = 0
    stop: int = 0
    stalled: bool = False
    kept: int = 0

    def skip_record(self, log_offset: int, length: int) -> None:
        """Note a record whose lengths do not add up, together with those right before it."""
        last = self.skips[-1] if self.skips else None
        if last is not None and last.reason == Outcome.MISMATCH:
            if last.log_offset + last.length == log_offset:
                log_offset, length = last.log_offset, last.length + length
                self.skips.pop()
            elif len(self.skips) > MAX_SKIPS and last.log_offset < self.end:
                self.more_skips += 1
                self.more_skipped_bytes += last.length
                self.skips.pop()
        self.skips.append(Skip(log_offset, length, Outcome.MISMATCH))


@dataclass
class Region:
    """How far the two counters have come apart since the region began.

    Attributes:
        total: TOTALSIZEs of the records whose lengths do not add up.
        read: bytes that were read of them.
    """

    total: int = 0
    read: int = 0

    def add(self, mismatches: npt.NDArray[np.void]) -> None:
        """Pass records whose lengths do not add up, ``(n,)`` of ``MISMATCH_ROW``."""
        self.total += int(mismatches["total_size"].sum())
        self.read += int(mismatches["read_length"].sum())

    def after(self, stop: int) -> int:
        """Return where the region after this one begins, if no BLANK ends it at ``stop``."""
        return stop + self.total

    def rolled(self, log_offset: int, segment: Segment, file_size: int) -> int:
        """Return where a BLANK at ``log_offset`` leads: to the segment after the second counter."""
        offset = log_offset + self.total - self.read
        # The second term guards against a file size that is not the segments' own: always go forward.
        return max(offset + file_size - offset % file_size, segment.stop)


def follow(log: FileQueue, file_size: int, until: int, scan: LogPass[ScanJob, SplitReport]) -> ReputChain:
    """Follow the chain from the log's first byte.

    Args:
        log: the commit log.
        file_size: ``mappedFileSizeCommitLog``.
        until: physical offset at which to stop.
        scan: has read the splits.
    """
    chain = ReputChain()
    splits = {segment.start: reports for segment, reports in scan.by_file()}

    def rescan(report: SplitReport, log_offset: int) -> SplitReport:
        """Scan a split again, with the array that was kept by then."""
        return scan.reread(report.split, log_offset, replace(scan.job, kept=chain.kept))

    log_offset = chain.end = log.start
    while log_offset < until and (segment := log.segment_at(log_offset)) is not None:
        # Where files overlap, one is read to its end.
        region, last = Region(), None
        known = _with_kept(chain, splits[segment.start], rescan)
        for last in stitch(known, log_offset, rescan):
            _take(chain, last, region)
        if last is None:
            break
        log_offset = last.log_offset
        chain.stalled = last.stalled
        if last.stalled or (last.outcome is Outcome.STOP and log_offset < segment.stop):
            break  # the latter: as far as was asked
        log_offset = _next_region(chain, last, segment, region, file_size)
    chain.stop = log_offset
    return chain


def _with_kept(chain: ReputChain, reports: Iterable[SplitReport], rescan: Rescan) -> Iterator[SplitReport]:
    """Yield the reports of one file, as the array is that the chain has kept when each is asked for.

    A larger array only ever lets a part be read that was too long: what ended otherwise stands.
    """
    for report in reports:
        log_offset = report.first_log_offset
        if log_offset is not None and report.outcome is Outcome.BAD_LENGTH and report.kept < chain.kept:
            yield rescan(report, log_offset)
        else:
            yield report


def _take(chain: ReputChain, report: SplitReport, region: Region) -> None:
    chain.reports.append(report)
    chain.end = max(chain.end, report.end)
    chain.kept = max(chain.kept, report.kept)
    region.add(report.mismatches)
    for log_offset, length in _runs(report.mismatches):
        chain.skip_record(log_offset, length)


def _runs(mismatches: npt.NDArray[np.void]) -> Iterator[tuple[int, int]]:
    """Yield place and length of records that follow each other, put together."""
    log_offsets = mismatches["log_offset"]
    stops = log_offsets + mismatches["read_length"]
    firsts = np.flatnonzero(np.concatenate([[True], log_offsets[1:] != stops[:-1]])[: len(log_offsets)])
    lasts = np.append(firsts[1:], len(log_offsets))[: len(firsts)] - 1
    for start, stop in zip(log_offsets[firsts], stops[lasts], strict=True):
        yield int(start), int(stop - start)


def _next_region(
    chain: ReputChain, report: SplitReport, segment: Segment, region: Region, file_size: int
) -> int:
    """Return where the next region begins, and note what is skipped up to there."""
    if report.outcome == Outcome.BLANK:
        following = region.rolled(report.log_offset, segment, file_size)
        if report.blank_length != segment.stop - report.log_offset:
            chain.skips.append(Skip(report.log_offset, segment.stop - report.log_offset, report.outcome))
    elif report.outcome == Outcome.STOP and not region.read:
        following = segment.stop
    else:
        following = region.after(segment.stop)
        if report.log_offset < segment.stop:
            chain.skips.append(Skip(report.log_offset, segment.stop - report.log_offset, report.outcome))
    if following > segment.stop and region.total:
        chain.skips.append(Skip(segment.stop, following - segment.stop, Outcome.STOP))
    return following
