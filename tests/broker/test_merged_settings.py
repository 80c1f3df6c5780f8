"""Whole brokers start on settings that ``repair --settings-from`` merged, and know all of them."""

from __future__ import annotations

import json
import shutil
from typing import TYPE_CHECKING, Any

import pytest

import rmqtool
from rmqtool.doctor.offset_evidence import client_offsets
from rmqtool.store.broker_json import parse_broker_json
from tests.broker import whole_broker

if TYPE_CHECKING:
    from pathlib import Path

    from tests.broker.jvm import Version
    from tests.broker.whole_broker import Site

pytestmark = pytest.mark.broker

TOPICS, OFFSETS, DELAYS, GROUPS = 21, 43, 45, 201
"""``GET_ALL_…`` of ``RequestCode``, by which a slave copies the settings of its master."""


def known(at: Site, code: int, table: str) -> dict[str, Any]:
    """Return a table of what a running broker knows."""
    document = parse_broker_json(whole_broker.ask(at, code).decode())
    assert isinstance(document, dict)
    found: dict[str, Any] = document[table]
    return found


def edit(path: Path, table: str, entries: dict[str, Any]) -> None:
    document = parse_broker_json(path.read_text("utf-8")) if path.exists() else {}
    assert isinstance(document, dict)
    document.setdefault(table, {}).update(entries)
    path.write_text(json.dumps(document), "utf-8")


@pytest.mark.parametrize("version", ["4.9.8", "5.5.1"])
@pytest.mark.parametrize("is_lost", [False, True], ids=["merged", "lost files"])
def test_a_broker_knows_what_was_merged(version: Version, is_lost: bool, tmp_path: Path) -> None:
    """1094, 1440: a returning master has old offsets; itboon/rocketmq-helm#33: a slave lacks a topic."""
    with whole_broker.site(tmp_path, version) as site:
        with whole_broker.broker(site) as process:
            whole_broker.send(site, 0, 60)
            topics = known(site, TOPICS, "topicConfigTable")
            groups = known(site, GROUPS, "subscriptionGroupTable")
            whole_broker.stop(process)
        other = tmp_path / "other"
        shutil.copytree(site.store, other)
        config = other / "config"
        ends = {
            queue.queue_id: queue.max_offset
            for queue in rmqtool.open(other, broker_conf=site.conf).queues()
            if queue.topic == "Whole" and queue.max_offset
        }
        offsets = {str(queue_id): end - 1 for queue_id, end in ends.items()}
        edit(config / "consumerOffset.json", "offsetTable", {"Whole@merged": offsets})
        topic = {**topics["Whole"], "topicName": "Merged"}
        edit(config / "topics.json", "topicConfigTable", {"Merged": topic})
        group = {**next(iter(groups.values())), "groupName": "merged"}
        edit(config / "subscriptionGroup.json", "subscriptionGroupTable", {"merged": group})
        edit(site.store / "config" / "consumerOffset.json", "offsetTable", {"Whole@merged": {"0": 1}})
        here, there = (rmqtool.open(root, broker_conf=site.conf) for root in (site.store, other))
        differs = {row.structure for row in here.diff(there)}
        assert {"config/consumerOffset.json", "config/topics.json"} <= differs
        if is_lost:
            for file in (site.store / "config").iterdir():
                if file.name.startswith(("topics", "subscription", "consumerOffset")):
                    file.unlink()
        done = rmqtool.open(site.store, broker_conf=site.conf).repair(
            settings_from=rmqtool.open(other, broker_conf=site.conf), only=["config"]
        )
        assert (done.outcome, done.left) == ("done", ())
        with whole_broker.broker(site) as process:
            assert whole_broker.bounds(site, [("Whole", 0)])  # waits until it serves
            now = known(site, TOPICS, "topicConfigTable")
            assert now["Merged"] == topic
            assert topics.items() <= now.items()
            assert known(site, GROUPS, "subscriptionGroupTable")["merged"] == group
            assert known(site, OFFSETS, "offsetTable")["Whole@merged"] == offsets
            whole_broker.stop(process)
        assert offsets


@pytest.mark.parametrize("version", ["4.9.8", "5.5.1"])
def test_a_broker_knows_what_a_client_kept(version: Version, tmp_path: Path) -> None:
    """A client in broadcasting mode wrote ``offsets.json``; a broker takes over what its group had read."""
    with whole_broker.site(tmp_path, version) as site:
        with whole_broker.broker(site) as process:
            whole_broker.send(site, 0, 20)
            file = whole_broker.broadcast(site, "readers", 15)
            whole_broker.send(site, 20, 20)
            whole_broker.stop(process)
        ends = {
            queue.queue_id: queue.max_offset
            for queue in rmqtool.open(site.store, broker_conf=site.conf).queues()
            if queue.topic == "Whole"
        }
        kept = client_offsets(file.read_text("utf-8"), "readers")[whole_broker.NAME]["offsetTable"]
        done = rmqtool.open(site.store, broker_conf=site.conf).repair(settings_from=file, only=["config"])
        assert (done.outcome, done.left) == ("done", ())
        assert all(row.taken for row in done.merged)
        with whole_broker.broker(site) as process:
            assert whole_broker.bounds(site, [("Whole", 0)])  # waits until it serves
            now = known(site, OFFSETS, "offsetTable")
            whole_broker.stop(process)
    assert now["Whole@readers"] == kept["Whole@readers"]
    assert 15 <= sum(kept["Whole@readers"].values()) < sum(filter(None, ends.values()))


def test_a_lost_config_is_made_of_queues_and_of_messages_that_were_sent_back(tmp_path: Path) -> None:
    """``config/`` as a whole is missing: a broker knows all topics, and a group skips nothing."""
    with whole_broker.site(tmp_path) as site:
        with whole_broker.broker(site) as process:
            whole_broker.fates(site, "readers")
            committed = known(site, OFFSETS, "offsetTable")
            topics = known(site, TOPICS, "topicConfigTable")
            whole_broker.stop(process)
        shutil.rmtree(site.store / "config")
        with rmqtool.open(site.store, broker_conf=site.conf) as store:
            queues = {(str(queue.topic), queue.queue_id or 0) for queue in store.queues()}
        plan = rmqtool.open(site.store, broker_conf=site.conf).repair(plan=True, only=["config"])
        (lost,) = (one for one in plan.configs if one.file == "config/consumerOffset.json")
        assert [choice.name for choice in lost.choices] == ["sent-back", "oldest", "newest"]
        done = rmqtool.open(site.store, broker_conf=site.conf).repair(
            only=["config"], config={"topics.json": "queues", "consumerOffset.json": "sent-back"}
        )
        assert (done.outcome, done.left) == ("done", ())
        with whole_broker.broker(site) as process:
            assert whole_broker.send(site, 0, 1)  # waits until it serves
            table = known(site, OFFSETS, "offsetTable")
            now = known(site, TOPICS, "topicConfigTable")
            whole_broker.stop(process)
    known_topics = {topic for topic, _ in queues}
    assert known_topics <= now.keys()
    for topic in known_topics & topics.keys():
        assert now[topic]["readQueueNums"] >= max(number for name, number in queues if name == topic) + 1
    sure = {(name, number): int(offset) for name in table for number, offset in table[name].items()}
    assert {name for name, _ in sure} == {"Fates@readers", "%RETRY%readers@readers"}
    for (name, number), offset in sure.items():
        assert offset <= int(committed[name].get(number, 0)), (
            "no message that the group has not read is skipped"
        )
    assert sum(offset for (name, _), offset in sure.items() if name == "Fates@readers") > 0
    assert sure["%RETRY%readers@readers", "0"] > 0
