"""The number of hash slots is recognised from the contents of an index file."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from rmqtool.formats.index import file_size
from rmqtool.io import location_of
from rmqtool.store.geometry import DEFAULT_SLOTS, Geometry, geometry_of_size, infer_geometry
from rmqtool.store.segments import StoreFile
from tests.store.index_builder import build_index

if TYPE_CHECKING:
    from pathlib import Path


def _store_file(path: Path, data: bytes | bytearray) -> StoreFile:
    path.write_bytes(data)
    return StoreFile(location_of(path), path.name, len(data))


@st.composite
def _filled(draw: st.DrawFn) -> tuple[int, int, list[tuple[int, int]]]:
    """Draw a geometry and entries as a log makes them: offsets ascend, one message has one to three keys."""
    slots = draw(st.integers(1, 60))
    items = draw(st.integers(2, 120))
    keys = draw(st.lists(st.integers(0, 2**31 - 1), min_size=1, max_size=items - 1))
    steps = draw(st.lists(st.sampled_from([0, 91, 200, 4096]), min_size=len(keys), max_size=len(keys)))
    offset = draw(st.sampled_from([0, 91, 8192, 2**40]))
    entries = []
    for key, step in zip(keys, steps, strict=True):
        entries.append((key, offset))
        offset += step
    return slots, items, entries


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(_filled())
def test_what_the_file_proves_explains_every_byte(
    tmp_path: Path, drawn: tuple[int, int, list[tuple[int, int]]]
) -> None:
    """Either the right geometry, or one under which a broker would have written the very same bytes.

    An entry of hash 0 at offset 0 looks like unused space; then nothing may be claimed.
    """
    slots, items, entries = drawn
    data = build_index(slots, items, entries)
    found = infer_geometry(_store_file(tmp_path / "index", data))
    if found != Geometry(slots, items):
        assert found is not None or (0, 0) in entries
        if found is not None:
            assert len(entries) < found.items
            assert build_index(found.slots, found.items, entries) == data


@pytest.mark.few(3)
@pytest.mark.parametrize(("slots", "items"), [(1, 2), (5, 7), (25, 40), (20, 20), (1000, 9), (7, 4000)])
def test_ordinary_keys_prove_the_geometry(tmp_path: Path, slots: int, items: int) -> None:
    for count in {1, max(1, items // 2), items - 1}:
        entries = [(1_231_271_670 + 7919 * number, 172 * number) for number in range(count)]
        data = build_index(slots, items, entries)
        assert infer_geometry(_store_file(tmp_path / "index", data)) == Geometry(slots, items)


@pytest.mark.parametrize(
    "data", [b"", bytes(39), bytes(940), b"\xff" * 940, b"\x7f" * 940, bytes(range(256)) * 4], ids=len
)
def test_nothing_is_proven_by_empty_or_random_bytes(tmp_path: Path, data: bytes) -> None:
    assert infer_geometry(_store_file(tmp_path / "index", data)) is None


def test_stale_bytes_behind_the_newest_item_do_not_mislead(tmp_path: Path) -> None:
    entries = [(1_000_003 * number, 200 + 172 * number) for number in range(1, 12)]
    data = build_index(25, 60, entries)
    data[-3] = 1
    assert infer_geometry(_store_file(tmp_path / "index", data)) == Geometry(25, 60)


def test_a_default_file_is_settled_with_a_few_reads(tmp_path: Path) -> None:
    """420 MB, sparse: look at some items, never at all of it."""
    small = build_index(50, 20, [(7_777_777, 4096), (8_888_888, 4300)])
    path = tmp_path / "index"
    with path.open("wb") as file:
        file.truncate(file_size(DEFAULT_SLOTS, 4 * DEFAULT_SLOTS))
        file.write(small[:40])
        for number, key_hash in ((1, 7_777_777), (2, 8_888_888)):
            file.seek(40 + 4 * (key_hash % DEFAULT_SLOTS))
            file.write(number.to_bytes(4, "big"))
            file.seek(40 + 4 * DEFAULT_SLOTS + 20 * number)
            file.write(small[40 + 4 * 50 + 20 * number :][:20])
    reads: list[int] = []
    found = infer_geometry(_Counting(path, "index", path.stat().st_size, reads))
    assert found == Geometry(DEFAULT_SLOTS, 4 * DEFAULT_SLOTS)
    assert sum(reads) < 10_000


class _Counting(StoreFile):
    def __init__(self, path: Path, label: str, size_bytes: int, reads: list[int]) -> None:
        super().__init__(location_of(path), label, size_bytes)
        self.__dict__["reads"] = reads

    def read_at(self, position: int, length: int, unreadable: object = None) -> bytes:
        self.__dict__["reads"].append(length)
        return super().read_at(position, length, [])


def test_a_hostile_file_takes_bounded_time(tmp_path: Path) -> None:
    """Every cell looks like the newest item: the search stops after a fixed number of tries."""
    path = tmp_path / "index"
    header = build_index(5, 5, [(1, 5), (2, 5)])[:40]
    path.write_bytes(header + (5).to_bytes(8, "big") * 500_000)
    begin = time.monotonic()
    assert infer_geometry(StoreFile(location_of(path), "index", path.stat().st_size)) is None
    assert time.monotonic() - begin < 5


@pytest.mark.parametrize(
    ("given_one", "expected"),
    [
        ({"slots": 25}, Geometry(25, 40)),
        ({"items": 40}, Geometry(25, 40)),
        ({"slots": 24}, None),
        ({"slots": 10**12}, None),
        ({"items": 10**12}, None),
        ({}, None),
    ],
)
def test_one_number_and_the_size_give_the_other(given_one: dict[str, int], expected: Geometry | None) -> None:
    assert geometry_of_size(940, **given_one) == expected


def test_the_default_ratio_is_assumed_without_any() -> None:
    assert geometry_of_size(420_000_040) == Geometry(5_000_000, 20_000_000)
