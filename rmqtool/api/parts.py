"""Parts of a store: messages of its log, queues, hash index."""

from __future__ import annotations

from contextlib import closing
from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING, TypeVar

from rmqtool.api.results import Rows, collected, first_of, rows_of
from rmqtool.columns import ColumnChoice, column_names, require_library
from rmqtool.commands.dump import DumpRequest
from rmqtool.commands.dump.run import dump
from rmqtool.derived.index_files import IndexFile
from rmqtool.derived.queues import Bounds, queue_in
from rmqtool.errors import UsageError
from rmqtool.findings import FindingLog
from rmqtool.options import check_least, request_of
from rmqtool.progress import Progress, RecordingProgress
from rmqtool.rows import BatchUnit, Chain, Columns, IndexHeader, Item, Message, Slot, Unit
from rmqtool.store import PathKind, QueueFiles
from rmqtool.store import Store as StoreFiles

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    import pandas as pd
    import pyarrow as pa
    from typing_extensions import Unpack

    from rmqtool.api.opened import OpenedStore
    from rmqtool.api.options import QueueOptions


R = TypeVar("R")

_INDEX = frozenset({PathKind.INDEX})


def messages_of(
    store: OpenedStore, options: Mapping[str, object], limit: int | None, progress: Progress | None
) -> Messages:
    """Return messages of a store's log; errors as of `Store.messages`."""
    store.files.require_log("read messages from")
    check_least(1, limit=limit)
    request = request_of(DumpRequest, options, store._zone, kinds=frozenset({PathKind.COMMITLOG}))
    return Messages(store.files, request, RecordingProgress(progress), limit)


class Queue:
    """A consume queue, or a batch consume queue; made by `Store.queue` and `Store.queues`.

    ``len`` is the number of messages between its bounds; iteration yields the messages.

    Attributes:
        topic: The topic; None where the place of the files does not show it.
        queue_id: The queue's number in the topic; None likewise.
        kind: ``consumequeue`` or ``batchconsumequeue``.
    """

    def __init__(self, store: OpenedStore, files: QueueFiles, log_start: int) -> None:
        self._store = store
        self._files = files
        self._log_start = log_start
        self.topic = files.topic
        self.queue_id = files.queue_id
        self.kind = files.kind.value

    @cached_property
    def _bounds(self) -> Bounds:
        queue = queue_in(self._files)
        try:
            return queue.bounds(self._log_start)
        finally:
            queue.close()

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
        given = {**options, "topic": self.topic, "queue": self.queue_id}
        return messages_of(self._store, given, limit, progress)

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
    key, call `Store.query`.
    """

    def __init__(self, store: OpenedStore, files: StoreFiles) -> None:
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
        return tuple(
            IndexHeader(file.file.label, *file.header) for file in self._opened() if not file.is_short
        )

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
            progress: Receives the progress.

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
        """Yield the files, each closed when the next one is requested."""
        geometry = self._files.settings.index_geometry
        for file in self._files.index_files:
            try:
                yield IndexFile(file, geometry)
            finally:
                file.close()


class Messages(Rows[Message]):
    """The messages of `Store.messages`: an iterator, or all of them at once as columns.

    Columns are those of ndjson, by the same names; without ``columns`` all of them come. Request columns
    before the first row is drawn: either way the log is read once.
    """

    def __init__(
        self, files: StoreFiles, request: DumpRequest, remarks: RecordingProgress, limit: int | None
    ) -> None:
        self._files = files
        self._request = request
        self._limit = limit
        self._is_drawn = False
        findings = FindingLog()
        kept = collected(dump(files, request, remarks), Message, findings)
        super().__init__(kept if limit is None else first_of(kept, limit), findings, remarks)

    def __next__(self) -> Message:
        self._is_drawn = True
        return super().__next__()

    def to_batches(self, columns: Iterable[str] | None = None) -> Iterator[pa.RecordBatch]:
        """Return record batches, each made on request.

        Topic, hosts and other columns of few values are dictionaries; each begins with all of the one before.

        Raises:
            UsageError: There is no such column, or rows were drawn already.
            EnvironmentFailureError: pyarrow is not installed; or, while batches are drawn, a file cannot be
                opened or read.
        """
        choice = ColumnChoice(column_names(columns), self._request.decompress)
        require_library("pyarrow")
        if self._is_drawn:
            raise UsageError("rows were already read from these messages; call Store.messages again")
        self._is_drawn = True
        self.close()
        return self._batches(choice)

    def to_arrow(self, columns: Iterable[str] | None = None) -> pa.Table:
        """Return all messages as one table.

        Raises:
            UsageError: as `to_batches`.
            EnvironmentFailureError: as `to_batches`.
        """
        batches = list(self.to_batches(columns))
        import pyarrow as pa

        from rmqtool.columns.arrow import schema_of

        schema = schema_of(ColumnChoice(column_names(columns)))
        return pa.Table.from_batches(batches, schema=schema).unify_dictionaries()

    def to_pandas(self, columns: Iterable[str] | None = None) -> pd.DataFrame:
        """Return all messages as a data frame; properties are a dict each, keys and damage an array.

        Raises:
            UsageError: as `to_batches`.
            EnvironmentFailureError: pyarrow or pandas is not installed; else as `to_batches`.
        """
        require_library("pyarrow", "pandas")
        return self.to_arrow(columns).to_pandas(maps_as_pydicts="strict")

    def _drawn(self) -> pa.Table:
        return super()._drawn() if self._is_drawn else self.to_arrow()

    def _batches(self, choice: ColumnChoice) -> Iterator[pa.RecordBatch]:
        from rmqtool.columns.arrow import Batches
        from rmqtool.columns.encoder import filled

        batches, left = Batches(choice), self._limit
        request = replace(self._request, columns=choice, decompress=False)
        read = filled(dump(self._files, request, self._remarks), choice)
        with closing(collected(read, Columns, self.findings)) as parts:
            for part in parts:
                for remark in part.remarks:
                    self._remarks.warn(remark)
                batch = batches.batch(part)
                if left is not None:
                    batch = batch.slice(0, left)
                    left -= len(batch)
                yield batch
                if left == 0:
                    return
