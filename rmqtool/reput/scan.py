"""Scan stage: a split of the log becomes a block file and a report."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

import numpy as np

from rmqtool.findings import FindingLog
from rmqtool.reput.blocks import write_block
from rmqtool.reput.dispatcher import Dispatcher
from rmqtool.reput.known_queues import KnownQueues
from rmqtool.scan.gap_walk import find_after_zeros
from rmqtool.scan.gaps import Outcome
from rmqtool.scan.rows import MISMATCH_ROW, rules_of
from rmqtool.scan.walk import SegmentWalk

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    import numpy.typing as npt

    from rmqtool.dispatch.policy import DispatchPolicy
    from rmqtool.io.reading import UnreadableRange
    from rmqtool.reput.blocks import Block
    from rmqtool.scan.splits import Split
    from rmqtool.scan.walk import MessageBatch
    from rmqtool.store.segments import Segment
    from rmqtool.store.staging import StagingHandle

    RecordJudge = Callable[[Segment, FindingLog], "RecordCheck"]

_KNOWN = KnownQueues()


class RecordCheck(Protocol):
    """What holds records against their own bytes: `rmqtool.check.log.record_checks.RecordChecker`."""

    @property
    def sound_crcs(self) -> int:
        """Return how many records carry a property ``__CRC32#`` that holds."""

    def check(self, batch: MessageBatch) -> None:
        """Check a batch, which nobody dispatches after that: rows are changed."""


@dataclass(frozen=True, slots=True)
class ScanTask:
    """One task of the scan stage; picklable.

    Attributes:
        split: what to scan.
        policy: the broker's switches.
        staging: where block files are written.
        first_log_offset: physical offset of the first record, where the chain says so; None to guess it.
        kept: bytes of the array that the reput thread has kept by then, see ``RecordRules.kept_array``.
        judge: looks at the records themselves, which no reput does; None leaves them alone.
        max_findings: findings of one code that it keeps.
    """

    split: Split
    policy: DispatchPolicy
    staging: StagingHandle
    first_log_offset: int | None = None
    kept: int = 0
    judge: RecordJudge | None = None
    max_findings: int = 10


@dataclass
class SplitReport:
    """What a scan found; the rows themselves are in the block file.

    Attributes:
        split: what was scanned.
        first_log_offset: physical offset of the first record; None if no record begins in the split.
        block: units and entries.
        outcome: what ended the chain: STOP (the split ended), BLANK, or a failure of size -1.
        log_offset: physical offset of that end.
        end: physical offset after the last good record; 0 if there is none.
        kept: bytes of the array that the reput thread keeps then.
        blank_length: TOTALSIZE of the BLANK there, if it is one.
        stalled: the broker repeats the record at ``log_offset`` for ever: its LMQ offset is not a number.
        records: records that the chain met; those that are not dispatched were not asked for.
        messages: records dispatched.
        unindexed: of them, how many an index passes over: they lie before what it holds.
        end_phy_offset: greatest offset of an indexed message, 0 if none.
        start_phy_offset: least offset of an indexed message.
        mismatches: ``(n,)`` of ``MISMATCH_ROW``, records whose lengths do not add up.
        unreadable: ranges of the file that the disk did not deliver.
        findings: what the judge says of the records.
        sound_crcs: records that carry a property ``__CRC32#`` that holds.
        unsafe: ``(topic, queue id)`` of the queues whose topic can be no directory.
        batch_topics: topics that prove to have batch queues though the policy did not know it.
    """

    split: Split
    first_log_offset: int | None
    block: Block
    outcome: Outcome = Outcome.STOP
    log_offset: int = 0
    end: int = 0
    kept: int = 0
    blank_length: int = 0
    stalled: bool = False
    records: int = 0
    messages: int = 0
    unindexed: int = 0
    end_phy_offset: int = 0
    start_phy_offset: int = 0
    mismatches: npt.NDArray[np.void] = field(default_factory=lambda: np.empty(0, MISMATCH_ROW))
    unreadable: list[UnreadableRange] = field(default_factory=list)
    findings: FindingLog = field(default_factory=FindingLog)
    sound_crcs: int = 0
    unsafe: list[tuple[str, int]] = field(default_factory=list)
    batch_topics: frozenset[str] = frozenset()

    @property
    def split_stop(self) -> int:
        """Return the physical offset after the split."""
        return self.split.stop

    @property
    def next_log_offset(self) -> int:
        """Return the physical offset at which the next record is due."""
        return self.log_offset

    @property
    def ended(self) -> bool:
        """Whether the broker reads nothing of the segment after this: it ends at the first gap."""
        return self.outcome is not Outcome.STOP


