"""One store asked by several threads at once, and several stores at once."""

from __future__ import annotations

import sys
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier
from typing import TYPE_CHECKING

import pytest

import rmqtool
from rmqtool.projection import json_object
from tests.api.conftest import STORES

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

THREADS = 5
ROUNDS = 6

ASKED: list[Callable[[rmqtool.Store], object]] = [
    lambda store: store.info().queues,
    lambda store: list(store.messages()),
    lambda store: list(store.messages(topic="TopicTest", queue=0, from_queue_offset=3)),
    lambda store: list(store.index()),
    lambda store: [(queue.max_offset, list(queue.units())) for queue in store.queues()],
    lambda store: list(store.query(topic="TopicTest", key="hot")),
    lambda store: list(store.query(topic="TopicTest", key="hot", scan=True)),
    lambda store: store.verify(level=2, jobs=1).findings.counts,
    lambda store: json_object(store.predict_recovery()),
    lambda store: store.diff(store).is_equal(),
]


@pytest.fixture(autouse=True)
def _switch_often() -> Iterator[None]:
    """Let threads take turns as often as Python can."""
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    yield
    sys.setswitchinterval(interval)


@pytest.mark.full
def test_one_store_for_all_threads(plain: Path) -> None:
    """Every thread asks something else first; each closes files that others read."""
    expected = [ask(rmqtool.open(plain)) for ask in ASKED]
    store, together = rmqtool.open(plain), Barrier(THREADS)

    def ask_all(first: int) -> list[object]:
        together.wait(60)
        order = [(first + number) % len(ASKED) for number in range(len(ASKED))]
        answers = {number: ASKED[number](store) for number in order}
        return [answers[number] for number in range(len(ASKED))]

    with ThreadPoolExecutor(THREADS) as pool:
        for answers in pool.map(ask_all, range(0, len(ASKED), len(ASKED) // THREADS)):
            assert answers == expected


@pytest.mark.full
def test_several_stores_at_once() -> None:
    paths = [STORES / name for name in ("plain-4.9.8", "plain-5.3.3", "batchcq-5.3.3", "ext-5.3.3")]

    def look(path: Path) -> tuple[object, ...]:
        with rmqtool.open(path) as store:
            return store.info().queues, [one.msg_id for one in store], len(store.index())

    expected = [look(path) for path in paths]
    with ThreadPoolExecutor(8) as pool:
        assert list(pool.map(look, paths * ROUNDS)) == expected * ROUNDS
