"""``dump`` on real stores: the ndjson contract, filters, formats, damage."""

from __future__ import annotations

import csv
import io
import json
import os
import resource
import zlib
from typing import TYPE_CHECKING, Any

import pytest

from rmqtool.formats import consumequeue, index, struct_of
from tests.check.log_store import Log, with_record_crc
from tests.damage.cases import load_cases
from tests.damage.running import damaged_copy
from tests.scan.log_builder import record
from tests.store.fixture_stores import fixture

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.damage.cases import Case
    from tests.runs import Run

_UNIT_NAMES = "type file position topic queueId queueOffset physicalOffset size tagsCode"
_NAMES = {
    "message": (
        "type file position physicalOffset totalSize magic bodyCrc queueId flag queueOffset sysFlag"
        " transactionType bornTimestamp bornHost storeTimestamp storeHost reconsumeTimes"
        " preparedTransactionOffset topic bodyLength body bodyEncoding properties tags keys uniqKey tagsCode"
        " msgId explanation damage"
    ),
    "blank": "type file position physicalOffset totalSize",
    "unit": _UNIT_NAMES,
    "preblank": _UNIT_NAMES,
    "index-header": (
        "type file beginTimestamp endTimestamp beginPhyOffset endPhyOffset hashSlotCount indexCount"
    ),
    "slot": "type file slot item",
    "item": "type file item slot keyHash physicalOffset timeDiff previous",
    "checkpoint": (
        "type physicMsgTimestamp logicsMsgTimestamp indexMsgTimestamp masterFlushedOffset confirmPhyOffset"
        " logicsPhysicalOffset"
    ),
    "damage": "type file position physicalOffset length code message",
    "batch-unit": (
        "type file position topic queueId physicalOffset size tagsCode storeTimestamp msgBaseOffset batchSize"
        " compactedOffset"
    ),
    "ext-unit": "type file position topic queueId address size tagsCode storeTimestamp bitMap",
    "chain": "type file slot items ends",
    "config-entry": "type file table name value",
}
FIELDS = {kind: names.split() for kind, names in _NAMES.items()}


def of_type(found: Run, kind: str) -> list[dict[str, Any]]:
    return [one for one in found.objects if one["type"] == kind]


@pytest.mark.few(10)
def test_every_real_store_is_clean_and_keeps_the_contract(run: Callable[..., Run], any_store: Path) -> None:
    found = run("dump", any_store, "--format", "ndjson", "--slots", "--chains")
    assert (found.status, found.err) == (0, "")
    assert {one["type"]: list(one) for one in found.objects} == {
        one["type"]: FIELDS[one["type"]] for one in found.objects
    }
    codes = {one["code"] for one in of_type(found, "damage")}
    pages = (
        {"CL-GHOST", "CL-TAIL-DIRTY"} if any_store.name.startswith("page") else set()
    )  # written by whole ones
    assert codes <= {"CL-TAIL-ZERO", "CL-PREALLOC"} | pages


@pytest.mark.few(10)
def test_units_and_items_of_every_real_store_point_to_messages(
    run: Callable[..., Run], any_store: Path
) -> None:
    """What the broker wrote into queues and index agrees with what is read from the log."""
    found = run("dump", any_store, "-c", any_store / "broker.conf", "--format", "ndjson")
    messages = {one["physicalOffset"]: one for one in of_type(found, "message")}
    log_start = min(messages)
    units = [one for one in of_type(found, "unit") if one["physicalOffset"] >= log_start]
    assert units or of_type(found, "batch-unit")
    for unit in units:
        message = messages[unit["physicalOffset"]]
        assert unit["size"] == message["totalSize"]
        if unit["topic"] == message["topic"]:
            assert (unit["queueId"], unit["queueOffset"]) == (message["queueId"], message["queueOffset"])
            if unit["tagsCode"] > consumequeue.EXT_ADDRESS_MAX:
                assert unit["tagsCode"] == message["tagsCode"]
    for item in of_type(found, "item"):
        assert item["physicalOffset"] in messages or item["physicalOffset"] < log_start


@pytest.mark.parametrize(
    "part", ["commitlog", "consumequeue", "consumequeue/TopicTest", "index", "checkpoint"]
)
def test_a_part_shows_itself_only(run: Callable[..., Run], plain: Path, part: str) -> None:
    kinds = {
        "commitlog": {"message", "blank", "damage"},
        "index": {"index-header", "item"},
        "checkpoint": {"checkpoint"},
    }
    found = run("dump", plain / part, "--format", "ndjson")
    assert found.status == 0
    assert {one["type"] for one in found.objects} == kinds.get(part, {"unit"})


