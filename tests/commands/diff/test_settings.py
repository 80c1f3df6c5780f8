"""Settings in ``config/`` of two stores: what each has alone, and the values that differ."""

from __future__ import annotations

import json
import shutil
from typing import TYPE_CHECKING, Any

import pytest

from tests.store.fixture_stores import fixture

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.runs import Run


def edit(root: Path, name: str, change: Callable[[Any], None]) -> None:
    path = root / "config" / name
    document = json.loads(path.read_text()) if path.exists() else {}
    change(document)
    path.write_text(json.dumps(document))


def rows(run: Callable[..., Run], a: Path, b: Path) -> list[dict[str, Any]]:
    """Return the rows of settings; they are the only ones, and no difference of the stores."""
    found = run("diff", a, b, "--format", "json")
    document = found.document
    assert found.status == 0
    assert document["differences"] == document["normalDifferences"] == {}
    assert sum(document["settings"].values()) == sum(row["count"] for row in document["rows"])
    listed: list[dict[str, Any]] = document["rows"]
    return listed


@pytest.fixture
def pair(tmp_path: Path) -> tuple[Path, Path]:
    root: Path = shutil.copytree(fixture("plain-5.3.3"), tmp_path / "one")
    groups = {"subscriptionGroupTable": {"billing": {"groupName": "billing", "retryMaxTimes": 16}}}
    (root / "config" / "subscriptionGroup.json").write_text(json.dumps(groups))
    (root / "config" / "delayOffset.json").write_text('{"offsetTable":{3:7}}')
    (root / "config" / "consumerOffset.json").write_text(
        '{"offsetTable":{"Orders@billing":{0:9,1:4},"TopicTest@readers":{0:1}}}'
    )
    return root, shutil.copytree(root, tmp_path / "other")


def test_equal_settings_do_not_differ(run: Callable[..., Run], pair: tuple[Path, Path]) -> None:
    assert rows(run, *pair) == []
    assert " settings compared" in run("diff", *pair).out


def test_each_setting_is_told_in_the_fields_words(run: Callable[..., Run], pair: tuple[Path, Path]) -> None:
    a, b = pair
    edit(
        b,
        "subscriptionGroup.json",
        lambda of: of["subscriptionGroupTable"]["billing"].update(retryMaxTimes=3),
    )
    (b / "config" / "delayOffset.json").write_text('{"offsetTable":{3:9,4:1}}')
    (b / "config" / "consumerOffset.json").write_text('{"offsetTable":{"Orders@billing":{0:8,1:4}}}')
    edit(b, "topics.json", lambda of: of["topicConfigTable"]["Orders"].update(writeQueueNums=2))
    edit(b, "topics.json", lambda of: of["topicConfigTable"].pop("Payments"))
    sentences = {row["message"]: row for row in rows(run, a, b)}
    assert [*sentences] == [
        "offset of group billing in Orders/0: offset 9 and 8",
        "only A has the offset of group readers in TopicTest/0: 1",
        "offset of delay level 3 in SCHEDULE_TOPIC_XXXX/2: offset 7 and 9",
        "only B has the offset of delay level 4 in SCHEDULE_TOPIC_XXXX/3: 1",
        "topic Orders: writeQueueNums 8 and 2",
        "only A has the topic Payments",
        "group billing: retryMaxTimes 16 and 3",
    ]
    first = sentences["offset of group billing in Orders/0: offset 9 and 8"]
    assert (first["structure"], first["topic"], first["queueId"]) == (
        "config/consumerOffset.json",
        "Orders",
        0,
    )
    assert (first["a"], first["b"], first["change"]) == ({"offset": 9}, {"offset": 8}, "changed")
    told = run("diff", a, b, "--max-differences", 1)
    assert told.out.startswith("No difference, 7 of settings (2 config/consumerOffset.json, ")
    assert "config/topics.json: 1 more difference\n" in told.out


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("{", "consumerOffset.json"),
        ("[]", "only A has a config/consumerOffset.json that can be read"),
        ('{"offsetTable":{"T@G":{"' + "9" * 5000 + '":1}}}', "only A has a config/consumerOffset.json"),
        ('{"offsetTable":{"T@G":{"0":"' + "9" * 5000 + '"}}}', "only A has a config/consumerOffset.json"),
        ('{"offsetTable":{"T@G":' + "[" * 100_000, "consumerOffset.json"),
        ('{"offsetTable":{"T@G":{"0":1e999}}}', "consumerOffset.json"),
    ],
    ids=["cut", "list", "long queue", "long offset", "deep", "infinite"],
)
def test_what_no_broker_reads_is_a_note(
    run: Callable[..., Run], pair: tuple[Path, Path], text: str, told: str
) -> None:
    (pair[1] / "config" / "consumerOffset.json").write_text(text)
    found = run("diff", *pair, "--format", "json")
    assert (found.status, found.document["settings"]) == (0, {})
    assert told in " ".join(found.document["notes"])
    assert run("offsets", pair[1]).status in {0, 1, 3}


def test_a_store_without_a_file_lacks_all_its_entries(
    run: Callable[..., Run], pair: tuple[Path, Path]
) -> None:
    """After a switch groups are missing: the other store never wrote the file."""
    groups = json.loads((pair[0] / "config" / "subscriptionGroup.json").read_text())["subscriptionGroupTable"]
    (pair[1] / "config" / "subscriptionGroup.json").unlink()
    (pair[1] / "config" / "subscriptionGroup.json.bak").unlink(missing_ok=True)
    assert {row["message"] for row in rows(run, *pair)} == {f"only A has the group {name}" for name in groups}
    assert run("diff", *pair, "--format", "json").document["notes"] == []


def test_settings_in_a_database_are_not_compared(run: Callable[..., Run], pair: tuple[Path, Path]) -> None:
    (pair[1] / "config" / "consumerOffsets").mkdir()
    assert rows(run, *pair) == []
    assert (
        "B: config/consumerOffsets is a database of settings; they are not compared" in run("diff", *pair).err
    )


def test_parts_of_stores_have_no_settings(run: Callable[..., Run]) -> None:
    root = fixture("plain-5.3.3")
    assert "settings" not in run("diff", root / "commitlog", root / "commitlog").out
