"""Questions: which there are, what answers them, and what an answer tells beside its messages."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING, Any

import pytest

import rmqtool

if TYPE_CHECKING:
    from pathlib import Path


def test_every_question_finds_the_same_message(plain: Path) -> None:
    store = rmqtool.open(plain)
    (message,) = store.query(topic="TopicTest", key="order-140")
    assert message.uniq_key is not None
    time_ms = message.store_timestamp_ms
    questions: list[dict[str, Any]] = [
        {"topic": "TopicTest", "unique_key": message.uniq_key},
        {"msg_id": message.msg_id},
        {"msg_id": message.uniq_key},
        {"offset": message.physical_offset},
        {"topic": "TopicTest", "queue": 0, "queue_offset": message.queue_offset},
        {"topic": "TopicTest", "key": "order-140", "scan": True},
        {"topic": "TopicTest", "queue": 0, "begin": time_ms, "end": time_ms},
        {"topic": "TopicTest", "keys": ["order-140"]},
    ]
    for question in questions:
        assert list(store.query(**question)) == [message]


def test_how_many(plain: Path) -> None:
    """All unless told otherwise, of a queue offset the one message; 0 is all, as on the command line."""
    store = rmqtool.open(plain)
    hot = list(store.query(topic="TopicTest", key="hot"))
    assert len(hot) > 1
    assert list(store.query(topic="TopicTest", key="hot", max=1)) == hot[-1:]
    assert len(list(store.query(topic="TopicTest", queue=0, queue_offset=4))) == 1
    assert len(list(store.query(topic="TopicTest", queue=0, queue_offset=4, max=0))) == 20
    assert len(list(store.query(topic="TopicTest", begin=0))) == len(list(store.messages(topic="TopicTest")))


def test_many_keys_in_one_pass(plain: Path) -> None:
    keys: list[str | rmqtool.KeyQuestion]
    keys = ["order-140", "nothing", rmqtool.KeyQuestion("TopicTest", "order-1")]
    pairs = list(rmqtool.open(plain).query(topic="TopicTest", keys=keys).pairs())
    assert [question.key for question, _ in pairs if question is not None] == ["order-140", "order-1"]
    assert [message.keys[0] for _, message in pairs] == ["order-140", "order-1"]
    with pytest.raises(rmqtool.UsageError, match="'order-1' needs --topic"):
        rmqtool.open(plain).query(keys=["order-1"])


def test_an_answer_tells_why(plain: Path) -> None:
    store = rmqtool.open(plain)
    explained = store.query(topic="TopicTest", key="nothing", explain=True)
    assert list(explained) == []
    assert {step.reason.value for step in explained.steps}
    assert list(store.query(topic="topictest", key="order-140")) == []
    hinted = store.query(topic="topictest", key="order-140")
    assert list(hinted) == []
    assert any("TopicTest" in hint for hint in hinted.hints)


def test_a_missing_index_is_replaced_by_the_log(plain: Path, tmp_path: Path) -> None:
    """Never an empty answer, which would mean that there is no such message."""
    store = shutil.copytree(plain, tmp_path / "store")
    shutil.rmtree(store / "index")
    assert len(list(rmqtool.open(store).query(topic="TopicTest", key="order-140"))) == 1
    with pytest.raises(rmqtool.UnansweredError, match="--scan walks the log itself"):
        list(rmqtool.open(store).query(topic="TopicTest", key="order-140", collisions=True))


@pytest.mark.parametrize(
    ("question", "message"),
    [
        ({}, "nothing to find"),
        ({"tag": "TagA"}, "--tag needs --topic"),
        ({"key": "order-1", "collisions": True}, "--collisions needs --topic"),
        ({"topic": "T", "key": "a", "msg_id": "b"}, "are 2 queries"),
        ({"topic": "T", "queue_offset": 1}, "--queue-offset needs --queue"),
        ({"topic": "T", "key": "a", "queue": 1}, "--queue does not apply to --key"),
        ({"offset": 1, "begin": 0}, "do not apply to --offset"),
        (
            {"topic": "T", "key": "a", "collisions": True, "scan": True},
            "--collisions needs --key, --unique-key, --tag or --keys-file",
        ),
        ({"topic": ["T"], "key": "a"}, r"topic=\['T'\]: give one text"),
        ({"offset": -1}, "offset=-1: must be at least 0"),
        ({"topic": "T", "begin": "soon"}, "'soon' is not a time"),
    ],
)
def test_what_is_no_question(plain: Path, question: dict[str, object], message: str) -> None:
    with pytest.raises(rmqtool.UsageError, match=message):
        rmqtool.open(plain).query(**question)  # type: ignore[arg-type]


def test_damage_on_the_way_is_a_finding(torn: Path) -> None:
    answer = rmqtool.open(torn).query(topic="TopicTest", key="order-140", scan=True)
    assert len(list(answer)) == 1
    assert len(answer.findings) > 0
