"""Rebuilt queues and index of a DLedger store, in the broker that is to go on with them."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING

import pytest

import rmqtool
from rmqtool.formats.entry import ENTRIES
from tests.broker import jvm
from tests.broker.compare import compare_derived
from tests.broker.stores import DERIVED, cut_entry_index, ledger_stores, whole_entry_index

if TYPE_CHECKING:
    from pathlib import Path

    from tests.broker.stores import FixtureStore

pytestmark = pytest.mark.broker


@pytest.mark.parametrize("store", ledger_stores(), ids=lambda store: store.name)
def test_a_broker_keeps_rebuilt_files(store: FixtureStore, tmp_path: Path) -> None:
    """It starts on them, and leaves each byte; of a killed one, 5.x adds items again, as to its own index."""
    root = whole_entry_index(store.copy_log_to(tmp_path / "store"))
    rmqtool.open(root, broker_conf=store.conf).rebuild(out=tmp_path / "made")
    for name in DERIVED:
        if (tmp_path / "made" / name).exists():
            shutil.copytree(tmp_path / "made" / name, root / name)
    jvm.rebuild(store.version, root, store.conf)
    differences = compare_derived(store.root, root)
    is_repeated = "killed" in store.name and store.version != "4.9.8"
    assert [one.partition(":")[0] for one in differences] == ["index"] * is_repeated


@pytest.mark.parametrize("store", ledger_stores(), ids=lambda store: store.name)
def test_a_start_makes_the_index_of_entries_again(store: FixtureStore, tmp_path: Path) -> None:
    """It is what the remedy of DL-UNIT relies on."""
    root = store.copy_to(tmp_path / "store")
    shutil.rmtree(root / "dledger-n0" / "index")
    jvm.serve(store.version, [jvm.Found(root, store.conf)])
    cut_entry_index(root)
    (made,) = (root / "dledger-n0" / "index").iterdir()
    units = (store.root / "dledger-n0" / "index" / made.name).read_bytes()
    assert made.read_bytes()[: len(units)] == units


@pytest.mark.parametrize("field", ["index", "pos"])
@pytest.mark.parametrize("newer", range(4), ids=["newest", "second", "third", "older"])
@pytest.mark.parametrize("version", ["4.9.8", "5.3.3", "5.5.1"])
def test_a_start_does_to_a_damaged_entry_what_its_finding_says(
    version: str, newer: int, field: str, tmp_path: Path
) -> None:
    """It cuts the log before it, or exits, or does not look, by the file that it is in."""
    store = next(store for store in ledger_stores() if store.name == f"dledger-{version}")
    root = whole_entry_index(store.copy_to(tmp_path / "store"))
    places = [message.physical_offset for message in rmqtool.open(root).messages()]
    file = sorted((root / "dledger-n0" / "data").iterdir())[-1 - newer]
    data = bytearray(file.read_bytes())
    inside = [place for place in places if 0 <= place - int(file.name) < len(data)]
    broken = inside[len(inside) // 2]
    at = broken - int(file.name) - ENTRIES.size
    header = ENTRIES.padded(bytes(data[at : at + ENTRIES.size]))
    data[at : at + ENTRIES.size] = ENTRIES.encode(header._replace(**{field: 9999}))
    file.write_bytes(data)
    found = [jvm.Found(root, store.conf)]
    if newer == 2:
        with pytest.raises(jvm.BrokerFailure, match="ended with 255"):
            jvm.serve(store.version, found)
        return
    (rows,) = jvm.serve(store.version, found)
    served = {row["physicalOffset"] for row in rows if row["type"] == "message" and row["status"] == "FOUND"}
    assert served == {place for place in places if newer > 2 or place < broken}
