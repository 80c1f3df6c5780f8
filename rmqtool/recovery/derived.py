"""Consume queues and index in the broker's memory, fed by dispatch, and how a 4.9 broker catches up."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from rmqtool.account.lost import LossReporter, LostReason, QueuePlace
from rmqtool.formats.message import Outcome
from rmqtool.kernels.rows import NO_EXT_UNIT
from rmqtool.kernels.units import order_by_queue
from rmqtool.recovery.batch_queue import BatchQueue
from rmqtool.recovery.model import DispatchDraft, QueueOutcome, Reput
from rmqtool.recovery.unit_queue import QueueKey, UnitQueue
from rmqtool.reput.chain import Region
from rmqtool.scan.walk import MessageBatch, SegmentWalk

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy.typing as npt

    from rmqtool.arrays import Int64s
    from rmqtool.recovery.index_files import IndexState
    from rmqtool.reput.dispatcher import Dispatcher
    from rmqtool.store.segments import Segment


Queue = UnitQueue | BatchQueue


class DispatchStallError(Exception):
    """A record whose LMQ offset is not a number, so that its dispatch fails; the argument is its place."""


@dataclass
class Tally:
    """Counts of a queue's units: ``misplaced`` ones are not at their offset, ``dropped`` ones put in vain."""

    appended: int = 0
    misplaced: int = 0
    dropped: int = 0
    missing: int = 0


@dataclass
class Derived:
    """The derived files, changed as the broker would.

    Attributes:
        batch_topics: topics whose new queues are batch queues.
        lost: receives what is dispatched in vain.
        log_offsets: ranges ``[first place, after the last place)`` of the records dispatched.
    """

    queues: dict[QueueKey, Queue]
    index: IndexState
    unit_file_size: int
    batch_file_size: int
    batch_topics: frozenset[str]
    lost: LossReporter | None = None
    tallies: dict[QueueKey, Tally] = field(default_factory=dict)
    log_offsets: list[tuple[int, int]] = field(default_factory=list)

    @property
    def max_physical_offset(self) -> int:
        """Return the largest ``maxPhysicOffset`` of any queue, -1 without queues."""
        return max((queue.max_physical_offset for queue in self.queues.values()), default=-1)

    def take(self, dispatcher: Dispatcher, batch: MessageBatch, done: DispatchDraft) -> None:
        """Dispatch a batch; after a DispatchStallError the records before the failing one have been taken."""
        if not len(batch.rows):
            return
        dispatcher.clear()
        stalled = dispatcher.dispatch(batch)
        put = dispatcher.taken()
        done.messages += put.messages
        done.index_entries += len(put.entries)
        self.index.put(put.entries, put.keyless)
        order, starts = order_by_queue(put.units, np.arange(len(dispatcher.queues)))
        for number in np.flatnonzero(np.diff(starts)):
            key = dispatcher.key(int(number))
            done.units += self._put(key, put.units[order[starts[number] : starts[number + 1]]])
        if stalled is not None:
            raise DispatchStallError(int(batch.rows["log_offset"][stalled]))
        log_offset, last = int(batch.rows["log_offset"][0]), batch.rows[-1]
        done.start = log_offset if done.start is None else done.start
        done.stop = int(last["log_offset"] + last["total_size"])
        self.log_offsets.append((log_offset, int(last["log_offset"]) + 1))

    def truncate(self, physical_offset: int) -> None:
        """Drop what lies after the log's new end from all queues."""
        for queue in self.queues.values():
            queue.truncate(physical_offset)

    def destroy(self) -> None:
        """Delete all queues."""
        for queue in self.queues.values():
            queue.destroy()

    def is_dispatched(self, log_offsets: Int64s) -> npt.NDArray[np.bool_]:
        """Return which records were dispatched, by their places, ``(n,)`` ascending."""
        if not self.log_offsets:
            return np.zeros(len(log_offsets), np.bool_)
        ranges = np.array(sorted(self.log_offsets), np.int64)
        stops = np.maximum.accumulate(ranges[:, 1])  # reput may begin before recovery did
        number = np.searchsorted(ranges[:, 0], log_offsets, "right") - 1
        found: npt.NDArray[np.bool_] = (number >= 0) & (log_offsets < stops[number])
        return found

    def outcomes(self) -> list[QueueOutcome]:
        """Return the queues in their present state, by topic and queue id."""
        return [self._outcome(key, queue) for key, queue in sorted(self.queues.items())]

    def tally(self, key: QueueKey) -> Tally:
        """Return a queue's tally, a new one if it has none."""
        return self.tallies.setdefault(key, Tally())

    def queue(self, key: QueueKey) -> Queue:
        """Return a queue, a new one without files if it does not exist."""
        if key not in self.queues:
            is_batch = key[0] in self.batch_topics
            self.queues[key] = (
                BatchQueue([], self.batch_file_size) if is_batch else UnitQueue([], self.unit_file_size)
            )
        return self.queues[key]

    def _outcome(self, key: QueueKey, queue: Queue) -> QueueOutcome:
        tally = self.tally(key)
        return QueueOutcome(
            topic=key[0],
            queue_id=key[1],
            batch=queue.batch,
            found_max_offset=queue.found,
            min_offset=queue.minimum,
            max_offset=queue.maximum,
            appended=tally.appended,
            misplaced=tally.misplaced,
            dropped=tally.dropped,
            missing=tally.missing + queue.cut_again,
        )

    def _put(self, key: QueueKey, units: npt.NDArray[np.void]) -> int:
        queue = self.queue(key)
        if isinstance(queue, UnitQueue):
            queue.put_ext(int(np.count_nonzero(units["store_timestamp_ms"] != NO_EXT_UNIT)))
        last = units["batch_size" if queue.batch else "size"].astype(np.int64)
        put = queue.put(
            np.ascontiguousarray(units["queue_offset"]), np.ascontiguousarray(units["physical_offset"]), last
        )
        tally = self.tally(key)
        tally.appended += put.appended
        tally.misplaced += put.misplaced
        tally.dropped += int(np.count_nonzero(put.in_vain))
        self.tell_without_unit(key, units[put.in_vain])
        return put.appended

    def tell_without_unit(self, key: QueueKey, units: npt.NDArray[np.void]) -> None:
        """Pass on the messages that have no unit in a queue, by the units that they need, of ``UNIT_ROW``."""
        if self.lost is not None:
            for queue_offset, physical_offset in units[["queue_offset", "physical_offset"]].tolist():
                self.lost.message(QueuePlace(*key, queue_offset), physical_offset, LostReason.NO_UNIT)


