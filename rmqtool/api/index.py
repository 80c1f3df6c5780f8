"""The hash index of a store."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

from rmqtool.api.results import rows_of
from rmqtool.commands.dump import DumpRequest, dump
from rmqtool.derived.index_files import IndexFile
from rmqtool.options import check_least
from rmqtool.progress import RecordingProgress
from rmqtool.rows import Chain, IndexHeader, Item, Slot
from rmqtool.store import PathKind

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rmqtool.api.results import Rows
    from rmqtool.api.store import Store
    from rmqtool.progress import Progress
    from rmqtool.store import Store as StoreFiles

R = TypeVar("R")

_INDEX = frozenset({PathKind.INDEX})


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
