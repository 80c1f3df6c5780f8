"""Threads of RocketMQ's trackers: state, verdict, and remedy, which real store classes confirm."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

import rmqtool
from rmqtool.outcomes import best
from tests.broker import jvm
from tests.broker.damaged_states import State
from tests.broker.starts import Case
from tests.broker.starts import judged as judged_starts
from tests.broker.stores import fixture_store
from tests.broker.threads import THREADS, offsets_given_twice
from tests.broker.ways_out import judged

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.broker.jvm import Version
    from tests.broker.measured import Outcome
    from tests.broker.threads import Thread
    from tests.runs import Run

_HARM = ("lost", "wrong", "unserved", "unindexed", "reused")


def _harm(outcome: Outcome) -> set[str]:
    return {name for name in _HARM if getattr(outcome, name)} | ({"starts"} if not outcome.starts else set())


@pytest.mark.broker
@pytest.mark.parametrize("version", sorted({thread.state.version for thread in THREADS}))
def test_the_remedy_cures_it(version: Version, tmp_path: Path) -> None:
    """A start without it does the harm of the thread, a start after it none but what was lost before."""
    threads = [thread for thread in THREADS if thread.state.version == version]
    by_label = {thread.state.label: thread for thread in threads}
    actions = ["start", *{thread.remedy for thread in threads} - {"start"}]
    tried = 0
    for line in judged([thread.state for thread in threads], version, tmp_path, actions=actions):
        thread = by_label[line.state.label]
        if line.action not in {"start", thread.remedy}:
            continue
        assert line.result is not None, line.refused
        assert line.differences == [], line.state.label
        harm = _harm(line.result.outcome)
        if line.action == "start":
            assert harm == thread.harm, line.state.label
        if line.action == thread.remedy:
            assert harm <= {"lost"}, line.state.label
            assert line.result.outcome.lost == thread.lost, line.state.label
            tried += 1
    assert tried == len(threads)


@pytest.mark.broker
@pytest.mark.parametrize("version", ["4.9.8", "5.3.3", "5.5.1"])
def test_a_slave_that_was_made_master_counts_from_an_older_place(
    version: Version, tmp_path: Path, run: Callable[..., Run]
) -> None:
    """8539: no start, rebuild or salvage brings three messages; they are listed, to be sent again."""
    state = State("offsets_given_twice", "8539", f"plain-{version}", None, offsets_given_twice, is_whole=True)
    lines = [*judged([state], version, tmp_path / "judged", actions=["start", "rebuild", "salvage"])]
    assert {line.action for line in lines} >= {"start", "rebuild"}
    for line in lines:
        assert line.differences == [], line.action
        if line.result is not None:
            assert line.result.outcome.unserved == 3
    copy, lost = state.copy_to(tmp_path / "state"), tmp_path / "lost.ndjson"
    words = ("--predict-recovery", "--broker-version", version, "--lost", lost, "--format", "json")
    told = run("verify", copy.root, "-c", copy.conf, *words).document
    assert {"CL-QOFF-DUP", "CQ-MISSING-MSG"} <= told["counts"].keys()
    listed = [json.loads(row) for row in lost.read_text().splitlines()]
    assert [(row["topic"], row["queueId"], row["reason"]) for row in listed] == [
        ("TopicTest", 3, "no-unit")
    ] * 3
    assert "after a slave was made master" in run("help", "incidents").out


@pytest.mark.broker
@pytest.mark.parametrize("version", jvm.VERSIONS)
def test_settings_that_a_crash_left_unreadable(
    version: Version, tmp_path: Path, run: Callable[..., Run]
) -> None:
    """3401, 6096, 9328: other bytes in consumerOffset.json, beside a sound ``.bak``."""
    old = '{"offsetTable":{"TopicTest@readers":{0:20,1:3,2:0,3:1},"Orders@billing":{0:9}}}'
    root = fixture_store("plain-5.3.3").copy_to(tmp_path / "store")
    (root / "config" / "consumerOffset.json").write_bytes(b"\x93\xfe\x01\x00" * 90)
    (root / "config" / "consumerOffset.json.bak").write_text(old)
    codes = run("verify", root, "--format", "json").document["counts"]
    assert {"CF-BACKUP"} & codes.keys()
    assert run("repair", root, "--yes").status == 0
    (root / "config" / "consumerOffset.json.bak").unlink(missing_ok=True)
    listed = tmp_path / "folders"
    listed.write_text(f"{root / 'config'}\n")
    (row,) = jvm.run(version, "Configs", listed)
    assert row["loads"]
    assert row["table"]["TopicTest@readers"] == {"0": 20, "1": 3, "2": 0, "3": 1}


@pytest.mark.broker
@pytest.mark.parametrize("version", jvm.VERSIONS)
def test_a_file_of_settings_from_an_older_release(
    version: Version, tmp_path: Path, run: Callable[..., Run]
) -> None:
    """1251, 1560, 7191: after an upgrade no queue has the expected size: the file has an old name."""
    store = fixture_store(f"plain-{version}")
    text = store.conf.read_text("utf-8")
    conf, cured = tmp_path / "old.conf", tmp_path / "cured.conf"
    conf.write_text(text.replace("mappedFileSizeConsumeQueue", "mapedFileSizeConsumeQueue"), "utf-8")
    told = run("config", conf, "--release", version, "--store", store.root, "--format", "json").document
    by_name = {row["name"]: row for row in told["rows"] if row["kind"] in {"unknown", "store"}}
    assert by_name["mapedFileSizeConsumeQueue"]["message"].endswith(
        "did you mean mappedFileSizeConsumeQueue?"
    )
    made = by_name["mappedFileSizeConsumeQueue"]
    assert (made["severity"], made["effective"]) == ("error", 6_000_000)
    cured.write_text(text, "utf-8")
    cases = [Case(path.stem, store.copy_to(tmp_path / path.stem), path) for path in (conf, cured)]
    line = f"{cases[0].root}/consumequeue/T/0/{0:020d}\t200 length not matched message store config value"
    explained = run("explain", line, cases[0].root, "-c", conf, "--format", "json").document["lines"]
    assert [(row["name"], row["here"]) for row in explained] == [("file-size", "bad")]
    outcomes = list(judged_starts(version, cases))
    assert [(prediction.loads, wrong) for _, prediction, wrong in outcomes] == [(False, []), (True, [])]


@pytest.mark.parametrize("thread", THREADS, ids=lambda thread: thread.state.label)
def test_the_verdict(tmp_path: Path, run: Callable[..., Run], thread: Thread) -> None:
    copy = thread.state.copy_to(tmp_path / "state")
    with rmqtool.open(copy.root, broker_conf=copy.conf, broker_version=thread.state.version) as store:
        report = store.verify(jobs=1)
    assert thread.codes <= report.findings.counts.keys()
    chosen = best(report.outcomes)
    assert (None if chosen is None else chosen.action.value) == (thread.advised if report.outcomes else None)
    page = run("help", "incidents").out
    (row,) = (line for line in page.splitlines() if line.startswith(f"| {thread.symptom}"))
    assert "Next" in row or f"rmqtool {thread.remedy}" in row or thread.remedy == "start"
