"""Streams in batches of limited size, from Spark 4.2 on; older lines lack the classes used here."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxBytes,
    SupportsTriggerAvailableNow,
)

from rmqtool.scan.classify import FoundEdge
from rmqtool.scan.record_walk import BlankRecord, ChainWalk
from rmqtool.scan.records import Record
from rmqtool.spark.stream import Offsets, StoreStreamReader, end_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from rmqtool.store import Store


class AdmittingStreamReader(StoreStreamReader, SupportsTriggerAvailableNow):  # type: ignore[misc]
    """Reader of messages added to logs, in batches of limited size."""

    _final: Offsets | None = None

    def getDefaultReadLimit(self) -> ReadLimit:
        """Return the most that a batch reads."""
        most = self._options.max_bytes
        return ReadAllAvailable() if most is None else ReadMaxBytes(most)

    def prepareForTriggerAvailableNow(self) -> None:
        """Note the present ends of the logs: nothing after them is read."""
        self._final = self.reportLatestOffset()

    def reportLatestOffset(self) -> Offsets:
        """Return the ends of the logs."""
        return {name: end_of(store) for name, store in self._stores().items()}

    def latestOffset(self, start: Offsets, limit: ReadLimit) -> Offsets:  # type: ignore[override]
        """Return the end of the next batch.

        Raises `EnvironmentFailureError` if a log ends before what was read of it.
        """
        stores = self._stores()
        ends = self._ends(stores, start, self._final)
        if isinstance(limit, ReadMaxBytes):
            self._admit(stores, start, ends, limit.max_bytes)
        return start | ends

    def _admit(self, stores: Mapping[str, Store], start: Offsets, ends: Offsets, most: int) -> None:
        """Reduce ends, so that all stores together have no more than ``most`` bytes, or a record each."""
        begins = {name: start.get(name, self._first(store)) for name, store in stores.items()}
        behind = [name for name in stores if ends[name] > begins[name]]
        for name in behind:
            goal = begins[name] + max(most // len(behind), 1)
            if goal < ends[name]:
                ends[name] = min(ends[name], _record_from(stores[name], goal))


def _record_from(store: Store, log_offset: int) -> int:
    """Return the start of the first record at or after an offset, or the end of its file."""
    edge = FoundEdge.of(store)
    segments = edge.segments
    number = next(number for number, one in enumerate(segments) if one.stop > log_offset)
    if segments[number].start >= log_offset:
        return segments[number].start
    for event in ChainWalk(number, edge).run(log_offset, None):
        if isinstance(event, Record | BlankRecord) and event.physical_offset >= log_offset:
            store.commitlog.close()
            return event.physical_offset
    return segments[number].stop
