"""Scan stage: a split of the log becomes a block file and a report."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from rmqtool.dispatch.kernels import dispatch
from rmqtool.dispatch.policy import Trait
from rmqtool.dispatch.queues import QueueTable
from rmqtool.dispatch.rows import ENTRY_ROW, IDLE_ROW, UNIT_ROW, Count, DispatchOutcome
from rmqtool.javacompat import decode_utf8
from rmqtool.reput.blocks import write_block
from rmqtool.scan.rows import Outcome, rules_of
from rmqtool.scan.walk import SegmentWalk
from rmqtool.store.names import safe_component

if TYPE_CHECKING:
    import numpy.typing as npt

    from rmqtool.dispatch.policy import DispatchPolicy
    from rmqtool.reput.blocks import Block
    from rmqtool.reput.splits import Split
    from rmqtool.scan.walk import MessageBatch, Mismatch
    from rmqtool.store.reading import UnreadableRange
    from rmqtool.store.staging import StagingHandle

# Enough for a split of records of 128 bytes: rows never written take no memory, rows never grown no copying.
_FIRST_ROWS = 1 << 21
_FIRST_IDLES = 1 << 14
_SAMPLES = 10


@dataclass(frozen=True, slots=True)
class ScanTask:
    """One task of the scan stage; picklable.

    Attributes:
        split: what to scan.
        policy: the broker's switches.
        staging: where block files are written.
        first_place: physical offset of the first record, where the chain says so; None to guess it.
    """

    split: Split
    policy: DispatchPolicy
    staging: StagingHandle
    first_place: int | None = None


@dataclass
class SplitReport:
    """What a scan found; the rows themselves are in the block file.

    Attributes:
        split: what was scanned.
        first_place: physical offset of the first record; None if no record begins in the split.
        block: units and entries.
        outcome: what ended the chain: STOP (the split ended), BLANK, or a failure of size -1.
        place: physical offset of that end.
        end: physical offset behind the last good record; 0 if there is none.
        blank_length: TOTALSIZE of the BLANK there, if it is one.
        stalled: the broker repeats the record at ``place`` for ever: one of its LMQ offsets is no number.
        messages: records dispatched.
        end_phy_offset: greatest offset of an indexed message, 0 if none.
        start_phy_offset: least offset of an indexed message.
        mismatches: records whose lengths do not add up.
        unreadable: ranges of the file that the disk did not deliver.
        misplaced: ``(place, PHYSICALOFFSET)`` of the first records that lie elsewhere than they say.
        misplaced_count: all of them.
        unsafe: ``(topic, queue id)`` of the queues whose topic can be no directory.
    """

    split: Split
    first_place: int | None
    block: Block
    outcome: Outcome = Outcome.STOP
    place: int = 0
    end: int = 0
    blank_length: int = 0
    stalled: bool = False
    messages: int = 0
    end_phy_offset: int = 0
    start_phy_offset: int = 0
    mismatches: list[Mismatch] = field(default_factory=list)
    unreadable: list[UnreadableRange] = field(default_factory=list)
    misplaced: list[tuple[int, int]] = field(default_factory=list)
    misplaced_count: int = 0
    unsafe: list[tuple[str, int]] = field(default_factory=list)


class _Rows:
    """Output arrays of the dispatch kernel, grown when it says FULL."""

    def __init__(self) -> None:
        self.units = np.empty(_FIRST_ROWS, UNIT_ROW)
        self.entries = np.empty(_FIRST_ROWS, ENTRY_ROW)
        self.idles = np.empty(_FIRST_IDLES, IDLE_ROW)
        self.counts = np.zeros(len(Count), np.int64)

    def grow(self) -> None:
        """Double every array that is more than half full, or that a long message could overflow."""
        self.units = _doubled(self.units, int(self.counts[Count.UNITS]))
        self.entries = _doubled(self.entries, int(self.counts[Count.ENTRIES]))
        self.idles = _doubled(self.idles, int(self.counts[Count.IDLES]))


_LONGEST_VALUE = 0x8000  # the most that one message can put: a property value's bytes


def _doubled(rows: npt.NDArray[Any], used: int) -> npt.NDArray[Any]:
    if len(rows) - used > max(used, _LONGEST_VALUE):
        return rows
    grown = np.empty(2 * len(rows) + _LONGEST_VALUE, rows.dtype)
    grown[:used] = rows[:used]
    return grown


class Dispatcher:
    """Feeds batches to the kernel and answers what it cannot know.

    Args:
        policy: the broker's switches.

    Attributes:
        rows: units and index entries so far.
        queues: the queues met so far.
        first_places: physical offset of the record at which each queue was met, by raw topic and queue id.
    """

    def __init__(self, policy: DispatchPolicy) -> None:
        self.rows = _Rows()
        self.queues = QueueTable(policy, safe_component)
        self._switches = policy.switches()
        self._delays = policy.delay_table()
        self.first_places: dict[tuple[bytes, int], int] = {}
        self._missing = np.zeros(3, np.int64)

    def dispatch(self, batch: MessageBatch, first: int = 0) -> int | None:
        """Dispatch a batch from row ``first`` on; return the row of a record that stalls the broker."""
        row, outcome = first, DispatchOutcome.FULL
        while outcome in (DispatchOutcome.FULL, DispatchOutcome.NEW_QUEUE):
            queues, rows = self.queues, self.rows
            answer, row = dispatch(
                batch.buffer,
                batch.rows,
                batch.values,
                row,
                self._switches,
                self._delays,
                queues.slots,
                queues.rows,
                queues.names,
                rows.units,
                rows.entries,
                rows.idles,
                rows.counts,
                self._missing,
            )
            outcome = DispatchOutcome(answer)
            if outcome == DispatchOutcome.NEW_QUEUE:
                start, stop, queue_id = (int(value) for value in self._missing)
                raw_topic = batch.buffer[start:stop].tobytes()
                queues.add(raw_topic, queue_id)
                self.first_places[raw_topic, queue_id] = int(batch.rows["place"][row])
            elif outcome == DispatchOutcome.FULL:
                rows.grow()
        return row if outcome == DispatchOutcome.STALLED else None

    def unsafe(self) -> list[tuple[str, int]]:
        """Return name and queue id of the queues whose units were left out."""
        found = []
        for number in range(len(self.queues)):
            if self.queues.rows[number]["traits"] & Trait.UNSAFE:
                raw_topic, queue_id = self.queues.key(number)
                found.append((decode_utf8(raw_topic), queue_id))
        return found


def _guess(walk: SegmentWalk, split: Split) -> int | None:
    """Return where the split's first record begins, if the split is any judge of it."""
    if split.start == split.segment.start:
        return split.start
    return None if walk.find(split.start, split.stop) == Outcome.STOP else walk.place


