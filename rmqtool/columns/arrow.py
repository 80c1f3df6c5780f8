"""Columns as Arrow arrays, without a copy of what kernels have written."""

from __future__ import annotations

from dataclasses import fields
from functools import cache, partial
from itertools import islice
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from rmqtool import rows
from rmqtool.columns import EARLIEST_MS, LATEST_MS, ColumnChoice, FileFormat
from rmqtool.columns.encoder import (
    FIXED_WORDS,
    LONGS_BY_NAME,
    NUMBERS_BY_NAME,
    TEXTS_BY_NAME,
    WORDS_BY_NAME,
    filled,
    text_of_word,
    word_numbers,
)
from rmqtool.errors import UsageError
from rmqtool.kernels.columns import Text
from rmqtool.projection import camel_case

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from _typeshed import DataclassInstance, SupportsWrite

    from rmqtool.arrays import Array, Bools, Int32s, Int64s
    from rmqtool.rows import Columns, Row

_TIME = pa.timestamp("ms", tz="UTC")
_WORDS = pa.dictionary(pa.int32(), pa.string())
_STRINGS = pa.list_(pa.field("element", pa.string(), nullable=False))

_TYPES = {
    "file": _WORDS,
    "position": pa.int64(),
    "physicalOffset": pa.int64(),
    "totalSize": pa.int32(),
    "magic": _WORDS,
    "bodyCrc": pa.int32(),
    "queueId": pa.int32(),
    "flag": pa.int32(),
    "queueOffset": pa.int64(),
    "sysFlag": pa.int32(),
    "transactionType": _WORDS,
    "bornTimestamp": _TIME,
    "bornHost": _WORDS,
    "storeTimestamp": _TIME,
    "storeHost": _WORDS,
    "reconsumeTimes": pa.int32(),
    "preparedTransactionOffset": pa.int64(),
    "topic": _WORDS,
    "bodyLength": pa.int32(),
    "body": pa.binary(),
    "properties": pa.map_(pa.string(), pa.field("value", pa.string(), nullable=False)),
    "tags": pa.string(),
    "keys": _STRINGS,
    "uniqKey": pa.string(),
    "tagsCode": pa.int64(),
    "msgId": pa.string(),
    "damage": _STRINGS,
}
_ROW_TYPES = {"int": pa.int64(), "str": pa.string(), "bool": pa.bool_()}
_ROWS_AT_ONCE = 1 << 14
_NULLABLE = frozenset({"tags", "uniqKey", "bornTimestamp", "storeTimestamp"})


def schema_of(choice: ColumnChoice) -> pa.Schema:
    """Return the schema of columns."""
    return pa.schema([pa.field(name, _TYPES[name], nullable=name in _NULLABLE) for name in choice.names])


class Batches:
    """Maker of record batches of columns; each dictionary begins with all of the one before.

    Times outside of the years 1 to 9999 are null, as few readers have them.
    """

    def __init__(self, choice: ColumnChoice) -> None:
        self.schema = schema_of(choice)
        self._dictionaries = {
            name: _Dictionary(partial(text_of_word, name)) for name in (*WORDS_BY_NAME, "file")
        }

    def batch(self, columns: Columns) -> pa.RecordBatch:
        """Return the batch of columns, which share their memory with it."""
        arrays = [self._array(field.name, columns) for field in self.schema]
        return pa.RecordBatch.from_arrays(arrays, schema=self.schema)

    def _array(self, name: str, columns: Columns) -> pa.Array:
        count = columns.count
        if name in LONGS_BY_NAME:
            numbers = columns.longs[LONGS_BY_NAME[name], :count]
            return _times(numbers) if _TYPES[name] is _TIME else _plain(_TYPES[name], numbers)
        if name in NUMBERS_BY_NAME:
            return _plain(_TYPES[name], columns.numbers[NUMBERS_BY_NAME[name], :count])
        if name in TEXTS_BY_NAME:
            return _texts(columns, TEXTS_BY_NAME[name], _TYPES[name], count, may_lack=name in _NULLABLE)
        return _LISTS[name](columns) if name in _LISTS else self._words(name, columns)

    def _words(self, name: str, columns: Columns) -> pa.DictionaryArray:
        if name == "file":
            file = columns.file.encode("utf-8", "backslashreplace")
            return self._dictionaries[name].array(np.zeros(columns.count, np.int32), (file,))
        numbers = word_numbers(columns, name)
        if name in WORDS_BY_NAME:
            return self._dictionaries[name].array(numbers, columns.words[WORDS_BY_NAME[name]])
        return pa.DictionaryArray.from_arrays(_plain(pa.int32(), numbers), _fixed_words(name), safe=False)


