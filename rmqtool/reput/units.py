"""Units of queues: read out of the blocks in pieces, and those that the append rule keeps.

In a block a queue has one run, which can be a single unit, beside those of other queues. So the short runs of
many queues are read together, and put in order in memory.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from rmqtool.formats.consumequeue import UNIT_SIZE
from rmqtool.kernels.units import QueueState, append_units, appended_batches, new_state
from rmqtool.reput.blocks import Block, dtype_of
from rmqtool.reput.queues import PLACE, QueuePlan

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from rmqtool.arrays import Array, Bools, Int64s, Rows


_PIECE_UNITS = 1 << 18
_GROUP_UNITS = 1 << 19
_LEAST_READ_UNITS = 1 << 6
"""Units that a read of a block should yield on average, where there are very many blocks."""
_LONG_RUN_UNITS = 1 << 10
"""Runs from here on are worth a read of their own: it takes as long as copying so many units."""


class _Reading:
    """The units of runs, ``(n,)`` of ``PLACED_RUN`` in any order; each column is read at its first use."""

    def __init__(self, blocks: Sequence[Block], runs: Rows) -> None:
        self._blocks, self._runs = blocks, runs
        self._columns: dict[str, Array] = {}

    def column(self, name: str) -> Array:
        """Return a column in the order of the runs."""
        if name not in self._columns:
            read = self._queue_offsets if name == "queue_offsets" else self._read
            self._columns[name] = read(name)
        return self._columns[name]

    def _read(self, name: str) -> Array:
        return read_rows(self._blocks, name, self._runs)

    def _queue_offsets(self, name: str) -> Array:
        """Return the records' queue offsets; reads them only where the runs do not show them."""
        counts = self._runs["count"]
        stops = np.cumsum(counts)
        offsets = np.repeat(self._runs["first_queue_offset"] - (stops - counts), counts)
        offsets += np.arange(len(offsets))
        unordered = self._runs["orderly"] == 0
        if unordered.any():
            offsets[np.repeat(unordered, counts)] = read_rows(self._blocks, name, self._runs[unordered])
        return offsets


class QueueUnits:
    """Some units of one queue, in log order, of ``runs``, ``(n,)`` of ``PLACED_RUN``."""

    def __init__(self, runs: Rows, reading: _Reading, start: int) -> None:
        self.runs = runs
        self._reading = reading
        self._place = slice(start, start + int(runs["count"].sum()))

    def __len__(self) -> int:
        return self._place.stop - self._place.start

    def column(self, name: str) -> Array:
        """Return a column of a block, ``(len(self),)``; ``queue_offsets`` of any queue."""
        return self._reading.column(name)[self._place]


def units_of(plan: QueuePlan, blocks: Sequence[Block]) -> QueueUnits:
    """Return all units of a queue."""
    runs = plan.runs()
    return QueueUnits(runs, _Reading(blocks, runs), 0)


def by_queue(
    plans: Sequence[QueuePlan], blocks: Sequence[Block]
) -> Iterator[tuple[QueuePlan, Iterator[QueueUnits]]]:
    """Yield queues, each with its units in pieces; what is not taken of one is not read."""
    group: list[QueuePlan] = []
    units, most = 0, max(_GROUP_UNITS, len(blocks) * _LEAST_READ_UNITS)
    for plan in sorted(plans, key=PLACE):
        is_long = plan.units >= plan.run_count * _LONG_RUN_UNITS or plan.units > most
        if is_long or units + plan.units > most:
            yield from _together(group, blocks)
            group, units = [], 0
        if is_long:
            yield plan, _pieces(plan.runs(), blocks)
        else:
            group.append(plan)
            units += plan.units
    yield from _together(group, blocks)


def _together(
    plans: Sequence[QueuePlan], blocks: Sequence[Block]
) -> Iterator[tuple[QueuePlan, Iterator[QueueUnits]]]:
    if not plans:
        return
    parts = [plan.runs() for plan in plans]
    reading = _Reading(blocks, np.concatenate(parts))
    start = 0
    for plan, runs in zip(plans, parts, strict=True):
        yield plan, iter([QueueUnits(runs, reading, start)])
        start += plan.units


