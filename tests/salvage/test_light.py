"""Tombstones of messages that stood in several light queues: in every queue they go up along the log."""

from __future__ import annotations

import io
import random
import shutil
from typing import TYPE_CHECKING, Any

import pytest

import rmqtool
from rmqtool.report.outcome_text import salvage_text
from rmqtool.report.text_report import TextReport
from rmqtool.salvage.light import _Host
from tests.broker.log_damage import LogCopy
from tests.salvage.campaign import faults, places_in
from tests.salvage.light_stores import EVIDENCE, lose_neighbours, salvaged, write_store
from tests.store.fixture_stores import fixture

if TYPE_CHECKING:
    from pathlib import Path

    from rmqtool.salvage import Lost


def _lost_neighbours(folder: Path, seed: int) -> tuple[int, int]:
    """Return how many lost messages have a tombstone, and how many none."""
    chance = random.Random(seed)
    queues, lights = chance.choice((1, 2, 4)), chance.choice((1, 3, 8))
    root = write_store(
        folder / str(seed), chance, queues=queues, lights=lights, count=chance.choice((90, 400))
    )
    evidence = EVIDENCE[seed % len(EVIDENCE)]
    lose_neighbours(root, chance, evidence)
    salvaged(root, root.with_name("broker.conf"), root.with_name("out"))
    found, counts = faults(root.with_name("out"))
    assert not found, f"seed {seed}, {evidence}: {found}"
    shutil.rmtree(root.parent)
    return counts[True], counts[False]


@pytest.mark.parametrize("seed", [0, 2])
def test_neighbours_lost_in_one_hole(seed: int, tmp_path: Path) -> None:
    placed, without = _lost_neighbours(tmp_path, seed)
    assert placed > 0 == without


@pytest.mark.full
def test_many_neighbours_lost(tmp_path: Path) -> None:
    """Where a queue's own units are gone, nothing may tell of a message that a light queue lists."""
    counts = [_lost_neighbours(tmp_path, seed) for seed in range(100, 140)]
    placed, without = (sum(one) for one in zip(*counts, strict=True))
    assert placed > 100 * without


@pytest.mark.parametrize("name", ["lmq-4.9.8", "lmq-5.5.1", "lmqtwice-5.5.1"])
@pytest.mark.parametrize("queues", [True, pytest.param(False, marks=pytest.mark.full)])
def test_neighbours_lost_in_fixtures(name: str, queues: bool, tmp_path: Path) -> None:
    papers = shutil.ignore_patterns("broker.conf", "recipe.toml", "SHA256SUMS", "reference")
    root = shutil.copytree(fixture(name), tmp_path / "store", ignore=papers)
    log = LogCopy(root)
    for place in log.records[0][2:9]:
        log.write(place, bytes(log.head(place).total_size))
    if not queues:
        shutil.rmtree(root / "consumequeue")
    salvaged(root, fixture(name) / "broker.conf", tmp_path / "out")
    found, counts = faults(tmp_path / "out")
    assert (found, counts[True] > 0) == ([], True)


@pytest.mark.parametrize("queues", [True, False])
@pytest.mark.parametrize("wrong", ["MULTi", "%LLQ%"])
def test_a_record_that_no_longer_says_its_light_queue_moves_others_with_a_word(
    tmp_path: Path, wrong: str, *, queues: bool
) -> None:
    root = write_store(tmp_path / "made", random.Random(1), queues=1, lights=2, count=60)
    log = LogCopy(root)
    raws = {place: log.read(place, log.head(place).total_size) for places in log.records for place in places}
    place = next(place for place, raw in raws.items() if raw.count(b"%LMQ%") == 1 and place > 2000)
    right = b"MULTI_QUEUE" if wrong == "MULTi" else b"%LMQ%"
    log.write(place + raws[place].index(right), wrong.encode())
    if not queues:
        shutil.rmtree(root / "consumequeue")
    out = tmp_path / "out"
    report = rmqtool.open(root, broker_conf=root.with_name("broker.conf")).salvage(out)
    light = {(topic, queue_id) for topic, queue_id, _ in places_in(raws[place]) if topic.startswith("%LMQ%")}
    assert {(one.topic, one.queue_id) for one in report.moving} == light
    assert (report.lost.proven, report.is_whole) == (0, False)
    assert "In 1 queue messages move" in report.verdict
    shown = io.StringIO()
    salvage_text(report, TextReport(shown))
    assert f"{report.moving[0].topic}/0: 1 queue offset without a record" in shown.getvalue()


def test_work_goes_with_the_number_of_lost_messages(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A hole over hundreds of messages, whose light queues are gone: not each is tried for each queue."""
    root = write_store(tmp_path / "made", random.Random(4), queues=2, lights=400, count=900)
    for queue in (root / "consumequeue").glob("%LMQ%*"):
        shutil.rmtree(queue)
    for path in sorted((root / "commitlog").iterdir())[2:16]:
        path.write_bytes(bytes(path.stat().st_size))
    tried: list[Lost] = []
    next_free = _Host.next_free

    def counted(host: _Host, light: Lost, *more: Any) -> Any:  # noqa: ANN401 - what it takes and returns
        tried.append(light)
        return next_free(host, light, *more)

    monkeypatch.setattr(_Host, "next_free", counted)
    plan = rmqtool.open(root, broker_conf=tmp_path / "made" / "broker.conf").plan_salvage(jobs=1)
    light = sum(one.count for one in plan.lost if one.in_light)
    assert light > 200
    assert len(tried) < 4 * light
