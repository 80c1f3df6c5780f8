"""Dispatch of a split: batches go to the kernel, and what they put becomes a block file."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, Self, TypeVar

import numpy as np

from rmqtool.dispatch.policy import QueueTable
from rmqtool.findings import FindingLog
from rmqtool.javacompat import decode_utf8
from rmqtool.kernels.dispatch import DispatchRules, dispatch, dispatch_room
from rmqtool.kernels.rows import Count, DispatchOutcome, MessageBatch, Switch, Trait
from rmqtool.kernels.units import order_by_queue
from rmqtool.reput.blocks import Block, write_block
from rmqtool.scan.log_pass import ReadJob, SplitRead
from rmqtool.store.names import safe_component

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from rmqtool.arrays import Rows
    from rmqtool.dispatch.policy import DispatchPolicy
    from rmqtool.store.staging import StagingHandle


R = TypeVar("R", bound="DispatchedSplit")
T = TypeVar("T")

# Enough for a split of records of 128 bytes: rows never written take no memory, rows never grown no copying.
_FIRST_ROWS = 1 << 21
_FIRST_KEYLESS = 1 << 14
_LONGEST_VALUE = 0x8000  # the most that one message can put: a property value's bytes
_MANY_ROWS = 1 << 19
_MOST_KNOWN_QUEUES = 1 << 16  # of a larger table the copy would cost more than it saves where few are met


class Taken(NamedTuple):
    """Dispatched units and entries; views that the next dispatch may overwrite.

    Attributes:
        units: ``(n,)`` of ``UNIT_ROW`` in log order.
        entries: ``(m,)`` of ``ENTRY_ROW`` in log order.
        keyless: ``(k,)`` of ``KEYLESS_ROW``.
        messages: how many messages were dispatched.
        end_phy_offset: endPhyOffset of the last index file after them.
        unindexed: messages that lie below the index's endPhyOffset when they come.
    """

    units: Rows
    entries: Rows
    keyless: Rows
    messages: int
    end_phy_offset: int
    unindexed: int

    @property
    def are_many(self) -> bool:
        """Whether they are enough to be sorted by queue: a batch has few of each."""
        return len(self.units) + len(self.entries) + len(self.keyless) >= _MANY_ROWS


class Dispatcher:
    """Feeds batches to the kernel and answers what it cannot know.

    Args:
        policy: the broker's switches.
        end_phy_offset: endPhyOffset of the last index file: messages below it are not indexed.
        passes_stalls: put all of a record that stalls the broker, too.
        queues: queues that are known; None: none is.

    Attributes:
        queues: the queues known before, and those met since.
        first_log_offsets: physical offset of the record where each of the latter was met, by raw topic and
            queue id.
    """

    def __init__(
        self,
        policy: DispatchPolicy,
        *,
        end_phy_offset: int = 0,
        passes_stalls: bool = False,
        queues: QueueTable | None = None,
    ) -> None:
        self.queues = QueueTable(policy, safe_component) if queues is None else queues
        self.first_log_offsets: dict[tuple[bytes, int], int] = {}
        self._room = dispatch_room(_FIRST_ROWS, _FIRST_KEYLESS)
        self._room.counts[Count.END_PHYSICAL_OFFSET] = end_phy_offset
        self._rules = DispatchRules(policy.switches(), policy.delay_table(), policy.tag_turns())
        self._rules.switches[Switch.PASSES_STALLS] = passes_stalls

    def dispatch(self, batch: MessageBatch, first: int = 0) -> int | None:
        """Dispatch a batch from row ``first`` on; return the row of a record that stalls the broker.

        Of that record the units up to the number that is none are put, and no index entries: the index comes
        after the queues (``DefaultMessageStore#doDispatch``). With ``passes_stalls`` all of it is put.
        """
        row, outcome = first, DispatchOutcome.FULL
        while outcome in (DispatchOutcome.FULL, DispatchOutcome.NEW_QUEUE):
            answer, row = dispatch(batch, row, self._rules, self.queues.arrays, self._room)
            outcome = DispatchOutcome(answer)
            if outcome == DispatchOutcome.NEW_QUEUE:
                start, stop, queue_id = (int(value) for value in self._room.missing)
                raw_topic = batch.buffer[start:stop].tobytes()
                self.queues.add(raw_topic, queue_id)
                self.first_log_offsets[raw_topic, queue_id] = int(batch.rows["log_offset"][row])
            elif outcome == DispatchOutcome.FULL:
                self._grow()
        return row if outcome == DispatchOutcome.STALLED else None

    def taken(self) -> Taken:
        """Return the units and entries since the beginning, or since `clear`."""
        room = self._room
        units, entries, keyless, end_phy_offset, messages, unindexed = (int(count) for count in room.counts)
        return Taken(
            room.units[:units],
            room.entries[:entries],
            room.keyless[:keyless],
            messages,
            end_phy_offset,
            unindexed,
        )

    def units_by_queue(self) -> Iterator[tuple[tuple[str, int], Rows]]:
        """Yield the units since then of each queue that has any, after its `key`, in log order."""
        units = self.taken().units
        order, starts = order_by_queue(units, np.arange(len(self.queues)))
        for number in np.flatnonzero(np.diff(starts)):
            yield self.key(int(number)), units[order[starts[number] : starts[number + 1]]]

    def clear(self) -> None:
        """Drop the units and entries; queues and endPhyOffset stay."""
        for count in (Count.UNITS, Count.ENTRIES, Count.KEYLESS, Count.MESSAGES, Count.UNINDEXED):
            self._room.counts[count] = 0

    def key(self, number: int) -> tuple[str, int]:
        """Return topic, as Java decodes it, and queue id of a queue's number in units."""
        raw_topic, queue_id = self.queues.key(number)
        return decode_utf8(raw_topic), queue_id

    def unsafe(self) -> list[tuple[str, int]]:
        """Return name and queue id of the queues whose units were left out."""
        is_unsafe = self.queues.rows["traits"][: len(self.queues)] & Trait.UNSAFE
        return [self.key(number) for number in np.flatnonzero(is_unsafe).tolist()]

    def unknown_batch_topics(self) -> frozenset[str]:
        """Return topics whose records carry inner batches though the policy gives them plain queues.

        Their units are wrong: dispatch again with `DispatchPolicy.with_batch_topics`. Without the settings
        (config/topics.json, the queues' own files), the records are the only evidence.
        """
        traits = self.queues.rows["traits"][: len(self.queues)]
        is_unknown = (traits & (Trait.INNER_BATCHES | Trait.BATCH)) == Trait.INNER_BATCHES
        return frozenset(self.key(number)[0] for number in np.flatnonzero(is_unknown).tolist())

    def _grow(self) -> None:
        """Double every array that is more than half full, or that a long message could overflow."""
        room = self._room
        self._room = room._replace(
            units=_doubled(room.units, int(room.counts[Count.UNITS])),
            entries=_doubled(room.entries, int(room.counts[Count.ENTRIES])),
            keyless=_doubled(room.keyless, int(room.counts[Count.KEYLESS])),
        )


def _doubled(rows: Rows, used: int) -> Rows:
    if len(rows) - used > max(used, _LONGEST_VALUE):
        return rows
    grown = np.empty(2 * len(rows) + _LONGEST_VALUE, rows.dtype)
    grown[:used] = rows[:used]
    return grown


class KnownQueues:
    """The largest table of queues that this process has met, for most splits of a log have the same ones.

    To meet one costs some ten microseconds of Python; a log of thousands of files has thousands in each.
    Threads may share this: each gets and gives whole tables.
    """

    def __init__(self) -> None:
        self._last: tuple[DispatchPolicy, QueueTable] | None = None

    def of(self, policy: DispatchPolicy) -> QueueTable | None:
        """Return the queues known under a policy, in a table that the caller may change; None for none."""
        last = self._last
        return last[1].copy() if last is not None and last[0] == policy else None

    def keep(self, policy: DispatchPolicy, queues: QueueTable) -> None:
        """Remember queues, of which the caller changes nothing any more."""
        last = self._last
        most = len(last[1]) if last is not None and last[0] == policy else 0
        if most < len(queues) <= _MOST_KNOWN_QUEUES:
            self._last = policy, queues


class PolicyJob(ReadJob[T]):
    """Work that depends on a broker's policy; subclasses are frozen dataclasses with one."""

    __slots__ = ()

    policy: DispatchPolicy

    def revised(self, results: Sequence[Any]) -> Self | None:
        """Return the job with batch queues for topics whose records show that they have them."""
        unknown = frozenset[str]().union(*(getattr(result, "batch_topics", ()) for result in results))
        proven = self.policy.with_batch_topics(unknown)
        return None if proven == self.policy else replace(self, policy=proven)  # type: ignore[type-var]


@dataclass(frozen=True, slots=True)
class DispatchJob(PolicyJob[R]):
    """Dispatch of all splits of a log, each with up to ``max_findings`` of one code; picklable."""

    policy: DispatchPolicy
    staging: StagingHandle
    max_findings: int = 10


@dataclass(kw_only=True)
class DispatchedSplit(SplitRead):
    """A split whose records were dispatched; units and entries are in the block file.

    Attributes:
        block: units and index entries.
        messages: records dispatched.
        unindexed: of them, how many an index passes over: they lie before what it holds.
        end_phy_offset: greatest offset of an indexed message, 0 if none.
        records: how many the walk met.
        sound_crcs: records that carry a property ``__CRC32#`` that holds.
        findings: what the records say.
        batch_topics: topics that prove to have batch queues though the policy did not know it.
    """

    block: Block
    messages: int = 0
    unindexed: int = 0
    end_phy_offset: int = 0
    records: int = 0
    sound_crcs: int = 0
    findings: FindingLog = field(default_factory=FindingLog)
    batch_topics: frozenset[str] = frozenset()


class DispatchSink:
    """Base of sinks that dispatch; each class has a table of known queues of its own, `known`."""

    known: ClassVar[KnownQueues]

    def __init__(self, job: DispatchJob[Any], *, passes_stalls: bool) -> None:
        self.job = job
        self.findings = FindingLog(job.max_findings)
        queues = self.known.of(job.policy)
        self.dispatcher = Dispatcher(job.policy, passes_stalls=passes_stalls, queues=queues)

    def written(self, odd_queues: object, transactions: Rows | None = None) -> dict[str, Any]:
        """Write the block; return it with the other fields of a `DispatchedSplit`."""
        taken, queues, policy = self.dispatcher.taken(), self.dispatcher.queues, self.job.policy
        columns = taken.units, taken.entries, taken.keyless
        block = write_block(self.job.staging, *columns, queues, wide=policy.wide, transactions=transactions)
        batch_topics = self.dispatcher.unknown_batch_topics()
        if not (odd_queues or batch_topics):
            self.known.keep(policy, queues)
        counts = {name: getattr(taken, name) for name in ("messages", "unindexed", "end_phy_offset")}
        return {"block": block, "findings": self.findings, "batch_topics": batch_topics} | counts
