"""Messages by tag: the same answers from tag items, from the queues and from the log itself."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING

import pytest

from rmqtool.commands.query import Explanation, Query, QueryRequest, Reason
from rmqtool.lookup.index import is_rolled_back
from rmqtool.report.console import Console
from rmqtool.rows.messages import has_unit
from rmqtool.scan.record_walk import walk
from rmqtool.scan.records import Record
from rmqtool.store import Store, open_store
from tests.store.fixture_stores import fixture

if TYPE_CHECKING:
    from collections.abc import Callable

BY_INDEX = ["tags-5.5.1", "plain-5.4.0", "unicode-5.5.1", "collisions-5.5.1"]
BY_QUEUES = ["plain-5.3.3", "delay-4.9.8", "ext-5.3.3", "batchcq-5.3.3", "noindex-5.5.1"]
BY_BOTH = ["upgrade533-5.5.1", "handovers-5.5.1"]


def opened(name: str) -> Store:
    return open_store(fixture(name), broker_conf=fixture(name) / "broker.conf")


def asked(store: Store, request: QueryRequest) -> tuple[list[int], set[Reason]]:
    explanation = Explanation()
    query = Query(store, request, Console(quiet=True), explanation)
    found = [message.physical_offset for message in query.run()]
    assert query.unanswered is None
    return found, {step.reason for step in explanation.steps}


def places_of(store: Store, request: QueryRequest) -> list[int]:
    query = Query(store, request, Console(quiet=True), Explanation(wanted=False))
    return [message.physical_offset for message in query.run()]


def is_indexed(record: Record) -> bool:
    return not is_rolled_back(record)


def tagged(store: Store, has_place: Callable[[Record], bool]) -> dict[tuple[str, str], list[int]]:
    """Return where the messages lie that have a place in queues, or in the index, by topic and tags."""
    found: dict[tuple[str, str], list[int]] = defaultdict(list)
    for record in walk(store.commitlog.segments):
        if isinstance(record, Record) and has_place(record) and record.properties.get("TAGS"):
            found[record.topic, record.properties["TAGS"]].append(record.physical_offset)
    return found


@pytest.mark.few(1)
@pytest.mark.parametrize("name", [*BY_INDEX, *BY_QUEUES, *BY_BOTH])
def test_every_tag_is_found(name: str) -> None:
    """All messages, or the newest, whichever structure answers; what it was is told."""
    store = opened(name)
    expected = tagged(store, is_indexed if name in BY_INDEX else has_unit)
    everywhere = tagged(store, lambda _: True)
    assert expected
    for (topic, tag), places in expected.items():
        found, reasons = asked(store, QueryRequest(topic=topic, tag=tag))
        assert found == places
        assert (Reason.QUEUE in reasons) == (name not in BY_INDEX)
        assert (Reason.TAG_ITEMS in reasons) == (name != "noindex-5.5.1")
        assert places_of(store, QueryRequest(topic=topic, tag=tag, max_messages=2)) == places[-2:]
        assert places_of(store, QueryRequest(topic=topic, tag=tag, scan=True)) == everywhere[topic, tag]
    assert asked(store, QueryRequest(topic="TopicTest", tag="none has it"))[0] == []


def test_times_hold_for_tags_as_well() -> None:
    for name in ("tags-5.5.1", "plain-5.3.3"):
        store = opened(name)
        records = [one for one in walk(store.commitlog.segments) if isinstance(one, Record)]
        chosen = [one for one in records if one.properties.get("TAGS") == "TagA" and one.topic == "TopicTest"]
        times = sorted(one.head.store_timestamp_ms for one in chosen)
        begin, end = times[1], times[-2]
        request = QueryRequest(topic="TopicTest", tag="TagA", begin_ms=begin, end_ms=end)
        assert asked(store, request)[0] == [
            one.physical_offset for one in chosen if begin <= one.head.store_timestamp_ms <= end
        ]


def test_collisions_are_the_hits_of_the_index() -> None:
    """A broker answers from tag items alone: of an older broker's messages it finds none."""
    store = opened("upgrade533-5.5.1")
    of_both = (one for one in tagged(store, has_unit).items() if one[1][0] < 7706 < one[1][-1])
    (topic, tag), places = next(of_both)
    found, _ = asked(store, QueryRequest(topic=topic, tag=tag, collisions=True))
    assert found
    assert set(found) < set(places)
