"""The committed derived files are what a real broker rebuilds from the committed logs."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.broker import jvm
from tests.broker.compare import compare_derived
from tests.broker.stores import fixture_store

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = [pytest.mark.broker, pytest.mark.every_store]


@pytest.mark.parametrize(
    "name",
    [
        *("plain-4.9.8", "expiredhead-4.9.8", "plain-5.3.3", "crash-5.3.3", "plain-5.4.0", "crash-5.4.0"),
        *("plain-5.5.1", "expiredhead-5.5.1", "tags-5.5.1", "handovers-5.5.1", "downgrade-5.3.3"),
    ],
)
def test_broker_rebuilds_the_committed_files(name: str, tmp_path: Path) -> None:
    """A broker that finds only the log regenerates every byte of the fixture's expected files."""
    store = fixture_store(name)
    root = store.copy_log_to(tmp_path / "store")
    timing = jvm.rebuild(store.version, root, store.conf, timezone=store.timezone)
    assert timing["max_phy"] > timing["min_phy"] >= 0
    assert compare_derived(store.expected, root) == []


@pytest.mark.parametrize("name", ["plain-4.9.8", "plain-5.3.3", "plain-5.5.1"])
def test_broker_serves_what_the_recipe_says(name: str, tmp_path: Path) -> None:
    """Every record of the recipe is served from its queue with a good CRC, and its unique key finds it."""
    store = fixture_store(name)
    found = jvm.Found(store.copy_to(tmp_path / "store"), store.conf)
    (rows,) = jvm.serve(store.version, [found], timezone=store.timezone)
    messages = [row for row in rows if row["type"] == "message"]
    assert len(messages) == store.recipe["records"]
    assert all(row["status"] == "FOUND" and row["crcOk"] for row in messages)
    hits = {(row["topic"], row["key"]): row["physicalOffsets"] for row in rows if row["type"] == "query"}
    for row in messages:
        if "uniqKey" in row:
            assert hits[row["msgTopic"], row["uniqKey"]] == [row["physicalOffset"]]


def test_appended_messages_follow_and_survive_a_restart(tmp_path: Path) -> None:
    """What the judge appends gets the next queue offsets and is still there after a clean restart."""
    store = fixture_store("plain-5.3.3")
    found = jvm.Found(store.copy_to(tmp_path / "store"), store.conf)
    (rows,) = jvm.serve(store.version, [found], append=7, restart=True)
    count = {
        phase: sum(row["type"] == "message" and row["phase"] == phase for row in rows)
        for phase in ("as-found", "after-append", "after-restart")
    }
    assert count["after-append"] == count["after-restart"] == count["as-found"] + 7


def test_failure_shows_the_jvm_complaint(tmp_path: Path) -> None:
    """A judge that cannot work fails with the end of its standard error, not with silence."""
    with pytest.raises(jvm.BrokerFailure, match="NoSuchFileException"):
        jvm.judge("5.3.3", "rebuild", tmp_path / "store", tmp_path / "missing.conf")