def _guess(walk: SegmentWalk, split: Split) -> int | None:
    """Return where the split's first record begins, if the split is any judge of it."""
    if split.start == split.segment.start:
        return split.start
    return find_after_zeros(walk, split.start, split.stop)


@dataclass
class _Scan:
    """A scan under way: the walk, the rows so far, and what is said of them."""

    walk: SegmentWalk
    dispatcher: Dispatcher
    check: RecordCheck | None
    stalled_at: int | None = None
    records: int = 0
    end: int = 0

    def run(self, first_log_offset: int, stop: int, kept: int) -> None:
        for batch in self.walk.batches(first_log_offset, stop, kept):
            row = self.dispatcher.dispatch(batch)
            for last in batch.rows[:row][-1:]:
                self.end = int(last["log_offset"]) + int(last["total_size"])
            self.records += len(batch.rows[:row])
            if self.check is not None:
                self.check.check(batch)
            if row is not None:
                self.stalled_at = int(batch.rows["log_offset"][row])
                return


def scan_split(task: ScanTask) -> SplitReport:
    """Walk a split, dispatch its messages and write its block file.

    Raises:
        EnvironmentFailureError: the segment cannot be opened or read, or the block file not be written.
    """
    split, findings = task.split, FindingLog(task.max_findings)
    check = None if task.judge is None else task.judge(split.segment, findings)
    walk = SegmentWalk(split.segment, rules_of(task.policy.release.records))
    scan = _Scan(walk, Dispatcher(task.policy, queues=_KNOWN.of(task.policy)), check)
    first_log_offset = _guess(scan.walk, split) if task.first_log_offset is None else task.first_log_offset
    if first_log_offset is not None:
        scan.run(first_log_offset, split.stop, task.kept)
    return _report(task, scan, first_log_offset, findings)


def scan_splits(tasks: Sequence[ScanTask]) -> list[SplitReport]:
    """Scan some splits one after the other; see `scan_split`."""
    return [scan_split(task) for task in tasks]


def _report(task: ScanTask, scan: _Scan, first_log_offset: int | None, findings: FindingLog) -> SplitReport:
    walk, taken = scan.walk, scan.dispatcher.taken()
    block = write_block(
        task.staging,
        taken.units,
        taken.entries,
        taken.keyless,
        scan.dispatcher.queues,
        wide=task.policy.wide,
    )
    unsafe, batch_topics = scan.dispatcher.unsafe(), scan.dispatcher.unknown_batch_topics()
    if not (unsafe or batch_topics):  # these are told by each split that has them
        _KNOWN.keep(task.policy, scan.dispatcher.queues)
    stalled, mismatches = scan.stalled_at is not None, walk.mismatches
    if scan.stalled_at is not None:  # the walk is ahead of what is dispatched
        mismatches = mismatches[mismatches["log_offset"] < scan.stalled_at]
    return SplitReport(
        split=task.split,
        first_log_offset=first_log_offset,
        block=block,
        outcome=Outcome.BAD_NUMBER if stalled else walk.outcome,
        log_offset=walk.log_offset if scan.stalled_at is None else scan.stalled_at,
        end=scan.end,
        kept=walk.kept if first_log_offset is not None else 0,
        blank_length=walk.blank_length,
        stalled=stalled,
        records=scan.records,
        messages=taken.messages,
        unindexed=taken.unindexed,
        end_phy_offset=taken.end_phy_offset,
        start_phy_offset=int(taken.entries["physical_offset"].min(initial=taken.end_phy_offset)),
        mismatches=mismatches,
        unreadable=walk.unreadable,
        findings=findings,
        sound_crcs=0 if scan.check is None else scan.check.sound_crcs,
        unsafe=unsafe,
        batch_topics=batch_topics,
    )
