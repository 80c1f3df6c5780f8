"""Work on one partition: a task's rows become batches in the types that Spark expects."""

from __future__ import annotations

import logging
import socket
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from rmqtool import rows
from rmqtool.columns.arrow import Batches
from rmqtool.columns.encoder import filled
from rmqtool.errors import EnvironmentFailureError, SourceUnreachableError
from rmqtool.findings import Severity
from rmqtool.io.planned import unreached
from rmqtool.projection import json_object
from rmqtool.spark.options import Mode, ReadOptions, Table
from rmqtool.spark.shapes import STORE, row_batch, shape_of
from rmqtool.spark.tasks import LogTask, SegmentFact

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from rmqtool.columns.names import ColumnChoice
    from rmqtool.spark.plan import Part

_LOG = logging.getLogger("rmqtool")
_ROWS = 8192
_ROW_KINDS: dict[Table, type[Any]] = {
    Table.CONSUMEQUEUE: rows.Unit,
    Table.INDEX: rows.Item,
    Table.DAMAGE: rows.Damage,
    Table.SEGMENTS: SegmentFact,
}


@dataclass(frozen=True)
class PartitionReader:
    """Reader of partitions. ``target`` are the columns' names and types in Spark; ``topics`` None is any."""

    options: ReadOptions
    names: tuple[str, ...]
    target: pa.Schema
    topics: frozenset[str] | None = None

    @property
    def choice(self) -> ColumnChoice:
        """The columns of messages that must be read."""
        also = () if self.topics is None else ("topic",)
        return shape_of(self.options).choice(self.names, decompress=self.options.decompress, also=also)

    def batches(self, part: Part) -> Iterator[pa.RecordBatch]:
        """Yield the batches of a partition.

        Raises:
            FileNotSharedError: This machine does not see a file of the part.
            ExecutorCannotReachError: It cannot reach the object store.
            EnvironmentFailureError: A file cannot be read; with FAILFAST, also at the first damage.
        """
        try:
            task, _ = part.task.unpacked()
            found = self._fast_failing(task()) if self.options.mode is Mode.FAILFAST else task()
            if isinstance(task, LogTask) and self.options.table is Table.MESSAGES:
                yield from self._messages(filled(found, task.job.choice), part.store, task.job.choice)
            else:
                yield from self._rows(found, part.store)
        except EnvironmentFailureError as failure:
            raise EnvironmentFailureError(f"executor {socket.gethostname()}: {failure}") from failure
        except SourceUnreachableError as failure:
            raise unreached(failure) from failure

    def _messages(
        self, found: Iterable[rows.Row], store: str, choice: ColumnChoice
    ) -> Iterator[pa.RecordBatch]:
        batches, shape = Batches(choice), shape_of(self.options)
        for columns in found:
            if not isinstance(columns, rows.Columns):
                continue
            for remark in columns.remarks:
                _LOG.warning(remark)
            batch = self._wanted(batches.batch(columns), columns.damage)
            if len(batch):
                yield shape.batch(self.names, batch, store, self.target)

    def _wanted(self, batch: pa.RecordBatch, damage: dict[int, list[str]]) -> pa.RecordBatch:
        """Return the messages of wanted topics; with DROPMALFORMED, without damaged ones."""
        masks = []
        if self.topics is not None:
            topics = pa.array(sorted(self.topics), pa.string())
            masks.append(pc.is_in(batch["topic"].cast(pa.string()), value_set=topics))
        if damage and self.options.mode is Mode.DROPMALFORMED:
            masks.append(pa.array([number not in damage for number in range(len(batch))]))
        for mask in masks[1:]:
            masks[0] = pc.and_(masks[0], mask)
        return batch.filter(masks[0]) if masks else batch

    def _rows(self, found: Iterable[rows.Row | SegmentFact], store: str) -> Iterator[pa.RecordBatch]:
        kind = _ROW_KINDS.get(self.options.table)
        if kind is None:  # of messages, which have columns instead
            for _ in found:
                pass
            return
        objects = _objects(found, kind, store)
        while some := list(islice(objects, _ROWS)):
            yield row_batch(some, self.names, self.target)

    def _fast_failing(self, found: Iterable[Any]) -> Iterator[Any]:
        """Yield rows; raise `EnvironmentFailureError` at the first damage or damaged message."""
        damage_by_code: dict[str, rows.Damage] = {}
        for row in found:
            if isinstance(row, rows.Damage):
                damage_by_code[row.code.code] = row
                if row.severity is Severity.ERROR:
                    raise _damaged(row)
            elif isinstance(row, rows.Columns) and row.damage:
                raise _damaged(damage_by_code[next(iter(row.damage.values()))[0]])
            yield row


def _objects(found: Iterable[Any], kind: type[Any], store: str) -> Iterator[dict[str, Any]]:
    for row in found:
        if not isinstance(row, kind):
            continue
        value = {**json_object(row), STORE: store}
        if isinstance(row, rows.Damage):
            finding = row.finding()
            value |= {"severity": finding.severity.value, "structure": row.structure.value}
            value["message"] = finding.sentence
        yield value


def _damaged(damage: rows.Damage) -> EnvironmentFailureError:
    log_offset = "" if damage.physical_offset is None else f" (physical offset {damage.physical_offset})"
    return EnvironmentFailureError(
        f"{damage.file} at {damage.position}{log_offset}: {damage.code.code}: {damage.finding().sentence};"
        " read it with mode PERMISSIVE or DROPMALFORMED, or see"
        f" `rmqtool verify --explain {damage.code.code}`"
    )
