"""A converted store in the broker that goes on with it, beside what that served with DLedger."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pytest

import rmqtool
from tests.broker import jvm
from tests.broker.ahead import begun
from tests.broker.stores import ledger_stores, whole_entry_index

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from rmqtool import ConvertReport, SalvageReport
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


@dataclass(frozen=True)
class Served:
    """What brokers served of one store.

    Attributes:
        old: Of its log of DLedger.
        converted: The store that it was converted to; what became of it.
        new: Of the converted store.
        report: Of the conversion.
        salvaged: The store that was salvaged of its log with a hole and headers of zeros.
        left: Of the salvaged store.
        rescue: Report of the salvage.
    """

    old: list[jvm.Row]
    converted: jvm.Found
    new: list[jvm.Row]
    report: ConvertReport
    salvaged: jvm.Found
    left: list[jvm.Row]
    rescue: SalvageReport


def with_holes(root: Path) -> Path:
    """Zero the headers of a log's files, and a part of the second; return the root."""
    for number, file in enumerate(sorted((root / "dledger-n0" / "data").iterdir())):
        data = bytearray(file.read_bytes())
        data[:48] = bytes(48)
        if number == 1:
            data[2000 : 2000 + HOLE] = bytes(HOLE)
        file.write_bytes(data)
    return root


def serve(stores: list[FixtureStore], folder: Path) -> dict[FixtureStore, Served]:
    """Convert and salvage stores of one version, and let brokers serve the old ones and go on with these."""
    ledgers, converted, salvaged, reports, rescues = [], [], [], [], []
    for number, store in enumerate(stores):
        (own := folder / str(number)).mkdir()
        conf = plain_conf(store.conf, own / "broker.conf")
        ledgers.append(jvm.Found(whole_entry_index(store.copy_to(own / "ledger")), store.conf))
        converted.append(jvm.Found(own / "converted", conf))
        salvaged.append(jvm.Found(own / "salvaged", conf))
        with rmqtool.open(store.root, broker_conf=store.conf) as opened:
            reports.append(opened.convert(converted[-1].root))
        with rmqtool.open(with_holes(store.copy_to(own / "holed")), broker_conf=store.conf) as opened:
            rescues.append(opened.salvage(salvaged[-1].root))
    version = stores[0].version
    old = jvm.serve(version, ledgers)
    rows = jvm.serve(version, [*converted, *salvaged], append=APPENDED, restart=True)
    new, left = rows[: len(stores)], rows[len(stores) :]
    parts = zip(old, converted, new, reports, salvaged, left, rescues, strict=True)
    return {store: Served(*part) for store, part in zip(stores, parts, strict=True)}


@pytest.fixture(scope="module")
def served_of(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Callable[[FixtureStore], Served]]:
    folder = tmp_path_factory.mktemp("converted")
    with begun(request, "store", folder, group=lambda store: store.version, run=serve) as running:
        yield running


EVERY = pytest.mark.parametrize("store", ledger_stores(), ids=lambda store: store.name)


@EVERY
def test_a_broker_without_dledger_goes_on(
    store: FixtureStore, served_of: Callable[[FixtureStore], Served]
) -> None:
    """It serves each message at its queue offset and by its keys, appends behind them, and starts again."""
    gone_on = served_of(store)
    messages = rmqtool.open(store.root, broker_conf=store.conf).messages()
    there = {(each.topic, each.queue_id, each.queue_offset): each.uniq_key for each in messages}
    assert len(there) == gone_on.report.messages == store.recipe["records"]
    for phase in ("as-found", "after-append", "after-restart"):
        shown = {place: row | {"phase": "as-found"} for place, row in served(gone_on.new, phase).items()}
        assert {place: shown[place].get("uniqKey") for place in there} == there
        expected = served(gone_on.old, "as-found")  # a killed one may still be dispatching
        assert {place: shown[place] for place in there if place in expected} == expected
        asked, answers = answered(gone_on.old, "as-found"), answered(gone_on.new, phase)
        for question, places in asked.items():
            assert places & there.keys() <= answers[question], question
    assert_appended(gone_on.new)
    assert_sound(gone_on.converted)


@EVERY
def test_a_broker_without_dledger_goes_on_with_what_is_salvaged(
    store: FixtureStore, served_of: Callable[[FixtureStore], Served]
) -> None:
    """Of a log with a hole and headers of zeros: each message that is left, and one for each that is lost."""
    gone_on = served_of(store)
    messages = rmqtool.open(store.root).messages()
    there = {(each.topic, each.queue_id, each.queue_offset): each.uniq_key for each in messages}
    assert gone_on.rescue.lost.proven == gone_on.rescue.lost.placed == len(there) - gone_on.rescue.records > 0
    for phase in ("as-found", "after-append", "after-restart"):
        shown = served(gone_on.left, phase)
        keys = {place: shown[place].get("uniqKey") for place in there}
        assert len([place for place in there if keys[place] == there[place]]) == gone_on.rescue.records
    assert_appended(gone_on.left)
    assert_sound(gone_on.salvaged)


def assert_appended(rows: list[jvm.Row]) -> None:
    appended = served(rows, "after-restart").keys() - served(rows, "as-found").keys()
    assert len(appended) >= APPENDED


def assert_sound(found: jvm.Found) -> None:
    report = rmqtool.open(found.root, broker_conf=found.conf).verify()
    assert not [finding for finding in report.findings if finding.code.severity == "error"]