def test_one_file_of_each_kind(run: Callable[..., Run], plain: Path) -> None:
    log = run("dump", plain / "commitlog" / f"{8192:020d}", "--format", "ndjson")
    assert {one["file"] for one in log.objects} == {f"commitlog/{8192:020d}"}
    queue = run("dump", plain / "consumequeue" / "TopicTest" / "1" / f"{200:020d}", "--format", "ndjson")
    assert [one["queueOffset"] for one in queue.objects] == list(range(10, 20))
    assert {(one["topic"], one["queueId"]) for one in queue.objects} == {("TopicTest", 1)}


def test_a_log_file_under_another_name_is_placed_by_its_first_record(
    run: Callable[..., Run], plain: Path, tmp_path: Path
) -> None:
    lone = tmp_path / "carved.bin"
    lone.write_bytes((plain / "commitlog" / f"{8192:020d}").read_bytes())
    found = run("dump", lone, "--format", "ndjson")
    assert found.status == 0
    assert not of_type(found, "damage")
    assert of_type(found, "message")[0]["physicalOffset"] == 8192


def test_type_chooses_one_structure_of_a_store(run: Callable[..., Run], plain: Path) -> None:
    found = run("dump", plain, "--type", "checkpoint", "--format", "ndjson")
    assert [one["type"] for one in found.objects] == ["checkpoint"]


@pytest.mark.parametrize(
    ("words", "holds"),
    [
        (("--topic", "Top*"), lambda one: one["topic"] == "TopicTest"),
        (("--topic", "Orders", "--queue", "7"), lambda one: (one["topic"], one["queueId"]) == ("Orders", 7)),
        (("--tag", "TagB"), lambda one: one["tags"] == "TagB"),
        (("--key", "order-3"), lambda one: "order-3" in one["keys"]),
        (("--from-offset", "8000", "--to-offset", "9000"), lambda one: 8000 <= one["physicalOffset"] < 9000),
        (("--from-queue-offset", "5"), lambda one: one["queueOffset"] >= 5),
    ],
)
def test_filters_keep_exactly_what_they_say(
    run: Callable[..., Run], plain: Path, words: tuple[str, ...], holds: Callable[[dict[str, Any]], bool]
) -> None:
    log = plain / "commitlog"
    expected = [one for one in of_type(run("dump", log, "--format", "ndjson"), "message") if holds(one)]
    assert expected
    assert of_type(run("dump", log, "--format", "ndjson", *words), "message") == expected


def test_several_topics_are_shown_whatever_the_format(run: Callable[..., Run], tmp_path: Path) -> None:
    store = fixture("plain-5.5.1")
    two = ("-t", "Topic*", "--topic", "Orders")
    counts = dict.fromkeys(("TopicTest", "Orders"), 0)
    for row in of_type(run("dump", store, *two, "--format", "ndjson"), "message"):
        counts[row["topic"]] += 1
    assert counts == {"TopicTest": 97, "Orders": 32}
    assert len(run("dump", store, *two, "--format", "replay").out.splitlines()) == 129
    assert len(of_type(run("dump", store / "consumequeue", *two, "--format", "ndjson"), "unit")) == 129
    assert len(of_type(run("dump", store, *two, "-t", "[P]ay*", "--format", "ndjson"), "message")) > 129
    run("export", store, *two, "--out", tmp_path / "out", "--format", "ndjson")
    (file,) = (tmp_path / "out").glob("*.ndjson")
    assert len(file.read_text().splitlines()) == 129
    report = json.loads((tmp_path / "out" / "_export.json").read_text())
    assert report["asked"]["messages"]["topic"] == ["Topic*", "Orders"]


def test_each_topic_that_is_not_there_is_named(run: Callable[..., Run], plain: Path) -> None:
    found = run("dump", plain, "-t", "TopicTset", "-t", "Orderz", "--format", "ndjson")
    assert found.status == 1
    assert "nothing for --topic TopicTset --topic Orderz" in found.err
    assert "no topic TopicTset; near it: TopicTest" in found.err
    assert "no topic Orderz; near it: Orders" in found.err


