"""``offsets`` on real stores, and on config files as brokers write them."""

from __future__ import annotations

import json
import shutil
import struct
from typing import TYPE_CHECKING, Any

import pytest

from tests.cli.conftest import STORES
from tests.schemas.validating import defects
from tests.store.fixture_stores import fixture

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.runs import Run

VERSIONS = ("4.9.8", "5.3.3")


def by_place(found: Run) -> dict[tuple[str, str, int], dict[str, Any]]:
    return {(row["reader"], row["topic"], row["queueId"]): row for row in found.objects[:-1]}


def write(root: Path, name: str, text: str | bytes) -> None:
    (root / "config").mkdir(exist_ok=True)
    (root / "config" / name).write_bytes(text.encode() if isinstance(text, str) else text)


@pytest.mark.parametrize("version", VERSIONS)
def test_what_brokers_wrote_is_held_against_their_queues(run: Callable[..., Run], version: str) -> None:
    """Bare integer keys; queues that a group has not begun count in full, as in mqadmin."""
    store = STORES / f"plain-{version}"
    found = run("offsets", store, "--format", "ndjson")
    assert (found.status, found.err) == (0, "")
    rows = by_place(found)
    begun = rows["group billing", "Orders", 0]
    assert (begun["offset"], begun["maxOffset"], begun["lag"], begun["state"]) == (9, 12, 3, "ok")
    other = rows["group billing", "Orders", 7]
    assert (other["offset"], other["lag"], other["state"]) == (None, 10, "no-offset")
    words = ("--topic", "Orders", "--queue", 0, "--queue-offset", 8, "--max", 1, "--format", "ndjson")
    (message,) = run("query", store, *words).objects
    assert begun["lastTimestamp"] == message["storeTimestamp"]
    summary = found.objects[-1]
    assert summary["readers"]["group billing"] == {"queues": 3, "lag": 23, "outOfRange": 0}


def test_a_lag_of_queues_that_are_not_read_is_not_known(run: Callable[..., Run], tmp_path: Path) -> None:
    root = tmp_path / "store"
    shutil.copytree(STORES / "plain-5.5.1", root)
    shutil.rmtree(root / "consumequeue")
    (root / "consumequeue_rocksdb").mkdir()
    (root / "consumequeue_rocksdb" / "CURRENT").write_text("MANIFEST-000004\n")
    document = run("offsets", root, "--format", "json").document
    assert {total["lag"] for total in document["readers"].values()} == {None}
    assert defects("offsets", document) == []


@pytest.mark.parametrize("version", VERSIONS)
def test_delay_levels_are_readers(run: Callable[..., Run], version: str) -> None:
    rows = by_place(run("offsets", STORES / f"delay-{version}", "--format", "ndjson"))
    assert rows["delay level 3", "SCHEDULE_TOPIC_XXXX", 2]["offset"] == 0
    assert {row["state"] for row in rows.values()} == {"ok"}
    found = run("offsets", STORES / f"delay-{version}", "--group", "*")
    assert (found.status, found.out) == (1, "")


@pytest.mark.parametrize("version", VERSIONS)
def test_light_queues_have_one_number_a_group(run: Callable[..., Run], tmp_path: Path, version: str) -> None:
    """``LmqConsumerOffsetManager`` writes both tables into one file; the ordinary one is not read then."""
    root = shutil.copytree(STORES / f"lmq-{version}", tmp_path / "store")
    light = (
        '{"dataVersion":{"counter":1},"lmqOffsetTable":{"%LMQ%all@%LMQ%g":3},"offsetTable":{"Mqtt@h":{0:1}}}'
    )
    write(root, "lmqConsumerOffset.json", light)
    rows = by_place(run("offsets", root, "--format", "ndjson"))
    assert rows["group %LMQ%g", "%LMQ%all", 0]["state"] == "ok"
    assert rows["group h", "Mqtt", 0]["offset"] == 1
    write(root, "consumerOffset.json", '{"offsetTable":{"Mqtt@old":{0:1}}}')
    assert "with enableLmq" in run("offsets", root).err


def test_the_timer_is_a_reader_of_its_topic(run: Callable[..., Run], tmp_path: Path) -> None:
    """``TimerCheckpoint``: the third number is where the timer goes on in rmq_sys_wheel_timer."""
    root = shutil.copytree(STORES / "plain-5.3.3", tmp_path / "store")
    shutil.copytree(root / "consumequeue" / "TopicTest", root / "consumequeue" / "rmq_sys_wheel_timer")
    write(root, "timercheck", struct.pack(">7q", 1795231720000, 52, 20, 0, 0, 0, 0).ljust(4096, b"\0"))
    row = by_place(run("offsets", root, "--format", "ndjson"))["timer", "rmq_sys_wheel_timer", 0]
    assert (row["file"], row["offset"], row["lag"]) == ("config/timercheck", 20, 4)
    write(root, "timercheck", b"\0" * 20)
    assert run("offsets", root, "--topic", "rmq_sys_wheel_timer").status == 1


