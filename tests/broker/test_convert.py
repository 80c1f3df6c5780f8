"""A converted store in the broker that goes on with it, beside what that served with DLedger."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

import rmqtool
from tests.broker import jvm
from tests.broker.stores import ledger_stores, whole_entry_index

if TYPE_CHECKING:
    from pathlib import Path

    from tests.broker.stores import FixtureStore

pytestmark = pytest.mark.broker

APPENDED = 20
HOLE = 900


def plain_conf(conf: Path, made: Path) -> Path:
    """Write a broker's settings without those of DLedger."""
    lines = [line for line in conf.read_text().splitlines() if "DLeger" not in line and "dLeger" not in line]
    made.write_text("\n".join(lines) + "\n")
    return made


def served(rows: list[dict[str, Any]], phase: str) -> dict[tuple[str, int, int], dict[str, Any]]:
    """Return the messages that a broker gave, without their places, by topic, queue and queue offset."""
    return {
        (row["topic"], row["queueId"], row["queueOffset"]): row | {"physicalOffset": None}
        for row in rows
        if row["type"] == "message" and row["phase"] == phase and row["status"] == "FOUND"
    }


def answered(rows: list[dict[str, Any]], phase: str) -> dict[tuple[str, str], set[tuple[str, int, int]]]:
    """Return the messages that a broker gave by keys, by topic and key."""
    mine = [row for row in rows if row["phase"] == phase]
    places = {
        row["physicalOffset"]: (row["topic"], row["queueId"], row["queueOffset"])
        for row in mine
        if row["type"] == "message" and "physicalOffset" in row
    }
    return {
        (row["topic"], row["key"]): {places[at] for at in row["physicalOffsets"] if at in places}
        for row in mine
        if row["type"] == "query"
    }


@pytest.mark.parametrize("store", ledger_stores(), ids=lambda store: store.name)
def test_a_broker_without_dledger_goes_on(store: FixtureStore, tmp_path: Path) -> None:
    """It serves each message at its queue offset and by its keys, appends behind them, and starts again."""
    report = rmqtool.open(store.root, broker_conf=store.conf).convert(tmp_path / "plain")
    conf = plain_conf(store.conf, tmp_path / "broker.conf")
    before = whole_entry_index(store.copy_to(tmp_path / "ledger"))
    (old,) = jvm.serve(store.version, [jvm.Found(before, store.conf)])
    (new,) = jvm.serve(store.version, [jvm.Found(tmp_path / "plain", conf)], append=APPENDED, restart=True)
    messages = rmqtool.open(store.root, broker_conf=store.conf).messages()
    there = {(one.topic, one.queue_id, one.queue_offset): one.uniq_key for one in messages}
    assert len(there) == report.messages == store.recipe["records"]
    for phase in ("as-found", "after-append", "after-restart"):
        shown = {place: row | {"phase": "as-found"} for place, row in served(new, phase).items()}
        assert {place: shown[place].get("uniqKey") for place in there} == there
        expected = served(old, "as-found")  # a killed one may still be dispatching
        assert {place: shown[place] for place in there if place in expected} == expected
        asked, answers = answered(old, "as-found"), answered(new, phase)
        for question, places in asked.items():
            assert places & there.keys() <= answers[question], question
    appended = served(new, "after-restart").keys() - served(new, "as-found").keys()
    assert len(appended) >= APPENDED
    left = rmqtool.open(tmp_path / "plain", broker_conf=conf).verify()
    assert not [finding for finding in left.findings if finding.code.severity == "error"]


@pytest.mark.parametrize("store", ledger_stores(), ids=lambda store: store.name)
def test_a_broker_without_dledger_goes_on_with_what_is_salvaged(store: FixtureStore, tmp_path: Path) -> None:
    """Of a log with a hole and headers of zeros: each message that is left, and one for each that is lost."""
    root = store.copy_to(tmp_path / "ledger")
    there = {
        (message.topic, message.queue_id, message.queue_offset): message.uniq_key
        for message in rmqtool.open(root).messages()
    }
    for number, file in enumerate(sorted((root / "dledger-n0" / "data").iterdir())):
        data = bytearray(file.read_bytes())
        data[:48] = bytes(48)
        if number == 1:
            data[2000 : 2000 + HOLE] = bytes(HOLE)
        file.write_bytes(data)
    report = rmqtool.open(root, broker_conf=store.conf).salvage(tmp_path / "plain")
    conf = plain_conf(store.conf, tmp_path / "broker.conf")
    (rows,) = jvm.serve(store.version, [jvm.Found(tmp_path / "plain", conf)], append=APPENDED, restart=True)
    assert report.lost.proven == report.lost.placed == len(there) - report.records > 0
    for phase in ("as-found", "after-append", "after-restart"):
        shown = served(rows, phase)
        keys = {place: shown[place].get("uniqKey") for place in there}
        assert len([place for place in there if keys[place] == there[place]]) == report.records
    appended = served(rows, "after-restart").keys() - served(rows, "as-found").keys()
    assert len(appended) >= APPENDED
    left = rmqtool.open(tmp_path / "plain", broker_conf=conf).verify()
    assert not [finding for finding in left.findings if finding.code.severity == "error"]
