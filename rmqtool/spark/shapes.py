"""Columns of each table with their Spark types, and the batches of them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from rmqtool.columns.arrow import EARLIEST_MS, LATEST_MS, schema_of
from rmqtool.columns.lines import body_texts, object_texts
from rmqtool.columns.names import COLUMNS, ColumnChoice, TextBodies
from rmqtool.spark.options import MessageSchema, ReadOptions, Table, unknown_column

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence


STORE = "store"
_LOG_APPEND_TIME = 1
_MILLISECONDS = pa.timestamp("ms", tz="UTC")
_HEADERS = "array<struct<key:string,value:binary>>"


class TableColumn(NamedTuple):
    """A column of messages.

    ``needs`` are columns of ``rmqtool.columns.names``, ``make`` computes it from a batch of those.
    ``may_lack`` allows nulls; ``filtered`` is the column of ours whose values these are.
    """

    kind: str
    needs: tuple[str, ...]
    make: Callable[[pa.RecordBatch], pa.Array]
    may_lack: bool = False
    filtered: str | None = None


def _as_is(name: str, own: str) -> dict[str, TableColumn]:
    kind = schema_of(ColumnChoice((own,))).field(own)
    return {name: TableColumn(_spark_type(kind.type), (own,), lambda batch: batch[own], kind.nullable, own)}


def _spark_type(kind: pa.DataType) -> str:
    if pa.types.is_dictionary(kind):
        kind = kind.value_type
    if pa.types.is_list(kind):
        return "array<string>"
    if pa.types.is_map(kind):
        return "map<string,string>"
    if pa.types.is_timestamp(kind):
        return "timestamp"
    return {pa.int32(): "int", pa.int64(): "bigint", pa.string(): "string", pa.binary(): "binary"}[kind]


def _property(batch: pa.RecordBatch, name: str) -> pa.Array:
    return pc.map_lookup(batch["properties"], query_key=pa.scalar(name), occurrence="first")


def _headers(batch: pa.RecordBatch) -> pa.Array:
    column = batch["properties"]
    pairs = pa.StructArray.from_arrays([column.keys, column.items], ["key", "value"])
    return pa.ListArray.from_arrays(column.offsets, pairs)


def _message_columns(options: ReadOptions) -> dict[str, TableColumn]:
    if options.schema is MessageSchema.KAFKA:
        return {
            "key": TableColumn(
                "binary", ("properties",), lambda batch: _property(batch, "KEYS"), may_lack=True
            ),
            **_as_is("value", "body"),
            **_as_is("topic", "topic"),
            **_as_is("partition", "queueId"),
            **_as_is("offset", "queueOffset"),
            **_as_is("timestamp", "storeTimestamp"),
            "timestampType": TableColumn("int", (), _log_append_time),
            "headers": TableColumn(_HEADERS, ("properties",), _headers),
        }
    if options.schema is MessageSchema.ROCKETMQ_SPARK:
        return {
            **_as_is("topic", "topic"),
            **_as_is("flag", "flag"),
            **_as_is("body", "body"),
            "properties": TableColumn(
                "string", ("properties",), lambda batch: object_texts(batch["properties"])
            ),
            "brokerName": TableColumn("string", (), lambda batch: pa.nulls(len(batch)), may_lack=True),
            **_as_is("queueId", "queueId"),
            **_as_is("queueOffset", "queueOffset"),
            **_as_is("bornTimestamp", "bornTimestamp"),
            **_as_is("storeTimestamp", "storeTimestamp"),
        }
    found: dict[str, TableColumn] = {}
    for name in COLUMNS:
        if name == "body" and options.bodies is not None:
            found |= _text_bodies(options.bodies)
        else:
            found |= _as_is(name, name)
    return found


def _log_append_time(batch: pa.RecordBatch) -> pa.Array:
    return pa.array([_LOG_APPEND_TIME] * len(batch), pa.int32())


def _text_bodies(bodies: TextBodies) -> dict[str, TableColumn]:
    return {
        "body": TableColumn("string", ("body",), lambda batch: body_texts(batch["body"], bodies)[0]),
        "bodyEncoding": TableColumn("string", ("body",), lambda batch: body_texts(batch["body"], bodies)[1]),
    }


_ROW_KINDS: dict[Table, dict[str, str]] = {
    Table.CONSUMEQUEUE: {
        "file": "string",
        "position": "bigint",
        "topic": "string?",
        "queueId": "int?",
        "queueOffset": "bigint",
        "physicalOffset": "bigint",
        "size": "int",
        "tagsCode": "bigint",
        "type": "string",
    },
    Table.INDEX: {
        "file": "string",
        "item": "int",
        "slot": "int?",
        "keyHash": "int",
        "physicalOffset": "bigint",
        "timeDiff": "int",
        "previous": "int",
    },
    Table.DAMAGE: {
        "file": "string",
        "position": "bigint?",
        "physicalOffset": "bigint?",
        "length": "bigint?",
        "code": "string",
        "severity": "string",
        "structure": "string",
        "message": "string",
    },
    Table.SEGMENTS: {
        "file": "string",
        "physicalOffset": "bigint",
        "sizeBytes": "bigint",
        "firstStoreTimestamp": "timestamp?",
    },
}
"""Columns of tables that are made row by row; a question mark: a row may have no value."""


@dataclass(frozen=True)
class Shape:
    """Columns of a table: those of messages by name, the types of all by name, and the nullable ones."""

    columns: Mapping[str, TableColumn]
    kinds: Mapping[str, str]
    lacking: frozenset[str]

    @property
    def ddl(self) -> str:
        """The schema, as Spark parses it."""
        lacks = {name: "" if name in self.lacking else " NOT NULL" for name in self.kinds}
        return ", ".join(f"`{name}` {kind}{lacks[name]}" for name, kind in self.kinds.items())

    def own_names(self, names: Iterable[str]) -> tuple[str, ...]:
        """Return our names of columns, as Spark ignores their case; `UsageError` for an unknown one."""
        own = {name.lower(): name for name in self.kinds}
        found = []
        for name in names:
            if name.lower() not in own:
                raise unknown_column(name, self.kinds)
            found.append(own[name.lower()])
        return tuple(found)

    def choice(self, names: Sequence[str], *, decompress: bool, also: Sequence[str] = ()) -> ColumnChoice:
        """Return the columns of messages that must be read for these columns, and for others of ours."""
        needs = dict.fromkeys(also)
        for name in names:
            if name in self.columns:
                needs |= dict.fromkeys(self.columns[name].needs)
        return ColumnChoice(tuple(needs) or ("queueId",), decompress)

    def batch(
        self, names: Sequence[str], batch: pa.RecordBatch, store: str, target: pa.Schema
    ) -> pa.RecordBatch:
        """Return columns of a batch of messages in the types of ``target``."""
        arrays = [
            pa.array([store] * len(batch), pa.string()) if name == STORE else self.columns[name].make(batch)
            for name in names
        ]
        fitted = [array.cast(field.type) for array, field in zip(arrays, target, strict=True)]
        return pa.RecordBatch.from_arrays(fitted, schema=target)


def shape_of(options: ReadOptions) -> Shape:
    """Return the columns of a table."""
    if options.table is Table.MESSAGES:
        columns = _message_columns(options)
        kinds = {name: column.kind for name, column in columns.items()}
        lacking = {name for name, column in columns.items() if column.may_lack}
    else:
        columns, marked = {}, _ROW_KINDS[options.table]
        kinds = {name: kind.rstrip("?") for name, kind in marked.items()}
        lacking = {name for name, kind in marked.items() if kind.endswith("?")}
    if options.schema is MessageSchema.FULL or options.table is not Table.MESSAGES:
        kinds[STORE] = "string"
    return Shape(columns, kinds, frozenset(lacking))


def row_batch(rows: Sequence[Mapping[str, Any]], names: Sequence[str], target: pa.Schema) -> pa.RecordBatch:
    """Return columns of rows by name, in the types of ``target``; times are epoch milliseconds."""
    arrays = []
    for name, field in zip(names, target, strict=True):
        values = [row[name] for row in rows]
        if pa.types.is_timestamp(field.type):
            array = pa.array(map(_time, values), _MILLISECONDS)
        else:
            array = pa.array(values)
        arrays.append(array.cast(field.type))
    return pa.RecordBatch.from_arrays(arrays, schema=target)


def _time(number: int | None) -> int | None:
    return None if number is None or not EARLIEST_MS <= number <= LATEST_MS else number
