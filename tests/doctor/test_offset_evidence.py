"""What messages that were sent back show of a group's offsets."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from rmqtool.doctor.choices import QueueEnds
from rmqtool.doctor.offset_evidence import sent_back_offsets
from rmqtool.javacompat import encode_offset_id
from rmqtool.store import open_store
from tests.builders import properties
from tests.check.log_store import Log
from tests.damage.running import install_rebuilt

if TYPE_CHECKING:
    from pathlib import Path

SETTINGS = ["maxHashSlotNum=50", "maxIndexNum=100", "mappedFileSizeConsumeQueue=200"]


class Retries(Log):
    """A log with messages of topic T, and copies of them."""

    def message(self, key: str, queue_id: int = 0) -> int:
        return self.add(topic=b"T", queueId=queue_id, properties=properties({"UNIQ_KEY": key}))

    def back(self, topic: str, key: str, place: int, *more: tuple[str, str], times: int = 1) -> int:
        origin = encode_offset_id(bytes(4), 10911, place)
        pairs = {"UNIQ_KEY": key, "RETRY_TOPIC": "T", "ORIGIN_MESSAGE_ID": origin} | dict(more)
        pairs = {name: value for name, value in pairs.items() if value}
        return self.add(topic=topic.encode(), reconsumeTimes=times, properties=properties(pairs))

    def shown(self, root: Path) -> dict[tuple[str, str | None], int]:
        self.write(root / "commitlog")
        install_rebuilt(root, SETTINGS)
        store = open_store(root, properties=SETTINGS)
        return {
            (place.entry, place.inner): offset
            for place, offset in sent_back_offsets(store, QueueEnds(store)).items()
        }


@pytest.fixture
def log() -> Retries:
    """Five messages in queue 0, two in queue 1; the third of queue 0 was sent back."""
    made = Retries()
    places = [made.message(f"U{number}") for number in range(5)]
    for key in ("V0", "V1"):
        made.message(key, 1)
    made.back("%RETRY%g", "U2", places[2])
    return made


def test_a_group_had_read_what_it_sent_back(log: Retries, tmp_path: Path) -> None:
    """Of the other queue nothing is known, nor of the copy."""
    assert log.shown(tmp_path) == {("T@g", "0"): 3, ("T@g", "1"): 0, ("%RETRY%g@g", "0"): 0}


def test_an_old_copy_is_not_hidden_by_newer_ones(tmp_path: Path) -> None:
    """Of a topic without an entry the group would begin at the end; other delayed messages are no copies."""
    log = Retries()
    other = log.add(topic=b"Old", properties=properties({"UNIQ_KEY": "O"}))
    places = [log.message(f"U{number}") for number in range(400)]
    log.back("%RETRY%g", "O", other, ("RETRY_TOPIC", "Old"))
    for number, place in enumerate(places):
        log.back("%RETRY%g", f"U{number}", place)
    pairs = {"REAL_TOPIC": "T", "DELAY": "1", "UNIQ_KEY": "D"}
    log.add(topic=b"SCHEDULE_TOPIC_XXXX", body=b"ORIGIN_MESSAGE_ID", properties=properties(pairs))
    assert log.shown(tmp_path) == {("Old@g", "0"): 1, ("T@g", "0"): 400, ("%RETRY%g@g", "0"): 0}


@pytest.mark.parametrize("topic", ["%DLQ%g", "SCHEDULE_TOPIC_XXXX", "%RETRY%g"])
def test_a_copy_was_read_of_which_there_is_a_later_one(log: Retries, tmp_path: Path, topic: str) -> None:
    more = {"REAL_TOPIC": "%RETRY%g", "DELAY": "1"} if topic.startswith("S") else {}
    log.back(topic, "U2", log.places[2], *more.items(), times=2)
    assert log.shown(tmp_path)["%RETRY%g@g", "0"] == 1


@pytest.mark.parametrize(
    ("key", "more"),
    [
        ("U9", {}),  # of another message
        ("U4", {"RETRY_TOPIC": "Other"}),
        ("U4", {"RETRY_TOPIC": ""}),
        ("U4", {"ORIGIN_MESSAGE_ID": ""}),
        ("U4", {"ORIGIN_MESSAGE_ID": "7F000001" + "F" * 24}),
        ("U4", {"ORIGIN_MESSAGE_ID": "no id"}),
        ("U4", {"ORIGIN_MESSAGE_ID": "x" * 900}),
    ],
)
def test_what_names_no_message_shows_nothing(
    log: Retries, tmp_path: Path, key: str, more: dict[str, str]
) -> None:
    log.back("%RETRY%g", key, log.places[4], *more.items())
    assert log.shown(tmp_path)["T@g", "0"] == 3
