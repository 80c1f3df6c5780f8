"""``query --keys-file``: many keys in one pass, and what ``--explain`` prints in each format."""

from __future__ import annotations

import csv
import io
import json
from typing import TYPE_CHECKING, Any

import pytest

from rmqtool.store import open_store
from tests.scan.log_builder import record

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.runs import Run


def by_key(found: Run) -> dict[str, list[int]]:
    """Return physical offsets by the key they answer, in the order of the output."""
    answers: dict[str, list[int]] = {}
    for one in found.objects:
        answers.setdefault(one["queryKey"], []).append(one["physicalOffset"])
    return answers


def one_by_one(run: Callable[..., Run], store: Path, topic: str, keys: list[str]) -> dict[str, list[int]]:
    found = {}
    for key in keys:
        objects = run("query", store, "-t", topic, "-k", key, "--format", "ndjson").objects
        if objects:
            found[key] = [one["physicalOffset"] for one in objects]
    return found


@pytest.mark.parametrize("scan", [(), ("--scan",)], ids=["index", "scan"])
def test_many_keys_are_answered_as_each_by_itself(
    run: Callable[..., Run], plain: Path, tmp_path: Path, scan: tuple[str, ...]
) -> None:
    """In the order of the file, each key once; what has no message is named."""
    keys = ["order-7", "nobody", "hot", "order-1", "order-7"]
    file = tmp_path / "keys"
    file.write_text("\r\n".join(keys) + "\n\n")
    found = run("query", plain, "-t", "TopicTest", "--keys-file", file, "--format", "ndjson", *scan)
    assert found.status == 0
    assert list(by_key(found)) == [key for key in ("order-7", "hot", "order-1") if key in by_key(found)]
    assert by_key(found) == one_by_one(run, plain, "TopicTest", list(dict.fromkeys(keys)))
    assert "no message for 1 key: nobody" in found.err


def test_keys_of_lost_messages_are_named_as_such(
    run: Callable[..., Run], plain_copy: Path, tmp_path: Path
) -> None:
    (plain_copy / "commitlog" / "00000000000000016384").unlink()
    file = tmp_path / "keys"
    file.write_text("nobody\norder-77\nC0A80114E24018B4AAC200000000004D\n")
    found = run("query", plain_copy, "-t", "TopicTest", "--keys-file", file)
    assert found.status == 5
    assert "no message for 3 keys, 2 of them of lost messages: order-77 (lost)" in found.err
    assert ": lost from the log at 24191" in found.err
    assert "to look for it in a replica:\n  rmqtool query REPLICA --topic TopicTest" in found.err


def test_objects_name_topics_and_unique_keys(run: Callable[..., Run], plain: Path, tmp_path: Path) -> None:
    first = run("query", plain, "--offset", 0, "--format", "ndjson").objects[0]
    lines: list[dict[str, Any]] = [
        {"topic": "TopicTest", "key": "hot"},
        {"topic": first["topic"], "uniqueKey": first["uniqKey"]},
        {"key": "order-1"},
    ]
    file = tmp_path / "keys.ndjson"
    file.write_text("\n".join(map(json.dumps, lines)))
    found = run("query", plain, "-t", "TopicTest", "--keys-file", file, "--format", "ndjson", "-m", 1)
    assert by_key(found)[first["uniqKey"]] == [0]
    assert {len(offsets) for offsets in by_key(found).values()} == {1}
    assert set(by_key(found)) == {"hot", first["uniqKey"], "order-1"}


@pytest.mark.parametrize(
    ("text", "words", "complaint"),
    [
        (b"", ("-t", "T"), "holds no key"),
        (b"k\n", (), "line 1: a key alone needs --topic"),
        (b'{"key": "k"}\n', (), 'line 1: needs "topic" and "key"'),
        (b'{"key": "k", "topic": "T"}\n[1]\n', (), "line 2: is not an object"),
        (b'{"key": "k", "topic": "T"}\nplain\n', (), "line 2"),
        (b'{"key": 5, "topic": "T"}\n', (), 'line 1: needs "topic" and "key"'),
        (b"\xff\n", ("-t", "T"), "is not UTF-8 text at byte 0"),
    ],
)
def test_files_that_make_no_sense(
    run: Callable[..., Run], plain: Path, tmp_path: Path, text: bytes, words: tuple[str, ...], complaint: str
) -> None:
    file = tmp_path / "keys"
    file.write_bytes(text)
    found = run("query", plain, "--keys-file", file, *words)
    assert (found.status, found.out) == (2, "")
    assert complaint in found.err


