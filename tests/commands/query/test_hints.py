"""What a question that found nothing may have got wrong is said without being asked."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from rmqtool.commands.query import Explanation, Query, QueryRequest, Reason
from rmqtool.report.console import Console
from rmqtool.store import open_store
from tests.store.fixture_stores import fixture

if TYPE_CHECKING:
    from rmqtool.commands.query import Step

PLAIN = fixture("plain-5.3.3")
UNIQUE_KEY = "C0A80114E24018B4AAC2000000000000"
OFFSET_ID = "0A09080700002A9F0000000000000000"
CLIENT_ID = "01A2B3C4D5E6F70A1B0B2C3D4E00000001"


def advice(**question: Any) -> list[Step]:  # noqa: ANN401 - any field of a question
    """Return what a user reads who found nothing and did not ask why."""
    explanation = Explanation(wanted=False)
    query = Query(open_store(PLAIN), QueryRequest(**question), Console(quiet=True), explanation)
    assert list(query.run()) == []
    assert all(step.is_advice for step in explanation.steps)
    return explanation.steps


@pytest.mark.parametrize(
    ("question", "reason", "words"),
    [
        ({"topic": "TopicTets", "key": "hot"}, Reason.TOPIC_UNKNOWN, "near it: TopicTest"),
        ({"topic": "topictest", "begin_ms": 0}, Reason.TOPIC_UNKNOWN, "near it: TopicTest"),
        ({"topic": "XYZ", "key": "hot", "scan": True}, Reason.TOPIC_UNKNOWN, "Orders, Payments, TopicTest"),
        ({"topic": "TopicTest", "key": "TopicTest#hot"}, Reason.KEY_FORM, "query 'hot' alone"),
        ({"topic": "TopicTest", "unique_key": "c0a8" * 8}, Reason.KEY_FORM, f"query {'C0A8' * 8}"),
        ({"topic": "TopicTest", "unique_key": CLIENT_ID.lower()}, Reason.KEY_FORM, f"query {CLIENT_ID}"),
        ({"topic": "TopicTest", "unique_key": "hot"}, Reason.OTHER_KIND, "use --key"),
        ({"topic": "TopicTest", "key": "hot cold"}, Reason.KEYS_SPLIT, "query hot, cold"),
        ({"msg_id": "7F000001" + OFFSET_ID[8:]}, Reason.ID, "of the broker 127.0.0.1:10911"),
        ({"msg_id": OFFSET_ID[:-4] + "7FFF"}, Reason.ID, "begins with a message of 10.9.8.7:10911"),
        ({"topic": "TopicTest", "queue_id": 9, "queue_offset": 0}, Reason.QUEUE_MISSING, "queues 0, 1, 2, 3"),
        ({"topic": "TopicTest", "queue_id": 9, "begin_ms": 0}, Reason.QUEUE_MISSING, "queues 0, 1, 2, 3"),
        ({"topic": "TopicTest", "queue_id": 1, "queue_offset": 999}, Reason.QUEUE, "from 0 to before 25"),
        ({"offset": 1 << 40}, Reason.NO_RECORD, "which end at 57344"),
    ],
)
def test_what_was_meant(question: dict[str, Any], reason: Reason, words: str) -> None:
    (said,) = [step for step in advice(**question) if step.reason is reason]
    assert words in said.message


def test_a_unique_key_is_found_as_a_key() -> None:
    query = Query(open_store(PLAIN), QueryRequest(topic="TopicTest", key=UNIQUE_KEY), Console(quiet=True))
    assert [one.uniq_key for one in query.run()] == [UNIQUE_KEY]


def test_a_unique_id_that_is_not_there_is_no_id_of_another_broker() -> None:
    """Read as an offset id it would name an absurd port and place."""
    assert advice(msg_id=UNIQUE_KEY[:-4] + "FFFF") == []


@pytest.mark.parametrize("scan", [False, True])
def test_ids_are_found_in_lower_case(scan: bool) -> None:
    for text in (UNIQUE_KEY.lower(), OFFSET_ID.lower()):
        query = Query(open_store(PLAIN), QueryRequest(msg_id=text, scan=scan), Console(quiet=True))
        assert [row.physical_offset for row in query.run()] == [0]
