"""Settings of another store, merged by ``repair``: the rule, the undo, and nothing there is trusted."""

from __future__ import annotations

import json
import os
import shutil
from typing import TYPE_CHECKING, Any

import pytest

import rmqtool
from rmqtool.errors import RefusedError, RmqtoolError, UsageError
from rmqtool.store.broker_json import parse_broker_json
from tests.check.test_delay_checks import Delays
from tests.commands.test_repair import picture
from tests.damage.edits import edited
from tests.damage.running import install_rebuilt
from tests.store.fixture_stores import fixture

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from rmqtool.commands.repair import RepairReport
    from tests.runs import Run

TOPIC = {"topicName": "New", "readQueueNums": 4, "writeQueueNums": 4, "perm": 6, "order": False}
GROUP = {"groupName": "new", "consumeEnable": True, "retryMaxTimes": 16, "subscriptionDataSet": None}


@pytest.fixture
def stores(tmp_path: Path) -> tuple[Path, Path]:
    """Two copies of one store."""
    first: Path = shutil.copytree(fixture("plain-5.3.3"), tmp_path / "store")
    return first, shutil.copytree(first, tmp_path / "other")


def put(root: Path, name: str, document: object) -> None:
    (root / "config").mkdir(exist_ok=True)
    (root / "config" / name).write_text(document if isinstance(document, str) else json.dumps(document))


def offsets(root: Path, table: dict[str, Any], name: str = "consumerOffset.json") -> None:
    put(root, name, {"offsetTable": table})


def merge(stores: tuple[Path, Path], **more: Any) -> RepairReport:  # noqa: ANN401 - as of `Store.repair`
    first, other = stores
    return rmqtool.open(first).repair(settings_from=rmqtool.open(other), only=["config"], **more)


def content(root: Path, name: str) -> dict[str, Any]:
    document: dict[str, Any] = json.loads((root / "config" / name).read_text())
    return document


def test_the_greatest_offset_is_taken_that_the_queue_still_has(stores: tuple[Path, Path]) -> None:
    table = {
        "Orders@billing": {"0": 10, "1": 4, "7": 400, "9": 1},
        "TopicTest@readers": {"0": 20, "1": 5},
        "Gone@billing": {"0": 3},
        "no group": {"0": 3},
    }
    offsets(stores[1], table)
    before = [picture(root) for root in stores]
    plan = merge(stores, plan=True)
    assert [picture(root) for root in stores] == before
    assert {
        (row.entry, row.queue_id): (row.ours, row.theirs, row.result, row.taken) for row in plan.merged
    } == {
        ("Orders@billing", 0): (9, 10, 10, True),
        ("Orders@billing", 1): (None, 4, 4, True),
        ("Orders@billing", 7): (None, 400, None, False),
        ("Orders@billing", 9): (None, 1, None, False),
        ("TopicTest@readers", 1): (3, 5, 5, True),
        ("Gone@billing", 0): (None, 3, None, False),
        ("no group", 0): (None, 3, None, False),
    }
    done = merge(stores)
    assert (done.outcome, done.merged) == ("done", plan.merged)
    assert content(stores[0], "consumerOffset.json")["offsetTable"] == {
        "Orders@billing": {"0": 10, "1": 4},
        "TopicTest@readers": {"0": 21, "1": 5, "2": 0},
    }
    again = merge(stores)
    assert (again.outcome, again.steps) == ("nothing-to-do", ())
    assert rmqtool.open(stores[0]).repair(undo=True).outcome == "undone"
    assert [picture(root) for root in stores] == before


def test_a_shorter_queue_is_read_to_its_end_and_an_expired_one_from_its_start(
    stores: tuple[Path, Path],
) -> None:
    """A group that had read more than the slave has; and one that had read less than it still has."""
    first, other = stores
    offsets(other, {"TopicTest@readers": {"0": 23}, "TopicTest@old": {"3": 0}})
    ours = {"Orders@billing": {"0": 9}, "TopicTest@readers": {"0": 5}}
    offsets(first, ours)
    max(first.glob("consumequeue/TopicTest/0/*")).unlink()
    (first / "commitlog" / f"{0:020d}").unlink()
    bounds = {
        queue.queue_id: (queue.min_offset, queue.max_offset)
        for queue in rmqtool.open(first).queues()
        if queue.topic == "TopicTest"
    }
    low, high = bounds[3][0], bounds[0][1]
    assert low > 0
    assert 5 < high < 23
    told = {row.entry: (row.result, row.why) for row in merge(stores, plan=True).merged}
    assert told == {
        "TopicTest@readers": (high, f"the queue ends at {high}"),
        "TopicTest@old": (low, f"the queue begins at {low}"),
    }


