"""What a pull steps over behind a unit that leads out of the log, as brokers do: 4.9.8, 5.3.3, 5.5.1."""

from __future__ import annotations

import shutil
import struct
from typing import TYPE_CHECKING

import pytest

from rmqtool.recovery import predict_recovery
from rmqtool.releases import RELEASES
from rmqtool.store import open_store
from tests.store.fixture_stores import fixture

if TYPE_CHECKING:
    from pathlib import Path

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


def sentences(root: Path) -> list[str]:
    store = open_store(root, broker_conf=root / "broker.conf")
    return [one for one in predict_recovery(store, RELEASES["5.3.3"]).hazards if "not served" in one]


@pytest.mark.parametrize(("queue", "number", "place", "messages"), ROTTEN)
def test_neighbours_of_a_rotted_unit(
    queue: str, number: int, place: int, messages: int, tmp_path: Path
) -> None:
    root = tmp_path / "store"
    shutil.copytree(fixture("plain-5.3.3"), root)
    assert sentences(root) == []
    file = root / "consumequeue" / queue / f"{number * UNIT.size // FILE_BYTES * FILE_BYTES:020}"
    data = bytearray(file.read_bytes())
    at = number * UNIT.size % FILE_BYTES
    UNIT.pack_into(data, at, place, *UNIT.unpack_from(data, at)[1:])
    file.write_bytes(data)
    (found,) = sentences(root)
    assert found.startswith(f"Up to {messages} messages of {queue} ")
