"""One test a reason: why a message was found, or why it was not."""

from __future__ import annotations

import json
import shutil
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from rmqtool.commands.query import Explanation, Query, QueryRequest, Reason
from rmqtool.formats import consumequeue, index, struct_of
from rmqtool.javacompat import index_key_hash
from rmqtool.report.console import Console
from rmqtool.scan.records import record_at
from rmqtool.store import open_store
from rmqtool.times import time_text
from tests.scan.log_builder import STORE_TIMESTAMP_MS, record
from tests.store.fixture_stores import fixture

if TYPE_CHECKING:
    from rmqtool.commands.query import Step
    from rmqtool.store import Store

SLOTS, ITEMS = 10, 20
SIZES = (f"maxHashSlotNum={SLOTS}", f"maxIndexNum={ITEMS}")
PREPARED, ROLLBACK = 0x4, 0xC


@dataclass
class Builder:
    """A store of the topic T with an index that the test writes itself."""

    root: Path
    start: int = 0
    log: bytes = b""
    items: list[tuple[int, int, int, int]] = field(default_factory=list)
    slots: dict[int, int] = field(default_factory=dict)

    def message(self, keys: str, **fields: Any) -> int:  # noqa: ANN401 - any field of the schema
        """Append a message; return its physical offset."""
        place = self.start + len(self.log)
        properties = f"KEYS\x01{keys}\x02".encode()
        self.log += record(place, **{"topic": b"T", "properties": properties} | fields)
        return place

    def item(self, key: str, physical_offset: int, time_diff: int = 0, topic: str = "T") -> None:
        """Index a message under a key."""
        key_hash = index_key_hash(topic, key)
        previous = self.slots.get(key_hash % SLOTS, 0)
        self.items.append((key_hash, physical_offset, time_diff, previous))
        self.slots[key_hash % SLOTS] = len(self.items)

    def store(self, *, times: tuple[int, int] | None = None, with_index: bool = True) -> Store:
        """Write everything and open it."""
        (self.root / "commitlog").mkdir(parents=True)
        (self.root / "commitlog" / f"{self.start:020d}").write_bytes(self.log.ljust(4096, b"\0"))
        if with_index:
            self._write_index(times or (STORE_TIMESTAMP_MS, STORE_TIMESTAMP_MS))
        return open_store(self.root, properties=SIZES)

    def _write_index(self, times: tuple[int, int]) -> None:
        data = bytearray(index.file_size(SLOTS, ITEMS))
        offsets = [item[1] for item in self.items] or [0]
        header = (*times, offsets[0], offsets[-1], len(self.slots), len(self.items) + 1)
        struct_of(index.HEADER).pack_into(data, 0, *header)
        for slot, item in self.slots.items():
            struct_of(index.SLOT).pack_into(data, index.slot_position(slot), item)
        for number, fields in enumerate(self.items, 1):
            struct_of(index.ITEM).pack_into(data, index.item_position(SLOTS, number), *fields)
        (self.root / "index").mkdir()
        (self.root / "index" / "20220415132000123").write_bytes(data)


@pytest.fixture
def builder(tmp_path: Path) -> Builder:
    return Builder(tmp_path / "store")


def explained(store: Store, **question: Any) -> tuple[list[int], list[Step]]:  # noqa: ANN401 - any field
    """Return the physical offsets that were found, and the steps."""
    explanation = Explanation()
    query = Query(store, QueryRequest(**question), Console(quiet=True), explanation)
    return [row.physical_offset for row in query.run()], explanation.steps


def step(steps: list[Step], reason: Reason) -> Step:
    """Return the only step of a reason."""
    (found,) = [one for one in steps if one.reason is reason]
    return found


def test_found(builder: Builder) -> None:
    """The file, the slot, the length of the chain and the item are told, in this order."""
    builder.item("k", builder.message("k"))
    found, steps = explained(builder.store(), topic="T", key="k")
    assert found == [0]
    assert [one.reason for one in steps] == [Reason.FILE_WALKED, Reason.FOUND]
    slot = index_key_hash("T", "k") % SLOTS
    assert steps[0].facts == {"slot": slot, "items": 1, "hits": 1}
    assert steps[0].file == "index/20220415132000123"
    assert steps[1].facts == {"item": 1, "physicalOffset": 0}


