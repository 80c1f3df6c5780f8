"""Random damage of index and queues: what is found is true, and what is missed of an answer is said.

``RMQTOOL_FUZZ=1000`` tries so many damages of each store instead of a few, other ones with every count.
"""

from __future__ import annotations

import os
import random
import shutil
from collections import defaultdict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pytest

from rmqtool.commands.query import KeyQuestion, Query, QueryRequest
from rmqtool.lookup.index import is_rolled_back
from rmqtool.lookup.queue import places_of
from rmqtool.report.console import Console
from rmqtool.rows.messages import keys_of
from rmqtool.scan.record_walk import walk
from rmqtool.scan.records import Record
from rmqtool.store import open_store
from tests.store.fixture_stores import fixture

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from rmqtool.store import Store

    Unit = tuple[int, int, int]

COUNT = int(os.environ.get("RMQTOOL_FUZZ", "12"))
STORES = [
    "batchcq-5.3.3",
    "collisions-5.3.3",
    "expiredhead-4.9.8",
    "indexroll-4.9.8",
    "lmq-4.9.8",
    "transaction-5.3.3",
]
# A link that leads to another item of its slot, a slot likewise, or one in use that was emptied in a file
# whose count of slots is that of a broker up to 4.7.0: only the log could tell.
LOOKS_SOUND = {"flip a bit", "flip bits", "copy a block", "zero a block"}


class Listener(Console):
    """Counts warnings and prints nothing."""

    def __init__(self) -> None:
        super().__init__(quiet=True)
        self.warnings: list[str] = []

    def warn(self, sentence: str) -> None:
        self.warnings.append(sentence)


@dataclass
class Truth:
    """What the log of a store holds: by key, and by queue as offset, place and store time."""

    keys: dict[KeyQuestion, list[int]] = field(default_factory=lambda: defaultdict(list))
    queues: dict[tuple[str, int], list[tuple[int, int, int]]] = field(
        default_factory=lambda: defaultdict(list)
    )

    @classmethod
    def of(cls, root: Path) -> Truth:
        store, truth = opened(root), cls()
        for record in (event for event in walk(store.commitlog.segments) if isinstance(event, Record)):
            unique = int("UNIQ_KEY" in record.properties)
            for number, key in enumerate([] if is_rolled_back(record) else keys_of(record)):
                offsets = truth.keys[KeyQuestion(record.topic, key, unique=number < unique)]
                if record.physical_offset not in offsets:  # a key may be repeated
                    offsets.append(record.physical_offset)
            for place in places_of(record):
                entry = place.queue_offset, record.physical_offset, record.head.store_timestamp_ms
                truth.queues[place.topic, place.queue_id].append(entry)
        store.close()
        return truth


def opened(root: Path) -> Store:
    return open_store(root, broker_conf=root / "broker.conf")


def spots(data: bytes, chance: random.Random) -> Iterator[int]:
    """Yield positions, where bytes are not zero if possible: an index is mostly empty."""
    used = [at for at, byte in enumerate(data) if byte] or [0]
    while True:
        yield chance.choice(used)


def flipped(data: bytes, chance: random.Random, count: int) -> bytes:
    changed = bytearray(data)
    for at, _ in zip(spots(data, chance), range(count), strict=False):
        changed[at] ^= 1 << chance.randrange(8)
    return bytes(changed)


def overwritten(data: bytes, chance: random.Random, make: Callable[[int], bytes]) -> bytes:
    at, size = next(spots(data, chance)), chance.choice((4, 20, 100, 512))
    piece = make(len(data[at : at + size]))
    return data[:at] + piece + data[at + len(piece) :]


def copied(data: bytes, chance: random.Random) -> bytes:
    at = next(spots(data, chance))
    return overwritten(data, chance, lambda size: data[at : at + size].ljust(size, b"\0"))


