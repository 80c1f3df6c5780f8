"""Columns as Arrow arrays, without a copy of what kernels have written."""

from __future__ import annotations

from dataclasses import fields
from functools import cache
from itertools import islice
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from rmqtool import rows
from rmqtool.columns.encoder import LONGS, NUMBERS, filled
from rmqtool.errors import UsageError
from rmqtool.kernels.columns import Number, Text, Word
from rmqtool.projection import camel_case
from rmqtool.rows.messages import TRANSACTION_TYPES, host_text

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from _typeshed import DataclassInstance

    from rmqtool.arrays import Array, Bools, Int32s, Int64s
    from rmqtool.columns import ColumnChoice
    from rmqtool.rows import Columns, Row

EARLIEST_MS, LATEST_MS = -62_135_596_800_000, 253_402_300_799_999
"""Times of the years 1 to 9999, which every reader has; a damaged record may state any other."""

_TIME = pa.timestamp("ms", tz="UTC")
_WORDS = pa.dictionary(pa.int32(), pa.string())
_STRINGS = pa.list_(pa.field("element", pa.string(), nullable=False))
_TRANSACTION_SHIFT = 2

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
_LONGS = {camel_case(name): column for column, name in LONGS.items()}
_NUMBERS = {camel_case(name): column for column, name in NUMBERS.items()}
_TEXTS = {"body": Text.BODY, "tags": Text.TAGS, "uniqKey": Text.UNIQ_KEY, "msgId": Text.MSG_ID}
_OF_WORDS = {"topic": Word.TOPIC, "bornHost": Word.BORN_HOST, "storeHost": Word.STORE_HOST}
_FIXED = {"magic": ("V1", "V2"), "transactionType": tuple(TRANSACTION_TYPES.values())}


def schema_of(choice: ColumnChoice) -> pa.Schema:
    """Return the schema of columns."""
    return pa.schema([pa.field(name, _TYPES[name], nullable=name in _NULLABLE) for name in choice.names])


class Batches:
    """Maker of record batches of columns; each dictionary begins with all of the one before.

    Without ``any_time``, times outside of the years 1 to 9999 are null, as few readers have them.
    """

    def __init__(self, choice: ColumnChoice, *, any_time: bool = False) -> None:
        self.schema = schema_of(choice)
        self._any_time = any_time
        self._dictionaries = {name: _Dictionary(_text_of(name)) for name in (*_OF_WORDS, "file")}

    def batch(self, columns: Columns) -> pa.RecordBatch:
        """Return the batch of columns, which share their memory with it."""
        arrays = [self._array(field.name, columns) for field in self.schema]
        return pa.RecordBatch.from_arrays(arrays, schema=self.schema)

    def _array(self, name: str, columns: Columns) -> pa.Array:
        count = columns.count
        if name in _LONGS:
            numbers = columns.longs[_LONGS[name], :count]
            is_time = _TYPES[name] is _TIME and not self._any_time
            return _times(numbers) if is_time else _plain(_TYPES[name], numbers)
        if name in _NUMBERS:
            return _plain(_TYPES[name], columns.numbers[_NUMBERS[name], :count])
        if name in _TEXTS:
            return _texts(columns, _TEXTS[name], _TYPES[name], count, may_lack=name in _NULLABLE)
        return _LISTS[name](columns) if name in _LISTS else self._words(name, columns)

    def _words(self, name: str, columns: Columns) -> pa.DictionaryArray:
        count = columns.count
        if name in _OF_WORDS:
            word = _OF_WORDS[name]
            numbers = columns.numbers[Number.TOPIC + word, :count]
            return self._dictionaries[name].array(numbers, columns.words[word])
        if name == "file":
            file = columns.file.encode("utf-8", "backslashreplace")
            return self._dictionaries[name].array(np.zeros(count, np.int32), (file,))
        numbers = columns.numbers[Number.MAGIC, :count]
        if name == "transactionType":
            numbers = columns.numbers[Number.SYS_FLAG, :count] >> _TRANSACTION_SHIFT & 3
        return pa.DictionaryArray.from_arrays(_plain(pa.int32(), numbers), _fixed_words(name), safe=False)


def messages_table(found: Iterable[Row], choice: ColumnChoice) -> pa.Table:
    """Return messages as a table."""
    batches = Batches(choice)
    parts = [batches.batch(part) for part in filled(found, choice) if isinstance(part, rows.Columns)]
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


def _text_of(name: str) -> Callable[[bytes], str]:
    return host_text if name.endswith("Host") else bytes.decode


@cache
def _fixed_words(name: str) -> pa.Array:
    return _strings(_FIXED[name])


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