@dataclass
class _Scan:
    """A scan under way: the walk, the rows so far, and what is said of them."""

    walk: SegmentWalk
    dispatcher: Dispatcher
    misplaced: list[tuple[int, int]] = field(default_factory=list)
    misplaced_count: int = 0
    stalled_at: int | None = None
    end: int = 0

    def run(self, first_place: int, stop: int) -> None:
        for batch in self.walk.batches(first_place, stop):
            self._note_misplaced(batch.rows)
            row = self.dispatcher.dispatch(batch)
            for last in batch.rows[:row][-1:]:
                self.end = int(last["place"]) + int(last["total_size"])
            if row is not None:
                self.stalled_at = int(batch.rows["place"][row])
                return

    def _note_misplaced(self, rows: npt.NDArray[np.void]) -> None:
        wrong = np.flatnonzero(rows["place"] != rows["physical_offset"])
        self.misplaced_count += len(wrong)
        for number in wrong[: max(_SAMPLES - len(self.misplaced), 0)]:
            self.misplaced.append((int(rows["place"][number]), int(rows["physical_offset"][number])))


def scan_split(task: ScanTask) -> SplitReport:
    """Walk a split, dispatch its messages and write its block file.

    Raises:
        EnvironmentFailureError: the segment cannot be opened or read, or the block file not be written.
    """
    split = task.split
    scan = _Scan(SegmentWalk(split.segment, rules_of(task.policy.broker_version)), Dispatcher(task.policy))
    first_place = _guess(scan.walk, split) if task.first_place is None else task.first_place
    if first_place is not None:
        scan.run(first_place, split.stop)
    return _report(task, scan, first_place)


def _report(task: ScanTask, scan: _Scan, first_place: int | None) -> SplitReport:
    rows, queues, walk = scan.dispatcher.rows, scan.dispatcher.queues, scan.walk
    units, entries, idles, end_phy_offset, messages = (int(count) for count in rows.counts)
    taken = rows.entries[:entries]
    block = write_block(
        task.staging,
        rows.units[:units],
        taken,
        rows.idles[:idles],
        tuple(queues.key(number) for number in range(len(queues))),
        wide=task.policy.wide,
    )
    stalled = scan.stalled_at is not None
    return SplitReport(
        split=task.split,
        first_place=first_place,
        block=block,
        outcome=Outcome.BAD_NUMBER if stalled else walk.outcome,
        place=walk.place if scan.stalled_at is None else scan.stalled_at,
        end=scan.end,
        blank_length=walk.blank_length,
        stalled=stalled,
        messages=messages,
        end_phy_offset=end_phy_offset,
        start_phy_offset=int(taken["physical_offset"].min(initial=end_phy_offset)),
        mismatches=walk.mismatches,
        unreadable=walk.unreadable,
        misplaced=scan.misplaced,
        misplaced_count=scan.misplaced_count,
        unsafe=scan.dispatcher.unsafe(),
    )
