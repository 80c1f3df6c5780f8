"""What ``--lost`` lists is what a broker serves before its start, and not after it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import pytest

from rmqtool.recovery.predict import predict_recovery
from rmqtool.releases import RELEASES
from rmqtool.store import open_store
from tests.broker import jvm
from tests.broker.stores import fixture_store
from tests.damage.lost_model import units_of

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from rmqtool.account.lost import LostMessage

pytestmark = pytest.mark.broker

Served = set[tuple[str, int, int]]


@dataclass(frozen=True)
class Case:
    """What befalls a store before its start."""

    edit: Callable[[Path], None]
    unclean: bool


def flip_late_body(root: Path) -> None:
    """Spoil a byte in the middle of the log's last file."""
    file = sorted((root / "commitlog").iterdir())[-1]
    data = bytearray(file.read_bytes())
    used = len(bytes(data).rstrip(b"\0"))
    data[used // 2] ^= 1
    file.write_bytes(data)


def cut_a_queue(root: Path) -> None:
    """Take away the units of a queue."""
    for file in (root / "consumequeue" / "TopicTest" / "0").iterdir():
        file.unlink()


def lose_a_file(root: Path) -> None:
    """Take away the last file of the log but one."""
    sorted((root / "commitlog").iterdir())[-2].unlink()


EDITS = (flip_late_body, cut_a_queue, lose_a_file)


def served(root: Path, row: jvm.Row | None = None) -> Served:
    """Return topics, queues and physical offsets that units point to; of a broker, below its max offsets."""
    found = units_of(root)
    if row is not None:
        limits = {(one["topic"], one["queueId"]): one["max"] for one in row["queues"]}
        found = {one for one in found if one.number < limits.get((one.topic, one.queue_id), 0)}
    return {(one.topic, one.queue_id, one.physical_offset) for one in found}


@pytest.mark.parametrize("version", jvm.VERSIONS)
def test_the_list_is_what_a_start_takes_away(version: jvm.Version, tmp_path: Path) -> None:
    cases = [Case(edit, unclean) for edit in EDITS for unclean in (False, True)]
    whole = fixture_store(f"plain-{version}")
    stores = [jvm.Found(whole.copy_to(tmp_path / str(number)), whole.conf) for number in range(len(cases))]
    expected = [foretold(case, store, version) for case, store in zip(cases, stores, strict=True)]
    rows = jvm.recover(version, stores)
    for case, store, row, (told, before, cut) in zip(cases, stores, rows, expected, strict=True):
        after = {place for place in served(store.root, row) if place[2] < cut}
        log = open_store(store.root, broker_conf=store.conf).commitlog
        after = {place for place in after if log.segment_at(place[2]) is not None}
        listed = {(one.topic, one.queue_id, one.physical_offset) for one in told}
        assert not listed & after, case
        assert before - after == listed & before, case
        if case.edit is cut_a_queue:
            assert {one.reason.value for one in told} <= {"no-unit"}, case


def foretold(case: Case, store: jvm.Found, version: jvm.Version) -> tuple[list[LostMessage], Served, int]:
    """Damage a store; return what its start is said to lose, what it served, and where the log will end."""
    case.edit(store.root)
    if case.unclean:
        (store.root / "abort").touch()
    told: list[LostMessage] = []
    opened = open_store(store.root, broker_conf=store.conf)
    prediction = predict_recovery(opened, RELEASES[version], told.append)
    assert prediction.cut is not None
    return told, served(store.root), prediction.cut.physical_offset
