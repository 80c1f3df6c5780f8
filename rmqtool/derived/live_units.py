"""The units of a queue's files that lead into the log, as columns: zeros and pre-blank ones left out."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from rmqtool.derived.queue_files import QueueReader
from rmqtool.formats.consumequeue import BATCH_UNITS, PREBLANK_SIZE, UNITS
from rmqtool.store.kinds import PathKind

if TYPE_CHECKING:
    from collections.abc import Iterator

    import numpy.typing as npt

    from rmqtool.arrays import Bools, Int64s
    from rmqtool.derived.queue_files import Units
    from rmqtool.store import QueueFiles

    Array = npt.NDArray[Any]


class LiveUnits(NamedTuple):
    """Units of a queue, ``(n,)`` each.

    Attributes:
        keys: numbers of the units; of a batch queue, their base offsets.
        physical_offsets: of the records.
        sizes: of the records, in bytes.
        tags_codes: as they are.
        messages: more than one in a batch queue.
    """

    keys: Array
    physical_offsets: Array
    sizes: Array
    tags_codes: Array
    messages: Array

    def only(self, which: Bools) -> LiveUnits:
        """Return some of them."""
        return LiveUnits(*(column[which] for column in self))


def live_units(queue: QueueFiles) -> Iterator[LiveUnits]:
    """Yield the units of a consume queue, or batch consume queue, chunk by chunk.

    Raises:
        EnvironmentFailureError: a file cannot be opened or read.
    """
    is_batch = queue.kind is PathKind.BATCHCONSUMEQUEUE
    for units in QueueReader(queue.files, BATCH_UNITS if is_batch else UNITS):
        yield _live(units, is_batch=is_batch)


def _live(units: Units, *, is_batch: bool) -> LiveUnits:
    offsets, sizes = units.column("physicalOffset"), units.column("size")
    numbers: Int64s = units.first_number + np.arange(len(units))
    messages: Int64s = np.ones(len(units), np.int64)
    if is_batch:
        numbers, messages = units.column("msgBaseOffset"), units.column("batchSize")
    is_preblank = (offsets == 0) & (sizes == PREBLANK_SIZE)
    valid = (sizes > 0) & (offsets >= 0) & ~is_preblank
    return LiveUnits(numbers, offsets, sizes, units.column("tagsCode"), messages).only(valid)


def all_live_units(queue: QueueFiles) -> LiveUnits:
    """Return all units of a queue.

    Raises:
        EnvironmentFailureError: a file cannot be opened or read.
    """
    none = LiveUnits(*(np.empty(0, np.int64) for _ in LiveUnits._fields))
    columns = zip(none, *live_units(queue), strict=True)
    return LiveUnits(*(np.concatenate(column) for column in columns))
