"""Walk that continues after damage inside the window: a torn log has damage at every other record."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from rmqtool.formats import message
from rmqtool.jit import entry, kernel
from rmqtool.releases import LENIENT
from rmqtool.scan.gaps import Outcome
from rmqtool.scan.kernels import find_record, read_i32, read_i64, walk_records
from rmqtool.scan.rows import (
    GAP_ROW,
    MAGIC_AT,
    MESSAGE_ROW,
    MISMATCH_ROW,
    PHYSICAL_OFFSET_AT,
    Property,
    rules_of,
)

if TYPE_CHECKING:
    from rmqtool.arrays import Buffer, Int64s, Rows


_LARGEST_HEAD = max(message.HEAD_SIZES)
_RECORD, _BLANK, _MISMATCH = Outcome.RECORD.value, Outcome.BLANK.value, Outcome.MISMATCH.value
_NO_DAMAGE = (Outcome.NEED.value, Outcome.STOP.value, Outcome.FULL.value)


def _example_of_walk_over_damage() -> tuple[object, ...]:
    rows, values = np.empty(0, MESSAGE_ROW), np.empty((0, len(Property), 2), np.int64)
    none_passed, gaps = np.empty(0, MISMATCH_ROW), np.empty(0, GAP_ROW)
    return np.empty(1, np.uint8), 0, 0, 0, 0, 0, 0, rules_of(LENIENT), rows, values, none_passed, gaps


@entry(_example_of_walk_over_damage)
@kernel
def walk_over_damage(
    buffer: Buffer,
    at: int,
    stop: int,
    window_stop: int,
    segment_stop: int,
    base: int,
    cut: int,
    rules: Int64s,
    rows: Rows,
    values: Int64s,
    none_passed: Rows,
    gaps: Rows,
) -> tuple[int, int, int, int]:
    """Walk as ``walk_records``; after damage continue at the next intact record if the window has all of it.

    ``gaps``, of ``GAP_ROW``, is filled; ``none_passed`` is ``(0,)``. With ``cut``, damage ends the walk.

    Returns:
        Outcome, index and number of rows as ``walk_records``, and the number of gaps.
    """
    count = found = 0
    while True:
        outcome, at, walked, _, _ = walk_records(
            buffer,
            at,
            stop,
            window_stop,
            segment_stop,
            base,
            cut,
            rules,
            0,
            rows[count:],
            values[count:],
            none_passed,
        )
        count += walked
        if outcome in _NO_DAMAGE or cut or found == len(gaps) or window_stop - at < _LARGEST_HEAD:
            return outcome, at, count, found
        if outcome == _BLANK and read_i32(buffer, at) == segment_stop - at:
            return outcome, at, count, found
        met, after = find_record(
            buffer, at + 1, stop, window_stop, segment_stop, base, rules, rows[count:], values[count:]
        )
        if met not in (_RECORD, _BLANK):
            return outcome, at, count, found
        gap = gaps[found]
        gap.row, gap.start, gap.stop = count, base + at, base + after
        gap.reason = _MISMATCH if outcome == _BLANK else outcome
        gap.total_size, gap.magic = read_i32(buffer, at), read_i32(buffer, at + MAGIC_AT)
        gap.own = read_i64(buffer, at + PHYSICAL_OFFSET_AT) == base + at
        gap.data_start = min(base + _first_nonzero(buffer, at, after), base + stop)
        found += 1
        at = after


@kernel
def _first_nonzero(buffer: Buffer, at: int, stop: int) -> int:
    while at < stop and buffer[at] == 0:
        at += 1
    return at
