"""Rebuilt queues and index of a DLedger store, in the broker that is to go on with them."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING

import pytest

import rmqtool
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