def test_an_offset_is_left_out_where_the_other_store_has_another_message(
    stores: tuple[Path, Path], tmp_path: Path
) -> None:
    """Histories that have parted: the group has read the other's message, not this one's."""
    offsets(stores[1], {"Orders@billing": {"0": 10}})
    unit = next(
        message.physical_offset
        for message in rmqtool.open(stores[1])
        if (message.topic, message.queue_id, message.queue_offset) == ("Orders", 0, 9)
    )
    number = sorted(message.physical_offset for message in rmqtool.open(stores[1])).index(unit)
    other = edited(stores[1], tmp_path / "parted", [{"record": number, "field": "flag", "set": 7}])
    report = merge((stores[0], other), plan=True)
    assert [(row.taken, row.why) for row in report.merged] == [
        (False, "message 9 is another one in the other store")
    ]
    assert report.steps == ()


def test_levels_topics_and_groups(stores: tuple[Path, Path], tmp_path: Path) -> None:
    first: Path = shutil.copytree(fixture("delay-5.3.3"), tmp_path / "delays")
    other: Path = shutil.copytree(first, tmp_path / "delays2")
    levels = content_of(first, "delayOffset.json")["offsetTable"]
    put(other, "delayOffset.json", {"offsetTable": {**levels, "1": 1, "4000000000": 1, "9" * 40: 1}})
    plan = merge((first, other), plan=True)
    undelivered = next(row for row in plan.merged if row.entry == "1")
    assert (undelivered.taken, undelivered.why.startswith("not shown that")) == (False, True)
    topics = content_of(other, "topics.json")
    put(other, "topics.json", {"topicConfigTable": {**topics["topicConfigTable"], "New": TOPIC}})
    put(
        other,
        "subscriptionGroup.json",
        {"subscriptionGroupTable": {"new": GROUP}, "dataVersion": {"counter": "x"}},
    )
    done = merge((first, other))
    assert done.outcome == "done"
    assert content_of(first, "delayOffset.json")["offsetTable"] == levels
    merged = content(first, "topics.json")
    assert merged["topicConfigTable"] == {**topics["topicConfigTable"], "New": TOPIC}
    assert merged.get("dataVersion") == topics.get("dataVersion")
    assert content(first, "subscriptionGroup.json") == {"subscriptionGroupTable": {"new": GROUP}}


@pytest.mark.parametrize(("offset", "result"), [(2, 2), (4, None), (9, None)])
def test_a_level_goes_on_after_what_the_log_has_delivered(
    tmp_path: Path, offset: int, result: int | None
) -> None:
    """Of four messages the log has copies of two; five more are in no queue."""
    log = Delays()
    for number in range(4):
        log.delayed(f"U{number}", 1)
    for key in ("U0", "U1"):
        log.copy(key)
    first, other = tmp_path / "store", tmp_path / "other"
    log.write(first / "commitlog")
    settings = ["maxHashSlotNum=50", "maxIndexNum=100", "mappedFileSizeConsumeQueue=200"]
    install_rebuilt(first, settings)
    put(first, "delayOffset.json", {"offsetTable": {"1": 0}})
    shutil.copytree(first, other)
    put(other, "delayOffset.json", {"offsetTable": {"1": offset}})
    given = dict(text.split("=") for text in settings)
    stores = [rmqtool.open(root, properties=given) for root in (first, other)]
    done = stores[0].repair(settings_from=stores[1], only=["config"])
    (row,) = done.merged
    assert (row.result if row.taken else None) == result
    assert content(first, "delayOffset.json")["offsetTable"] == {"1": result or 0}


