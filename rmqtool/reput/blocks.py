"""The block file of a split: the units of each queue and the index entries, ready to be copied into place.

::

    Block => unit[n] queueOffset[n]? storeTimestamp[n]? batchSize[n]? entry[m] keyless[k]

Units are final bytes (consume queue or, in a batch queue, plain parts of the batch unit), sorted by queue and
in log order within one. The columns after them are there only where a queue needs them. A block file is
written under a name of its own and counts only through the ``Block`` that comes back from its task, so a task
that is run twice does no harm.
"""

from __future__ import annotations

import uuid
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from rmqtool.dispatch.grouping import RUN_ROW, measure_runs, order_by_queue
from rmqtool.dispatch.rows import ENTRY_ROW, KEYLESS_ROW
from rmqtool.errors import EnvironmentFailureError
from rmqtool.formats import record_dtype
from rmqtool.formats.consumequeue import UNIT
from rmqtool.scan.transaction_kernels import TRANSACTION_ROW

if TYPE_CHECKING:
    import numpy.typing as npt

    from rmqtool.store.staging import StagingHandle

    Array = npt.NDArray[Any]

UNIT_DTYPE = record_dtype(UNIT)

_DTYPES: dict[str, np.dtype[Any]] = {
    "units": UNIT_DTYPE,
    "queue_offsets": np.dtype(np.int64),
    "store_timestamps": np.dtype(np.int64),
    "batch_sizes": np.dtype(np.int32),
    "entries": ENTRY_ROW,
    "keyless": KEYLESS_ROW,
    "transactions": TRANSACTION_ROW,
}
UNIT_COLUMNS = ("units", "queue_offsets", "store_timestamps", "batch_sizes")
ENTRY_COLUMNS = ("entries", "keyless")


@dataclass(frozen=True, slots=True)
class Column:
    """Rows of one type, one after the other in a file."""

    path: str
    position: int
    count: int


@dataclass(frozen=True)
class Block:
    """Where the columns of a block lie.

    Attributes:
        columns: by name; one that is not needed has no rows.
        runs: ``(queues with units,)`` of ``RUN_ROW``.
        queues: canonical topic bytes and queue id by the number in ``runs``.
    """

    columns: dict[str, Column]
    runs: npt.NDArray[np.void]
    queues: tuple[tuple[bytes, int], ...]

    def count(self, column: str) -> int:
        """Return how many rows a column has."""
        return self.columns[column].count

    def read(self, column: str, first: int = 0, count: int | None = None) -> Array:
        """Return rows of a column, ``(count,)``; all after ``first`` by default.

        Raises:
            EnvironmentFailureError: the block file cannot be read, or has lost its end.
        """
        where = self.columns[column]
        dtype = _DTYPES[column]
        wanted = where.count - first if count is None else count
        try:
            rows = np.fromfile(where.path, dtype, wanted, offset=where.position + first * dtype.itemsize)
        except OSError as failure:
            raise _lost(where, failure.strerror or str(failure)) from failure
        if len(rows) != wanted:
            raise _lost(where, "it has become shorter")
        return rows

    def slim(self, *names: str) -> Block:
        """Return the block with only some columns and no runs, as small as a task's argument should be."""
        return Block({name: self.columns[name] for name in names}, self.runs[:0], ())


def _lost(column: Column, reason: str) -> EnvironmentFailureError:
    return EnvironmentFailureError(
        f"{column.path}: a block of another task cannot be read ({reason}); nobody may clear that directory"
        " meanwhile, and on a cluster all executors must see it (--scratch, --out)"
    )


def _unit_columns(units: Array, order: Array, *, offsets: bool, wide: bool) -> dict[str, Array]:
    """Return the columns in order; field by field, for numpy takes whole rows ten times slower."""
    packed = np.empty(len(units), UNIT_DTYPE)
    packed["physicalOffset"] = units["physical_offset"][order]
    packed["size"] = units["size"][order]
    packed["tagsCode"] = units["tags_code"][order]
    none = order[:0]
    return {
        "units": packed,
        "queue_offsets": units["queue_offset"][order if offsets else none],
        "store_timestamps": units["store_timestamp_ms"][order if wide else none],
        "batch_sizes": units["batch_size"][order if wide else none],
    }


def write_block(
    staging: StagingHandle,
    units: Array,
    entries: Array,
    keyless: Array,
    queues: tuple[tuple[bytes, int], ...],
    *,
    wide: bool,
    transactions: Array | None = None,
) -> Block:
    """Sort units by queue and write the block file.

    Args:
        staging: where block files are written.
        units: ``(n,)`` of ``UNIT_ROW`` in log order.
        entries: ``(m,)`` of ``ENTRY_ROW`` in log order.
        keyless: ``(k,)`` of ``KEYLESS_ROW``.
        queues: canonical topic bytes and queue id of every queue number.
        wide: whether store times and batch sizes are needed.
        transactions: ``(t,)`` of ``TRANSACTION_ROW`` in log order; None for none.

    Raises:
        EnvironmentFailureError: the block file cannot be written.
    """
    order, starts = order_by_queue(units, len(queues))
    runs = np.zeros(len(queues), RUN_ROW)
    runs = runs[: measure_runs(units, order, starts, runs)]
    offsets = wide or not runs["orderly"].all()
    columns = _unit_columns(units, order, offsets=offsets, wide=wide) | {
        "entries": entries,
        "keyless": keyless,
    }
    columns["transactions"] = np.empty(0, TRANSACTION_ROW) if transactions is None else transactions
    return Block(write_columns(staging, columns), runs, queues)


def write_columns(staging: StagingHandle, columns: dict[str, Array]) -> dict[str, Column]:
    """Write columns into one file; return where they lie.

    Raises:
        EnvironmentFailureError: the file cannot be written.
    """
    written: dict[str, Column] = {}
    with staging.create_block(uuid.uuid4().hex) as file:
        position = 0
        for name, rows in columns.items():
            written[name] = Column(str(file.path), position, len(rows))
            file.write_at(position, np.ascontiguousarray(rows).view(np.uint8).data)
            position += rows.nbytes
    return written
