"""Comparison of a result with the present queues and index: units, properties, missing messages.

A queue all of whose units made are there at their places, and that has no others before and after them, holds
the same. Only the others are looked at unit by unit.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter, defaultdict
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from rmqtool.account.lost import LossReporter, LostMessage, LostReason, LostTotals, QueuePlace
from rmqtool.derived.index_files import index_headers, open_index_file
from rmqtool.derived.queue_files import LiveUnits, all_live_units, queue_bounds
from rmqtool.dispatch.index_keys import index_keys, item_keys
from rmqtool.errors import EnvironmentFailureError
from rmqtool.findings.codes import CL_PROPERTIES
from rmqtool.formats.consumequeue import PREBLANK, UNIT_SIZE, UNITS, UnitFields
from rmqtool.javacompat import index_key_hash
from rmqtool.reput.damage import skip_tasks
from rmqtool.reput.gap_contents import true_records, unreachable_tasks
from rmqtool.reput.kept import KeptUnits, QueueEnd, end_of, kept_units, no_units
from rmqtool.reput.units import QueueUnits, by_queue
from rmqtool.scan.records import record_at
from rmqtool.store.features import is_rocksdb
from rmqtool.store.kinds import UNIT_QUEUE_KINDS, PathKind
from rmqtool.topics import SCHEDULE_TOPIC

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Mapping

    from rmqtool.account.log_losses import StoreAccount
    from rmqtool.arrays import Bools
    from rmqtool.findings import FindingLog
    from rmqtool.reput.pipeline import ReputPlan, ReputResult
    from rmqtool.reput.queues import QueuePlan
    from rmqtool.scan.classify import FoundEdge
    from rmqtool.store import QueueFiles, Store
    from rmqtool.store.segments import FileQueue


@dataclass(frozen=True, slots=True)
class QueueMessages:
    """Messages of one queue.

    Attributes:
        topic: of the queue.
        queue_id: of the queue.
        messages: how many.
    """

    topic: str
    queue_id: int
    messages: int


@dataclass(frozen=True, slots=True)
class Present:
    """What the store's own queues and index hold, beside what was made.

    Attributes:
        queues: queues that are there.
        messages: messages they lead to, at or above the log's start.
        fewer_messages: of them, those that the queues made do not lead to.
        more_messages: messages that only the queues made lead to.
        fewer_by_queue: ``fewer_messages``, by topic and queue id.
        index_entries: of the index that is there, files of expired messages left out; None without one.
        unread: what could not be held against it, and why.
        databases: of queues, relative to the store, which are not made anew.
    """

    queues: int
    messages: int
    fewer_messages: int
    more_messages: int
    fewer_by_queue: tuple[QueueMessages, ...]
    index_entries: int | None
    unread: tuple[str, ...]
    databases: tuple[str, ...]


@dataclass
class _Tally:
    """What becomes a `Present`, queue by queue."""

    queues: int = 0
    messages: int = 0
    more: int = 0
    fewer: dict[tuple[str, int], int] = field(default_factory=dict)
    entries: int | None = None
    unread: list[str] = field(default_factory=list)
    databases: tuple[str, ...] = ()

    def present(self) -> Present:
        """Return what is known by now."""
        return Present(
            queues=self.queues,
            messages=self.messages,
            fewer_messages=sum(self.fewer.values()),
            more_messages=self.more,
            fewer_by_queue=tuple(QueueMessages(*key, count) for key, count in sorted(self.fewer.items())),
            index_entries=self.entries,
            unread=tuple(self.unread),
            databases=self.databases,
        )


def compare_with_present(
    store: Store,
    plan: ReputPlan,
    result: ReputResult,
    same: Mapping[tuple[str, int], int],
    since: Mapping[tuple[str, int], int],
    account: StoreAccount,
    tell_lost: Callable[[tuple[str, int], LiveUnits, StoreAccount], object] | None = None,
) -> Present:
    """Compare a result with what is there; what cannot be read of that is said, and is no failure.

    Args:
        store: what is there.
        plan: what was to be made.
        result: how that went.
        same: how many units there lead to the same record at the same place, by topic and queue id.
        since: by topic and queue id, the place of the first message since the topic was created again.
        account: of the log, which is made where units lead to what the result has not.
        tell_lost: is told, by topic and queue id, units there that the queue made does not lead to; None:
            nobody is.

    Raises:
        EnvironmentFailureError: a block file of the result, or the log, cannot be read.
    """
    tally = _Tally()
    if "consumequeue" in plan.parts:
        tally.databases = tuple(one.label for one in store.queue_databases)
        tally.unread += [one.sentence for one in store.queue_databases if one.unread is not None]
        for kind in UNIT_QUEUE_KINDS:
            _PresentQueues(store, plan, result, kind, tally, same, since, account, tell_lost).compare()
    if plan.makes_index:
        tally.entries = _entries(store, plan, tally)
    return tally.present()


def _entries(store: Store, plan: ReputPlan, tally: _Tally) -> int | None:
    """Return how many entries the index has by its headers; no more than files of that size can have."""
    count: int | None = None
    try:
        for header in index_headers(store.index_files):
            if header.end_phy_offset >= plan.log.start:
                count = (count or 0) + min(max(header.index_count - 1, 0), plan.index_geometry.items - 1)
    except EnvironmentFailureError as failure:
        tally.unread.append(str(failure))
    return count


class _PresentQueues:
    """The queues of one kind."""

    def __init__(
        self,
        store: Store,
        plan: ReputPlan,
        result: ReputResult,
        kind: PathKind,
        tally: _Tally,
        same: Mapping[tuple[str, int], int],
        since: Mapping[tuple[str, int], int],
        account: StoreAccount,
        tell_lost: Callable[[tuple[str, int], LiveUnits, StoreAccount], object] | None,
    ) -> None:
        self._store, self._plan, self._result = store, plan, result
        self._same, self._since, self._account, self._tell_lost = same, since, account, tell_lost
        self._kind, self._tally = kind, tally
        sizes = plan.queue_geometry
        self._is_batch = kind is PathKind.BATCHCONSUMEQUEUE
        self._file_size = sizes.batchconsumequeue if self._is_batch else sizes.consumequeue

    def compare(self) -> None:
        """Add to what is known of all queues."""
        made = {(one.topic, one.queue_id): one for one in self._result.plans if one.batch is self._is_batch}
        for queue in self._there():
            key = queue.topic or "", queue.queue_id or 0
            self._tally.queues += 1
            try:
                self._compare_queue(queue, key, made.pop(key, None))
            except EnvironmentFailureError as failure:
                self._tally.unread.append(str(failure))
        for plan in made.values():
            self._tally.more += plan.units

    def _there(self) -> Iterator[QueueFiles]:
        root = self._store.roots.get(self._kind)
        if root is None or is_rocksdb(root.paths[0]):
            return
        try:
            yield from self._store.queues(self._kind)
        except EnvironmentFailureError as failure:
            self._tally.unread.append(str(failure))

    def _compare_queue(self, queue: QueueFiles, key: tuple[str, int], plan: QueuePlan | None) -> None:
        result = self._result
        if plan is None:
            bounds = queue_bounds(queue, self._plan.log.start)
            if bounds.max_offset > bounds.min_offset:
                self._count(queue, key, no_units())
            return
        size = self._plan.queue_geometry.consumequeue
        is_there = self._same.get(key) == plan.units
        if is_there and self._has_no_more(queue, end_of(plan, result.blocks, size)):
            self._tally.messages += plan.units
        else:
            self._count(queue, key, kept_units(plan, result.blocks, size))

    def _has_no_more(self, queue: QueueFiles, end: QueueEnd) -> bool:
        """Tell whether no unit is there before those made or after them; batch queues are always read."""
        if self._is_batch or end.number <= 0 or end.number * UNITS.size % self._file_size == 0:
            return False
        units = self._read(queue, end.number - 1, 2)
        if not units or units[0].physical_offset + units[0].size != end.last_end or any(units[1]):
            return False
        before = self._read(queue, end.first - 1, 1) if end.first else ()
        return all(one == PREBLANK or one.physical_offset < self._plan.log.start for one in before)

    def _read(self, queue: QueueFiles, number: int, count: int) -> list[UnitFields]:
        """Return units of one file; none where the file is not there."""
        position = number * UNITS.size
        at = position % self._file_size
        place = queue.directory / f"{position - at:020d}"
        if not place.is_regular():
            return []
        with place.reader() as file:
            places = range(at, at + count * UNITS.size, UNITS.size)
            return [UNITS.padded(file.read_at(one, UNITS.size, [])) for one in places]

    def _count(self, queue: QueueFiles, key: tuple[str, int], made: KeptUnits) -> None:
        """Count what one has and the other has not."""
        there = all_live_units(queue)
        there = there.only(there.physical_offsets >= self._plan.log.start)
        is_older = there.physical_offsets < self._since.get(key, 0)  # of a topic that was deleted since
        missing = ~np.isin(there.physical_offsets, made.physical_offsets) & ~is_older
        is_lost = missing & ~_replaced(there, made, is_batch=self._is_batch)
        if missing.any():
            # What is made of a record that lies elsewhere than it says leads nowhere, and replaces no unit.
            is_lost |= missing & self._account.lists_lost(key, there.physical_offsets)
            proves = self._account.proves(key, there.physical_offsets)
            if not self._account.is_log_cut:  # a start cuts off what lies beyond the log
                proves &= there.physical_offsets < self._account.looked.end
            there, is_lost = there.only(proves | ~is_lost), is_lost[proves | ~is_lost]
        self._tally.messages += int(there.messages.sum())
        lost = there.only(is_lost)
        if fewer := int(lost.messages.sum()):
            self._tally.fewer[key] = fewer
            if self._tell_lost is not None:
                self._tell_lost(key, lost, self._account)
        is_new = ~np.isin(made.physical_offsets, there.physical_offsets)
        self._tally.more += int(made.messages[is_new].sum())


def _replaced(there: LiveUnits, made: KeptUnits, *, is_batch: bool) -> Bools:
    """Tell which units were wrong: their place in the queue another record takes by its own right.

    It is not taken from one that the append rule skips, and whose record the log has in this queue: of a
    topic that was created anew, the messages that live.
    """
    keys = made.queue_offsets
    if not is_batch:
        numbers = made.first_number + np.arange(len(made))
        keys = numbers[numbers == made.queue_offsets]
    return np.asarray(np.isin(there.keys, keys) & ~np.isin(there.physical_offsets, made.left_out))


class RebuildLosses:
    """Tells each lost message once, by its record if that can be read.

    Args:
        plan: what was to be made.
        result: how that went.
        edge: what is known of the log as a whole.
        tell: receives each message.
    """

    def __init__(
        self,
        plan: ReputPlan,
        result: ReputResult,
        edge: FoundEdge,
        tell: Callable[[LostMessage], object],
    ) -> None:
        self.lost = LossReporter(plan.log, tell)
        skipped = [task for tasks in skip_tasks(plan, result, edge) for task in tasks]
        self._tasks = {
            LostReason.SKIPPED: skipped,
            LostReason.UNREACHABLE: unreachable_tasks(plan, result),
        }
        splits = sorted((one.split.start, one.split.stop) for tasks in self._tasks.values() for one in tasks)
        self._starts = [start for start, _ in splits]
        self._stops = [stop for _, stop in splits]

    def tell_records(self) -> None:
        """Tell the true records that were not dispatched.

        Raises:
            EnvironmentFailureError: a file of the log cannot be opened or read.
        """
        for reason, tasks in self._tasks.items():
            for task in tasks:
                for log_offsets in true_records(task):
                    self.lost.records(log_offsets.tolist(), reason)

    def tell_units(self, queue: tuple[str, int], units: LiveUnits, account: StoreAccount) -> None:
        """Tell what units lead to that the queue made does not lead to, but for what is told already."""
        there = units.only(~account.looked.without_record(units.physical_offsets))
        self.lost.units(queue, there, self._tell_left_out)

    def totals(self, account: StoreAccount) -> LostTotals:
        """Return what was reported, and what is missing in the whole log."""
        return self.lost.totals(account.looked.gaps)

    def _tell_left_out(self, place: QueuePlace, log_offset: int) -> None:
        number = bisect_right(self._starts, log_offset) - 1
        if number < 0 or log_offset >= self._stops[number]:
            self.lost.message(place, log_offset, LostReason.LEFT_OUT)


_MOST_PLACES = 1 << 10
_INT_MIN, _INT_MAX = -(1 << 31), (1 << 31) - 1


@dataclass
class PresentUnits:
    """The units of present consume queues, compared with those made, each at its queue offset.

    Attributes:
        same: by topic and queue id, how many lead to the same record; a queue that cannot be read has none.
        other_tags: places of records whose present unit has another tags code, as far as so many are kept.
    """

    same: Counter[tuple[str, int]] = field(default_factory=Counter)
    other_tags: list[int] = field(default_factory=list)

    @classmethod
    def of(cls, store: Store, result: ReputResult) -> PresentUnits:
        """Read the units that are there.

        Raises:
            EnvironmentFailureError: a block file of the result cannot be read.
        """
        found, root = cls(), store.roots.get(PathKind.CONSUMEQUEUE)
        if root is None or is_rocksdb(root.paths[0]):
            return found
        for queue, pieces in by_queue([one for one in result.plans if not one.batch], result.blocks):
            key = queue.topic, queue.queue_id
            with suppress(EnvironmentFailureError):  # whoever counts the messages of the queue says so
                if (there := store.queue(*key, PathKind.CONSUMEQUEUE)) is not None:
                    for piece in pieces:
                        found._take(key, there.files, piece)
                    there.files.close()
        return found

    def _take(self, key: tuple[str, int], there: FileQueue, made: QueueUnits) -> None:
        starts, units = made.column("queue_offsets") * UNIT_SIZE, made.column("units")
        for segment in there.between(int(starts.min()), int(starts.max()) + UNIT_SIZE):
            inside = np.flatnonzero((starts >= segment.start) & (starts + UNIT_SIZE <= segment.stop))
            if not len(inside):
                continue
            numbers = (starts[inside] - segment.start) // UNIT_SIZE
            first, stop = int(numbers.min()), int(numbers.max()) + 1
            data = segment.read_at(first * UNIT_SIZE, (stop - first) * UNIT_SIZE, [])
            present = np.frombuffer(data, UNITS.dtype, len(data) // UNIT_SIZE)
            is_read = numbers < first + len(present)
            present, wanted = present[numbers[is_read] - first], units[inside[is_read]]
            is_same = present["physicalOffset"] == wanted["physicalOffset"]
            self.same[key] += int(np.count_nonzero(is_same & (present["size"] == wanted["size"])))
            if key[0] != SCHEDULE_TOPIC and len(self.other_tags) < _MOST_PLACES:
                tags = present["tagsCode"].astype(np.int64)
                wrong = is_same & (tags != wanted["tagsCode"])
                wrong &= (tags >= _INT_MIN) & (tags <= _INT_MAX)  # others are addresses of ext units
                self.other_tags += wanted["physicalOffset"][wrong].tolist()


def tell_changed_properties(
    store: Store, log: FileQueue, present: PresentUnits, findings: FindingLog
) -> None:
    """Add what verify says of these records; index files that cannot be read show nothing."""
    odd = {one.physical_offset for one in findings if one.code is CL_PROPERTIES}
    if not present.other_tags and not odd:
        return
    from rmqtool.check.contradictions import CONTRADICTING_ITEM, CONTRADICTING_UNIT, tell_contradicted

    witnesses: dict[int, set[str]] = defaultdict(set)
    for place in present.other_tags[:_MOST_PLACES]:
        witnesses[place].add(CONTRADICTING_UNIT)
    doubtful = {*witnesses, *(place for place in odd if place is not None)}
    with suppress(EnvironmentFailureError):
        for place in _of_other_keys(store, log, doubtful):
            witnesses[place].add(CONTRADICTING_ITEM)
    tell_contradicted(log, findings, witnesses)


def _of_other_keys(store: Store, log: FileQueue, places: Collection[int]) -> Iterator[int]:
    """Yield those of some places to which an item leads that has the hash of none of its record's keys."""
    records = {place: record_at(log, place) for place in places}
    hashes = {
        place: {index_key_hash(record.topic, key) for key in item_keys(record.properties)}
        for place, record in records.items()
        if record is not None and index_keys(record.properties)
    }
    wanted = np.array(sorted(hashes), np.int64)
    if not len(wanted):
        return
    for file in store.index_files:
        index = open_index_file(file, store.settings.index_geometry)
        for items in index.item_columns():
            for row in np.flatnonzero(np.isin(items.physical_offsets, wanted)).tolist():
                place = int(items.physical_offsets[row])
                if int(items.key_hashes[row]) not in hashes[place]:
                    yield place
        file.close()
