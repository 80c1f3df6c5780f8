"""Backlogs, transactions in doubt, dead letters and texts in bodies, by ``dump`` and ``export`` alike."""

from __future__ import annotations

import json
import shutil
import zlib
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from rmqtool.cli import main
from rmqtool.commands.dump import run as dump_run
from rmqtool.store.broker_json import parse_broker_json
from tests.check.log_store import Log
from tests.store.fixture_stores import STORES, fixture

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.runs import Run

    _Run = Callable[..., Run]

TRANSACTIONS = [f"transaction-{version}" for version in ("4.9.8", "5.3.3", "5.4.0", "5.5.1")]
SELECTIONS = [
    ("plain-5.3.3", "--backlog-of billing"),
    ("plain-5.3.3", "--backlog-of readers --topic TopicTest"),
    ("plain-5.3.3", "--dead-letters"),
    ("plain-4.9.8", "--contains e --topic Orders"),
    *((name, "--in-doubt") for name in TRANSACTIONS),
]


def messages(run: _Run, path: Path, options: str) -> list[dict[str, Any]]:
    ran = run("dump", path, *options.split(), "--body", "text", "--format", "ndjson")
    assert ran.status == 0, ran.err
    assert {row["type"] for row in ran.objects} == {"message"}
    return ran.objects


def everything(run: _Run, path: Path) -> list[dict[str, Any]]:
    objects = run("dump", path / "commitlog", "--format", "ndjson", "--body", "text").objects
    return [row for row in objects if row["type"] == "message"]


def test_a_backlog_is_what_lies_at_or_after_the_offsets(run: _Run) -> None:
    """6972: messages that a group has not consumed are to go to another cluster."""
    store = STORES / "plain-5.3.3"
    document: Any = parse_broker_json((store / "config/consumerOffset.json").read_text())
    offsets = document["offsetTable"]["TopicTest@readers"]
    expected = [
        row["physicalOffset"]
        for row in everything(run, store)
        if row["topic"] == "TopicTest" and row["queueOffset"] >= offsets.get(str(row["queueId"]), 0)
    ]
    backlog = messages(run, store, "--backlog-of readers")
    assert [row["physicalOffset"] for row in backlog] == expected
    rows = run("offsets", store, "--group", "readers", "--format", "ndjson").objects
    assert len(expected) == sum(row["lag"] for row in rows if row["type"] == "offset")


@pytest.mark.parametrize("name", TRANSACTIONS)
def test_transactions_in_doubt_are_shown_as_what_they_would_be(run: _Run, name: str) -> None:
    """2840: the half message is there, and its topic has none of it."""
    half, op = "RMQ_SYS_TRANS_HALF_TOPIC", "RMQ_SYS_TRANS_OP_HALF_TOPIC"
    every = everything(run, STORES / name)
    ended = {number for row in every if row["topic"] == op for number in row["explanation"]["queueOffsets"]}
    open_halves = [row for row in every if row["topic"] == half and row["queueOffset"] not in ended]
    assert open_halves
    shown = messages(run, STORES / name, "--in-doubt")
    assert [row["physicalOffset"] for row in shown] == [row["physicalOffset"] for row in open_halves]
    for row, stored in zip(shown, open_halves, strict=True):
        had = stored["properties"]
        assert (row["topic"], row["queueId"]) == (had.pop("REAL_TOPIC"), int(had.pop("REAL_QID")))
        assert (row["properties"], row["body"], row["explanation"]) == (had, stored["body"], None)
    wanted = messages(
        run, STORES / name, f"--in-doubt --topic {shown[0]['topic']} --queue {shown[0]['queueId']}"
    )
    assert wanted[0] == shown[0]
    findings = run("verify", STORES / name, "--format", "ndjson").objects
    (doubt,) = [row for row in findings if row.get("code") == "CL-IN-DOUBT"]
    assert doubt["observed"] == len(shown)


def test_a_file_that_grew_over_the_next_shows_no_other_doubts(run: _Run, tmp_path: Path) -> None:
    """The bytes too many are the next file's, with other offsets and keys in its half messages."""
    root = shutil.copytree(STORES / "transaction-5.3.3", tmp_path / "store")
    expected = [row["physicalOffset"] for row in messages(run, root, "--in-doubt")]
    first, second = sorted((root / "commitlog").iterdir())[:2]
    more = bytearray(second.read_bytes())
    for row in everything(run, root):
        place = row["physicalOffset"] - int(second.name)
        if row["topic"] == "RMQ_SYS_TRANS_HALF_TOPIC" and 0 <= place < len(more):
            more[place + 20 : place + 28] = (row["queueOffset"] + 10**6).to_bytes(8, "big")
            more[more.index(b"UNIQ_KEY\x01", place) + 9] ^= 1
    first.write_bytes(first.read_bytes() + more)
    shown = run("dump", root, "--in-doubt", "--format", "ndjson").objects
    assert [row["physicalOffset"] for row in shown if row["type"] == "message"] == expected


