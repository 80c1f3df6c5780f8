"""Consume queues and index in the broker's memory, fed by dispatch, and how a 4.9 broker catches up.

Origin of the index files that it loads and deletes, and of what it puts into them: ``IndexService#load``,
``#buildIndex``, ``IndexFile#putKey`` (4.9.8, 5.3.3).
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import numpy as np

from rmqtool.account.lost import LossReporter, LostReason, QueuePlace
from rmqtool.errors import EnvironmentFailureError
from rmqtool.formats.index import HEADERS, HeaderFields
from rmqtool.formats.message import Outcome
from rmqtool.javacompat import parse_long
from rmqtool.kernels.rows import NO_EXT_UNIT
from rmqtool.kernels.units import order_by_queue
from rmqtool.recovery import Dispatched, IndexFileOutcome, QueueOutcome, Refusal, Reput
from rmqtool.recovery.batch_queue import BatchQueue
from rmqtool.recovery.unit_queue import QueueKey, UnitQueue
from rmqtool.reput.chain import Region
from rmqtool.scan.walk import MessageBatch, SegmentWalk
from rmqtool.store.segments import label_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    import numpy.typing as npt

    from rmqtool.arrays import Int64s, Rows
    from rmqtool.io import Location
    from rmqtool.releases import Release
    from rmqtool.reput.dispatcher import Dispatcher
    from rmqtool.store.segments import Segment


_NO_FILE = "cannot be opened as an index file"


class IndexState:
    """The index files in their present state; ``items`` is ``maxIndexNum``, of which item 0 is never used.

    Loading lists labels of files that it deletes, and of entries that it skips (``ignored``).
    """

    def __init__(self, items: int) -> None:
        self._capacity = items - 1
        self.outcomes: list[IndexFileOutcome] = []
        self._loaded: list[tuple[int, int]] = []
        self.deleted: list[str] = []
        self.ignored: list[str] = []
        self.refusals: list[Refusal] = []

    @property
    def end_phy_offset(self) -> int:
        """Return endPhyOffset of the last file: messages below it are not indexed."""
        return self.outcomes[-1].end_phy_offset if self.outcomes else 0

    def load(
        self, paths: Iterable[Location], base: Location, release: Release, delete_after_ms: int | None
    ) -> None:
        """Load the entries of the index directory.

        After an unclean stop, files that end later than ``delete_after_ms`` (indexMsgTimestamp) are deleted.
        """
        is_over = False
        for path in sorted(paths, key=str):
            label = label_of(path, base)
            header = None if is_over or parse_long(path.name) is None else _header(path)
            if header is None:
                self.ignored.append(label)
                if not is_over and parse_long(path.name) is not None:
                    is_over = True  # 4.9.8 goes on without it and all that follow
                    self.refusals += [Refusal(label, _NO_FILE)] if release.refuses_unreadable_index else []
                continue
            if delete_after_ms is not None and header.end_timestamp_ms > delete_after_ms:
                self.deleted.append(label)
            else:
                items = max(header.index_count - 1, 0)
                self.outcomes.append(IndexFileOutcome(label, items, header.end_phy_offset))
                if items:
                    self._loaded.append((header.begin_phy_offset, header.end_phy_offset))

    def put(self, entries: Rows, keyless: Rows) -> None:
        """Put entries, ``(n,)`` of ``ENTRY_ROW``, in log order.

        A message without entries, one of ``keyless``, creates the successor of a full last file.
        """
        offsets = entries["physical_offset"]
        done = 0
        for idle in keyless["entries_before"] if len(keyless) else ():
            done = self._put(offsets, done, int(idle))
            self._last()
        self._put(offsets, done, len(offsets))

    def covers(self, offsets: npt.NDArray[np.int64]) -> npt.NDArray[np.bool_]:
        """Return which records the loaded files have entries of, by their ranges; ``(n,)``."""
        covered = np.zeros(len(offsets), np.bool_)
        for begin, end in self._loaded:
            covered |= (offsets >= begin) & (offsets <= end)
        return covered

    def _put(self, offsets: npt.NDArray[np.int64], start: int, stop: int) -> int:
        while start < stop:
            file = self._last()
            count = min(stop - start, self._capacity - file.items)
            file.items += count
            start += count
            file.end_phy_offset = int(offsets[start - 1])
        return stop

    def _last(self) -> IndexFileOutcome:
        """Java: ``getAndCreateLastIndexFile``, called for every message before its keys are read."""
        if not self.outcomes or self.outcomes[-1].items >= self._capacity:
            self.outcomes.append(IndexFileOutcome(None, 0, self.end_phy_offset))
        return self.outcomes[-1]


def _header(path: Location) -> HeaderFields | None:
    """Return the header, with zeros after the end of a short file; None where no file can be opened."""
    try:
        return HEADERS.padded(path.read_head(HEADERS.size, []))
    except EnvironmentFailureError:
        return None


Queue = UnitQueue | BatchQueue


class DispatchStallError(Exception):
    """A record whose LMQ offset is not a number, so that its dispatch fails; the argument is its place."""


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
    tallies: dict[QueueKey, QueueOutcome] = field(default_factory=dict)
    log_offsets: list[tuple[int, int]] = field(default_factory=list)

    @property
    def max_physical_offset(self) -> int:
        """Return the largest ``maxPhysicOffset`` of any queue, -1 without queues."""
        return max((queue.max_physical_offset for queue in self.queues.values()), default=-1)

    def take(self, dispatcher: Dispatcher, batch: MessageBatch, done: Dispatched) -> None:
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

    def tally(self, key: QueueKey) -> QueueOutcome:
        """Return a queue with its counts so far."""
        if key not in self.tallies:
            self.tallies[key] = QueueOutcome(*key, self.queue(key).batch, 0, 0, 0, 0, 0, 0, 0)
        return self.tallies[key]

    def queue(self, key: QueueKey) -> Queue:
        """Return a queue, a new one without files if it does not exist."""
        if key not in self.queues:
            is_batch = key[0] in self.batch_topics
            self.queues[key] = (
                BatchQueue([], self.batch_file_size) if is_batch else UnitQueue([], self.unit_file_size)
            )
        return self.queues[key]

    def _outcome(self, key: QueueKey, queue: Queue) -> QueueOutcome:
        counts = self.tally(key)
        return replace(
            counts,
            found_max_offset=queue.found,
            min_offset=queue.minimum,
            max_offset=queue.maximum,
            missing=counts.missing + queue.cut_again,
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
    done = Dispatched()
    log_offset = start
    while log_offset < log_end:
        segment = next((one for one in segments if one.start <= log_offset < one.stop), None)
        if segment is None:
            return Reput(start, log_offset, done)
        try:
            log_offset = _region(
                segment, log_offset, min(segment.stop, log_end), rules, derived, dispatcher, done
            )
        except DispatchStallError as stall:
            return Reput(start, int(stall.args[0]), done)
    return Reput(start, None, done)


def _region(
    segment: Segment,
    log_offset: int,
    stop: int,
    rules: npt.NDArray[np.int64],
    derived: Derived,
    dispatcher: Dispatcher,
    done: Dispatched,
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