def test_an_empty_slot(builder: Builder) -> None:
    builder.item("k", builder.message("k"))
    builder.slots.clear()
    found, steps = explained(builder.store(), topic="T", key="k")
    assert found == []
    assert step(steps, Reason.SLOT_EMPTY).facts == {"slot": index_key_hash("T", "k") % SLOTS}


def test_a_stale_slot(builder: Builder) -> None:
    builder.item("k", builder.message("k"))
    builder.slots = dict.fromkeys(builder.slots, 7)
    found, steps = explained(builder.store(), topic="T", key="k")
    assert found == []
    assert "points to item 7, which does not exist" in step(steps, Reason.SLOT_STALE).message


def test_a_broken_chain(builder: Builder) -> None:
    """A link that does not descend could lead round and round; what was met before it counts."""
    builder.item("k", builder.message("k"))
    builder.items[0] = (*builder.items[0][:3], 1)
    found, steps = explained(builder.store(), topic="T", key="k")
    assert found == [0]
    assert "is followed by item 1" in step(steps, Reason.CHAIN_BROKEN).message


def test_a_collision(builder: Builder) -> None:
    """``Aa`` and ``BB`` have one hash."""
    builder.item("Aa", builder.message("Aa"))
    builder.item("BB", second := builder.message("BB"))
    found, steps = explained(builder.store(), topic="T", key="BB")
    assert found == [second]
    met = step(steps, Reason.COLLISION)
    assert met.facts == {"item": 1, "physicalOffset": 0}
    assert met.message.endswith("another key with the same hash, of T Aa")


def test_a_repeated_item(builder: Builder) -> None:
    """The last message dispatched before a stop is often indexed again at the start."""
    place = builder.message("k")
    builder.item("k", place)
    builder.item("k", place)
    found, steps = explained(builder.store(), topic="T", key="k")
    assert found == [0]
    assert step(steps, Reason.REPEATED).facts["item"] == 1


def test_an_item_out_of_time(builder: Builder) -> None:
    """A clock that was set back makes items that a broker passes over: the record's own time decides here."""
    builder.item("k", builder.message("k"), time_diff=50)
    store = builder.store()
    times = {"begin_ms": STORE_TIMESTAMP_MS, "end_ms": STORE_TIMESTAMP_MS + 1000}
    found, steps = explained(store, topic="T", key="k", **times)
    assert found == [0]
    assert "a broker misses it" in step(steps, Reason.ITEM_OUT_OF_TIME).message
    found, steps = explained(store, topic="T", key="k", collisions=True, **times)
    assert found == []
    assert "is left out" in step(steps, Reason.ITEM_OUT_OF_TIME).message


def test_a_file_out_of_time(builder: Builder) -> None:
    """Likewise the times in the header: a broker rules the file out, and the message is found here."""
    builder.item("k", builder.message("k"))
    store = builder.store(times=(STORE_TIMESTAMP_MS - 9000, STORE_TIMESTAMP_MS - 5000))
    found, steps = explained(store, topic="T", key="k", begin_ms=STORE_TIMESTAMP_MS)
    assert found == [0]
    assert "a broker rules it out" in step(steps, Reason.FILE_OUT_OF_TIME).message
    found, steps = explained(store, topic="T", key="k", begin_ms=STORE_TIMESTAMP_MS, collisions=True)
    assert found == []
    assert "ruled out" in step(steps, Reason.FILE_OUT_OF_TIME).message
    assert "older files are skipped" in step(steps, Reason.FILE_NOT_NEEDED).message


def test_a_record_out_of_time(builder: Builder) -> None:
    builder.item("k", builder.message("k"))
    found, steps = explained(builder.store(), topic="T", key="k", end_ms=STORE_TIMESTAMP_MS - 1)
    assert found == []
    told = [one for one in steps if one.reason is Reason.RECORD_OUT_OF_TIME]
    assert [one.is_advice for one in told] == [False, True]
    assert all(time_text(STORE_TIMESTAMP_MS) in one.message for one in told)