def test_times_bound_messages_inclusively(run: Callable[..., Run], plain: Path) -> None:
    times = [one["storeTimestamp"] for one in of_type(run("dump", plain, "--format", "ndjson"), "message")]
    begin, end = times[10], times[20]
    found = run("dump", plain, "--format", "ndjson", "-b", begin, "-e", end)
    assert [one["storeTimestamp"] for one in of_type(found, "message")] == [
        time for time in times if begin <= time <= end
    ]


def test_limit_counts_data(run: Callable[..., Run], plain: Path) -> None:
    assert len(of_type(run("dump", plain, "--format", "ndjson", "--limit", 3), "message")) == 3


def test_a_filter_that_says_nothing_about_a_file_is_a_usage_error(
    run: Callable[..., Run], plain: Path
) -> None:
    assert run("dump", plain / "checkpoint", "--topic", "T").status == 2
    assert run("dump", plain / "commitlog", "--slots").status == 2
    assert run("dump").status == 2


@pytest.mark.parametrize(("mode", "expected"), [("hex", "f09f9880"), ("base64", "8J+YgA=="), ("none", None)])
def test_bodies(run: Callable[..., Run], tmp_path: Path, mode: str, expected: str | None) -> None:
    from tests.scan.log_builder import open_file

    (tmp_path / "commitlog").mkdir()
    (tmp_path / "commitlog" / f"{0:020d}").write_bytes(open_file(0, 512, ["\U0001f600".encode()]))
    found = run("dump", tmp_path, "--format", "ndjson", "--body", mode)
    assert of_type(found, "message")[0]["body"] == expected


def test_formats_hold_the_same(run: Callable[..., Run], plain: Path) -> None:
    queue = plain / "consumequeue" / "TopicTest" / "0"
    objects = run("dump", queue, "--format", "ndjson").objects
    document = run("dump", queue, "--format", "json").document
    assert document == {"schema": "rmqtool.dump/2", "rows": objects, "exitStatus": 0}
    table = list(csv.DictReader(io.StringIO(run("dump", queue, "--format", "csv").out)))
    assert [{key: str(value) for key, value in one.items()} for one in objects] == table
    assert len(run("dump", queue).out.splitlines()) == len(objects) + 3 * 2 - 1  # a heading for each file


def test_layout_needs_no_path(run: Callable[..., Run]) -> None:
    found = run("dump", "--layout", "--type", "consumequeue", "--format", "ndjson")
    assert [(one["name"], one["offset"], one["size"]) for one in found.objects] == [
        ("physicalOffset", 0, 8),
        ("size", 8, 4),
        ("tagsCode", 12, 8),
    ]


def patch(path: Path, position: int, data: bytes) -> None:
    with path.open("r+b") as file:
        file.seek(position)
        file.write(data)


def test_damage_in_the_log_is_a_row_and_status_5(run: Callable[..., Run], plain_copy: Path) -> None:
    patch(plain_copy / "commitlog" / f"{0:020d}", 333, bytes(100))
    found = run("dump", plain_copy, "--format", "ndjson")
    assert found.status == 5
    damage = [one for one in of_type(found, "damage") if one["code"] == "CL-HOLE"]
    assert [(one["position"], one["physicalOffset"], one["length"]) for one in damage] == [(333, 333, 215)]
    assert len(of_type(found, "message")) == 162
    assert run("dump", plain_copy, "--fail-on", "never").status == 0
    stopped = run("dump", plain_copy / "commitlog", "--format", "ndjson", "--on-corrupt", "stop")
    assert [one["type"] for one in stopped.objects] == ["message", "damage"]
    failed = run("dump", plain_copy, "--format", "ndjson", "--on-corrupt", "fail")
    assert [one["type"] for one in failed.objects] == ["message", "damage"]
    assert (stopped.status, failed.status) == (5, 5)


