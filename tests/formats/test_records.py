"""Units, index files and checkpoint: schemas, dtypes and golden bytes agree."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rmqtool.formats import checkpoint, consumequeue, index, layout, record_dtype, struct_of

FIXED = {
    "unit": (consumequeue.UNIT, 20),
    "batch unit": (consumequeue.BATCH_UNIT, 46),
    "ext head": (consumequeue.EXT_HEAD, 20),
    "index header": (index.HEADER, 40),
    "index slot": (index.SLOT, 4),
    "index item": (index.ITEM, 20),
    "checkpoint": (checkpoint.CHECKPOINT, 48),
}


@pytest.mark.parametrize("name", FIXED)
@given(st.data())
def test_three_readers_agree(name: str, data: st.DataObject) -> None:
    """construct, numpy and struct read the same values out of the same bytes, and write them back."""
    schema, size = FIXED[name]
    raw = data.draw(st.binary(min_size=size, max_size=size))
    parsed: Any = schema.parse(raw)
    values = tuple(parsed[field.name] for field in layout(schema))
    assert struct_of(schema).unpack(raw) == values
    row = np.frombuffer(raw, record_dtype(schema))[0]
    assert tuple(int(row[field.name]) for field in layout(schema)) == values
    assert schema.build(parsed) == raw


def test_golden_unit() -> None:
    raw = bytes.fromhex("0000000000000000000000ac000000000027a807")
    unit = consumequeue.UNIT.parse(raw)
    assert (unit.physicalOffset, unit.size, unit.tagsCode) == (0, 172, 2598919)


def test_golden_batch_unit() -> None:
    raw = bytes.fromhex(
        "00000000000000750000007500000000" + "0027a81e000001a1fb6bf55800000000000000010001ffffffff00000000"
    )
    unit = consumequeue.BATCH_UNIT.parse(raw)
    assert (unit.physicalOffset, unit.size, unit.msgBaseOffset, unit.batchSize) == (117, 117, 1, 1)
    assert (unit.compactedOffset, unit.reserved) == (consumequeue.BATCH_COMPACTED_OFFSET, 0)


@given(st.binary(max_size=40), st.integers(-(2**63), 2**63 - 1), st.integers(-(2**63), 2**63 - 1))
def test_ext_unit_holds_its_own_sizes(bit_map: bytes, tags_code: int, store_timestamp_ms: int) -> None:
    fields = {"tagsCode": tags_code, "storeTimestamp": store_timestamp_ms, "bitMap": bit_map}
    raw = consumequeue.EXT_UNIT.build(fields)
    unit = consumequeue.EXT_UNIT.parse(raw)
    assert unit.size == len(raw) == consumequeue.EXT_HEAD_SIZE + len(bit_map)
    assert (unit.tagsCode, unit.storeTimestamp, unit.bitMap) == (tags_code, store_timestamp_ms, bit_map)


def test_default_index_geometry() -> None:
    """The size of a default index file, and the slot of a known key (``TopicTest#OrderID188``)."""
    assert index.file_size(5_000_000, 20_000_000) == 420_000_040
    assert index.slot_position(1231271670 % 5_000_000) == 5_086_720


def test_a_schema_with_bytes_has_no_dtype() -> None:
    with pytest.raises(TypeError, match="bitMap"):
        record_dtype(consumequeue.EXT_UNIT)
