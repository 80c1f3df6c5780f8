"""A message that the log has lost: what its unit and its index item still say of it."""

from __future__ import annotations

import re
import shutil
from typing import TYPE_CHECKING, Any

import pytest

import rmqtool
from rmqtool.commands.query import Query, QueryRequest
from rmqtool.errors import ExitStatus
from rmqtool.findings import FailOn, codes
from rmqtool.lookup.context import Explanation
from rmqtool.store import open_store
from tests.store.fixture_stores import fixture

if TYPE_CHECKING:
    from pathlib import Path


class Warnings:
    """Progress that keeps warnings."""

    def __init__(self) -> None:
        self.warnings: list[str] = []

    def warn(self, sentence: str) -> None:
        self.warnings.append(sentence)

    def __getattr__(self, _name: str) -> Any:  # noqa: ANN401 - everything else that is said
        return lambda *_: None


@pytest.fixture(scope="module")
def cut(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a store without the last file of its log."""
    store = tmp_path_factory.mktemp("cut") / "store"
    shutil.copytree(fixture("plain-5.3.3"), store)
    (store / "commitlog" / "00000000000000049152").unlink()
    return store


@pytest.mark.parametrize(
    ("question", "place", "words"),
    [
        (
            {"topic": "TopicTest", "queue_id": 0, "queue_offset": 22, "max_messages": 1},
            50898,
            ("TopicTest/0 #22, 258 bytes", "tags code 2598920"),
        ),
        (
            {"topic": "TopicTest", "key": "order-145", "max_messages": 64},
            53640,
            ("order-145 of TopicTest", "stored about 2026-11-21 03:28:4", "TopicTest/1 #24, 366 bytes"),
        ),
        ({"key": "order-148"}, 54600, ("order-148 of Orders", "Orders/0 #11, 404 bytes")),
    ],
)
def test_a_lost_message_is_named_by_what_is_left_of_it(
    cut: Path, question: dict[str, Any], place: int, words: tuple[str, ...]
) -> None:
    said = Warnings()
    query = Query(open_store(cut), QueryRequest(**question), said)
    assert list(query.run()) == []
    (lost,) = [one for one in said.warnings if one.startswith("lost from the log")]
    assert f"at physical offset {place}:" in lost
    assert all(word in lost for word in words)
    assert query.findings.exit_status(FailOn.ERROR) is ExitStatus.LOG_DAMAGED


@pytest.mark.parametrize("place", [100, 1 << 40], ids=["amid a record", "beyond the log"])
def test_a_wrong_unit_proves_no_message_where_the_log_is_sound(tmp_path: Path, place: int) -> None:
    store = tmp_path / "store"
    shutil.copytree(fixture("plain-5.3.3"), store)
    queue = min((store / "consumequeue" / "TopicTest" / "0").iterdir())
    with queue.open("r+b") as file:
        file.write(place.to_bytes(8, "big"))
    said = Warnings()
    question = QueryRequest(topic="TopicTest", queue_id=0, queue_offset=0, max_messages=1)
    query = Query(open_store(store), question, said)
    assert list(query.run()) == []
    assert not any(one.startswith("lost") for one in said.warnings)
    assert query.findings.exit_status(FailOn.ERROR) is ExitStatus.CLEAN


def test_a_place_whose_record_names_another_queue_leads_to_that_record(tmp_path: Path) -> None:
    store = tmp_path / "store"
    shutil.copytree(fixture("plain-5.3.3"), store)
    with (store / "commitlog" / "00000000000000000000").open("r+b") as file:
        file.seek(849 + 15)  # the last byte of the queue ID, 7
        file.write(b"\x29")
        file.seek(849 + 92)
        file.write(b"\xff")
    said = Warnings()
    question = QueryRequest(topic="Orders", queue_id=7, queue_offset=0, max_messages=1)
    assert list(Query(open_store(store), question, said).run()) == []
    assert any("Orders/7 #0 is lost: --offset 849 shows" in one for one in said.warnings)


def test_a_unit_that_another_queue_has_too_proves_no_loss(tmp_path: Path) -> None:
    """A file of TopicTest/1 lies in place of one of TopicTest/0, and a record of TopicTest/1 is zeros."""
    store = tmp_path / "store"
    shutil.copytree(fixture("plain-5.3.3"), store)
    queues, name = store / "consumequeue" / "TopicTest", "00000000000000000000"
    shutil.copy(queues / "1" / name, queues / "0" / name)
    unit = (queues / "1" / name).read_bytes()[60:80]
    with (store / "commitlog" / name).open("r+b") as file:
        file.seek(int.from_bytes(unit[:8], "big"))
        file.write(bytes(int.from_bytes(unit[8:12], "big")))
    for queue_id, lost in ((0, []), (1, [3])):
        question = QueryRequest(topic="TopicTest", queue_id=queue_id, queue_offset=3, max_messages=1)
        query = Query(open_store(store), question, said := Warnings())
        assert list(query.run()) == []
        assert [one.queue_offset for one in query.findings if one.code is codes.CL_LOST] == lost
        assert any("lost from the log" in one for one in said.warnings) == (lost != [])


def test_a_record_in_a_file_under_another_name_is_not_lost(tmp_path: Path) -> None:
    store = tmp_path / "store"
    shutil.copytree(fixture("plain-5.3.3"), store)
    last, moved = store / "commitlog" / "00000000000000049152", store / "commitlog" / "00000000000000057344"
    last.rename(moved)
    said = Warnings()
    question = QueryRequest(topic="TopicTest", queue_id=0, queue_offset=22, max_messages=1)
    query = Query(open_store(store), question, said)
    assert list(query.run()) == []
    assert not query.lost
    assert any(f"lies in commitlog/{moved.name}" in one for one in said.warnings)


@pytest.mark.parametrize(
    "question",
    [{"offset": 54600}, {"offset": 54700}, {"msg_id": "0A09080700002A9F000000000000D548"}],
    ids=["where it began", "amid it", "its offset id"],
)
def test_a_lost_message_is_named_by_its_place(cut: Path, question: dict[str, Any]) -> None:
    """Nothing lies there any more, but a unit leads there."""
    said = Warnings()
    query = Query(open_store(cut), QueryRequest(**question), said)
    assert list(query.run()) == []
    (lost,) = [one for one in said.warnings if one.startswith("lost from the log")]
    assert "at physical offset 54600: Orders/0 #11, 404 bytes" in lost
    assert "stored after 2026-11-21 03:28:47.594Z" in lost
    assert list(query.lost) == [54600]
    assert query.findings.exit_status(FailOn.ERROR) is ExitStatus.LOG_DAMAGED


def test_the_hint_at_an_offset_id_says_what_leads_to_its_place(cut: Path) -> None:
    why = Explanation(wanted=False)
    query = Query(open_store(cut), QueryRequest(msg_id="0A09080700002A9F000000000000D548"), Warnings(), why)
    assert (list(query.run()), list(query.lost)) == ([], [54600])
    (hint,) = why.advice
    assert "is log offset 54600 of the broker 10.9.8.7:10911: a unit or an index item leads there" in hint


@pytest.mark.parametrize(
    "question", [{"offset": 54600}, {"msg_id": "0A09080700002A9F000000000000D548"}], ids=["place", "id"]
)
def test_an_index_item_alone_proves_the_message_of_a_place(
    cut: Path, tmp_path: Path, question: dict[str, Any]
) -> None:
    store = tmp_path / "store"
    shutil.copytree(cut, store)
    shutil.rmtree(store / "consumequeue")
    said = Warnings()
    query = Query(open_store(store), QueryRequest(**question), said)
    assert (list(query.run()), list(query.lost)) == ([], [54600])
    (lost,) = [one for one in said.warnings if one.startswith("lost from the log")]
    assert re.search(r"54600: item \d+ of index/\d+ leads there, stored about 2026-11-21 03:28:4", lost)
    assert query.findings.exit_status(FailOn.ERROR) is ExitStatus.LOG_DAMAGED
    beyond = Query(open_store(store), QueryRequest(offset=54601), Warnings())
    assert (list(beyond.run()), beyond.lost) == ([], {})


def test_a_place_amid_a_sound_record_is_no_lost_message() -> None:
    request, why = QueryRequest(offset=54700), Explanation()
    query = Query(open_store(fixture("plain-5.3.3")), request, Warnings(), why)
    assert (list(query.run()), query.lost) == ([], {})
    assert [step.message for step in why.steps] == ["no record begins at log offset 54700"]
    assert query.findings.exit_status(FailOn.ERROR) is ExitStatus.CLEAN


def test_a_key_without_item_alone_contradicts_no_record(tmp_path: Path) -> None:
    """The record has the key order-3 twice; verify calls this a wrong unit and a missing item."""
    store = tmp_path / "store"
    shutil.copytree(fixture("plain-5.3.3"), store)
    file = store / "commitlog" / "00000000000000000000"
    data = file.read_bytes()
    record = data[849:1255].replace(b"TagA", b"TagX").replace(b"order-3 c", b"order-9 c")
    file.write_bytes(data[:849] + record + data[1255:])
    question = QueryRequest(topic="Orders", queue_id=7, queue_offset=0, max_messages=1)
    (message,) = Query(open_store(store), question, Warnings()).run()
    assert message.damage == []
    assert rmqtool.open(store).verify(jobs=1).exit_status() is ExitStatus.NEGATIVE


def test_a_key_that_a_damaged_record_lost_leads_to_it(tmp_path: Path) -> None:
    store = tmp_path / "store"
    shutil.copytree(fixture("plain-5.3.3"), store)
    log = store / "commitlog" / "00000000000000024576"
    log.write_bytes(log.read_bytes().replace(b"order-77", bytes(8)))
    said = Warnings()
    query = Query(open_store(store), QueryRequest(key="order-77"), said)
    assert list(query.run()) == []
    assert any("at 24787 may be the one" in one for one in said.warnings)
    assert query.findings.exit_status(FailOn.ERROR) is ExitStatus.LOG_DAMAGED


def test_queues_in_a_database_are_not_said_to_be_none(tmp_path: Path) -> None:
    store = tmp_path / "store"
    shutil.copytree(fixture("plain-5.5.1"), store)
    shutil.rmtree(store / "consumequeue")
    shutil.copytree(store / "rocksdbstore", store / "consumequeue_r")
    question = QueryRequest(topic="TopicTest", queue_id=0, queue_offset=3)
    query = Query(open_store(store), question, Warnings())
    assert list(query.run()) == []
    assert query.unanswered is not None
    assert "RocksDB" in query.unanswered