def messages_table(every: Iterable[Row], choice: ColumnChoice) -> pa.Table:
    """Return messages as a table."""
    batches = Batches(choice)
    parts = [batches.batch(part) for part in filled(every, choice) if isinstance(part, rows.Columns)]
    return pa.Table.from_batches(parts, schema=batches.schema).unify_dictionaries()


def rows_table(instances: Iterable[DataclassInstance], kind: type[DataclassInstance]) -> pa.Table:
    """Return rows of one type (else `UsageError`) as a table; ``kind`` is the type of no rows."""
    left = iter(instances)
    kept = [*islice(left, 1)]
    kind = type(kept[0]) if kept else kind
    types = {
        field.name: _ROW_TYPES.get(str(field.type).partition(" ")[0], pa.string()) for field in fields(kind)
    }
    schema = pa.schema([(camel_case(name), type_) for name, type_ in types.items()])
    batches = []
    while kept := [*kept, *islice(left, _ROWS_AT_ONCE)]:
        for other in {type(instance) for instance in kept}:
            if [field.name for field in fields(other)] != [*types]:  # a Preblank has those of a Unit
                raise UsageError(f"rows of {kind.__name__} and {other.__name__} have no columns in common")
        columns = [
            pa.array([getattr(instance, name) for instance in kept], type_) for name, type_ in types.items()
        ]
        batches.append(pa.RecordBatch.from_arrays(columns, schema=schema))
        kept = []
    return pa.Table.from_batches(batches, schema=schema)


class _Dictionary:
    """Words of one column, in the order of their first use."""

    def __init__(self, text_of: Callable[[bytes], str]) -> None:
        self._text_of = text_of
        self._numbers: dict[bytes, int] = {}
        self._words = _strings(())

    def array(self, numbers: Int32s, words: tuple[bytes, ...]) -> pa.DictionaryArray:
        """Return a column from numbers of words."""
        new = [word for word in words if word not in self._numbers]
        if new:
            self._numbers |= {word: number for number, word in enumerate(new, len(self._numbers))}
            self._words = pa.concat_arrays([self._words, _strings(map(self._text_of, new))])
        own = np.array([self._numbers[word] for word in words], np.int32)
        numbers = own[numbers] if len(own) else numbers
        return pa.DictionaryArray.from_arrays(_plain(pa.int32(), numbers), self._words, safe=False)


@cache
def _fixed_words(name: str) -> pa.Array:
    return _strings(FIXED_WORDS[name])


def _strings(texts: Iterable[str]) -> pa.StringArray:
    """Return texts as an array made of buffers: ``pa.array`` imports pandas if that is installed."""
    encoded = [text.encode() for text in texts]
    stops = np.cumsum([0, *map(len, encoded)], dtype=np.int32)
    return pa.StringArray.from_buffers(len(encoded), pa.py_buffer(stops), pa.py_buffer(b"".join(encoded)))


def truths(values: Bools) -> pa.BooleanArray:
    """Return truth values as an array."""
    bits = pa.py_buffer(np.packbits(values, bitorder="little"))
    return pa.Array.from_buffers(pa.bool_(), len(values), [None, bits])


def _plain(kind: pa.DataType, numbers: Array) -> pa.Array:
    return pa.Array.from_buffers(kind, len(numbers), [None, pa.py_buffer(np.ascontiguousarray(numbers))])


def _times(numbers: Int64s) -> pa.Array:
    valid = None
    if len(numbers) and (numbers.min() < EARLIEST_MS or numbers.max() > LATEST_MS):
        fits = (numbers >= EARLIEST_MS) & (numbers <= LATEST_MS)
        valid = pa.py_buffer(np.packbits(fits, bitorder="little"))
    data = pa.py_buffer(np.ascontiguousarray(numbers))
    return pa.Array.from_buffers(_TIME, len(numbers), [valid, data])


def _texts(
    columns: Columns, text: Text, kind: pa.DataType, count: int, *, may_lack: bool = False
) -> pa.Array:
    """Return texts; with ``may_lack``, empty ones are null, as no property's value is empty."""
    stops = columns.stops[text, : count + 1]
    valid = None
    if may_lack:
        valid = pa.py_buffer(np.packbits(stops[1:] > stops[:-1], bitorder="little"))
    data = pa.py_buffer(columns.texts[text][: stops[-1]])
    return pa.Array.from_buffers(kind, count, [valid, pa.py_buffer(stops), data])


def _pieces(columns: Columns, text: Text, stops: Int32s) -> pa.Array:
    return _texts(columns, text, pa.string(), int(stops[-1]))


def _keys(columns: Columns) -> pa.Array:
    stops = columns.list_stops[0, : columns.count + 1]
    pieces = _pieces(columns, Text.KEY, stops)
    return pa.Array.from_buffers(_STRINGS, columns.count, [None, pa.py_buffer(stops)], children=[pieces])


