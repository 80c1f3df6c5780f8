"""What ``--lost`` lists is what a broker serves before its start, and not after it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from rmqtool.recovery import LostMessage, predict_recovery
from rmqtool.releases import RELEASES
from rmqtool.store import open_store
from tests.broker import jvm
from tests.broker.stores import fixture_store
from tests.damage.lost_model import units_of

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.broker

Served = set[tuple[str, int, int]]


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


def served(root: Path, row: jvm.Row | None = None) -> Served:
    """Return topics, queues and physical offsets that units lead to; of a broker, below its max offsets."""
    found = units_of(root)
    if row is not None:
        limits = {(one["topic"], one["queueId"]): one["max"] for one in row["queues"]}
        found = {one for one in found if one.number < limits.get((one.topic, one.queue_id), 0)}
    return {(one.topic, one.queue_id, one.physical_offset) for one in found}


@pytest.mark.parametrize("version", jvm.VERSIONS)
@pytest.mark.parametrize("edit", [flip_late_body, cut_a_queue, lose_a_file], ids=lambda one: one.__name__)
@pytest.mark.parametrize("unclean", [False, True])
def test_the_list_is_what_a_start_takes_away(
    version: jvm.Version, edit: object, unclean: bool, tmp_path: Path
) -> None:
    assert callable(edit)
    store = fixture_store(f"plain-{version}")
    root = store.copy_to(tmp_path / "store")
    edit(root)
    if unclean:
        (root / "abort").touch()
    told: list[LostMessage] = []
    prediction = predict_recovery(open_store(root, broker_conf=store.conf), RELEASES[version], told.append)
    before = served(root)
    (row,) = jvm.judge(version, "recover", root, store.conf)
    assert prediction.cut is not None
    after = {place for place in served(root, row) if place[2] < prediction.cut.physical_offset}
    log = open_store(root, broker_conf=store.conf).commitlog
    after = {place for place in after if log.segment_at(place[2]) is not None}
    listed = {(one.topic, one.queue_id, one.physical_offset) for one in told}
    assert not listed & after
    assert before - after == listed & before
    if edit is cut_a_queue:
        assert {one.reason.value for one in told} <= {"no-unit"}
