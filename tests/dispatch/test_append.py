"""The append rule against ``ConsumeQueue#putMessagePositionInfo``, and the short way for orderly queues."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from rmqtool.kernels.units import RUN_ROW, QueueState, append_units, new_state, shapes_of
from tests.broker_model.queues import ConsumeQueue, java_long
from tests.strategies import examples

FILE_SIZES = [20, 40, 60, 200]
_LONGEST = (1 << 63) - 1
offsets = st.one_of(
    st.integers(0, 12),
    st.sampled_from([0, -1, -3, -_LONGEST - 1, _LONGEST, _LONGEST // 20, _LONGEST // 20 + 1, 1 << 40]),
)
steps = st.one_of(st.just(10), st.integers(-40, 40))


@st.composite
def puts(draw: st.DrawFn) -> list[tuple[int, int, int]]:
    """Give queue offset, physical offset and size of messages: mostly one after the other."""
    rows = []
    physical_offset, queue_offset = draw(st.integers(0, 50)), draw(offsets)
    for _ in range(draw(st.integers(1, 25))):
        size = draw(st.integers(1, 30))
        rows.append((queue_offset, physical_offset, size))
        physical_offset += size if draw(st.integers(0, 3)) else draw(steps)
        queue_offset = min(queue_offset + 1, _LONGEST) if draw(st.integers(0, 3)) else draw(offsets)
    return rows


def model_of(rows: list[tuple[int, int, int]], file_size: int) -> ConsumeQueue:
    queue = ConsumeQueue(file_size, None)
    for queue_offset, physical_offset, size in rows:
        queue.put(physical_offset, size, 0, queue_offset)
    return queue


def appended(
    rows: list[tuple[int, int, int]], file_size: int, chunk: int
) -> tuple[list[tuple[int, int]], dict[QueueState, int]]:
    """Append in chunks; return physical offset and size of what is kept, and the state."""
    state = new_state()
    kept = []
    for start in range(0, len(rows), chunk):
        piece = rows[start : start + chunk]
        columns = [np.array(column, np.int64) for column in zip(*piece, strict=True)]
        keep = np.ones(len(piece), np.bool_)
        count = append_units(columns[0], columns[1], columns[2], file_size, state, keep)
        assert count == keep.sum()
        kept += [row[1:] for row, kept_it in zip(piece, keep.tolist(), strict=True) if kept_it]
    return kept, {place: int(state[place]) for place in QueueState}


@examples(200)
@given(puts(), st.sampled_from(FILE_SIZES), st.integers(1, 25))
def test_appending_is_the_brokers(rows: list[tuple[int, int, int]], file_size: int, chunk: int) -> None:
    """Gaps, repeats, resets to 0, negative and absurd offsets, log offsets that go back; in any chunks."""
    queue = model_of(rows, file_size)
    kept, state = appended(rows, file_size, chunk)
    written = b"".join(queue.files.files.values())
    units = [written[at : at + 20] for at in range(0, len(written), 20)]
    expected = [
        (int.from_bytes(unit[:8], "big", signed=True), int.from_bytes(unit[8:12], "big")) for unit in units
    ]
    pre_blank = state[QueueState.PREBLANK] // 20
    assert expected[:pre_blank] == [(0, 0x7FFFFFFF)] * pre_blank
    assert expected[pre_blank : pre_blank + len(kept)] == kept
    assert all(unit == bytes(20) for unit in units[pre_blank + len(kept) :])
    assert state[QueueState.FIRST_START] == next(iter(queue.files.files))
    assert state[QueueState.STOP] == java_long(next(reversed(queue.files.files)) + file_size)
    assert state[QueueState.MAX_PHYSICAL_OFFSET] == queue.max_physical_offset


def test_a_queue_without_messages_that_count_has_no_files() -> None:
    state = new_state()
    keep = np.ones(1, np.bool_)
    ends_at_minus_one = np.array([-11], np.int64), np.array([10], np.int64)
    assert append_units(np.array([3]), *ends_at_minus_one, 60, state, keep) == 0
    assert not state[QueueState.STARTED]
    assert not keep[0]


@examples(200)
@given(puts(), st.integers(0, 25), st.sampled_from(FILE_SIZES))
def test_runs_that_continue_each_other_are_appended_whole(
    rows: list[tuple[int, int, int]], cut: int, file_size: int
) -> None:
    """Where two runs are said to join, the rule keeps every unit of both; so it need not be asked."""
    runs = np.array([describe(part) for part in (rows[:cut], rows[cut:]) if part], RUN_ROW)
    (shape,) = shapes_of(runs, np.zeros(1, np.int64))
    assert shape.units == len(rows)
    if shape.joined:
        assert shape.in_order
        kept, state = appended(rows, file_size, len(rows))
        assert len(kept) == len(rows)
        assert state[QueueState.CURRENT] == (rows[0][0] + len(rows)) * 20


def describe(rows: list[tuple[int, int, int]], first_row: int = 0, queue: int = 0) -> tuple[int, ...]:
    """Describe a run in plain words: what ``measure_runs`` must say of it, field by field."""
    queue_offsets = [row[0] for row in rows]
    ends = [row[1] + row[2] for row in rows]
    orderly = (
        queue_offsets == list(range(queue_offsets[0], queue_offsets[0] + len(rows)))
        and ends == sorted(set(ends))
        and min(queue_offsets) >= 0
        and max(queue_offsets) < _LONGEST // 20 - (1 << 31)
        and ends[0] >= 0
    )
    return first_row, len(rows), queue_offsets[0], queue_offsets[-1], ends[0], ends[-1], queue, int(orderly)
