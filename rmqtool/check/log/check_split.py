"""Check stage: a split of the log, read over all damage, becomes a block file and a report.

Where a broker's reput gives up, this goes on at the next *true* record (``SegmentWalk.find``): the units and
index entries in the block are those of every true record. What lies between is damage, unless nothing true
follows in the log: then it is the log's end (``segment_scan`` puts the splits together and knows).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from rmqtool.check.log.illegal_queues import is_suspect
from rmqtool.check.log.record_checks import RecordChecker
from rmqtool.check.log.record_runs import Damage, Parts, Stretch
from rmqtool.check.log.transactions import TransactionRows
from rmqtool.findings import Finding, FindingLog
from rmqtool.findings.consumequeue import LMQ_STALL
from rmqtool.formats import message
from rmqtool.reput.blocks import write_block
from rmqtool.reput.dispatcher import Dispatcher
from rmqtool.reput.survey import first_nonzero
from rmqtool.scan.rows import Outcome, rules_of
from rmqtool.scan.walk import SegmentWalk

if TYPE_CHECKING:
    from rmqtool.dispatch.policy import DispatchPolicy
    from rmqtool.reput.blocks import Block
    from rmqtool.reput.splits import Split
    from rmqtool.scan.walk import MessageBatch
    from rmqtool.store.reading import UnreadableRange
    from rmqtool.store.segments import Segment
    from rmqtool.store.staging import StagingHandle

_HEAD_BYTES = max(message.HEAD_SIZES)


@dataclass(frozen=True, slots=True)
class CheckTask:
    """One task of the check stage; picklable.

    Attributes:
        split: what to read.
        policy: the broker's switches.
        staging: where block files are written.
        max_findings: findings of one code that are kept.
        first_place: physical offset of the first record, where the chain says so; None to guess it.
        transactions: whether records that take part in transactions are collected.
    """

    split: Split
    policy: DispatchPolicy
    staging: StagingHandle
    max_findings: int
    first_place: int | None = None
    transactions: bool = False


@dataclass
class CheckReport:
    """What was found in a split; units and entries are in the block file.

    Attributes:
        split: what was read.
        first_place: physical offset of the first record; None if no true one begins in the split.
        block: units and entries of all records.
        outcome: STOP: the split's end was reached; BLANK: the segment ended; else damage up to its end.
        place: physical offset of that end: behind the last record, of the BLANK, or of the split's end.
        parts: stretches and damage in log order.
        more_damage: ranges of damage that ``parts`` had no room for.
        more_steps: likewise, records whose store time falls.
        ghosts: bytes that are not zero lie behind the BLANK.
        records: how many.
        sound_crcs: records that carry a property ``__CRC32#`` that holds.
        findings: what the records say.
        unreadable: ranges of the file that the disk did not deliver.
        suspects: where queues were met whose name or id no broker would give, by raw topic and queue id.
    """

    split: Split
    first_place: int | None
    block: Block
    outcome: Outcome = Outcome.STOP
    place: int = 0
    parts: list[Stretch | Damage] = field(default_factory=list)
    more_damage: int = 0
    more_steps: int = 0
    ghosts: bool = False
    records: int = 0
    sound_crcs: int = 0
    findings: FindingLog = field(default_factory=FindingLog)
    unreadable: list[UnreadableRange] = field(default_factory=list)
    suspects: dict[tuple[bytes, int], int] = field(default_factory=dict)


class _Check:
    """A check under way."""

    def __init__(self, task: CheckTask) -> None:
        self.task = task
        self.segment: Segment = task.split.segment
        self.findings = FindingLog(task.max_findings)
        rules = rules_of(task.policy.release.records)
        self.walk = SegmentWalk(self.segment, rules, stops_at_mismatch=True, passes_damage=True)
        self.dispatcher = Dispatcher(task.policy, passes_stalls=True)
        self.parts = Parts()
        self.transactions = TransactionRows()
        self.outcome = Outcome.STOP
        self.place = task.split.start
        self.checker = RecordChecker(self.segment, self.findings)

    def guess(self) -> int | None:
        """Return where the split's first record begins, if the split is any judge of it."""
        split = self.task.split
        if split.start == self.segment.start:
            return split.start
        return self._find(split.start)

    def run(self, first_place: int) -> None:
        """Follow the records from the first one to the end of the split."""
        place: int | None = first_place
        while place is not None:
            for batch in self.walk.batches(place, self.task.split.stop):
                self._take(batch)
            place = self._resume()
        self.parts.close()

    def _take(self, batch: MessageBatch) -> None:
        self.checker.check(batch)
        self.parts.add_batch(batch)
        if self.task.transactions:
            self.transactions.collect(batch)
        row = self.dispatcher.dispatch(batch)
        while row is not None:
            self._note_stall(batch, row)
            row = self.dispatcher.dispatch(batch, row + 1)

    def _note_stall(self, batch: MessageBatch, row: int) -> None:
        place = int(batch.rows["place"][row])
        self.findings.add(
            Finding(
                code=LMQ_STALL,
                file=self.segment.label,
                position=place - self.segment.start,
                physical_offset=place,
                message="INNER_MULTI_QUEUE_OFFSET holds what is no number: no dispatch gets past this record",
            )
        )

    def _resume(self) -> int | None:
        """Return where to go on behind what ended the chain; None if the split ends."""
        self.outcome, self.place = self.walk.outcome, self.walk.place
        if self.outcome == Outcome.STOP:
            return None
        head = self.segment.read_at(self.place - self.segment.start, _HEAD_BYTES, [])
        total_size, magic = (int.from_bytes(head[at : at + 4], "big", signed=True) for at in (0, 4))
        if self.outcome == Outcome.BLANK:
            if total_size == self.segment.stop - self.place:
                return None
            self.outcome = Outcome.MISMATCH
        start, stop = self.place, self.task.split.stop
        data_start = first_nonzero(self.segment, start, stop)
        # TOTALSIZE, a record's first bytes, may begin with zeros.
        found = self._find(max(start + 1, data_start - 3))
        self.place = stop if found is None else found
        own = _own_offset(head) == start
        self.parts.add_damage(Damage(start, self.place, self.outcome, total_size, magic, own, data_start))
        return found

    def _find(self, place: int) -> int | None:
        """Return where the next true record or BLANK of the split is."""
        stop = self.task.split.stop
        place = max(place, first_nonzero(self.segment, place, stop) - 3)
        return None if self.walk.find(place, stop) == Outcome.STOP else self.walk.place

    def ghosts(self) -> bool:
        """Whether something lies behind the BLANK that ended the segment."""
        behind = self.place + message.END_FILE_MIN_BLANK_LENGTH
        return self.outcome == Outcome.BLANK and first_nonzero(self.segment, behind, self.segment.stop) < (
            self.segment.stop
        )