def test_dead_letters_have_their_original_topics(run: _Run) -> None:
    """1334, apache/rocketmq-externals#652: what a group gave up is to be sent again to the topic it had."""
    (letter,) = messages(run, STORES / "plain-5.3.3", "--dead-letters")
    assert (letter["topic"], letter["physicalOffset"]) == ("Orders", 35456)
    assert messages(run, STORES / "plain-5.3.3", "--dead-letters --topic Orders") == [letter]
    assert run("dump", STORES / "plain-5.3.3", "--dead-letters", "--topic", "TopicTest").status == 1
    without = messages(run, STORES / "lmq-5.5.1", "--dead-letters")
    assert {row["topic"] for row in without} == {"%DLQ%billing"}


def test_dead_letters_and_transactions_can_be_sent_again(run: _Run) -> None:
    for name, option in (("plain-5.3.3", "--dead-letters"), ("transaction-5.5.1", "--in-doubt")):
        ran = run("dump", STORES / name, option, "--format", "replay")
        assert ran.status == 0
        assert {row["topic"] for row in ran.objects} <= {"Orders", "Transfers"}


@pytest.mark.parametrize(("name", "options"), SELECTIONS)
def test_the_same_by_kernels_and_in_files(
    run: _Run, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, name: str, options: str
) -> None:
    expected = messages(run, STORES / name, options)
    monkeypatch.setattr(dump_run, "LARGE_LOG_BYTES", 0)
    assert messages(run, STORES / name, options) == expected
    assert (
        run("export", STORES / name, "--out", tmp_path / "out", *options.split(), "--format", "ndjson").status
        == 0
    )
    assert rows_of(tmp_path / "out") == [without(row) for row in expected]


@pytest.mark.spark
@pytest.mark.parametrize(("name", "options"), SELECTIONS[:5])
def test_the_same_on_spark(run: _Run, tmp_path: Path, name: str, options: str) -> None:
    words = ["export", STORES / name, *options.split(), "--format", "ndjson"]
    assert run(*words, "--out", tmp_path / "here").status == 0
    assert run(*words, "--out", tmp_path / "there", "--engine", "spark").status == 0
    assert rows_of(tmp_path / "here") == rows_of(tmp_path / "there") != []


def rows_of(out: Path) -> list[dict[str, Any]]:
    return [
        json.loads(line)
        for path in sorted(out.glob("*.ndjson"))
        for line in path.read_text("utf-8").splitlines()
    ]


def without(row: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in row.items() if name not in {"type", "explanation"}}


@pytest.fixture
def packed_store(tmp_path: Path) -> Path:
    """A log of plain, compressed and broken bodies, and an inner batch."""
    log = Log()
    log.add(body=b"here is a needle")
    log.add(body=zlib.compress(b"hay " * 500 + b"a needle in it"), sysFlag=1)
    log.add(body=zlib.compress(b"hay " * 500), sysFlag=1)
    log.add(body=b"needle, said to be compressed", sysFlag=1)
    log.add(body=b"needl")
    log.add(body=b"")
    log.write(tmp_path / "store")
    return tmp_path / "store"


@pytest.mark.parametrize("large", [False, True])
def test_texts_are_found_in_packed_bodies(
    run: _Run, monkeypatch: pytest.MonkeyPatch, packed_store: Path, *, large: bool
) -> None:
    monkeypatch.setattr(dump_run, "LARGE_LOG_BYTES", 0 if large else 1 << 30)
    rows = run("dump", packed_store, "--contains", "needle", "--format", "ndjson").objects
    assert [row["queueOffset"] for row in rows if row["type"] == "message"] == [0, 1, 3]


def test_a_text_in_one_message_of_a_batch(run: _Run) -> None:
    batches = run(
        "dump", STORES / "batchcq-5.3.3", "--unpack-batches", "--format", "ndjson", "--body", "text"
    )
    inner = next(row for row in batches.objects if row["type"] == "inner-message" and len(row["body"]) > 9)
    ran = run(
        "dump", STORES / "batchcq-5.3.3", "--unpack-batches", "--format", "ndjson", "--body", "text",
        "--contains", inner["body"], "--rows", "inner-message",
    )  # fmt: skip
    assert inner in ran.objects
    assert all(inner["body"] in row["body"] for row in ran.objects)


