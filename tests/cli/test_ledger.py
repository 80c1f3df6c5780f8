"""Logs of DLedger, of released brokers: read, compared and rebuilt like plain ones."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING

import pytest

import rmqtool
from rmqtool.errors import EnvironmentFailureError
from rmqtool.formats.entry import ENTRIES, ENTRY_MAGIC, ENTRY_UNITS
from rmqtool.formats.framing import DLEDGER, PLAIN
from rmqtool.store import open_store
from rmqtool.store.layouts import Deed
from tests.broker.compare import compare_derived
from tests.broker.stores import LEDGERS, ledger_stores

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.broker.stores import FixtureStore
    from tests.runs import Run

STORES = pytest.mark.parametrize("store", ledger_stores(), ids=lambda store: store.name)
CONVERTED = LEDGERS / "dledgerconverted-5.5.1"


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return shutil.copytree(CONVERTED, tmp_path / "store")


@STORES
def test_each_entry_names_its_place_and_has_a_unit(store: FixtureStore) -> None:
    """What the tables of `rmqtool.formats.entry` say, and that no message is left out."""
    log = open_store(store.root).log
    units = next(store.root.glob("dledger-n0/index/*")).read_bytes()
    entries = 0
    for message in rmqtool.open(store.root).messages():
        segment = log.segment_at(message.physical_offset)
        assert segment is not None
        if segment.framing is DLEDGER:
            place = message.physical_offset - ENTRIES.size
            header = ENTRIES.decode(segment.read_at(place - segment.start, ENTRIES.size, []))
            unit = ENTRY_UNITS.decode(units, entries * ENTRY_UNITS.size)
            assert header is not None
            assert header[:5] == (ENTRY_MAGIC, ENTRIES.size + message.total_size, entries, 0, place)
            assert header.body_length == message.total_size
            assert unit == (ENTRY_MAGIC, place, header.size, entries, 0)
            entries += 1
    assert entries * ENTRY_UNITS.size == len(units)


@STORES
def test_the_whole_log_is_read(store: FixtureStore, run: Callable[..., Run]) -> None:
    conf = ("-c", store.conf)
    messages = run("dump", store.root, *conf, "--type", "commitlog", "--format", "ndjson").objects
    assert sum(row["type"] == "message" for row in messages) == store.recipe["records"]
    assert not [row for row in messages if row["type"] == "damage" and row["code"] != "CL-TAIL-ZERO"]
    for row in [one for one in messages if one["type"] == "message"][::9]:
        shown = run("query", store.root, *conf, "--offset", row["physicalOffset"], "--format", "ndjson")
        assert shown.objects[0]["msgId"] == row["msgId"]
        if row["keys"]:
            asked = ("-t", row["topic"], "-k", row["keys"][0], "--format", "ndjson")
            answers = run("query", store.root, *conf, *asked).objects
            assert row["physicalOffset"] in {one["physicalOffset"] for one in answers}
    topics = run("topics", store.root, *conf, "--format", "json")
    assert (topics.status, topics.err) == (0, "")
    assert sum(row["messages"] for row in topics.document["rows"]) == store.recipe["records"]


@STORES
def test_queues_and_index_agree_with_the_log(store: FixtureStore, run: Callable[..., Run]) -> None:
    report = run("verify", store.root, "-c", store.conf, "--format", "json")
    assert report.status == 0
    allowed = {"ST-DLEDGER-LOG", "ST-ABORT", "CL-TAIL-ZERO", "ST-COMPACTION", "ST-ROCKSDB-BESIDE"}
    assert report.document["counts"].keys() <= allowed | {"CL-PREALLOC"}
    assert report.document["examined"]["records"] == store.recipe["records"]


@STORES
def test_a_rebuild_gives_the_files_of_the_broker(store: FixtureStore, tmp_path: Path) -> None:
    made = rmqtool.open(store.root, broker_conf=store.conf).rebuild(out=tmp_path / "made", compare=True)
    assert compare_derived(store.root, tmp_path / "made") == []
    assert made.present is not None
    assert (made.present.fewer_messages, made.present.more_messages, made.present.unread) == (0, 0, ())
    assert made.compared
    assert not made.differences


@STORES
def test_a_message_is_shown_with_its_entry(store: FixtureStore, run: Callable[..., Run]) -> None:
    data = min((store.root / "dledger-n0" / "data").iterdir())
    rows = run("dump", data, "--hex", "--format", "ndjson").objects
    header = rows[1 : 1 + len(ENTRIES.make([0] * 9))]
    assert [row["name"] for row in header][:5] == [
        f"entry.{name}" for name in ("magic", "size", "index", "term", "pos")
    ]
    assert header[0]["position"] == rows[0]["position"] - ENTRIES.size
    assert header[4]["value"] == int(data.name)


@STORES
def test_an_index_of_a_sound_store_lacks_no_message(store: FixtureStore) -> None:
    """An entry begins before its record: the first one of an index file is none between two files."""
    answer = rmqtool.open(store.root, broker_conf=store.conf).query(topic="TopicTest", key="nobody")
    assert (list(answer), answer.warnings) == ([], ())


def test_a_converted_store_is_one_log() -> None:
    store = open_store(CONVERTED)
    assert [segment.framing for segment in store.log] == [PLAIN] * 2 + [DLEDGER] * 3
    assert list(store.log.gaps()) == []
    lone = open_store(CONVERTED / "dledger-n0" / "data")
    assert [segment.framing for segment in lone.log] == [DLEDGER] * 3


def test_several_members_are_told_apart_by_the_settings(root: Path) -> None:
    shutil.copytree(root / "dledger-n0", root / "dledger-n1")
    assert not open_store(root).can(Deed.READ_LOG)
    assert [segment.framing for segment in open_store(root).log] == [PLAIN] * 2
    named = open_store(root, properties=["dLegerSelfId=n1"])
    assert named.log.segments[-1].label.startswith("dledger-n1/")
    barred = [feature.label for feature in named.bars(Deed.READ_LOG)]
    assert barred == ["dledger-n0"]  # a copy of the log that is not compared


@pytest.mark.parametrize("setting", ["enableDLegerCommitLog=false", "dLegerSelfId=n7"])
def test_a_member_that_settings_exclude_is_not_read(root: Path, setting: str) -> None:
    store = open_store(root, properties=[setting])
    assert len(store.log) == 2
    assert not store.can(Deed.READ_LOG)


def test_entries_that_do_not_follow_the_older_files_are_not_read(root: Path) -> None:
    """Of a broker that went back to plain files: both begin at 0."""
    for number, file in enumerate(sorted((root / "dledger-n0" / "data").iterdir())):
        file.rename(file.with_name(f"{number * 8192:020d}"))
    assert not open_store(root).can(Deed.READ_LOG)


def test_a_member_as_a_whole_is_refused_in_a_sentence(run: Callable[..., Run]) -> None:
    with pytest.raises(EnvironmentFailureError, match="is a member of a DLedger group: give data/ or"):
        open_store(CONVERTED / "dledger-n0")
    for place in ("index", "checkpoint", "currterm"):
        refused = run("verify", CONVERTED / "dledger-n0" / place)
        assert (refused.status, refused.out) == (3, "")
        assert "use dump to show them" in refused.err


@STORES
def test_units_of_entries_are_shown(store: FixtureStore, run: Callable[..., Run]) -> None:
    index = store.root / "dledger-n0" / "index"
    units = run("dump", index, "--format", "ndjson").objects
    log, number = open_store(store.root).log, 0
    for message in rmqtool.open(store.root).messages():
        segment = log.segment_at(message.physical_offset)
        if segment is not None and segment.framing is DLEDGER:
            shown, pos = units[number], message.physical_offset - ENTRIES.size
            assert (shown["index"], shown["pos"], shown["position"]) == (number, pos, number * 32)
            assert (shown["type"], shown["size"]) == ("entry-unit", ENTRIES.size + message.total_size)
            number += 1
    assert len(units) == number
    assert run("dump", store.root, "--rows", "entry-unit", "--format", "ndjson").objects == units
    fields = run("dump", next(index.iterdir()), "--limit", "1", "--hex", "--format", "ndjson").objects[1:]
    assert [field["name"] for field in fields] == ["magic", "pos", "size", "index", "term"]
    assert sum(field["size"] for field in fields) == ENTRY_UNITS.size


def test_damaged_units_are_shown_as_damage(root: Path, run: Callable[..., Run]) -> None:
    (file,) = (root / "dledger-n0" / "index").iterdir()
    data = bytearray(file.read_bytes())
    data[64:96], data[128:160] = bytes(32), b"\xff" * 32
    file.write_bytes(bytes(data[:-5]))
    shown = run("dump", file, "--format", "ndjson")
    damage = [row for row in shown.objects if row["type"] == "damage"]
    assert [(row["code"], row["position"]) for row in damage] == [
        *(("DL-UNIT", 64), ("DL-UNIT", 128)),
        ("DL-UNIT", len(data) - 32),
    ]
    assert shown.status == 0  # a start makes all units again
    copy = root.parent / "copied"
    copy.write_bytes(data)
    assert run("dump", copy, "--limit", "1", "--format", "ndjson").objects[0]["type"] == "entry-unit"
    file.rename(file.with_name("00000000000000000032"))
    assert "DL-UNIT" in run("dump", file.parent, "--limit", "1").out
    assert run("dump", file.with_name("00000000000000000032"), "--rows", "unit").status == 2


def test_progress_of_a_member_is_shown_as_settings(root: Path, run: Callable[..., Run]) -> None:
    member = root / "dledger-n0"
    shown = [run("dump", member / name, "--format", "ndjson").objects for name in ("checkpoint", "currterm")]
    values = {row["name"]: row["value"] for rows in shown for row in rows}
    assert values == {"committedIndex": 49, "endIndex": 49, "voteLeader": "n0", "currTerm": 0}
    rows = run("dump", root, "--rows", "config-entry", "--format", "ndjson").objects
    assert [row for row in rows if row["file"].startswith("dledger-n0/")] == [*shown[0], *shown[1]]
    shutil.copy(member / "checkpoint", member / "checkpoint.bak")
    for text in (
        b"",
        b"\xff" * 90,
        b"committedIndex=\\uzzzz",
        b"committedIndex=" + b"9" * 5000,
        b"endIndex=3",
    ):
        (member / "checkpoint").write_bytes(text)
        broken = run("dump", root, "--rows", "config-entry", "--format", "ndjson")
        files = [row["file"] for row in broken.objects if row.get("code") == "ST-CONFIG"]
        assert files == ["dledger-n0/checkpoint"]
        names = [row["name"] for row in broken.objects if row["file"] == "dledger-n0/checkpoint.bak"]
        assert names == ["committedIndex", "endIndex"]


def test_term_and_committed_entry_are_named(run: Callable[..., Run], root: Path) -> None:
    part = run("info", root, "--format", "json").document["otherParts"][-1]
    assert part["note"] == "in term 0, committed up to entry 49"
    (root / "dledger-n0" / "checkpoint").write_bytes(b"\xff" * 90)
    (root / "dledger-n0" / "currterm").unlink()
    assert "dledger-n0: in term ?, committed up to entry ?" in run("info", root).out


def test_no_way_out_is_advised_that_is_refused(run: Callable[..., Run], tmp_path: Path) -> None:
    """A start cuts a log whose second newest files are damaged, or does not go: salvage keeps the rest."""
    whole = LEDGERS / "dledger-5.3.3"
    root = tmp_path / "damaged"
    shutil.copytree(whole, root)
    file = sorted(root.glob("dledger-*/data/*"))[1]
    data = bytearray(file.read_bytes())
    data[2000:2100] = bytes(100)
    file.write_bytes(data)
    verified = run("verify", root)
    assert verified.status == 5
    assert f"Next: rmqtool salvage {root} --out {root}.salvaged" in verified.out
    assert run("salvage", root, "--out", f"{root}.salvaged").status == 5
    assert run("verify", f"{root}.salvaged").status == 0
    lines = (("repair", root, "--plan"), ("rebuild", root, "--dry-run"), ("diff", root, whole))
    for ran in (verified, *(run(*words) for words in lines)):
        assert "--predict-recovery" not in ran.out + ran.err
