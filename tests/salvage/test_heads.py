"""Heads of records that lie: whose message a damaged record was is evidence like any other."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

import rmqtool
from rmqtool.formats import message
from tests.broker.log_damage import LogCopy
from tests.salvage.campaign import records_of, run, stands_in, topic_of
from tests.salvage.damages import HEADS
from tests.salvage.incidents import drop_queues
from tests.scan.log_builder import record
from tests.store.fixture_stores import fixture
from tests.strategies import campaign

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

NAME = "plain-5.3.3"
_PHANTOM = 1 << 16


@pytest.fixture
def damaged(tmp_path: Path) -> Path:
    return copy_of(NAME, tmp_path)


def copy_of(name: str, folder: Path) -> Path:
    papers = shutil.ignore_patterns("broker.conf", "recipe.toml", "SHA256SUMS", "reference")
    return shutil.copytree(fixture(name), folder / "damaged", ignore=papers)


def opened(root: Path, name: str = NAME) -> rmqtool.Store:
    return rmqtool.open(root, broker_conf=fixture(name) / "broker.conf")


def lost_of(out: Path) -> list[tuple[str, int, int, int]]:
    lines = (out / "salvage" / "lost.ndjson").read_text("utf-8").splitlines()
    keys = "topic", "queueId", "queueOffset", "count"
    return [tuple(json.loads(line)[key] for key in keys) for line in lines]


def late_record(log: LogCopy) -> int:
    """Return a record with many before it in its queue, and a body."""
    places = [place for places in log.records for place in places]
    return max(places[:-8], key=lambda place: (log.head(place).body_length > 8, log.head(place).queue_offset))


def queue_of(log: LogCopy, place: int) -> tuple[str, int, int]:
    head = log.head(place)
    return topic_of(log.read(place, head.total_size)), head.queue_id, head.queue_offset


def test_a_false_record_that_ends_just_before_a_listed_one_displaces_it_not(
    damaged: Path, tmp_path: Path
) -> None:
    """Bytes between the two that nothing can fill belie one of them: not the one that a unit leads to."""
    log = LogCopy(damaged)
    first, second, third = log.records[2][5:8]
    head, length = log.head(first), third - first - 40
    topic = topic_of(log.read(first, head.total_size)).encode()
    old = {"topic": topic, "queueId": head.queue_id, "queueOffset": head.queue_offset}
    old |= {"storeTimestamp": head.store_timestamp_ms}
    false = record(first, body=bytes(length - len(record(first, body=b"", **old))), **old)
    log.write(first, false + bytes(40))
    out = tmp_path / "out"
    opened(damaged).salvage(out)
    result = records_of(out / "commitlog")
    assert result[third] == log.read(third, log.head(third).total_size)
    assert result[first] != false
    lost = {(topic, queue_id, offset) for topic, queue_id, offset, _ in lost_of(out)}
    assert lost == {queue_of(log, first), queue_of(log, second)}


@pytest.mark.parametrize("queues", [True, False])
@pytest.mark.parametrize("topic", [True, False])
def test_a_damaged_record_makes_no_queue(damaged: Path, tmp_path: Path, *, queues: bool, topic: bool) -> None:
    log = LogCopy(damaged)
    place = late_record(log)
    log.flip(log.body_at(place), 1)
    if topic:
        log.flip(log.topic_at(place) + 2, 2)
    else:
        log.put(place, "queueId", log.head(place).queue_id ^ _PHANTOM)
    if not queues:
        drop_queues(damaged)
    out = tmp_path / "out"
    report = opened(damaged).salvage(out)
    name, queue_id, offset = queue_of(log, place)
    assert lost_of(out) == [(name, queue_id, offset, 1)]
    assert (report.lost.proven, report.lost.damaged, report.lost.placed) == (0, 1, 1)
    assert report.lost.open == (0 if queues else 1)
    assert {path.name for path in (out / "consumequeue").iterdir()} == {
        path.name for path in (fixture(NAME) / "consumequeue").iterdir()
    }
    survivors_stand(log, out, {place})


def survivors_stand(log: LogCopy, out: Path, damaged: set[int]) -> None:
    result = records_of(out / "commitlog")
    for place in {place for places in log.records for place in places} - damaged:
        raw = log.read(place, log.head(place).total_size)
        assert result[place] == raw
        assert stands_in(out, *queue_of(log, place), place), place


@pytest.mark.parametrize("flipped", [_PHANTOM | 4, _PHANTOM << 8 | 0x200])
def test_a_queue_id_that_is_wrong_in_two_bytes_shifts_no_survivor(
    damaged: Path, tmp_path: Path, flipped: int
) -> None:
    log = LogCopy(damaged)
    places = log.records[0]
    lying, hole = places[5], log.records[2][3]
    log.put(lying, "queueId", log.head(lying).queue_id ^ flipped)
    log.write(hole, bytes(log.head(hole).total_size))
    drop_queues(damaged)
    out = tmp_path / "out"
    opened(damaged).salvage(out)
    assert sorted(one[:3] for one in lost_of(out)) == sorted(queue_of(log, one) for one in (lying, hole))
    survivors_stand(log, out, {lying, hole})


def test_a_damaged_record_at_the_end_of_an_unknown_queue_stays_open(damaged: Path, tmp_path: Path) -> None:
    log = LogCopy(damaged)
    place = log.records[-1][-1]
    log.flip(log.body_at(place), 1)
    log.flip(log.topic_at(place), 2)
    drop_queues(damaged)
    report = opened(damaged).salvage(tmp_path / "out")
    assert (report.lost.proven, report.lost.open, report.left_out) == (0, 1, {"body": 1})
    assert "1 damaged record of an unknown queue" in report.verdict
    assert opened(damaged).salvage(tmp_path / "kept", keep_damaged=True).left_out == {"fields": 1}


@pytest.mark.parametrize("signed", [True, False])
def test_damage_in_properties_is_called_that_and_kept_on_demand(tmp_path: Path, *, signed: bool) -> None:
    name = "propcrc-5.5.1" if signed else "plain-5.5.1"
    root = copy_of(name, tmp_path)
    log = LogCopy(root)
    place, after = log.records[0][2:4]
    if signed:
        log.flip(log.properties_length_at(place) + 3, 2)
    else:
        log.write(log.properties_length_at(place) + 2, b"\3\4\5")
        log.write(after, bytes(log.head(after).total_size))
    report = opened(root, name).salvage(tmp_path / "out")
    assert report.left_out == {"properties": 1}
    assert report.lost.by_cause["properties"] == 1
    assert (tmp_path / "out" / "lost+found" / f"{place:020d}-properties-0.bin").exists()
    kept = opened(root, name).salvage(tmp_path / "kept", keep_damaged=True)
    assert kept.left_out == {}
    assert place in records_of(tmp_path / "kept" / "commitlog")


def hidden_records(log: LogCopy, *, own: bool, over: int | None = 64) -> Iterator[int]:
    """Write an old frame over a record and those after it, which were written anew; yield what it spoils.

    Args:
        log: That of a copy.
        own: Whether the frame says that it lies there.
        over: Bytes of the last record that it takes; None: all of them.
    """
    first, *whole, last = log.records[1][2:6]
    old = {"physicalOffset": first if own else 5 * first, "properties": b""}
    length = last - first + (log.head(last).total_size if over is None else over)
    body = bytes(length - len(record(first, body=b"", **old)))
    log.write(first, record(first, body=body, **old))
    for place in whole:
        log.write(place, log.read(place, log.head(place).total_size))
    yield from (first, last)


@pytest.mark.parametrize("queues", [True, False])
@pytest.mark.parametrize("over", [64, None])
@pytest.mark.parametrize("own", [True, False])
def test_a_frame_of_old_bytes_hides_no_record(
    damaged: Path, tmp_path: Path, *, own: bool, over: int | None, queues: bool
) -> None:
    log = LogCopy(damaged)
    spoilt = set(hidden_records(log, own=own, over=over))
    if not queues:
        drop_queues(damaged)
    out = tmp_path / "out"
    report = opened(damaged).salvage(out)
    survivors_stand(log, out, spoilt)
    assert sorted(one[:3] for one in lost_of(out)) == sorted(queue_of(log, one) for one in spoilt)
    assert report.left_out.keys() <= {"body", "frame"}


@pytest.mark.parametrize("own", [True, False])
def test_a_false_frame_over_the_seam_of_two_parts_is_read_as_in_one(
    damaged: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, own: bool
) -> None:
    log = LogCopy(damaged)
    assert set(hidden_records(log, own=own, over=None))
    opened(damaged).salvage(tmp_path / "whole")
    for size in (333, 1500):
        monkeypatch.setattr("rmqtool.genuine.records.SPLIT_BYTES", size)
        opened(damaged).salvage(tmp_path / str(size))
        assert records_of(tmp_path / str(size) / "commitlog") == records_of(tmp_path / "whole" / "commitlog")


def test_what_a_body_carries_is_no_record_of_the_log(tmp_path: Path) -> None:
    start, head = 300, message.HEAD_SIZES[0]
    carried = record(start + head, topic=b"Never", queueOffset=9)
    log = record(0, body=bytes(start - len(record(0, body=b""))))
    outer = bytearray(record(start, body=carried, queueOffset=1))
    outer[31] ^= 1  # PHYSICALOFFSET
    log += outer + record(start + len(outer), queueOffset=2)
    (tmp_path / "damaged" / "commitlog").mkdir(parents=True)
    (tmp_path / "damaged" / "commitlog" / f"{0:020d}").write_bytes(log.ljust(4096, b"\0"))
    for number in range(2):
        rmqtool.open(tmp_path / "damaged").salvage(tmp_path / f"out{number}")
        assert lost_of(tmp_path / f"out{number}") == [("TopicTest", 0, 1, 1)]
        with (tmp_path / "damaged" / "commitlog" / f"{0:020d}").open("r+b") as file:
            file.seek(start + 31)
            file.write(bytes([outer[31] ^ 1]))
            file.seek(start + head + len(carried) - 1)
            file.write(b"?")


@pytest.mark.parametrize("queues", [True, False])
@pytest.mark.parametrize("offset", [0, 1, 5])
def test_a_record_planted_in_a_body_is_none_of_the_log(tmp_path: Path, offset: int, *, queues: bool) -> None:
    """It says its own place, and a queue offset that fits; then a byte of the body around it rots."""
    head = message.HEAD_SIZES[0]
    log = record(0, topic=b"Other")
    start = len(log)
    planted = record(start + head, body=b"planted", queueOffset=offset)
    log += record(start, body=planted + bytes(40))
    follower = len(log)
    log += record(follower, queueOffset=1)
    root = tmp_path / "damaged"
    (root / "commitlog").mkdir(parents=True)
    file = root / "commitlog" / f"{0:020d}"
    file.write_bytes(log.ljust(4096, b"\0"))
    if queues:
        rmqtool.open(root).rebuild(tmp_path / "made")
        shutil.copytree(tmp_path / "made" / "consumequeue", root / "consumequeue")
    file.write_bytes((log[: follower - 60] + b"?" + log[follower - 59 :]).ljust(4096, b"\0"))
    report = rmqtool.open(root).salvage(tmp_path / "out")
    assert report.left_out == {"body": 1}
    assert lost_of(tmp_path / "out") == [("TopicTest", 0, 0, 1)]


@pytest.mark.parametrize("offset", [0, 1])
@pytest.mark.parametrize(("padding", "is_open"), [(40, False), (200, True)])
def test_a_hole_before_its_host_does_not_bear_a_planted_record_out(
    tmp_path: Path, offset: int, padding: int, *, is_open: bool
) -> None:
    """The hole explains why the host's queue offset jumps; where the planted fits as well, nothing decides.

    Too few bytes for any record between the planted one and the next are proof, as records lie side by side.
    """
    head = message.HEAD_SIZES[0]
    log = record(0, topic=b"Other")
    log += bytes(len(record(len(log), queueOffset=0)))
    start = len(log)
    planted = record(start + head, body=b"planted", queueOffset=offset)
    log += record(start, body=planted + bytes(padding), queueOffset=1)
    follower = len(log)
    log += record(follower, queueOffset=2)
    root = tmp_path / "damaged"
    (root / "commitlog").mkdir(parents=True)
    file = root / "commitlog" / f"{0:020d}"
    file.write_bytes((log[: follower - 60] + b"?" + log[follower - 59 :]).ljust(4096, b"\0"))
    store = rmqtool.open(root)
    report = store.salvage(tmp_path / "out")
    assert report.left_out == ({"frame": 1} if is_open else {"body": 1})
    said = f"the record at {start} is damaged, and its body has whole records of the log: nothing decides"
    assert any(said in note for note in report.notes) == is_open
    words = [one.message for one in store.verify(jobs=1).findings]
    assert any(f"the first at {start}, nothing decides" in one for one in words) == is_open
    kept = (tmp_path / "out" / "lost+found").glob(f"{start:020d}-*.bin")
    assert (follower - start) in {path.stat().st_size for path in kept}


_PUT_ASIDE = {214: [23427]}
"""Of seeds of the campaign: true records that are put aside, as without queues nothing tells their queue.

