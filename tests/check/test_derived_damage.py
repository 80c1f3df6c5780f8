"""Any byte of queues and index that something else in the store contradicts is found when it changes."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rmqtool.formats.index import item_position
from rmqtool.projection import json_object
from tests.check.store_edits import EditedStore, overwrite
from tests.strategies import examples

if TYPE_CHECKING:
    from pathlib import Path

    from tests.check.store_edits import DemandCache

UNPROTECTED = range(32, 36)
"""hashSlotCount: 4.7.0 counts items in it, later versions slots."""


@pytest.fixture(scope="module")
def stores(tmp_path_factory: pytest.TempPathFactory, demand_cache: DemandCache) -> dict[str, EditedStore]:
    """Copies whose every edit is taken back."""
    folder = tmp_path_factory.mktemp("damage")
    names = ("plain-5.3.3", "lmq-4.9.8", "batchcq-5.3.3", "delay-5.3.3", "plain-5.4.0", "upgrade533-5.5.1")
    return {name: EditedStore.copy(name, folder, demand_cache) for name in names}


def used_bytes(path: Path) -> int:
    """Return the bytes of a queue file up to its last unit, of an index file up to its last item."""
    data = path.read_bytes()
    if path.parent.name == "index":
        return item_position(25, int.from_bytes(data[36:40], "big"))
    width = 46 if "batchconsumequeue" in path.parts else 20
    return -(-len(data.rstrip(b"\0")) // width) * width


def derived_files(store: EditedStore) -> list[Path]:
    folders = ("consumequeue", "batchconsumequeue", "index")
    paths = (path for folder in folders for path in sorted((store.root / folder).rglob("*")))
    return [path for path in paths if path.is_file() and used_bytes(path)]


def is_damaged(store: EditedStore) -> bool:
    return store.check_queues().exit_status() == 1 or store.check_index().exit_status() == 1


@pytest.mark.full
@examples(150)
@given(st.data())
def test_a_changed_byte_is_damage(stores: dict[str, EditedStore], data: st.DataObject) -> None:
    """Offsets, sizes, tags codes, hashes, times, chains, slots, headers: nothing changes unnoticed."""
    store = stores[data.draw(st.sampled_from(sorted(stores)))]
    path = data.draw(st.sampled_from(derived_files(store)))
    is_free = UNPROTECTED if path.parent.name == "index" else ()
    position = data.draw(st.integers(0, used_bytes(path) - 1).filter(lambda byte: byte not in is_free))
    before = path.read_bytes()
    value = data.draw(st.integers(0, 255).filter(lambda byte: byte != before[position]))
    try:
        overwrite(path, position, bytes([value]))
        assert is_damaged(store), f"{path.relative_to(store.root)} at {position}: {value}"
    finally:
        path.write_bytes(before)


@pytest.mark.full
@examples(60)
@given(st.data())
def test_any_bytes_can_be_checked(stores: dict[str, EditedStore], data: st.DataObject) -> None:
    """Rubbish of any length in place of files is reported, without an exception, at every level."""
    store = stores[data.draw(st.sampled_from(sorted(stores)))]
    path = data.draw(st.sampled_from(derived_files(store)))
    before = path.read_bytes()
    rubbish = data.draw(st.binary(max_size=300))
    start = data.draw(st.integers(0, len(before)))
    kept = before[start + len(rubbish) :] if data.draw(st.booleans()) else b""
    try:
        path.write_bytes(before[:start] + rubbish + kept)
        for level in (1, 2, 3):
            for log in (store.check_queues(level), store.check_index(level)):
                assert all(json_object(finding)["message"] for finding in log)
    finally:
        path.write_bytes(before)
