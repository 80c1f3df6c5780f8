"""What a pull steps over after a unit that leads out of the log, as brokers do: 4.9.8, 5.3.3, 5.5.1."""

from __future__ import annotations

import shutil
import struct
from typing import TYPE_CHECKING

import pytest

from rmqtool.commands.verify import Verdict
from rmqtool.recovery.predict import predict_recovery
from rmqtool.releases import RELEASES
from rmqtool.report.verdict import verdict_line
from rmqtool.store import open_store
from tests.damage.running import verified
from tests.store.fixture_stores import fixture

if TYPE_CHECKING:
    from pathlib import Path

    from rmqtool.recovery import Prediction

UNIT, FILE_BYTES = struct.Struct(">qiq"), 200

# Queue, number of the unit, where it leads to, and what pulls of 32 from 0 on did not serve, but for it.
ROTTEN = [
    ("TopicTest/0", 3, 1 << 40, 6),
    ("TopicTest/0", 12, 1 << 40, 7),
    ("TopicTest/1", 5, 3 * 8192 + 8000, 4),
    ("Payments/0", 4, 1 << 33, 5),
    ("Orders/0", 2, 60_000, 7),
    ("TopicTest/2", 0, 1 << 50, 9),
]


def predicted(root: Path) -> Prediction:
    return predict_recovery(open_store(root, broker_conf=root / "broker.conf"), RELEASES["5.3.3"])


@pytest.mark.parametrize(("queue", "number", "place", "messages"), ROTTEN)
def test_neighbours_of_a_rotted_unit(
    queue: str, number: int, place: int, messages: int, tmp_path: Path
) -> None:
    root = tmp_path / "store"
    shutil.copytree(fixture("plain-5.3.3"), root)
    assert predicted(root).not_served == 0
    file = root / "consumequeue" / queue / f"{number * UNIT.size // FILE_BYTES * FILE_BYTES:020}"
    data = bytearray(file.read_bytes())
    at = number * UNIT.size % FILE_BYTES
    UNIT.pack_into(data, at, place, *UNIT.unpack_from(data, at)[1:])
    file.write_bytes(data)
    prediction = predicted(root)
    assert prediction.not_served == messages
    (found,) = [one for one in prediction.hazards if "not served" in one]
    assert found.startswith(f"Up to {messages} messages of {queue} ")
    line = verdict_line(Verdict(verified(root), predictions=(prediction,)))
    assert f"never delivers 1 message, and leaves up to {messages} in the log that cannot be consumed" in line


def test_a_queue_with_the_units_of_another_serves_none_of_its_messages(tmp_path: Path) -> None:
    """The headline says so: to lose nothing more is not enough."""
    root = tmp_path / "store"
    shutil.copytree(fixture("plain-5.3.3"), root)
    for file in sorted((root / "consumequeue/TopicTest/1").iterdir()):
        shutil.copy(root / "consumequeue/TopicTest/0" / file.name, file)
    prediction = predicted(root)
    missing = {f"{one.topic}/{one.queue_id}": one.missing for one in prediction.queues if one.missing}
    assert missing == {"TopicTest/1": 25}
    line = verdict_line(Verdict(verified(root), predictions=(prediction,)))
    assert (
        "delivers 24 wrong messages, never delivers 25 messages and gives 1 queue offset a second time"
        in line
    )
