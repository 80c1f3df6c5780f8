"""Which messages of a topic that was deleted and created again get units."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import TYPE_CHECKING

from rmqtool.check.generations import last_restart, restarts, with_queues_gone
from rmqtool.errors import EnvironmentFailureError
from rmqtool.findings.wording import counted

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from rmqtool.check.generations import Older
    from rmqtool.reput.blocks import Block
    from rmqtool.reput.queues import BlockRun, QueuePlan
    from rmqtool.store import Store
    from rmqtool.store.segments import FileQueue


class Generations(StrEnum):
    """Values of ``--generations``."""

    AUTO = "auto"  # those that live, where the queue that is there shows which they are
    LIVE = "live"  # those after the last restart of queue offsets
    ALL = "all"  # what a broker makes of the log alone


@dataclass(frozen=True, slots=True)
class Dropped:
    """Units of a queue as it was before its topic was deleted.

    Attributes:
        topic: of the queue.
        queue_id: of the queue.
        units: how many are left out.
        kept: units of the generation that lives; 0: the queue was not written to since.
        physical_offset: of the first message of the topic since it was created again.
    """

    topic: str
    queue_id: int
    units: int
    kept: int
    physical_offset: int


@dataclass
class GenerationChoice:
    """Leaves units of older generations out of a run's queues, and remembers which.

    Attributes:
        store: whose queues tell.
        mode: what the user asked for.
        dropped: queues of which units were left out.
        unsettled: sentences about queues whose offsets begin again, and nothing tells which live.
    """

    store: Store
    mode: Generations = Generations.AUTO
    dropped: list[Dropped] = field(default_factory=list)
    unsettled: list[str] = field(default_factory=list)

    def __call__(self, plans: Sequence[QueuePlan], blocks: Sequence[Block]) -> list[QueuePlan]:
        """Return the queues with the units that live; all of them where nothing begins again.

        Raises:
            EnvironmentFailureError: a block file cannot be read.
        """
        if self.mode is Generations.ALL or all(plan.joined or plan.batch for plan in plans):
            return list(plans)
        found = restarts(plans, blocks, self._files_of)
        anew = with_queues_gone(found, plans, blocks, lambda *key: self._files_of(*key) is not None)
        return [kept for plan in plans if (kept := self._chosen(plan, blocks, anew)) is not None]

    def _chosen(
        self, plan: QueuePlan, blocks: Sequence[Block], anew: dict[tuple[str, int], Older]
    ) -> QueuePlan | None:
        key = plan.topic, plan.queue_id
        older = anew.get(key)
        if older is None and self.mode is Generations.LIVE:
            older = last_restart(plan, blocks)
        if older is not None:
            self.dropped.append(Dropped(*key, older.units, plan.units - older.units, older.physical_offset))
            if older.units == plan.units:
                return None
            return replace(plan, runs=tuple(_after(plan, blocks, older.units)))
        if self._files_of(*key) is None and (restart := last_restart(plan, blocks)) is not None:
            self.unsettled.append(_unsettled(plan, restart.units))
        return plan

    def _files_of(self, topic: str, queue_id: int) -> FileQueue | None:
        """Return the files of a queue that is there; what cannot be listed shows nothing."""
        try:
            queue = self.store.queue(topic, queue_id)
            files = None if queue is None else queue.files
        except EnvironmentFailureError:
            return None
        return files


def _unsettled(plan: QueuePlan, restart: int) -> str:
    return (
        f"the queue offsets of {plan.topic}/{plan.queue_id} begin again at 0 after"
        f" {counted(restart, 'message')}, as if the topic had been created again, and no queue is there to"
        " show it: older messages hide later ones; --generations live keeps the later ones"
    )


def _after(plan: QueuePlan, blocks: Sequence[Block], row: int) -> Iterator[BlockRun]:
    """Yield the runs of a queue from a unit on."""
    for where in plan.runs:
        count = where.run.count
        if row <= 0:
            yield where
        elif row < count:
            units = blocks[where.block].read("units", where.first_row + row, 1)
            first_end = int(units["physicalOffset"][0]) + int(units["size"][0])
            # Where it begins again inside a run, that is read unit by unit.
            run = where.run
            run = replace(run, count=count - row, first_queue_offset=0, first_end=first_end, orderly=False)
            yield replace(where, first_row=where.first_row + row, run=run)
        row -= count