def test_enough_in_newer_files() -> None:
    """Of a key in many files, the older ones are not looked at once there are as many as wanted."""
    store = open_store(fixture("plain-5.3.3"))
    found, steps = explained(store, topic="TopicTest", key="hot", max_messages=2)
    assert len(found) == 2
    assert "newer files" in step(steps, Reason.FILE_NOT_NEEDED).message


def test_an_expired_record(builder: Builder) -> None:
    builder.start = 4096
    builder.message("other")
    builder.item("k", 100)
    found, steps = explained(builder.store(), topic="T", key="k")
    assert found == []
    assert "expired, the log begins at 4096" in step(steps, Reason.EXPIRED).message


def test_no_record(builder: Builder) -> None:
    """Inside a record, in the zeros after the last one, and after the log."""
    builder.message("k")
    for offset in (5, 4000, 1 << 40):
        builder.item("k", offset)
    found, steps = explained(builder.store(), topic="T", key="k")
    assert found == []
    met = [one.facts["physicalOffset"] for one in steps if one.reason is Reason.NO_RECORD]
    assert met == [1 << 40, 4000, 5]


def test_a_record_without_a_key_of_that_hash(builder: Builder, capsys: pytest.CaptureFixture[str]) -> None:
    """The index, or the log under it, is not what it was: that is no collision."""
    builder.item("k", builder.message("other"))
    found, steps = explained(builder.store(), topic="T", key="k")
    assert found == []
    assert step(steps, Reason.WRONG_RECORD).facts == {"item": 1, "physicalOffset": 0}
    assert "--scan reads the log itself" in capsys.readouterr().err


def test_an_item_in_the_wrong_slot(builder: Builder, capsys: pytest.CaptureFixture[str]) -> None:
    """Its hash may be what is damaged, and it the one that was looked for."""
    builder.item("k", builder.message("k"))
    builder.items[0] = (builder.items[0][0] ^ 1, *builder.items[0][1:])
    found, steps = explained(builder.store(), topic="T", key="k")
    assert found == []
    assert step(steps, Reason.WRONG_SLOT).facts["item"] == 1
    assert "is damaged" in capsys.readouterr().err


def test_the_index_is_behind(builder: Builder) -> None:
    builder.item("k", builder.message("k"))
    late = builder.message("late")
    store = builder.store()
    found, steps = explained(store, topic="T", key="late")
    assert found == []
    assert step(steps, Reason.INDEX_BEHIND).facts == {"physicalOffset": 0, "unindexedPhysicalOffset": late}
    found, steps = explained(store, topic="T", key="late", scan=True)
    assert found == [late]
    assert "the index goes up to log offset 0" in step(steps, Reason.INDEX_BEHIND).message


def test_the_index_begins_later(builder: Builder) -> None:
    """Its older files are gone, or it was switched on late."""
    builder.message("early")
    builder.item("k", second := builder.message("k"))
    store = builder.store()
    _, steps = explained(store, topic="T", key="early")
    assert step(steps, Reason.INDEX_BEGINS_LATER).facts == {
        "physicalOffset": second,
        "unindexedPhysicalOffset": 0,
    }
    found, steps = explained(store, topic="T", key="early", scan=True)
    assert found == [0]
    assert f"begins with log offset {second}" in step(steps, Reason.INDEX_BEGINS_LATER).message


def test_not_in_the_index_though_it_covers_the_place(builder: Builder) -> None:
    builder.item("k", builder.message("k"))
    lost = builder.message("lost")
    builder.item("z", builder.message("z"))
    found, steps = explained(builder.store(), topic="T", key="lost", scan=True)
    assert found == [lost]
    assert "rebuild-index" in step(steps, Reason.NOT_INDEXED).message
    assert "found in the log" in step(steps, Reason.SCAN).message


