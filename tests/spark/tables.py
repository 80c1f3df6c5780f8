"""The data source as Spark calls it, without a session: sources, schemas, partitions, batches."""

from __future__ import annotations

import pickle
from typing import TYPE_CHECKING, Any

from tests.extra import library

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from rmqtool.spark.source import PushingSource

pa = library("pyarrow")
types = library("pyspark.sql.types")
source_api = library("pyspark.sql.datasource")
source_module = library("rmqtool.spark.source")

_TEXTS = types.StringType()
_TYPES: dict[str, Any] = {
    "int": types.IntegerType(),
    "bigint": types.LongType(),
    "string": _TEXTS,
    "binary": types.BinaryType(),
    "timestamp": types.TimestampType(),
    "array<string>": types.ArrayType(_TEXTS),
    "map<string,string>": types.MapType(_TEXTS, _TEXTS),
}


def source(*paths: Path | str, **options: str) -> PushingSource:
    """Return the source, its options as Spark hands them over."""
    place = {"path": str(paths[0])} if len(paths) == 1 else {"paths": f"[{', '.join(map(_quoted, paths))}]"}
    made: PushingSource = source_module.PushingSource(source_api.CaseInsensitiveDict(place | options))
    return made


def _quoted(path: Path | str) -> str:
    return f'"{path}"'


def struct_of(ddl: str) -> Any:  # noqa: ANN401 - a type of a library that may be missing
    """Parse a schema as ours are."""
    fields = []
    for text in ddl.split(", "):
        name, kind, *mark = text.split(" ")
        fields.append(types.StructField(name.strip("`"), _TYPES[kind], not mark))
    return types.StructType(fields)


def sent(thing: Any) -> Any:  # noqa: ANN401 - whatever travels
    """Return what arrives of a thing on an executor."""
    return pickle.loads(pickle.dumps(thing))


def batches(reader: Any, partitions: Iterable[Any]) -> list[Any]:  # noqa: ANN401 - of batch or stream
    """Return the batches of partitions, read elsewhere."""
    return [batch for one in partitions for batch in sent(reader).read(sent(one))]


def table(*paths: Path | str, filters: Iterable[Any] = (), ddl: str | None = None, **options: str) -> Any:  # noqa: ANN401
    """Return all rows as a table, after a check of types."""
    made = source(*paths, pushFilters="true", **options)
    wanted = struct_of(made.schema() if ddl is None else ddl)
    reader = made.reader(wanted)
    assert isinstance(list(reader.pushFilters(list(filters))), list)
    found = batches(reader, reader.partitions())
    if not found:
        return []
    whole = pa.Table.from_batches(found)
    whole.validate(full=True)
    return whole.to_pylist(maps_as_pydicts="strict")
