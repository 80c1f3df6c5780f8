"""What is new in growing logs, batch by batch: from one record's first byte to another's.

An offset of Spark's is, for each store, a physical offset at which a record begins, or the log ends. What
lies between two of them is the same whenever it is read, so that a query that starts again from its
checkpoint reads what it would have read.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxBytes, SupportsTriggerAvailableNow

from rmqtool.errors import EnvironmentFailureError, UsageError
from rmqtool.scan.log_edge import FoundEdge
from rmqtool.scan.log_end import find_log_end
from rmqtool.scan.record_walk import Blank, ChainWalk, record_defects
from rmqtool.scan.records import Record
from rmqtool.spark.options import Table
from rmqtool.spark.plan import open_stores, parts_of, store_name
from rmqtool.spark.reading import Reading
from rmqtool.spark.shapes import shape_of
from rmqtool.spark.types import arrow_schema, checked_names

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    import pyarrow as pa
    from pyspark.sql.streaming.datasource import ReadLimit
    from pyspark.sql.types import StructType

    from rmqtool.spark.options import ReadOptions
    from rmqtool.store import Store

Offsets = dict[str, int]
"""Physical offsets by the path of a store."""


class StoreStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):  # type: ignore[misc]
    """Reads what is added to logs.

    Args:
        options: What is read.
        schema: The columns that are wanted.

    Raises:
        UsageError: There is no such column, it is of another type, or the table does not grow by records.
    """

    def __init__(self, options: ReadOptions, schema: StructType) -> None:
        if options.table is not Table.MESSAGES:
            raise UsageError(f"a stream has messages, not the table {options.table}: read that in batches")
        self._options = options
        self._reading = Reading(options, checked_names(shape_of(options), schema), arrow_schema(schema))
        self._final: Offsets | None = None

    def initialOffset(self) -> Offsets:
        """Return where the first batch begins."""
        stores = open_stores(self._options)
        if self._options.starts_latest:
            return {store_name(store): _end_of(store) for store in stores}
        return {store_name(store): self._first(store) for store in stores}

    def getDefaultReadLimit(self) -> ReadLimit:
        """Return how much a batch reads at most."""
        most = self._options.max_bytes
        return ReadAllAvailable() if most is None else ReadMaxBytes(most)

    def prepareForTriggerAvailableNow(self) -> None:
        """Note what is there: nothing else is read."""
        self._final = self.reportLatestOffset()

    def reportLatestOffset(self) -> Offsets:
        """Return where the logs end."""
        return {store_name(store): _end_of(store) for store in open_stores(self._options)}

    def latestOffset(self, start: Offsets, limit: ReadLimit) -> Offsets:
        """Return where the next batch ends.

        Raises:
            EnvironmentFailureError: A log ends before what was read of it.
        """
        stores = {store_name(store): store for store in open_stores(self._options)}
        ends = {}
        for name, store in stores.items():
            end = _end_of(store)
            if self._final is not None:
                end = min(end, self._final.get(name, self._first(store)))
            begin = start.get(name, self._first(store))
            if end < begin and self._final is None:
                self._lost(f"{name}: its log ends at {end}, and was read up to {begin}")
            ends[name] = max(begin, end)
        if isinstance(limit, ReadMaxBytes):
            self._admit(stores, start, ends, limit.max_bytes)
        return start | ends

    def partitions(self, start: Offsets, end: Offsets) -> Sequence[InputPartition]:
        """Return the parts of a batch.

        Raises:
            EnvironmentFailureError: What is to be read was deleted.
        """
        found = []
        stores = {store_name(store): store for store in open_stores(self._options)}
        for name, stop in end.items():
            store = stores.get(name)
            if store is None:
                if start.get(name) != stop:
                    self._lost(f"{name}: is no longer there, and was read up to {start.get(name, 0)}")
                continue
            begin = start.get(name, self._first(store))
            if begin < stop:
                if begin < store.commitlog.start:
                    self._lost(
                        f"{name}: its log begins at {store.commitlog.start}, and was read up to {begin}"
                    )
                options = self._options.between(begin, stop)
                found += parts_of(store, options, self._reading.choice, growing=True)
        return [InputPartition(part) for part in found]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yield the batches of a partition."""
        yield from self._reading.batches(partition.value)

    def _first(self, store: Store) -> int:
        return max(store.commitlog.start, self._options.from_offset or 0)

    def _admit(self, stores: Mapping[str, Store], start: Offsets, ends: Offsets, most: int) -> None:
        """Bring ends nearer, so that all stores together have no more than some bytes, and a record each."""
        begins = {name: start.get(name, self._first(store)) for name, store in stores.items()}
        behind = [name for name in stores if ends[name] > begins[name]]
        for name in behind:
            goal = begins[name] + max(most // len(behind), 1)
            if goal < ends[name]:
                ends[name] = min(ends[name], _record_from(stores[name], goal))

    def _lost(self, sentence: str) -> None:
        if self._options.fails_on_loss:
            raise EnvironmentFailureError(
                f"{sentence}; set failOnDataLoss to false to go on with what is there, or begin a new"
                " checkpoint"
            )


def _end_of(store: Store) -> int:
    """Return where the log ends; a last record that is not whole may be half written."""
    edge = FoundEdge.of(store)
    found = find_log_end(edge)
    store.commitlog.close()
    last: Any = found.last
    if last is None or found.end > last.physical_offset + len(last.raw):
        return found.end
    return last.physical_offset if any(record_defects(last)) else found.end


def _record_from(store: Store, log_offset: int) -> int:
    """Return where the first record begins that does not begin before an offset, or its file ends."""
    edge = FoundEdge.of(store)
    segments = edge.segments
    number = next(number for number, one in enumerate(segments) if one.stop > log_offset)
    if segments[number].start >= log_offset:
        return segments[number].start
    for event in ChainWalk(number, edge).run(log_offset, None):
        if isinstance(event, Record | Blank) and event.physical_offset >= log_offset:
            store.commitlog.close()
            return event.physical_offset
    return segments[number].stop
