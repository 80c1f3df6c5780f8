"""Light queues of a salvaged store: their units follow the log in order, without gaps, as the report says."""

from __future__ import annotations

import io
import random
import shutil
import struct
from collections import defaultdict
from typing import TYPE_CHECKING

import pytest

import rmqtool
from rmqtool.report.outcome_text import salvage_text
from rmqtool.report.text_report import TextReport
from tests.broker.log_damage import LogCopy
from tests.salvage.campaign import faults, lost_lines, places_in, records_of
from tests.salvage.light_stores import EVIDENCE, lose_neighbours, write_store
from tests.store.fixture_stores import fixture

if TYPE_CHECKING:
    from pathlib import Path

_UNIT = struct.Struct(">qiq")


def check_light(out: Path, report: rmqtool.SalvageReport) -> set[str]:
    """Check the light queues of a result; return those of which messages moved."""
    due: defaultdict[str, list[tuple[int, int]]] = defaultdict(list)
    for place, raw in sorted(records_of(out / "commitlog").items()):
        for topic, _, offset in places_in(raw):
            if topic.startswith("%LMQ%"):
                due[topic].append((offset, place))
    moved = set()
    for topic, placed in due.items():
        files = sorted((out / "consumequeue" / topic / "0").iterdir())
        units = [_UNIT.unpack(one) for one in _chunks(b"".join(path.read_bytes() for path in files))]
        first = placed[0][0]
        have = [place for place, size, _ in units[first:] if size]
        assert have == [place for _, place in placed]
        if [offset for offset, _ in placed] != [*range(first, first + len(placed))]:
            moved.add(topic)
    assert {one.topic for one in report.moving if one.topic.startswith("%LMQ%")} == moved
    assert not any((one["topic"] or "").startswith("%LMQ%") for one in lost_lines(out))
    assert faults(out)[0] == []
    return moved


def _chunks(data: bytes) -> list[bytes]:
    return [data[at : at + _UNIT.size] for at in range(0, len(data), _UNIT.size)]


@pytest.mark.few(2)
@pytest.mark.parametrize("seed", range(100, 115))
def test_neighbours_lost_in_one_hole(seed: int, tmp_path: Path) -> None:
    chance = random.Random(seed)
    queues, lights, count = chance.choice((1, 2, 4)), chance.choice((1, 3, 8)), chance.choice((90, 300))
    root = write_store(tmp_path / "made", chance, queues=queues, lights=lights, count=count)
    lose_neighbours(root, chance, EVIDENCE[seed % len(EVIDENCE)])
    conf = root.with_name("broker.conf")
    report = rmqtool.open(root, broker_conf=conf).salvage(tmp_path / "out")
    check_light(tmp_path / "out", report)
    made = rmqtool.open(tmp_path / "out", broker_conf=conf)
    assert int(made.verify().exit_status()) == 0


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
    conf = fixture(name) / "broker.conf"
    report = rmqtool.open(root, broker_conf=conf).salvage(tmp_path / "out")
    assert faults(tmp_path / "out")[0] == []
    assert report.lost.placed == 7
    made = rmqtool.open(tmp_path / "out", broker_conf=conf)
    assert int(made.verify().exit_status()) == 0


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
    light = {topic for topic, _, _ in places_in(raws[place]) if topic.startswith("%LMQ%")}
    assert check_light(out, report) == light
    assert (report.lost.proven, report.is_whole) == (0, False)
    assert "In 1 queue messages move" in report.verdict
    shown = io.StringIO()
    salvage_text(report, TextReport(shown))
    assert f"{report.moving[0].topic}/0: 1 queue offset without a record" in shown.getvalue()
