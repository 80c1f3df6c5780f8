"""``query`` against plain truth: what a walk over the log finds, the index and the queues must find too."""

from __future__ import annotations

import shutil
from collections import defaultdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import rmqtool
from rmqtool.commands.query import Query, QueryRequest
from rmqtool.formats import index, struct_of
from rmqtool.javacompat import index_key_hash, split_keys
from rmqtool.report.console import Console
from rmqtool.rows.messages import has_unit, offset_id_of
from rmqtool.scan.record_walk import walk
from rmqtool.scan.records import Record
from rmqtool.store import open_store
from tests.cli.conftest import STORES
from tests.scan.log_builder import record
from tests.store.fixture_stores import fixture

if TYPE_CHECKING:
    from collections.abc import Callable

    from rmqtool.store import Store
    from tests.runs import Run


def records_of(store: Store) -> list[Record]:
    return [event for event in walk(store.commitlog.segments) if isinstance(event, Record)]


def answers(store: Store, **question: Any) -> list[int]:  # noqa: ANN401 - any field of a question
    rows = Query(store, QueryRequest(**question), Console(quiet=True)).run()
    return [row.physical_offset for row in rows]


@pytest.mark.few(1)
def test_the_index_finds_what_the_log_holds(any_store: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Every key and unique key of every real store gives exactly its messages, hash collisions or not."""
    store = open_store(any_store, broker_conf=any_store / "broker.conf")
    by_key: dict[tuple[str, str], set[int]] = defaultdict(set)
    by_unique_key: dict[tuple[str, str], set[int]] = defaultdict(set)
    for one in records_of(store):
        if one.head.sys_flag & 0xC == 0xC:
            continue  # rolled back: never indexed
        for key in split_keys(one.properties.get("KEYS", "")):
            by_key[one.topic, key].add(one.physical_offset)
        if "UNIQ_KEY" in one.properties:
            by_unique_key[one.topic, one.properties["UNIQ_KEY"]].add(one.physical_offset)
    assert by_key or by_unique_key or any_store.name.startswith("indexempty")
    scan = not store.index_files
    for (topic, key), offsets in list(by_key.items())[:60]:
        assert answers(store, topic=topic, key=key, scan=scan) == sorted(offsets)
    for (topic, key), offsets in list(by_unique_key.items())[:60]:
        assert answers(store, topic=topic, unique_key=key, scan=scan) == sorted(offsets)
    assert "damaged" not in capsys.readouterr().err


@pytest.mark.few(3)
def test_the_queues_find_what_the_log_holds(any_store: Path) -> None:
    store = open_store(any_store, broker_conf=any_store / "broker.conf")
    for one in records_of(store)[:40]:
        if not has_unit(one):
            continue
        place = {"queue_id": one.head.queue_id, "queue_offset": one.head.queue_offset}
        assert answers(store, topic=one.topic, max_messages=1, **place) == [one.physical_offset]
        assert answers(store, topic=one.topic, max_messages=1, scan=True, **place) == [one.physical_offset]


@pytest.mark.few(8)
def test_ids_lead_to_their_messages(any_store: Path) -> None:
    store = open_store(any_store, broker_conf=any_store / "broker.conf")
    for one in records_of(store)[:20]:
        assert answers(store, msg_id=offset_id_of(one)) == [one.physical_offset]
        assert answers(store, offset=one.physical_offset) == [one.physical_offset]


@pytest.mark.few(2)
def test_unique_ids_lead_to_their_messages(any_store: Path) -> None:
    """Whatever the topic, IPv4 and IPv6: an id of that length that is no offset id is looked up as a key."""
    store = open_store(any_store, broker_conf=any_store / "broker.conf")
    scan = not store.index_files
    with_ids = [one for one in records_of(store) if "UNIQ_KEY" in one.properties]
    for one in with_ids[:20]:
        if one.head.sys_flag & 0xC == 0xC:
            continue  # rolled back: never indexed
        unique = one.properties["UNIQ_KEY"]
        same = [other for other in with_ids if other.properties["UNIQ_KEY"] == unique]
        expected = [other.physical_offset for other in same if other.head.sys_flag & 0xC != 0xC]
        assert answers(store, msg_id=unique, scan=scan) == expected
        own = [other.physical_offset for other in same if other.topic == one.topic]
        assert answers(store, msg_id=unique, topic=one.topic, scan=True) == own


def test_the_newest_are_kept_and_shown_in_log_order(plain: Path) -> None:
    store = open_store(plain)
    everything = answers(store, topic="TopicTest", key="hot")
    assert len(everything) > 10
    assert answers(store, topic="TopicTest", key="hot", max_messages=5) == everything[-5:]
    assert answers(store, topic="TopicTest", key="hot", max_messages=5, scan=True) == everything[-5:]


def test_collisions_are_shown_when_asked_for() -> None:
    """``Aa`` and ``BB`` have one hash: a broker returns both, a client keeps what it asked for."""
    root = Path(__file__).parents[2] / "fixtures" / "stores" / "collisions-4.9.8"
    store = open_store(root)
    colliding = [
        one for one in records_of(store) if {"Aa", "BB"} & set(one.properties.get("KEYS", "").split())
    ]
    topic = colliding[0].topic
    mine = answers(store, topic=topic, key="Aa")
    broker = answers(store, topic=topic, key="Aa", collisions=True)
    assert set(mine) < set(broker)
    assert broker == sorted(broker)


def test_what_is_not_there(run: Callable[..., Run], plain: Path) -> None:
    found = run("query", plain, "--topic", "TopicTest", "--key", "nothing")
    assert (found.status, found.out) == (1, "")
    assert "error: no message for --topic TopicTest --key nothing" in found.err
    assert run("query", plain, "--offset", 5).status == 1
    assert run("query", plain, "--offset", 10**15).status == 1
    assert run("query", plain, "-t", "TopicTest", "--queue", 0, "--queue-offset", 2**63 - 1).status == 1
    assert run("query", plain, "-t", "../../etc", "--queue", 0, "--queue-offset", 0).status == 1
    assert run("query", plain, "-i", "F" * 32).status == 1
    assert run("query", plain, "-i", "no hex").status == 1
    assert run("query", plain, "-t", "T", "-k", "k", "--fail-on", "never").status == 0


def test_the_structure_that_answered_is_named(run: Callable[..., Run], plain: Path) -> None:
    assert "answered by the index" in run("query", plain, "-t", "TopicTest", "-k", "hot").err
    assert "answered by the commit log" in run("query", plain, "--offset", 0).err
    assert "consume queue" in run("query", plain, "-t", "TopicTest", "--queue", 0, "--queue-offset", 0).err


@pytest.mark.parametrize(
    "words",
    [
        (),
        ("--tag", "k"),
        ("--topic", "t"),
        ("--topic", "t", "--key", "k", "--offset", "1"),
        ("--topic", "t", "--queue-offset", "1"),
        ("--topic", "t", "--key", "k", "--queue", "1"),
        ("--offset", "1", "--begin", "now"),
        ("--offset", "1", "--collisions"),
        ("--offset", "-1"),
    ],
)
def test_half_questions_are_usage_errors(
    run: Callable[..., Run], plain: Path, words: tuple[str, ...]
) -> None:
    found = run("query", plain, *words)
    assert (found.status, found.out) == (2, "")


def test_times_are_told_as_what_they_were_taken_for(run: Callable[..., Run], plain: Path) -> None:
    """A time from now, or without zone, is said with its zone; a full one not; nonsense lists the forms."""
    found = run("query", plain, "-t", "TopicTest", "-b", "2020-01-01", "-e", "-1h", "--timezone", "UTC")
    assert "--begin 2020-01-01 is 2020-01-01 00:00:00.000Z" in found.err
    assert "--end -1h is 20" in found.err
    found = run("query", plain, "-t", "TopicTest", "-b", "2020-01-01T00:00Z")
    assert found.status == 0
    assert "--begin" not in found.err
    for command in (("query", plain, "-t", "TopicTest", "-b"), ("dump", plain, "-e")):
        found = run(*command, "soon")
        assert found.status == 2
        assert "'soon' is not a time; pass epoch ms" in found.err
        assert "yesterday 13:20" in found.err
        assert "-2h" in found.err
    found = run("rebuild", plain, "--dry-run", "--until-timestamp", "soon")
    assert found.status == 2
    assert "yesterday 13:20" in found.err


def test_times(run: Callable[..., Run], plain: Path) -> None:
    everything = run("query", plain, "-t", "Orders", "-b", 0, "--max", 0, "--format", "ndjson").objects
    assert len(everything) == 32
    bound = everything[5]["storeTimestamp"]
    some = run("query", plain, "-t", "Orders", "-b", bound, "-e", bound, "--format", "ndjson").objects
    assert {one["storeTimestamp"] for one in some} == {bound}


def test_several_units_of_a_queue(run: Callable[..., Run], plain: Path) -> None:
    words = ("query", plain, "-t", "TopicTest", "--queue", 1, "--queue-offset", 8, "--format", "ndjson")
    assert [one["queueOffset"] for one in run(*words).objects] == [8]
    assert [one["queueOffset"] for one in run(*words, "-m", 5).objects] == [8, 9, 10, 11, 12]


def _store_with_index(folder: Path, items: list[tuple[int, int, int, int]], slots: dict[int, int]) -> Path:
    """Make a store with two messages and an index file of 10 slots and 10 items, as told."""
    (folder / "commitlog").mkdir(parents=True)
    (folder / "index").mkdir()
    one = record(0, topic=b"T", properties=b"KEYS\x01k\x02")
    two = record(len(one), topic=b"T", properties=b"KEYS\x01other\x02")
    (folder / "commitlog" / f"{0:020d}").write_bytes((one + two).ljust(1024, b"\0"))
    data = bytearray(index.file_size(10, 10))
    struct_of(index.HEADER).pack_into(data, 0, 1, 1, 0, len(one), len(slots), len(items) + 1)
    for slot, item in slots.items():
        struct_of(index.SLOT).pack_into(data, index.slot_position(slot), item)
    for number, item_fields in enumerate(items, 1):
        struct_of(index.ITEM).pack_into(data, index.item_position(10, number), *item_fields)
    (folder / "index" / "20220415132000123").write_bytes(data)
    return folder


@pytest.mark.parametrize(
    ("items", "item_of_slot", "found", "warns"),
    [
        ([(0, 0, 0, 0)], 1, True, False),
        ([(0, 0, 0, 1)], 1, True, True),
        ([(0, 0, 0, 2), (0, 0, 0, 1)], 2, True, True),
        ([(0, 0, 0, 0)], 9, False, True),
        ([(0, 0, 0, 0)], -5, False, True),
        ([(0, 5, 0, 0)], 1, False, False),
        ([(0, 130, 0, 0)], 1, False, False),
        ([(0, -(2**63), 0, 0)], 1, False, False),
        ([(0, 2**63 - 1, 0, -7)], 1, False, True),
    ],
    ids=[
        "sound",
        "self-loop",
        "cycle",
        "slot too high",
        "slot negative",
        "inside",
        "other key",
        "min",
        "max",
    ],
)
def test_a_damaged_index_never_gives_a_wrong_answer(
    run: Callable[..., Run],
    tmp_path: Path,
    items: list[tuple[int, int, int, int]],
    item_of_slot: int,
    found: bool,
    warns: bool,
) -> None:
    wanted = index_key_hash("T", "k")
    with_hash = [(wanted, *item[1:]) for item in items]
    store = _store_with_index(tmp_path / "store", with_hash, {wanted % 10: item_of_slot})
    settings = ("-p", "maxHashSlotNum=10", "-p", "maxIndexNum=10")
    answer = run("query", store, "-t", "T", "-k", "k", "--format", "ndjson", *settings)
    assert [one["physicalOffset"] for one in answer.objects] == ([0] if found else [])
    assert answer.status == (0 if found else 1)
    assert ("is damaged" in answer.err) == warns
    assert run("query", store, "-t", "T", "-k", "k", "--scan", *settings).status == 0


@pytest.mark.parametrize("name", ["log alone", "queues", "index empty"])
def test_without_an_index_the_log_itself_answers(
    run: Callable[..., Run], tmp_path: Path, plain: Path, name: str
) -> None:
    shutil.copytree(plain / "commitlog", tmp_path / "commitlog")
    if name == "queues":
        shutil.copytree(plain / "consumequeue", tmp_path / "consumequeue")
    if name == "index empty":
        (tmp_path / "index").mkdir()
    message = run("query", plain, "-t", "TopicTest", "-k", "hot", "--format", "ndjson").objects[0]
    for question in (("-t", "TopicTest", "-k", "hot"), ("-k", "hot"), ("-i", message["uniqKey"])):
        found = run("query", tmp_path, *question, "--format", "ndjson")
        there = run("query", plain, *question, "--format", "ndjson")
        assert found.objects == there.objects != []
        assert found.status == there.status
        assert "answered by the commit log itself, as there are no index files in " in found.err
    missed = run("query", tmp_path, "-t", "TopicTest", "-k", "nobody's")
    assert (missed.status, missed.out) == (1, "")
    assert "--scan" not in missed.err
    by_id = run("query", tmp_path, "-i", message["msgId"])
    assert "answered by the commit log: it is an offset id" in by_id.err


@pytest.mark.parametrize("question", ["--queue 0 --queue-offset 3", "--tag TagA", "--begin 2020-01-01"])
def test_without_any_queue_the_log_itself_answers(
    run: Callable[..., Run], plain: Path, plain_copy: Path, question: str
) -> None:
    shutil.rmtree(plain_copy / "consumequeue")
    words = ("-t", "TopicTest", *question.split(), "--format", "ndjson")
    there, found = run("query", plain, *words), run("query", plain_copy, *words)
    places = [sorted(one.get("physicalOffset", -1) for one in run.objects) for run in (there, found)]
    assert places[0] == places[1] != []
    assert found.status == there.status == 0
    assert "answered by the commit log itself, as there are no consume queues in " in found.err


@pytest.mark.parametrize(
    ("question", "gone", "answer"),
    [
        ("--queue 0 --queue-offset 3", "0", "as there is no consume queue of TopicTest/0 in "),
        ("--queue 0 --begin 2020-01-01", "0", "as there is no consume queue of TopicTest/0 in "),
        ("--begin 2020-01-01", "", "as there is no consume queue of TopicTest in "),
        ("--tag TagA", "", "as there is no consume queue of TopicTest in "),
        ("--begin 2020-01-01", "0", "warning: there is no consume queue TopicTest/0, and once there was one"),
        ("--tag TagA", "1", "warning: there is no consume queue TopicTest/1, and once there was one"),
    ],
)
def test_lost_queues_of_a_topic_hide_nothing(
    run: Callable[..., Run], plain: Path, plain_copy: Path, question: str, gone: str, answer: str
) -> None:
    """The log answers for a topic, or a queue, without any file; where others are there, a warning tells."""
    shutil.rmtree(plain_copy / "consumequeue" / "TopicTest" / gone)
    words = ("-t", "TopicTest", *question.split(), "--format", "ndjson", "-m", "0")
    there, found = run("query", plain, *words), run("query", plain_copy, *words)
    places = [sorted(one.get("physicalOffset", -1) for one in run.objects) for run in (there, found)]
    assert (places[0] == places[1] != []) is answer.startswith("as")
    assert found.status == there.status == 0
    assert answer in found.err
    assert "no consume queue" not in there.err


def test_a_queue_that_topics_json_does_not_know_is_not_sought_in_the_log(
    run: Callable[..., Run], plain: Path
) -> None:
    for words in (("-t", "Payment"), ("-t", "Payments", "--queue", "99999")):
        found = run("query", plain, *words, "--begin", "2020-01-01")
        assert found.status == 1
        assert "commit log itself" not in found.err


def test_damage_in_the_place_that_was_asked_for(run: Callable[..., Run], plain_copy: Path) -> None:
    with (plain_copy / "commitlog" / f"{0:020d}").open("r+b") as file:
        file.seek(333)
        file.write(bytes(50))
    found = run("query", plain_copy, "--offset", 333)
    assert (found.status, found.out) == (5, "")
    assert "CL-HOLE" in found.err


def test_a_queue_that_points_elsewhere_is_not_believed(run: Callable[..., Run], plain_copy: Path) -> None:
    ours = plain_copy / "consumequeue" / "TopicTest" / "0" / f"{0:020d}"
    ours.write_bytes((plain_copy / "consumequeue" / "Payments" / "0" / f"{0:020d}").read_bytes())
    found = run("query", plain_copy, "-t", "TopicTest", "--queue", 0, "--queue-offset", 0)
    assert (found.status, found.out) == (1, "")
    assert "points to a message of Payments/0" in found.err


def test_rocksdb_queues_are_named(run: Callable[..., Run], plain_copy: Path) -> None:
    shutil.rmtree(plain_copy / "consumequeue")
    (plain_copy / "consumequeue").mkdir()
    (plain_copy / "consumequeue" / "CURRENT").write_text("MANIFEST-000004\n")
    (plain_copy / "consumequeue" / "MANIFEST-000004").write_bytes(b"x")
    words = ("query", plain_copy, "-t", "TopicTest", "--queue", 0, "--queue-offset", 0)
    refused = run(*words)
    assert refused.status == 3
    assert "RocksDB" in refused.err
    assert run(*words, "--scan").status == 0


def test_hints_follow_the_error(run: Callable[..., Run], plain: Path) -> None:
    """With --explain they are among the steps, and are not repeated; a found message needs none."""
    words = ("query", plain, "-t", "TopicTets", "-k", "hot")
    _, error, hint, *then = run(*words).err.splitlines()
    assert error.startswith("error: no message for --topic TopicTets")
    assert hint == "hint: the store has no topic TopicTets; near it: TopicTest"
    again = f"  rmqtool query {plain} --topic TopicTets --key hot"
    assert then == ["to see why:", f"{again} --explain", "to walk the log itself:", f"{again} --scan"]
    explained = run(*words, "--explain", "--format", "json")
    assert "hint: " not in explained.err
    assert "topic-unknown" in {step["reason"] for step in explained.document["explain"]}
    assert "hint: " not in run("query", plain, "-t", "TopicTest", "-k", "hot", "-m", 1).err
    assert run(*words, "--format", "json").out == ""


def test_the_id_of_a_grpc_client_is_found_in_either_case(run: Callable[..., Run], tmp_path: Path) -> None:
    """It is of a length of its own, and clients write it in upper case."""
    client_id = "01A2B3C4D5E6F70A1B0B2C3D4E00000001"
    store = tmp_path / "store"
    (store / "commitlog").mkdir(parents=True)
    data = record(0, properties=f"UNIQ_KEY\x01{client_id}".encode())
    (store / "commitlog" / f"{0:020d}").write_bytes(data.ljust(4096, b"\0"))
    assert run("rebuild", store, "--out", tmp_path / "out", "--engine", "local").status == 0
    for part in ("index", "consumequeue"):
        (tmp_path / "out" / part).rename(store / part)
    for text in (client_id, client_id.lower()):
        for way in ([], ["--scan"]):
            found = run("query", store, "--msg-id", text, "--format", "ndjson", *way)
            assert [one["uniqKey"] for one in found.objects] == [client_id]


def test_a_key_without_topic_is_looked_up_under_every_topic(
    run: Callable[..., Run], plain: Path, tmp_path: Path
) -> None:
    """Topics are known by queues, by topics.json and by the log; what is searched under is said."""
    expected = run("query", plain, "-t", "TopicTest", "-k", "order-140").out
    found = run("query", plain, "-k", "order-140")
    assert (found.status, found.out) == (0, expected)
    assert "no --topic: the key is looked up under " in found.err
    assert run("query", plain, "-k", "order-140", "--scan").out == expected
    store = shutil.copytree(plain, tmp_path / "store")
    shutil.rmtree(store / "consumequeue" / "TopicTest")
    shutil.rmtree(store / "config", ignore_errors=True)
    found = run("query", store, "-k", "order-140")
    assert (found.status, found.out) == (0, expected)
    assert "known by the log alone (the first 200 messages of its newest 50 files)" in found.err


def test_a_delayed_message_is_found_by_its_key_before_its_delivery(run: Callable[..., Run]) -> None:
    """Without a topic the broker's own are asked, too; --max counts the hits of all topics together."""
    store = STORES / "delay-5.3.3"
    rows = run(
        "query", store, "-t", "SCHEDULE_TOPIC_XXXX", "-b", "0", "--format", "ndjson", "-m", "0"
    ).objects
    row = next(one for one in rows if one["keys"])
    found = run("query", store, "-k", row["keys"][0], "--format", "ndjson").objects
    assert row["physicalOffset"] in [one["physicalOffset"] for one in found]
    newest = run("query", store, "-k", row["keys"][0], "--format", "ndjson", "-m", "1").objects
    assert newest == found[-1:]


def test_a_log_that_is_not_read_is_named(run: Callable[..., Run], plain_copy: Path) -> None:
    data = plain_copy / "dledger-n0" / "data"
    data.mkdir(parents=True)
    (data / f"{0:020d}").write_bytes(bytes(4096))
    for words in (("query", plain_copy, "-k", "order-1"), ("dump", plain_copy, "--limit", "1")):
        assert "dledger-n0: DLedger store; its content is not shown" in run(*words).err


def test_a_message_that_the_next_start_cuts_is_explained(run: Callable[..., Run], tmp_path: Path) -> None:
    root = tmp_path / "store"
    shutil.copytree(fixture("plain-5.3.3"), root)
    last = [one for one in rmqtool.open(root).messages() if one.physical_offset >= 49152]
    file = root / "commitlog" / f"{49152:020d}"
    data = bytearray(file.read_bytes())
    data[last[3].physical_offset - 49152 + 4] ^= 1  # its magic
    file.write_bytes(data)
    (root / "abort").touch()
    for message, is_cut in ((last[2], False), (last[4], True)):
        asked = "query", root, "--offset", message.physical_offset, "--explain"
        said = run(*asked).err
        assert ("the next start of a 5.3.3 broker cuts this message" in said) == is_cut
        steps = run(*asked, "--format", "json").document["explain"]
        assert ("cut" in {one["reason"] for one in steps}) == is_cut
