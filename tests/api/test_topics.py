"""What the library says of topics, and of messages that are lost."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

import rmqtool
from tests.store.fixture_stores import fixture

if TYPE_CHECKING:
    from pathlib import Path

PLAIN = fixture("plain-5.3.3")


def test_rows_and_what_they_are_of() -> None:
    with rmqtool.open(PLAIN) as store:
        report = store.topics()
        assert len(report) == report.topics == len(store.topic_names())
        assert isinstance(next(iter(report)), rmqtool.TopicTotals)
        with pytest.raises(AttributeError):
            report.rows[0].messages = 0  # type: ignore[misc]
        queues = store.topics(queues=True, topic="TopicTest", sort="name")
        assert [row.queue_id for row in queues] == [0, 1, 2, 3]
        assert {row.topic for row in store.topics(kind=["retry", "dead-letter"])} == {
            "%RETRY%billing",
            "%DLQ%billing",
        }


@pytest.mark.parametrize(
    ("words", "said"),
    [({"kind": "odd"}, "ordinary, retry"), ({"sort": "odd"}, "bytes, messages"), ({"top": 0}, "at least 1")],
)
def test_arguments_that_make_no_sense(words: dict[str, str | int], said: str) -> None:
    with rmqtool.open(PLAIN) as store, pytest.raises(rmqtool.UsageError, match=said):
        store.topics(**words)  # type: ignore[arg-type]


def test_without_a_log_there_is_nothing_to_add_up() -> None:
    with rmqtool.open(PLAIN / "index") as store, pytest.raises(rmqtool.EnvironmentFailureError):
        store.topics()


def test_lost_messages_are_told_as_they_are_found(tmp_path: Path) -> None:
    with rmqtool.open(PLAIN) as store:
        told: list[rmqtool.LostMessage] = []
        prediction = store.predict_recovery(lost=told.append)
        report = store.rebuild(tmp_path / "out", lost=told.append)
        assert told == []
        assert isinstance(prediction.lost_messages, rmqtool.LostTotals)
        assert report.lost_messages == prediction.lost_messages
        assert store.predict_recovery().lost_messages is None
