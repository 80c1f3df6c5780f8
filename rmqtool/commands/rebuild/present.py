"""Comparison of a result with the present queues and index: units, properties, missing messages.

A queue all of whose units made are there at their places, and that has no others before and after them, holds
the same. Only the others are compared unit by unit.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from rmqtool.derived.index_files import index_headers
from rmqtool.derived.queues import LiveUnits, Queue, all_units, queues_of
from rmqtool.dispatch.index_keys import of_other_keys
from rmqtool.errors import EnvironmentFailureError
from rmqtool.findings import FindingLog, codes
from rmqtool.formats.consumequeue import PREBLANK, UNIT_SIZE, UNITS, BatchUnitFields, UnitFields
from rmqtool.reput.damage import skip_tasks, true_records, unreachable_tasks
from rmqtool.reput.units import KeptUnits, by_queue, kept_units, no_units
from rmqtool.scan.records import PropertyWitness
from rmqtool.store.kinds import UNIT_QUEUE_KINDS, PathKind
from rmqtool.topics import SCHEDULE_TOPIC

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from rmqtool.account.log_losses import StoreAccount
    from rmqtool.account.lost import LostMessage, LostTotals, QueuePlace
    from rmqtool.arrays import Bools
    from rmqtool.reput.pipeline import ReputPlan, ReputResult
    from rmqtool.reput.queues import QueuePlan
    from rmqtool.scan.classify import FoundEdge
    from rmqtool.store import Store
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
    """The store's own queues and index, compared with the rebuilt ones.

    Attributes:
        queues: queues that are there.
        messages: messages they lead to, at or above the log's start.
        fewer_messages: of them, those that the queues made do not lead to.
        more_messages: messages that only the queues made lead to.
        fewer_by_queue: ``fewer_messages``, by topic and queue id.
        index_entries: of the index that is there, files of expired messages left out; None without one.
        unread: files that could not be compared, and why.
        databases: of queues, relative to the store, which are not rebuilt.
    """

    queues: int
    messages: int
    fewer_messages: int
    more_messages: int
    fewer_by_queue: tuple[QueueMessages, ...]
    index_entries: int | None
    unread: tuple[str, ...]
    databases: tuple[str, ...]


_MOST_PLACES = 1 << 10
_INT_MIN, _INT_MAX = -(1 << 31), (1 << 31) - 1


class PresentComparison:
    """Comparison of a result with the queues and the index that are there.

    Attributes:
        queues: how many are there.
        messages: to which they lead.
        more: messages to which only the queues made lead.
        fewer: messages to which those made do not lead, by topic and queue id.
        lacks: whether units there are not among those made: the account of the log says which are lost.
        unread: what could not be compared, and why.
        other_tags: places of records whose unit there has another tags code, as far as so many are kept.
    """

    def __init__(
        self,
        store: Store,
        plan: ReputPlan,
        result: ReputResult,
        since: Mapping[tuple[str, int], int],
        account: Callable[[], StoreAccount],
        losses: RebuildLosses | None,
    ) -> None:
        self._store, self._plan, self._result = store, plan, result
        self._since, self._account, self._losses = since, account, losses
        self.queues = self.messages = self.more = 0
        self.fewer: dict[tuple[str, int], int] = {}
        self.lacks = False
        self.unread: list[str] = []
        self.other_tags: list[int] = []

    def present(self, findings: FindingLog) -> Present:
        """Compare all; unreadable parts of the present files are reported, and are not a failure.

        ``findings`` receives records whose properties unit and index contradict.
        """
        store, plan = self._store, self._plan
        databases = store.queue_databases if "consumequeue" in plan.parts else ()
        self.unread += [database.sentence for database in databases if database.unread is not None]
        if "consumequeue" in plan.parts:
            for kind in UNIT_QUEUE_KINDS:
                self._compare(kind)
        entries = self._index_entries() if plan.makes_index else None
        _report_changed_properties(store, plan.log, self.other_tags, findings)
        return Present(
            queues=self.queues,
            messages=self.messages,
            fewer_messages=sum(self.fewer.values()),
            more_messages=self.more,
            fewer_by_queue=tuple(QueueMessages(*key, count) for key, count in sorted(self.fewer.items())),
            index_entries=entries,
            unread=tuple(self.unread),
            databases=tuple(database.label for database in databases),
        )

    def _index_entries(self) -> int | None:
        """Return how many entries the index has by its headers; no more than files of that size can have."""
        count, plan = None, self._plan
        try:
            for header in index_headers(self._store.index_files):
                if header.end_phy_offset >= plan.log.start:
                    count = (count or 0) + min(max(header.index_count - 1, 0), plan.index_geometry.items - 1)
        except EnvironmentFailureError as failure:
            self.unread.append(str(failure))
        return count

    def _compare(self, kind: PathKind) -> None:
        """Add to the facts of all queues."""
        is_batch = kind is PathKind.BATCHCONSUMEQUEUE
        made = {(plan.topic, plan.queue_id): plan for plan in self._result.plans if plan.batch is is_batch}
        there = {(queue.topic or "", queue.queue_id or 0): queue for queue in self._there(kind)}
        same = set() if is_batch else self._same_queues(there, made)
        self.queues += len(there)
        for key, queue in there.items():
            try:
                if key in same:
                    self.messages += made[key].units
                else:
                    self._count(queue, key, made.get(key))
                queue.close()
            except EnvironmentFailureError as failure:
                self.unread.append(str(failure))
        self.more += sum(plan.units for key, plan in made.items() if key not in there)

    def _there(self, kind: PathKind) -> Iterator[Queue]:
        if self._store.read_root(kind) is None:
            return
        try:
            yield from queues_of(self._store, kind)
        except EnvironmentFailureError as failure:
            self.unread.append(str(failure))

    def _same_queues(
        self, there: Mapping[tuple[str, int], Queue], made: Mapping[tuple[str, int], QueuePlan]
    ) -> set[tuple[str, int]]:
        """Return the queues that hold the units made, and no others."""
        same = set()
        both = [plan for key, plan in made.items() if key in there and plan.joined]
        for plan, pieces in by_queue(both, self._result.blocks):
            key = plan.topic, plan.queue_id
            with suppress(EnvironmentFailureError):  # the comparison of the queue says so
                queue = there[key]
                units = (
                    (int(piece.runs["first_queue_offset"][0]), piece.column("units")) for piece in pieces
                )
                if all(queue.holds(*these) for these in units) and self._has_no_more(queue, plan):
                    same.add(key)
        return same

    def _has_no_more(self, queue: Queue, plan: QueuePlan) -> bool:
        """Return whether no unit is there before those made or after them."""
        first, stop = plan.shape.first_queue_offset, plan.shape.last_queue_offset + 1
        if stop <= 0 or stop * UNIT_SIZE % self._plan.queue_geometry.consumequeue == 0:
            return False
        before = _unit_at(queue, first - 1) if first else PREBLANK
        is_old = before == PREBLANK or before.physical_offset < self._plan.log.start
        return not any(_unit_at(queue, stop)) and (is_old or not any(before))

    def _count(self, queue: Queue, key: tuple[str, int], plan: QueuePlan | None) -> None:
        """Count what one has and the other has not."""
        made = no_units()
        if plan is not None:
            made = kept_units(plan, self._result.blocks, self._plan.queue_geometry.consumequeue)
        there = all_units(queue)
        there = there.only(there.physical_offsets >= self._plan.log.start)
        is_older = there.physical_offsets < self._since.get(key, 0)  # of a topic that was deleted since
        missing = ~np.isin(there.physical_offsets, made.physical_offsets) & ~is_older
        is_batch = queue.kind is PathKind.BATCHCONSUMEQUEUE
        if not is_batch and key[0] != SCHEDULE_TOPIC:
            self.other_tags += _other_tags(there, made)[: _MOST_PLACES - len(self.other_tags)]
        is_lost = missing & ~_replaced(there, made, is_batch=is_batch)
        if missing.any():
            self.lacks = True
            # What is made of a record that lies elsewhere than it says leads nowhere, and replaces no unit.
            account = self._account()
            is_lost |= missing & account.lists_lost(key, there.physical_offsets)
            is_lost[is_lost] = account.proves(key, there.only(is_lost))
            if not account.is_log_cut:  # a start cuts off what lies beyond the log
                is_lost &= there.physical_offsets < account.surveyed.end
            # A unit that leads to no message of its queue is none.
            there, is_lost = there.only(~missing | is_lost), is_lost[~missing | is_lost]
        self.messages += int(there.messages.sum())
        lost = there.only(is_lost)
        if fewer := int(lost.messages.sum()):
            self.fewer[key] = fewer
            if self._losses is not None:
                self._losses.report_units(key, lost)
        is_new = ~np.isin(made.physical_offsets, there.physical_offsets)
        self.more += int(made.messages[is_new].sum())


def _unit_at(there: Queue, number: int) -> UnitFields | BatchUnitFields:
    """Return the unit of a number in the queue; zeros past the end of its file."""
    return there.unit(number) or UNITS.padded(b"")


def _other_tags(there: LiveUnits, made: KeptUnits) -> list[int]:
    """Return the places of records whose unit in the same place has another tags code."""
    numbers = there.keys - made.first_number
    inside = (numbers >= 0) & (numbers < len(made))
    numbers, there = numbers[inside], there.only(inside)
    tags = there.tags_codes
    wrong = (there.physical_offsets == made.physical_offsets[numbers]) & (tags != made.tags_codes[numbers])
    wrong &= (tags >= _INT_MIN) & (tags <= _INT_MAX)  # others are addresses of ext units
    places: list[int] = there.physical_offsets[wrong].tolist()
    return places


def _replaced(there: LiveUnits, made: KeptUnits, *, is_batch: bool) -> Bools:
    """Return which units were wrong: their place in the queue another record takes by its own right.

    It is not taken from one that the append rule skips, and whose record the log has in this queue: of a
    topic that was created again, the messages that live.
    """
    keys = made.queue_offsets
    if not is_batch:
        numbers = made.first_number + np.arange(len(made))
        keys = numbers[numbers == made.queue_offsets]
    return np.asarray(np.isin(there.keys, keys) & ~np.isin(there.physical_offsets, made.left_out))


class RebuildLosses:
    """Reports each lost message to ``tell`` once, by its record if that can be read."""

    def __init__(
        self,
        plan: ReputPlan,
        result: ReputResult,
        edge: FoundEdge,
        account: StoreAccount,
        tell: Callable[[LostMessage], object],
    ) -> None:
        from rmqtool.account.lost import LossReporter, LostReason

        self._account = account
        self._left_out, self._skipped = LostReason.LEFT_OUT, LostReason.SKIPPED
        self.lost = LossReporter(plan.log, tell)
        skipped = [task for tasks in skip_tasks(plan, result, edge) for task in tasks]
        self._tasks = {
            LostReason.SKIPPED: skipped,
            LostReason.UNREACHABLE: unreachable_tasks(plan, result),
        }
        splits = sorted(
            (task.split.start, task.split.stop) for tasks in self._tasks.values() for task in tasks
        )
        self._starts = [start for start, _ in splits]
        self._stops = [stop for _, stop in splits]

    def report_records(self) -> None:
        """Report the intact records that were not dispatched."""
        for reason, tasks in self._tasks.items():
            for task in tasks:
                for log_offsets in true_records(task):
                    self.lost.records(log_offsets.tolist(), reason)
        self.lost.log = self._account.surveyed.log
        self.lost.records(self._account.surveyed.unreached.tolist(), self._skipped)

    def report_units(self, queue: tuple[str, int], units: LiveUnits) -> None:
        """Report what units lead to and the queue made does not, but for what is reported already."""
        surveyed = self._account.surveyed
        there = units.only(~surveyed.without_record(units.physical_offsets))
        there = there.only(~np.isin(there.physical_offsets, surveyed.unreached))
        self.lost.units(queue, there, self._report_left_out)

    def totals(self) -> LostTotals:
        """Return the reported messages, and those missing in the whole log."""
        return self.lost.totals(self._account.surveyed.gaps)

    def _report_left_out(self, place: QueuePlace, log_offset: int) -> None:
        number = bisect_right(self._starts, log_offset) - 1
        if number < 0 or log_offset >= self._stops[number]:
            self.lost.message(place, log_offset, self._left_out)


def _report_changed_properties(
    store: Store, log: FileQueue, other_tags: Sequence[int], findings: FindingLog
) -> None:
    """Add verify's findings about these records; index files that cannot be read show nothing."""
    odd = {finding.physical_offset for finding in findings if finding.code is codes.CL_PROPERTIES}
    if not other_tags and not odd:
        return
    from rmqtool.check.log_findings import tell_contradicted

    witnesses: dict[int, set[PropertyWitness]] = defaultdict(set)
    for place in other_tags[:_MOST_PLACES]:
        witnesses[place].add(PropertyWitness.UNIT)
    doubtful = {*witnesses, *(place for place in odd if place is not None)}
    for place in of_other_keys(store, log, doubtful):
        witnesses[place].add(PropertyWitness.ITEM)
    tell_contradicted(log, findings, witnesses)
