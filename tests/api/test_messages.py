"""Messages, units and items, row by row."""

from __future__ import annotations

from collections import Counter
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import pytest

import rmqtool

if TYPE_CHECKING:
    from pathlib import Path


def test_messages_come_in_the_order_of_the_log(plain: Path) -> None:
    with rmqtool.open(plain).messages() as messages:
        found = list(messages)
    assert len(found) == 163
    assert all(isinstance(one, rmqtool.Message) for one in found)
    offsets = [one.physical_offset for one in found]
    assert offsets == sorted(offsets)
    assert messages.findings.counts == {"CL-TAIL-ZERO": 1}, "which is how every log ends"
    assert repr(messages) == "<rmqtool.Messages, 1 findings so far>"


def test_filters_have_the_names_of_the_command_line(plain: Path) -> None:
    store = rmqtool.open(plain)
    every = list(store)
    by_topic = Counter(one.topic for one in every)
    assert len(list(store.messages(topic="TopicTest"))) == by_topic["TopicTest"]
    assert len(list(store.messages(topic="%*"))) == by_topic["%DLQ%billing"] + by_topic["%RETRY%billing"]
    assert [one.keys for one in store.messages(key="order-140")] == [["order-140"]]
    assert {one.tags for one in store.messages(tag="TagC")} == {"TagC"}
    assert {one.queue_id for one in store.messages(queue=1)} == {1}
    assert [one.physical_offset for one in store.messages(from_offset=335, limit=1)] == [
        every[2].physical_offset
    ]
    assert list(store.messages(to_offset=335)) == every[:2]
    through_queue = list(store.messages(topic="TopicTest", queue=0, from_queue_offset=20))
    assert [one.queue_offset for one in through_queue] == [20, 21, 22, 23]


def test_times_are_numbers_texts_or_datetimes(plain: Path) -> None:
    store = rmqtool.open(plain, timezone="+08:00")
    every = list(store)
    middle = every[80].store_timestamp_ms
    aware = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=middle)
    naive = (aware + timedelta(hours=8)).replace(tzinfo=None)
    expected = [one for one in every if one.store_timestamp_ms >= middle]
    for moment in (middle, str(middle), aware, naive, naive.isoformat(), aware.isoformat()):
        assert list(store.messages(begin=moment)) == expected
    assert list(store.messages(begin=middle + 1, end=middle)) == []


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"begin": "tomorrow"}, "'tomorrow' is not a time"),
        ({"begin": 1.5}, "begin=1.5 is not a time"),
        ({"from_offset": -1}, "from_offset=-1: must be at least 0"),
        ({"topic": ["Orders", 1]}, "1 is not a name; pass one text, or several"),
        ({"topic": 5}, "5 is not a name; pass one text, or several"),
        ({"queue": [1]}, r"queue=\[1\]: give one whole number"),
        ({"limit": "x"}, "limit='x': give one whole number"),
        ({"tag": ["TagA"]}, r"tag=\['TagA'\]: give one text"),
        ({"limit": 0}, "limit=0: must be at least 1"),
        ({"on_corrupt": "ignore"}, "give one of resync, stop, fail"),
    ],
)
def test_nonsense_is_told_at_the_call(plain: Path, options: dict[str, object], message: str) -> None:
    with pytest.raises(rmqtool.UsageError, match=message):
        rmqtool.open(plain).messages(**options)  # type: ignore[arg-type]


def test_topics_may_be_several_globs(plain: Path) -> None:
    store = rmqtool.open(plain)
    found = [one.topic for one in store.messages(topic=["Orders", "Pay*"])]
    assert found == [one.topic for one in store if one.topic in {"Orders", "Payments"}]
    assert set(found) == {"Orders", "Payments"}


def test_damage_is_collected_while_rows_are_drawn(damaged: Path, torn: Path) -> None:
    messages = rmqtool.open(damaged).messages()
    assert len(messages.findings) == 0
    assert sum(1 for _ in messages) == 163
    (finding,) = [one for one in messages.findings if one.severity == "error"]
    assert (finding.code.code, finding.physical_offset) == ("CL-CRC", 52045)
    assert finding.code.remedy
    resumed, stopped = rmqtool.open(torn).messages(), rmqtool.open(torn).messages(on_corrupt="stop")
    assert 163 > sum(1 for _ in resumed) > sum(1 for _ in stopped) > 0
    assert any(one.severity == "error" for one in resumed.findings)
    assert any(one.severity == "error" for one in stopped.findings)
    *_, last = rmqtool.open(damaged).dump(on_corrupt="fail")
    assert isinstance(last, rmqtool.Damage)