There two records say that they are the same message of one queue, and another queue misses one between
the same neighbours: either can be the one that lies.
"""


def judged(seeds: range, folder: Path, names: list[str]) -> None:
    for seed in seeds:
        (folder / str(seed)).mkdir()
        outcome, done = run(fixture(names[seed % len(names)]), folder / str(seed), seed, HEADS)
        aside = _PUT_ASIDE.get(seed, [])
        is_good = outcome.missing == aside and not replace(outcome, missing=[]).bad
        assert is_good, f"seed {seed} on {names[seed % len(names)]}: {done}: {outcome}"
        shutil.rmtree(folder / str(seed))


def test_a_delayed_message_alone_in_its_queue_is_believed(tmp_path: Path) -> None:
    """No topics.json lists the topic of delayed messages: the delay levels tell its queues."""
    outcome, done = run(fixture("delay-4.9.8"), tmp_path, 3254, HEADS)
    assert not outcome.bad, f"{done}: {outcome}"


@pytest.mark.full
def test_random_lies(tmp_path: Path) -> None:
    judged(range(2000, 2012), tmp_path, ["plain-5.5.1", "lmq-5.5.1", "unicode-4.9.8"])


@pytest.mark.soak
@pytest.mark.parametrize("first", campaign(range(0, 400, 50), 4))
def test_campaign_of_lies(first: int, tmp_path: Path) -> None:
    """Heads that lie, among other damage: nothing lost, nothing invented, all in its place."""
    from tests.salvage.test_salvage import CAMPAIGN

    judged(range(first, first + 50), tmp_path, CAMPAIGN)


@pytest.mark.parametrize("edit", ["torn", "other tags and keys"])
def test_properties_that_unit_and_index_contradict_are_left_out(edit: str, tmp_path: Path) -> None:
    """As verify calls them damage; alone, a wrong tags code of a unit proves nothing."""
    root = tmp_path / "store"
    shutil.copytree(fixture("plain-5.3.3"), root)
    log = root / "commitlog" / f"{24576:020d}"
    data = bytearray(log.read_bytes())
    at = data.index(b"TagC\2KEYS\1order-77")
    data[at : at + 18] = bytes(18) if edit == "torn" else b"TagX\2KEYS\1order-99"
    log.write_bytes(data)
    (lost,) = rmqtool.open(root).plan_salvage().lost
    assert (str(lost.cause), lost.physical_offset) == ("properties", 24787)
    assert not rmqtool.open(root).plan_salvage([rmqtool.open(fixture("plain-5.3.3"))]).lost
    data[at + 10 : at + 18] = b"order-77"
    data[at : at + 10] = b"TagX\2KEYS\1"
    log.write_bytes(data)
    assert not rmqtool.open(root).plan_salvage().lost
