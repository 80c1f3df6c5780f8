"""Choice of the messages that get units, of a topic that was deleted and created again."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from rmqtool.commands.rebuild.request import Generations
from rmqtool.errors import EnvironmentFailureError
from rmqtool.findings.model import counted
from rmqtool.formats.consumequeue import UNIT_SIZE

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rmqtool.arrays import Rows
    from rmqtool.check.generations import Older
    from rmqtool.reput.blocks import Block
    from rmqtool.reput.queues import QueuePlan
    from rmqtool.store import Store
    from rmqtool.store.segments import FileQueue


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
        # What few logs need is loaded for these only.
        from rmqtool.check.generations import last_restarts, restarts, with_queues_gone

        found = restarts(plans, blocks, self._files_of)
        anew = with_queues_gone(found, plans, blocks, lambda *key: self._files_of(*key) is not None)
        others = [plan for plan in plans if self._shows_nothing(plan, anew)]
        last = last_restarts(others, blocks)
        if self.mode is Generations.LIVE:
            anew, last = last | anew, {}
        for plan in plans:
            if (restart := last.get((plan.topic, plan.queue_id))) is not None:
                self.unsettled.append(_unsettled(plan, restart.units))
        return [kept for plan in plans if (kept := self._chosen(plan, blocks, anew)) is not None]

    @property
    def since(self) -> dict[tuple[str, int], int]:
        """Return where the first message lies of those that live, by topic and queue id."""
        return {(one.topic, one.queue_id): one.physical_offset for one in self.dropped}

    def _shows_nothing(self, plan: QueuePlan, anew: dict[tuple[str, int], Older]) -> bool:
        """Return whether the log alone shows which messages of a queue live.

        A queue that begins later than the log's messages was created while older ones were still dispatched.
        """
        if (plan.topic, plan.queue_id) in anew:
            return False
        files = None if self.mode is Generations.LIVE else self._files_of(plan.topic, plan.queue_id)
        return files is None or files.start > self._first_place(plan)

    def _first_place(self, plan: QueuePlan) -> int:
        """Return the position in the queue's files where its first message in the log belongs."""
        return max(int(plan.runs()[0]["first_queue_offset"]), 0) * UNIT_SIZE

    def _chosen(
        self, plan: QueuePlan, blocks: Sequence[Block], anew: dict[tuple[str, int], Older]
    ) -> QueuePlan | None:
        key = plan.topic, plan.queue_id
        older = anew.get(key)
        if older is not None:
            self.dropped.append(Dropped(*key, older.units, plan.units - older.units, older.physical_offset))
            if older.units == plan.units:
                return None
            return plan.with_runs(_after(plan, blocks, older.units))
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
        f"the queue offsets of {plan.topic}/{plan.queue_id} begin again at 0 after "
        f"{counted(restart, 'message')}, as if the topic had been created again, and no queue shows it: "
        "older messages hide later ones; --generations live keeps the later ones"
    )


def _after(plan: QueuePlan, blocks: Sequence[Block], row: int) -> Rows:
    """Return the runs of a queue from a unit on, one of its own."""
    runs, before = plan.runs_from(row)
    left = runs.copy()
    if before:
        # Where it begins again inside a run, that is read unit by unit.
        left["first_row"][0] += before
        left["count"][0] -= before
        unit = blocks[int(left["block"][0])].read("units", int(left["first_row"][0]), 1)[0]
        left["first_queue_offset"][0] = left["orderly"][0] = 0
        left["first_end"][0] = int(unit["physicalOffset"]) + int(unit["size"])
    return left
