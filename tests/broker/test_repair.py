"""Real brokers open repaired stores, serve all of them, and go on; and open what was taken back, too."""

from __future__ import annotations

import os
import shutil
from typing import TYPE_CHECKING

import pytest

import rmqtool
from tests.broker import jvm
from tests.broker.stores import fixture_store

if TYPE_CHECKING:
    from pathlib import Path

    from rmqtool.commands.repair import RepairReport

pytestmark = pytest.mark.broker

KINDS = ("plain", "delay", "transaction", "lmq", "ext", "segments", "expiredhead", "indexfull")
OPENINGS = [
    (f"{kind}-{maker}", version)
    for maker, versions in {
        "4.9.8": ("4.9.8", "5.3.3", "5.5.1"),
        "5.3.3": ("5.3.3", "5.5.1"),
        "5.5.1": ("5.5.1",),
    }.items()
    for kind in KINDS
    if (fixture_store(f"{kind}-{maker}").root / "recipe.toml").exists()
    for version in versions
]


def spoil(root: Path) -> None:
    """Damage all that a repair mends: queues, index, checkpoint, a stray in the log, ``abort``."""
    found = (root / "consumequeue").glob("*/*/*")  # of OldTopic all messages are expired
    queues = sorted(path for path in found if path.is_file() and "OldTopic" not in path.parts)
    for path in queues[::2]:
        data = bytearray(path.read_bytes())
        data[20:40] = bytes(20)
        path.write_bytes(data)
    shutil.rmtree(queues[-1].parent)
    for path in sorted((root / "index").iterdir())[:1]:
        path.write_bytes(b"\xff" * 40 + path.read_bytes()[40:])
    (root / "checkpoint").write_bytes(b"cut")
    (root / "commitlog" / ".nfs000001").write_text("stray")
    (root / "abort").write_text("4711")


def repaired(root: Path, conf: Path, version: str) -> RepairReport:
    return rmqtool.open(root, broker_conf=conf, broker_version=version).repair()


@pytest.mark.parametrize("version", ["4.9.8", "5.3.3", "5.5.1"])
def test_brokers_serve_what_was_repaired(version: jvm.Version, tmp_path: Path) -> None:
    """As they serve the store that never was damaged: as found, after an append, after a restart."""
    found, names = [], [name for name, opener in OPENINGS if opener == version]
    for number, name in enumerate(names):
        store = fixture_store(name)
        sound = store.copy_to(tmp_path / f"{number}-sound")
        (sound / "abort").unlink(missing_ok=True)
        damaged = store.copy_to(tmp_path / f"{number}-damaged")
        spoil(damaged)
        report = repaired(damaged, store.conf, store.version)
        left = [one.path for one in report.left]  # fixtures of retry queues without consumer offsets
        assert report.outcome == "done", name
        assert left in ([], ["config/consumerOffset.json"]), name
        assert not (damaged / "abort").exists()
        found += [jvm.Found(damaged, store.conf), jvm.Found(sound, store.conf)]
    rows = jvm.serve(version, found, append=7, restart=True)
    for number, name in enumerate(names):
        ours, own = rows[2 * number], rows[2 * number + 1]
        assert [row for row in ours if row["type"] == "message"] == [
            row for row in own if row["type"] == "message"
        ], name
        assert any(row["type"] == "message" and row["status"] == "FOUND" for row in ours), name
        assert _finds(ours) >= _finds(own), name
    assert names


@pytest.mark.parametrize("version", ["4.9.8", "5.3.3", "5.5.1"])
def test_a_broker_serves_no_message_less_after_a_repair_of_what_a_kill_left(
    version: jvm.Version, tmp_path: Path
) -> None:
    """Where its own recovery would have made good what queues lack, a repair has done so before."""
    names = [f"crash-{version}", f"plain-{version}", f"plain-{version}", f"segments-{version}"]
    lost = ["", "Orders/0/00000000000000000200", "Payments/0/00000000000000000600", ""]
    found = []
    for number, (name, unit_file) in enumerate(zip(names, lost, strict=True)):
        store = fixture_store(name)
        for kind in ("before", "after"):
            root = store.copy_to(tmp_path / f"{number}-{kind}")
            (root / "abort").write_text("4711")
            if unit_file:
                (root / "consumequeue" / unit_file).unlink()
            if kind == "after":
                assert repaired(root, store.conf, version).exit_status() == 0
                assert not (root / "abort").exists()
            found.append(jvm.Found(root, store.conf))
    rows = [_served(one) for one in jvm.serve(version, found)]
    for number, name in enumerate(names):
        before, after = rows[2 * number], rows[2 * number + 1]
        assert before, name
        assert before <= after, name
    assert len(rows[3]) == len(rows[5]) == 163  # all that the log has


def _served(rows: list[jvm.Row]) -> set[tuple[str, int, int]]:
    """Return which messages a broker gave out."""
    return {
        (row["topic"], row["queueId"], row["queueOffset"])
        for row in rows
        if row["type"] == "message" and row["status"] == "FOUND"
    }


def _finds(rows: list[jvm.Row]) -> set[tuple[str, str, str, int]]:
    """Return which keys find which messages."""
    return {
        (row["phase"], row["topic"], row["key"], offset)
        for row in rows
        if row["type"] == "query"
        for offset in row["physicalOffsets"]
    }


@pytest.mark.parametrize("version", ["4.9.8", "5.3.3", "5.5.1"])
def test_a_repair_is_not_undone_over_what_a_broker_wrote(version: jvm.Version, tmp_path: Path) -> None:
    """And is undone to the byte where it wrote nothing."""
    store = fixture_store(f"plain-{version}")
    root = store.copy_to(tmp_path / "store")
    spoil(root)
    before = _files(root)
    repaired(root, store.conf, store.version)
    rmqtool.open(root, broker_conf=store.conf).repair(undo=True)
    assert _files(root) == before
    repaired(root, store.conf, store.version)
    jvm.serve(version, [jvm.Found(root, store.conf)], append=3)
    os.sync()  # times of mapped files follow their bytes
    with pytest.raises(rmqtool.RefusedError, match="has changed since"):
        rmqtool.open(root, broker_conf=store.conf).repair(undo=True)


def _files(root: Path) -> dict[str, tuple[bytes, int, int]]:
    return {
        str(path.relative_to(root)): (path.read_bytes(), path.stat().st_mtime_ns, path.stat().st_mode)
        for path in root.rglob("*")
        if path.is_file()
    }
