"""The block file of a split: the units of each queue and the index entries, ready to be copied into place.

::

    Block => unit[n] queueOffset[n]? storeTimestamp[n]? batchSize[n]? entry[m] keyless[k] run[q] key[q] name*

Units are final bytes (consume queue or, in a batch queue, plain parts of the batch unit), sorted by queue and
in log order within one. The columns after them are there only where a queue needs them. Queues have the same
order in all blocks, that of their keys' digests: so those of a task lie side by side in each. A block file is
written under a name of its own and counts only through the ``Block`` that comes back from its task, so a task
that is run twice does no harm. Blocks of a small log stay in memory where no other process reads them.
Nothing of a ``Block`` grows with its queues: thousands are held at a time.
"""

from __future__ import annotations

import os
import uuid
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from rmqtool.engine import Engine, EngineOptions, options_of
from rmqtool.engine.choice import runs_elsewhere
from rmqtool.errors import EnvironmentFailureError, UsageError
from rmqtool.formats import record_dtype
from rmqtool.formats.consumequeue import UNIT
from rmqtool.io.source import is_object_url
from rmqtool.kernels.rows import ENTRY_ROW, KEY_ROW, KEYLESS_ROW, TRANSACTION_ROW
from rmqtool.kernels.units import RUN_ROW, measure_runs, order_by_queue, pack_units
from rmqtool.store.results import AnyArea, scratch_area
from rmqtool.store.staging import StagingHandle

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from contextlib import AbstractContextManager

    from typing_extensions import Buffer

    from rmqtool.arrays import Array
    from rmqtool.dispatch.policy import QueueTable


UNIT_DTYPE = record_dtype(UNIT)

_DTYPES: dict[str, np.dtype[Any]] = {
    "units": UNIT_DTYPE,
    "queue_offsets": np.dtype(np.int64),
    "store_timestamps": np.dtype(np.int64),
    "batch_sizes": np.dtype(np.int32),
    "entries": ENTRY_ROW,
    "keyless": KEYLESS_ROW,
    "transactions": TRANSACTION_ROW,
    "runs": RUN_ROW,
    "keys": KEY_ROW,
    "names": np.dtype(np.uint8),
}
UNIT_COLUMNS = ("units", "queue_offsets", "store_timestamps", "batch_sizes")
ENTRY_COLUMNS = ("entries", "keyless")


@dataclass(frozen=True, slots=True)
class BlockColumn:
    """Rows of one type, one after the other in a file, or in memory."""

    path: str | bytearray
    position: int
    count: int

    def part(self, first: int, count: int, row_bytes: int) -> BlockColumn:
        """Return some of the rows."""
        return BlockColumn(self.path, self.position + first * row_bytes, count)

    def read(self, dtype: np.dtype[Any]) -> Array:
        """Return the rows, ``(count,)``."""
        rows = np.empty(self.count, dtype)
        self.read_into(rows)
        return rows

    def read_into(self, rows: Array) -> None:
        """Read the rows, ``(count,)`` and contiguous."""
        missing = rows.view(np.uint8).data
        if isinstance(self.path, bytearray):
            missing[:] = memoryview(self.path)[self.position : self.position + len(missing)]
            return
        if is_object_url(self.path):
            from rmqtool.store.object_staging import staged_object

            if staged_object(self.path).reader().read_into(self.position, missing) != len(missing):
                raise _lost(self.path, "it has become shorter")
            return
        try:
            descriptor = os.open(self.path, os.O_RDONLY | os.O_CLOEXEC)
            try:
                os.lseek(descriptor, self.position, os.SEEK_SET)
                while missing and (count := os.readv(descriptor, [missing])):
                    missing = missing[count:]
            finally:
                os.close(descriptor)
        except OSError as failure:
            raise _lost(self.path, failure.strerror or str(failure)) from failure
        if missing:
            raise _lost(self.path, "it has become shorter")


class Block(NamedTuple):
    """Places of a block's columns: one that is not needed has no rows; ``runs`` and ``keys`` go together."""

    columns: dict[str, BlockColumn]

    def count(self, column: str) -> int:
        """Return how many rows a column has."""
        return self.columns[column].count

    def rows(self, column: str, first: int, count: int) -> BlockColumn:
        """Return where some rows of a column lie."""
        return self.columns[column].part(first, count, _DTYPES[column].itemsize)

    def read(self, column: str, first: int = 0, count: int | None = None) -> Array:
        """Return rows of a column, ``(count,)``; all after ``first`` by default."""
        wanted = self.columns[column].count - first if count is None else count
        return self.rows(column, first, wanted).read(_DTYPES[column])

    def slim(self, *names: str) -> Block:
        """Return the block with only some columns, as small as a task's argument should be."""
        return Block({name: self.columns[name] for name in names})


