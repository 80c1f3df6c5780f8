"""Sink of a check: a split of the log, read over all damage, becomes a block file and a report.

Where a broker's reput gives up, this goes on at the next *true* record (``GapWalk``): the units and index
entries in the block are those of every true record. What lies between is damage, unless nothing true follows
in the log: then it is the log's end (``segment_scan`` puts the splits together and knows).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from rmqtool.check.log.census import CensusTaker, Period, SplitCensus
from rmqtool.check.log.findings import is_illegal
from rmqtool.check.log.segment_scan import RecordRun, RunBuilder
from rmqtool.check.log.transaction_checks import TransactionRows
from rmqtool.findings.codes import LMQ_STALL
from rmqtool.reput.dispatcher import DispatchedSplit, DispatchJob, DispatchSink, KnownQueues
from rmqtool.scan.gap_walk import GapWalk
from rmqtool.scan.record_checks import Ahead, RecordChecker
from rmqtool.store.segments import Segment, finding_at

if TYPE_CHECKING:
    from rmqtool.scan.gaps import Gap
    from rmqtool.scan.log_pass import Split, SplitRead
    from rmqtool.scan.walk import MessageBatch


@dataclass(kw_only=True)
class CheckReport(DispatchedSplit):
    """What was found in a split.

    Attributes:
        parts: runs of records and gaps in log order.
        more_gaps: gaps that ``parts`` had no room for.
        more_steps: likewise, records whose store time falls.
        ghosts: bytes that are not zero lie after the BLANK.
        ahead: records that were born after they were stored.
        illegal_queues: where queues begin whose name or id no broker would give, by raw topic and queue id.
        census: what was counted, if that was asked.
    """

    parts: list[RecordRun | Gap] = field(default_factory=list)
    more_gaps: int = 0
    more_steps: int = 0
    ghosts: bool = False
    ahead: Ahead = field(default_factory=Ahead)
    illegal_queues: dict[tuple[bytes, int], int] = field(default_factory=dict)
    census: SplitCensus | None = None


class _Check(DispatchSink):
    known = KnownQueues()

    def __init__(self, job: CheckJob, segment: Segment, walk: GapWalk) -> None:
        super().__init__(job, passes_stalls=True)
        self._segment = segment
        self._walk = walk
        self._runs = RunBuilder()
        self._transactions = TransactionRows() if job.transactions else None
        self._checker = RecordChecker(segment, self.findings)
        self._census = None if job.period is None else CensusTaker(job.period, job.policy)

    def gap(self, gap: Gap) -> None:
        """Take a gap."""
        self._runs.add_gap(gap)

    def batch(self, batch: MessageBatch) -> None:
        """Check records, and dispatch all of them."""
        self._checker.check(batch)
        self._runs.add_batch(batch)
        if self._census is not None:
            self._census.take(batch)
        if self._transactions is not None:
            self._transactions.collect(batch)
        row = self.dispatcher.dispatch(batch)
        while row is not None:
            self._note_stall(int(batch.rows["log_offset"][row]))
            row = self.dispatcher.dispatch(batch, row + 1)

    def _note_stall(self, log_offset: int) -> None:
        sentence = "INNER_MULTI_QUEUE_OFFSET is not a number: no dispatch gets past this record"
        self.findings.add(finding_at(self._segment, LMQ_STALL, log_offset, sentence))

    def result(self, read: SplitRead) -> CheckReport:
        """Write the block; return what was found."""
        runs, met = self._runs, self.dispatcher.first_log_offsets.items()
        runs.close()
        illegal = {queue: log_offset for queue, log_offset in met if is_illegal(*queue)}
        return CheckReport(
            **vars(read),
            **self.written(illegal, None if self._transactions is None else self._transactions.rows),
            parts=runs.done,
            more_gaps=runs.more_gaps,
            more_steps=runs.more_steps,
            ghosts=self._walk.ghosts(),
            records=runs.records,
            sound_crcs=self._checker.sound_crcs,
            ahead=self._checker.ahead,
            illegal_queues=illegal,
            census=None if self._census is None else self._census.taken(),
        )


@dataclass(frozen=True, slots=True)
class CheckJob(DispatchJob[CheckReport]):
    """Check of all splits of a log; picklable.

    Attributes:
        transactions: whether records that take part in transactions are collected.
        stale_from: see ``GapWalk``.
        period: of the census, if one is taken.
    """

    transactions: bool = False
    stale_from: int | None = None
    period: Period | None = None

    def walk(self, segment: Segment) -> GapWalk:
        """Return a new walk over a file."""
        return GapWalk(segment, self.policy.release.records, self.stale_from)

    def sink(self, split: Split, walk: GapWalk) -> _Check:
        """Return a new sink for a split."""
        return _Check(self, split.segment, walk)