def _own_offset(head: bytes) -> int | None:
    decoded = message.decode_head(head)
    return None if decoded is None else decoded.physical_offset


def check_split(task: CheckTask) -> CheckReport:
    """Check the records of a split, dispatch them and write its block file.

    Raises:
        EnvironmentFailureError: the segment cannot be opened or read, or the block file not be written.
    """
    check = _Check(task)
    first_place = check.guess() if task.first_place is None else task.first_place
    if first_place is not None:
        check.run(first_place)
    taken, parts = check.dispatcher.taken(), check.parts
    block = write_block(
        task.staging,
        taken.units,
        taken.entries,
        taken.idles,
        check.dispatcher.raw_keys(),
        wide=task.policy.wide,
        transactions=check.transactions.rows,
    )
    return CheckReport(
        split=task.split,
        first_place=first_place,
        block=block,
        outcome=check.outcome,
        place=check.place,
        parts=parts.done,
        more_damage=parts.more_damage,
        more_steps=parts.more_steps,
        ghosts=check.ghosts(),
        records=parts.records,
        sound_crcs=check.checker.sound_crcs,
        findings=check.findings,
        unreadable=check.walk.unreadable,
        suspects={
            queue: place for queue, place in check.dispatcher.first_places.items() if is_suspect(*queue)
        },
    )
