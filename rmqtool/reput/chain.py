"""Way of a running broker's reput through the log, damage included: it reads each split, and where next.

A split becomes a block file and a report (``ScanJob``); ``follow`` goes from report to report.
The splits of a file are put together by ``stitch``; a broker does not read on over a gap.

Over damage a running master goes by two counters (``ReputMessageService#doReput``, 4.9.8 and 5.3.3): it
reads on in the mapped region at its buffer's position, and sums up TOTALSIZEs in ``reputFromOffset``. A
record whose lengths do not add up moves the first by what was read and the second by TOTALSIZE, and they stay
apart until the region ends:

* a failure of size -1 adds the region's bytes that the second counter has not seen as good, so the next
  region begins after the segment by the TOTALSIZEs of all such records: in the middle of the next segment;
* an end mark rolls to the segment after the second counter.

One thing is not followed: 5.x stops where the second counter would pass the log's end, so after such a
record in the log's last file it leaves out the last good ones until more is written. That end moves as the
broker writes; the files are read as if it had gone on.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, NamedTuple, Protocol

import numpy as np

from rmqtool.formats.message import Outcome
from rmqtool.kernels.rows import MISMATCH_ROW, MessageBatch, frame_starts, frame_stops, rules_of
from rmqtool.reput.dispatcher import DispatchedSplit, DispatchJob, DispatchSink, KnownQueues
from rmqtool.scan.log_pass import LogPass, Split, SplitRead, stitch
from rmqtool.scan.walk import SegmentWalk

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from rmqtool.arrays import Rows
    from rmqtool.findings import FindingLog
    from rmqtool.scan.records import Gap
    from rmqtool.store.segments import FileQueue, Segment

    Rescan = Callable[["SplitReport", int], "SplitReport"]
    RecordJudge = Callable[[Segment, FindingLog], "RecordCheck"]


MAX_SKIPS = 10_000
"""Skips that are listed; of a log that is torn more often the others are only counted."""


class Skip(NamedTuple):
    """Bytes of the log that the broker does not dispatch.

    Attributes:
        log_offset: physical offset of the first of them.
        length: how many.
        reason: why, an outcome of the record there; STOP: the counters had come apart before; FILE_END:
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
    """The counters since a region began: TOTALSIZEs of records that do not add up, and bytes read of them."""

    total: int = 0
    read: int = 0

    def add(self, mismatches: Rows) -> None:
        """Pass records whose lengths do not add up, ``(n,)`` of ``MISMATCH_ROW``."""
        self.total += int(mismatches["total_size"].sum())
        self.read += int(mismatches["read_length"].sum())

    def after(self, stop: int) -> int:
        """Return where the region after this one begins, if no end mark ends it at ``stop``."""
        return stop + self.total

    def rolled(self, log_offset: int, segment: Segment, file_size: int) -> int:
        """Return where an end mark at ``log_offset`` leads: to the segment after the second counter."""
        offset = log_offset + self.total - self.read
        # The second term guards against a file size that is not the segments' own: always go forward.
        return max(offset + file_size - offset % file_size, segment.stop)


def follow(log: FileQueue, file_size: int, until: int, scan: LogPass[ScanJob, SplitReport]) -> ReputChain:
    """Follow the chain from the log's first byte."""
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
            break  # the latter: as far as requested
        log_offset = _next_region(chain, last, segment, region, file_size)
    chain.stop = log_offset
    return chain


def _with_kept(chain: ReputChain, reports: Iterable[SplitReport], rescan: Rescan) -> Iterator[SplitReport]:
    """Yield the reports of one file, each for the array that the chain has kept by then.

    A larger array only lets a part be read that was too long; any other end stays as it is.
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


def _runs(mismatches: Rows) -> Iterator[tuple[int, int]]:
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
    if report.outcome == Outcome.FILE_END:
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


class RecordCheck(Protocol):
    """Check of records by their own bytes: `rmqtool.scan.record_checks.RecordChecker`."""

    @property
    def sound_crcs(self) -> int:
        """Return how many records carry a property ``__CRC32#`` that holds."""

    def check(self, batch: MessageBatch) -> None:
        """Check a batch, which nobody dispatches after that: rows are changed."""


