"""Append rules of consume queues and index files, and units of a split grouped by queue."""

from __future__ import annotations

from enum import IntEnum
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from rmqtool.formats.consumequeue import UNIT, UNIT_SIZE
from rmqtool.formats.fields import offsets
from rmqtool.javacompat import PROP_CRC_SIZE
from rmqtool.kernels.bytes import as_int
from rmqtool.kernels.checks import record_crcs
from rmqtool.kernels.checksums import masked_crc32
from rmqtool.kernels.jit import empty, entry, inlined, kernel
from rmqtool.kernels.rows import ENTRY_ROW, UNIT_ROW, MessageBatch, no_messages

if TYPE_CHECKING:
    from rmqtool.arrays import Bools, Buffer, Int32s, Int64s, Rows


class QueueState(IntEnum):
    """Places in the array that carries a queue's state from run to run; all in bytes of the queue."""

    STARTED = 0
    FIRST_START = 1  # start of the first file
    CURRENT = 2  # end of what is written
    STOP = 3  # stop of the last file
    PREBLANK = 4  # bytes of pre-blank units
    MAX_PHYSICAL_OFFSET = 5  # end of the last record put, in the log
    ABSURD = 6  # units whose queue offset has no byte address


MAX_QUEUE_OFFSET = ((1 << 63) - 1) // UNIT_SIZE - (1 << 31)
"""Above it, with some room for a queue, the byte address overflows."""


def new_state() -> Int64s:
    """Return the state of a queue without files."""
    state = np.zeros(len(QueueState), np.int64)
    state[QueueState.MAX_PHYSICAL_OFFSET] = -1
    return state


