"""Readers of derived files: rows and columns of one file say the same, whatever its bytes are."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rmqtool.derived.ext_files import ExtFile, ExtReader
from rmqtool.derived.index_files import IndexFile
from rmqtool.derived.positions import loaded_checkpoint, read_checkpoint
from rmqtool.derived.queue_files import CutUnit, PlacedUnit, QueueFile, QueueReader, ZeroUnits
from rmqtool.formats.checkpoint import CHECKPOINTS, CheckpointFields
from rmqtool.formats.consumequeue import (
    BATCH_UNITS,
    EXT_ADDRESS_BASE,
    EXT_END,
    EXT_HEAD_SIZE,
    EXT_UNIT,
    UNIT_SIZE,
    UNITS,
)
from rmqtool.formats.index import HEADERS, ITEM_SIZE, ITEMS, SLOTS
from rmqtool.io import location_of
from rmqtool.store.geometry import Geometry
from rmqtool.store.segments import FileQueue, Segment, StoreFile, Window

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rmqtool.formats import Decoder

GEOMETRY = Geometry(slots=7, items=9)
ints = st.integers(-(2**31), 2**31 - 1)


@pytest.fixture(scope="module")
def folder() -> Iterator[Path]:
    with tempfile.TemporaryDirectory() as name:
        yield Path(name)


def segment_of(folder: Path, data: bytes, start: int = 0) -> Segment:
    path = folder / f"{start:020d}"
    path.write_bytes(data)
    return Segment(location_of(path), path.name, len(data), start)


def file_of(folder: Path, data: bytes) -> StoreFile:
    (folder / "file").write_bytes(data)
    return StoreFile(location_of(folder / "file"), "file", len(data))


@pytest.mark.parametrize("units", [UNITS, BATCH_UNITS], ids=["units", "batch units"])
@given(st.lists(st.one_of(st.just(0), ints), max_size=12), st.binary(max_size=19))
def test_units_as_rows_and_as_columns(
    folder: Path, units: Decoder[Any], values: list[int], rest: bytes
) -> None:
    """Zero units are runs in rows and rows in columns; what is less than a unit is told by both."""
    width = len(units.padded(b""))
    data = b"".join(units.encode((value, *[value % 1000] * (width - 1))) for value in values) + rest
    segment = segment_of(folder, data)
    file: QueueFile[Any] = QueueFile(segment, units)
    expected = [
        units.padded(data[at : at + units.size]) for at in range(0, file.room * units.size, units.size)
    ]
    assert [file.unit(number) for number in range(file.room)] == expected
    assert not any(file.unit(file.room + 1))
    rows: dict[int, Any] = {}
    cut = b""
    for found in file.rows(Window(segment)):
        if isinstance(found, PlacedUnit):
            rows[found.position] = found.unit
        elif isinstance(found, ZeroUnits):
            assert not any(data[found.position : found.stop])
            assert found.to_end is not any(data[found.position :])
        else:
            assert isinstance(found, CutUnit)
            cut = data[found.position : found.position + found.length]
    assert rows == {at * units.size: unit for at, unit in enumerate(expected) if any(unit)}
    assert cut == (rest if any(rest) else b"")
    reader = QueueReader(FileQueue((location_of(folder),), (segment,)), units)
    columns = [row for chunk in reader for row in (*[(0,) * width] * chunk.zeros, *chunk.rows.tolist())]
    assert columns == expected
    assert [tail for _, _, tail in reader.ragged] == ([rest] if any(rest) else [])
    assert file.loaded(20 * units.size)[: len(expected)].tolist() == expected
    last = max((number for number, unit in enumerate(expected, 1) if any(unit)), default=0)
    assert file.written(20 * units.size).tolist() == expected[:last]
    segment.close()


WRONG = b"\x00\x15" + b"\x01" * 30
"""An ext unit of 21 bytes, whose bit map says otherwise."""

ext_units = st.builds(
    lambda tags, bits: EXT_UNIT.build({"tagsCode": tags, "storeTimestamp": abs(tags), "bitMap": bits}),
    ints,
    st.sampled_from([b"", b"", b"", b"\x07", b"\xff" * 9]),
)


@given(st.lists(ext_units, max_size=9), st.sampled_from([b"", EXT_END.build({}), bytes(30), WRONG]))
def test_ext_units_as_rows_as_columns_and_by_address(folder: Path, units: list[bytes], end: bytes) -> None:
    data = b"".join(units) + end
    segment = segment_of(folder, data)
    file = ExtFile(segment)
    rows = [unit for unit in file.rows() if unit.bit_map is not None]
    assert b"".join(data[one.position : one.position + one.head.size] for one in rows) == b"".join(units)
    assert [one.position for one in file.rows() if one.bit_map is None] == (
        [len(data) - len(end)] if end == WRONG else []
    )
    columns = file.columns([])
    assert columns.stop == len(data) - len(end)
    assert columns.positions.tolist() == [one.position for one in rows]
    assert columns.tags_codes.tolist() == [one.head.tags_code for one in rows]
    assert columns.times_ms.tolist() == [one.head.store_timestamp_ms for one in rows]
    reader = ExtReader(FileQueue((location_of(folder),), (segment,)))
    assert [reader.at(EXT_ADDRESS_BASE + one.position) for one in rows] == rows
    assert reader.at(EXT_ADDRESS_BASE + len(data)) is None
    if end == EXT_END.build({}) or not any(end[:2]):
        chain = file.size_chain()
        assert chain.position == columns.stop
        assert chain.fails is (not end)
    assert file.size_at(columns.stop) == int.from_bytes(end[:2], "big", signed=True)
    segment.close()


def test_ext_units_that_are_alike_are_read_many_at_a_time(folder: Path) -> None:
    """More than one read of the file, and more than one step of the fast path."""
    unit = EXT_UNIT.build({"tagsCode": 1, "storeTimestamp": 2, "bitMap": b""})
    segment = segment_of(folder, unit * 9000 + EXT_END.build({}) + bytes(40))
    columns = ExtFile(segment).columns([])
    assert (len(columns.positions), columns.stop) == (9000, 9000 * EXT_HEAD_SIZE)
    assert ExtFile(segment).size_chain() == (9000 * EXT_HEAD_SIZE, False)
    segment.close()


@given(
    st.integers(0, 12),
    st.lists(st.tuples(ints, ints, ints, ints), min_size=10, max_size=10),
    st.lists(ints, min_size=7, max_size=7),
    st.integers(0, GEOMETRY.size_bytes + 5),
)
def test_an_index_file_as_rows_and_as_columns(
    folder: Path, count: int, items: list[tuple[int, int, int, int]], slots: list[int], length: int
) -> None:
    """Rows are of the bytes at hand; columns of the whole file, as a broker extends it."""
    data = HEADERS.encode((1, 2, 3, 4, 5, count)) + b"".join(SLOTS.encode((slot,)) for slot in slots)
    data = (data + b"".join(map(ITEMS.encode, items)))[:length]
    file = file_of(folder, data)
    index = IndexFile(file, GEOMETRY)
    assert index.is_short is (len(data) < HEADERS.size)
    assert index.header == HEADERS.padded(data)
    columns = np.concatenate(
        [np.zeros((0, 4), np.int64)]
        + [
            np.stack([one.key_hashes, one.physical_offsets, one.time_diffs, one.previous], axis=1)
            for one in index.item_columns()
        ]
    )
    assert len(columns) == index.used
    rows = list(index.items())
    assert [number for number, _ in rows] == list(range(1, index.last_item + 1))
    assert [tuple(row) for row in columns[: len(rows)].tolist()] == [tuple(item) for _, item in rows]
    table = [slot for _, chunk in index.slot_columns() for slot in chunk.tolist()]
    at_hand = table[: max(len(data) - HEADERS.size, 0) // SLOTS.size]
    assert [index.slot(number) for number in range(GEOMETRY.slots)] == (at_hand + [0] * 7)[:7]
    assert dict(index.used_slots()) == {number: slot for number, slot in enumerate(at_hand) if slot}
    whole = data.ljust(GEOMETRY.size_bytes, b"\0")
    unused = {
        first + at for first, is_used in index.unused_items() for at in np.flatnonzero(is_used).tolist()
    }
    others = [0, *range(index.used + 1, GEOMETRY.items)]
    places = {one: index.item_position(one) for one in others}
    assert unused == {one for one, at in places.items() if any(whole[at : at + ITEM_SIZE])}
    file.close()


@given(st.binary(max_size=60))
def test_a_checkpoint_as_it_is_and_as_loaded(folder: Path, data: bytes) -> None:
    file = file_of(folder, data)
    fields = read_checkpoint(file)
    assert (fields is None) is (len(data) < CHECKPOINTS.size)
    assert loaded_checkpoint(file) == CHECKPOINTS.padded(data)
    assert fields in {None, loaded_checkpoint(file)}


def test_no_checkpoint_is_zeros_to_a_broker() -> None:
    assert read_checkpoint(None) is None
    assert loaded_checkpoint(None) == CheckpointFields()
    assert not any(CheckpointFields())
    assert UNITS.size == UNIT_SIZE
