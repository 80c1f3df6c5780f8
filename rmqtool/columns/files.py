"""Files of columns: Parquet, Arrow, and lines of text, by row groups, divided by topic or day on request."""

from __future__ import annotations

import re
from collections import OrderedDict
from contextlib import suppress
from datetime import UTC, datetime
from hashlib import sha256
from typing import TYPE_CHECKING, Protocol, Self
from urllib.parse import quote

import numpy as np
import pyarrow as pa
from pyarrow import parquet

from rmqtool.columns import (
    ColumnChoice,
    ColumnFile,
    FileForm,
    FileFormat,
    Partition,
    TextBodies,
    names_in_files,
)
from rmqtool.columns.arrow import EARLIEST_MS, LATEST_MS, schema_of, truths
from rmqtool.store.names import LONGEST_COMPONENT_BYTES

if TYPE_CHECKING:
    from collections.abc import Iterator

    from typing_extensions import Buffer

    from rmqtool.arrays import Bools
    from rmqtool.store.staging import StagedFile, StagingHandle


_WORDS = ("file", "magic", "transactionType", "bornHost", "storeHost", "topic", "tags")
"""Columns of few values, which Parquet stores once."""

_NEAR = ("position", "physicalOffset", "queueOffset", "bornTimestamp", "storeTimestamp")
"""Columns whose values differ little from one row to the next."""

_WITHOUT_STATISTICS = frozenset({"body", "properties", "keys", "damage", "msgId"})
"""Columns whose bounds are of no use."""

ZSTD_LEVEL = 1


class TableWriter(Protocol):
    """Writer of tables into one file."""

    def write(self, table: pa.Table) -> None:
        """Append a table; in Parquet, a row group."""
        ...

    def finish(self) -> None:
        """Write the end."""
        ...


class Output:
    """A staged file for pyarrow and other writers, which write it from front to end."""

    closed = False
    is_abandoned = False

    def __init__(self, file: StagedFile) -> None:
        self._file = file
        self.size_bytes = 0

    def write(self, data: Buffer) -> int:
        """Append bytes and return their number."""
        count = memoryview(data).nbytes
        if not self.is_abandoned:
            self._file.write_at(self.size_bytes, data)
        self.size_bytes += count
        return count

    def tell(self) -> int:
        """Return the number of bytes written."""
        return self.size_bytes

    def flush(self) -> None:
        """Do nothing: nothing is buffered."""

    def close(self) -> None:
        """Do nothing: the staged file has a context of its own."""


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
    """Words are written in full: some readers cannot read a dictionary that grows from batch to batch."""

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


def open_tables(chosen: FileFormat, output: Output, schema: pa.Schema, bodies: TextBodies) -> TableWriter:
    """Return a writer of tables of a schema in a format; ``bodies`` is their form in text."""
    if chosen is FileFormat.PARQUET:
        return _ParquetTables(output, schema)
    if chosen is FileFormat.ARROW:
        return _ArrowTables(output, schema)
    from rmqtool.columns.lines import LineWriter, csv_form, ndjson_form  # which loads pyarrow's functions

    form = ndjson_form if chosen is FileFormat.NDJSON else csv_form
    return LineWriter(output, form(schema, bodies))


GROUP_BYTES = 64 << 20
"""Bytes in memory at which a row group ends, after a whole batch."""

GROUP_ROWS = 1 << 20
_OPEN_FILES = 64
_DAY_MS = 86_400_000
_DIGITS = 32
"""Digits of a digest, enough for no two topics to have the same."""

_DIGEST = re.compile(f"~[0-9a-f]{{{_DIGITS}}}$")
_CUT_ESCAPE = re.compile("%[0-9A-F]?$")
_CUT_FROM = LONGEST_COMPONENT_BYTES - len("%0")
"""Least length of a name that was cut: part of an escape may be cut off, too."""

_NO_DAY = "__HIVE_DEFAULT_PARTITION__"
"""Hive's name of a partition of rows without a value."""

_SETS_APART = {Partition.TOPIC: "topic", Partition.DAY: "storeTimestamp"}


def columns_needed(choice: ColumnChoice, form: FileForm) -> ColumnChoice:
    """Return the columns that batches must have: those of the files, and the one that divides them."""
    names = choice.names
    if form.partition is not None and _SETS_APART[form.partition] not in names:
        names = (*names, _SETS_APART[form.partition])
    return ColumnChoice(names, choice.decompress)


