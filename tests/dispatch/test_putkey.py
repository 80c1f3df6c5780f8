"""The items of an index file against ``IndexFile#putKey``."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from rmqtool.kernels.rows import ENTRY_ROW
from rmqtool.kernels.units import HeaderState, new_header, put_keys
from tests.broker_model.index import IndexFile
from tests.strategies import examples

_LONGEST = (1 << 63) - 1
times = st.one_of(
    st.integers(1_650_000_000_000, 1_650_000_100_000),
    st.sampled_from([0, -1, 1, 999, 1000, _LONGEST, -_LONGEST - 1, 1_650_000_000_000 + (1 << 41) * 1000]),
)
entries = st.lists(
    st.tuples(st.one_of(st.integers(0, 20), st.integers(0, 0x7FFFFFFF)), st.integers(0, 1 << 40), times),
    min_size=1,
    max_size=30,
)


@examples(300)
@given(entries, st.integers(1, 11), st.tuples(st.integers(-5, 1 << 40), times), st.integers(1, 30))
def test_items_slots_and_header_are_the_brokers(
    puts: list[tuple[int, int, int]], slot_count: int, previous: tuple[int, int], chunk: int
) -> None:
    """Chains, time differences that are negative, huge or wrap, and the header that the file before left."""
    before = IndexFile(slot_count, 1, None, 0)
    before.end_phy, before.end_timestamp = previous
    model = IndexFile(slot_count, 1000, before, 0)
    for put in puts:
        model.put_key(*put)
    slots, header = np.zeros(slot_count, np.int32), new_header(*previous)
    items: list[tuple[int, int, int, int]] = []
    for start in range(0, len(puts), chunk):
        rows = np.zeros(len(puts[start : start + chunk]), ENTRY_ROW)
        for row, (key_hash, physical_offset, time) in zip(rows, puts[start : start + chunk], strict=True):
            row["key_hash"], row["physical_offset"], row["store_timestamp_ms"] = (
                key_hash,
                physical_offset,
                time,
            )
        time_diffs, older = np.empty(len(rows), np.int32), np.empty(len(rows), np.int32)
        put_keys(rows, slots, header, time_diffs, older)
        columns = (
            rows["key_hash"].tolist(),
            rows["physical_offset"].tolist(),
            time_diffs.tolist(),
            older.tolist(),
        )
        items += zip(*columns, strict=True)
    assert items == model.items
    assert slots.tolist() == model.slots
    assert {field: int(header[field]) for field in HeaderState} == {
        HeaderState.BEGIN_TIMESTAMP: model.begin_timestamp,
        HeaderState.END_TIMESTAMP: model.end_timestamp,
        HeaderState.BEGIN_PHY_OFFSET: model.begin_phy,
        HeaderState.END_PHY_OFFSET: model.end_phy,
        HeaderState.HASH_SLOT_COUNT: model.hash_slot_count,
        HeaderState.INDEX_COUNT: model.index_count,
    }
