"""Check stage: a split of the log, read over all damage, becomes a block file and a report.

Where a broker's reput gives up, this goes on at the next *true* record (``GapWalk``): the units and index
entries in the block are those of every true record. What lies between is damage, unless nothing true follows
in the log: then it is the log's end (``segment_scan`` puts the splits together and knows).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from rmqtool.check.log.census_taker import CensusTaker
from rmqtool.check.log.illegal_queues import is_illegal
from rmqtool.check.log.record_checks import Ahead, RecordChecker
from rmqtool.check.log.record_runs import RunBuilder
from rmqtool.check.log.transactions import TransactionRows
from rmqtool.findings import Finding, FindingLog
from rmqtool.findings.consumequeue import LMQ_STALL
from rmqtool.reput.blocks import write_block
from rmqtool.reput.dispatcher import Dispatcher
from rmqtool.reput.known_queues import KnownQueues
from rmqtool.scan.gap_walk import GapWalk, SplitEnd
from rmqtool.scan.gaps import Gap, Outcome

if TYPE_CHECKING:
    from rmqtool.check.log.census import Period, SplitCensus
    from rmqtool.check.log.record_runs import RecordRun
    from rmqtool.dispatch.policy import DispatchPolicy
    from rmqtool.io.reading import UnreadableRange
    from rmqtool.reput.blocks import Block
    from rmqtool.scan.splits import Split
    from rmqtool.scan.walk import MessageBatch
    from rmqtool.store.segments import Segment
    from rmqtool.store.staging import StagingHandle

_KNOWN = KnownQueues()


@dataclass(frozen=True, slots=True)
class CheckTask:
    """One task of the check stage; picklable.

    Attributes:
        split: what to read.
        policy: the broker's switches.
        staging: where block files are written.
        max_findings: findings of one code that are kept.
        first_log_offset: physical offset of the first record, where the chain says so; None to guess it.
        transactions: whether records that take part in transactions are collected.
        stale_from: see ``GapWalk``.
        period: of the census, if one is taken.
    """

    split: Split
    policy: DispatchPolicy
    staging: StagingHandle
    max_findings: int
    first_log_offset: int | None = None
    transactions: bool = False
    stale_from: int | None = None
    period: Period | None = None


@dataclass
class CheckReport(SplitEnd):
    """What was found in a split; units and entries are in the block file.

    Attributes:
        split: what was read.
        first_log_offset: physical offset of the first record; None if no true one begins in the split.
        block: units and entries of all records.
        outcome: STOP: the split's end was reached; BLANK: the segment ended; else a gap up to its end.
        log_offset: physical offset of that end: after the last record, of the BLANK, or of the split's end.
        parts: runs of records and gaps in log order.
        more_gaps: gaps that ``parts`` had no room for.
        more_steps: likewise, records whose store time falls.
        ghosts: bytes that are not zero lie after the BLANK.
        records: how many.
        sound_crcs: records that carry a property ``__CRC32#`` that holds.
        ahead: records that were born after they were stored.
        findings: what the records say.
        unreadable: ranges of the file that the disk did not deliver.
        illegal_queues: where queues begin whose name or id no broker would give, by raw topic and queue id.
        batch_topics: topics that prove to have batch queues though the policy did not know it.
        census: what was counted, if that was asked.
    """

    split: Split
    first_log_offset: int | None
    block: Block
    outcome: Outcome = Outcome.STOP
    log_offset: int = 0
    parts: list[RecordRun | Gap] = field(default_factory=list)
    more_gaps: int = 0
    more_steps: int = 0
    ghosts: bool = False
    records: int = 0
    sound_crcs: int = 0
    ahead: Ahead = field(default_factory=Ahead)
    findings: FindingLog = field(default_factory=FindingLog)
    unreadable: list[UnreadableRange] = field(default_factory=list)
    illegal_queues: dict[tuple[bytes, int], int] = field(default_factory=dict)
    batch_topics: frozenset[str] = frozenset()
    census: SplitCensus | None = None


class _Check:
    """A check under way."""

    def __init__(self, task: CheckTask) -> None:
        self.task = task
        self.segment: Segment = task.split.segment
        self.findings = FindingLog(task.max_findings)
        self.walk = GapWalk(self.segment, task.policy.release.records, task.stale_from)
        self.dispatcher = Dispatcher(task.policy, passes_stalls=True, queues=_KNOWN.of(task.policy))
        self.runs = RunBuilder()
        self.transactions = TransactionRows()
        self.checker = RecordChecker(self.segment, self.findings)
        self.census = None if task.period is None else CensusTaker(task.period, task.policy)

    def run(self, first_log_offset: int) -> None:
        """Follow the records from the first one to the end of the split."""
        for part in self.walk.parts(first_log_offset, self.task.split.stop):
            if isinstance(part, Gap):
                self.runs.add_gap(part)
            else:
                self._take(part)
        self.runs.close()

    def _take(self, batch: MessageBatch) -> None:
        self.checker.check(batch)
        self.runs.add_batch(batch)
        if self.census is not None:
            self.census.take(batch)
        if self.task.transactions:
            self.transactions.collect(batch)
        row = self.dispatcher.dispatch(batch)
        while row is not None:
            self._note_stall(batch, row)
            row = self.dispatcher.dispatch(batch, row + 1)

    def _note_stall(self, batch: MessageBatch, row: int) -> None:
        log_offset = int(batch.rows["log_offset"][row])
        self.findings.add(
            Finding(
                code=LMQ_STALL,
                file=self.segment.label,
                position=log_offset - self.segment.start,
                physical_offset=log_offset,
                message="INNER_MULTI_QUEUE_OFFSET is not a number: no dispatch gets past this record",
            )
        )


def check_split(task: CheckTask) -> CheckReport:
    """Check the records of a split, dispatch them and write its block file.

    Raises:
        EnvironmentFailureError: the segment cannot be opened or read, or the block file not be written.
    """
    check = _Check(task)
    split, first_log_offset = task.split, task.first_log_offset
    if first_log_offset is None:
        first_log_offset = check.walk.guess(split.start, split.stop)
    if first_log_offset is not None:
        check.run(first_log_offset)
    taken, walk, runs = check.dispatcher.taken(), check.walk, check.runs
    block = write_block(
        task.staging,
        taken.units,
        taken.entries,
        taken.keyless,
        check.dispatcher.queues,
        wide=task.policy.wide,
        transactions=check.transactions.rows,
    )
    met = check.dispatcher.first_log_offsets.items()
    illegal = {queue: log_offset for queue, log_offset in met if is_illegal(*queue)}
    batch_topics = check.dispatcher.unknown_batch_topics()
    if not (illegal or batch_topics):  # these are told by each split that has them
        _KNOWN.keep(task.policy, check.dispatcher.queues)
    return CheckReport(
        split=split,
        first_log_offset=first_log_offset,
        block=block,
        outcome=walk.outcome,
        log_offset=walk.log_offset,
        parts=runs.done,
        more_gaps=runs.more_gaps,
        more_steps=runs.more_steps,
        ghosts=walk.ghosts(),
        records=runs.records,
        sound_crcs=check.checker.sound_crcs,
        ahead=check.checker.ahead,
        findings=check.findings,
        unreadable=walk.unreadable,
        illegal_queues=illegal,
        batch_topics=batch_topics,
        census=None if check.census is None else check.census.taken(),
    )