def test_a_stale_record_checksum_is_what_verify_says_it_is(run: Callable[..., Run], tmp_path: Path) -> None:
    """A broker that appends none stores that of a message sent again: a warning, of verify and of dump."""
    stale = with_record_crc(4711)[-40:].rpartition(b"__CRC32#")[2]
    log = Log().fill(3)
    log.add(properties=b"KEYS\x01k\x02__CRC32#" + stale)
    log.add(properties=b"__CRC32#" + stale + b"KEYS\x01k\x02")  # in front of others no broker puts it
    log.write(tmp_path / "commitlog")
    verified = run("verify", tmp_path, "--level", "1", "--format", "ndjson")
    dumped = run("dump", tmp_path / "commitlog", "--format", "ndjson")
    wrong = [one for one in of_type(verified, "finding") if one["code"] == "CL-PROP-CRC"]
    places = [one["physicalOffset"] for one in of_type(dumped, "damage") if one["code"] == "CL-PROP-CRC"]
    assert [(one["physicalOffset"], one["severity"]) for one in wrong] == [(log.places[3], "warning")]
    assert (places, verified.status, dumped.status) == ([log.places[3]], 0, 0)
    assert run("dump", tmp_path / "commitlog", "--fail-on", "warning").status == 5
    assert run("dump", tmp_path / "commitlog", "--on-corrupt", "fail").status == 0


@pytest.mark.parametrize(
    "case", [one for one in load_cases() if one.code == "CL-PROP-CRC"], ids=lambda one: one.name
)
def test_a_wrong_record_checksum_where_brokers_append_them(
    case: Case, run: Callable[..., Run], tmp_path: Path
) -> None:
    root = damaged_copy(case, tmp_path)
    found = run("dump", root / "commitlog", "--format", "ndjson")
    assert [one["physicalOffset"] for one in of_type(found, "damage") if one["code"] == case.code] == [
        case.first["physicalOffset"]
    ]
    assert found.status == 5


def test_damage_in_a_queue_is_a_row_and_status_1(run: Callable[..., Run], plain_copy: Path) -> None:
    unit = struct_of(consumequeue.UNIT)
    file = plain_copy / "consumequeue" / "TopicTest" / "0" / f"{0:020d}"
    patch(file, 0, bytes(2 * unit.size) + unit.pack(-1, 5, 0))
    found = run(
        "dump", plain_copy / "consumequeue", "--format", "ndjson", "--topic", "TopicTest", "--queue", 0
    )
    assert found.status == 1
    damage = of_type(found, "damage")
    assert [(one["code"], one["position"], one["length"]) for one in damage] == [
        ("CQ-ZERO-INSIDE", 0, 40),
        ("CQ-BAD-UNIT", 40, 20),
    ]


def test_an_index_that_promises_too_much_is_read_as_far_as_it_goes(
    run: Callable[..., Run], plain_copy: Path
) -> None:
    file = sorted((plain_copy / "index").iterdir())[0]
    patch(file, index.HEADER_SIZE - 4, (2**31 - 1).to_bytes(4, "big"))
    found = run("dump", file, "--format", "ndjson", "-p", "maxHashSlotNum=25", "-p", "maxIndexNum=40")
    assert found.status == 1
    assert [one["code"] for one in of_type(found, "damage")] == ["IX-COUNT"]
    assert len(of_type(found, "item")) == 39


def test_hostile_names_are_harmless_on_a_terminal(run: Callable[..., Run], tmp_path: Path) -> None:
    from tests.scan.log_builder import record

    topic = "\x1b[31m[red]\u202e订单\n".encode()
    (tmp_path / "commitlog").mkdir()
    (tmp_path / "commitlog" / f"{0:020d}").write_bytes(
        record(0, topic=topic, body=b"\x1b]0;x\x07") + bytes(64)
    )
    for chosen in ("text", "ndjson", "json", "csv"):
        out = run("dump", tmp_path, "--format", chosen, "--body", "text").out
        assert "\x1b" not in out
        assert "\u202e" not in out
        assert "订单" in out
    assert of_type(run("dump", tmp_path, "--format", "ndjson"), "message")[0]["topic"] == topic.decode()


def test_bodies_as_files(run: Callable[..., Run], plain: Path, plain_copy: Path, tmp_path: Path) -> None:
    folder = tmp_path / "bodies"
    found = run("dump", plain / "commitlog", "--body-dir", folder, "--body", "hex", "--format", "ndjson")
    bodies = {
        f"{one['physicalOffset']:020d}.body": one["body"] for one in of_type(found, "message") if one["body"]
    }
    assert {path.name: path.read_bytes().hex() for path in folder.iterdir()} == bodies
    assert run("dump", plain / "commitlog", "--body-dir", folder).status == 4
    assert run("dump", plain_copy, "--body-dir", plain_copy / "bodies").status == 4
    assert not (plain_copy / "bodies").exists()


