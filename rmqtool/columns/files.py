"""Files of columns: Parquet, Arrow, and lines of text; each is written by batches of rows.

Only this module and ``arrow`` know pyarrow, which is an extra of the package.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

import pyarrow as pa
from pyarrow import parquet

from rmqtool.columns.names import FileFormat

if TYPE_CHECKING:
    from collections.abc import Callable

    from typing_extensions import Buffer

    from rmqtool.columns.names import TextBodies
    from rmqtool.store.staged_file import StagedFile

_WORDS = ("file", "magic", "transactionType", "bornHost", "storeHost", "topic", "tags")
"""Columns of few values, which Parquet keeps once."""

_NEAR = ("position", "physicalOffset", "queueOffset", "bornTimestamp", "storeTimestamp")
"""Columns whose values differ little from one row to the next."""

_WITHOUT_STATISTICS = frozenset({"body", "properties", "keys", "damage", "msgId"})
"""Columns of whose bounds nobody can make anything."""

ZSTD_LEVEL = 1


class TableWriter(Protocol):
    """Writes tables into one file."""

    def write(self, table: pa.Table) -> None:
        """Append a table; of Parquet, a row group."""
        ...

    def finish(self) -> None:
        """Write what comes last."""
        ...


class Output:
    """A staged file as pyarrow and others write it, from front to end.

    Args:
        file: The file.

    Attributes:
        size_bytes: What was written.
        is_abandoned: Whether what is written from now on goes nowhere.
    """

    closed = False
    is_abandoned = False

    def __init__(self, file: StagedFile) -> None:
        self._file = file
        self.size_bytes = 0

    def write(self, data: Buffer) -> int:
        """Append bytes; return how many.

        Raises:
            EnvironmentFailureError: Out of space, or another I/O error.
        """
        count = memoryview(data).nbytes
        if not self.is_abandoned:
            self._file.write_at(self.size_bytes, data)
        self.size_bytes += count
        return count

    def tell(self) -> int:
        """Return how many bytes were written."""
        return self.size_bytes

    def flush(self) -> None:
        """Nothing is held back."""

    def close(self) -> None:
        """The staged file is closed by its own context."""


class _ParquetTables:
    def __init__(self, output: Output, schema: pa.Schema) -> None:
        names = [field.name for field in schema]
        self._writer = parquet.ParquetWriter(
            pa.PythonFile(output, mode="w"),
            schema,
            compression="zstd",
            compression_level=ZSTD_LEVEL,
            use_dictionary=[*(name for name in _WORDS if name in names), "properties.key_value.key"],
            column_encoding={name: "DELTA_BINARY_PACKED" for name in _NEAR if name in names} or None,
            write_statistics=[name for name in names if name not in _WITHOUT_STATISTICS] or False,
        )

    def write(self, table: pa.Table) -> None:
        self._writer.write_table(table, row_group_size=max(table.num_rows, 1))

    def finish(self) -> None:
        self._writer.close()


class _ArrowTables:
    """Words come as they are: a dictionary that grows from batch to batch is more than some can read."""

    def __init__(self, output: Output, schema: pa.Schema) -> None:
        self._schema = pa.schema([_without_words(field) for field in schema])
        options = pa.ipc.IpcWriteOptions(compression="zstd")
        self._writer = pa.ipc.new_file(pa.PythonFile(output, mode="w"), self._schema, options=options)

    def write(self, table: pa.Table) -> None:
        for batch in table.cast(self._schema).to_batches():
            self._writer.write_batch(batch)

    def finish(self) -> None:
        self._writer.close()


def _without_words(field: pa.Field) -> pa.Field:
    return field.with_type(field.type.value_type) if pa.types.is_dictionary(field.type) else field


def _json_lines(output: Output, schema: pa.Schema, bodies: TextBodies) -> TableWriter:
    from rmqtool.columns.lines import LineWriter, ndjson_form  # which loads pyarrow's functions

    return LineWriter(output, ndjson_form(schema, bodies))


def _csv_lines(output: Output, schema: pa.Schema, bodies: TextBodies) -> TableWriter:
    from rmqtool.columns.lines import LineWriter, csv_form

    return LineWriter(output, csv_form(schema, bodies))


def open_tables(chosen: FileFormat, output: Output, schema: pa.Schema, bodies: TextBodies) -> TableWriter:
    """Return what writes tables of a schema in a format; ``bodies`` is how text has them."""
    return _OPENERS[chosen](output, schema, bodies)


_OPENERS: dict[FileFormat, Callable[[Output, pa.Schema, TextBodies], TableWriter]] = {
    FileFormat.PARQUET: lambda output, schema, _: _ParquetTables(output, schema),
    FileFormat.ARROW: lambda output, schema, _: _ArrowTables(output, schema),
    FileFormat.NDJSON: _json_lines,
    FileFormat.CSV: _csv_lines,
}