def _pieces(runs: Rows, blocks: Sequence[Block]) -> Iterator[QueueUnits]:
    """Yield the units of runs in pieces of bounded size; long runs are cut, short ones put together."""
    if runs["count"].sum() <= _PIECE_UNITS:
        yield QueueUnits(runs, _Reading(blocks, runs), 0)
        return
    parts = -(-runs["count"] // _PIECE_UNITS)
    cut = np.repeat(runs, parts)
    done = (np.arange(len(cut)) - np.repeat(np.cumsum(parts) - parts, parts)) * _PIECE_UNITS
    cut["count"] = np.minimum(cut["count"] - done, _PIECE_UNITS)
    cut["first_row"] += done
    cut["first_queue_offset"] += done
    numbers = np.cumsum(cut["count"]) // _PIECE_UNITS
    for piece in np.split(cut, np.flatnonzero(np.diff(numbers)) + 1):
        yield QueueUnits(piece, _Reading(blocks, piece), 0)


def read_rows(blocks: Sequence[Block], column: str, runs: Rows) -> Array:
    """Return rows of a column in the order of runs; those that lie side by side are read in one piece.

    Args:
        blocks: where they lie.
        column: its name.
        runs: ``(n,)`` of ``PLACED_RUN``.
    """
    if (runs["block"][1:] > runs["block"][:-1]).all():  # those of one queue lie far apart
        values, start = np.empty(int(runs["count"].sum()), dtype_of(column)), 0
        for number, first, count in runs[["block", "first_row", "count"]].tolist():
            blocks[number].rows(column, first, count).read_into(values[start : start + count])
            start += count
        return values
    order = np.lexsort((runs["first_row"], runs["block"]))
    block, first, count = runs["block"][order], runs["first_row"][order], runs["count"][order]
    stops = np.cumsum(count)
    rows = np.empty(int(count.sum()), dtype_of(column))
    is_new = np.ones(len(runs), np.bool_)
    is_new[1:] = (block[1:] != block[:-1]) | (first[1:] != first[:-1] + count[:-1])
    pieces = np.flatnonzero(is_new)
    starts = (stops - count)[pieces]
    for number, row, start, stop in zip(
        block[pieces].tolist(),
        first[pieces].tolist(),
        starts.tolist(),
        np.append(starts[1:], len(rows)).tolist(),
        strict=True,
    ):
        blocks[number].rows(column, row, stop - start).read_into(rows[start:stop])
    if (order[1:] > order[:-1]).all():
        return rows
    places = np.empty_like(stops)
    places[order] = stops - count
    return _turned(rows, places, runs["count"])


def _turned(rows: Array, places: Int64s, counts: Int64s) -> Array:
    """Return rows run by run, where runs begin at ``places``."""
    stops = np.cumsum(counts)
    taken = np.repeat(places - (stops - counts), counts) + np.arange(len(rows))
    # numpy takes rows without fields five times faster.
    turned: Array = rows.view(f"V{rows.itemsize}").take(taken).view(rows.dtype)
    return turned


class RawUnits(NamedTuple):
    """Units as records require them, ``(n,)`` each.

    ``queue_offsets`` of a batch are those of its first message; ``messages`` are more than one in a batch
    queue.
    """

    physical_offsets: Int64s
    sizes: Int64s
    queue_offsets: Int64s
    tags_codes: Int64s
    messages: Int64s


@dataclass(frozen=True)
class KeptUnits:
    """The units of one queue, those that the append rule keeps and those that it skips.

    Attributes:
        first_number: of the first unit that is kept, pre-blank ones not counted.
        physical_offsets: ``(n,)`` of the units that are kept.
        queue_offsets: ``(n,)``, what their records carry; the first of a batch.
        tags_codes: ``(n,)`` of the records.
        messages: ``(n,)``: more than one in a batch queue.
        left_out: ``(m,)``, physical offsets of the units that are skipped.
    """

    first_number: int
    physical_offsets: Int64s
    queue_offsets: Int64s
    tags_codes: Int64s
    messages: Int64s
    left_out: Int64s

    def __len__(self) -> int:
        return len(self.physical_offsets)


def left_out_units(
    plans: Sequence[QueuePlan], blocks: Sequence[Block], file_size: int
) -> dict[tuple[str, int], int]:
    """Return how many units the append rule skips, by topic and queue id."""
    left_out = {}
    doubtful = [plan for plan in plans if plan.batch or not plan.joined]
    for plan, pieces in by_queue(doubtful, blocks):
        columns = zip(*(_raw_units(plan, piece) for piece in pieces), strict=True)
        rows = RawUnits(*map(np.concatenate, columns))
        if count := len(_kept(plan, rows, file_size).left_out):
            left_out[plan.topic, plan.queue_id] = count
    return left_out


def no_units() -> KeptUnits:
    """Return no units, as of a queue that the log knows nothing about."""
    none = np.empty(0, np.int64)
    return KeptUnits(0, none, none, none, none, none)


def kept_units(plan: QueuePlan, blocks: Sequence[Block], file_size: int) -> KeptUnits:
    """Return all units of a queue."""
    return _kept(plan, _raw_units(plan, units_of(plan, blocks)), file_size)


def _kept(plan: QueuePlan, rows: RawUnits, file_size: int) -> KeptUnits:
    keep, first_number = _appended(plan, rows.physical_offsets, rows.sizes, rows.queue_offsets, file_size)
    return KeptUnits(
        first_number,
        rows.physical_offsets[keep],
        rows.queue_offsets[keep],
        rows.tags_codes[keep],
        rows.messages[keep],
        rows.physical_offsets[~keep],
    )


def _appended(
    plan: QueuePlan, physical_offsets: Int64s, sizes: Int64s, queue_offsets: Int64s, file_size: int
) -> tuple[Bools, int]:
    """Return which units are kept, and the number of the first: the rules that write the queue."""
    if plan.batch:
        return appended_batches(physical_offsets, -1)[0], 0
    state, keep = new_state(), np.zeros(len(queue_offsets), np.bool_)
    append_units(queue_offsets, physical_offsets, sizes, file_size, state, keep)
    return keep, int(state[QueueState.FIRST_START] + state[QueueState.PREBLANK]) // UNIT_SIZE


def _raw_units(plan: QueuePlan, piece: QueueUnits) -> RawUnits:
    units = piece.column("units")
    messages: Int64s = np.ones(len(piece), np.int64)
    if plan.batch:
        messages = piece.column("batch_sizes").astype(np.int64)
    physical_offsets, sizes, tags_codes = (
        units[name].astype(np.int64) for name in ("physicalOffset", "size", "tagsCode")
    )
    return RawUnits(physical_offsets, sizes, piece.column("queue_offsets"), tags_codes, messages)