def test_two_index_files_do_not_join(tmp_path: Path) -> None:
    """The file between them is gone, or they carry each other's names."""
    root = shutil.copytree(fixture("indexroll-5.3.3"), tmp_path / "store")
    files = sorted((root / "index").iterdir())
    files[1].unlink()
    _, steps = explained(open_store(root), topic="Rolls", key="nobody")
    assert "has keys and is not indexed" in step(steps, Reason.INDEX_GAP).message
    files[0].rename(files[1])
    files[2].rename(files[0])
    files[1].rename(files[2])
    _, steps = explained(open_store(root), topic="Rolls", key="nobody")
    assert any("and index/" in one.message for one in steps if one.reason is Reason.INDEX_GAP)


@pytest.mark.parametrize(
    ("what", "words"),
    [
        ("counts too few", "counts 0 items, but one more item is in use"),
        ("counts too many", "counts 99 items, there is room for 19"),
        ("slots emptied", "counts 1 slot more than are in use"),
        ("cut", "bytes where the settings require"),
        ("empty", "is empty"),
    ],
)
def test_an_index_file_that_is_damaged(builder: Builder, what: str, words: str) -> None:
    """What it says of itself does not agree: messages may be missed."""
    for key in ("k", "k", "other"):
        builder.item(key, builder.message(key))
    store = builder.store()
    file = builder.root / "index" / "20220415132000123"
    data = bytearray(file.read_bytes())
    header = list(struct_of(index.HEADER).unpack_from(data))
    header[-1] = {"counts too few": 1, "counts too many": 99}.get(what, header[-1])
    struct_of(index.HEADER).pack_into(data, 0, *header)
    if what == "slots emptied":
        place = index.slot_position(index_key_hash("T", "k") % SLOTS)
        data[place : place + 4] = bytes(4)
    file.write_bytes(data[: {"cut": 200, "empty": 0}.get(what, len(data))])
    store = open_store(builder.root, properties=SIZES)
    if what == "empty":
        shutil.copy(file, file.with_name("20220415132000124"))
        file.write_bytes(data)
        store = open_store(builder.root, properties=SIZES)
    _, steps = explained(store, topic="T", key="k")
    assert words in step(steps, Reason.INDEX_DAMAGED).message


def test_no_index(builder: Builder) -> None:
    builder.message("k")
    found, steps = explained(builder.store(with_index=False), topic="T", key="k")
    assert found == [0]
    assert "there are no index files" in step(steps, Reason.INDEX_MISSING).message


def test_an_index_in_rocksdb(builder: Builder) -> None:
    builder.message("k")
    store = builder.store(with_index=False)
    (builder.root / "index").mkdir()
    (builder.root / "index" / "CURRENT").write_text("MANIFEST-000004\n")
    (builder.root / "index" / "MANIFEST-000004").write_bytes(b"x")
    found, steps = explained(store, topic="T", key="k")
    assert found == [0]
    assert "RocksDB" in step(steps, Reason.INDEX_ROCKSDB).message


def test_the_index_is_disabled() -> None:
    root = fixture("noindex-5.3.3")
    store = open_store(root, broker_conf=root / "broker.conf")
    _, steps = explained(store, topic="T", key="k")
    assert "messageIndexEnable is false" in step(steps, Reason.INDEX_DISABLED).message


def test_keys_are_split_at_spaces(builder: Builder) -> None:
    place = builder.message("two words")
    builder.item("two", place)
    builder.item("words", place)
    found, steps = explained(builder.store(), topic="T", key="two words")
    assert found == []
    assert "query two, words" in step(steps, Reason.KEYS_SPLIT).message


@pytest.mark.parametrize(
    ("topic", "reason", "role"),
    [
        ("RMQ_SYS_TRANS_HALF_TOPIC", Reason.PREPARED, "as a half message"),
        ("SCHEDULE_TOPIC_XXXX", Reason.OTHER_TOPIC, "as a delayed message"),
        ("%RETRY%group", Reason.OTHER_TOPIC, "as a message to be consumed again"),
        ("t", Reason.OTHER_TOPIC, "is a key of topic t "),
    ],
)
def test_the_key_of_another_topic(builder: Builder, topic: str, reason: Reason, role: str) -> None:
    """A message may wait under a system topic, or the topic was misspelled."""
    builder.item("k", builder.message("k", topic=topic.encode()), topic=topic)
    store = builder.store()
    (builder.root / "config").mkdir()
    (builder.root / "config" / "topics.json").write_text(json.dumps({"topicConfigTable": {topic: {}}}))
    found, steps = explained(store, topic="T", key="k")
    assert found == []
    assert step(steps, reason).facts == {"topic": topic, "physicalOffset": 0}
    assert role in step(steps, reason).message