def test_remarks_are_kept_and_told(plain: Path) -> None:
    class Listener:
        def __init__(self) -> None:
            self.said: list[str] = []

        def stage(self, name: str, total_bytes: int | None) -> None:
            self.said.append(f"stage {name} {total_bytes}")

        def advance(self, done_bytes: int) -> None:
            self.said.append(f"advance {done_bytes}")

        def note(self, sentence: str) -> None:
            self.said.append(f"note {sentence}")

        def warn(self, sentence: str) -> None:
            self.said.append(f"warn {sentence}")

    listener = Listener()
    store = rmqtool.open(plain)
    answer = store.query(topic="TopicTest", key="order-140", progress=listener)
    assert len(list(answer)) == 1
    assert answer.notes == ("answered by the index: 1 hit",)
    assert answer.warnings == ()
    assert "note answered by the index: 1 hit" in listener.said
    assert sum(1 for _ in store.messages(progress=listener)) == 163
    assert any(said.startswith("stage commitlog") for said in listener.said)


def test_a_queue_is_a_collection_of_messages(plain: Path) -> None:
    store = rmqtool.open(plain)
    queue = store.queue("TopicTest", 0)
    assert (queue.topic, queue.queue_id, queue.kind) == ("TopicTest", 0, "consumequeue")
    assert (queue.min_offset, queue.max_offset, len(queue)) == (0, 24, 24)
    messages = list(queue)
    assert [one.queue_offset for one in messages] == list(range(24))
    units = list(queue.units())
    assert [unit.physical_offset for unit in units] == [one.physical_offset for one in messages]
    assert list(queue.units(from_queue_offset=20, limit=2)) == units[20:22]
    assert list(queue.messages(from_queue_offset=20, limit=2)) == messages[20:22]
    assert sum(map(len, store.queues())) == 163
    assert [one.queue_id for one in store.queues("TopicTest")] == [0, 1, 2, 3]
    with pytest.raises(rmqtool.EnvironmentFailureError, match="no queue TopicTest/9"):
        store.queue("TopicTest", 9)


def test_the_index_is_a_collection_of_items(plain: Path) -> None:
    index = rmqtool.open(plain).index()
    items = list(index)
    assert len(items) == len(index) == sum(header.index_count - 1 for header in index.headers()) == 466
    assert all(isinstance(item, rmqtool.Item) for item in items)
    chained = [number for chain in index.chains() for number in chain.items]
    assert len(chained) == 466
    assert {slot.item for slot in index.slots()} <= set(chained)
    early = list(index.items(to_offset=1000))
    assert early == [item for item in items if item.physical_offset < 1000]


def test_a_dump_has_damage_among_its_rows(damaged: Path) -> None:
    store = rmqtool.open(damaged)
    kinds = Counter(row.type for row in store.dump())
    assert (kinds["message"], kinds["unit"], kinds["item"]) == (163, 163, 466)
    assert (kinds["damage"], kinds["checkpoint"]) == (2, 1), "the body, and the zeros at the end"
    assert {row.type for row in store.dump(types="index", slots=True)} == {"index-header", "slot", "item"}
    with pytest.raises(rmqtool.UsageError, match="does not apply to this kind of file"):
        store.dump(types="checkpoint", topic="TopicTest")


def test_compressed_bodies_and_batches(tmp_path: Path) -> None:
    from tests.api.conftest import STORES

    store = rmqtool.open(STORES / "batchcq-5.3.3")
    kinds = Counter(row.type for row in store.dump(types="commitlog", unpack_batches=True))
    assert kinds["inner-message"] > 0
    queue = next(one for one in store.queues() if one.kind == "batchconsumequeue")
    assert all(isinstance(unit, rmqtool.BatchUnit) for unit in queue.units())
    assert len(queue) >= sum(1 for _ in queue) > 0
    packed = rmqtool.open(STORES / "plain-5.3.3")
    assert [one.body for one in packed.messages(limit=3, decompress=True)] == [
        one.body for one in packed.messages(limit=3)
    ]
