"""Spark's types as Arrow's, as they are in batches of every line of Spark."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa
from pyspark.sql import types

from rmqtool.errors import UsageError

if TYPE_CHECKING:
    from rmqtool.spark.shapes import Shape

_PLAIN = {
    types.StringType: pa.string(),
    types.BinaryType: pa.binary(),
    types.IntegerType: pa.int32(),
    types.LongType: pa.int64(),
    types.TimestampType: pa.timestamp("us", tz="UTC"),
}


def checked_names(shape: Shape, schema: types.StructType) -> tuple[str, ...]:
    """Return the columns that a schema names, as they are called here.

    Raises:
        UsageError: There is no such column, or it is of another type.
    """
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