def test_a_delayed_message_waits() -> None:
    found, steps = explained(open_store(fixture("delay-5.3.3")), topic="SCHEDULE_TOPIC_XXXX", key="level-1")
    assert len(found) == 1
    assert step(steps, Reason.WAITS).facts == {"physicalOffset": found[0]}
    assert "not delivered to Later yet, overdue since 20" in step(steps, Reason.WAITS).message


@pytest.mark.parametrize(
    ("flag", "reason", "words"),
    [(ROLLBACK, Reason.ROLLED_BACK, "neither indexes"), (PREPARED, Reason.PREPARED, "puts it into no queue")],
)
def test_transactions_that_are_not_committed(builder: Builder, flag: int, reason: Reason, words: str) -> None:
    """A rolled back message is in no index, neither is in a queue; the log has both."""
    builder.message("k", sysFlag=flag, queueId=3, queueOffset=0)
    store = builder.store()
    found, steps = explained(store, topic="T", key="k", scan=True)
    assert found == [0]
    assert words in step(steps, reason).message
    assert explained(store, topic="T", queue_id=3, queue_offset=0, scan=True)[0] == []
    found, steps = explained(store, topic="T", queue_id=3, begin_ms=0, scan=True)
    assert found == [0]
    assert words in step(steps, reason).message


def test_more_than_a_broker_returns() -> None:
    """A broker stops at 64 hits; here are all, or the newest of them."""
    store = open_store(fixture("segments-5.3.3"))
    found, steps = explained(store, topic="Edges", key="fill")
    assert len(found) == 90
    assert "here are 90" in step(steps, Reason.BROKER_LIMIT).message
    assert explained(store, topic="Edges", key="fill", max_messages=64)[0] == found[-64:]


def test_an_id_that_is_no_offset_id(plain: Path) -> None:
    store = open_store(plain)
    _, steps = explained(store, msg_id="no hex")
    assert "cannot be an offset id" in step(steps, Reason.ID).message
    first = next(Query(store, QueryRequest(offset=0), Console()).run())
    foreign = "7F000001" + first.msg_id[8:]
    found, steps = explained(store, msg_id=foreign)
    assert found == []
    assert f"the one there has the id {first.msg_id}" in step(steps, Reason.ID).message
    found, steps = explained(store, msg_id=first.uniq_key)
    assert found == [0]
    assert "it is taken for a unique id" in step(steps, Reason.ID).message


@pytest.fixture
def plain() -> Path:
    """An ordinary store of 4.9.8."""
    return fixture("plain-4.9.8")


def test_a_queue_and_its_units(plain: Path, tmp_path: Path) -> None:
    """Its bounds, the unit, its end, and a queue that is not there."""
    store = open_store(plain)
    found, steps = explained(store, topic="TopicTest", queue_id=0, queue_offset=0, max_messages=None)
    low, high = (step(steps, Reason.QUEUE).facts[name] for name in ("minOffset", "maxOffset"))
    assert (low, high) == (0, len(found))
    assert "a broker ends the queue there" in step(steps, Reason.UNIT).message
    _, steps = explained(store, topic="TopicTest", queue_id=77, queue_offset=0)
    assert "no queue TopicTest/77" in step(steps, Reason.QUEUE_MISSING).message