class TableFiles:
    """Files of one task; a context manager that removes them after an error.

    ``folder``, empty or with ``/`` at its end, comes before the folders of partitions, ``name`` after them,
    without its ending. For the columns of the files see `names_in_files`.
    """

    def __init__(
        self, staging: StagingHandle, name: str, folder: str, choice: ColumnChoice, form: FileForm
    ) -> None:
        self._names = names_in_files(choice.names, form.partition)
        self._schema = schema_of(ColumnChoice(self._names))
        self._staging, self._name, self._folder, self._form = staging, name, folder, form
        self._groups: dict[str, list[pa.RecordBatch]] = {}
        self._sizes: dict[str, int] = {}
        self._open: OrderedDict[str, _OpenFile] = OrderedDict()
        self._topics: dict[str, str] = {}
        self._begun: dict[str, int] = {}
        self._done: list[ColumnFile] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *exc: object) -> None:
        for file in self._open.values():
            file.abandon()

    def add(self, batch: pa.RecordBatch) -> None:
        """Add a batch."""
        for place, topic, part in _set_apart(batch, self._form.partition):
            if topic is not None:
                self._topics[place] = topic
            wanted = part.select([*self._names])
            self._groups.setdefault(place, []).append(wanted)
            self._sizes[place] = self._sizes.get(place, 0) + wanted.nbytes
            rows = sum(group.num_rows for group in self._groups[place])
            if self._sizes[place] >= GROUP_BYTES or rows >= GROUP_ROWS:
                self._write(place)
        while sum(self._sizes.values()) >= 2 * GROUP_BYTES:
            self._write(max(self._sizes, key=self._sizes.__getitem__))

    def finish(self) -> list[ColumnFile]:
        """Write the rest; return the files."""
        for place in list(self._groups):
            self._write(place)
        while self._open:
            self._close_oldest()
        return sorted(self._done, key=lambda file: file.name)

    def _write(self, place: str) -> None:
        del self._sizes[place]
        table = pa.Table.from_batches(self._groups.pop(place), schema=self._schema).unify_dictionaries()
        if place not in self._open:
            if len(self._open) == _OPEN_FILES:
                self._close_oldest()
            self._open[place] = self._begin(place)
        self._open.move_to_end(place)
        self._open[place].write(table)

    def _begin(self, place: str) -> _OpenFile:
        count = self._begun[place] = self._begun.get(place, 0) + 1
        again = f"-{count}" if count > 1 else ""
        name = f"{self._folder}{place}{self._name}{again}.{self._form.format.value}"
        return _OpenFile(self._staging, name, self._schema, self._form, self._topics.get(place))

    def _close_oldest(self) -> None:
        _, file = self._open.popitem(last=False)
        self._done.append(file.finish())


class _OpenFile:
    def __init__(
        self, staging: StagingHandle, name: str, schema: pa.Schema, form: FileForm, topic: str | None
    ) -> None:
        self._name, self._topic = name, topic
        self._staged = staging.create_file(name)
        self._output = Output(self._staged)
        self._tables = open_tables(form.format, self._output, schema, form.bodies)
        self._messages = 0

    def write(self, table: pa.Table) -> None:
        self._tables.write(table)
        self._messages += table.num_rows

    def finish(self) -> ColumnFile:
        try:
            self._tables.finish()
        except BaseException:
            self.abandon()
            raise
        self._staged.finish()
        return ColumnFile(self._name, self._messages, self._output.size_bytes, self._topic)

    def abandon(self) -> None:
        """Remove the file; what pyarrow still writes when its writer is closed is dropped."""
        self._output.is_abandoned = True
        with suppress(pa.ArrowInvalid):  # it failed before
            self._tables.finish()
        self._staged.abandon()


def _set_apart(
    batch: pa.RecordBatch, partition: Partition | None
) -> Iterator[tuple[str, str | None, pa.RecordBatch]]:
    """Yield the parts of a batch, each with its Hive folder, and its topic if the folder cuts that."""
    if partition is None:
        yield "", None, batch
        return
    column = batch[_SETS_APART[partition]]
    if partition is Partition.TOPIC:
        numbers, words = column.indices.to_numpy(), column.dictionary
        values = {number: words[number].as_py() for number in np.unique(numbers).tolist()}
    else:
        numbers = column.cast(pa.int64()).fill_null(np.iinfo(np.int64).max).to_numpy() // _DAY_MS
        values = {number: _day(number) for number in np.unique(numbers).tolist()}
    for number, value in values.items():
        folder, is_cut = folder_of(partition, value)
        yield f"{folder}/", value if is_cut else None, _rows_of(batch, numbers == number)


def folder_of(partition: Partition, value: str) -> tuple[str, bool]:
    """Return the name of a folder, and whether it is cut and ends with a digest, for lack of room.

    A value that only looks cut gets its own digest, so that no two folders are the same.
    """
    folder = f"{partition}={quote(value, safe='')}"
    looks_cut = len(folder) >= _CUT_FROM and _DIGEST.search(folder) is not None
    if len(folder) <= LONGEST_COMPONENT_BYTES and not looks_cut:
        return folder, False
    digest = sha256(value.encode("utf-8", "surrogatepass")).hexdigest()[:_DIGITS]
    kept = _CUT_ESCAPE.sub("", folder[: LONGEST_COMPONENT_BYTES - 1 - _DIGITS])
    return f"{kept}~{digest}", True


def _rows_of(batch: pa.RecordBatch, wanted: Bools) -> pa.RecordBatch:
    return batch if wanted.all() else batch.filter(truths(wanted))


def _day(number: int) -> str:
    if not EARLIEST_MS <= number * _DAY_MS <= LATEST_MS:
        return _NO_DAY
    return datetime.fromtimestamp(number * _DAY_MS / 1000, UTC).date().isoformat()