@pytest.mark.parametrize("spoiled", ["missing", "cut", "no directory"])
def test_a_lost_file_is_made_of_the_other_stores(stores: tuple[Path, Path], spoiled: str) -> None:
    first = stores[0]
    before = {name: content_of(stores[1], name) for name in ("consumerOffset.json", "topics.json")}
    for name, text in before.items():
        put(stores[1], name, text)
        file = first / "config" / name
        file.write_text(json.dumps(text)[:-9]) if spoiled == "cut" else file.unlink()
    if spoiled == "no directory":
        shutil.rmtree(first / "config")
    state = picture(first)
    done = merge(stores)
    assert (done.outcome, done.left) == ("done", ())
    for name, table in (("consumerOffset.json", "offsetTable"), ("topics.json", "topicConfigTable")):
        assert content(first, name)[table] == before[name][table]
    assert rmqtool.open(first).verify().exit_status() == 0
    rmqtool.open(first).repair(undo=True)
    assert picture(first) == state


def content_of(root: Path, name: str) -> dict[str, Any]:
    """Return a file of a fixture as strict JSON."""
    document = parse_broker_json((root / "config" / name).read_text())
    assert isinstance(document, dict)
    return document


def _topic(**changed: object) -> str:
    return json.dumps({"topicConfigTable": {"New": {**TOPIC, **changed}}})


HOSTILE: dict[str, tuple[str, str, str]] = {
    "cut": ("consumerOffset.json", '{"offsetTable":{"Orders@g":{"0":1', "repair .* first"),
    "no JSON": ("topics.json", "hello", "repair .* first"),
    "list": ("topics.json", "[1]", "repair .* first"),
    "deep": ("topics.json", '{"topicConfigTable":' + "[" * 100_000, "repair .* first"),
    "long offset": (
        "consumerOffset.json",
        '{"offsetTable":{"Orders@g":{"0":' + "9" * 30 + "}}}",
        "is no offset",
    ),
    "longer offset": (
        "consumerOffset.json",
        '{"offsetTable":{"Orders@g":{"0":' + "9" * 9000 + "}}}",
        "first",
    ),
    "group of slashes": ("consumerOffset.json", '{"offsetTable":{"Orders@../g":{"0":1}}}', "not a name"),
    "control characters": (
        "consumerOffset.json",
        '{"offsetTable":{"Orders@g\\u001b[2J":{"0":1}}}',
        "not a name",
    ),
    "topic above": (
        "topics.json",
        json.dumps({"topicConfigTable": {"..": {"topicName": ".."}}}),
        "not a name",
    ),
    "other name": ("topics.json", _topic(topicName="Old"), "its topicName is another one"),
    "queues in words": (
        "topics.json",
        _topic(readQueueNums="many"),
        "readQueueNums is many, which no broker loads",
    ),
    "too many queues": ("topics.json", _topic(readQueueNums=1 << 40), "which no broker loads"),
    "class": ("topics.json", _topic(extra=[{"@type": "java.net.URL"}]), "its member @type is no setting"),
    "large number": ("topics.json", _topic(extra=1 << 70), "too large"),
    "attributes": ("topics.json", _topic(attributes={"a": 1}), "attributes is"),
    "flag": (
        "subscriptionGroup.json",
        json.dumps({"subscriptionGroupTable": {"new": {**GROUP, "consumeEnable": "yes"}}}),
        "consumeEnable is yes",
    ),
}


@pytest.mark.parametrize(("name", "text", "told"), HOSTILE.values(), ids=HOSTILE)
def test_what_the_other_store_must_not_hold_is_refused(
    stores: tuple[Path, Path], name: str, text: str, told: str
) -> None:
    (stores[1] / "config" / f"{name}.bak").unlink(missing_ok=True)
    put(stores[1], name, text)
    before = picture(stores[0])
    with pytest.raises(RefusedError, match=told):
        merge(stores)
    assert picture(stores[0]) == before


def _link_file(other: Path, secret: Path) -> None:
    (other / "config" / "topics.json").unlink()
    (other / "config" / "topics.json").symlink_to(secret)


def _link_directory(other: Path, secret: Path) -> None:
    shutil.rmtree(other / "config")
    (other / "config").symlink_to(secret.parent)


