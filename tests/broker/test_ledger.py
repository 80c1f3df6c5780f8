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

    from tests.broker.jvm import Version
    from tests.broker.stores import FixtureStore

pytestmark = pytest.mark.broker

VERSIONS = sorted({store.version for store in ledger_stores()})
FIELDS = ("index", "pos")
_EXITS = 2
"""How many files are newer than the one in which damage ends a start."""


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


@pytest.mark.parametrize("version", VERSIONS)
def test_a_start_makes_the_index_of_entries_again(version: Version, tmp_path: Path) -> None:
    """It is what the remedy of DL-UNIT relies on."""
    stores = [store for store in ledger_stores() if store.version == version]
    roots = [store.copy_to(tmp_path / store.name) for store in stores]
    for root in roots:
        shutil.rmtree(root / "dledger-n0" / "index")
    jvm.serve(version, [jvm.Found(root, store.conf) for root, store in zip(roots, stores, strict=True)])
    for root, store in zip(roots, stores, strict=True):
        cut_entry_index(root)
        (made,) = (root / "dledger-n0" / "index").iterdir()
        units = (store.root / "dledger-n0" / "index" / made.name).read_bytes()
        assert made.read_bytes()[: len(units)] == units, store.name


def damaged(version: Version, newer: int, field: str, root: Path) -> tuple[jvm.Found, list[int], int]:
    """Damage a field of an entry in a file, by its place from the newest.

    Returns:
        The store, the places of its messages, and that of the entry's.
    """
    store = next(store for store in ledger_stores() if store.name == f"dledger-{version}")
    whole_entry_index(store.copy_to(root))
    places = [message.physical_offset for message in rmqtool.open(root).messages()]
    file = sorted((root / "dledger-n0" / "data").iterdir())[-1 - newer]
    data = bytearray(file.read_bytes())
    inside = [place for place in places if 0 <= place - int(file.name) < len(data)]
    broken = inside[len(inside) // 2]
    at = broken - int(file.name) - ENTRIES.size
    header = ENTRIES.padded(bytes(data[at : at + ENTRIES.size]))
    data[at : at + ENTRIES.size] = ENTRIES.encode(header._replace(**{field: 9999}))
    file.write_bytes(data)
    return jvm.Found(root, store.conf), places, broken


@pytest.mark.parametrize("version", VERSIONS)
def test_a_start_does_to_a_damaged_entry_what_its_finding_says(version: Version, tmp_path: Path) -> None:
    """It cuts the log before one of the two newest files, and does not look at one of an older file."""
    tried = [(newer, field) for newer in (0, 1, _EXITS + 1) for field in FIELDS]
    made = [damaged(version, *where, tmp_path / str(number)) for number, where in enumerate(tried)]
    answers = jvm.serve(version, [store for store, _, _ in made])
    for (newer, field), (_, places, broken), rows in zip(tried, made, answers, strict=True):
        messages = (row for row in rows if row["type"] == "message" and row["status"] == "FOUND")
        served = {row["physicalOffset"] for row in messages}
        expected = {place for place in places if newer > _EXITS or place < broken}
        assert served == expected, (newer, field)


@pytest.mark.parametrize("field", FIELDS)
@pytest.mark.parametrize("version", VERSIONS)
def test_a_start_exits_at_a_damaged_entry_of_the_third_newest_file(
    version: Version, field: str, tmp_path: Path
) -> None:
    store, _, _ = damaged(version, _EXITS, field, tmp_path / "store")
    with pytest.raises(jvm.BrokerFailure, match="ended with 255"):
        jvm.serve(version, [store])