def test_offsets_out_of_range_are_warnings(run: Callable[..., Run], plain_copy: Path) -> None:
    table = {"TopicTest@g": {"0": 10**6, "1": 1}, "Gone@g": {"0": 1}}
    write(plain_copy, "consumerOffset.json", json.dumps({"offsetTable": table}))
    found = run("offsets", plain_copy, "--format", "ndjson")
    states = {place[1:]: (row["state"], row["lag"]) for place, row in by_place(found).items()}
    assert states["Gone", 0] == ("no-queue", None)
    assert states["TopicTest", 0] == ("ahead", 0)
    assert states["TopicTest", 1] == ("ok", 24)
    assert states["TopicTest", 2] == ("no-offset", 25)
    assert found.objects[-1]["counts"] == {"OF-AHEAD": 1}
    assert found.status == 0
    assert run("offsets", plain_copy, "--fail-on", "warning").status == 1
    out = run("offsets", plain_copy, "--out-of-range").out
    assert "TopicTest" in out
    assert "Gone" not in out


def test_expired_messages_are_no_lag(run: Callable[..., Run], tmp_path: Path) -> None:
    root = shutil.copytree(STORES / "expiredhead-5.3.3", tmp_path / "store")
    write(root, "consumerOffset.json", '{"offsetTable":{"TopicTest@late":{0:3}}}')
    row = by_place(run("offsets", root, "--format", "ndjson"))["group late", "TopicTest", 0]
    assert (row["state"], row["lag"]) == ("behind", row["maxOffset"] - row["minOffset"])
    assert row["lastTimestamp"] is None


@pytest.mark.parametrize("text", ["{nonsense", "{" * 100_000, '{"offsetTable":', "\0" * 64])
def test_a_file_that_is_no_json_makes_the_answer_incomplete(
    run: Callable[..., Run], tmp_path: Path, text: str
) -> None:
    root = shutil.copytree(STORES / "delay-5.3.3", tmp_path / "store")
    write(root, "consumerOffset.json", text)
    found = run("offsets", root)
    assert found.status == 1
    assert "consumerOffset.json" in found.err
    assert "delay level 3" in found.out
    assert run("offsets", root, "--fail-on", "never").status == 0
    write(root, "consumerOffset.json.bak", '{"offsetTable":{"Now@g":{0:1}}}')
    assert run("offsets", root).status == 0


@pytest.mark.parametrize(
    "text",
    [
        "[]",
        '{"offsetTable":[1]}',
        '{"offsetTable":{"noGroup":{"0":1},"T@g":"x","U@g":{"-1":1,"x":2,"0":"three","1":-5}}}',
    ],
)
def test_what_no_broker_writes_is_passed_over(run: Callable[..., Run], plain_copy: Path, text: str) -> None:
    write(plain_copy, "consumerOffset.json", text)
    found = run("offsets", plain_copy)
    assert (found.status, found.out) == (1, "")
    assert "no offsets" in found.err


def test_a_store_without_config_says_so(run: Callable[..., Run], plain_copy: Path) -> None:
    shutil.rmtree(plain_copy / "config")
    found = run("offsets", plain_copy)
    assert (found.status, found.out) == (1, "")
    assert "consumerOffset.json" in found.err
    assert run("offsets", plain_copy / "index").status == 2


def test_several_topics(run: Callable[..., Run], plain: Path) -> None:
    rows = run("offsets", plain, "-t", "Orders", "-t", "TopicT*", "--format", "ndjson").objects[:-1]
    assert {row["topic"] for row in rows} == {"Orders", "TopicTest"}


@pytest.mark.parametrize(("data", "state"), [(b"", "empty"), (bytes(300), "zero-filled")])
def test_a_file_that_holds_nothing_is_called_that(
    run: Callable[..., Run], tmp_path: Path, data: bytes, state: str
) -> None:
    root = shutil.copytree(fixture("plain-5.3.3"), tmp_path / "store")
    (root / "config" / "consumerOffset.json").write_bytes(data)
    found = run("offsets", root)
    assert found.status == 1
    assert f"{root}/config/consumerOffset.json is {state}" in found.err
    assert "no offsets in" in found.err
    assert "nothing in consumerOffset.json" in found.err


def test_queues_of_a_database_are_not_missing(run: Callable[..., Run], tmp_path: Path) -> None:
    root = shutil.copytree(fixture("plain-5.3.3"), tmp_path / "store")
    shutil.rmtree(root / "consumequeue")
    found = run("offsets", root, "-p", "storeType=defaultRocksDB")
    assert "without a queue" not in found.out
    assert "4 in RocksDB, not read" in found.out
    assert "offsets, lag not known," in found.out


def test_offsets_of_a_database_are_named(run: Callable[..., Run], tmp_path: Path) -> None:
    root = shutil.copytree(fixture("plain-5.3.3"), tmp_path / "store")
    (root / "config/consumerOffset.json").unlink()
    (root / "config/consumerOffsets").mkdir()
    found = run("offsets", root)
    assert (found.status, found.out) == (1, "")
    assert "config/consumerOffsets/ holds them, a RocksDB database, which is not read" in found.err