class BrokerWalk(SegmentWalk):
    """The way of a running broker, up to a gap, or to ``stalled_at``: its dispatch cannot get past that."""

    stalled_at: int | None = None

    def parts(self, start: int, stop: int) -> Iterator[MessageBatch | Gap]:
        """Walk from ``start`` on; records that begin at ``stop`` or later are not taken."""
        for batch in self.batches(start, stop, self.kept):
            yield batch
            if self.stalled_at is not None:
                self.outcome, self.log_offset = Outcome.BAD_NUMBER, self.stalled_at
                return


@dataclass(kw_only=True)
class SplitReport(DispatchedSplit):
    """Result of a scan.

    Attributes:
        end: physical offset after the last good record; 0 if there is none.
        kept: bytes of the array that the reput thread keeps then.
        blank_length: TOTALSIZE of the end mark there, if it is one.
        stalled: the broker repeats the record at ``log_offset`` for ever: its LMQ offset is not a number.
        start_phy_offset: least offset of an indexed message.
        mismatches: ``(n,)`` of ``MISMATCH_ROW``, records whose lengths do not add up.
        unsafe: ``(topic, queue id)`` of the queues whose topic can be no directory.
    """

    end: int = 0
    kept: int = 0
    blank_length: int = 0
    stalled: bool = False
    start_phy_offset: int = 0
    mismatches: Rows = field(default_factory=lambda: np.empty(0, MISMATCH_ROW))
    unsafe: list[tuple[str, int]] = field(default_factory=list)

    @property
    def next_log_offset(self) -> int:
        """Return the physical offset at which the next record is due."""
        return self.log_offset

    @property
    def ended(self) -> bool:
        """Whether the broker reads nothing of the segment after this: it ends at the first gap."""
        return self.outcome is not Outcome.STOP


class _Scan(DispatchSink):
    known = KnownQueues()

    def __init__(self, job: ScanJob, segment: Segment, walk: BrokerWalk) -> None:
        super().__init__(job, passes_stalls=False)
        self._walk = walk
        self._check = None if job.judge is None else job.judge(segment, self.findings)
        self._records = self._end = 0

    def gap(self, gap: Gap) -> None:
        """Refuse a gap: a broker's walk has none."""
        raise TypeError(f"a broker does not read on over a gap, and there is one: {gap}")

    def batch(self, batch: MessageBatch) -> None:
        """Dispatch records, and then judge them."""
        row = self.dispatcher.dispatch(batch)
        for last in batch.rows[:row][-1:]:
            self._end = int(frame_stops(last))
        self._records += len(batch.rows[:row])
        if self._check is not None:
            self._check.check(batch)
        if row is not None:
            self._walk.stalled_at = int(frame_starts(batch.rows)[row])

    def result(self, read: SplitRead) -> SplitReport:
        """Write the block; return what was found."""
        walk, taken, unsafe = self._walk, self.dispatcher.taken(), self.dispatcher.unsafe()
        mismatches = walk.mismatches
        if walk.stalled_at is not None:  # the walk is ahead of what is dispatched
            mismatches = mismatches[mismatches["log_offset"] < walk.stalled_at]
        return SplitReport(
            **vars(read),
            **self.written(unsafe),
            end=self._end,
            kept=0 if read.first_log_offset is None else walk.kept,
            blank_length=walk.blank_length,
            stalled=walk.stalled_at is not None,
            records=self._records,
            sound_crcs=0 if self._check is None else self._check.sound_crcs,
            start_phy_offset=int(taken.entries["physical_offset"].min(initial=taken.end_phy_offset)),
            mismatches=mismatches,
            unsafe=unsafe,
        )


@dataclass(frozen=True, slots=True)
class ScanJob(DispatchJob[SplitReport]):
    """Scan of all splits of a log; picklable.

    Attributes:
        kept: bytes of the array that the reput thread has kept by then, see ``RecordRules.kept_array``.
        judge: checks the records themselves, which no reput does; None leaves them alone.
    """

    kept: int = 0
    judge: RecordJudge | None = None

    def walk(self, segment: Segment) -> BrokerWalk:
        """Return a new walk over a file."""
        return BrokerWalk(segment, rules_of(self.policy.release.records), kept=self.kept)

    def sink(self, split: Split, walk: BrokerWalk) -> _Scan:
        """Return a new sink for a split."""
        return _Scan(self, split.segment, walk)
