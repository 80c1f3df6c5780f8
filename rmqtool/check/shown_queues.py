"""Queues of a store that can be examined, and those that this user may not read."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from rmqtool.errors import DeniedError, EnvironmentFailureError
from rmqtool.store.features import is_rocksdb
from rmqtool.store.files import TREE_DEPTH
from rmqtool.store.kinds import UNIT_QUEUE_KINDS, PathKind

if TYPE_CHECKING:
    from rmqtool.store import QueueFiles
    from rmqtool.store.files import Root, StoreFiles
    from rmqtool.store.segments import FileQueue, StoreFile


@dataclass
class ShownQueues:
    """The queues of a kind that are shown, by topic and queue id; ``denied`` may not be listed."""

    root: Root | None = None
    found: dict[tuple[str, int], FileQueue] = field(default_factory=dict)
    denied: set[tuple[str | None, int | None]] = field(default_factory=set)

    def covers(self, topic: str, queue_id: int) -> bool:
        """Whether a queue that the log requires would be here."""
        if self.root is None or {(topic, None), (topic, queue_id)} & self.denied:
            return False
        if self.root.depth == TREE_DEPTH:
            return True
        place = self.root.paths[0].parent if self.root.is_file else self.root.paths[0]
        if self.root.depth:
            return place.name == topic
        return (place.parent.name, place.name) == (topic, str(queue_id))

    def add(self, queue: QueueFiles) -> None:
        """Add a present queue."""
        try:
            self.found[queue.topic or "", queue.queue_id or 0] = queue.files
        except EnvironmentFailureError:
            self.denied.add((queue.topic, queue.queue_id))


def shown_kinds(store: StoreFiles) -> set[PathKind]:
    """Return the kinds of queues that can be examined."""
    kinds = store.roots.keys() & UNIT_QUEUE_KINDS
    return {kind for kind in kinds if not is_rocksdb(store.roots[kind].paths[0])}


def list_queues(store: StoreFiles, kind: PathKind) -> ShownQueues:
    """List the queues of a kind, topic by topic."""
    root = store.roots.get(kind)
    if root is None or is_rocksdb(root.paths[0]):
        return ShownQueues()
    try:
        topics = store.topics(kind) if root.depth == TREE_DEPTH else [None]
    except EnvironmentFailureError:
        return ShownQueues()
    shown = ShownQueues(root)
    for topic in topics:
        try:
            for queue in store.queues(kind, topic):
                shown.add(queue)
        except EnvironmentFailureError:
            shown.denied.add((topic, None))
    return shown


def may_be_read(file: StoreFile) -> bool:
    """Whether permissions allow to read a file; its check reports any other trouble."""
    try:
        file.read_at(0, 1, [])
    except DeniedError:
        return False
    except EnvironmentFailureError:
        return True
    return True