DAMAGES: dict[str, Callable[[bytes, random.Random], bytes]] = {
    "flip a bit": lambda data, chance: flipped(data, chance, 1),
    "flip bits": lambda data, chance: flipped(data, chance, 20),
    "zero a block": lambda data, chance: overwritten(data, chance, bytes),
    "overwrite a block": lambda data, chance: overwritten(data, chance, chance.randbytes),
    "copy a block": copied,
    "cut": lambda data, chance: data[: chance.randrange(len(data))],
    "extend": lambda data, chance: data + chance.randbytes(chance.choice((1, 20, 4096))),
    "empty": lambda _data, _chance: b"",
}


@dataclass
class Damaged:
    """A store with damage, which is mended at the end."""

    files: list[Path]
    chance: random.Random
    how: str = ""
    kept: dict[Path, bytes] = field(default_factory=dict)

    def __enter__(self) -> Damaged:
        self.how = self.chance.choice([*DAMAGES, "delete", "swap"])
        one, other = self.chance.choice(self.files), self.chance.choice(self.files)
        self.kept = {file: file.read_bytes() for file in (one, other)}
        if self.how == "delete":
            one.unlink()
        elif self.how == "swap":
            one.write_bytes(self.kept[other])
            other.write_bytes(self.kept[one])
        else:
            one.write_bytes(DAMAGES[self.how](self.kept[one], self.chance))
        self.hit = one
        return self

    def __exit__(self, *_: object) -> None:
        for file, data in self.kept.items():
            file.write_bytes(data)


@pytest.fixture(scope="module", params=STORES)
def copy(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("fuzz") / "store"
    shutil.copytree(fixture(request.param), root)
    return root


def check(
    store: Store,
    expected: list[int],
    *,
    is_excused: bool = False,
    **question: Any,  # noqa: ANN401 - any field of a question
) -> None:
    """An answer holds nothing untrue, nothing twice, and not less without a word; an empty one is said."""
    listener = Listener()
    query = Query(store, QueryRequest(**question), listener)
    found = [row.physical_offset for row in query.run()]
    assert set(found) <= set(expected), question
    assert len(set(found)) == len(found), question
    is_said = bool(listener.warnings) or not found or query.unanswered is not None
    assert sorted(found) == sorted(expected) or is_said or is_excused, question


def test_a_damaged_index(copy: Path) -> None:
    truth, chance = Truth.of(copy), random.Random(COUNT)
    files = sorted((copy / "index").iterdir())
    for _ in range(COUNT):
        with Damaged(files, chance) as damage:
            store, questions = opened(copy), list(truth.keys.items())
            for question, expected in chance.sample(questions, min(12, len(questions))):
                words = {"unique_key" if question.unique else "key": question.key, "topic": question.topic}
                check(store, expected, is_excused=damage.how in LOOKS_SOUND, **words)
            store.close()


def test_damaged_queues(copy: Path) -> None:
    truth, chance = Truth.of(copy), random.Random(COUNT)
    kinds = ("consumequeue", "batchconsumequeue")
    files = [file for kind in kinds for file in sorted((copy / kind).rglob("*")) if file.is_file()]
    for _ in range(COUNT):
        with Damaged(files, chance) as damage:
            topic, queue_id = damage.hit.parent.parent.name, int(damage.hit.parent.name)
            own, store = truth.queues[topic, queue_id], opened(copy)
            place: dict[str, Any] = {"topic": topic, "queue_id": queue_id}
            for offset, physical_offset, begin_ms in chance.sample(own, min(5, len(own))):
                check(store, [physical_offset], queue_offset=offset, max_messages=1, **place)
                rest = [one for number, one, _ in own if number >= offset]
                check(store, rest, queue_offset=offset, **place)
                end_ms = chance.choice((None, chance.choice(own)[2]))
                inside = [one for _, one, ms in own if begin_ms <= ms and (end_ms is None or ms <= end_ms)]
                check(store, inside, begin_ms=begin_ms, end_ms=end_ms, **place)
            store.close()
