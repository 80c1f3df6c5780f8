"""Sink of a rebuild: a split of the log, read as a running broker does, becomes a block file and a report."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

import numpy as np

from rmqtool.formats.message import Outcome
from rmqtool.kernels.rows import MISMATCH_ROW, rules_of
from rmqtool.reput.dispatcher import DispatchedSplit, DispatchJob, DispatchSink, KnownQueues
from rmqtool.scan.walk import MessageBatch, SegmentWalk

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    import numpy.typing as npt

    from rmqtool.findings import FindingLog
    from rmqtool.scan.gaps import Gap
    from rmqtool.scan.log_pass import Split, SplitRead
    from rmqtool.store.segments import Segment

    RecordJudge = Callable[[Segment, FindingLog], "RecordCheck"]


class RecordCheck(Protocol):
    """What holds records against their own bytes: `rmqtool.scan.record_checks.RecordChecker`."""

    @property
    def sound_crcs(self) -> int:
        """Return how many records carry a property ``__CRC32#`` that holds."""

    def check(self, batch: MessageBatch) -> None:
        """Check a batch, which nobody dispatches after that: rows are changed."""


class BrokerWalk(SegmentWalk):
    """The way of a running broker: it ends at a gap, and at a record that the dispatch cannot get past.

    Attributes:
        stalled_at: physical offset of such a record; the sink sets it.
    """

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
    """What a scan found.

    Attributes:
        end: physical offset after the last good record; 0 if there is none.
        kept: bytes of the array that the reput thread keeps then.
        blank_length: TOTALSIZE of the BLANK there, if it is one.
        stalled: the broker repeats the record at ``log_offset`` for ever: its LMQ offset is not a number.
        messages: records dispatched.
        unindexed: of them, how many an index passes over: they lie before what it holds.
        end_phy_offset: greatest offset of an indexed message, 0 if none.
        start_phy_offset: least offset of an indexed message.
        mismatches: ``(n,)`` of ``MISMATCH_ROW``, records whose lengths do not add up.
        unsafe: ``(topic, queue id)`` of the queues whose topic can be no directory.
    """

    end: int = 0
    kept: int = 0
    blank_length: int = 0
    stalled: bool = False
    messages: int = 0
    unindexed: int = 0
    end_phy_offset: int = 0
    start_phy_offset: int = 0
    mismatches: npt.NDArray[np.void] = field(default_factory=lambda: np.empty(0, MISMATCH_ROW))
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
            self._end = int(last["log_offset"]) + int(last["total_size"])
        self._records += len(batch.rows[:row])
        if self._check is not None:
            self._check.check(batch)
        if row is not None:
            self._walk.stalled_at = int(batch.rows["log_offset"][row])

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
            messages=taken.messages,
            unindexed=taken.unindexed,
            end_phy_offset=taken.end_phy_offset,
            start_phy_offset=int(taken.entries["physical_offset"].min(initial=taken.end_phy_offset)),
            mismatches=mismatches,
            unsafe=unsafe,
        )


@dataclass(frozen=True, slots=True)
class ScanJob(DispatchJob[SplitReport]):
    """Scan of all splits of a log; picklable.

    Attributes:
        kept: bytes of the array that the reput thread has kept by then, see ``RecordRules.kept_array``.
        judge: looks at the records themselves, which no reput does; None leaves them alone.
    """

    kept: int = 0
    judge: RecordJudge | None = None

    def walk(self, segment: Segment) -> BrokerWalk:
        """Return a new walk over a file."""
        return BrokerWalk(segment, rules_of(self.policy.release.records), kept=self.kept)

    def sink(self, split: Split, walk: BrokerWalk) -> _Scan:
        """Return a new sink for a split."""
        return _Scan(self, split.segment, walk)
