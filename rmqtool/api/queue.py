"""One queue of a store."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

from rmqtool.api.results import rows_of
from rmqtool.derived.queue_bounds import queue_bounds
from rmqtool.options import check_least
from rmqtool.progress import RecordingProgress

if TYPE_CHECKING:
    from collections.abc import Iterator

    from typing_extensions import Unpack

    from rmqtool.api.options import QueueOptions
    from rmqtool.api.results import Rows
    from rmqtool.api.store import Store
    from rmqtool.derived.queue_bounds import Bounds
    from rmqtool.progress import Progress
    from rmqtool.rows import BatchUnit, Message, Unit
    from rmqtool.store import QueueFiles


class Queue:
    """A consume queue, or a batch consume queue; made by `Store.queue` and `Store.queues`.

    ``len`` is the number of messages between its bounds; iteration yields the messages.

    Attributes:
        topic: The topic; None where the place of the files does not tell.
        queue_id: The queue's number in the topic; None likewise.
        kind: ``consumequeue`` or ``batchconsumequeue``.
    """

    def __init__(self, store: Store, files: QueueFiles, log_start: int) -> None:
        self._store = store
        self._files = files
        self._log_start = log_start
        self.topic = files.topic
        self.queue_id = files.queue_id
        self.kind = files.kind.value

    @cached_property
    def _bounds(self) -> Bounds:
        try:
            return queue_bounds(self._files, self._log_start)
        finally:
            self._files.files.close()

    @property
    def min_offset(self) -> int:
        """Return the first queue offset whose message the log still has, as of the first look."""
        return self._bounds.min_offset

    @property
    def max_offset(self) -> int:
        """Return the queue offset after the last, as of the first look."""
        return self._bounds.max_offset

    def __len__(self) -> int:
        return self.max_offset - self.min_offset

    def __iter__(self) -> Iterator[Message]:
        return self.messages()

    def __repr__(self) -> str:
        return f"<rmqtool.Queue {self.topic}/{self.queue_id} of {self._store.location!r}>"

    def messages(
        self,
        *,
        limit: int | None = None,
        progress: Progress | None = None,
        **options: Unpack[QueueOptions],
    ) -> Rows[Message]:
        """Return the messages of the queue, in its order, each read from the log and compared with its unit.

        Args:
            limit: At most so many.
            progress: Receives remarks.
            options: See `rmqtool.api.options.QueueOptions`.

        Raises:
            UsageError: An argument makes no sense.
            EnvironmentFailureError: No commit log is there to read from; or, while rows are drawn, a file
                cannot be opened or read.
        """
        options.setdefault("from_queue_offset", 0)
        return self._store.messages(
            topic=self.topic, queue=self.queue_id, limit=limit, progress=progress, **options
        )

    def units(self, *, from_queue_offset: int = 0, limit: int | None = None) -> Rows[Unit | BatchUnit]:
        """Return the units as they lie in the files, in the order of the files.

        Args:
            from_queue_offset: Units of a consume queue below this are not read.
            limit: At most so many.

        Raises:
            UsageError: An argument makes no sense.
            EnvironmentFailureError: While rows are drawn: a file cannot be opened or read.
        """
        from rmqtool.commands.dump.units import dump_queue
        from rmqtool.rows import BatchUnit, Unit

        check_least(0, from_queue_offset=from_queue_offset)
        check_least(1, limit=limit)
        return rows_of(
            dump_queue(self._files, from_queue_offset), (Unit, BatchUnit), RecordingProgress(), limit
        )
