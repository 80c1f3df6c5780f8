"""Asking real brokers: questions from a store's own log, answered by the broker that made the store."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from rmqtool.lookup.queue import places_of
from rmqtool.rows.messages import keys_of
from rmqtool.scan.record_walk import walk
from rmqtool.scan.records import Record
from rmqtool.store import open_store
from tests.broker import jvm

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from rmqtool.store import Store
    from tests.broker.stores import FixtureStore

LATEST_MS = (1 << 63) - 1
_BROKER_LIMIT = 64
_SECONDS = 240


@dataclass(frozen=True)
class Question:
    """One question to a broker; `kind` decides which other fields count: `query`, `get`, `time` or `pulls`.

    The names are those of the JSON that Java reads.
    """

    kind: str
    topic: str
    key: str = ""
    max: int = _BROKER_LIMIT
    begin: int = 0
    end: int = LATEST_MS
    queueId: int = 0
    queueOffset: int = 0
    timestamp: int = 0


@dataclass(frozen=True)
class Answered:
    """A copy of a fixture that its broker opened, answered for, and stopped cleanly."""

    fixture: FixtureStore
    root: Path
    answers: list[tuple[Question, Any]]

    def of_kind(self, kind: str) -> list[tuple[Question, Any]]:
        """Return the questions of one kind with their answers."""
        return [pair for pair in self.answers if pair[0].kind == kind]

    def open(self) -> Store:
        """Open the copy as the broker left it."""
        return open_store(self.root, broker_conf=self.fixture.conf)


def ask_brokers(fixtures: list[FixtureStore], folder: Path) -> list[Answered]:
    """Let the brokers of one version answer everything about copies of their stores, in one JVM."""
    asked = []
    for fixture in fixtures:
        root = fixture.copy_to(folder / fixture.name)
        asked.append((fixture, root, list(_questions(root, fixture))))
    stores = [(jvm.Found(root, fixture.conf), questions) for fixture, root, questions in asked]
    answers = ask(fixtures[0].version, stores, folder)
    return [
        Answered(fixture, root, list(zip(questions, found, strict=True)))
        for (fixture, root, questions), found in zip(asked, answers, strict=True)
    ]


def ask(
    version: jvm.Version, stores: list[tuple[jvm.Found, list[Question]]], folder: Path
) -> list[list[Any]]:
    """Let brokers answer questions about stores, which they change, in one JVM."""
    words: list[Path] = []
    for number, (store, questions) in enumerate(stores):
        file = folder / f"{number}-{version}.questions"
        file.write_text("".join(json.dumps(asdict(one)) + "\n" for one in questions), "utf-8")
        words += [store.root, store.conf, file]
    return [row["answers"] for row in jvm.judge(version, "answer", *words, timeout=_SECONDS)]


def _questions(root: Path, fixture: FixtureStore) -> Iterator[Question]:
    store = open_store(root, broker_conf=fixture.conf)
    records = [event for event in walk(store.commitlog.segments) if isinstance(event, Record)]
    store.close()
    yield from _of_keys(records)
    yield from _of_queues(records)


def _of_keys(records: list[Record]) -> Iterator[Question]:
    """Ask for every key at any time, at the time of its first message, and around it; and for none."""
    first_ms: dict[tuple[str, str], int] = {}
    for record in records:
        for key in keys_of(record):
            first_ms.setdefault((record.topic, key), record.head.store_timestamp_ms)
    for (topic, key), time_ms in first_ms.items():
        yield Question("query", topic, key)
        yield Question("query", topic, key, max=1)
        yield Question("query", topic, key, begin=time_ms, end=time_ms + 1)
        yield Question("query", topic, key, begin=time_ms - 1500, end=time_ms - 1)
        yield Question("query", topic, f"no {key}")


def _of_queues(records: list[Record]) -> Iterator[Question]:
    """Ask every queue for every offset up to two after its end, and for every store time and around it."""
    offsets: dict[tuple[str, int], set[int]] = {}
    times: dict[tuple[str, int], set[int]] = {}
    for record in records:
        for topic, queue_id, queue_offset in places_of(record):
            known = offsets.setdefault((topic, queue_id), set())
            known |= {queue_offset, queue_offset + 1, queue_offset + 2, max(queue_offset - 1, 0)}
            time_ms = record.head.store_timestamp_ms
            times.setdefault((topic, queue_id), set()).update((time_ms - 1, time_ms, time_ms + 1))
    for (topic, queue_id), known in offsets.items():
        for offset in sorted(known):
            yield Question("get", topic, queueId=queue_id, queueOffset=offset)
        for time_ms in sorted(times[topic, queue_id]):
            yield Question("time", topic, queueId=queue_id, timestamp=time_ms)