def dtype_of(column: str) -> np.dtype[Any]:
    """Return the type of a column's rows."""
    return _DTYPES[column]


def _lost(path: str, reason: str) -> EnvironmentFailureError:
    return EnvironmentFailureError(
        f"{path}: a block of another task cannot be read ({reason}); do not clear that directory "
        "meanwhile; on a cluster all executors must see it (--scratch, --out)"
    )


def _unit_columns(units: Array, order: Array, *, offsets: bool, wide: bool) -> dict[str, Array]:
    """Return the columns in order."""
    packed = np.empty(len(units), UNIT_DTYPE)
    pack_units(units, order, packed.view(np.uint8))
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
    queues: QueueTable,
    *,
    wide: bool,
    transactions: Array | None = None,
) -> Block:
    """Sort units by queue and write the block file.

    ``units``, ``entries`` and ``transactions`` are in log order; ``wide`` is whether store times and batch
    sizes are needed.
    """
    numbers = queues.by_digest(np.flatnonzero(np.bincount(units["queue"], minlength=1)))
    order, starts = order_by_queue(units, numbers)
    runs = np.zeros(len(numbers), RUN_ROW)
    measure_runs(units, order, starts, runs)
    keys, names = queues.keys(numbers)
    offsets = wide or not runs["orderly"].all()
    columns = _unit_columns(units, order, offsets=offsets, wide=wide) | {
        "entries": entries,
        "keyless": keyless,
        "runs": runs,
        "keys": keys,
        "names": names,
    }
    columns["transactions"] = np.empty(0, TRANSACTION_ROW) if transactions is None else transactions
    return Block(write_columns(staging, columns))


def write_columns(staging: StagingHandle, columns: dict[str, Array]) -> dict[str, BlockColumn]:
    """Write columns into one file; return where they lie."""
    written: dict[str, BlockColumn] = {}
    with staging.create_block(uuid.uuid4().hex) as file:
        position = 0
        for name, rows in columns.items():
            written[name] = BlockColumn(file.name, position, len(rows))
            file.write_at(position, np.ascontiguousarray(rows).view(np.uint8).data)
            position += rows.nbytes
    return written


def open_scratch(
    engine: EngineOptions | Engine, evidence_roots: Iterable[Path]
) -> AbstractContextManager[AnyArea]:
    """Open a staging area that leaves nothing, in a place that all tasks see."""
    scratch = options_of(engine).scratch
    if scratch is None and runs_elsewhere(engine):
        raise UsageError(
            "the executors of a cluster hand blocks to each other, and temporary files of this machine are"
            " nothing to them: give --scratch DIR, a directory that this machine and all executors see, or"
            " the URL of one"
        )
    return scratch_area(evidence_roots, scratch)


class _KeptBlock:
    """A block in memory."""

    def __init__(self) -> None:
        self.name = bytearray()  # itself: nothing else leads to it

    def __enter__(self) -> _KeptBlock:
        return self

    def __exit__(self, *exc: object) -> None:
        """Nothing has to be finished."""

    def write_at(self, position: int, data: Buffer) -> None:
        """Write bytes at a position."""
        view = memoryview(data).cast("B")
        self.name[position : position + len(view)] = view


class _MemoryHandle(StagingHandle):
    """Handle for threads of this process, which need no file to read each other's blocks."""

    def create_block(self, name: str) -> _KeptBlock:
        """Begin a block, see `StagingHandle.create_block`."""
        return _KeptBlock()


_KEPT_LOG_BYTES = 256 << 20
"""A log whose blocks, a third of it with ordinary keys, stay in memory."""


@contextmanager
def place_of_blocks(
    engine: EngineOptions | Engine, evidence_roots: Iterable[Path], log_bytes: int
) -> Iterator[StagingHandle]:
    """Open a place for blocks alone, which leaves nothing."""
    options = options_of(engine)
    if options.kind == "local" and options.scratch is None and log_bytes <= _KEPT_LOG_BYTES:
        yield _MemoryHandle(Path())
        return
    with open_scratch(engine, evidence_roots) as area:
        yield area.handle
