"""Messages of a store: row by row, or as columns."""

from __future__ import annotations

from contextlib import closing
from dataclasses import replace
from typing import TYPE_CHECKING

from rmqtool.api.results import Rows, collected, first_of
from rmqtool.columns import require_library
from rmqtool.columns.names import ColumnChoice, column_names
from rmqtool.commands.dump.run import dump
from rmqtool.errors import UsageError
from rmqtool.findings import FindingLog
from rmqtool.rows import Columns, Message

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    import pandas as pd
    import pyarrow as pa

    from rmqtool.commands.dump.request import DumpRequest
    from rmqtool.progress import RecordingProgress
    from rmqtool.store import Store as StoreFiles


class Messages(Rows[Message]):
    """The messages of `Store.messages`: an iterator, or all of them at once as columns.

    Columns are those of ndjson, by the same names; without ``columns`` all of them come. Ask for columns
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
        """Return record batches, each made when it is asked for.

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
        found = filled(dump(self._files, request, self._remarks), choice)
        with closing(collected(found, Columns, self.findings)) as parts:
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
