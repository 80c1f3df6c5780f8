"""How many messages pulls step over at a unit that leads out of the log, as the prediction counts them."""

from __future__ import annotations

import random
import struct
from typing import TYPE_CHECKING

import pytest

from rmqtool.recovery.predict import predict_recovery
from rmqtool.releases import RELEASES
from rmqtool.store import open_store
from tests.broker import jvm
from tests.broker.answers import Question, ask
from tests.broker.stores import fixture_store

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.broker

UNIT, FILE_BYTES, A_PULL = struct.Struct(">qiq"), 200, 32
STORES = 10


def rot(root: Path, seed: int) -> tuple[str, int]:
    """Let a unit lead out of the log, or across the end of a file; return its queue."""
    chance = random.Random(seed)
    queues = sorted(path for path in root.glob("consumequeue/*/*") if not path.parent.name.startswith("S"))
    queue = chance.choice(queues)
    files = sorted(queue.iterdir())
    data = b"".join(file.read_bytes() for file in files)
    units = [at for at in range(0, len(data), UNIT.size) if UNIT.unpack_from(data, at)[1]]
    at = chance.choice(units)
    place = chance.choice([1 << 40, 1 << 33, 3 * 8192 + 8100, 60_000, 1 << 50])
    file = files[at // FILE_BYTES]
    rotten = bytearray(file.read_bytes())
    UNIT.pack_into(rotten, at % FILE_BYTES, place, *UNIT.unpack_from(data, at)[1:])
    file.write_bytes(rotten)
    return queue.parent.name, int(queue.name)


@pytest.mark.parametrize("version", jvm.VERSIONS)
def test_pulls_step_over_as_many_as_foretold(version: jvm.Version, tmp_path: Path) -> None:
    fixture = fixture_store(f"plain-{version}")
    asked, foretold = [], []
    for seed in range(STORES):
        root = fixture.copy_to(tmp_path / f"{version}-{seed}")
        topic, queue_id = rot(root, seed)
        prediction = predict_recovery(open_store(root, broker_conf=fixture.conf), RELEASES[version])
        (queue,) = (one for one in prediction.queues if (one.topic, one.queue_id) == (topic, queue_id))
        question = Question(
            "pulls", topic, queueId=queue_id, queueOffset=max(queue.min_offset, 0), max=A_PULL
        )
        asked.append((jvm.Found(root, fixture.conf), [question]))
        foretold.append((queue, prediction.not_served, prediction.hazards))
    answers = ask(version, asked, tmp_path)
    differ = []
    for (queue, not_served, hazards), (served,) in zip(foretold, answers, strict=True):
        assert len(served) == len(set(served))
        unserved = queue.max_offset - max(queue.min_offset, 0) - len(served)
        rotten = 1 if unserved else 0
        if unserved - rotten != not_served:
            differ.append((queue, not_served, unserved, served, hazards))
    assert differ == []
    assert any(not_served for _, not_served, _ in foretold)
