"""Queues and hash index of a store."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, TypeVar

from rmqtool.api.results import Rows, rows_of
from rmqtool.commands.dump.request import DumpRequest
from rmqtool.commands.dump.run import dump
from rmqtool.derived.index_files import IndexFile
from rmqtool.derived.queue_files import Bounds, queue_bounds
from rmqtool.options import check_least
from rmqtool.progress import Progress, RecordingProgress
from rmqtool.rows import BatchUnit, Chain, IndexHeader, Item, Message, Slot, Unit
from rmqtool.store import PathKind, QueueFiles
from rmqtool.store import Store as StoreFiles

if TYPE_CHECKING:
    from collections.abc import Iterator

    from typing_extensions import Unpack

    from rmqtool.api.options import QueueOptions
    from rmqtool.api.store import Store

R = TypeVar("R")

_INDEX = frozenset({PathKind.INDEX})


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
        from rmqtool.commands.dump.derived import dump_queue

        check_least(0, from_queue_offset=from_queue_offset)
        check_least(1, limit=limit)
        return rows_of(
            dump_queue(self._files, from_queue_offset), (Unit, BatchUnit), RecordingProgress(), limit
        )


class Index:
    """All index files of a store; made by `Store.index`.

    ``len`` is the number of items that the headers count; iteration yields the items. To find messages by
    key, ask `Store.query`.
    """

    def __init__(self, store: Store, files: StoreFiles) -> None:
        self._store = store
        self._files = files

    def __len__(self) -> int:
        return sum(file.last_item for file in self._opened())

    def __iter__(self) -> Iterator[Item]:
        return self.items()

    def __repr__(self) -> str:
        return f"<rmqtool.Index of {self._store.location!r}>"

    def headers(self) -> tuple[IndexHeader, ...]:
        """Return the headers, oldest file first; a file without is left out, and found by `Store.verify`.

        Raises:
            EnvironmentFailureError: A file cannot be opened or read.
        """
        return tuple(IndexHeader(one.file.label, *one.header) for one in self._opened() if not one.is_short)

    def items(
        self,
        *,
        from_offset: int | None = None,
        to_offset: int | None = None,
        progress: Progress | None = None,
    ) -> Rows[Item]:
        """Return the items, oldest file first, by number.

        Args:
            from_offset: Of messages from this physical offset on.
            to_offset: Of messages before this physical offset.
            progress: Told how far it is.

        Raises:
            UsageError: An offset is negative.
            EnvironmentFailureError: While rows are drawn: a file cannot be opened or read.
        """
        check_least(0, from_offset=from_offset, to_offset=to_offset)
        return self._rows(DumpRequest(_INDEX, from_offset=from_offset, to_offset=to_offset), Item, progress)

    def slots(self, *, progress: Progress | None = None) -> Rows[Slot]:
        """Return the slots in use; errors as of `items`."""
        return self._rows(DumpRequest(_INDEX, slots=True), Slot, progress)

    def chains(self, *, progress: Progress | None = None) -> Rows[Chain]:
        """Return the chain of each slot in use; errors as of `items`."""
        return self._rows(DumpRequest(_INDEX, chains=True), Chain, progress)

    def _rows(self, request: DumpRequest, kind: type[R], progress: Progress | None) -> Rows[R]:
        remarks = RecordingProgress(progress)
        return rows_of(dump(self._files, request, remarks), kind, remarks)

    def _opened(self) -> Iterator[IndexFile]:
        """Yield the files, each closed when the next one is asked for."""
        geometry = self._files.settings.index_geometry
        for file in self._files.index_files:
            try:
                yield IndexFile(file, geometry)
            finally:
                file.close()
