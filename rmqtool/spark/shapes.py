"""Columns of each table with their Spark types, the batches of them, and filters of a query.

Filters are those that reading can apply, so that Spark never sees the other rows; Spark's own are recognised
by their names, as Spark 4.0 has none.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, NamedTuple

import pyarrow as pa

from rmqtool.columns import COLUMNS, EARLIEST_MS, LATEST_MS, ColumnChoice
from rmqtool.columns.arrow import schema_of
from rmqtool.errors import UsageError
from rmqtool.projection import BodyMode, encoded_body
from rmqtool.spark.options import ReadOptions, Table, unknown_column

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence


STORE = "store"
_MILLISECONDS = pa.timestamp("ms", tz="UTC")


class TableColumn(NamedTuple):
    """A column of messages: ``make`` computes it from that column of ours which it ``needs``."""

    kind: str
    needs: str
    make: Callable[[pa.Array], pa.Array]
    may_lack: bool = False


def _as_is(name: str) -> TableColumn:
    kind = schema_of(ColumnChoice((name,))).field(name)
    return TableColumn(_spark_type(kind.type), name, lambda column: column, kind.nullable)


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


def _message_columns(options: ReadOptions) -> dict[str, TableColumn]:
    columns = {name: _as_is(name) for name in COLUMNS}
    if (bodies := options.bodies) is not None:
        columns["body"] = TableColumn("string", "body", lambda column: _encoded(column, bodies, 0))
        columns["bodyEncoding"] = TableColumn("string", "body", lambda column: _encoded(column, bodies, 1))
    return columns


def _encoded(column: pa.Array, bodies: BodyMode, part: int) -> pa.Array:
    return pa.array([encoded_body(body, bodies)[part] for body in column.to_pylist()], pa.large_string())


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
        asked = []
        for name in names:
            if name.lower() not in own:
                raise unknown_column(name, self.kinds)
            asked.append(own[name.lower()])
        return tuple(asked)

    def checked_names(self, schema: Any) -> tuple[str, ...]:  # noqa: ANN401 - a StructType of Spark
        """Return our names of a schema's columns; `UsageError` if one is unknown or of another type."""
        names = self.own_names(schema.names)
        for name, field in zip(names, schema.fields, strict=True):
            kind = field.dataType.simpleString()
            if kind != self.kinds[name]:
                raise UsageError(
                    f"the column {name} is {self.kinds[name]}, not {kind}; cast it after reading"
                )
        return names

    def choice(self, names: Sequence[str], *, decompress: bool, also: Sequence[str] = ()) -> ColumnChoice:
        """Return the columns of messages that must be read for these columns, and for others of ours."""
        needs = dict.fromkeys(also)
        for name in names:
            if name in self.columns:
                needs[self.columns[name].needs] = None
        return ColumnChoice(tuple(needs) or ("queueId",), decompress)

    def batch(
        self, names: Sequence[str], batch: pa.RecordBatch, store: str, target: pa.Schema
    ) -> pa.RecordBatch:
        """Return columns of a batch of messages in the types of ``target``."""
        arrays = [
            pa.array([store] * len(batch), pa.string())
            if name == STORE
            else self.columns[name].make(batch[self.columns[name].needs])
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
    kinds[STORE] = "string"
    return Shape(columns, kinds, frozenset(lacking))


_ARROW_TYPES = {
    "string": pa.string(),
    "binary": pa.binary(),
    "int": pa.int32(),
    "bigint": pa.int64(),
    "timestamp": pa.timestamp("us", tz="UTC"),
}


def arrow_schema(schema: Any) -> pa.Schema:  # noqa: ANN401 - a StructType of Spark
    """Return the schema of batches: Spark compares it whole, with what may be null inside of lists."""
    return pa.schema(
        [pa.field(field.name, _arrow_type(field.dataType), field.nullable) for field in schema.fields]
    )


def _arrow_type(kind: Any) -> pa.DataType:  # noqa: ANN401 - a DataType of Spark
    name = kind.simpleString()
    if name.startswith("array"):
        return pa.list_(pa.field("element", pa.string(), kind.containsNull))
    if name.startswith("map"):
        return pa.map_(pa.string(), pa.field("value", pa.string(), kind.valueContainsNull))
    return _ARROW_TYPES[name]


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


_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_GLOB = frozenset("*?[")
_LEAST, _MOST = -(1 << 63), (1 << 63) - 1
_RANGES = {"GreaterThan", "GreaterThanOrEqual", "LessThan", "LessThanOrEqual", "EqualTo", "EqualNullSafe"}


@dataclass(frozen=True)
class Narrowed:
    """Options with narrower bounds, and the topics and stores that are left; None: any."""

    options: ReadOptions
    topics: frozenset[str] | None = None
    stores: frozenset[str] | None = None

    @property
    def is_empty(self) -> bool:
        """Whether no row can match."""
        options, wanted = self.options, self.options.messages
        return (
            self.topics == frozenset()
            or self.stores == frozenset()
            or _crossed(wanted.begin_ms, wanted.end_ms)
            or _crossed(options.from_offset, None if options.to_offset is None else options.to_offset - 1)
        )


def _crossed(least: int | None, most: int | None) -> bool:
    return least is not None and most is not None and least > most


def narrowed(options: ReadOptions, shape: Shape, filters: Iterable[Any]) -> tuple[Narrowed, list[Any]]:
    """Apply filters of ``pyspark.sql.datasource``, all of which must hold.

    Return also those that Spark must apply.
    """
    left, rest = Narrowed(options), []
    for condition in filters:
        applied = _applied(left, shape, condition)
        if applied is None:
            rest.append(condition)
            continue
        left, is_whole = applied
        if not is_whole:
            rest.append(condition)
    return left, rest


def _applied(left: Narrowed, shape: Shape, condition: Any) -> tuple[Narrowed, bool] | None:  # noqa: ANN401
    """Return what a filter leaves, and whether all of that matches; None if the filter is not known."""
    kind, path = type(condition).__name__, tuple(getattr(condition, "attribute", ()))
    if path == (STORE,) and kind in {"EqualTo", "In"}:
        return replace(left, stores=_both(left.stores, _values(condition))), True
    column = shape.columns.get(path[0]) if len(path) == 1 else None
    if column is None:
        return None
    if kind == "IsNotNull":
        return None if column.may_lack else (left, True)
    if path == ("topic",) and kind in {"EqualTo", "In"}:
        return _of_topics(left, _both(left.topics, _values(condition))), True
    bound = _BOUNDS.get(path[0])
    return (
        None
        if bound is None or kind not in _RANGES or condition.value is None
        else bound(left, kind, condition.value)
    )


def _values(condition: Any) -> frozenset[str]:  # noqa: ANN401
    values = condition.value if type(condition).__name__ == "In" else (condition.value,)
    return frozenset(value for value in values if value is not None)  # nothing is equal to null


def _both(some: frozenset[str] | None, others: frozenset[str]) -> frozenset[str]:
    return others if some is None else some & others


def _of_topics(left: Narrowed, topics: frozenset[str]) -> Narrowed:
    """Return what topics leave; kernels filter by a single one."""
    wanted = left.options.messages
    if len(topics) == 1 and wanted.topic is None:
        (topic,) = topics
        if _GLOB.isdisjoint(topic):
            wanted = replace(wanted, topic=topic)
    return replace(left, topics=topics, options=replace(left.options, messages=wanted))


def _by_queue(left: Narrowed, kind: str, value: int) -> tuple[Narrowed, bool] | None:
    wanted = left.options.messages
    if kind not in {"EqualTo", "EqualNullSafe"} or wanted.queue_id not in {None, value}:
        return None
    return _with_messages(left, queue_id=value), True


def _by_time(left: Narrowed, kind: str, value: datetime) -> tuple[Narrowed, bool] | None:
    if value.tzinfo is None:
        return None
    since = value - _EPOCH
    micros = (since.days * 86_400 + since.seconds) * 1_000_000 + since.microseconds
    least, most = _range(kind, -(-micros // 1000), micros // 1000, is_whole=micros % 1000 == 0)
    wanted = left.options.messages
    bounds = {
        "begin_ms": max(least, EARLIEST_MS, *_given(wanted.begin_ms)),
        "end_ms": min(most, LATEST_MS, *_given(wanted.end_ms)),
    }
    return _with_messages(left, **bounds), True


def _by_queue_offset(left: Narrowed, kind: str, value: int) -> tuple[Narrowed, bool] | None:
    least, most = _range(kind, value, value)
    if least == _LEAST:
        return None
    first = max((least, *_given(left.options.messages.from_queue_offset)))
    return _with_messages(left, from_queue_offset=first), most == _MOST


def _by_place(left: Narrowed, kind: str, value: int) -> tuple[Narrowed, bool]:
    """Narrow to the records' place; Spark still checks each record's own field."""
    least, most = _range(kind, value, value)
    begin = None if least == _LEAST else max(least, 0)
    end = None if most == _MOST else max(most + 1, 0)
    return replace(left, options=left.options.between(begin, end)), False


def _range(kind: str, least: int, most: int, *, is_whole: bool = True) -> tuple[int, int]:
    """Return the least and the largest number that match; ``least`` and ``most`` are the value, rounded."""
    if kind.startswith("GreaterThan"):
        excludes = kind == "GreaterThan" and is_whole
        return least + excludes, _MOST
    if kind.startswith("LessThan"):
        excludes = kind == "LessThan" and is_whole
        return _LEAST, most - excludes
    return least, most


def _with_messages(left: Narrowed, **changes: Any) -> Narrowed:  # noqa: ANN401
    messages = replace(left.options.messages, **changes)
    return replace(left, options=replace(left.options, messages=messages))


def _given(number: int | None) -> tuple[int, ...]:
    return () if number is None else (number,)


_BOUNDS: dict[str, Callable[[Narrowed, str, Any], tuple[Narrowed, bool] | None]] = {
    "queueId": _by_queue,
    "storeTimestamp": _by_time,
    "queueOffset": _by_queue_offset,
    "physicalOffset": _by_place,
}
