"""The data source, as Spark calls it: planning on the driver, reading on executors."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition

from rmqtool.columns import require_library
from rmqtool.errors import UsageError
from rmqtool.spark.options import ReadOptions, options_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, MutableMapping, Sequence

    import pyarrow as pa
    from pyspark.sql.types import StructType

    from rmqtool.spark.shapes import Narrowed

NAME = "rocketmq-store"
PUSHDOWN = "spark.sql.python.filterPushdown.enabled"
"""Setting of a session by which Spark passes filters."""


class StoreSource(DataSource):  # type: ignore[misc]
    """Stores of RocketMQ brokers as tables; `UsageError` if an option makes no sense."""

    def __init__(self, options: MutableMapping[str, str]) -> None:
        require_library("pyarrow")
        super().__init__(options)
        self.read_options = options_of(options)

    @classmethod
    def name(cls) -> str:
        """Return the name for ``format``."""
        return NAME

    def schema(self) -> str:
        """Return the columns that options name; `UsageError` if one is unknown."""
        from rmqtool.spark.shapes import Shape, shape_of

        shape, wanted = shape_of(self.read_options), self.read_options.columns
        if wanted is None:
            return shape.ddl
        names = shape.own_names(wanted)
        return Shape(shape.columns, {name: shape.kinds[name] for name in names}, shape.lacking).ddl

    def reader(self, schema: StructType) -> DataSourceReader:
        """Return a reader of all messages; `UsageError` if filters are wanted, which Spark does not pass."""
        if self.read_options.pushes_filters:
            raise UsageError(
                f"pushFilters: Spark hands no filters over; set {PUSHDOWN} to true (Spark 4.1 and newer), and"
                " call rmqtool.spark.register(spark) again"
            )
        return StoreReader(self.read_options, schema)


class PushingSource(StoreSource):
    """The same, where Spark passes filters: Spark rejects readers that accept them where it does not.

    They are applied only where the user says that one query reads the table: Spark caches the filtered reader
    with the table, and uses it for other queries, too (``PythonDataSourceV2#setReadInfo``, 4.1 to 4.3).
    """

    def reader(self, schema: StructType) -> DataSourceReader:
        """Return a reader that applies filters, if the user wants that."""
        kind = PushingReader if self.read_options.pushes_filters else StoreReader
        return kind(self.read_options, schema)


class StoreReader(DataSourceReader):  # type: ignore[misc]
    """Reader of present stores; `UsageError` if a column is unknown or of another type."""

    def __init__(self, options: ReadOptions, schema: StructType) -> None:
        from rmqtool.spark.shapes import Narrowed, arrow_schema, shape_of

        self._left: Narrowed = Narrowed(options)
        self._names = shape_of(options).checked_names(schema)
        self._target = arrow_schema(schema)

    def partitions(self) -> Sequence[InputPartition]:
        """Return the parts of all stores; an empty one if there is nothing to read."""
        from rmqtool.spark.reading import open_stores, parts_of, store_name

        if self._left.is_empty:
            return [InputPartition(None)]
        choice, wanted = self._reading.choice, self._left.stores
        parts = []
        for store in open_stores(self._left.options):
            if wanted is None or store_name(store) in wanted:
                parts += parts_of(store, self._left.options, choice)
        return [InputPartition(part) for part in parts] or [InputPartition(None)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yield the batches of a partition."""
        if partition.value is not None:
            yield from self._reading.batches(partition.value)

    @property
    def _reading(self) -> Any:  # noqa: ANN401 - its module needs pyarrow
        from rmqtool.spark.reading import PartitionReader

        return PartitionReader(self._left.options, self._names, self._target, self._left.topics)


class PushingReader(StoreReader):
    """Reader that applies filters."""

    def pushFilters(self, filters: Sequence[Any]) -> Iterable[Any]:
        """Apply filters; return those that Spark has to apply."""
        from rmqtool.spark.shapes import narrowed, shape_of

        self._left, rest = narrowed(self._left.options, shape_of(self._left.options), filters)
        return rest