def test_a_file_that_cannot_be_read(run: Callable[..., Run], plain: Path, tmp_path: Path) -> None:
    found = run("query", plain, "-t", "T", "--keys-file", tmp_path / "none")
    assert found.status == 3
    assert "cannot be read: No such file" in found.err


def test_a_key_may_look_like_json(run: Callable[..., Run], tmp_path: Path) -> None:
    """Only objects that name a key make the file one of objects; the keys are escaped in text."""
    root = tmp_path / "store"
    (root / "commitlog").mkdir(parents=True)
    data = record(0, properties=b'KEYS\x01{"a":1} \x1b[31m\x02')
    (root / "commitlog" / f"{0:020d}").write_bytes(data.ljust(1024, b"\0"))
    file = tmp_path / "keys"
    file.write_text('{"a":1}\n\x1b[31m\n')
    found = run("query", root, "-t", "TopicTest", "--keys-file", file, "--scan")
    assert found.status == 0
    assert found.out.startswith('{"a":1}:\n')
    assert "\x1b" not in found.out


def test_every_format_carries_the_key(run: Callable[..., Run], plain: Path, tmp_path: Path) -> None:
    file = tmp_path / "keys"
    file.write_text("hot\n")
    words = ("query", plain, "-t", "TopicTest", "--keys-file", file, "-m", 2)
    text = run(*words).out.splitlines()
    assert text[0] == "hot:"
    cells = list(csv.DictReader(io.StringIO(run(*words, "--format", "csv").out)))
    assert [row["queryKey"] for row in cells] == ["hot", "hot"]
    document = run(*words, "--format", "json").document
    assert [row["queryKey"] for row in document["rows"]] == ["hot", "hot"]
    assert (document["schema"], document["exitStatus"]) == ("rmqtool.query/2", 0)
    assert "queryKey" not in run("query", plain, "--offset", 0, "--format", "ndjson").objects[0]


def test_explanations_go_to_people_and_into_documents(run: Callable[..., Run], plain: Path) -> None:
    """Text on standard error in every format; json has them as a field, also when nothing was found."""
    words = ("query", plain, "-t", "TopicTest", "-k", "nobody", "--explain")
    found = run(*words)
    assert (found.status, found.out) == (1, "")
    assert "explain: index/" in found.err
    assert "to walk the log itself:\n  rmqtool query " in found.err
    found = run(*words, "--format", "json")
    document = found.document
    assert (document["rows"], document["exitStatus"]) == ([], 1)
    assert {step["type"] for step in document["explain"]} == {"explain"}
    assert {"reason", "file", "message"} <= document["explain"][0].keys()
    assert [f"explain: {step['message']}" in found.err for step in document["explain"]].count(False) == 0
    assert run(*words, "--format", "ndjson").out == ""


def test_keys_without_an_index(run: Callable[..., Run], tmp_path: Path, plain: Path) -> None:
    """The log itself answers; what a broker finds needs the index: no answer is no negative one."""
    (tmp_path / "commitlog").symlink_to(plain / "commitlog")
    file = tmp_path / "keys"
    file.write_text("hot\n")
    words = ("query", tmp_path, "-t", "TopicTest", "--keys-file", file)
    found = run(*words, "--format", "ndjson")
    assert found.objects == run(*words, "--scan", "--format", "ndjson").objects != []
    assert "answered by the commit log itself, as there are no index files" in found.err
    hits = run(*words, "--collisions")
    assert (hits.status, hits.out) == (3, "")
    assert "there are no index files" in hits.err
    assert open_store(tmp_path).index_files == ()