def _pipe(other: Path, _: Path) -> None:
    (other / "config" / "topics.json").unlink()
    os.mkfifo(other / "config" / "topics.json")


def _directory(other: Path, _: Path) -> None:
    (other / "config" / "topics.json").unlink()
    (other / "config" / "topics.json").mkdir()


@pytest.mark.parametrize("plant", [_link_file, _link_directory, _pipe, _directory])
def test_links_and_pipes_are_not_followed(
    stores: tuple[Path, Path], tmp_path: Path, plant: Callable[[Path, Path], None]
) -> None:
    secret = tmp_path / "secret" / "topics.json"
    secret.parent.mkdir()
    secret.write_text(json.dumps({"topicConfigTable": {"New": TOPIC}}))
    plant(stores[1], secret)
    before = picture(stores[0])
    with pytest.raises(RmqtoolError, match="config"):
        merge(stores)
    assert picture(stores[0]) == before


def test_what_makes_no_sense_is_refused(stores: tuple[Path, Path]) -> None:
    first, other = stores
    with pytest.raises(UsageError, match="is the store itself"):
        merge((first, first))
    with pytest.raises(UsageError, match="give a store root"):
        merge((first, other / "commitlog"))
    with pytest.raises(UsageError, match="settings_from and undo exclude"):
        merge(stores, undo=True)
    with pytest.raises(UsageError, match="is for the part config"):
        rmqtool.open(first).repair(settings_from=rmqtool.open(other), only=["index"])
    (other / "config" / "consumerOffsets").mkdir()
    with pytest.raises(RefusedError, match="a database keeps the settings"):
        merge(stores)


def test_the_plan_shows_each_setting_and_its_rule(stores: tuple[Path, Path], run: Callable[..., Run]) -> None:
    offsets(
        stores[1], {"Orders@billing": {"0": 10, "9": 1}, **{f"Orders@g{n}": {"1": n} for n in range(1, 25)}}
    )
    told = run("repair", stores[0], "--settings-from", stores[1], "--only", "config", "--plan").out
    assert "Offset.json: Orders@billing queue 0: 9 here, 10 there, 10 then: the greatest" in told
    assert "Offset.json: Orders@billing queue 9: none here, 1 there: no such queue here" in told
    assert "6 more settings, see --format json" in told
    done = run(
        "repair", stores[0], "--settings-from", stores[1], "--only", "config", "--yes", "--format", "json"
    )
    assert sum(row["taken"] for row in done.document["merged"]) == 11
    refused = run("repair", stores[0], "--settings-from", stores[0], "--plan")
    assert (refused.status, "is the store itself" in refused.err) == (2, True)
    missing = run("repair", stores[0], "--settings-from", stores[0] / "nothing", "--plan")
    assert missing.status == 3


_ENTRIES = (("broker-a", 1, "TopicTest", 4), ("broker-b", 0, "Orders", 2), ("broker-a", 0, "TopicTest", 5))
CLIENTS = {
    release: '{\n\t"offsetTable":{'
    + ",".join(
        f'{before}{{\n\t\t\t"brokerName":"{broker}",\n\t\t\t"queueId":{queue_id},\n\t\t\t"topic":"{topic}"'
        f"\n\t\t}}:{offset}"
        for broker, queue_id, topic, offset in _ENTRIES
    )
    + "\n\t}\n}"
    for release, before in (("4.9.8", ""), ("5.5.1", "\n\t\t"))
}
"""As ``LocalFileOffsetStore`` wrote them."""


def client_file(folder: Path, text: str, group: str = "readers") -> Path:
    file = folder / "10.0.0.5@4711" / group / "offsets.json"
    file.parent.mkdir(parents=True)
    file.write_text(text, "utf-8", errors="surrogateescape")
    return file


