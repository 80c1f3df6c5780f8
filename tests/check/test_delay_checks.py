"""Delayed messages below the offset of their level, and the copies in the log that show their delivery."""

from __future__ import annotations

import random
import struct
from typing import TYPE_CHECKING

import pytest

import rmqtool
from rmqtool.check.delays import DelayBalance
from rmqtool.check.log import LogCheck, check_log
from rmqtool.progress import NullProgress
from rmqtool.topics import HALF_TOPIC, SCHEDULE_TOPIC
from tests.broker.stores import fixture_store
from tests.builders import POLICY_5, InlineEngine, properties, staging
from tests.check.log_store import Log

if TYPE_CHECKING:
    from pathlib import Path

    from rmqtool.findings import Finding


class Delays(Log):
    """A log with delayed messages."""

    def delayed(self, key: str, level: int = 3, topic: str = "T", pairs: dict[str, str] | None = None) -> int:
        values = {"UNIQ_KEY": key, "DELAY": str(level), "REAL_TOPIC": topic, "REAL_QID": "0"} | (pairs or {})
        values = {name: value for name, value in values.items() if value}
        return self.add(topic=SCHEDULE_TOPIC.encode(), queueId=level - 1, properties=properties(values))

    def copy(self, key: str, topic: str = "T", **more: str) -> int:
        values = {"UNIQ_KEY": key, "DELAY": "3", "REAL_TOPIC": topic, "REAL_QID": "0"} | more
        values = {name: value for name, value in values.items() if value}
        return self.add(topic=topic.encode(), properties=properties(values))

    def passed(self, folder: Path, *offsets: int) -> list[tuple[Finding, int]]:
        """Return what is said of levels at these offsets, from the first level on, at any split."""
        log, found = self.write(folder), []
        for split_bytes in (1 << 20, 700, 97):
            with staging() as handle:
                check = LogCheck(
                    log, POLICY_5, handle, split_bytes=split_bytes, half_offsets={}, passed=offsets
                )
                result = check_log(check, InlineEngine(), NullProgress())
                found.append(DelayBalance(result.blocks, result.passed).check())
        assert found[0] == found[1] == found[2]
        return found[0]


def test_what_was_delivered_is_not_passed(tmp_path: Path) -> None:
    log, open_keys = Delays(), []
    for number in range(200):
        log.delayed(f"U{number}", 1 + number % 3)
        open_keys.append(f"U{number}")
        random.Random(number).shuffle(open_keys)
        if number % 3:
            log.copy(open_keys.pop())
    for key in open_keys:
        log.copy(key)
    assert log.passed(tmp_path, 1000, 1000, 1000) == []


def test_messages_below_the_offset_without_a_copy_are_counted_by_level(tmp_path: Path) -> None:
    log = Delays()
    places = [log.delayed(f"U{number}") for number in range(10)]
    log.delayed("other", 1)
    for number in (0, 3, 4, 8):
        log.copy(f"U{number}")
    ((finding, count),) = log.passed(tmp_path, 0, 0, 7)
    assert (count, finding.queue_offset, finding.physical_offset) == (4, 1, places[1])
    assert (finding.queue_id, finding.expected, finding.observed) == (2, 1, 7)
    assert "4 messages below it were never delivered, the first #1" in finding.message
    assert finding.message.endswith("2 later ones below it had a delivery")
    levels = log.passed(tmp_path, 1, 0, 5000)
    assert [(one.queue_id, count) for one, count in levels] == [(0, 1), (2, 6)]
    assert log.passed(tmp_path) == log.passed(tmp_path, 0, 0, 1) == []


@pytest.mark.parametrize(
    ("topic", "key", "counts"),
    [("T", "U", True), ("T", "V", False), ("S", "U", False)],
    ids=["its copy", "another message", "another topic"],
)
def test_a_copy_has_topic_and_unique_key(tmp_path: Path, topic: str, key: str, counts: bool) -> None:
    log = Delays()
    log.delayed("U")
    log.copy(key, topic)
    assert (log.passed(tmp_path, 0, 0, 1) == []) is counts


def test_a_copy_is_stored_later(tmp_path: Path) -> None:
    """A message that is tried again has the key of the copy before."""
    log = Delays()
    log.copy("U")
    log.delayed("U")
    ((_, count),) = log.passed(tmp_path, 0, 0, 1)
    assert count == 1


def test_a_copy_in_light_queues_has_no_level(tmp_path: Path) -> None:
    log = Delays()
    log.delayed("U")
    log.copy("U", DELAY="", INNER_MULTI_DISPATCH="%LMQ%a", INNER_MULTI_QUEUE_OFFSET="0")
    assert log.passed(tmp_path, 0, 0, 1) == []


def test_what_stands_in_the_place_of_a_record_may_stand_for_the_copy(tmp_path: Path) -> None:
    log = Delays()
    log.delayed("U")
    log.delayed("V", topic="S")
    log.add(topic=b"T", properties=properties({"TAGS": "rmqtool_lost", "RMQTOOL_LOST": "1"}))
    ((_, count),) = log.passed(tmp_path, 0, 0, 2)
    assert count == 1


@pytest.mark.parametrize("damage", ["a hole", "no checkpoint's end", "a slave"])
def test_nothing_is_said_where_records_are_not_known(tmp_path: Path, damage: str) -> None:
    """A copy may lie in a hole, or after an end that is lost, or not have come to a slave yet."""
    root = fixture_store("delay-5.3.3").copy_to(tmp_path / "store")
    (root / "config" / "delayOffset.json").write_text('{"offsetTable":{1:0,3:5}}')
    conf = tmp_path / "broker.conf"
    conf.write_text(fixture_store("delay-5.3.3").conf.read_text())
    assert counted(root, conf) == 5
    if damage == "a hole":
        with (root / "commitlog" / "00000000000000008192").open("r+b") as file:
            file.write(bytes(4096))
    elif damage == "a slave":
        conf.write_text(conf.read_text() + "brokerRole=SLAVE\n")
    else:
        with (root / "checkpoint").open("r+b") as file:
            file.write(struct.pack(">2q", 1 << 42, 1 << 42))
    assert counted(root, conf) == 0


def counted(root: Path, conf: Path) -> int:
    """Return how many messages verify says were passed over."""
    with rmqtool.open(root, broker_conf=conf) as store:
        return store.verify().findings.counts.get("OF-PASSED", 0)


@pytest.mark.parametrize("pairs", [{"REAL_TOPIC": HALF_TOPIC}, {"REAL_TOPIC": ""}, {"UNIQ_KEY": ""}])
def test_what_nobody_can_find_again_is_left_out(tmp_path: Path, pairs: dict[str, str]) -> None:
    log = Delays()
    log.delayed("U", pairs=pairs)
    assert log.passed(tmp_path, 0, 0, 1) == []
