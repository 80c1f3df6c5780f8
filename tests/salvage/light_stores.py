"""Stores whose messages stand in several light queues each, holes over neighbouring ones, and the model."""

from __future__ import annotations

import json
import shutil
from collections import Counter
from typing import TYPE_CHECKING

import rmqtool
from rmqtool.commands.salvage import SalvageRequest, salvage
from rmqtool.progress import NullProgress
from rmqtool.store import open_store
from tests.broker.log_damage import LogCopy
from tests.builders import InlineEngine
from tests.scan.log_builder import blank, record

if TYPE_CHECKING:
    import random
    from pathlib import Path

FILE_SIZE = 8192
_TOPICS = ("Mqtt", "Orders")
_SETTINGS = {
    "mappedFileSizeCommitLog": FILE_SIZE,
    "mappedFileSizeConsumeQueue": 600,
    "maxHashSlotNum": 25,
    "maxIndexNum": 40,
    "enableLmq": "true",
    "enableMultiDispatch": "true",
}
EVIDENCE = ("all queues", "no queues", "some queues", "no light queues", "light queues alone")


def write_store(folder: Path, chance: random.Random, *, queues: int, lights: int, count: int) -> Path:
    """Write a store and its ``broker.conf`` beside it; return its root."""
    folder.mkdir(parents=True)
    conf = folder / "broker.conf"
    conf.write_text("".join(f"{name}={value}\n" for name, value in _SETTINGS.items()), "utf-8")
    files, at, ends = [bytearray()], 0, Counter[tuple[str, int]]()
    for number in range(count):
        topic, queue_id = chance.choice(_TOPICS), chance.randrange(queues)
        names = [
            f"%LMQ%{one}" for one in chance.sample(range(lights), min(lights, chance.choice((0, 1, 1, 2, 3))))
        ]
        properties = f"KEYS\x01k{number}\x02TAGS\x01T{number % 3}"
        if names:
            offsets = ",".join(str(ends[name, 0]) for name in names)
            properties += f"\x02INNER_MULTI_DISPATCH\x01{','.join(names)}"
            properties += f"\x02INNER_MULTI_QUEUE_OFFSET\x01{offsets}"
        fields = {
            "topic": topic.encode(),
            "queueId": queue_id,
            "queueOffset": ends[topic, queue_id],
            "properties": properties.encode(),
            "body": b"x" * chance.randrange(1, 120),
            "storeTimestamp": 1_650_000_000_000 + number,
        }
        one = record(at, **fields)
        if at % FILE_SIZE + len(one) + 8 > FILE_SIZE:
            files[-1] += blank(FILE_SIZE - at % FILE_SIZE)
            at = FILE_SIZE * len(files)
            files.append(bytearray())
            one = record(at, **fields)
        files[-1] += one
        at += len(one)
        ends.update([(topic, queue_id), *((name, 0) for name in names)])
    root = folder / "store"
    (root / "commitlog").mkdir(parents=True)
    for number, data in enumerate(files):
        (root / "commitlog" / f"{number * FILE_SIZE:020d}").write_bytes(data.ljust(FILE_SIZE, b"\0"))
    (root / "config").mkdir()
    table = {
        topic: {"topicName": topic, "readQueueNums": queues, "writeQueueNums": queues, "perm": 6}
        for topic in _TOPICS
    }
    (root / "config" / "topics.json").write_text(json.dumps({"topicConfigTable": table}), "utf-8")
    rmqtool.open(root, broker_conf=conf).rebuild(folder / "made")
    for name in ("consumequeue", "index"):
        shutil.copytree(folder / "made" / name, root / name)
    return root


def lose_neighbours(root: Path, chance: random.Random, evidence: str) -> None:
    """Zero some neighbouring records, in one to four places, and lose queues."""
    log = LogCopy(root)
    places = [place for segment in log.records for place in segment]
    for _ in range(chance.choice((1, 1, 2, 4))):
        first, count = chance.randrange(len(places)), chance.choice((2, 3, 5, 9, 20, 60))
        for place in places[first : first + count]:
            log.write(place, bytes(log.head(place).total_size))
    for queue in sorted((root / "consumequeue").iterdir()):
        is_light = queue.name.startswith("%LMQ%")
        gone = {
            "all queues": False,
            "no queues": True,
            "some queues": chance.random() < 0.5,
            "no light queues": is_light,
            "light queues alone": not is_light,
        }
        if gone[evidence]:
            shutil.rmtree(queue)


def salvaged(root: Path, conf: Path, out: Path) -> None:
    """Salvage a store."""
    request = SalvageRequest((open_store(root, broker_conf=conf),), InlineEngine())
    salvage(request, out, NullProgress())