def _properties(columns: Columns) -> pa.Array:
    kind = _TYPES["properties"]
    stops = columns.list_stops[1, : columns.count + 1]
    names, values = (_pieces(columns, text, stops) for text in (Text.NAME, Text.VALUE))
    pairs = pa.StructArray.from_arrays([names, values], fields=[kind.key_field, kind.item_field])
    return pa.Array.from_buffers(kind, columns.count, [None, pa.py_buffer(stops)], children=[pairs])


def _damage(columns: Columns) -> pa.Array:
    sizes = np.zeros(columns.count + 1, np.int32)
    for number, codes in columns.damage.items():
        sizes[number + 1] = len(codes)
    codes = _strings(code for number in sorted(columns.damage) for code in columns.damage[number])
    stops = pa.py_buffer(np.cumsum(sizes, dtype=np.int32))
    return pa.Array.from_buffers(_STRINGS, columns.count, [None, stops], children=[codes])


_LISTS: dict[str, Callable[[Columns], pa.Array]] = {
    "keys": _keys,
    "properties": _properties,
    "damage": _damage,
}


_IN_DICTIONARIES = ("file", "magic", "transactionType", "bornHost", "storeHost", "topic", "tags")
"""Columns of few values, which Parquet stores once."""

_NEAR = ("position", "physicalOffset", "queueOffset", "bornTimestamp", "storeTimestamp")
"""Columns whose values differ little from one row to the next."""

_WITHOUT_STATISTICS = frozenset({"body", "properties", "keys", "damage", "msgId"})
"""Columns whose bounds are of no use."""

ZSTD_LEVEL = 1


class _ParquetTables:
    def __init__(self, output: SupportsWrite[bytes], schema: pa.Schema) -> None:
        from pyarrow import parquet

        names = [field.name for field in schema]
        self._writer = parquet.ParquetWriter(
            pa.PythonFile(output, mode="w"),
            schema,
            compression="zstd",
            compression_level=ZSTD_LEVEL,
            use_dictionary=[
                *(name for name in _IN_DICTIONARIES if name in names),
                "properties.key_value.key",
            ],
            column_encoding={name: "DELTA_BINARY_PACKED" for name in _NEAR if name in names} or None,
            write_statistics=[name for name in names if name not in _WITHOUT_STATISTICS] or False,
        )

    def write(self, parts: list[pa.RecordBatch]) -> None:
        table = pa.Table.from_batches(parts).unify_dictionaries()
        self._writer.write_table(table, row_group_size=max(table.num_rows, 1))

    def finish(self) -> None:
        self._writer.close()


class _ArrowTables:
    """Words are written in full: some readers cannot read a dictionary that grows from batch to batch."""

    def __init__(self, output: SupportsWrite[bytes], schema: pa.Schema) -> None:
        self._schema = pa.schema([_without_words(field) for field in schema])
        options = pa.ipc.IpcWriteOptions(compression="zstd")
        self._writer = pa.ipc.new_file(pa.PythonFile(output, mode="w"), self._schema, options=options)

    def write(self, parts: list[pa.RecordBatch]) -> None:
        for batch in pa.Table.from_batches(parts).cast(self._schema).to_batches():
            self._writer.write_batch(batch)

    def finish(self) -> None:
        self._writer.close()


def _without_words(field: pa.Field) -> pa.Field:
    return field.with_type(field.type.value_type) if pa.types.is_dictionary(field.type) else field


_NARROW_BYTES = 8 << 20
"""Batches below this size are narrow: their row groups end by rows, not by bytes."""


class Tables:
    """Parts of files that are batches."""

    def __init__(self, chosen: FileFormat, names: Sequence[str]) -> None:
        self._batches = Batches(ColumnChoice(tuple(names)))
        self._writer = _ParquetTables if chosen is FileFormat.PARQUET else _ArrowTables

    def divided(
        self, columns: Columns, wanted: Iterable[tuple[str, Bools]]
    ) -> Iterator[tuple[str, pa.RecordBatch, int]]:
        """Yield the batch of each file, and its size.

        A narrow one is a copy, as it waits for others of its row group in memory with room for all columns.
        """
        batch = self._batches.batch(columns)
        if batch.nbytes < _NARROW_BYTES:
            batch = batch.copy_to(pa.default_cpu_memory_manager())
        for place, are_wanted in wanted:
            part = batch if are_wanted.all() else batch.filter(truths(are_wanted))
            yield place, part, part.nbytes

    def writer(self, output: SupportsWrite[bytes]) -> _ParquetTables | _ArrowTables:
        """Return a writer of batches."""
        return self._writer(output, self._batches.schema)
