"""``query`` gives the answers of the real broker, for every key and every queue of every fixture."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import pytest

from rmqtool.commands.query import Query, QueryRequest
from rmqtool.report.console import Console
from tests.broker import jvm
from tests.broker.answers import ask_brokers
from tests.broker.stores import fixture_stores

if TYPE_CHECKING:
    from rmqtool.rows import Message
    from rmqtool.store import Store
    from tests.broker.answers import Answered

pytestmark = pytest.mark.broker

FIXTURES = fixture_stores()
EVERY = pytest.mark.parametrize("name", [store.name for store in FIXTURES])
# In lmqtwice the offset of a message in its light queue is not that of its unit.
_OF_5_3 = [one.name for one in FIXTURES if one.version == "5.3.3" and not one.name.startswith("lmqtwice")]
OF_5_3 = pytest.mark.parametrize("name", _OF_5_3)


@pytest.fixture(scope="module")
def answered(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Answered]:
    """What the brokers of both versions say, one JVM each."""
    if jvm.available() is not None:
        return {}  # the tests that ask for it are skipped
    folder = tmp_path_factory.mktemp("answers")

    def ask(version: str) -> list[Answered]:
        return ask_brokers([store for store in FIXTURES if store.version == version], folder)

    with ThreadPoolExecutor(len(jvm.VERSIONS)) as pool:
        found = list(pool.map(ask, jvm.VERSIONS))
    return {one.fixture.name: one for answers in found for one in answers}


def ours(store: Store, **question: Any) -> list[Message]:  # noqa: ANN401 - any field of a question
    """Return our answer."""
    return list(Query(store, QueryRequest(**question), Console(quiet=True)).run())


def places(messages: list[Message]) -> list[int]:
    """Return their physical offsets."""
    return [message.physical_offset for message in messages]


def offset_in(topic: str, message: Message) -> int:
    """Return the offset of a message in a queue of a topic, which may be a light queue."""
    if message.topic == topic:
        return message.queue_offset
    names = message.properties["INNER_MULTI_DISPATCH"].split(",")
    return int(message.properties["INNER_MULTI_QUEUE_OFFSET"].split(",")[names.index(topic)])


@EVERY
def test_keys(name: str, answered: dict[str, Answered]) -> None:
    """With collisions the hits are the broker's, in its order, repeats included, at any times and limits."""
    store = answered[name].open()
    for question, expected in answered[name].of_kind("query"):
        found = ours(
            store,
            topic=question.topic,
            key=question.key,
            max_messages=question.max,
            begin_ms=question.begin,
            end_ms=question.end,
            collisions=True,
        )
        assert places(found) == expected, question


@EVERY
def test_keys_without_collisions(name: str, answered: dict[str, Answered]) -> None:
    """Without, what a client keeps of the hits is found: never more of the broker's, never less.

    A broker that keeps no index finds nothing: there the whole log is searched instead.
    """
    store = answered[name].open()
    asked = [
        (question, hits)
        for question, hits in answered[name].of_kind("query")
        if question.max != 1 and not question.begin
    ]
    for question, hits in asked[::3]:
        by_key = places(ours(store, topic=question.topic, key=question.key))
        if name.startswith("noindex"):
            assert not hits, question
            assert by_key == places(ours(store, topic=question.topic, key=question.key, scan=True)), question
            continue
        by_unique_key = places(ours(store, topic=question.topic, unique_key=question.key))
        oldest = min(hits) if len(hits) == question.max else 0  # a broker has found no older ones then
        found = {offset for offset in by_key + by_unique_key if offset >= oldest}
        assert found <= set(hits), question
        for hit in set(hits) - found:
            (row,) = ours(store, offset=hit)
            is_other = row.topic != question.topic or question.key not in {*row.keys, row.uniq_key}
            assert is_other, question


@EVERY
def test_queue_offsets(name: str, answered: dict[str, Answered]) -> None:
    """A consumer that pulls one message at a queue offset gets ours."""
    store = answered[name].open()
    for question, answer in answered[name].of_kind("get"):
        expected = answer.get("physicalOffset") if answer["status"] == "FOUND" else None
        place = {"queue_id": question.queueId, "queue_offset": question.queueOffset}
        found = places(ours(store, topic=question.topic, max_messages=1, **place))
        assert found == ([] if expected is None else [expected]), (question, answer)


@OF_5_3
def test_times(name: str, answered: dict[str, Answered]) -> None:
    """The first message since a time is the one that getOffsetInQueueByTime names; 4.9 reads file times.

    A batch queue whose next file begins later than that time names the batch before.
    """
    store = answered[name].open()
    for question, answer in answered[name].of_kind("time"):
        queue = {"topic": question.topic, "queue_id": question.queueId, "max_messages": 1}
        found = ours(store, begin_ms=question.timestamp, **queue)
        named, first = answer["queueOffset"], answer["min"]
        since = offset_in(question.topic, found[0]) if found else answer["max"]
        if store.queue(question.topic, question.queueId) is None and first <= named < since:
            (batch,) = ours(store, queue_offset=named, **queue)
            assert batch.store_timestamp_ms < question.timestamp, (question, answer)
            assert named + int(batch.properties.get("INNER_NUM", "1")) == since, (question, answer)
        else:
            assert since == max(named, first), (question, answer)