def catch_up(
    segments: Sequence[Segment],
    log_end: int,
    rules: npt.NDArray[np.int64],
    derived: Derived,
    dispatcher: Dispatcher,
) -> Reput:
    """Dispatch from the end of the consume queues to physical offset ``log_end``; changes ``derived``."""
    start = max(derived.max_physical_offset, segments[0].start)
    done = DispatchDraft()
    log_offset = start
    while log_offset < log_end:
        segment = next((one for one in segments if one.start <= log_offset < one.stop), None)
        if segment is None:
            return Reput(start, log_offset, done.finish())
        try:
            log_offset = _region(
                segment, log_offset, min(segment.stop, log_end), rules, derived, dispatcher, done
            )
        except DispatchStallError as stall:
            return Reput(start, int(stall.args[0]), done.finish())
    return Reput(start, None, done.finish())


def _region(
    segment: Segment,
    log_offset: int,
    stop: int,
    rules: npt.NDArray[np.int64],
    derived: Derived,
    dispatcher: Dispatcher,
    done: DispatchDraft,
) -> int:
    walk = SegmentWalk(segment, rules)
    for batch in walk.batches(log_offset, stop):
        derived.take(dispatcher, batch, done)
    segment.close()
    region = Region()
    region.add(walk.mismatches)
    if walk.outcome == Outcome.BLANK:
        return region.rolled(walk.log_offset, segment, segment.size_bytes)
    return region.after(stop)
