"""``topics`` on the command line: forms, exit statuses, and what is said beside the rows."""

from __future__ import annotations

import csv
import io
from typing import TYPE_CHECKING

import pytest

from tests.cli.conftest import STORES

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.runs import Run

PLAIN = STORES / "plain-5.3.3"


def test_all_forms_say_the_same(run: Callable[..., Run]) -> None:
    document = run("topics", PLAIN, "--format", "json").document
    assert document["schema"] == "rmqtool.topics/1"
    assert (document["topics"], document["truncated"], document["exitStatus"]) == (5, False, 0)
    *found, summary = run("topics", PLAIN, "--format", "ndjson").objects
    assert found == document["rows"]
    assert summary["log"] == document["log"]
    table = list(csv.DictReader(io.StringIO(run("topics", PLAIN, "--format", "csv").out)))
    assert [row["topic"] for row in table] == [row["topic"] for row in found]
    assert [int(row["bytes"]) for row in table] == [row["bytes"] for row in found]
    text = run("topics", PLAIN).out
    assert text.startswith("5 topics, 163 messages in ")
    assert all(row["topic"] in text for row in found)
    first = found[0]
    assert (first["topic"], first["kind"], first["oldest"]) == (
        "TopicTest",
        "ordinary",
        "2026-11-21T03:28:40.424Z",
    )


def test_the_backlog_is_that_of_offsets(run: Callable[..., Run]) -> None:
    """The group with the largest lag over all queues of a topic."""
    rows = run("offsets", PLAIN, "--format", "ndjson").objects[:-1]
    lags: dict[tuple[str, str], int] = {}
    for row in rows:
        lags[row["topic"], row["reader"]] = lags.get((row["topic"], row["reader"]), 0) + row["lag"]
    for row in run("topics", PLAIN, "--format", "ndjson").objects[:-1]:
        of_topic = {reader: lag for (topic, reader), lag in lags.items() if topic == row["topic"]}
        assert row["backlog"] == (max(of_topic.values()) if of_topic else None)
        assert row["slowestReader"] in (of_topic or {None})
    queues = run("topics", PLAIN, "--queues", "--format", "ndjson").objects[:-1]
    for queue in queues:
        mine = [
            row["lag"] for row in rows if (row["topic"], row["queueId"]) == (queue["topic"], queue["queueId"])
        ]
        assert queue["backlog"] == max(mine, default=None)


@pytest.mark.parametrize("form", ["text", "json", "ndjson", "csv"])
def test_what_is_cut_is_said(run: Callable[..., Run], form: str) -> None:
    found = run("topics", PLAIN, "--top", 2, "--format", form)
    assert found.status == 0
    if form == "text":
        assert f"3 rows more, all of them: rmqtool topics {PLAIN}" in found.out
    elif form == "csv":
        assert "3 more rows are left out" in found.err
    else:
        document = found.document if form == "json" else found.objects[-1]
        assert (document["truncated"], document["more"]) == (True, 3)
    for word in ("more rows", "rows more", '"truncated": true'):
        assert word not in run("topics", PLAIN, "--format", form).out


def test_a_part_of_a_store_has_no_backlog(run: Callable[..., Run]) -> None:
    rows = run("topics", PLAIN / "commitlog", "--format", "ndjson").objects[:-1]
    assert len(rows) == 5
    assert {row["backlog"] for row in rows} == {None}
    assert run("topics", PLAIN / "index").status == 3


def test_topics_that_are_not_there(run: Callable[..., Run]) -> None:
    found = run("topics", PLAIN, "--topic", "TopicTes")
    assert found.status == 1
    assert "TopicTest" in found.err
    assert run("topics", PLAIN, "--topic", "TopicTes", "--fail-on", "never").status == 0
    assert (
        run("topics", PLAIN, "--kind", "retry", "--format", "ndjson").objects[0]["topic"] == "%RETRY%billing"
    )


def test_the_first_line_counts_the_topics_that_are_shown(run: Callable[..., Run]) -> None:
    found = run("topics", PLAIN, "--topic", "Orders")
    assert found.out.startswith("1 topic, 32 messages in 9.6 KiB, of the log's 163 messages\n")
    assert run("topics", PLAIN, "--top", 1).out.startswith("5 topics, 163 messages in 50.9 KiB\n")


def test_damage_is_skipped_and_said(run: Callable[..., Run], plain_copy: Path) -> None:
    log = plain_copy / "commitlog" / f"{8192:020d}"
    data = bytearray(log.read_bytes())
    data[4] ^= 0xFF
    log.write_bytes(data)
    found = run("topics", plain_copy)
    assert found.status == 5
    assert found.out.startswith("The commit log is damaged (1 error): 5 topics, 162 messages")
    assert "CL-BAD-MAGIC" in found.out
    document = run("topics", plain_copy, "--format", "json").document
    assert (document["exitStatus"], document["counts"]["CL-BAD-MAGIC"]) == (5, 1)
    assert document["log"]["damagedBytes"] > 0
    assert run("topics", plain_copy, "--fail-on", "never").status == 0


def test_offsets_that_cannot_be_decoded_make_the_answer_incomplete(
    run: Callable[..., Run], plain_copy: Path
) -> None:
    (plain_copy / "config" / "consumerOffset.json").write_text("{nonsense")
    found = run("topics", plain_copy)
    assert found.status == 1
    assert "consumerOffset.json" in found.err
    assert "TopicTest" in found.out


def test_hostile_names_are_harmless(run: Callable[..., Run], tmp_path: Path) -> None:
    from tests.scan.log_builder import record

    folder = tmp_path / "store" / "commitlog"
    folder.mkdir(parents=True)
    name = b"\x1b[31m[bold]../x"
    (folder / f"{0:020d}").write_bytes(record(0, topic=name).ljust(4096, b"\0"))
    found = run("topics", tmp_path / "store", "-q")
    assert "\x1b" not in found.out
    assert "[bold]../x" in found.out
    row = run("topics", tmp_path / "store", "--format", "json", "-q").document["rows"][0]
    assert (row["topic"].encode(), row["messagesPerSecond"]) == (name, None)
