"""Streams of new messages of growing logs, batch by batch from one record's start to another's.

An offset of Spark's is, for each store, a physical offset at which a record begins, or the log ends. The
messages between two of them are always the same, so that a query that restarts from its checkpoint reads what
it would have read. Each batch reads to the end; from Spark 4.2 on, a limit of Spark bounds it
(``admission``).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyspark.sql import types
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition

from rmqtool.errors import EnvironmentFailureError, UsageError
from rmqtool.scan.classify import FoundEdge
from rmqtool.scan.record_walk import find_log_end, record_defects
from rmqtool.spark.options import ReadOptions, Table
from rmqtool.spark.reading import PartitionReader, open_stores, parts_of, store_name
from rmqtool.spark.shapes import Shape, shape_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from pyspark.sql.types import StructType

    from rmqtool.store import Store


_PLAIN = {
    types.StringType: pa.string(),
    types.BinaryType: pa.binary(),
    types.IntegerType: pa.int32(),
    types.LongType: pa.int64(),
    types.TimestampType: pa.timestamp("us", tz="UTC"),
}


def checked_names(shape: Shape, schema: types.StructType) -> tuple[str, ...]:
    """Return our names of a schema's columns; `UsageError` if one is unknown or of another type."""
    names = shape.own_names(schema.names)
    for name, field in zip(names, schema.fields, strict=True):
        kind = field.dataType.simpleString()
        if kind != shape.kinds[name]:
            raise UsageError(f"the column {name} is {shape.kinds[name]}, not {kind}; cast it after reading")
    return names


def arrow_schema(schema: types.StructType) -> pa.Schema:
    """Return the schema of batches."""
    return pa.schema([_field(one.name, one.dataType, lacks=one.nullable) for one in schema.fields])


def _field(name: str, kind: types.DataType, *, lacks: bool) -> pa.Field:
    return pa.field(name, _arrow_type(kind), nullable=lacks)


def _arrow_type(kind: types.DataType) -> pa.DataType:
    if isinstance(kind, types.ArrayType):
        return pa.list_(_field("element", kind.elementType, lacks=kind.containsNull))
    if isinstance(kind, types.MapType):
        value = _field("value", kind.valueType, lacks=kind.valueContainsNull)
        return pa.map_(_field("key", kind.keyType, lacks=False), value)
    if isinstance(kind, types.StructType):
        return pa.struct(list(arrow_schema(kind)))
    return _PLAIN[type(kind)]


Offsets = dict[str, int]
"""Physical offsets by the path of a store."""


class StoreStreamReader(DataSourceStreamReader):  # type: ignore[misc]
    """Reader of messages added to logs, for Spark 4.0 and 4.1."""

    def __init__(self, options: ReadOptions, schema: StructType) -> None:
        if options.table is not Table.MESSAGES:
            raise UsageError(f"a stream has messages, not the table {options.table}: read that in batches")
        self._options = options
        self._reading = PartitionReader(
            options, checked_names(shape_of(options), schema), arrow_schema(schema)
        )
        self._reached: Offsets = {}

    def initialOffset(self) -> Offsets:
        """Return the start of the first batch."""
        first = end_of if self._options.starts_latest else self._first
        self._reached = {name: first(store) for name, store in self._stores().items()}
        return self._reached

    def latestOffset(self) -> Offsets:
        """Return the end of the next batch.

        Spark does not pass its start, but has requested the partitions before it; when it restarts from a
        checkpoint, those between its last offset and that one. Raises `EnvironmentFailureError` if a log ends
        before what was read of it.
        """
        return self._reached | self._ends(self._stores(), self._reached)

    def partitions(self, start: Offsets, end: Offsets) -> Sequence[InputPartition]:
        """Return the parts of a batch; `EnvironmentFailureError` if unread files were deleted."""
        self._reached = end
        found = []
        stores = self._stores()
        for name, stop in end.items():
            store = stores.get(name)
            if store is None:
                if start.get(name) != stop:
                    self._lost(f"{name}: no longer exists, and was read up to {start.get(name, 0)}")
                continue
            begin = start.get(name, self._first(store))
            if begin < stop:
                if begin < store.commitlog.start:
                    self._lost(
                        f"{name}: its log begins at {store.commitlog.start}, and was read up to {begin}"
                    )
                options = self._options.between(begin, stop)
                ends_at_record = options.to_offset == stop  # and not at the user's offset, inside a record
                found += parts_of(
                    store, options, self._reading.choice, growing=True, ends_at_record=ends_at_record
                )
        return [InputPartition(part) for part in found]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yield the batches of a partition."""
        yield from self._reading.batches(partition.value)

    def _stores(self) -> dict[str, Store]:
        return {store_name(store): store for store in open_stores(self._options)}

    def _first(self, store: Store) -> int:
        return max(store.commitlog.start, self._options.from_offset or 0)

    def _ends(self, stores: Mapping[str, Store], start: Offsets, final: Offsets | None = None) -> Offsets:
        """Return the ends of logs, at most the final offsets, and never before their start."""
        ends = {}
        for name, store in stores.items():
            end, begin = end_of(store), start.get(name, self._first(store))
            if end < begin:
                self._lost(f"{name}: its log ends at {end}, and was read up to {begin}")
            if final is not None:
                end = min(end, final.get(name, self._first(store)))
            ends[name] = max(begin, end)
        return ends

    def _lost(self, sentence: str) -> None:
        if self._options.fails_on_loss:
            raise EnvironmentFailureError(
                f"{sentence}; set failOnDataLoss to false to continue with the present messages, or start "
                "a new checkpoint"
            )


def end_of(store: Store) -> int:
    """Return the end of the log, without a last record that may be half written."""
    edge = FoundEdge.of(store)
    found = find_log_end(edge)
    store.commitlog.close()
    last: Any = found.last
    if last is None or found.end > last.physical_offset + len(last.raw):
        return found.end
    return last.physical_offset if any(record_defects(last)) else found.end
