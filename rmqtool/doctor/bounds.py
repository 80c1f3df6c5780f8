"""Bounds of the queues that offsets lead into; each queue is looked at once, when it is asked for."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

from rmqtool.errors import EnvironmentFailureError
from rmqtool.store.kinds import UNIT_QUEUE_KINDS

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from rmqtool.derived.queue_bounds import Bounds
    from rmqtool.store import Store


class QueueEnds:
    """The queues of a store, by topic and number.

    Args:
        store: the evidence.
        made: queues that are about to be made, topic and number.
    """

    def __init__(self, store: Store, made: Iterable[tuple[str, int]] = ()) -> None:
        self._store = store
        self._made: dict[str, set[int]] = {}
        for topic, queue_id in made:
            self._made.setdefault(topic, set()).add(queue_id)
        self._found: dict[tuple[str, int], Bounds | None] = {}

    def bounds(self, topic: str, queue_id: int) -> Bounds | None:
        """Return the bounds of a queue; None where there is none, or none that can be read."""
        key = topic, queue_id
        if key not in self._found:
            self._found[key] = None
            with suppress(EnvironmentFailureError):  # the check of that queue says so
                self._found[key] = self._look(*key)
        return self._found[key]

    def queue_ids(self, topic: str) -> list[int]:
        """Return the numbers of a topic's queues."""
        found = {*self._made.get(topic, ())}
        with suppress(EnvironmentFailureError):  # as above
            for kind in UNIT_QUEUE_KINDS:
                queues = self._store.queues(kind, topic)
                found.update(one.queue_id for one in queues if one.queue_id is not None)
        return sorted(found)

    def topics(self) -> Iterator[tuple[str, int]]:
        """Yield the topics that have queues, each with one more than the highest number of its queues."""
        names = dict.fromkeys(self._made)
        for kind in UNIT_QUEUE_KINDS:
            with suppress(EnvironmentFailureError):  # as above
                names |= dict.fromkeys(self._store.topics(kind))
        for name in names:
            if numbers := self.queue_ids(name):
                yield name, max(numbers) + 1

    def _look(self, topic: str, queue_id: int) -> Bounds | None:
        from rmqtool.derived.queue_bounds import queue_bounds  # loads numpy, for stores that need it

        for kind in UNIT_QUEUE_KINDS:
            queue = self._store.queue(topic, queue_id, kind)
            if queue is not None and len(queue.files):
                try:
                    return queue_bounds(queue, self._store.log.start)
                finally:
                    queue.files.close()
        return None
