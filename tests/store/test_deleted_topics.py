"""A topic counts as deleted only where topics.json can tell."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING

import pytest

from rmqtool.io import location_of
from rmqtool.store.broker_json import ListedTopics
from tests.store.fixture_stores import fixture

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A store root with the topics of a real broker."""
    shutil.copytree(fixture("plain-5.3.3") / "config", tmp_path / "config")
    return tmp_path


@pytest.mark.parametrize(
    ("topic", "is_deleted"),
    [
        ("Orders", False),
        ("%RETRY%billing", False),
        ("Refunds", True),
        ("%RETRY%gone", True),
        ("SCHEDULE_TOPIC_XXXX", False),
        ("RMQ_SYS_TRANS_OP_HALF_TOPIC", False),
        ("rmq_sys_wheel_timer", False),
        ("%LMQ%device", False),
    ],
)
def test_own_and_light_topics_are_never_deleted(root: Path, topic: str, is_deleted: bool) -> None:
    assert ListedTopics(location_of(root)).is_deleted(topic) == is_deleted


def test_without_topics_nothing_is_deleted(root: Path) -> None:
    """A missing, undecodable or empty topics.json, and one that RocksDB has replaced, says nothing."""
    topics = root / "config" / "topics.json"
    assert not ListedTopics(None).is_deleted("Refunds")
    (root / "config" / "rdb").mkdir()
    assert not ListedTopics(location_of(root)).is_deleted("Refunds")
    (root / "config" / "rdb").rmdir()
    for text in ('{"topicConfigTable":{', '{"topicConfigTable":{}}', "[]", ""):
        topics.write_text(text)
        assert not ListedTopics(location_of(root)).is_deleted("Refunds")
    topics.unlink()
    assert not ListedTopics(location_of(root)).is_deleted("Refunds")
