"""What keeps compacted topics from loading keeps the broker from starting, where it does."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from rmqtool.recovery.predict import predict_recovery
from rmqtool.releases import RELEASES
from rmqtool.store import open_store
from tests.recovery.compactions import SETTINGS, STATES, State

STORE = Path(__file__).resolve().parents[2] / "fixtures" / "stores" / "plain-5.3.3"


@pytest.mark.parametrize("state", STATES, ids=lambda state: state.name)
def test_files_that_do_not_pair(state: State, tmp_path: Path) -> None:
    root, conf = tmp_path / "store", tmp_path / "broker.conf"
    shutil.copytree(STORE, root)
    state.make(root)
    conf.write_text((STORE / "broker.conf").read_text("utf-8") + "\n" + SETTINGS, "utf-8")
    found = predict_recovery(open_store(root, broker_conf=conf), RELEASES["5.3.3"])
    assert {one.file for one in found.refusals} == state.refused
    assert found.loads is not bool(state.refused)
    assert {one for one in found.deleted_files if one.startswith("compaction/")} == state.deleted
    assert any("its consumers get no message" in one for one in found.hazards) is state.passed_over


def test_sizes_that_no_setting_names_are_those_of_most_files(tmp_path: Path) -> None:
    """Without the broker's file; with it, the sizes are the defaults, which no file here has."""
    root, conf = tmp_path / "store", tmp_path / "broker.conf"
    shutil.copytree(STORE, root)
    (unpaired,) = [one for one in STATES if one.name == "a queue file without a log file"]
    unpaired.make(root)
    conf.write_text((STORE / "broker.conf").read_text("utf-8"), "utf-8")
    assert not predict_recovery(open_store(root), RELEASES["5.3.3"]).loads
    assert predict_recovery(open_store(root, broker_conf=conf), RELEASES["5.3.3"]).loads


def test_a_broker_without_compaction_loads_none_of_it(tmp_path: Path) -> None:
    root = tmp_path / "store"
    shutil.copytree(STORE, root)
    for state in STATES:
        state.make(root)
    assert not predict_recovery(open_store(root), RELEASES["5.3.3"]).loads
    off = open_store(root, properties=["enableCompaction=false"])
    assert predict_recovery(off, RELEASES["5.3.3"]).loads
    assert predict_recovery(open_store(root), RELEASES["4.9.8"]).loads


def test_a_queue_file_that_ends_within_a_unit_is_read_up_to_it(tmp_path: Path) -> None:
    root = tmp_path / "store"
    shutil.copytree(STORE, root)
    for part in ("compactionLog", "compactionCq"):
        (root / "compaction" / part / "Orders" / "0").mkdir(parents=True)
        (root / "compaction" / part / "Orders" / "0" / f"{0:020}").write_bytes(bytes(100))
    assert predict_recovery(open_store(root), RELEASES["5.3.3"]).loads