def test_units_that_lead_nowhere(plain: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A zero unit in the middle ends the queue, and that others follow is said; so is an expired message."""
    root = shutil.copytree(plain, tmp_path / "store")
    queue = root / "consumequeue" / "TopicTest" / "0" / f"{0:020d}"
    unit = struct_of(consumequeue.UNIT)
    with queue.open("r+b") as file:
        file.seek(2 * unit.size)
        file.write(bytes(unit.size))
    found, _ = explained(open_store(root), topic="TopicTest", queue_id=0, queue_offset=0, max_messages=None)
    assert len(found) == 2
    assert "but valid units follow" in capsys.readouterr().err
    (root / "commitlog" / f"{0:020d}").unlink()
    _, steps = explained(open_store(root), topic="TopicTest", queue_id=0, queue_offset=0, max_messages=1)
    assert "the log begins at" in step(steps, Reason.EXPIRED).message


@pytest.fixture
def copied(plain: Path, tmp_path: Path) -> Path:
    return shutil.copytree(plain, tmp_path / "store")


def test_a_queue_ends_before_the_log(copied: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Its last units were never written, or are gone: the log goes on with its messages."""
    queue = sorted((copied / "consumequeue" / "Orders" / "1").iterdir())[-1]
    data = queue.read_bytes()
    units = data.rstrip(b"\0")
    queue.write_bytes(data[: (len(units) - 1) // 20 * 20 - 20].ljust(len(data), b"\0"))
    found, steps = explained(open_store(copied), topic="Orders", queue_id=1, begin_ms=0)
    after = step(steps, Reason.QUEUE_BEHIND)
    assert after.facts["physicalOffset"] not in found
    assert "--scan reads the log itself" in capsys.readouterr().err
    everything, _ = explained(open_store(copied), topic="Orders", queue_id=1, begin_ms=0, scan=True)
    assert len(everything) == len(found) + 2
    assert after.facts["physicalOffset"] == everything[-2]


def test_what_a_queue_lacks_behind_the_times_asked_for(
    copied: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The answer is complete: nobody asked for what was stored later."""
    queue = sorted((copied / "consumequeue" / "Orders" / "1").iterdir())[-1]
    data = queue.read_bytes()
    units = data[: (len(data.rstrip(b"\0")) + 19) // 20 * 20]
    queue.write_bytes(units[:-20].ljust(len(data), b"\0"))
    lost = record_at(open_store(copied).commitlog, int.from_bytes(units[-20:-12], "big"))
    assert lost is not None
    lost_ms = lost.head.store_timestamp_ms
    for end_ms, says in ((lost_ms, True), (lost_ms - 1, False)):
        explained(open_store(copied), topic="Orders", queue_id=1, begin_ms=0, end_ms=end_ms)
        assert ("may be incomplete" in capsys.readouterr().err) is says


def test_a_queue_begins_behind_the_log(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A file of it was deleted whose messages are there."""
    root = shutil.copytree(fixture("expiredhead-5.3.3"), tmp_path / "store")
    first = sorted((root / "consumequeue" / "TopicTest" / "2").iterdir())[0]
    first.unlink()
    _, steps = explained(open_store(root), topic="TopicTest", queue_id=2, begin_ms=0)
    assert "an earlier message lies at log offset" in step(steps, Reason.QUEUE_BEGINS_LATER).message
    _, steps = explained(open_store(root), topic="TopicTest", queue_id=2, queue_offset=0)
    assert step(steps, Reason.QUEUE_BEGINS_LATER).facts["minOffset"] == 30
    assert "--scan reads the log itself" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("what", "words"),
    [
        ("cut", "has 30 bytes where the settings require"),
        ("empty", "is empty"),
        ("first gone", "though the log goes back to 0"),
        ("middle gone", "files are missing"),
        ("first zeroed", "has no unit at its start, or none at its end"),
        ("swapped", "points to an offset of the log before the end of the previous file"),
    ],
)
def test_a_queue_whose_files_are_damaged(tmp_path: Path, what: str, words: str) -> None:
    root = shutil.copytree(fixture("indexroll-4.9.8"), tmp_path / "store")
    first, second, *_ = files = sorted((root / "consumequeue" / "Rolls" / "0").iterdir())
    data = first.read_bytes()
    edits: dict[str, dict[Path, bytes | None]] = {
        "cut": {files[-1]: files[-1].read_bytes()[:30]},
        "empty": {second: b""},
        "first gone": {first: None},
        "middle gone": {second: None},
        "first zeroed": {first: bytes(20) + data[20:]},
        "swapped": {first: second.read_bytes(), second: data},
    }
    for file, content in edits[what].items():
        file.unlink() if content is None else file.write_bytes(content)
    store = open_store(root, broker_conf=root / "broker.conf")
    _, steps = explained(store, topic="Rolls", queue_id=0, begin_ms=0)
    assert any(words in one.message for one in steps if one.reason is Reason.QUEUE_DAMAGED)


def test_a_unit_that_leads_to_another_offset_is_no_answer(copied: Path) -> None:
    """Nor is a batch that does not hold the offset; by time, a message counts once."""
    queue = copied / "consumequeue" / "Orders" / "1" / f"{0:020d}"
    data = queue.read_bytes()
    queue.write_bytes(data[:20] + data[:20] + data[40:])
    store = open_store(copied)
    found, steps = explained(store, topic="Orders", queue_id=1, queue_offset=1, max_messages=1)
    assert found == []
    assert "offset 1 holds the message of queue offset 0" in step(steps, Reason.UNIT).message
    by_time, _ = explained(store, topic="Orders", queue_id=1, begin_ms=0)
    everything, _ = explained(store, topic="Orders", queue_id=1, begin_ms=0, scan=True)
    assert sorted(set(everything) - set(by_time)) == [everything[1]]
    assert len(set(by_time)) == len(by_time)


def test_the_log_is_asked_for_the_units_that_are_wanted(copied: Path) -> None:
    """Where the message of an offset is gone, the next one is not shown in its place."""
    place = {"topic": "Orders", "queue_id": 1}
    (offset,), _ = explained(open_store(copied), queue_offset=1, max_messages=1, **place)
    with (copied / "commitlog" / f"{0:020d}").open("r+b") as file:
        file.seek(offset + 4)
        file.write(bytes(4))
    for scan in (False, True):
        found, _ = explained(open_store(copied), queue_offset=1, max_messages=1, scan=scan, **place)
        assert found == []


def test_times_of_a_queue(plain: Path) -> None:
    """The offset that a 5.3 broker names is told, and why a 4.9 one may name another."""
    store = open_store(plain)
    rows = list(Query(store, QueryRequest(topic="Orders", queue_id=1, begin_ms=0), Console()).run())
    _, steps = explained(
        store, topic="Orders", queue_id=1, begin_ms=rows[3].store_timestamp_ms, max_messages=1
    )
    assert step(steps, Reason.QUEUE).facts["queueOffset"] <= rows[3].queue_offset  # type: ignore[operator]
    assert "modification time" in step(steps, Reason.MODIFICATION_TIMES).message


def test_times_of_a_batch_queue() -> None:
    store = open_store(fixture("batchcq-5.3.3"))
    _, steps = explained(store, topic="Streams", begin_ms=0)
    assert "the last batch of the older file" in step(steps, Reason.BATCH_QUEUE).message


def test_a_message_that_the_next_start_cuts(tmp_path: Path) -> None:
    root = tmp_path / "store"
    shutil.copytree(fixture("plain-5.3.3"), root)
    file = root / "commitlog" / f"{49152:020d}"
    data = bytearray(file.read_bytes())
    data[50163 - 49152 + 4] ^= 1  # the magic of a record
    file.write_bytes(data)
    (root / "abort").touch()
    _, steps = explained(open_store(root), offset=51359)
    found = step(steps, Reason.CUT)
    assert found.facts["physicalOffset"] == 51359
    assert "cuts this message" in found.message
    assert "50163" in found.message
    _, steps = explained(open_store(root), offset=49152)
    assert Reason.CUT not in {one.reason for one in steps}


def test_every_reason_has_its_test() -> None:
    """Here, among the hints, with the tags, with groups, or where answers are incomplete."""
    folder = Path(__file__).parent
    names = ("consumption", "explain", "hints", "incomplete", "tag")
    tests = "".join((folder / f"test_{name}.py").read_text("utf-8") for name in names)
    assert [one.name for one in Reason if f"Reason.{one.name}" not in tests] == []


def test_of_each_reason_a_person_reads_a_hundred(builder: Builder) -> None:
    """More are counted."""
    explanation = Explanation()
    for number in range(250):
        explanation.add(Reason.FOUND, str(number))
    assert [one.message for one in explanation.steps] == [str(number) for number in range(100)]
    assert explanation.left_out == {Reason.FOUND: 150}