@pytest.mark.parametrize("release", CLIENTS)
def test_a_client_knows_what_it_had_read(stores: tuple[Path, Path], tmp_path: Path, release: str) -> None:
    """A known offset is not lowered, and the other broker's queues are not this one's."""
    root, before = stores[0], picture(stores[0])
    file = client_file(tmp_path, CLIENTS[release])
    with pytest.raises(
        RefusedError, match="of brokers 'broker-a', 'broker-b': name the store's with -p brokerName"
    ):
        rmqtool.open(root).repair(settings_from=file, only=["config"])
    for lost in ("consumerOffset.json", "consumerOffset.json.bak"):
        (root / "config" / lost).unlink(missing_ok=True)
    named = {"brokerName": "broker-a"}
    done = rmqtool.open(root, properties=named).repair(settings_from=file, only=["config"])
    assert (done.outcome, done.left) == ("done", ())
    assert content(root, "consumerOffset.json")["offsetTable"] == {"TopicTest@readers": {"0": 5, "1": 4}}
    assert {row.why for row in done.merged} == {"the greatest"}
    assert [step.why for step in done.steps] == ["2 settings taken from the client's file"]
    assert rmqtool.open(root).repair(undo=True).outcome == "undone"
    offsets(root, {"TopicTest@readers": {"0": 21, "1": 3}})
    again = rmqtool.open(root, properties=named).repair(settings_from=file, only=["config"])
    assert content(root, "consumerOffset.json")["offsetTable"] == {"TopicTest@readers": {"0": 21, "1": 4}}
    assert [(row.queue_id, row.ours, row.theirs) for row in again.merged if row.taken] == [(1, 3, 4)]
    assert before.keys() <= picture(root).keys() | {"config/consumerOffset.json.bak"}


ENTRY = '{"brokerName":"a","queueId":0,"topic":"TopicTest"}'


@pytest.mark.parametrize(
    "text",
    [
        "",
        "\0" * 300,
        "{}",
        "{" * 100_000,
        '{"offsetTable":{' + ENTRY + ":9",  # the number may have had more digits
        '{"offsetTable":{' + ENTRY + ":-4}}",
        '{"offsetTable":{' + ENTRY.replace('"queueId":0', '"queueId":true') + ":4}}",
        '{"offsetTable":{' + ENTRY.replace('"queueId":0', '"queueId":4e999') + ":4}}",
        '{"offsetTable":{' + ENTRY.replace('"queueId":0', f'"queueId":{"9" * 5000}') + ":4}}",
        '{"offsetTable":{' + ENTRY.replace('"a"', "[]") + ":4}}",
        "\udcff\udcfe",
    ],
    ids=str.__len__,
)
def test_a_clients_file_that_says_nothing_is_refused(
    stores: tuple[Path, Path], tmp_path: Path, text: str
) -> None:
    file = client_file(tmp_path, text)
    with pytest.raises(RefusedError, match="holds no offsets of a client; give its"):
        rmqtool.open(stores[0]).repair(settings_from=file, only=["config"])


def test_of_a_clients_file_nothing_is_trusted(stores: tuple[Path, Path], tmp_path: Path) -> None:
    """Offsets beyond the queue, of no queue, of names that are none; links; a group that is none."""
    before = picture(stores[0])
    entries = [
        ENTRY + f":{(1 << 63) - 1}",
        ENTRY.replace('"queueId":0', '"queueId":77') + ":1",
        ENTRY.replace("TopicTest", "../../etc") + ":1",
    ]
    text = '{"offsetTable":{' + ",".join(entries) + "}}"
    plan = rmqtool.open(stores[0]).repair(
        settings_from=client_file(tmp_path, text), plan=True, only=["config"]
    )
    assert [(row.taken, row.why) for row in plan.merged] == [
        (False, "beyond the end of its queue"),
        (False, "no such queue here"),
        (False, "no such queue here"),
    ]
    linked = tmp_path / "readers" / "offsets.json"
    linked.parent.mkdir()
    linked.symlink_to("../10.0.0.5@4711/readers/offsets.json")
    with pytest.raises(RefusedError, match="or a link"):
        rmqtool.open(stores[0]).repair(settings_from=linked, plan=True)
    for group in ("a group\n", "a@b"):
        strange = client_file(tmp_path / "x", text, group)
        with pytest.raises(RefusedError, match="not a name of a topic or group"):
            rmqtool.open(stores[0]).repair(settings_from=strange, plan=True)
    assert picture(stores[0]) == before