def edited(tmp_path: Path, **files: str | None) -> Path:
    store = Path(shutil.copytree(fixture("plain-5.3.3"), tmp_path / "store"))
    for name, text in files.items():
        path = store / "config" / f"{name}.json"
        if text is None:
            path.unlink()
        else:
            path.write_text(text)
    return store


@pytest.mark.parametrize(
    ("files", "says"),
    [
        ({}, "has no group biling; near it: billing"),
        (
            {"consumerOffset": None},
            "no config/consumerOffset.json: what group biling has consumed is not known",
        ),
        ({"consumerOffset": "{}"}, "has no group biling; it has none"),
        ({"consumerOffset": "{,"}, "rmqtool repair STORE --plan"),
        (
            {"subscriptionGroup": '{"subscriptionGroupTable": {"biling": {}}}'},
            "it broadcasts, and its clients keep",
        ),
        (
            {"consumerOffset": '{"offsetTable": {"%LMQ%a@biling": {"0": 1}}}'},
            "group biling reads light queues only",
        ),
    ],
)
def test_a_group_without_offsets(run: _Run, tmp_path: Path, files: dict[str, str | None], says: str) -> None:
    store = edited(tmp_path, **files)
    for backup in (store / "config").glob("*.bak"):
        backup.unlink()
    for words in (["dump", store], ["export", store, "--out", tmp_path / "out"]):
        ran = run(*words, "--backlog-of", "biling", "--format", "ndjson")
        assert (ran.status, ran.out) == (3, "")
        assert says in ran.err
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("table", "messages_left"),
    [
        ('"Orders@g": {"7": 99999999999999999999, "1": 0, "99999999999999": 1}', 22),
        ('"Order?@g": {"0": 0}, "O*@g": {"0": 1}', 0),
        ('"TopicTest@g": {"0": 0}, "T[o]picTest@g": {"0": 0}', 97),
        ('"Orders@g": {"0": -5, "x": 3, "1": 0}', 32),
    ],
)
def test_hostile_offsets(
    run: _Run, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, table: str, messages_left: int
) -> None:
    """Numbers beyond Java's, and topics that look like globs, which name themselves alone."""
    store = edited(tmp_path, consumerOffset=f'{{"offsetTable": {{{table}}}}}')
    for large in (False, True):
        monkeypatch.setattr(dump_run, "LARGE_LOG_BYTES", 0 if large else 1 << 30)
        ran = run("dump", store, "--backlog-of", "g", "--format", "ndjson")
        assert (ran.status, len(ran.objects)) == (int(not messages_left), messages_left)


def test_a_database_of_offsets(run: _Run, tmp_path: Path) -> None:
    store = edited(tmp_path, consumerOffset=None)
    (store / "config/rdb").mkdir()
    ran = run("dump", store, "--backlog-of", "billing")
    assert ran.status == 3
    assert "config/rdb/ holds the offsets of groups, a RocksDB database" in ran.err


def test_a_topic_that_the_group_does_not_read(
    run: _Run, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    words = [STORES / "plain-5.3.3", "--backlog-of", "billing", "--topic", "TopicTest", "--format", "ndjson"]
    for large in (False, True):
        monkeypatch.setattr(dump_run, "LARGE_LOG_BYTES", 0 if large else 1 << 30)
        ran = run("dump", *words)
        assert (ran.status, ran.out) == (1, "")
    assert run("export", *words, "--out", tmp_path / "out").status == 1
    assert rows_of(tmp_path / "out") == []


def test_selections_that_make_no_sense(run: _Run) -> None:
    store = STORES / "plain-5.3.3"
    for words, says in (
        (["--in-doubt", "--dead-letters"], "give one of them"),
        (["--backlog-of", "billing", "--in-doubt"], "give one of them"),
        (["--contains", ""], "give a text"),
        (["--type", "index", "--in-doubt"], "--in-doubt does not apply"),
    ):
        ran = run("dump", store, *words)
        assert (ran.status, ran.out) == (2, "")
        assert says in ran.err
    ran = run("dump", store, "--in-doubt")
    assert (ran.status, ran.out) == (1, "")
    assert "nothing for --in-doubt in" in ran.err


def test_a_damaged_log_is_read_on(run: _Run, tmp_path: Path) -> None:
    store = Path(shutil.copytree(fixture("transaction-5.3.3"), tmp_path / "store"))
    before = len(messages(run, store, "--in-doubt"))
    file = store / "commitlog" / f"{0:020d}"
    data = bytearray(file.read_bytes())
    data[1300:1400] = bytes(100)
    file.write_bytes(data)
    ran = run("dump", store, "--in-doubt", "--format", "ndjson")
    assert ran.status == 5
    shown = [row for row in ran.objects if row["type"] == "message"]
    assert 0 < len(shown) <= before
    assert main(["dump", str(store), "--backlog-of", "x"]) == 3