def test_a_body_is_complete_or_not_there(run: Callable[..., Run], plain: Path, tmp_path: Path) -> None:
    """A file that cannot grow to its length, as on a full disk, leaves nothing behind."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (40, hard))
    try:
        found = run("dump", plain / "commitlog", "--body-dir", tmp_path / "bodies", "--format", "ndjson")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert found.status == 3
    assert ".body: cannot be written" in found.err
    expected = run("dump", plain / "commitlog", "--body", "hex", "--format", "ndjson")
    bodies = {f"{one['physicalOffset']:020d}.body": one["body"] for one in of_type(expected, "message")}
    for path in (tmp_path / "bodies").iterdir():
        assert path.read_bytes().hex() == bodies[path.name]


@pytest.mark.few(7)
def test_a_range_of_one_queue_goes_through_the_queue(run: Callable[..., Run], any_store: Path) -> None:
    """The queue leads to the messages that a walk over the log finds, prepared ones aside."""
    words = ("dump", any_store, "-c", any_store / "broker.conf", "--format", "ndjson", "--type", "commitlog")
    in_queues = ("none", "commit")
    everything = [one for one in of_type(run(*words), "message") if one["transactionType"] in in_queues]
    topic, queue_id = everything[-1]["topic"], everything[-1]["queueId"]
    own = [one for one in everything if (one["topic"], one["queueId"]) == (topic, queue_id)]
    middle = own[len(own) // 2]
    for option, name in (("--from-queue-offset", "queueOffset"), ("--begin", "storeTimestamp")):
        found = run(*words, "--topic", topic, "--queue", queue_id, option, middle[name])
        expected = [one for one in own if one[name] >= middle[name]]
        assert of_type(found, "message") == expected


def test_a_range_through_the_queue_is_said(run: Callable[..., Run], plain: Path) -> None:
    words = ("dump", plain, "--topic", "TopicTest", "--queue", 0, "--from-queue-offset", 3)
    assert "through its consume queue" in run(*words).err


def test_a_doubt_on_the_way_through_the_queue_names_a_way_that_dump_has(
    run: Callable[..., Run], plain_copy: Path
) -> None:
    queue = min((plain_copy / "consumequeue" / "TopicTest" / "0").iterdir())
    data = bytearray(queue.read_bytes())
    data[20:28] = data[:8]
    queue.write_bytes(data)
    found = run("dump", plain_copy, "--topic", "TopicTest", "--queue", 0, "--from-queue-offset", 0)
    assert "may be incomplete, dump the commitlog directory" in found.err
    assert "--scan" not in found.err


def test_bodies_unpacked(run: Callable[..., Run], tmp_path: Path) -> None:
    from tests.scan.log_builder import record

    first = record(0, body=zlib.compress(b"hello"), sysFlag=1)
    second = record(len(first), body=b"no zlib", sysFlag=1)
    (tmp_path / "commitlog").mkdir()
    (tmp_path / "commitlog" / f"{0:020d}").write_bytes(first + second + bytes(64))
    found = run("dump", tmp_path, "--format", "ndjson", "--body", "text", "--decompress")
    assert [one["body"] for one in of_type(found, "message")] == ["hello", "no zlib"]
    assert found.status == 0
    assert "stays compressed" in found.err


def test_the_rest_of_a_body_is_counted_as_it_is_shown(run: Callable[..., Run], tmp_path: Path) -> None:
    """BODY length is that of the compressed body."""
    (tmp_path / "commitlog").mkdir()
    data = record(0, body=zlib.compress(b"x" * 1000), sysFlag=1)
    (tmp_path / "commitlog" / f"{0:020d}").write_bytes(data + bytes(64))
    assert f"{'x' * 48} … 952 bytes more\n" in run("dump", tmp_path, "--decompress", "--limit", 1).out


def test_only_rows_that_replace_nothing_do_not_wait_for_the_disk(
    run: Callable[..., Run], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A loss of power may take a new dump, and never the file that the dump replaces, or a report."""
    synced: list[int] = []
    monkeypatch.setattr(os, "fsync", synced.append)
    store, file = fixture("plain-5.5.1"), tmp_path / "rows.ndjson"
    waits = []
    for words in (("dump", store), ("dump", store), ("info", store)):
        assert run(*words, "-o", file).status == 0
        waits.append(len(synced))
        synced.clear()
    assert waits == [0, 1, 1]