@kernel
def _create_file(expected: int, file_size: int, state: Int64s) -> None:
    """Create the file that a unit needs, and pre-blank units as long as nothing else is in the first file.

    It happens before the unit is examined: one that is skipped has created its file, too.
    """
    beyond = expected % file_size
    if beyond and expected < 0:
        beyond -= file_size  # Java's remainder has the dividend's sign
    if not state[QueueState.STARTED]:
        state[QueueState.STARTED] = 1
        state[QueueState.FIRST_START] = state[QueueState.CURRENT] = expected - beyond
        state[QueueState.STOP] = state[QueueState.FIRST_START] + file_size
    elif state[QueueState.CURRENT] == state[QueueState.STOP]:
        state[QueueState.STOP] += file_size
    if state[QueueState.CURRENT] == state[QueueState.FIRST_START] and beyond > 0:
        state[QueueState.PREBLANK] = -(-beyond // UNIT_SIZE) * UNIT_SIZE
        state[QueueState.CURRENT] += state[QueueState.PREBLANK]


@entry(lambda: (*empty(np.int64, np.int64, np.int64), UNIT_SIZE, new_state(), *empty(np.bool_)))
@kernel
def append_units(
    queue_offsets: Int64s,
    physical_offsets: Int64s,
    sizes: Int64s,
    file_size: int,
    state: Int64s,
    keep: Bools,
) -> int:
    """Decide which units of a run are appended.

    Args:
        queue_offsets: ``(n,)`` in units, in log order.
        physical_offsets: ``(n,)``.
        sizes: ``(n,)`` in bytes.
        file_size: ``mappedFileSizeConsumeQueue``.
        state: of the queue, see ``QueueState``; carried on.
        keep: ``(n,)``, set true where the unit is appended.

    Returns:
        Number of units that are.
    """
    kept = 0
    for i in range(len(queue_offsets)):
        keep[i] = False
        # Unsigned, for Java's longs wrap around: LLVM assumes that signed numbers never do.
        end = as_int(np.uint64(physical_offsets[i]) + np.uint64(sizes[i]))
        if end <= state[QueueState.MAX_PHYSICAL_OFFSET]:
            continue
        queue_offset = queue_offsets[i]
        if queue_offset < 0 or queue_offset > MAX_QUEUE_OFFSET:
            state[QueueState.ABSURD] += 1
        expected = as_int(np.uint64(queue_offset) * np.uint64(UNIT_SIZE))
        _create_file(expected, file_size, state)
        if queue_offset != 0 and expected < state[QueueState.CURRENT]:
            continue
        state[QueueState.MAX_PHYSICAL_OFFSET] = end
        state[QueueState.CURRENT] += UNIT_SIZE
        keep[i] = True
        kept += 1
    return kept


def appended_batches(physical_offsets: Int64s, last_offset: int) -> tuple[Bools, int]:
    """Decide which units of a batch queue are appended: those whose records lie after that of the one before.

    Java: ``BatchConsumeQueue#putBatchMessagePositionInfo`` (5.3.3).

    Args:
        physical_offsets: ``(n,)``, in log order.
        last_offset: the highest one before them, -1 at the queue's start.

    Returns:
        ``(n,)``, true where the unit is appended, and the highest offset by now.
    """
    highest = np.maximum.accumulate(np.concatenate([[last_offset], physical_offsets]))
    return physical_offsets > highest[:-1], int(highest[-1])


class HeaderState(IntEnum):
    """Places in the array that carries an index file's header, in the order of the file's fields."""

    BEGIN_TIMESTAMP = 0
    END_TIMESTAMP = 1
    BEGIN_PHY_OFFSET = 2
    END_PHY_OFFSET = 3
    HASH_SLOT_COUNT = 4
    INDEX_COUNT = 5


_SECOND_MS = 1000
_INT_MAX = 0x7FFFFFFF


def new_header(previous_end_phy_offset: int = 0, previous_end_timestamp_ms: int = 0) -> Int64s:
    """Return the header of a file that was just created, after a full one or as the first (zeros)."""
    header = np.zeros(len(HeaderState), np.int64)
    header[HeaderState.INDEX_COUNT] = 1
    if previous_end_phy_offset > 0:
        header[[HeaderState.BEGIN_PHY_OFFSET, HeaderState.END_PHY_OFFSET]] = previous_end_phy_offset
    if previous_end_timestamp_ms > 0:
        header[[HeaderState.BEGIN_TIMESTAMP, HeaderState.END_TIMESTAMP]] = previous_end_timestamp_ms
    return header


@entry(lambda: (*empty(ENTRY_ROW), np.zeros(1, np.int32), new_header(), *empty(np.int32, np.int32)))
@kernel
def put_keys(entries: Rows, slots: Int32s, header: Int64s, time_diffs: Int32s, previous: Int32s) -> None:
    """Put entries one after the other.

    The first put measures its time difference against the begin time that the header was created with (the
    end of the file before), and only then replaces it by its own.

    Args:
        entries: ``(n,)`` of ``ENTRY_ROW``; they must fit into the file.
        slots: ``(maxHashSlotNum,)``, newest item of each chain; updated.
        header: see ``HeaderState``; updated.
        time_diffs: ``(n,)``, receives the items' time differences in s.
        previous: ``(n,)``, receives the number of the chain's next older item.
    """
    for i in range(len(entries)):
        entry = entries[i]
        slot = entry.key_hash % len(slots)
        store_timestamp_ms = entry.store_timestamp_ms
        older = slots[slot]
        difference = 0
        if header[HeaderState.BEGIN_TIMESTAMP] > 0:
            # Unsigned, for Java's longs wrap around: LLVM assumes that signed numbers never do.
            difference_ms = as_int(
                np.uint64(store_timestamp_ms) - np.uint64(header[HeaderState.BEGIN_TIMESTAMP])
            )
            difference = min(max(difference_ms // _SECOND_MS, 0), _INT_MAX)
        time_diffs[i] = difference
        previous[i] = older
        item = header[HeaderState.INDEX_COUNT]
        slots[slot] = item
        if item <= 1:
            header[HeaderState.BEGIN_PHY_OFFSET] = entry.physical_offset
            header[HeaderState.BEGIN_TIMESTAMP] = store_timestamp_ms
        if older == 0:
            header[HeaderState.HASH_SLOT_COUNT] += 1
        header[HeaderState.INDEX_COUNT] = item + 1
        header[HeaderState.END_PHY_OFFSET] = entry.physical_offset
        header[HeaderState.END_TIMESTAMP] = store_timestamp_ms


_PROPERTY_END = 0x02


@entry(lambda: (no_messages(),), rare=True)
@kernel
def first_bad_crc(batch: MessageBatch) -> int:
    """Return the first row whose body's checksum is not BODYCRC, the number of rows if there is none."""
    buffer, rows = batch.buffer, batch.rows
    for number in range(len(rows)):
        row = rows[number]
        if row.body_length > 0:
            if masked_crc32(buffer, row.body_start, row.body_start + row.body_length) != row.body_crc:
                return number
    return len(rows)


@entry(lambda: (no_messages(),), rare=True)
@kernel
def first_bad_property(batch: MessageBatch) -> int:
    """Return the first row without a ``__CRC32#`` that holds, the number of rows if there is none."""
    buffer, rows = batch.buffer, batch.rows
    for number in range(len(rows)):
        row = rows[number]
        start = row.topic_stop + 2
        name = start + row.properties_length - PROP_CRC_SIZE
        stored, crc = record_crcs(buffer, row.log_offset - batch.base, row)
        # 5.3.4 and later leave out the separator before it in batches: it is a part of another property then.
        if stored < 0 or crc != stored or (name > start and buffer[name - 1] != _PROPERTY_END):
            return number
    return len(rows)


RUN_ROW = np.dtype(
    [
        ("first_row", np.int64),  # among the block's units, which are sorted by queue
        ("count", np.int64),
        ("first_queue_offset", np.int64),
        ("last_queue_offset", np.int64),
        ("first_end", np.int64),
        ("last_end", np.int64),
        ("queue", np.int32),  # place in the order of queues
        ("orderly", np.int32),
    ],
    align=True,
)


def order_by_queue(units: Rows, queues: Int64s) -> tuple[Int64s, Int64s]:
    """Sort rows by queue, those of a queue in log order.

    Args:
        units: ``(n,)`` of ``UNIT_ROW``.
        queues: ``(q,)``, the queue numbers in the order that is wanted; those of all rows.

    Returns:
        The rows' numbers in order, ``(n,)``, and the place in it of each queue's first row, ``(q + 1,)``.
    """
    highest = int(queues.max(initial=-1)) + 1
    starts = np.zeros(len(queues) + 1, np.int64)
    np.cumsum(np.bincount(units["queue"], minlength=highest)[queues], out=starts[1:])
    cursor = np.zeros(highest, np.int64)
    cursor[queues] = starts[:-1]
    order = np.empty(len(units), np.int64)
    _scatter(units, cursor, order)
    return order, starts


@entry(lambda: empty(UNIT_ROW, np.int64, np.int64))
@kernel
def _scatter(units: Rows, cursor: Int64s, order: Int64s) -> None:
    for i in range(len(units)):
        queue = units[i].queue
        order[cursor[queue]] = i
        cursor[queue] += 1


_PLACE_AT, _SIZE_AT, _TAGS_AT = map(np.uint64, offsets(UNIT).values())


@inlined
def _put_big(out: Buffer, at: np.uint64, value: int, size_bytes: int) -> None:
    for byte in range(size_bytes):
        out[at + np.uint64(byte)] = np.uint8(np.uint64(value) >> np.uint64(8 * (size_bytes - 1 - byte)))


@entry(lambda: empty(UNIT_ROW, np.int64, np.uint8))
@kernel
def pack_units(units: Rows, order: Int64s, packed: Buffer) -> None:
    """Write units, ``(n,)`` of ``UNIT_ROW``, in order as those of a consume queue, ``(n * UNIT_SIZE,)``."""
    for i in range(len(order)):
        unit, at = units[order[i]], np.uint64(i * UNIT_SIZE)
        _put_big(packed, at + _PLACE_AT, unit.physical_offset, 8)
        _put_big(packed, at + _SIZE_AT, unit.size, 4)
        _put_big(packed, at + _TAGS_AT, unit.tags_code, 8)


@entry(lambda: empty(UNIT_ROW, np.int64, np.int64, RUN_ROW))
@kernel
def measure_runs(units: Rows, order: Int64s, starts: Int64s, runs: Rows) -> int:
    """Describe the run of every queue that has units; return how many have.

    Args:
        units: ``(n,)`` of ``UNIT_ROW``.
        order: ``(n,)``, from ``order_by_queue``.
        starts: ``(queues + 1,)``, likewise.
        runs: filled, of ``RUN_ROW``.
    """
    count = 0
    for queue in range(len(starts) - 1):
        first, stop = starts[queue], starts[queue + 1]
        if first == stop:
            continue
        unit = units[order[first]]
        end = unit.physical_offset + unit.size
        run = runs[count]
        run.queue, run.first_row, run.count = queue, first, stop - first
        run.first_queue_offset, run.first_end = unit.queue_offset, end
        orderly = unit.queue_offset >= 0 and end > -1
        queue_offset = unit.queue_offset
        for i in range(first + 1, stop):
            unit = units[order[i]]
            next_end = unit.physical_offset + unit.size
            if unit.queue_offset != queue_offset + 1 or next_end <= end:
                orderly = False
            queue_offset, end = unit.queue_offset, next_end
        run.last_queue_offset, run.last_end = queue_offset, end
        run.orderly = orderly and queue_offset <= MAX_QUEUE_OFFSET
        count += 1
    return count


class QueueShape(NamedTuple):
    """Shape of all runs of one queue.

    Attributes:
        units: how many they have.
        first_queue_offset: of the first unit.
        last_queue_offset: of the last unit.
        last_end: end of the last record in the log.
        in_order: queue offsets go up by one.
        joined: record ends ascend, too: every unit is appended right after the one before.
    """

    units: int
    first_queue_offset: int
    last_queue_offset: int
    last_end: int
    in_order: bool
    joined: bool


def shapes_of(runs: Rows, firsts: Int64s) -> list[QueueShape]:
    """Say what queues look like whose runs are known.

    Args:
        runs: ``(n,)`` with the fields of ``RUN_ROW``, by queue, those of a queue in log order.
        firsts: ``(q,)``, each queue's first run, ascending.
    """
    lasts = np.append(firsts[1:], len(runs)) - 1
    follows = np.ones(len(runs), np.bool_)
    follows[1:] = runs["first_queue_offset"][1:] == runs["last_queue_offset"][:-1] + 1
    follows[firsts] = True
    follows &= runs["orderly"] != 0
    ascends = np.ones(len(runs), np.bool_)
    ascends[1:] = runs["first_end"][1:] > runs["last_end"][:-1]
    ascends[firsts] = True
    columns = (
        np.add.reduceat(runs["count"], firsts),
        runs["first_queue_offset"][firsts],
        runs["last_queue_offset"][lasts],
        runs["last_end"][lasts],
        np.logical_and.reduceat(follows, firsts),
        np.logical_and.reduceat(follows & ascends, firsts),
    )
    return [QueueShape(*row) for row in zip(*(column.tolist() for column in columns), strict=True)]
