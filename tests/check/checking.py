"""What the checks of derived files get, made of a store whose log is sound."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from rmqtool.check.expected import IndexCheckTask, QueueCheck, QueueCheckTask
from rmqtool.dispatch.policy import DispatchPolicy
from rmqtool.reput.chain import ScanJob
from rmqtool.reput.indexes import index_stream
from rmqtool.reput.queues import plan_queues
from rmqtool.scan.log_pass import SplitTask, plan_splits, read_split
from rmqtool.store import PathKind, Store, open_store

if TYPE_CHECKING:
    from pathlib import Path

    from rmqtool.reput.blocks import Block
    from rmqtool.reput.queues import QueuePlan
    from rmqtool.store.segments import FileQueue
    from rmqtool.store.staging import StagingHandle

NEVER = (1 << 63) - 1


def open_fixture(root: Path, *, with_conf: bool = True) -> Store:
    """Open a copy of a fixture, with or without its broker.conf."""
    conf = root / "broker.conf"
    return open_store(root, broker_conf=conf if with_conf and conf.is_file() else None)


@dataclass(frozen=True)
class Demands:
    """What the log of a store demands."""

    store: Store
    policy: DispatchPolicy
    blocks: tuple[Block, ...]
    plans: tuple[QueuePlan, ...]
    log_end: int

    @property
    def log_start(self) -> int:
        return self.store.commitlog.start

    def queues(self, level: int = 3, *, unclean: bool = False) -> QueueCheckTask:
        """Make one task of all queues that are there or demanded."""
        plans = {(plan.topic, plan.queue_id): plan for plan in self.plans}
        files = self._files(PathKind.CONSUMEQUEUE)
        batches = self._files(PathKind.BATCHCONSUMEQUEUE)
        ext = self._files(PathKind.CONSUMEQUEUE_EXT)
        checks = []
        for key in sorted({*plans, *files, *batches}):
            batch = key[0] in self.policy.batch_topics
            plan = plans.get(key) if level > 1 else None
            checks.append(QueueCheck(*key, batch, (batches if batch else files).get(key), ext.get(key), plan))
        return QueueCheckTask(
            tuple(checks),
            self.blocks if level > 1 else (),
            self.store.settings.enable_consume_queue_ext,
            log_start=self.log_start,
            log_end=self.log_end,
            level=level,
            unclean=unclean or self.store.abort is not None,
        )

    def index(self, level: int = 3, *, unclean: bool = False) -> IndexCheckTask:
        """Make the task of the index."""
        settings = self.store.settings
        return IndexCheckTask(
            self.store.index_files,
            settings.index_geometry,
            index_stream(self.blocks) if level > 1 else None,
            settings.message_index_enable,
            log_start=self.log_start,
            log_end=self.log_end,
            level=level,
            unclean=unclean or self.store.abort is not None,
        )

    def _files(self, kind: PathKind) -> dict[tuple[str, int], FileQueue]:
        return {(queue.topic or "", queue.queue_id or 0): queue.files for queue in self.store.queues(kind)}


def demands_of(store: Store, staging: StagingHandle) -> Demands:
    """Scan the log of a store file by file."""
    policy = DispatchPolicy.to_check(store.settings)
    blocks, end = [], store.commitlog.start
    for split in plan_splits(store.commitlog, NEVER, 1 << 28):
        report = read_split(SplitTask(ScanJob(policy, staging), split))
        blocks.append(report.block)
        offsets = report.block.read("units")
        for row in range(len(offsets)):
            end = max(end, int(offsets["physicalOffset"][row]) + int(offsets["size"][row]))
    return Demands(store, policy, tuple(blocks), tuple(plan_queues(blocks, policy, staging)), end)
