"""Answers that are marked: damaged messages, more than are shown, times beside the question, lost files."""

from __future__ import annotations

import csv
import io
import json
import shutil
from typing import TYPE_CHECKING

import pytest

from rmqtool.cli import main
from rmqtool.lookup.context import Reason
from tests.damage.cases import Case, load_cases
from tests.damage.running import damaged_copy
from tests.scan.log_builder import record
from tests.store.fixture_stores import fixture

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path
    from typing import Any

    from tests.runs import Run


def case(code: str, number: int = 1) -> Case:
    """Return case ``number`` of a code, DMG/CODE-number in issues."""
    return [one for one in load_cases() if one.code == code][number - 1]


@pytest.fixture(scope="module")
def torn(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """DMG/CL-CRC-1: one bit of the body of the message at log offset 9700 is wrong."""
    return damaged_copy(case("CL-CRC"), tmp_path_factory.mktemp("torn"))


def message_at_9700(run: Callable[..., Run]) -> dict[str, Any]:
    (found,) = run("query", fixture("plain-5.3.3"), "--offset", 9700, "--format", "ndjson").objects
    assert found["damage"] == []
    return dict(found)


def questions(message: dict[str, Any]) -> list[tuple[object, ...]]:
    """Return every way to ask for one message."""
    topic = ("-t", message["topic"])
    queue = ("--queue", message["queueId"], "--queue-offset", message["queueOffset"])
    time = message["storeTimestamp"]
    return [
        (*topic, "-k", message["keys"][0], "-m", 0),
        (*topic, "-k", message["keys"][0], "-m", 0, "--scan"),
        (*topic, "-k", message["keys"][0], "-m", 0, "--collisions"),
        (*topic, "--unique-key", message["uniqKey"]),
        (*topic, "--tag", message["tags"], "-m", 0),
        (*topic, "--tag", message["tags"], "-m", 0, "--scan"),
        (*topic, *queue),
        (*topic, *queue, "--scan"),
        (*topic, "-b", time, "-e", time),
        ("--offset", 9700),
        ("-i", message["msgId"]),
        ("-i", message["uniqKey"]),
    ]


@pytest.mark.parametrize("number", range(12))
def test_a_damaged_message_is_marked_however_it_is_asked_for(
    run: Callable[..., Run], torn: Path, number: int
) -> None:
    words = questions(message_at_9700(run))[number]
    found = run("query", torn, *words, "--format", "ndjson")
    assert found.status == 5
    damage = [one for one in found.objects if one["type"] == "damage"]
    assert [(one["code"], one["physicalOffset"]) for one in damage] == [("CL-CRC", 9700)]
    marks = {one["physicalOffset"]: one["damage"] for one in found.objects if one["type"] == "message"}
    assert {offset: codes for offset, codes in marks.items() if codes} == {9700: ["CL-CRC"]}
    assert "1 message shown is damaged: compare with a replica" in found.err


def test_a_damaged_message_is_marked_in_every_format(
    run: Callable[..., Run], torn: Path, tmp_path: Path
) -> None:
    keys = tmp_path / "keys"
    keys.write_text(message_at_9700(run)["keys"][0] + "\n")
    words = ("query", torn, "-t", "TopicTest", "--keys-file", keys)
    text = run(*words)
    assert text.status == 5
    assert "CL-CRC (error): the body of the record at 9700 does not match its BODYCRC" in text.out
    table = list(csv.DictReader(io.StringIO(run(*words, "--format", "csv").out)))
    marks = {row["physicalOffset"]: json.loads(row["damage"]) for row in table}
    assert {offset: codes for offset, codes in marks.items() if codes} == {"9700": ["CL-CRC"]}
    document = run(*words, "--format", "json").document
    number = next(n for n, one in enumerate(document["rows"]) if one["type"] == "damage")
    assert document["rows"][number + 1]["damage"] == ["CL-CRC"]
    assert document["exitStatus"] == 5


def test_dump_marks_it_too(run: Callable[..., Run], torn: Path) -> None:
    found = run("dump", torn / "commitlog", "--format", "ndjson")
    marked = [one["physicalOffset"] for one in found.objects if one.get("damage")]
    assert (found.status, marked) == (5, [9700])


def one_message(number: int = 0, offset: int = 0) -> bytes:
    """Return one of 80 messages with one key and one tag."""
    properties = b"KEYS\x01k\x02TAGS\x01t\x02"
    return record(offset, queueOffset=number, topic=b"T", properties=properties, queueId=0)


@pytest.fixture
def many(tmp_path: Path) -> Path:
    """A store of 80 messages with one key and one tag, its queue and its index."""
    store = tmp_path / "store"
    (store / "commitlog").mkdir(parents=True)
    data = b""
    for number in range(80):
        data += one_message(number, len(data))
    (store / "commitlog" / f"{0:020d}").write_bytes(data.ljust(16384, b"\0"))
    assert main(["rebuild", str(store), "--out", str(tmp_path / "out"), "--engine", "local", "-q"]) == 0
    for part in ("index", "consumequeue"):
        (tmp_path / "out" / part).rename(store / part)
    return store


@pytest.mark.few(2)
@pytest.mark.parametrize(
    ("words", "which"),
    [
        (("-k", "k"), "newest"),
        (("-k", "k", "--scan"), "newest"),
        (("-k", "k", "--collisions"), "newest"),
        (("--tag", "t"), "newest"),
        (("--tag", "t", "--scan"), "newest"),
        (("-b", "0"), "first"),
        (("-b", "0", "--scan"), "first"),
    ],
)
def test_nothing_is_cut_silently(
    run: Callable[..., Run], many: Path, words: tuple[str, ...], which: str
) -> None:
    asked = ("query", many, "-t", "T", *words)
    document = run(*asked, "--format", "json").document
    offsets = [one["queueOffset"] for one in document["rows"]]
    assert offsets == list(range(16, 80) if which == "newest" else range(64))
    assert document["truncated"] is True
    cut = run(*asked, "--format", "ndjson")
    assert f"only the {which} 64 are shown: -m 0 for all" in cut.err
    assert cut.objects[-1] == {"type": "summary", "schema": "rmqtool.query/2", "truncated": True}
    whole = run(*asked, "-m", 0, "--format", "json")
    assert (len(whole.document["rows"]), whole.document["truncated"]) == (80, False)
    assert "are shown" not in whole.err
    exact = run(*asked, "-m", 80, "--format", "json")
    assert (len(exact.document["rows"]), exact.document["truncated"]) == (80, False)
    chosen = run(*asked, "-m", 3, "--format", "ndjson")
    assert (len(chosen.objects), "are shown" in chosen.err) == (3, True)


def test_a_range_of_a_queue_is_not_cut(run: Callable[..., Run], many: Path) -> None:
    found = run("query", many, "-t", "T", "--queue", 0, "--queue-offset", 3, "-m", 2, "--format", "json")
    assert [one["queueOffset"] for one in found.document["rows"]] == [3, 4]
    assert found.document["truncated"] is False


@pytest.mark.parametrize("way", [(), ("--scan",)])
def test_a_key_beside_the_times_is_told_with_its_time(run: Callable[..., Run], way: tuple[str, ...]) -> None:
    store = fixture("plain-5.3.3")
    found = run("query", store, "-t", "TopicTest", "-k", "order-1", "-e", "2020-01-01", *way)
    assert found.status == 1
    outside = "1 matching message was stored outside of --begin and --end: at 2026-11-21 03:28:40.450Z"
    assert f"hint: {outside}" in found.err


@pytest.mark.few(2)
@pytest.mark.parametrize("how", ["empty", "renamed"])
@pytest.mark.parametrize("file", [0, 16384])
def test_hits_in_a_lost_file_of_the_log_are_told(
    run: Callable[..., Run], tmp_path: Path, how: str, file: int
) -> None:
    store = tmp_path / "store"
    shutil.copytree(fixture("plain-5.3.3"), store)
    path = store / "commitlog" / f"{file:020d}"
    if how == "empty":
        path.write_bytes(b"")
    else:
        path.rename(path.with_name("saved"))
    words = ("query", store, "-t", "TopicTest", "-k", "hot", "-m", 0, "--format", "ndjson")
    found, sound = run(*words), run("query", fixture("plain-5.3.3"), *words[2:])
    lost = len(sound.objects) - len(found.objects)
    assert lost > 0
    assert f"; left out: {lost} where a file of the log is missing" in found.err
    label = f"{file:020d} is empty" if how == "empty" else "saved is not named by 20 digits"
    assert f"{lost} hits lie where a file of the log is missing (commitlog/{label})" in found.err
    assert "the answer is incomplete" in found.err
    assert found.status == 5
    explained = run(*words[:-2], "--format", "json", "--explain").document["explain"]
    assert [one["reason"] for one in explained].count(Reason.LOG_MISSING.value) == lost


def test_a_part_of_a_store_is_told_as_what_was_given(run: Callable[..., Run]) -> None:
    """What to paste then asks the store around it."""
    log = fixture("plain-5.3.3") / "commitlog"
    for words, lacks in ((("-k", "hot"), "an index"), (("-b", "0"), "consume queues")):
        found = run("query", log, "-t", "TopicTest", *words, "--explain")
        assert found.status == 3
        assert f"{log}: is only the commitlog of a store, without {lacks} to query" in found.err
        assert f"query the whole store:\n  rmqtool query {log.parent} --topic TopicTest --" in found.err
    explained = run("query", log, "-t", "TopicTest", "-k", "hot", "--explain", "--format", "json")
    assert [one["reason"] for one in explained.document["explain"]] == [Reason.PART.value]


def test_keys_files_find_unique_keys_and_collisions(run: Callable[..., Run], tmp_path: Path) -> None:
    message = message_at_9700(run)
    keys = tmp_path / "keys"
    keys.write_text(f"{message['uniqKey']}\norder-1\n")
    for way in ((), ("--scan",)):
        words = ("query", fixture("plain-5.3.3"), "-t", "TopicTest", "--keys-file", keys, *way)
        found = run(*words, "--format", "ndjson").objects
        places = [(one["queryKey"], one["physicalOffset"]) for one in found]
        assert places == [(message["uniqKey"], 9700), ("order-1", 334)]
    store = fixture("collisions-5.3.3")
    topic = next(one["topic"] for one in run("dump", store / "commitlog", "--format", "ndjson").objects)
    keys.write_text("Aa\nBB\n")
    many = run("query", store, "-t", topic, "--keys-file", keys, "--collisions", "--format", "ndjson").objects
    for key in ("Aa", "BB"):
        one_key = run("query", store, "-t", topic, "-k", key, "--collisions", "--format", "ndjson").objects
        mine = [one["physicalOffset"] for one in many if one["queryKey"] == key]
        assert mine == [one["physicalOffset"] for one in one_key]
        assert mine


@pytest.mark.few(1)
@pytest.mark.parametrize("page", ["zeros", "another message", "noise"])
def test_a_damaged_page_under_an_index_item_is_told(
    run: Callable[..., Run], many: Path, tmp_path: Path, page: str
) -> None:
    """With many keys, too: what a page lost, or what stands there now, is no answer in silence."""
    path, size = many / "commitlog" / f"{0:020d}", len(one_message())
    data = path.read_bytes()
    new = {"zeros": bytes(size), "another message": data[:size], "noise": b"\x5a" * size}[page]
    path.write_bytes(data[: 40 * size] + new + data[41 * size :])
    keys = tmp_path / "keys"
    keys.write_text("k\nnobody\n")
    for words in (("--keys-file", keys), ("-k", "k"), ("--keys-file", keys, "--scan"), ("-b", "0")):
        found = run("query", many, "-t", "T", *words, "-m", 0, "--format", "ndjson")
        shown = [one for one in found.objects if one["type"] == "message"]
        assert found.status == 5
        if page == "another message":
            assert [one["damage"] for one in shown].count(["CL-PHY-MISMATCH"]) == 1
            assert "1 message shown is damaged" in found.err
        else:
            assert len(shown) == 79
            assert {"zeros": "CL-HOLE", "noise": "CL-BAD-MAGIC"}[page] in found.err
